//! The one critical section of a machine: hazards, sequence numbers, placement and enqueueing.

use std::fmt::Display;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use millstream_instructions::builder::{EventRef, SectionId};
use millstream_instructions::{ArenaId, Arenas, Builder, Frontier, Need, Outcome, TensorRef};
use millstream_types::{Error, ListId, Origin, Point, Result, StreamId};

use crate::calls::Calls;
use crate::cancel;
use crate::engine::Engine;
use crate::guard;
use crate::inside::Inside;
use crate::job::Ended;
use crate::machine::{DriverKind, Shared};
use crate::points::{Mark, Waiter};
use crate::router::Router;
use crate::sync::{Ordering, current, heavy_fence, park_timeout, spin_loop, spins};

/// What the critical section protects.
pub(crate) struct Emission {
    pub(crate) builder: Builder,
    pub(crate) router: Router,
    pub(crate) calls: Calls,
    pub(crate) ended_jobs: Ended,
    pub(crate) next_list: u32,
    /// Whether an emission was left half done.
    pub(crate) is_broken: bool,
    /// Inline: how many emissions are made before devices that fall behind are waited for again.
    pub(crate) given_up: u32,
}

/// Something that a handle's drop has let go of.
pub(crate) enum Release {
    Tensor(TensorRef, Origin),
    Event(EventRef),
    Section(SectionId, Origin),
    Job(ListId),
    Call(u32),
}

impl Emission {
    /// Makes sure that a stream has a worker.
    #[inline]
    pub(crate) fn open(&mut self, stream: StreamId) -> Result<()> {
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

    fn release(&mut self, release: Release) -> Option<Release> {
        match release {
            Release::Tensor(tensor, origin) => {
                let released = self.builder.release(&mut self.router, tensor, None, &origin);
                // Dropped within a critical section, it is released once that ends. Any other
                // error means that it was released by hand before its handle was dropped.
                if let Err(Error::Held { .. }) = released {
                    return Some(Release::Tensor(tensor, origin));
                }
            }
            Release::Event(event) => self.builder.release_event(&event),
            Release::Section(section, origin) => {
                let Emission { builder, router, .. } = self;
                // The only error is that it has ended before.
                let _ = builder.end_critical_section(router, section, &origin);
            }
            Release::Call(number) => self.calls.let_go(number, self.router.tails()),
            Release::Job(list) => {
                if let Some(job) = self.router.jobs.remove(&list) {
                    self.ended_jobs.push((job.launched, job));
                }
            }
        }
        None
    }

    /// Gives back what stored lists had that have run for the last time.
    fn bury_jobs(&mut self) {
        let Emission { builder, router, ended_jobs, .. } = self;
        ended_jobs.retain(|(last, job)| {
            if !router.engine.points.reached(*last, Mark::Completed) {
                return true;
            }
            for tensor in job.tensors.drain(..) {
                builder.end_import(tensor);
            }
            for read in job.reads.drain(..) {
                router.engine.host.take_read(read);
            }
            false
        });
    }
}

/// How long the inline driver waits for devices among which nothing moves.
const PATIENCE: Duration = Duration::from_millis(100);

/// How many emissions it makes after that before it waits again.
const GIVEN_UP: u32 = 1 << 12;

/// How often a waiting thread looks before it sleeps. A few microseconds: shorter than a wake-up.
const SPINS: u32 = spins(2000);

/// How long a waiting thread sleeps before it makes sure that it has not been missed: a fence for all
/// threads, which is too much for short waits.
const NAP: Duration = Duration::from_millis(100);

impl Shared {
    pub(crate) fn lock(&self) -> Result<Inside<'_>> {
        guard::refuse_held(self.engine.machine)?;
        Inside::enter(&self.emission)
    }

    /// Runs `emit` in the critical section until it needs nothing more.
    pub(crate) fn emit<T>(
        self: &Arc<Shared>,
        origin: &Origin,
        mut emit: impl FnMut(&mut Emission) -> Result<Outcome<T>>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            let mut emission = self.enter().map_err(|e| e.at(origin))?;
            let outcome = emit(&mut emission).map_err(|e| e.at(origin));
            self.leave(emission);
            match outcome? {
                Outcome::Done(value) => return Ok(value),
                Outcome::Need(Need::Everything(error)) => {
                    self.last_resort(*error, &mut tries, origin).map_err(|e| e.at(origin))?;
                }
                Outcome::Need(need) => self.satisfy(need, origin).map_err(|e| e.at(origin))?,
            }
        }
    }

    /// Enters the critical section, to emit, once there is room for more.
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        guard::refuse_within(self.engine.machine, "submitting")?;
        loop {
            self.wait_for_room()?;
            let mut emission = self.lock()?;
            // Under the lock: workers are told to stop under it, and hear of nothing given later.
            if self.is_closed() {
                return Err(Error::Closed);
            }
            self.drain(&mut emission);
            emission.router.within = cancel::current();
            if emission.given_up > 0 {
                emission.given_up -= 1;
                return Ok(emission);
            }
            let Emission { builder, router, .. } = &mut *emission;
            let Some(crowd) = builder.backpressure_frontier(self.watermark_bytes, router) else {
                return Ok(emission);
            };
            emission.router.within = None;
            drop(emission);
            if self.driver == DriverKind::Inline {
                if !self.comes_inline(&crowd)? {
                    self.lock()?.given_up = GIVEN_UP;
                }
                continue;
            }
            for point in crowd.iter() {
                self.wait_point(point, None)?;
            }
        }
    }

    /// Inline: goes on with what there is until these points have passed. Returns false once nothing
    /// has moved for a while: what is left may wait for the program, which must not be held up.
    fn comes_inline(&self, crowd: &Frontier) -> Result<bool> {
        let Engine { points, backlog, .. } = &*self.engine;
        let (mut pending, mut since) = (backlog.pending(), Instant::now());
        while !crowd.iter().all(|point| points.reached(point, Mark::Completed)) {
            let before = std::mem::replace(&mut pending, backlog.pending());
            if pending < before {
                since = Instant::now();
            } else if since.elapsed() > PATIENCE {
                return Ok(false);
            }
            self.advance_inline(PATIENCE)?;
        }
        Ok(true)
    }

    /// Leaves the critical section after an emission.
    pub(crate) fn leave(&self, mut emission: Inside<'_>) {
        let Router { driver, engine, within, .. } = &mut emission.router;
        *within = None;
        driver.advance(engine);
        drop(emission);
        self.drain_late();
    }

    /// Emits what handles' drops have let go of.
    pub(crate) fn drain(&self, emission: &mut Emission) {
        if self.releases.is_empty() && emission.ended_jobs.is_empty() {
            return;
        }
        let mut kept = Vec::new();
        while let Some(release) = self.releases.pop() {
            kept.extend(emission.release(release));
        }
        for release in kept {
            self.releases.push(release);
        }
        if !emission.ended_jobs.is_empty() {
            emission.bury_jobs();
        }
    }

    /// Takes note of something let go of. Never blocks: if an emission is under way, that or the
    /// next one finds it.
    pub(crate) fn release(&self, release: Release) {
        self.releases.push(release);
        self.drain_late();
    }

    /// Emits what was let go of while an emission was under way.
    fn drain_late(&self) {
        if self.releases.is_empty() || self.is_closed() {
            return;
        }
        let held = match self.emission.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Ok(mut emission) = Inside::of(held) {
            self.drain(&mut emission);
        }
    }

    /// Waits until there is room for more. Outside the critical section.
    fn wait_for_room(&self) -> Result<()> {
        let backlog = &self.engine.backlog;
        if backlog.has_room(self.watermark) {
            return Ok(());
        }
        if self.driver == DriverKind::Simulated {
            // What is left when nothing can move waits for the program.
            let _ = self.step_until(&"room", || backlog.has_room(self.watermark));
            return Ok(());
        }
        let mut pending = backlog.pending();
        while !backlog.wait(self.watermark / 2, Duration::from_millis(100)) {
            if self.is_closed() {
                return Err(Error::Closed);
            }
            // As long as others move, there may be room yet.
            let before = std::mem::replace(&mut pending, backlog.pending());
            if pending >= before {
                self.watch.as_ref().map_or(Ok(()), |watch| watch.refuse_any())?;
            }
            if self.driver == DriverKind::Inline {
                self.advance_inline(Duration::ZERO)?;
                // Nothing runs by itself: what is left waits for the program.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Gets what an emission needs. No lock is held while waiting.
    fn satisfy(self: &Arc<Shared>, need: Need, origin: &Origin) -> Result<()> {
        match need {
            Need::Wait(points) => self.wait_and_observe(&points, origin),
            Need::Grow { arena, bytes, least, stream } => self.grow(arena, bytes, least, stream),
            Need::Return { arena, bytes } => self.give_back(arena, bytes, origin),
            Need::Everything(error) => Err(*error),
        }
    }

    fn wait_and_observe(&self, points: &[Point], origin: &Origin) -> Result<()> {
        for &point in points {
            self.wait_point(point, None)?;
        }
        let mut emission = self.lock()?;
        let Emission { builder, router, .. } = &mut *emission;
        builder.observe(router, points, origin);
        Ok(())
    }

    fn grow(&self, arena: ArenaId, bytes: u64, least: u64, stream: StreamId) -> Result<()> {
        let _one = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let (device, limit, reserved, starts) = {
            let emission = self.lock()?;
            let planner = emission.builder.planner();
            let device = planner.device(arena).clone();
            let limit = planner.limit(&device);
            let starts = [bytes, least].map(|bytes| planner.next_chunk(arena, bytes));
            (device, limit, planner.reserved(arena), starts)
        };
        let memory = &self.engine.memory;
        let Some(limit) = limit else {
            let limit = memory.limit(&device)?;
            self.lock()?.builder.planner_mut().set_limit(&device, limit);
            return Ok(());
        };
        if reserved.saturating_add(bytes) > limit {
            // Somebody else has grown it meanwhile; ask again.
            return Ok(());
        }
        let mut grown = (memory.grow(arena, &device, starts[0], bytes), bytes);
        if matches!(grown.0, Err(Error::OutOfMemory { .. })) && least < bytes {
            // Others may have taken what a share of theirs would need, and left what is wanted.
            grown = (memory.grow(arena, &device, starts[1], least), least);
        }
        match grown.0 {
            Ok(()) => self.lock()?.builder.grown(arena, grown.1, stream),
            // The device gives no more: what there is, is the limit.
            Err(Error::OutOfMemory { .. }) => {
                self.lock()?.builder.planner_mut().set_limit(&device, reserved);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Gives free memory back to its device until there is room for `bytes` bytes.
    fn give_back(&self, arena: ArenaId, bytes: u64, origin: &Origin) -> Result<()> {
        loop {
            let (start, points) = {
                let emission = self.lock()?;
                let planner = emission.builder.planner();
                let limit = planner.limit(planner.device(arena)).unwrap_or(u64::MAX);
                if planner.reserved(arena).saturating_add(bytes) <= limit {
                    return Ok(());
                }
                // Somebody else may have taken it meanwhile: then ask again.
                let Some(next) = planner.next_return(arena) else { return Ok(()) };
                next
            };
            self.wait_and_observe(&points, origin)?;
            let _one = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.lock()?.builder.give_back(arena, start) {
                return Ok(());
            }
            self.engine.memory.shrink(arena, start);
        }
    }

    /// Waits for all that was submitted, which lets go of what it holds. The second time, asks a
    /// device again that gave no more when it was last asked. Then there is no way left.
    fn last_resort(&self, error: Error, tries: &mut u32, origin: &Origin) -> Result<()> {
        let Error::OutOfMemory { device, .. } = &error else { return Err(error) };
        let arena = self.lock()?.builder.planner_mut().arena(device);
        *tries += 1;
        if *tries > 1 {
            let limit = self.engine.memory.limit(device)?;
            let mut emission = self.lock()?;
            let planner = emission.builder.planner_mut();
            if *tries == 2 && planner.limit(device).is_some_and(|lowered| lowered < limit) {
                planner.set_limit(device, limit);
                return Ok(());
            }
            planner.refused(arena);
            return Err(error);
        }
        let tails = {
            let mut emission = self.lock()?;
            emission.builder.planner_mut().host_waited(arena);
            emission.router.tails()
        };
        self.wait_and_observe(&tails, origin)
    }

    /// Blocks until a point has completed.
    pub(crate) fn wait_point(&self, point: Point, timeout: Option<Duration>) -> Result<()> {
        guard::refuse_within(self.engine.machine, "waiting")?;
        let points = &self.engine.points;
        let late = || Error::Timeout { what: format!("{point}") };
        let start = Instant::now();
        let left = |all: Duration| all.checked_sub(start.elapsed()).ok_or_else(late);
        if self.driver == DriverKind::Simulated {
            let waited = self.step_until(&point, || points.reached(point, Mark::Completed));
            if waited.is_ok()
                && let Some(simulated) = self.lock()?.router.driver.simulated_mut()
            {
                simulated.tell(point);
            }
            // A wait with a limit ends there, and without a clock only when nothing can move.
            return if timeout.is_some() { waited.map_err(|_| late()) } else { waited };
        }
        if self.driver == DriverKind::Inline {
            while !points.reached(point, Mark::Completed) {
                let patience = Duration::from_millis(20);
                let patience = timeout.map_or(Ok(patience), |all| Ok(left(all)?.min(patience)))?;
                self.refuse_abandoned()?;
                self.advance_inline(patience)?;
            }
            return Ok(());
        }
        // A worker that was asleep is woken on another core, which has to wake up itself: tens of
        // microseconds on some machines. If this core comes free at once, it runs the worker instead.
        let looks = if guard::take_roused() { 0 } else { SPINS };
        for _ in 0..looks {
            if points.reached(point, Mark::Completed) {
                return Ok(());
            }
            spin_loop();
        }
        let waiter = Waiter::Thread(current());
        if !points.park(point, Mark::Completed, waiter.clone()) {
            return Ok(());
        }
        let mut nap = NAP;
        while !points.reached(point, Mark::Completed) {
            // Asked within the list: should it become hopeless now, who finds that nudges.
            let left = self.refuse_hopeless(point).and_then(|()| timeout.map_or(Ok(nap), left));
            match left {
                Ok(left) => {
                    park_timeout(left.min(nap));
                    // Rule 4 of points. Without that fence it goes on looking by itself.
                    if nap == NAP && heavy_fence() {
                        nap = Duration::MAX;
                    }
                }
                Err(error) => {
                    points.leave(point, Mark::Completed, &waiter);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// What hangs was left behind when the machine was shut down: nobody waits for it any more.
    fn refuse_abandoned(&self) -> Result<()> {
        if self.abandoned.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Nobody goes on waiting for what was left behind, or for what is overdue.
    pub(crate) fn refuse_hopeless(&self, point: Point) -> Result<()> {
        self.refuse_abandoned()?;
        self.watch.as_ref().map_or(Ok(()), |watch| watch.refuse(point))
    }

    /// Whether instructions are run by others than the program's own thread.
    pub(crate) fn runs_by_itself(&self) -> bool {
        self.driver == DriverKind::Threaded
    }

    /// Simulated: runs steps until `done`.
    fn step_until(&self, what: &dyn Display, done: impl Fn() -> bool) -> Result<()> {
        let mut emission = self.lock()?;
        let router = &mut emission.router;
        let engine = router.engine.clone();
        let Some(simulated) = router.driver.simulated_mut() else { return Ok(()) };
        guard::within(engine.machine, || simulated.wait(&engine, what, done))
    }

    /// Simulated: the program looks whether a point has completed.
    pub(crate) fn query_simulated(&self, point: Point) -> Result<bool> {
        let mut emission = self.lock()?;
        let router = &mut emission.router;
        let engine = router.engine.clone();
        let Some(simulated) = router.driver.simulated_mut() else { return Ok(false) };
        Ok(guard::within(engine.machine, || simulated.query(&engine, point)))
    }

    /// Inline: runs what can run; if nothing could, waits for news for as long as `patience`.
    pub(crate) fn advance_inline(&self, patience: Duration) -> Result<()> {
        let mut emission = self.lock()?;
        let router = &mut emission.router;
        let engine = router.engine.clone();
        // What was run may be all that the caller waits for.
        if !router.driver.advance(&engine) && !patience.is_zero() {
            router.driver.wait_for_news(&engine, patience);
        }
        Ok(())
    }
}
