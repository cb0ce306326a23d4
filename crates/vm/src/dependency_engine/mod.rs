//! A dependency engine for functions of the program: MXNet's, on the machine's streams.
//!
//! Long because its items have examples.
//!
//! # Contract
//! A program pushes functions and names the variables that each reads and writes. A function runs
//! once all earlier pushes that conflict with it have ended. Two pushes conflict if they share a
//! variable that one of them writes.
//!
//! A push is a call of the op `closure`, and a variable is a tensor without elements. So the
//! builder orders functions as it orders ops, a variable may stand for a tensor with elements, and
//! lists, profiles, faults, cancellation and simulation know functions. There is no second tracker.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `push` | a push under construction, and its emission |
//! | `var` | variables |
//! | `prop`, `streams` | properties of functions, and the streams that run them |
//! | `operator` | functions that are made once and pushed often |
//! | `bulk`, `scopes` | several pushes as one |
//! | `closure` | the results that functions may have |
//!
//! The table of functions is `tables/functions.rs`; pushes are emitted by `engine/push`.

mod bulk;
mod closure;
mod operator;
mod prop;
mod push;
mod scopes;
mod streams;
mod var;

use std::fmt;
use std::sync::Arc;

use millstream_instructions::{Outcome, Priority};
use millstream_runtime::engine::push::{Target, Uses};
use millstream_runtime::engine::{Engine, Release};
use millstream_runtime::scope::{cancel, origin, reentrancy};
use millstream_runtime::sync::signal::Signal;
use millstream_runtime::sync::{AtomicU64, Ordering};
use millstream_runtime::tables::functions::{Function, OnComplete, SharedFunction};
use millstream_runtime::tables::run_context::RunContext;
use millstream_types::{Access, DType, Error, Origin, Result, StreamId, StreamMode, TensorSpec};

use crate::handle::machine::Machine;
use crate::handle::{Stream, Tensor};

pub use bulk::Bulk;
pub use closure::ClosureResult;
pub use operator::Operator;
pub use prop::Prop;
pub use push::Push;
pub use var::Var;

use push::NewPush;
use streams::EngineStreams;

/// A dependency engine: runs functions of the program in an order that their variables allow.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use millstream_vm::{Machine, MachineConfig};
///
/// # fn main() -> millstream_types::Result<()> {
/// let machine = Machine::new(MachineConfig::default())?;
/// let engine = machine.dependency_engine()?;
/// let (a, b) = (engine.var()?, engine.var()?);
/// let total = Arc::new(AtomicU32::new(0));
/// let of = |n| {
///     let total = total.clone();
///     move || drop(total.fetch_add(n, Ordering::Relaxed))
/// };
/// engine.push(of(1)).writes(&[&a]).spawn()?;
/// engine.push(of(2)).reads(&[&a]).writes(&[&b]).spawn()?; // after the first
/// engine.wait_for(&b)?;
/// assert_eq!(total.load(Ordering::Relaxed), 3);
/// # Ok(())
/// # }
/// ```
///
/// Any thread may push, and so may a function. A function may not wait: it gets
/// [`Error::Reentrant`](millstream_types::Error::Reentrant), since it might wait for itself. With
/// [`DriverKind::Inline`](crate::DriverKind) a push returns once its function has, in program
/// order: the naive engine, to compare with.
///
/// An error or a panic of a function poisons the variables that it writes. Functions that read or
/// write poisoned variables are dropped without a call, and what they write is poisoned too. A
/// function that overwrites a variable ([`Push::overwrites`]) runs and heals it.
pub struct DependencyEngine {
    machine: Machine,
    streams: EngineStreams,
    /// How many failures of the machine [`DependencyEngine::wait_all`] has reported or passed.
    seen: AtomicU64,
}

impl Machine {
    /// Returns a dependency engine whose functions run on the workers of the host's pools, in any
    /// order that their variables allow.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let engine = machine.dependency_engine()?;
    /// engine.push(|| println!("on a worker")).spawn()?;
    /// engine.wait_all()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has no host device, or its ops do not include `closure`.
    pub fn dependency_engine(&self) -> Result<DependencyEngine> {
        DependencyEngine::new(self, None)
    }

    /// Returns a dependency engine whose functions run in the order of an in-order stream: one
    /// after the other, on threads of the host, so that a long function holds up its stream alone.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let engine = machine.dependency_engine_on(&s)?; // functions run one after the other
    /// engine.push(|| ()).spawn()?;
    /// engine.wait_all()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Machine::dependency_engine`], or the stream is another machine's.
    pub fn dependency_engine_on(&self, stream: &Stream) -> Result<DependencyEngine> {
        self.own_stream(stream)?;
        DependencyEngine::new(self, Some(stream))
    }
}

impl DependencyEngine {
    fn new(machine: &Machine, normal: Option<&Stream>) -> Result<DependencyEngine> {
        machine.op(millstream_ops::closure::CLOSURE)?;
        let streams = EngineStreams::new(machine, normal)?;
        let (seen, _) = machine.shared.tables.failures.since(u64::MAX);
        Ok(DependencyEngine { machine: machine.clone(), streams, seen: AtomicU64::new(seen) })
    }

    /// Returns the machine.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.machine().synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns a new variable. It has no data: it only orders the functions that name it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let b = engine.var()?;
    /// engine.push(|| ()).reads(&[&a]).writes(&[&b]).spawn()?;
    /// engine.wait_for(&b)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn var(&self) -> Result<Var> {
        let (origin, stream) = (origin::caller(), &self.streams.variables);
        let spec = TensorSpec::contiguous(DType::U8, &[0])?;
        let (made, storage) = self.machine.shared.emit(&origin, |e| {
            let Engine { builder, router, .. } = &mut *e;
            match builder.allocate(router, stream.id, spec.clone(), 0, &origin)? {
                Outcome::Done(made) => {
                    let storage = router.slot(made.id).map_or(0, |slot| slot.storage);
                    Ok(Outcome::Done((e.made(made)?, storage)))
                }
                Outcome::Need(need) => Ok(Outcome::Need(need)),
            }
        })?;
        let slot = made.tensor;
        Ok(Var::new(self.machine.tensor(made, stream, &origin), slot, storage, true))
    }

    /// Returns a variable that stands for a tensor: functions that name it are ordered with the ops
    /// on the tensor. The tensor must lie in memory that the functions' stream can use; host
    /// memory for most.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::arange(0..3, &machine)?;
    /// let engine = machine.dependency_engine()?;
    /// let var = engine.var_of(&x)?;
    /// engine.push(|| println!("x has been computed")).reads(&[&var]).spawn()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is another machine's, or one without elements; or the machine cannot be entered
    /// here, as in a batch.
    #[track_caller]
    pub fn var_of(&self, tensor: &Tensor) -> Result<Var> {
        let origin = origin::caller();
        let at = |e: Error| e.at(&origin);
        let slot = self.machine.owns(tensor).map_err(at)?;
        let engine = self.machine.shared.lock().map_err(at)?;
        let storage = engine.router.slot(slot.id).map_or(0, |slot| slot.storage);
        drop(engine);
        Ok(Var::new(tensor.clone(), slot, storage, false))
    }

    /// Begins a push of a function, which returns nothing, or a `Result<(), E>` whose error fails
    /// the push. The push is complete when the function has returned.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.push(|| println!("first")).writes(&[&a]).spawn()?;
    /// engine.push(|| println!("second")).reads(&[&a]).spawn()?;
    /// engine.wait_all()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn push<R: ClosureResult>(
        &self,
        function: impl FnOnce() -> R + Send + 'static,
    ) -> Push<'_> {
        Push::new(self, Function::Once(Box::new(|| function().into_result())), origin::caller())
    }

    /// Begins a push of a function that only starts work. The push is complete when
    /// [`OnComplete::complete`] is called, from any thread.
    ///
    /// ```
    /// use millstream_vm::{Machine, MachineConfig};
    ///
    /// # fn main() -> millstream_types::Result<()> {
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let engine = machine.dependency_engine()?;
    /// let read = engine.var()?;
    /// engine
    ///     .push_async(|done| {
    ///         std::thread::spawn(|| done.complete()); // the device reports the end
    ///     })
    ///     .writes(&[&read])
    ///     .spawn()?;
    /// engine.wait_for(&read)?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn push_async<R: ClosureResult>(
        &self,
        function: impl FnOnce(OnComplete) -> R + Send + 'static,
    ) -> Push<'_> {
        let function = Box::new(|done: OnComplete| function(done).into_result());
        Push::new(self, Function::Async(function), origin::caller())
    }

    /// Begins a push of a function that gets its surroundings: device, native stream and scratch
    /// memory. It may complete later ([`RunContext::complete_later`]).
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let step = |context: &mut RunContext<'_>| println!("on {}", context.device());
    /// engine.push_with(step).writes(&[&a]).spawn()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn push_with<R: ClosureResult>(
        &self,
        function: impl FnOnce(&mut RunContext<'_>) -> R + Send + 'static,
    ) -> Push<'_> {
        let function = Box::new(|context: &mut RunContext<'_>| function(context).into_result());
        Push::new(self, Function::InContext(function), origin::caller())
    }

    /// Blocks until all functions pushed so far that write `var` have ended. Waits for no others:
    /// those that a function has yet to push are not among them.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.push(|| Err::<(), _>(std::fmt::Error)).writes(&[&a]).spawn()?;
    /// assert!(engine.wait_for(&a).is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The failure that poisoned the variable, for every waiter, until it is overwritten; or the
    /// wait was asked for by a function.
    #[track_caller]
    pub fn wait_for(&self, var: &Var) -> Result<()> {
        let origin = origin::caller();
        let shared = &self.machine.shared;
        let at = |error: Error| error.at(&origin);
        reentrancy::check(shared.tables.machine, "waiting").map_err(at)?;
        let mut uses = Uses::default();
        Var::add_uses(&mut uses, &[var], Access::Read, shared.tables.machine);
        uses.check().map_err(at)?;
        let (written, mode) = {
            let engine = shared.lock().map_err(at)?;
            let written = engine.builder.last_write(var.slot()).map_err(at)?;
            (written, engine.builder.mode(written.stream))
        };
        if mode == Some(StreamMode::Pool) {
            self.wait_in_pool(written.stream, &uses, origin.clone())?;
        } else {
            shared.wait_point(written, None).map_err(at)?;
        }
        let poison = shared.tables.poison.get(var.storage());
        poison.map_or(Ok(()), |failure| Err(Error::of(failure)))
    }

    /// Blocks until a function that uses these variables would run on a pool. Only the pool's own
    /// functions can wait for single ones of it.
    fn wait_in_pool(&self, pool: StreamId, uses: &Uses, origin: Origin) -> Result<()> {
        let signal = Signal::new();
        let mark = signal.mark();
        let push = NewPush {
            function: Function::Once(Box::new(move || {
                drop(mark);
                Ok(())
            })),
            stream: Target::Stream(pool),
            on_pusher: false,
        };
        let (form, operands) = uses.form(Priority::default(), Some("wait_for".into()));
        // The wait itself is not cancelled with the thread's work.
        let submit = || push::submit(&self.machine, push, uses, &form, &operands, &origin);
        let point = cancel::outside(submit)?;
        self.machine.shared.wait_for_signal(&signal, point).map_err(|e| e.at(&origin))
    }

    /// Blocks until everything that was submitted to the machine has ended, functions and ops, and
    /// what these functions have pushed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.push(|| println!("done")).writes(&[&a]).spawn()?;
    /// engine.wait_all()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first failure that this `DependencyEngine` has not reported yet. Clones are waiters of
    /// their own: each reports each failure.
    #[track_caller]
    pub fn wait_all(&self) -> Result<()> {
        let failures = &self.machine.shared.tables.failures;
        self.machine.wait_for_submitted(None, origin::caller())?;
        // Relaxed: the number belongs to the waiter.
        let (all, first) = failures.since(self.seen.load(Ordering::Relaxed));
        self.seen.fetch_max(all, Ordering::Relaxed);
        first.map_or(Ok(()), |failure| Err(Error::of(failure)))
    }

    /// Ends a variable: runs `function` once all functions pushed so far that name the variable
    /// have ended, even if the variable is poisoned. Later pushes that name it are refused. A
    /// tensor that a variable stands for is not ended.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// engine.push(|| println!("last use")).reads(&[&a]).spawn()?;
    /// engine.delete(&a, || println!("after it"))?;
    /// assert!(engine.push(|| ()).reads(&[&a]).spawn().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The variable was ended before, or is another machine's.
    #[track_caller]
    pub fn delete<R: ClosureResult>(
        &self,
        var: &Var,
        function: impl FnOnce() -> R + Send + 'static,
    ) -> Result<()> {
        let origin = origin::caller();
        let function = Function::Once(Box::new(|| function().into_result()));
        Push::new(self, function, origin.clone()).overwrites(&[var]).name("delete").spawn()?;
        if !var.is_plain() {
            return Ok(());
        }
        let shared = &self.machine.shared;
        if reentrancy::is_within(shared.tables.machine) {
            shared.release(Release::Tensor(var.slot(), origin));
            return Ok(());
        }
        self.machine.release_now(var.tensor(), None, &origin)
    }

    /// Makes an operator: a function that is pushed many times. Each push costs less than one of a
    /// new function, since nothing is allocated.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let step = engine.operator(|| ()).writes(&[&a]);
    /// step.push()?;
    /// step.push()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn operator<R: ClosureResult>(
        &self,
        function: impl Fn() -> R + Send + Sync + 'static,
    ) -> Operator {
        let function = Arc::new(move || function().into_result());
        Operator::new(self, SharedFunction::Sync(function))
    }

    /// Makes an operator as [`DependencyEngine::operator`] does, of a function that only starts
    /// work.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let step = engine.operator_async(|done| {
    ///     std::thread::spawn(|| done.complete());
    /// });
    /// step.writes(&[&a]).push()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn operator_async<R: ClosureResult>(
        &self,
        function: impl Fn(OnComplete) -> R + Send + Sync + 'static,
    ) -> Operator {
        let function = Arc::new(move |done| function(done).into_result());
        Operator::new(self, SharedFunction::Async(function))
    }

    /// Makes an operator as [`DependencyEngine::operator`] does, of a function that gets its
    /// surroundings.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let step = engine.operator_with(|context| println!("on {}", context.device()));
    /// step.writes(&[&a]).push()?;
    /// engine.wait_for(&a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn operator_with<R: ClosureResult>(
        &self,
        function: impl Fn(&mut RunContext<'_>) -> R + Send + Sync + 'static,
    ) -> Operator {
        let function =
            Arc::new(move |context: &mut RunContext<'_>| function(context).into_result());
        Operator::new(self, SharedFunction::InContext(function))
    }

    /// Begins a scope in which up to `most` consecutive pushes become one: see [`Bulk`].
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let engine = machine.dependency_engine()?;
    /// # let a = engine.var()?;
    /// let mut bulk = engine.bulk(15);
    /// bulk.push(|| ()).writes(&[&a]).spawn()?;
    /// bulk.flush()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bulk(&self, most: usize) -> Bulk<'_> {
        Bulk::new(self, most)
    }
}

/// A clone is the same engine, and another waiter.
impl Clone for DependencyEngine {
    fn clone(&self) -> DependencyEngine {
        let seen = AtomicU64::new(self.seen.load(Ordering::Relaxed));
        DependencyEngine { machine: self.machine.clone(), streams: self.streams.clone(), seen }
    }
}

impl fmt::Debug for DependencyEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DependencyEngine").field("machine", &self.machine).finish_non_exhaustive()
    }
}
