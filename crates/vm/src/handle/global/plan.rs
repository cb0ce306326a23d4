//! What a call on global tensors does on each rank, and the plans of a thread.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use millstream_ops::boxing::{Choice, Operand, Path};
use millstream_ops::sharding::{Divisor, Local};
use millstream_ops::{CallSpec, Op, OutputSpec};
use millstream_runtime::sync::thread_local;
use millstream_types::{Attrs, Error, Mesh, NdSbp, Result, Sbp, Sharding, TensorSpec};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::handle::Tensor;
use crate::handle::machine::Machine;

use super::boxing::path;

/// The spec and the sharding of a global tensor: all that a plan depends on.
pub(super) type Class = (Arc<TensorSpec>, Arc<Sharding>);

/// What a call does.
pub(super) struct Plan {
    pub(super) mesh: Mesh,
    /// The path of each operand, with the sharding that it is brought to; none if it stays.
    pub(super) paths: Vec<Option<(Path, Arc<Sharding>)>>,
    pub(super) results: Vec<Made>,
    /// The way of each axis.
    pub(super) locals: Vec<Local>,
}

/// A result of a call.
pub(super) struct Made {
    /// The position of the operand that the call changes in place and returns.
    pub(super) same: Option<usize>,
    pub(super) spec: Arc<TensorSpec>,
    pub(super) sharding: Arc<Sharding>,
    /// Whether one rank would have a view, and the ranks have a copy.
    pub(super) is_copied_view: bool,
    /// Whether one rank has a view.
    pub(super) is_view: bool,
}

/// A remembered plan.
struct Entry {
    machine: u64,
    op: String,
    attrs: Attrs,
    operands: Vec<Class>,
    wanted: Option<Arc<Sharding>>,
    plan: Rc<Plan>,
}

/// The most plans of a thread; all are dropped when there are more.
const PLANS: usize = 4096;

thread_local! {
    static KNOWN: RefCell<FxHashMap<u64, Vec<Entry>>> = RefCell::new(FxHashMap::default());
}

/// A call that is planned.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) machine: &'a Machine,
    pub(super) op: &'a str,
    pub(super) attrs: &'a Attrs,
    pub(super) inputs: &'a [&'a Tensor],
    /// The sharding of the first result, if it is requested.
    pub(super) wanted: Option<&'a Arc<Sharding>>,
}

impl Asked<'_> {
    fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.op.hash(&mut hasher);
        self.attrs.hash(&mut hasher);
        for input in self.inputs {
            input.shared_spec().shape().hash(&mut hasher);
            if let Some(global) = input.global() {
                global.sharding.sbp().hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn is(&self, entry: &Entry) -> bool {
        fn same<T: PartialEq>(a: &Arc<T>, b: &Arc<T>) -> bool {
            Arc::ptr_eq(a, b) || a == b
        }
        let operands = self.inputs.iter().zip(&entry.operands);
        let mut operands = operands.map(|(input, (spec, sharding))| {
            let own = input.global().is_some_and(|global| same(&global.sharding, sharding));
            own && same(input.shared_spec(), spec)
        });
        let wanted = match (self.wanted, &entry.wanted) {
            (None, None) => true,
            (Some(own), Some(other)) => same(own, other),
            _ => false,
        };
        entry.op == self.op
            && entry.machine == self.machine.shared.tables.machine
            && entry.operands.len() == self.inputs.len()
            && wanted
            && operands.all(|is| is)
            && entry.attrs == *self.attrs
    }

    /// Returns the plan of the call: the one that was made before, or a new one.
    ///
    /// # Errors
    /// As [`Asked::anew`].
    pub(super) fn plan(&self) -> Result<Rc<Plan>> {
        let hash = self.hash();
        let known = KNOWN.with(|known| {
            let known = known.borrow();
            let mut found = known.get(&hash).into_iter().flatten();
            found.find(|entry| self.is(entry)).map(|entry| entry.plan.clone())
        });
        if let Some(plan) = known {
            return Ok(plan);
        }
        let plan = Rc::new(self.anew()?);
        let operands = self.inputs.iter().filter_map(|input| {
            Some((input.shared_spec().clone(), input.global()?.sharding.clone()))
        });
        let entry = Entry {
            machine: self.machine.shared.tables.machine,
            op: self.op.to_owned(),
            attrs: self.attrs.clone(),
            operands: operands.collect(),
            wanted: self.wanted.cloned(),
            plan: plan.clone(),
        };
        KNOWN.with(|known| {
            let mut known = known.borrow_mut();
            if known.len() >= PLANS {
                known.clear();
            }
            known.entry(hash).or_default().push(entry);
        });
        Ok(plan)
    }

    /// Makes a plan.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, the operands are not all global and on one mesh,
    /// or the call writes an operand that is held in a way that it cannot write.
    fn anew(&self) -> Result<Plan> {
        let mesh = self.mesh()?;
        super::check_mesh(self.machine, &mesh)?;
        let tables = &self.machine.shared.tables;
        let id = tables.ops.id(self.op)?;
        let op = tables.ops.get(id).ok_or_else(|| Error::Internal {
            message: format!("no op has the id of {}", self.op),
        })?;
        let specs: SmallVec<[TensorSpec; 4]> =
            self.inputs.iter().map(|input| input.spec().clone()).collect();
        let call = CallSpec { inputs: &specs, attrs: self.attrs };
        let signature = op.check(call)?;
        for (input, access) in self.inputs.iter().zip(&signature.accesses) {
            if access.writes() && input.global().is_some_and(|global| global.is_copied_view) {
                let message = format!(
                    "{} is a copy, where one rank has a view, since its base was redistributed for \
                     it; redistribute the base before the view, and change that",
                    input.spec().brief()
                );
                return Err(self.refused(message));
            }
        }
        let bounded = |output: &OutputSpec| matches!(output, OutputSpec::Bounded(_));
        if signature.outputs.iter().any(bounded) {
            let message = "the size of its result depends on data, which global tensors do not \
                           have; call it on `to_local()?` or `full_tensor()?`";
            return Err(self.refused(message.to_owned()));
        }
        if millstream_ops::collective::is(self.op) {
            let message = "a collective takes each rank's own tensors: call it on `to_local()?`, \
                           or redistribute the tensor";
            return Err(self.refused(message.to_owned()));
        }
        let operands: Vec<Operand<'_>> = self
            .inputs
            .iter()
            .filter_map(|input| {
                Some(Operand { spec: input.spec(), sharding: &input.global()?.sharding })
            })
            .collect();
        let wanted = self.wanted.map(|wanted| &**wanted);
        let choice = Choice::of(&**op, call, &signature, &mesh, &operands, wanted)?;
        self.of_choice(&**op, mesh, &specs, choice)
    }

    fn of_choice(
        &self,
        op: &dyn Op,
        mesh: Mesh,
        specs: &[TensorSpec],
        choice: Choice,
    ) -> Result<Plan> {
        let Choice { operands, results, ways, .. } = choice;
        let mut taken: SmallVec<[TensorSpec; 4]> = specs.into();
        let mut paths = Vec::new();
        for (k, (input, to)) in self.inputs.iter().zip(operands).enumerate() {
            let Some(global) = input.global().filter(|global| *global.sharding != to) else {
                paths.push(None);
                continue;
            };
            paths.push(Some((path(input.spec(), &global.sharding, &to)?, Arc::new(to))));
            taken[k] = TensorSpec::contiguous(input.dtype(), input.shape())?;
        }
        // The layouts of the results follow from those of the operands as the call takes them.
        let signature = op.check(CallSpec { inputs: &taken, attrs: self.attrs })?;
        let mut made = Vec::new();
        for (output, sharding) in signature.outputs.iter().zip(results) {
            let (same, spec, view) = match output {
                OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => (None, spec.clone(), None),
                OutputSpec::Same(of) => (Some(*of), taken[*of].clone(), None),
                OutputSpec::View { of, layout, dtype } => {
                    let dtype = dtype.unwrap_or(taken[*of].dtype);
                    (None, TensorSpec::new(dtype, layout.clone())?, Some(*of))
                }
            };
            made.push(Made {
                same,
                spec: Arc::new(spec),
                sharding: Arc::new(sharding),
                is_copied_view: view.is_some_and(|of| {
                    let base = self.inputs[of].global();
                    paths[of].is_some() || base.is_some_and(|base| base.is_copied_view)
                }),
                is_view: view.is_some(),
            });
        }
        let local = |way: Option<millstream_ops::sharding::Way>| way.map(|way| way.local);
        let locals = ways.into_iter().map(|way| local(way).unwrap_or_default()).collect();
        let mut plan = Plan { mesh, paths, results: made, locals };
        plan.finish();
        Ok(plan)
    }

    /// Returns the mesh of the operands.
    fn mesh(&self) -> Result<Mesh> {
        let held = self.inputs.iter().map(|input| input.global());
        if let Some(local) = held.clone().position(|global| global.is_none()) {
            let (own, mesh) = match held.clone().flatten().next() {
                Some(global) => (self.inputs[local].spec().brief(), global.sharding.mesh()),
                None => (String::new(), self.wanted.map_or_else(unmeshed, |w| Ok(w.mesh()))?),
            };
            let message = format!(
                "operand {local}, {own}, is a tensor of this rank, and others are held by mesh \
                 {mesh}; make it a global one by `to_global(&mesh, sbp)?`, or take the others' \
                 parts by `to_local()?`"
            );
            return Err(self.refused(message));
        }
        let mut meshes = held.flatten().map(|global| global.sharding.mesh());
        let Some(first) = meshes.next() else {
            return self.wanted.map_or_else(unmeshed, |wanted| Ok(wanted.mesh())).cloned();
        };
        match meshes.find(|other| *other != first) {
            None => Ok(first.clone()),
            Some(other) => Err(self.refused(format!(
                "operands on mesh {first} and on mesh {other}; redistribute one of them by \
                 `to_global(&mesh, sbp)?`"
            ))),
        }
    }

    fn refused(&self, message: String) -> Error {
        Error::Op { op: self.op.to_owned(), message }
    }
}

fn unmeshed<'a>() -> Result<&'a Mesh> {
    Err(Error::Internal { message: "a global call without a mesh".to_owned() })
}

impl Plan {
    /// Completes the shardings of results that are divided by another result: that one is reduced,
    /// and whole afterwards.
    fn finish(&mut self) {
        for local in &self.locals {
            if let Local::MeanOf { count: Divisor::Result(by), .. } = local
                && let Some(divisor) = self.results.get_mut(*by)
            {
                let whole: NdSbp = divisor
                    .sharding
                    .sbp()
                    .iter()
                    .map(|sbp| if sbp.reduction().is_some() { Sbp::Broadcast } else { *sbp })
                    .collect();
                if let Ok(whole) = Sharding::new(&self.mesh, whole) {
                    divisor.sharding = Arc::new(whole);
                }
            }
        }
    }
}
