//! The critical section of a machine: hazards, sequence numbers, placement and enqueueing.

pub(crate) mod call_numbers;
pub mod closure_calls;
pub mod deferred;
mod growth;
pub mod guard;
pub mod leases;
pub mod push;
mod release;
pub mod router;
pub mod shared;
mod shutdown;
pub mod stall;
pub(crate) mod stream_options;
mod waits;

use std::sync::{Arc, PoisonError};

use millstream_instructions::{ArenaId, Arenas, InstructionsBuilder, Need, Outcome, TensorRef};
use millstream_types::{DeviceId, Error, Origin, Point, Result, StreamId, TensorSpec};

use crate::driver::DriverKind;
use crate::engine::closure_calls::ClosureCalls;
use crate::engine::deferred::DeferredNotes;
use crate::engine::growth::Growth;
use crate::engine::guard::EngineGuard;
use crate::engine::leases::Leases;
use crate::engine::push::BulkScopes;
use crate::engine::router::Router;
use crate::engine::shared::MachineShared;
use crate::scope::{cancel, fork, reentrancy};
use crate::sync::Ordering;
use crate::tables::functions::FunctionPlaces;

pub use release::Release;
pub use shutdown::ShutdownReport;
pub use stream_options::StreamOptions;

/// The state that the critical section protects.
pub struct Engine {
    pub builder: InstructionsBuilder,
    pub router: Router,
    pub leases: Leases,
    pub functions: FunctionPlaces,
    pub closures: ClosureCalls,
    pub bulks: BulkScopes,
    pub deferred: DeferredNotes,
    pub next_list: u32,
    /// How often the lock was taken.
    pub entries: u64,
    /// Whether a panic interrupted an emission.
    pub is_broken: bool,
    /// Inline: how many emissions pass before backpressure is applied again.
    pub backpressure_skips: u32,
}

/// A new tensor, described under the lock that made it.
pub struct MadeTensor {
    pub tensor: TensorRef,
    pub spec: Arc<TensorSpec>,
    pub device: DeviceId,
}

impl Engine {
    /// Makes sure that a stream has a worker.
    #[inline]
    pub fn open(&mut self, stream: StreamId) -> Result<()> {
        if self.router.is_open(stream) { Ok(()) } else { self.open_now(stream) }
    }

    #[cold]
    fn open_now(&mut self, stream: StreamId) -> Result<()> {
        let decl = self.builder.streams().nth(stream.index()).cloned();
        match decl {
            Some(decl) => self.router.open(stream, &decl),
            None => Err(Error::Foreign { what: stream.to_string() }),
        }
    }

    /// Describes a new tensor, for its handle.
    #[inline]
    pub fn made(&self, tensor: TensorRef) -> Result<MadeTensor> {
        let (spec, device) = self.builder.describe(tensor)?;
        Ok(MadeTensor { tensor, spec: spec.clone(), device: device.clone() })
    }
}

/// How many emissions pass without backpressure after such a wait.
const BACKPRESSURE_SKIPS: u32 = 1 << 12;

impl MachineShared {
    /// Takes the lock, pushes the functions in bulk scopes, and emits what threads have left for
    /// the next emission: later emissions come after them.
    #[inline]
    pub fn lock(&self) -> Result<EngineGuard<'_>> {
        let mut engine = self.lock_beside_bulks()?;
        if !engine.bulks.is_empty() {
            self.push_bulks(&mut engine);
        }
        if !self.is_closed() {
            self.emit_deferred(&mut engine);
        }
        Ok(engine)
    }

    /// Takes the lock to add to a bulk scope, or to push one.
    #[inline]
    pub fn lock_beside_bulks(&self) -> Result<EngineGuard<'_>> {
        fork::check(self.tables.machine)?;
        reentrancy::check_batch(self.tables.machine)?;
        if self.driver != DriverKind::Threaded {
            // The drivers without threads run work under the lock.
            reentrancy::check(self.tables.machine, "entering the machine")?;
        }
        EngineGuard::enter(&self.engine)
    }

    /// Runs `emit` in the critical section until it needs nothing more.
    pub fn emit<T>(
        self: &Arc<MachineShared>,
        origin: &Origin,
        emit: impl FnMut(&mut Engine) -> Result<Outcome<T>>,
    ) -> Result<T> {
        self.emit_in(self.enter().map_err(|error| error.at(origin))?, origin, emit)
    }

    /// Runs `emit` as [`MachineShared::emit`] does, first in an entered section.
    pub fn emit_in<T>(
        self: &Arc<MachineShared>,
        mut engine: EngineGuard<'_>,
        origin: &Origin,
        mut emit: impl FnMut(&mut Engine) -> Result<Outcome<T>>,
    ) -> Result<T> {
        let outcome = emit(&mut engine);
        match outcome {
            Ok(Outcome::Done(value)) => {
                self.leave(engine);
                Ok(value)
            }
            outcome => self.emit_after(outcome, engine, origin, emit),
        }
    }

    /// Provides for what an emission needs, and runs it again.
    #[cold]
    fn emit_after<'a, T>(
        self: &'a Arc<MachineShared>,
        first: Result<Outcome<T>>,
        mut engine: EngineGuard<'a>,
        origin: &Origin,
        mut emit: impl FnMut(&mut Engine) -> Result<Outcome<T>>,
    ) -> Result<T> {
        let at = |error: Error| error.at(origin);
        let (mut tries, mut first) = (0, Some(first));
        loop {
            let outcome = first.take().unwrap_or_else(|| emit(&mut engine)).map_err(at);
            let outcome = match outcome {
                Ok(Outcome::Need(need)) if engine.router.only_checks() => {
                    let Engine { builder, router, .. } = &mut *engine;
                    builder.assume(router, need, origin).map_err(at)?;
                    continue;
                }
                outcome => outcome,
            };
            let growth = match &outcome {
                Ok(Outcome::Need(Need::Grow { arena, bytes, least })) => {
                    Growth::plan(self, &engine, *arena, [*bytes, *least])
                }
                _ => None,
            };
            self.leave(engine);
            engine = match outcome? {
                Outcome::Done(value) => return Ok(value),
                Outcome::Need(Need::Grow { .. }) => match growth {
                    Some(growth) => growth.carry_out(self),
                    None => Growth::wait_for_other(self),
                },
                Outcome::Need(Need::Everything(error)) => {
                    let retried = self.retry_out_of_memory(*error, &mut tries, origin);
                    retried.and_then(|()| self.enter())
                }
                Outcome::Need(need) => self.satisfy(need, origin).and_then(|()| self.enter()),
            }
            .map_err(at)?;
        }
    }

    /// Enters the critical section to emit, once there is room for more instructions.
    #[inline]
    pub fn enter(&self) -> Result<EngineGuard<'_>> {
        reentrancy::check(self.tables.machine, "submitting")?;
        loop {
            self.wait_for_room()?;
            let mut engine = self.begin(self.lock()?)?;
            if engine.backpressure_skips > 0 {
                engine.backpressure_skips -= 1;
                return Ok(engine);
            }
            let Engine { builder, router, .. } = &mut *engine;
            let Some(frontier) = builder.backpressure_frontier(self.watermark_bytes, router) else {
                return Ok(engine);
            };
            engine.router.cancel_scope = None;
            drop(engine);
            if self.driver == DriverKind::Inline {
                if !self.advance_until(&frontier)? {
                    self.lock()?.backpressure_skips = BACKPRESSURE_SKIPS;
                }
                continue;
            }
            self.recording.pause("too many released bytes still in use", None, || {
                frontier.iter().try_for_each(|point| self.wait_point(point, None))
            })?;
        }
    }

    /// Enters the critical section for the machine's own work, which waits for no room: what is
    /// waited for might be that work.
    pub fn enter_nested(&self) -> Result<EngineGuard<'_>> {
        let engine = self.begin(self.lock()?)?;
        self.nested_pushes.fetch_add(1, Ordering::Release);
        Ok(engine)
    }

    /// Begins an emission under the held lock.
    #[inline]
    fn begin<'a>(&self, mut engine: EngineGuard<'a>) -> Result<EngineGuard<'a>> {
        // Under the lock: `shutdown` stops the workers under it, and they handle nothing submitted
        // later.
        if self.is_closed() {
            return Err(Error::Closed);
        }
        self.tables.check_workers()?;
        self.drain(&mut engine);
        engine.router.cancel_scope = cancel::current();
        Ok(engine)
    }

    /// Leaves the critical section after an emission.
    #[inline]
    pub fn leave(&self, mut engine: EngineGuard<'_>) {
        engine.router.cancel_scope = None;
        self.advance_driver(&mut engine);
        drop(engine);
        self.drain_late();
    }

    /// Advances a driver without threads, until the functions that run push nothing more.
    pub(crate) fn advance_driver(&self, engine: &mut Engine) {
        loop {
            let Router { driver, tables, .. } = &mut engine.router;
            driver.advance(tables);
            if !self.emit_queued_pushes(engine) {
                break;
            }
        }
    }

    /// Provides for a need of the builder. Waits without a lock.
    fn satisfy(self: &Arc<MachineShared>, need: Need, origin: &Origin) -> Result<()> {
        match need {
            Need::Wait(points) => {
                let wait = || self.wait_and_observe(&points, origin);
                self.recording.pause("memory in use", None, wait)
            }
            // `emit` grows arenas itself.
            Need::Grow { .. } => Ok(()),
            Need::Return { arena, bytes } => self.return_memory(arena, bytes, origin),
            Need::Everything(error) => Err(*error),
        }
    }

    pub fn wait_and_observe(&self, points: &[Point], origin: &Origin) -> Result<()> {
        for &point in points {
            self.wait_point(point, None)?;
        }
        let mut engine = self.lock()?;
        let Engine { builder, router, .. } = &mut *engine;
        builder.observe(router, points, origin);
        Ok(())
    }

    /// Returns free memory to its device until there is room for `bytes` bytes.
    fn return_memory(&self, arena: ArenaId, bytes: u64, origin: &Origin) -> Result<()> {
        loop {
            let (start, points) = {
                let mut engine = self.lock()?;
                let planner = engine.builder.planner_mut();
                let limit = planner.limit(planner.device(arena)).unwrap_or(u64::MAX);
                if planner.reserved(arena).saturating_add(bytes) <= limit {
                    return Ok(());
                }
                // Another thread may have returned it meanwhile; try again.
                let Some(next) = planner.next_return(arena) else { return Ok(()) };
                next
            };
            self.wait_and_observe(&points, origin)?;
            let _one = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.lock()?.builder.give_back(arena, start) {
                return Ok(());
            }
            self.tables.memory.shrink(arena, start);
        }
    }

    /// Returns all memory that no tensor holds to its device, after waiting for its last uses.
    /// Returns the number of bytes.
    pub fn return_free_memory(&self, origin: &Origin) -> Result<u64> {
        let mut engine = self.lock()?;
        if self.is_closed() {
            return Err(Error::Closed);
        }
        self.drain(&mut engine);
        let arenas = engine.builder.planner().devices().count();
        drop(engine);
        let mut returned = 0;
        for arena in (0..arenas).map(|index| ArenaId(index as u16)) {
            loop {
                let next = self.lock()?.builder.planner_mut().next_return(arena);
                let Some((start, points)) = next else { break };
                self.wait_and_observe(&points, origin)?;
                let _one = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
                let mut engine = self.lock()?;
                let before = engine.builder.planner().reserved(arena);
                // Another thread may use the chunk again: it is not free then.
                if !engine.builder.give_back(arena, start) {
                    break;
                }
                returned += before - engine.builder.planner().reserved(arena);
                drop(engine);
                self.tables.memory.shrink(arena, start);
            }
        }
        Ok(returned)
    }

    /// Waits for all submitted instructions, which frees their memory. The second time, asks a
    /// device for more that refused before. After that, fails.
    fn retry_out_of_memory(&self, error: Error, tries: &mut u32, origin: &Origin) -> Result<()> {
        let Error::OutOfMemory { device, .. } = &error else { return Err(error) };
        let arena = self.lock()?.builder.planner_mut().arena(device);
        *tries += 1;
        if *tries > 1 {
            let limit = self.tables.memory.limit(device)?;
            let mut engine = self.lock()?;
            let planner = engine.builder.planner_mut();
            if *tries == 2 && planner.limit(device).is_some_and(|lowered| lowered < limit) {
                planner.set_limit(device, limit);
                return Ok(());
            }
            planner.refused(arena);
            return Err(error);
        }
        let tails = {
            let mut engine = self.lock()?;
            engine.builder.planner_mut().host_waited(arena);
            engine.router.tails()
        };
        self.wait_and_observe(&tails, origin)
    }
}
