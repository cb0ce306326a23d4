//! The walk over a program: where each tensor lives, who has a copy, and what one rank runs.
//!
//! All ranks take the same decisions, since the walk depends on the program and the number of ranks
//! alone. So every send has its receive, in one order on all ranks, and no rank can wait for one
//! that waits for it.
//!
//! Long because it decides for every kind of statement.

use std::collections::BTreeMap;

use millstream_ops::{CallSpec, OpRegistry, OutputSpec, Signature, collective};
use millstream_types::{Access, AttrValue, Attrs, DType, Error, Mesh, StreamType, TensorSpec};

use super::global::Named;
use super::part::{Declared, Part, transfers};
use super::{PARALLEL_COUNT, PARALLEL_ID, is_parallel};
use crate::error::{Result, TraceError, wrap};
use crate::program::{
    self, Action, Body, Call, Placement, Program, Statement, StreamRef, ValueRef,
};
use crate::source::Span;

/// A tensor during the walk.
#[derive(Clone)]
pub(super) struct Held {
    /// Where it lives.
    ranks: Vec<u32>,
    /// Whether all its ranks have the same elements.
    is_equal: bool,
    /// The spec on its first rank.
    spec: TensorSpec,
    /// The number of its storage, which its views share.
    storage: usize,
    /// Other ranks that have memory for a copy, and whether the copy is that of now.
    copies: Vec<(u32, bool)>,
}

/// The result of a walk.
pub(super) struct Walked {
    pub(super) part: Part,
    pub(super) errors: Vec<TraceError>,
}

pub(super) struct Walk<'a> {
    pub(super) program: &'a Program,
    pub(super) rank: u32,
    pub(super) all: Vec<u32>,
    pub(super) ops: &'a OpRegistry,
    /// None for what is not defined, was released, or follows from a mistake.
    values: Vec<Option<Held>>,
    storages: usize,
    pub(super) part: Part,
    /// The meshes of the tensors that meshes hold.
    pub(super) meshes: BTreeMap<ValueRef, Named>,
    /// The mesh of the executable that is read, if it is one.
    pub(super) within: Option<Named>,
    /// The meshes of the executables that were read, `None` for mistakes.
    pub(super) executables: Vec<Option<Named>>,
}

/// Walks over a program, as one of so many ranks.
pub(super) fn walk(program: &Program, rank: u32, ranks: u32, ops: &OpRegistry) -> Walked {
    let values = vec![None; program.values.len()];
    let (all, part) = ((0..ranks).collect(), Part::default());
    let (storages, meshes, within, executables) = (0, BTreeMap::new(), None, Vec::new());
    let mut walk =
        Walk { program, rank, all, ops, values, storages, part, meshes, within, executables };
    let mut errors = Vec::new();
    for (k, tensor) in program.tensors.iter().enumerate() {
        if let Some(held) = &tensor.held {
            errors.extend(walk.declare(k, held).err());
            continue;
        }
        match walk.ranks_of(tensor.ranks.as_ref()) {
            Ok(ranks) => walk.values[k] = Some(walk.fresh(tensor.spec.clone(), ranks, true)),
            Err(error) => errors.push(error),
        }
    }
    for executable in &program.executables {
        let (before, mesh) = (errors.len(), walk.mesh_of(executable));
        let mesh = mesh.unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        if let Some(mesh) = &mesh {
            walk.within = Some(mesh.clone());
            walk.statements(&executable.block.statements, &mut errors);
            walk.within = None;
        }
        let statements = std::mem::take(&mut walk.part.statements);
        walk.part.executables.push(statements);
        walk.executables.push(mesh.filter(|_| errors.len() == before));
    }
    if let Body::Statements(block) = &program.body {
        walk.statements(&block.statements, &mut errors);
    }
    let outputs = program.outputs.iter();
    walk.part.outputs =
        outputs.map(|output| output.value.filter(|value| walk.is_here(*value))).collect();
    Walked { part: walk.part, errors }
}

impl Walk<'_> {
    /// Returns the ranks of a call or tensor.
    fn ranks_of(&self, placement: Option<&Placement>) -> Result<Vec<u32>> {
        let Some(Placement { ranks, span }) = placement else { return Ok(self.all.clone()) };
        let message = |rank, count: usize| {
            let s = if count == 1 { "" } else { "s" };
            format!("the program names rank {rank}, and has {count} rank{s}")
        };
        self.check_ranks(ranks, *span, message).map(|()| ranks.clone())
    }

    /// Refuses ranks that the program does not have.
    pub(super) fn check_ranks(
        &self,
        ranks: &[u32],
        span: Span,
        message: impl Fn(u32, usize) -> String,
    ) -> Result<()> {
        let unknown = ranks.iter().find(|rank| !self.all.contains(rank));
        let Some(rank) = unknown else { return Ok(()) };
        let needed = ranks.iter().max().map_or(1, |most| u64::from(*most) + 1);
        let help = format!("run it on more: --ranks {needed}, or mpirun -n {needed}");
        Err(self.program.error(span, message(*rank, self.all.len())).help(help))
    }

    /// Begins a tensor of the file that a mesh holds.
    fn declare(&mut self, index: usize, held: &program::Held) -> Result<()> {
        let spec = &self.program.tensors[index].spec;
        let sharding = self.hold(ValueRef(index as u32), spec, held)?;
        let declared = Declared::of(spec, &sharding, self.rank);
        let declared = declared.map_err(|e| wrap(&self.program.source, held.span, &e))?;
        self.part.declared.insert(index, declared);
        Ok(())
    }

    fn fresh(&mut self, spec: TensorSpec, ranks: Vec<u32>, is_equal: bool) -> Held {
        self.storages += 1;
        let is_equal = is_equal || ranks.len() == 1;
        Held { ranks, is_equal, spec, storage: self.storages, copies: Vec::new() }
    }

    pub(super) fn held(&self, value: ValueRef) -> Option<&Held> {
        self.values[value.index()].as_ref()
    }

    /// Returns whether a tensor is not defined, was released, or follows from a mistake.
    pub(super) fn is_unknown(&self, value: ValueRef) -> bool {
        !self.meshes.contains_key(&value) && self.held(value).is_none()
    }

    /// Returns whether the rank of the walk has the tensor, or a part of it.
    fn is_here(&self, value: ValueRef) -> bool {
        match self.meshes.get(&value) {
            Some((_, mesh)) => mesh.coordinates(self.rank).is_some(),
            None => self.held(value).is_some_and(|held| held.ranks.contains(&self.rank)),
        }
    }

    pub(super) fn push(&mut self, span: Span, action: Action) {
        self.part.statements.push(Statement { span, action });
    }

    pub(super) fn statements(&mut self, all: &[Statement], errors: &mut Vec<TraceError>) {
        errors.extend(all.iter().filter_map(|statement| self.statement(statement).err()));
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        let (span, program) = (statement.span, self.program);
        let lacks = |mesh: &Mesh| mesh.ranks().len() < self.all.len();
        let here = |walk: &Self, values: &[ValueRef]| -> Vec<ValueRef> {
            values.iter().copied().filter(|value| walk.is_here(*value)).collect()
        };
        match &statement.action {
            Action::Call(call) if self.is_global(call) => return self.global_call(span, call),
            Action::Call(call) => return self.call(span, call),
            Action::Release(values) => {
                let (mut released, rank) = (here(self, values), self.rank);
                for value in values {
                    let held = self.values[value.index()].take();
                    let copies = held.map(|held| held.copies).unwrap_or_default();
                    released.extend(copies.iter().find(|(of, _)| *of == rank).map(|_| *value));
                }
                if !released.is_empty() {
                    self.push(span, Action::Release(released));
                }
            }
            Action::Read(value) => {
                if self.is_here(*value) {
                    self.push(span, Action::Read(*value));
                }
            }
            Action::Touch { tensors, stream } => {
                let tensors = here(self, tensors);
                if !tensors.is_empty() {
                    self.push(span, Action::Touch { tensors, stream: *stream });
                }
            }
            Action::CriticalSection { .. } => {
                let message = "a program that names ranks has no critical sections";
                return Err(program.error(span, message).help("order the calls by their tensors"));
            }
            Action::Launch(launch) => return self.launch(span, launch),
            Action::GlobalSync if self.within.as_ref().is_some_and(|(_, on)| lacks(on)) => {
                let message = "a global_sync waits for all ranks, and the mesh has not all";
                return Err(program.error(span, message).help("call it beside the launch"));
            }
            other => self.push(span, other.clone()),
        }
        Ok(())
    }

    fn call(&mut self, span: Span, call: &Call) -> Result<()> {
        let ranks = self.ranks_of(call.ranks.as_ref())?;
        let into = call.results.targets();
        // What follows from an earlier mistake is not reported again.
        if call.inputs.iter().chain(into).any(|value| self.held(*value).is_none()) {
            return Ok(());
        }
        let is_equal = call.inputs.iter().all(|v| self.held(*v).is_some_and(|h| h.is_equal));
        let is_equal = match collective::is(&call.op) {
            true => {
                let ops = ["allreduce_", "broadcast_", "allgather_"];
                ops.contains(&&*call.op) && call.attrs.get("group").is_none()
            }
            false => is_equal && !is_parallel(call),
        };
        let signature = self.signature(call, &ranks)?;
        let written = call.inputs.iter().zip(&signature.accesses);
        let written = written.filter(|(_, access)| access.writes()).map(|(value, _)| *value);
        let written: Vec<ValueRef> = written.chain(into.iter().copied()).collect();
        for value in &written {
            self.require_home(span, call, *value, &ranks, "changes")?;
        }
        for (value, access) in call.inputs.iter().zip(&signature.accesses) {
            if *access == Access::Read {
                self.transfer(span, call, *value, &ranks)?;
            }
        }
        for value in &written {
            self.changed(*value, is_equal);
        }
        self.results(span, call, &signature, &ranks, is_equal)?;
        if ranks.contains(&self.rank) {
            let attrs = self.attrs(call, &ranks, self.rank);
            let own = Call { attrs, ranks: None, held: None, ..call.clone() };
            self.push(span, Action::Call(Box::new(own)));
        }
        Ok(())
    }

    /// Returns the signature of a call on the first of its ranks.
    fn signature(&self, call: &Call, ranks: &[u32]) -> Result<Signature> {
        let specs = call.inputs.iter().filter_map(|v| self.held(*v)).map(|h| h.spec.clone());
        let specs: Vec<TensorSpec> = specs.collect();
        let attrs = self.attrs(call, ranks, ranks[0]);
        let spec = CallSpec { inputs: &specs, attrs: &attrs };
        let signature = self.ops.id(&call.op).and_then(|id| match self.ops.get(id) {
            Some(op) => op.check(spec),
            None => Err(Error::Internal { message: format!("no schema of '{}'", call.op) }),
        });
        signature.map_err(|e| wrap(&self.program.source, call.op_span, &e))
    }

    /// Returns the arguments of a call on one of its ranks: its position and their number take the
    /// place of their names, and a collective is one of the call's ranks.
    fn attrs(&self, call: &Call, ranks: &[u32], rank: u32) -> Attrs {
        let mut attrs = call.attrs.clone();
        let id = ranks.iter().position(|of| *of == rank).unwrap_or_default();
        for (name, value) in call.attrs.iter() {
            let number = match value {
                AttrValue::Str(text) if text == PARALLEL_ID => id,
                AttrValue::Str(text) if text == PARALLEL_COUNT => ranks.len(),
                _ => continue,
            };
            attrs.set(name.to_owned(), number as i64);
        }
        let in_groups = collective::is(&call.op) && !["send", "recv_"].contains(&&*call.op);
        if in_groups && ranks.len() < self.all.len() && attrs.get("group").is_none() {
            let group = ranks.iter().map(|rank| i64::from(*rank)).collect();
            attrs.set("group", AttrValue::Ints(group));
        }
        attrs
    }

    /// Refuses a call on other ranks than those of a tensor that it changes or views.
    fn require_home(
        &self,
        span: Span,
        call: &Call,
        value: ValueRef,
        ranks: &[u32],
        does: &str,
    ) -> Result<()> {
        let Some(held) = self.held(value).filter(|held| held.ranks != ranks) else { return Ok(()) };
        let name = &self.program.value(value).name;
        let (op, on) = (&call.op, &held.ranks);
        let message = format!("{op} on ranks {ranks:?} {does} '{name}', which is on ranks {on:?}");
        let help = format!("call it on ranks {on:?}, or copy '{name}' on ranks {ranks:?} first");
        Err(self.program.error(span, message).help(help))
    }

    /// Gives the tensor to those of the ranks that neither hold it nor have a copy.
    fn transfer(&mut self, span: Span, call: &Call, value: ValueRef, to: &[u32]) -> Result<()> {
        let (program, rank) = (self.program, self.rank);
        let stream = transfers(program);
        let Some(held) = &mut self.values[value.index()] else { return Ok(()) };
        let lacking: Vec<u32> = to
            .iter()
            .filter(|to| !held.ranks.contains(to) && !held.copies.contains(&(**to, true)))
            .copied()
            .collect();
        let Some(first) = lacking.first() else { return Ok(()) };
        let (name, on) = (&program.value(value).name, &held.ranks);
        if !held.is_equal {
            let message = format!(
                "{} on rank {first} reads '{name}', of which each of ranks {on:?} has its own",
                call.op
            );
            let help =
                format!("reduce, broadcast or gather '{name}' first, or call it on its ranks");
            return Err(program.error(span, message).help(help));
        }
        if !held.spec.layout.is_contiguous() {
            let message = format!(
                "{} on rank {first} reads '{name}' of ranks {on:?}, whose elements are not dense \
                 and row-major",
                call.op
            );
            let help =
                format!("copy '{name}' on its own ranks, with the op contiguous, and read that");
            return Err(program.error(span, message).help(help));
        }
        let source = held.ranks[0];
        let mut made = Vec::new();
        for to in lacking {
            let known = held.copies.iter().position(|(of, _)| *of == to);
            if rank == source {
                made.push(message(["send", "to"], to, value, stream, call));
            }
            if rank == to {
                if known.is_none() {
                    made.push(empty(program, value, &held.spec, call));
                }
                made.push(message(["recv_", "from"], source, value, stream, call));
            }
            match known {
                Some(known) => held.copies[known].1 = true,
                None => held.copies.push((to, true)),
            }
        }
        self.part.transfers |= !made.is_empty();
        for call in made {
            self.push(span, Action::Call(Box::new(call)));
        }
        Ok(())
    }

    /// Notes that a tensor has changed, and with it all that share its memory: these may have
    /// elements that the change left as they were.
    fn changed(&mut self, value: ValueRef, is_equal: bool) {
        let Some(storage) = self.held(value).map(|held| held.storage) else { return };
        for held in self.values.iter_mut().flatten().filter(|held| held.storage == storage) {
            held.copies.iter_mut().for_each(|(_, is_current)| *is_current = false);
            held.is_equal &= is_equal || held.ranks.len() == 1;
        }
        if let Some(held) = &mut self.values[value.index()] {
            held.is_equal |= is_equal;
        }
    }

    /// Defines the results of a call.
    fn results(
        &mut self,
        span: Span,
        call: &Call,
        signature: &Signature,
        ranks: &[u32],
        is_equal: bool,
    ) -> Result<()> {
        let names = call.results.new_values();
        for (k, output) in signature.outputs.iter().enumerate() {
            let made = match output {
                OutputSpec::Fresh(spec) => self.fresh(spec.clone(), ranks.to_vec(), is_equal),
                OutputSpec::Same(of) => match self.held(call.inputs[*of]) {
                    Some(held) => held.clone(),
                    None => continue,
                },
                OutputSpec::View { of, layout, dtype } => {
                    let of = call.inputs[*of];
                    self.require_home(span, call, of, ranks, "returns a view of")?;
                    let Some(held) = self.held(of).cloned() else { continue };
                    let dtype = dtype.unwrap_or(held.spec.dtype);
                    let spec = TensorSpec::new(dtype, layout.clone())
                        .map_err(|e| wrap(&self.program.source, call.op_span, &e))?;
                    let is_equal = held.is_equal && !is_parallel(call) || ranks.len() == 1;
                    Held { spec, is_equal, copies: Vec::new(), ..held }
                }
                OutputSpec::Bounded(_) => {
                    let message = format!(
                        "the shape of {} depends on data, and the program names ranks",
                        call.op
                    );
                    let error = self.program.error(call.op_span, message);
                    return Err(error.help("use an op whose shapes are known"));
                }
            };
            if let Some(name) = names.get(k) {
                self.values[name.index()] = Some(made);
            }
        }
        Ok(())
    }
}

/// Returns one half of a transfer: its op, and the argument that names the other rank.
fn message(half: [&'static str; 2], rank: u32, value: ValueRef, on: StreamRef, of: &Call) -> Call {
    let [op, peer] = half;
    let attrs = Attrs::new().with(peer, i64::from(rank));
    Call { attrs, stream: Some(on), ..Call::new(op, of.op_span, vec![value], Vec::new()) }
}

/// Returns the call that makes the memory of a copy, on the stream of the call that reads it, if
/// that computes.
fn empty(program: &Program, value: ValueRef, spec: &TensorSpec, of: &Call) -> Call {
    let zero = match spec.dtype {
        DType::Bool => AttrValue::Bool(false),
        dtype if dtype.is_float() => AttrValue::Float(0.0),
        _ => AttrValue::Int(0),
    };
    let shape = spec.layout.shape().iter().map(|length| *length as i64).collect();
    let computes = |stream: &StreamRef| program.streams[stream.index()].ty == StreamType::COMPUTE;
    let attrs = Attrs::new().with("shape", AttrValue::Ints(shape)).with("value", zero);
    let (attrs, stream) = (attrs.with("dtype", spec.dtype), of.stream.filter(computes));
    Call { attrs, stream, ..Call::new("full", of.op_span, Vec::new(), vec![value]) }
}
