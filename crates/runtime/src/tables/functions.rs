//! The functions of the program that pending calls run.
//!
//! # Rules
//! 1. The engine stores a function under its lock, and gives the call the function's number.
//! 2. The worker that runs the call takes the function out. If the call is skipped, cancelled or
//!    refused, the one that completes it takes the function out and drops it.
//! 3. A place that is empty may be used again, with another generation: whoever names a function
//!    that was taken out finds nothing.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::anyhow;

use millstream_ep::WorkResult;
use millstream_instructions::{Body, Instruction};
use millstream_kernels::{CompletionToken, DeferredCompletion};
use millstream_ops::OpRegistry;
use millstream_ops::closure::{CLOSURE, FUNCTION};
use millstream_types::{Attrs, OpId};

use crate::scope::cancel;
use crate::tables::run_context::{CallSite, RunContext};
use crate::tables::slots::{CHUNKS, FIRST, place};

/// The completion of a function that was started with one: the call completes when this is called,
/// from any thread. Dropping it fails the call.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let engine = machine.dependency_engine()?;
/// # let a = engine.var()?;
/// engine.push_async(|done: OnComplete| {
///     std::thread::spawn(|| done.complete());
/// }).writes(&[&a]).spawn()?;
/// engine.wait_for(&a)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "dropping it fails the call"]
#[derive(Debug)]
pub struct OnComplete(CompletionToken);

impl OnComplete {
    pub(crate) const fn new(token: CompletionToken) -> OnComplete {
        OnComplete(token)
    }

    /// Completes the call.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.push_async(|done| done.complete()).writes(&[&a]).spawn()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn complete(self) {
        self.0.complete(Ok(()));
    }

    /// Completes the call with an error, which poisons what it writes.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let broken = |done: OnComplete| done.fail(std::io::Error::other("no disk"));
    /// engine.push_async(broken).writes(&[&a]).spawn()?;
    /// assert!(engine.wait_for(&a).is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn fail(self, error: impl Into<anyhow::Error>) {
        self.0.complete(Err(error.into()));
    }

    /// Completes the call with the outcome of its work.
    pub(crate) fn with(self, result: WorkResult) {
        self.0.complete(result);
    }
}

/// A function of the program.
pub enum Function {
    /// It is called once.
    Once(Box<dyn FnOnce() -> WorkResult + Send>),
    /// It is called once, and the call completes with its argument.
    Async(Box<dyn FnOnce(OnComplete) -> WorkResult + Send>),
    /// It is called once, with its surroundings.
    InContext(Box<dyn FnOnce(&mut RunContext<'_>) -> WorkResult + Send>),
    /// It is called by many calls, each of which holds it.
    Shared(SharedFunction),
}

/// A function of the program that many calls run.
#[derive(Clone)]
pub enum SharedFunction {
    /// The call completes when it returns.
    Sync(Arc<dyn Fn() -> WorkResult + Send + Sync>),
    /// The call completes with its argument.
    Async(Arc<dyn Fn(OnComplete) -> WorkResult + Send + Sync>),
    /// It gets its surroundings.
    InContext(Arc<dyn Fn(&mut RunContext<'_>) -> WorkResult + Send + Sync>),
}

impl Function {
    /// Returns whether it needs a call of its own: it may complete later, or gets its surroundings.
    pub const fn is_alone(&self) -> bool {
        !matches!(self, Function::Once(_) | Function::Shared(SharedFunction::Sync(_)))
    }

    /// Runs the function. `completion` is the source of the call's completion.
    #[inline]
    pub(crate) fn run(
        self,
        completion: Option<&dyn DeferredCompletion>,
        site: CallSite<'_>,
    ) -> WorkResult {
        let context = || RunContext::new(site, completion);
        match self {
            Function::Once(function) => function(),
            Function::Async(function) => function(context().complete_later()?),
            Function::InContext(function) => function(&mut context()),
            Function::Shared(SharedFunction::Sync(function)) => function(),
            Function::Shared(SharedFunction::Async(function)) => {
                function(context().complete_later()?)
            }
            Function::Shared(SharedFunction::InContext(function)) => function(&mut context()),
        }
    }
}

/// The number of a stored function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionId {
    place: u32,
    /// The number of this function among those that had the place.
    generation: u32,
}

impl FunctionId {
    /// The number of no function.
    pub(crate) const NONE: FunctionId = FunctionId { place: u32::MAX, generation: 0 };

    /// Returns the id of this number.
    pub(crate) fn of(number: Option<u64>) -> FunctionId {
        number.map_or(FunctionId::NONE, |number| FunctionId {
            place: number as u32,
            generation: (number >> 32) as u32,
        })
    }

    /// Returns it as one number.
    pub(crate) const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.place as u64
    }

    /// Returns whether it is the number of a function.
    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self.place != u32::MAX
    }

    /// Sets the argument that names this function in the instruction that calls it.
    pub(crate) fn name_in(self, call: &mut Instruction) {
        if self.is_some()
            && let Body::OpCall { attrs, .. } = &mut call.body
        {
            let attrs = Arc::make_mut(attrs.get_or_insert_default());
            attrs.set(FUNCTION, self.number() as i64);
        }
    }
}

/// A place for a function.
#[derive(Default)]
struct Entry {
    generation: u32,
    function: Option<Function>,
}

/// Where the next function is stored. Part of the engine, under its lock.
#[derive(Debug, Default)]
pub struct FunctionPlaces {
    next: u32,
    /// How many places are in use or were.
    count: u32,
}

/// How many places are tried before there are more.
const TRIES: u32 = 4;

/// The stored functions.
pub struct FunctionTable {
    chunks: [OnceLock<Box<[Mutex<Entry>]>>; CHUNKS],
    /// The op whose calls run them.
    op: Option<OpId>,
}

impl FunctionTable {
    pub fn new(ops: &OpRegistry) -> FunctionTable {
        FunctionTable { chunks: [const { OnceLock::new() }; CHUNKS], op: ops.find(CLOSURE) }
    }

    /// Stores a function until its call runs or is completed otherwise.
    /// `pending` returns how many instructions are.
    pub(crate) fn store(
        &self,
        places: &mut FunctionPlaces,
        function: Function,
        pending: impl FnOnce() -> u64,
    ) -> FunctionId {
        let mut function = Some(function);
        if let Some(id) = self.store_in(places, TRIES, &mut function) {
            return id;
        }
        // Where most places are free, a few functions that stay long must not make more.
        if u64::from(places.count) > pending().saturating_mul(4)
            && let Some(id) = self.store_in(places, u32::MAX, &mut function)
        {
            return id;
        }
        let place = places.count;
        let more = (places.count * 2).clamp(FIRST as u32, u32::MAX / 2);
        (places.count, places.next) = (more, place + 1);
        self.store_at(place, &mut function).unwrap_or(FunctionId::NONE)
    }

    /// Stores a function in one of the next `tries` places.
    #[inline]
    fn store_in(
        &self,
        places: &mut FunctionPlaces,
        tries: u32,
        function: &mut Option<Function>,
    ) -> Option<FunctionId> {
        (0..tries.min(places.count)).find_map(|_| {
            let place = places.next;
            places.next = if place + 1 == places.count { 0 } else { place + 1 };
            self.store_at(place, function)
        })
    }

    fn store_at(&self, at: u32, function: &mut Option<Function>) -> Option<FunctionId> {
        let (chunk, index) = place(at as usize);
        let made = || (0..FIRST << chunk).map(|_| Mutex::default()).collect();
        let entry = &self.chunks.get(chunk)?.get_or_init(made)[index];
        let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if entry.function.is_some() {
            return None;
        }
        entry.generation = entry.generation.wrapping_add(1);
        entry.function = function.take();
        Some(FunctionId { place: at, generation: entry.generation })
    }

    /// Takes a function out.
    #[inline]
    pub(crate) fn take(&self, id: FunctionId) -> Option<Function> {
        let (chunk, index) = place(id.place as usize);
        let entry = self.chunks.get(chunk)?.get()?.get(index)?;
        let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if entry.generation == id.generation { entry.function.take() } else { None }
    }

    /// Returns the function that a call runs, if it runs one of this table.
    pub(crate) fn named(&self, op: OpId, attrs: &Attrs) -> Option<FunctionId> {
        if self.op != Some(op) {
            return None;
        }
        let number = attrs.int(FUNCTION).ok().flatten()?;
        Some(FunctionId::of(Some(number as u64)))
    }

    /// Returns the function that an instruction runs, if it runs one of this table.
    #[inline]
    pub(crate) fn of(&self, instruction: &Instruction) -> Option<FunctionId> {
        match &instruction.body {
            Body::OpCall { op, attrs: Some(attrs), .. } => self.named(*op, attrs),
            _ => None,
        }
    }

    /// Takes out the function of an instruction that is completed without it.
    pub(crate) fn take_unused(&self, instruction: &Instruction) -> Option<Function> {
        self.take(self.of(instruction)?)
    }

    /// Runs a call's function.
    ///
    /// # Errors
    /// Its own, or it was taken out before.
    #[inline]
    pub(crate) fn run(
        &self,
        id: FunctionId,
        completion: Option<&dyn DeferredCompletion>,
        site: CallSite<'_>,
    ) -> WorkResult {
        let function = self.take(id).ok_or_else(|| anyhow!("the function no longer exists"))?;
        // Drivers without threads run it on the program's thread, whose scopes are not its own.
        cancel::outside(|| function.run(completion, site))
    }
}

impl fmt::Debug for FunctionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTable").field("op", &self.op).finish_non_exhaustive()
    }
}
