//! Calls on tensors that the ranks of a mesh hold together: one rank's calls on its parts.
//!
//! Long because it has all that a call on such tensors passes, from its operands to its names.
//!
//! Every rank plans each call of the program, also outside the mesh, so all know the specs and
//! shardings of all tensors; a rank of the mesh makes the calls of the plan. The plans are those of
//! a machine's global tensors ([`millstream_ops::boxing`]).

use std::collections::{BTreeMap, BTreeSet};

use millstream_ops::boxing::{self, Operand, Plan};
use millstream_ops::formula::{Emitter, Symbol};
use millstream_ops::{CallSpec, OpRegistry};
use millstream_types::{Attrs, Error, Mesh, Result as Made, Sharding, TensorSpec};

use super::calls::{PartCalls, WholeCalls};
use super::part::Declared;
use super::walk::Walk;
use crate::error::{Result, wrap};
use crate::program::{Action, Call, Held, Program, REDISTRIBUTE, Results, ValueRef};
use crate::source::Span;

/// A tensor that the ranks of a mesh hold.
#[derive(Clone)]
pub(super) struct Global {
    pub(super) spec: TensorSpec,
    pub(super) sharding: Sharding,
    /// The part of the rank of the walk, if it has one.
    pub(super) part: Option<(ValueRef, TensorSpec)>,
    /// The number of the memory that it would be in on one rank.
    pub(super) memory: usize,
}

/// The tensors of meshes during a walk, those of the program or of an executable.
#[derive(Default)]
pub(super) struct Globals {
    pub(super) of: BTreeMap<ValueRef, Global>,
    memories: usize,
    /// The memories that are several on the ranks, since a base was redistributed for a view.
    pub(super) divided: BTreeSet<usize>,
    /// The memories that calls have changed.
    pub(super) written: BTreeSet<usize>,
}

impl Globals {
    /// Begins a tensor of the file.
    pub(super) fn declare(
        &mut self,
        value: ValueRef,
        spec: &TensorSpec,
        sharding: Sharding,
        declared: Option<&Declared>,
    ) {
        let part = declared.map(|declared| (value, declared.spec.clone()));
        let memory = self.memory();
        self.of.insert(value, Global { spec: spec.clone(), sharding, part, memory });
    }

    /// Returns this rank's part of a tensor of a mesh; `None` if it is none, or the rank has none.
    pub(super) fn part(&self, value: ValueRef) -> Option<ValueRef> {
        self.of.get(&value)?.part.as_ref().map(|(part, _)| *part)
    }

    /// Ends a name. Returns the part to release, if no other name is of it.
    pub(super) fn release(&mut self, value: ValueRef) -> Option<ValueRef> {
        let (part, _) = self.of.remove(&value)?.part?;
        let is_shared = |other: &Global| other.part.as_ref().is_some_and(|(of, _)| *of == part);
        (!self.of.values().any(is_shared)).then_some(part)
    }

    /// Begins a memory.
    pub(super) fn memory(&mut self) -> usize {
        self.memories += 1;
        self.memories
    }

    /// Refuses a change of a tensor whose memory is one on one rank and several on the mesh.
    pub(super) fn check_change(&self, op: &str, global: &Global) -> Made<()> {
        if !self.divided.contains(&global.memory) {
            return Ok(());
        }
        let message = format!(
            "{} shares memory with a view on one rank, and not on a mesh, where the base was \
             redistributed for the view; redistribute the base before both",
            global.spec.brief()
        );
        Err(Error::Op { op: op.to_owned(), message })
    }
}

/// The place of a call, which all calls made for it have.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) span: Span,
    pub(super) call: &'a Call,
}

impl Walk<'_> {
    /// Returns whether a call is one of a mesh, as all calls of an executable are.
    pub(super) fn is_global(&self, call: &Call) -> bool {
        let into = match &call.results {
            Results::Into(targets) => &targets[..],
            Results::New(_) => &[],
        };
        self.within.is_some()
            || call.held.is_some()
            || call.inputs.iter().chain(into).any(|value| self.globals.of.contains_key(value))
    }

    /// Makes the calls of this rank for a call on tensors of a mesh.
    pub(super) fn global_call(&mut self, span: Span, call: &Call) -> Result<()> {
        let program = self.program;
        let at = |e: &Error| wrap(&program.source, call.op_span, e);
        if let Some(placed) = &call.ranks {
            let message = "a call on tensors of a mesh is made by the ranks of the mesh";
            return Err(program.error(placed.span, message).help("leave out 'ranks'"));
        }
        let inputs = call.inputs.iter().map(|value| self.operand(call, *value));
        let Some(inputs) = inputs.collect::<Result<Option<Vec<Global>>>>()? else {
            // What follows from an earlier mistake is not reported again.
            return Ok(());
        };
        let mesh = self.mesh(call, &inputs)?;
        let wanted = match &call.held {
            None => None,
            Some(Held { sbp, span, .. }) => {
                let made = Sharding::new(&mesh, sbp.iter().copied());
                Some(made.map_err(|e| wrap(&program.source, *span, &e))?)
            }
        };
        let begin = self.part.statements.len();
        let first_unnamed = self.part.unnamed.len();
        let site = Site { span, call };
        let made = if call.op == REDISTRIBUTE {
            let to = wanted.as_ref().ok_or_else(|| program.error(span, "'sbp' is missing"))?;
            let moved = self.moved(site, &inputs[0], to, true).map_err(|e| at(&e))?;
            vec![moved]
        } else {
            let mut made = self
                .made(site, &mesh, &call.op, &inputs, &call.attrs, wanted.as_ref())
                .map_err(|e| at(&e))?;
            if let (Some(wanted), Some(first)) = (&wanted, made.first_mut()) {
                *first = self.moved(site, first, wanted, false).map_err(|e| at(&e))?;
            }
            made
        };
        match &call.results {
            Results::New(names) => {
                if names.len() > made.len() {
                    let (op, made, named) = (&call.op, made.len(), names.len());
                    let message = format!("{op} gives {made} result(s), and 'out' names {named}");
                    return Err(program.error(span, message));
                }
                for (name, global) in names.iter().zip(made) {
                    self.name(*name, global, begin, first_unnamed);
                }
            }
            Results::Into(targets) => {
                for (target, global) in targets.iter().zip(made) {
                    let Some(target) = self.globals.of.get(target).cloned() else {
                        let message = "a result of a mesh goes into a tensor of a mesh";
                        return Err(program.error(span, message));
                    };
                    if target.sharding.mesh() != &mesh {
                        let on = target.sharding.mesh();
                        let message =
                            format!("{} on mesh {mesh}, into a tensor of mesh {on}", call.op);
                        let error = program.error(call.op_span, message);
                        return Err(error.help("redistribute the result to the tensor's mesh"));
                    }
                    let inputs = [target, global];
                    let copied = self.made(site, &mesh, "copy_", &inputs, &Attrs::new(), None);
                    copied.map_err(|e| at(&e))?;
                }
            }
        }
        self.release_unnamed(span, begin, first_unnamed);
        Ok(())
    }

    /// Returns an operand; none if it follows from an earlier mistake.
    fn operand(&self, call: &Call, value: ValueRef) -> Result<Option<Global>> {
        if let Some(global) = self.globals.of.get(&value) {
            return Ok(Some(global.clone()));
        }
        if self.held(value).is_none() {
            return Ok(None);
        }
        let name = &self.program.value(value).name;
        let message = format!("{}: '{name}' is not held by a mesh, and others are", call.op);
        let error = self.program.error(call.op_span, message);
        Err(error.help("declare it with a 'mesh' and an 'sbp'"))
    }

    /// Returns the mesh of a call.
    fn mesh(&self, call: &Call, inputs: &[Global]) -> Result<Mesh> {
        let program = self.program;
        let given = call.held.as_ref().and_then(|held| held.mesh.as_ref()).map(|(_, mesh)| mesh);
        if call.op == REDISTRIBUTE
            && let Some(mesh) = given
        {
            return self.known_ranks(mesh, call.op_span).map(|()| mesh.clone());
        }
        let Some(first) = inputs.first().map(|global| global.sharding.mesh()).or(given) else {
            let error = program.error(call.op_span, "a call without operands needs a 'mesh'");
            return Err(error.help("give the mesh that holds its result"));
        };
        let of_input = inputs.iter().map(|global| global.sharding.mesh());
        let other = of_input.chain(given).position(|mesh| mesh != first);
        if let Some(other) = other {
            let named = |k: usize| match call.inputs.get(k) {
                Some(value) => format!("'{}'", program.value(*value).name),
                None => "the result".to_owned(),
            };
            let of = |k: usize| inputs.get(k).map(|global| global.sharding.mesh()).or(given);
            let on = of(other).map(ToString::to_string).unwrap_or_default();
            let message =
                format!("{}: {} on mesh {first}, {} on mesh {on}", call.op, named(0), named(other));
            let error = program.error(call.op_span, message);
            return Err(error.help("redistribute one of them to the other's mesh"));
        }
        self.known_ranks(first, call.op_span).map(|()| first.clone())
    }

    /// Refuses a mesh with ranks that the program does not have.
    pub(super) fn known_ranks(&self, mesh: &Mesh, span: Span) -> Result<()> {
        let Some(unknown) = mesh.ranks().iter().find(|rank| !self.all.contains(rank)) else {
            return Ok(());
        };
        let message =
            format!("mesh {mesh} names rank {unknown}, and the program has {}", self.all.len());
        let needed = mesh.ranks().iter().max().map_or(1, |most| u64::from(*most) + 1);
        let help = format!("run it on more: --ranks {needed}, or mpirun -n {needed}");
        Err(self.program.error(span, message).help(help))
    }

    /// Makes the calls of an op, or of a composite.
    pub(super) fn made(
        &mut self,
        site: Site<'_>,
        mesh: &Mesh,
        op: &str,
        inputs: &[Global],
        attrs: &Attrs,
        wanted: Option<&Sharding>,
    ) -> Made<Vec<Global>> {
        let ops: &OpRegistry = self.ops;
        if let Some(composite) = ops.composite(op) {
            let given: Vec<Symbol> = (0..inputs.len()).map(Symbol).collect();
            let mut calls = WholeCalls { walk: self, site, mesh, symbols: inputs.to_vec() };
            let made = composite.expand(&mut calls, &given, attrs)?;
            return Ok(made.into_iter().map(|symbol| calls.symbols[symbol.0].clone()).collect());
        }
        let known = ops
            .get(ops.id(op)?)
            .ok_or_else(|| Error::Internal { message: format!("no schema of '{op}'") })?;
        let operands: Vec<Operand<'_>> = inputs
            .iter()
            .map(|global| Operand { spec: &global.spec, sharding: &global.sharding })
            .collect();
        let plan = Plan::of(&**known, attrs, mesh, &operands, wanted, None)?;
        let specs: Vec<TensorSpec> = inputs.iter().map(|global| global.spec.clone()).collect();
        let signature = known.check(CallSpec { inputs: &specs, attrs })?;
        let written = inputs.iter().zip(&signature.accesses).filter(|(_, a)| a.writes());
        for (global, _) in written {
            self.globals.check_change(op, global)?;
            self.globals.written.insert(global.memory);
        }
        let mut parts = None;
        if let Some(at) = mesh.coordinates(self.rank) {
            let symbols: Option<Vec<(ValueRef, TensorSpec)>> =
                inputs.iter().map(|global| global.part.clone()).collect();
            let symbols = symbols.ok_or_else(|| Error::Internal {
                message: "a rank of the mesh has no part".to_owned(),
            })?;
            let given: Vec<Symbol> = (0..symbols.len()).map(Symbol).collect();
            let mut calls = PartCalls { walk: self, site, symbols };
            let made = plan.calls(&at, &mut calls, &given)?;
            let made = made.into_iter().map(|symbol| calls.symbols[symbol.0].clone());
            parts = Some(made.collect::<Vec<_>>());
        }
        let mut all = Vec::new();
        for (k, result) in plan.results.iter().enumerate() {
            let part = parts.as_ref().map(|parts| parts[k].clone());
            let memory = match (result.same, result.view_of) {
                (Some(of), _) => inputs[of].memory,
                (None, Some(of)) => {
                    if result.is_copied_view {
                        self.globals.divided.insert(inputs[of].memory);
                    }
                    inputs[of].memory
                }
                (None, None) => self.globals.memory(),
            };
            let (spec, sharding) = (result.spec.clone(), result.sharding.clone());
            all.push(Global { spec, sharding, part, memory });
        }
        Ok(all)
    }

    /// Returns a tensor as it is held afterwards; a new one if `is_new`, or else itself where
    /// nothing changes.
    fn moved(&mut self, site: Site<'_>, of: &Global, to: &Sharding, is_new: bool) -> Made<Global> {
        if of.sharding == *to && !is_new {
            return Ok(of.clone());
        }
        let spec = TensorSpec::contiguous(of.spec.dtype, of.spec.shape())?;
        let part = match of.sharding.mesh() == to.mesh() {
            true => self.follow(site, of, to)?,
            false => self.across(site, of, to)?,
        };
        let memory = self.globals.memory();
        Ok(Global { spec, sharding: to.clone(), part, memory })
    }

    /// Makes the calls of a path on one mesh.
    fn follow(
        &mut self,
        site: Site<'_>,
        of: &Global,
        to: &Sharding,
    ) -> Made<Option<(ValueRef, TensorSpec)>> {
        let path = boxing::between(&of.spec, &of.sharding, to)?;
        let (Some(at), Some(part)) = (to.mesh().coordinates(self.rank), of.part.clone()) else {
            return Ok(None);
        };
        let own = part.0;
        let mut calls = PartCalls { walk: self, site, symbols: vec![part] };
        let mut moved = Symbol(0);
        for step in &path.steps {
            moved = boxing::calls(step, of.spec.shape(), &at, &mut calls, moved)?;
        }
        if calls.symbols[moved.0].0 == own {
            moved = calls.call("copy", &[moved], Attrs::new())?[0];
        }
        Ok(Some(calls.symbols[moved.0].clone()))
    }

    /// Makes the calls of a move to another mesh.
    fn across(
        &mut self,
        site: Site<'_>,
        of: &Global,
        to: &Sharding,
    ) -> Made<Option<(ValueRef, TensorSpec)>> {
        let (from, target) = (boxing::reduced(&of.sharding)?, boxing::reduced(to)?);
        let mut source = of.clone();
        if from != of.sharding {
            source.part = self.follow(site, of, &from)?;
        }
        let rank = self.rank;
        let shape = of.spec.shape().to_vec();
        let mut calls = PartCalls { walk: self, site, symbols: source.part.into_iter().collect() };
        let part = (!calls.symbols.is_empty()).then_some(Symbol(0));
        let made = boxing::exchange(&mut calls, rank, of.spec.dtype, &shape, &from, &target, part)?;
        let Some(made) = made else { return Ok(None) };
        let (value, spec) = calls.symbols[made.0].clone();
        let whole = TensorSpec::contiguous(of.spec.dtype, &shape)?;
        let memory = self.globals.memory();
        let held = Global { spec: whole, sharding: target, part: Some((value, spec)), memory };
        if held.sharding == *to {
            return Ok(held.part);
        }
        self.follow(site, &held, to)
    }

    /// Gives a result its name: its part takes it, unless that has one.
    fn name(&mut self, name: ValueRef, global: Global, begin: usize, first_unnamed: usize) {
        let mut global = global;
        let first = self.unnamed_ref(first_unnamed);
        if let Some((part, _)) = &mut global.part
            && *part >= first
            && !self.globals.of.values().any(|o| o.part.as_ref().is_some_and(|p| p.0 == *part))
        {
            let rename = |value: &mut ValueRef| {
                if *value == *part {
                    *value = name;
                }
            };
            for statement in &mut self.part.statements[begin..] {
                super::part::renumber(&mut statement.action, rename);
            }
            *part = name;
        }
        self.globals.of.insert(name, global);
    }

    /// Returns the number of a value that the program does not name.
    pub(super) fn unnamed_ref(&self, unnamed: usize) -> ValueRef {
        ValueRef((self.program.values.len() + unnamed) as u32)
    }

    /// Releases the values that are left of the calls of a statement.
    fn release_unnamed(&mut self, span: Span, begin: usize, first_unnamed: usize) {
        let first = self.unnamed_ref(first_unnamed);
        let mut left: BTreeSet<ValueRef> = BTreeSet::new();
        for statement in &self.part.statements[begin..] {
            if let Action::Call(call) = &statement.action
                && let Results::New(made) = &call.results
            {
                left.extend(made.iter().filter(|value| **value >= first));
            }
        }
        let named: BTreeSet<ValueRef> =
            self.globals.of.values().filter_map(|g| g.part.as_ref().map(|p| p.0)).collect();
        left.retain(|value| !named.contains(value) && !self.aliases.contains(value));
        if !left.is_empty() {
            self.push(span, Action::Release(left.into_iter().collect()));
        }
    }

    /// Returns the value to compare with an output: all elements, on the ranks of the mesh.
    pub(super) fn read_out(&mut self, span: Span, value: ValueRef) -> Result<Option<ValueRef>> {
        let Some(global) = self.globals.of.get(&value).cloned() else { return Ok(None) };
        let call = Call::new(REDISTRIBUTE, span, vec![value], Vec::new());
        let whole = Sharding::broadcast(global.sharding.mesh());
        let moved = self.moved(Site { span, call: &call }, &global, &whole, false);
        let moved = moved.map_err(|e| wrap(&self.program.source, span, &e))?;
        Ok(moved.part.map(|(part, _)| part))
    }
}

/// Returns the declared sharding of a tensor of the file, or of an input of an executable.
pub(super) fn declared(program: &Program, held: &Held) -> Result<Sharding> {
    let Some((_, mesh)) = &held.mesh else {
        let error = program.error(held.span, "a tensor with an 'sbp' needs a 'mesh'");
        return Err(error);
    };
    let made = Sharding::new(mesh, held.sbp.iter().copied());
    made.map_err(|e| wrap(&program.source, held.span, &e))
}
