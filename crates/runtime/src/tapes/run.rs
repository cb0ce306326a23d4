//! One launch of an executable, as the workers of its tapes share it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use millstream_ep::PooledEvent;
use millstream_kernels::RawTensor;
use millstream_types::{Attrs, Failure, Origin, Point, Result, ScalarUse, ScalarValue, StreamId};

use crate::engine::router::OpenStream;
use crate::scope::cancel::CancelScope;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::tables::Tables;

use super::graph::{Decision, GraphRun, InstanceGraph, InstanceGraphs, Stage};
use super::tape::{Address, PackedAddress, Program, StepCall, StepOperand};

/// A tape in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Playing {
    pub(crate) stream: OpenStream,
    /// The sequence number before the tape's first step.
    pub(crate) base: u64,
}

/// The address of a storage, of private memory, or of scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base(*mut u8);

// SAFETY: an address. The list, which was checked, orders all uses of the memory behind it.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Base {
    pub const fn new(address: *mut u8) -> Base {
        Base(address)
    }

    pub(crate) const fn address(self) -> *mut u8 {
        self.0
    }

    /// Returns the address that lies at an offset from one of `bases`.
    pub(crate) fn resolve(bases: &[Base], Address { base, offset }: Address) -> *mut u8 {
        Base::at(bases, base as usize, offset)
    }

    /// Returns a packed address as [`Base::resolve`] does.
    #[inline]
    pub(crate) fn resolve_packed(bases: &[Base], address: PackedAddress) -> *mut u8 {
        Base::at(bases, address.base(), address.offset())
    }

    #[inline]
    fn at(bases: &[Base], base: usize, offset: u64) -> *mut u8 {
        match bases.get(base) {
            Some(Base(base)) => base.wrapping_add(offset as usize),
            // Only an operand of no bytes has no base, so any aligned address serves.
            None => std::ptr::NonNull::<u64>::dangling().as_ptr().cast(),
        }
    }
}

/// The result of a host read, until it is taken.
type ReadResult = Mutex<Option<Result<Vec<u8>>>>;

/// A launch.
pub struct Run {
    pub program: Arc<Program>,
    /// The point of the launch.
    pub at: Point,
    /// The launch's place in the program.
    pub(crate) origin: Origin,
    pub(crate) bases: Vec<Base>,
    /// The machine's numbers of the formals' storages.
    pub(crate) storages: Vec<u64>,
    pub(crate) tapes: Vec<Playing>,
    pub(crate) cancel_scope: Option<Arc<CancelScope>>,
    /// For each channel of the program the number of the launch's first call.
    pub(crate) numbers: Vec<u64>,
    /// The scalars of the list as words, by number.
    pub words: Vec<i64>,
    /// The arguments of the calls that use scalars, with the numbers of this launch.
    given: Box<[Attrs]>,
    /// Whether calls have to look for poison or cancellation. Relaxed: who reads poisoned data
    /// comes after a published point of the step that poisoned it, which orders this too.
    careful: AtomicBool,
    poison: Mutex<HashMap<u32, Arc<Failure>>>,
    /// Why the first step failed or was skipped.
    failure: Mutex<Option<Arc<Failure>>>,
    events: Box<[Mutex<Option<PooledEvent>>]>,
    results: Box<[ReadResult]>,
    /// Its parts in the graphs of its instance, which all launches of the instance share.
    graph_runs: Box<[Mutex<GraphRun>]>,
    graphs: Arc<InstanceGraphs>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the content of a mutex that nobody else has.
fn own<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces elements by others, and writes only those that differ.
fn replace<T: PartialEq>(held: &mut Vec<T>, new: impl Iterator<Item = T>) {
    let mut count = 0;
    // Most lists are short, and keep their length.
    held.reserve_exact(new.size_hint().0.saturating_sub(held.len()));
    for item in new {
        match held.get_mut(count) {
            Some(old) if *old == item => {}
            Some(old) => *old = item,
            None => held.push(item),
        }
        count += 1;
    }
    held.truncate(count);
}

impl Run {
    /// Returns a launch of a program, to be made one by [`Run::renew`].
    pub fn new(program: Arc<Program>, graphs: Arc<InstanceGraphs>) -> Run {
        Run {
            careful: AtomicBool::new(false),
            poison: Mutex::new(HashMap::new()),
            failure: Mutex::new(None),
            events: (0..program.events).map(|_| Mutex::new(None)).collect(),
            results: program.reads.iter().map(|_| Mutex::new(None)).collect(),
            graph_runs: program.graphs.iter().map(|_| Mutex::default()).collect(),
            graphs,
            given: program.given.iter().map(|attrs| (**attrs).clone()).collect(),
            program,
            at: Point { stream: StreamId(0), seq: 0 },
            origin: Origin::Unknown,
            bases: Vec::new(),
            storages: Vec::new(),
            tapes: Vec::new(),
            cancel_scope: None,
            numbers: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Makes a launch that nobody uses any more the next one. It keeps its memory.
    pub fn renew(
        &mut self,
        (at, origin): (Point, &Origin),
        bases: impl Iterator<Item = Base>,
        storages: impl Iterator<Item = u64>,
        tapes: impl Iterator<Item = Playing>,
        cancel_scope: Option<Arc<CancelScope>>,
        numbers: impl Iterator<Item = u64>,
    ) {
        self.at = at;
        self.origin.clone_from(origin);
        // What stays the same is not written: a worker's core still has its cache lines.
        replace(&mut self.bases, bases);
        replace(&mut self.storages, storages);
        replace(&mut self.tapes, tapes);
        replace(&mut self.numbers, numbers);
        // Nobody else has the launch.
        self.careful.store(cancel_scope.is_some(), Ordering::Relaxed);
        self.cancel_scope = cancel_scope;
        let poison = own(&mut self.poison);
        if !poison.is_empty() {
            poison.clear();
        }
        *own(&mut self.failure) = None;
        self.events.iter_mut().for_each(|event| *own(event) = None);
        self.results.iter_mut().for_each(|result| *own(result) = None);
        self.graph_runs.iter_mut().for_each(|graph| *own(graph) = GraphRun::default());
    }

    /// Sets the scalars of a launch that nobody uses yet.
    pub fn set_scalars(&mut self, scalars: &[ScalarValue]) {
        replace(&mut self.words, scalars.iter().map(|value| value.word()));
        for (own, declared) in self.given.iter_mut().zip(&self.program.given) {
            own.set_scalars(declared, |ScalarUse { scalar, plus }| {
                // The list was checked to declare them.
                scalars.get(scalar.index()).map_or(ScalarValue::Int(0), |value| value.plus(plus))
            });
        }
    }

    /// Returns the arguments of a call in this launch, if the launch gives some of them.
    pub(crate) fn given(&self, call: &StepCall) -> Option<&Attrs> {
        self.given.get(call.given? as usize)
    }

    /// Returns the point at which a tape has made so many steps.
    pub(crate) fn point(&self, tape: usize, steps: u32) -> Point {
        let Playing { stream, base } = self.tapes[tape];
        Point::new(stream.id(), base + u64::from(steps))
    }

    /// Returns the point at which a tape ends.
    pub(crate) fn end_of(&self, tape: usize) -> Point {
        self.point(tape, self.program.tapes[tape].steps.len() as u32)
    }

    /// Returns an address of this launch.
    pub(crate) fn resolve(&self, address: Address) -> *mut u8 {
        Base::resolve(&self.bases, address)
    }

    /// Returns an operand as a kernel sees it.
    pub(crate) fn raw<'a>(&self, operand: &'a StepOperand) -> RawTensor<'a> {
        RawTensor {
            data: self.resolve(operand.address),
            dtype: operand.spec.dtype,
            shape: operand.spec.shape(),
            strides: operand.spec.layout.strides(),
        }
    }

    /// Whether calls have to look for poison or cancellation.
    #[inline]
    pub(crate) fn is_careful(&self) -> bool {
        self.careful.load(Ordering::Relaxed)
    }

    /// Returns the poison of the first poisoned operand that is read.
    pub(crate) fn poison_of(&self, operands: &[StepOperand]) -> Option<Arc<Failure>> {
        if !self.is_careful() {
            return None;
        }
        let poison = lock(&self.poison);
        let mut reads = operands.iter().filter(|o| o.access.reads());
        reads.find_map(|o| poison.get(&o.storage).cloned())
    }

    /// Poisons the operands that a step would have written.
    pub(crate) fn poison(&self, operands: &[StepOperand], cause: &Arc<Failure>) {
        let mut poison = lock(&self.poison);
        for operand in operands.iter().filter(|o| o.access.writes()) {
            poison.insert(operand.storage, cause.clone());
        }
        self.careful.store(true, Ordering::Relaxed);
    }

    /// Heals the operands that a step has overwritten.
    pub(crate) fn heal(&self, operands: &[StepOperand]) {
        if !self.is_careful() {
            return;
        }
        let mut poison = lock(&self.poison);
        for operand in operands.iter().filter(|o| o.access.writes() && !o.access.reads()) {
            poison.remove(&operand.storage);
        }
    }

    /// Takes over the poison of the formals. Called once everything before the launch has
    /// completed, and before its first step.
    pub(crate) fn begin(&self, tables: &Tables) {
        if !tables.poison.any() {
            return;
        }
        let mut poison = lock(&self.poison);
        for (k, storage) in self.storages.iter().enumerate() {
            if let Some(cause) = tables.poison.get(*storage) {
                poison.insert(k as u32, cause);
                self.careful.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a step failed, or was skipped because of `cause`.
    pub(crate) fn note_failure(&self, cause: &Arc<Failure>) {
        lock(&self.failure).get_or_insert_with(|| cause.clone());
    }

    /// Returns why the first step failed or was skipped.
    pub fn failure(&self) -> Option<Arc<Failure>> {
        lock(&self.failure).clone()
    }

    /// Returns the launch's part in a graph of its instance.
    pub(crate) fn graph(&self, plan: usize) -> MutexGuard<'_, GraphRun> {
        lock(&self.graph_runs[plan])
    }

    /// Returns a graph of the launch's instance.
    pub(crate) fn instance_graph(&self, plan: usize) -> MutexGuard<'_, InstanceGraph> {
        self.graphs.lock(plan)
    }

    /// Returns whether a storage is poisoned.
    pub(crate) fn has_poison(&self) -> bool {
        self.is_careful() && !lock(&self.poison).is_empty()
    }

    /// Notes, for the next launch, the graphs whose calls were all made without a failure.
    fn note_calls(&self) {
        if self.has_poison() {
            return;
        }
        for plan in 0..self.graph_runs.len() {
            let mut graph = self.instance_graph(plan);
            if graph.stage == Stage::Cold && self.graph(plan).decision == Some(Decision::Calls) {
                graph.stage = Stage::Warm;
            }
        }
    }

    /// Gives the formals that were written their poison, or heals them. Called once all steps have
    /// completed, and before the launch has.
    pub(crate) fn end(&self, tables: &Tables) {
        self.note_calls();
        if !self.is_careful() && !tables.poison.any() {
            return;
        }
        let poison = lock(&self.poison);
        for (k, (storage, formal)) in self.storages.iter().zip(&self.program.formals).enumerate() {
            if formal.access.is_some_and(|access| access.writes()) {
                match poison.get(&(k as u32)) {
                    Some(cause) => tables.poison.set(*storage, cause),
                    None => tables.poison.heal(*storage),
                }
            }
        }
    }

    pub(crate) fn set_event(&self, event: u16, recorded: Option<PooledEvent>) {
        *lock(&self.events[usize::from(event)]) = recorded;
    }

    pub(crate) fn event(&self, event: u16) -> Option<PooledEvent> {
        lock(&self.events[usize::from(event)]).clone()
    }

    pub(crate) fn finish_read(&self, read: u16, result: Result<Vec<u8>>) {
        *lock(&self.results[usize::from(read)]) = Some(result);
    }

    /// Takes the result of a host read; none if the launch has not reached it, or it was taken.
    pub fn take_read(&self, read: usize) -> Option<Result<Vec<u8>>> {
        lock(&self.results[read]).take()
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({})", self.at)
    }
}
