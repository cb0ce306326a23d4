//! The plans of calls on global tensors, remembered by thread.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use millstream_ops::CallSpec;
use millstream_ops::boxing::{self, Operand};
use millstream_runtime::sync::thread_local;
use millstream_types::{Attrs, Coordinates, Error, Mesh, OpId, Result, Sharding, TensorSpec};
use rustc_hash::{FxHashMap, FxHasher};

use crate::handle::Tensor;
use crate::handle::machine::Machine;

use super::{Class, survey};

/// What a call does on this rank.
pub(super) struct Planned {
    pub(super) plan: boxing::Plan,
    pub(super) op: OpId,
    /// The coordinates of this rank; `None` outside the mesh.
    pub(super) at: Option<Coordinates>,
    /// The arguments of the one call on the parts, if that is all.
    pub(super) direct: Option<Attrs>,
    /// The spec and the sharding of each result.
    pub(super) results: Vec<Class>,
    /// The operands that the call changes in place.
    pub(super) changed: Vec<usize>,
}

/// A remembered plan.
struct Entry {
    machine: u64,
    op: String,
    attrs: Attrs,
    operands: Vec<Class>,
    wanted: Option<Arc<Sharding>>,
    planned: Rc<Planned>,
}

/// The most plans of a thread; all are dropped when there are more.
const PLANS: usize = 4096;

/// The most plans that are found by address.
const NEAR: usize = 256;

/// The plans of a thread.
struct Plans {
    /// The plans by the hashes of their calls.
    all: FxHashMap<u64, Vec<Rc<Entry>>>,
    /// The plans used last, by the addresses of what they depend on. The results of one plan share
    /// their specs and shardings, so a step of a loop finds here what it has planned before.
    near: [Option<Rc<Entry>>; NEAR],
}

thread_local! {
    static KNOWN: RefCell<Plans> =
        RefCell::new(Plans { all: FxHashMap::default(), near: [const { None }; NEAR] });
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
    /// Returns the place of the call's plan among those found by address.
    fn near(&self) -> usize {
        let mut hasher = FxHasher::default();
        hasher.write_usize(self.op.as_ptr().addr());
        self.attrs.hash(&mut hasher);
        for input in self.inputs {
            hasher.write_usize(Arc::as_ptr(input.shared_spec()).addr());
            if let Some(global) = input.global() {
                hasher.write_usize(Arc::as_ptr(&global.sharding).addr());
            }
        }
        hasher.finish() as usize % NEAR
    }

    /// Returns a hash of the call. It has little of the operands, as the look-up compares them.
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
    /// The operands are not all global and on one mesh, or as [`boxing::Plan::of`].
    pub(super) fn plan(&self) -> Result<Rc<Planned>> {
        if survey::is_on() {
            return self.plan_anew().map(Rc::new);
        }
        let near = self.near();
        let found = KNOWN.with(|known| {
            let known = known.borrow();
            let entry = known.near[near].as_ref().filter(|entry| self.is(entry));
            entry.map(|entry| entry.planned.clone())
        });
        match found {
            Some(planned) => Ok(planned),
            None => self.plan_far(near),
        }
    }

    /// Returns the plan of the call, and remembers it at a place among those found by address.
    #[inline(never)]
    fn plan_far(&self, near: usize) -> Result<Rc<Planned>> {
        let hash = self.hash();
        let found = KNOWN.with(|known| {
            let known = known.borrow();
            known.all.get(&hash).into_iter().flatten().find(|entry| self.is(entry)).cloned()
        });
        let entry = match found {
            Some(entry) => entry,
            None => self.add(hash)?,
        };
        let planned = entry.planned.clone();
        KNOWN.with(|known| known.borrow_mut().near[near] = Some(entry));
        Ok(planned)
    }

    /// Plans the call, and remembers the plan.
    fn add(&self, hash: u64) -> Result<Rc<Entry>> {
        let planned = Rc::new(self.plan_anew()?);
        let operands = self.inputs.iter().filter_map(|input| {
            Some((input.shared_spec().clone(), input.global()?.sharding.clone()))
        });
        let entry = Rc::new(Entry {
            machine: self.machine.shared.tables.machine,
            op: self.op.to_owned(),
            attrs: self.attrs.clone(),
            operands: operands.collect(),
            wanted: self.wanted.cloned(),
            planned,
        });
        KNOWN.with(|known| {
            let all = &mut known.borrow_mut().all;
            if all.len() >= PLANS {
                all.clear();
            }
            all.entry(hash).or_default().push(entry.clone());
        });
        Ok(entry)
    }

    fn plan_anew(&self) -> Result<Planned> {
        let mesh = self.mesh()?;
        super::check_mesh(self.machine, &mesh)?;
        let tables = &self.machine.shared.tables;
        let id = tables.ops.id(self.op)?;
        let op = tables.ops.get(id).ok_or_else(|| Error::Internal {
            message: format!("no op has the id of {}", self.op),
        })?;
        let held = self.inputs.iter().filter_map(|input| {
            Some(Operand { spec: input.spec(), sharding: &input.global()?.sharding })
        });
        let operands: Vec<Operand<'_>> = held.collect();
        let wanted = self.wanted.map(|wanted| &**wanted);
        let pinned = match operands.is_empty() {
            true => None,
            false => survey::next(self.op, &operands, &mesh)?,
        };
        let pinned = pinned.as_ref();
        let plan = boxing::Plan::of(&**op, self.attrs, &mesh, &operands, wanted, pinned)?;
        let class =
            |made: &boxing::Made| (Arc::new(made.spec.clone()), Arc::new(made.sharding.clone()));
        let results = plan.results.iter().map(class).collect();
        let at = super::coordinates(self.machine, &mesh);
        let direct = at.as_ref().and_then(|at| plan.direct(at));
        let specs: Vec<TensorSpec> = self.inputs.iter().map(|of| of.spec().clone()).collect();
        let accesses = op.check(CallSpec { inputs: &specs, attrs: self.attrs })?.accesses;
        let changed = (0..specs.len()).filter(|k| accesses[*k].writes()).collect();
        Ok(Planned { plan, op: id, at, direct, results, changed })
    }

    /// Returns the mesh of the operands, or of the result that is requested.
    fn mesh(&self) -> Result<Mesh> {
        let held = self.inputs.iter().map(|input| input.global());
        let mut meshes = held.clone().flatten().map(|global| global.sharding.mesh());
        let Some(first) = meshes.next().or_else(|| self.wanted.map(|wanted| wanted.mesh())) else {
            return Err(self.refused("it has no global operand".to_owned()));
        };
        if let Some(at) = held.clone().position(|global| global.is_none()) {
            return Err(self.refused(format!(
                "operand {at}, {}, is a tensor of this rank, and others are held by mesh {first}; \
                 make it a global one by `to_global(&mesh, sbp)?`, or take the parts of the others \
                 by `to_local()?`",
                self.inputs[at].spec().brief()
            )));
        }
        if let Some(other) = self.wanted.filter(|wanted| wanted.mesh() != first) {
            return Err(self.refused(format!(
                "its operands are on mesh {first}, and the tensor for its result on mesh {}; \
                 redistribute the result by `to_global(&mesh, sbp)?`",
                other.mesh()
            )));
        }
        match held.enumerate().find(|(_, g)| g.is_some_and(|g| g.sharding.mesh() != first)) {
            None => Ok(first.clone()),
            Some((at, other)) => Err(self.refused(format!(
                "operand 0, {}, is on mesh {first}, and operand {at}, {}, on mesh {}; redistribute \
                 one of them by `to_global(&mesh, sbp)?`",
                self.inputs[0].spec().brief(),
                self.inputs[at].spec().brief(),
                other.map(|global| global.sharding.mesh().to_string()).unwrap_or_default()
            ))),
        }
    }

    fn refused(&self, message: String) -> Error {
        Error::Op { op: self.op.to_owned(), message }
    }
}
