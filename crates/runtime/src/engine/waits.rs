//! Waits of submitting threads: for room, for points, and for steps of the drivers without threads.
//!
//! No wait holds the engine's lock.

use std::fmt::Display;
use std::time::{Duration, Instant};

use millstream_instructions::Frontier;
use millstream_types::{Error, Point, Result};

use crate::driver::DriverKind;
use crate::engine::shared::MachineShared;
use crate::engine::stall::{Awaited, Registered};
use crate::scope::reentrancy;
use crate::sync::backoff::{Backoff, PROGRAM_POLLS};
use crate::sync::points::{Milestone, Waiter};
use crate::sync::signal::Signal;
use crate::sync::{Ordering, current, heavy_fence, park_timeout};
use crate::tables::Tables;

/// How long the inline driver waits for devices without progress.
const STALL_LIMIT: Duration = Duration::from_millis(100);

/// How often a waiting thread looks whether the ranks of its process wait for one another.
const STALL_INTERVAL: Duration = Duration::from_millis(5);

/// How long a waiting thread parks before it executes the expensive half of the fence, which would
/// cost too much for short waits.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A thread of the program that waits for a result.
struct Waiting<'a>(&'a Tables);

impl Waiting<'_> {
    fn begin(tables: &Tables) -> Waiting<'_> {
        // Relaxed: it only hints.
        tables.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(tables)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Checks for a while whether `is_over`. Returns whether it is.
fn poll(is_over: impl Fn() -> bool) -> bool {
    // A parked worker is woken on another core, which has to wake up itself: tens of microseconds
    // on some machines. If this thread parks at once, the worker can run on its core instead.
    let checks = if reentrancy::take_wakeup() { 0 } else { PROGRAM_POLLS };
    let mut backoff = Backoff::new(checks);
    while !is_over() {
        if !backoff.spin() {
            return false;
        }
    }
    true
}

impl MachineShared {
    /// Waits until there is room for more instructions. Called outside the critical section.
    #[inline]
    pub fn wait_for_room(&self) -> Result<()> {
        if self.tables.backlog.has_room(self.watermark) { Ok(()) } else { self.wait_until_room() }
    }

    #[cold]
    fn wait_until_room(&self) -> Result<()> {
        self.push_bulks_before_wait()?;
        self.recording.pause("too many instructions pending", None, || self.wait_for_less())
    }

    fn wait_for_less(&self) -> Result<()> {
        let backlog = &self.tables.backlog;
        if self.driver == DriverKind::Simulated {
            // If nothing can move, the remaining instructions wait for the program.
            let _ = self.step_until(&"room", false, || backlog.has_room(self.watermark));
            return Ok(());
        }
        let mut pending = backlog.pending();
        let _registered = self.register(Awaited::Room);
        while !backlog.wait(self.watermark / 2, Duration::from_millis(100)) {
            self.tables.check_workers()?;
            if self.is_closed() {
                return Err(Error::Closed);
            }
            if self.runs_by_itself() {
                self.report_stall()?;
            }
            // While other streams move, there may be room later.
            let before = std::mem::replace(&mut pending, backlog.pending());
            if pending >= before {
                self.watchdog.as_ref().map_or(Ok(()), |watchdog| watchdog.check_any())?;
            }
            if self.driver == DriverKind::Inline {
                self.advance_inline(Duration::ZERO)?;
                // No other thread runs instructions: the remaining ones wait for the program.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Inline: advances until the points of `frontier` have completed. Returns false once nothing
    /// has moved for a while: the remaining instructions may wait for the program, which must not
    /// be blocked.
    pub(super) fn advance_until(&self, frontier: &Frontier) -> Result<bool> {
        let Tables { points, backlog, .. } = &*self.tables;
        let (mut pending, mut since) = (backlog.pending(), Instant::now());
        while !frontier.iter().all(|point| points.reached(point, Milestone::Completed)) {
            let before = std::mem::replace(&mut pending, backlog.pending());
            if pending < before {
                since = Instant::now();
            } else if since.elapsed() > STALL_LIMIT {
                return Ok(false);
            }
            self.advance_inline(STALL_LIMIT)?;
        }
        Ok(true)
    }

    /// Blocks until a point has completed.
    pub fn wait_point(&self, point: Point, timeout: Option<Duration>) -> Result<()> {
        reentrancy::check(self.tables.machine, "waiting")?;
        if self.tables.points.reached(point, Milestone::Completed) {
            return self.wait_unreached(point, timeout);
        }
        self.push_bulks_before_wait()?;
        let wait = || self.wait_unreached(point, timeout);
        self.recording.pause("waits for a result", Some(point), wait)
    }

    /// Blocks until `signal` is set, which the instruction at `point` does in any case.
    pub fn wait_for_signal(&self, signal: &Signal, point: Point) -> Result<()> {
        if signal.is_set() {
            return Ok(());
        }
        let wait = || self.wait_for_unset(signal, point);
        self.recording.pause("waits for a variable", Some(point), wait)
    }

    fn wait_for_unset(&self, signal: &Signal, point: Point) -> Result<()> {
        match self.driver {
            DriverKind::Simulated => return self.step_until(&point, true, || signal.is_set()),
            DriverKind::Inline => {
                let _registered = self.register(Awaited::Point(point));
                while !signal.is_set() {
                    self.check_unreachable(point)?;
                    self.advance_inline(Duration::from_millis(20))?;
                }
                return Ok(());
            }
            // Nothing sets it.
            DriverKind::Check => return Ok(()),
            DriverKind::Threaded => {}
        }
        let _waiting = Waiting::begin(&self.tables);
        if poll(|| signal.is_set()) {
            return Ok(());
        }
        let registered = self.register(Awaited::Point(point));
        let interval = if registered.is_some() { STALL_INTERVAL } else { RECHECK_INTERVAL };
        while !signal.wait(interval) {
            if registered.is_some() && !signal.is_set() {
                self.report_stall()?;
            }
            self.check_unreachable(point)?;
        }
        Ok(())
    }

    fn wait_unreached(&self, point: Point, timeout: Option<Duration>) -> Result<()> {
        let points = &self.tables.points;
        if self.driver == DriverKind::Check && !points.reached(point, Milestone::Completed) {
            let message = format!("nothing runs, and {point} has not completed");
            return Err(Error::Internal { message });
        }
        let late = || Error::Timeout { what: format!("{point}") };
        let start = Instant::now();
        let left = |all: Duration| all.checked_sub(start.elapsed()).ok_or_else(late);
        if self.driver == DriverKind::Simulated {
            let waited =
                self.step_until(&point, true, || points.reached(point, Milestone::Completed));
            if waited.is_ok()
                && let Some(simulated) = self.lock()?.router.driver.simulated_mut()
            {
                simulated.note_observed(point);
            }
            // A wait with a timeout ends there: without a clock, it times out only when nothing can
            // move.
            return if timeout.is_some() { waited.map_err(|_| late()) } else { waited };
        }
        // A wait with a time limit ends by itself.
        let register = || timeout.map_or_else(|| self.register(Awaited::Point(point)), |_| None);
        if self.driver == DriverKind::Inline {
            let _registered = register();
            while !points.reached(point, Milestone::Completed) {
                let patience = Duration::from_millis(20);
                let patience = timeout.map_or(Ok(patience), |all| Ok(left(all)?.min(patience)))?;
                self.check_unreachable(point)?;
                self.advance_inline(patience)?;
            }
            return Ok(());
        }
        let _waiting = Waiting::begin(&self.tables);
        if poll(|| points.reached(point, Milestone::Completed)) {
            return Ok(());
        }
        let waiter = Waiter::Thread(current());
        if !points.park(point, Milestone::Completed, waiter.clone()) {
            return Ok(());
        }
        // While ranks may wait for one another, this thread looks for that.
        let registered = register();
        let detects = registered.is_some();
        let mut interval = if detects { STALL_INTERVAL } else { RECHECK_INTERVAL };
        while !points.reached(point, Milestone::Completed) {
            // Checked after parking: a thread that finds the point unreachable wakes this waiter.
            if detects {
                self.report_stall()?;
            }
            let left =
                self.check_unreachable(point).and_then(|()| timeout.map_or(Ok(interval), left));
            match left {
                Ok(left) => {
                    park_timeout(left.min(interval));
                    // Rule 4 of points. Without that fence the thread goes on checking by itself.
                    if !detects && interval == RECHECK_INTERVAL && heavy_fence() {
                        interval = Duration::MAX;
                    }
                }
                Err(error) => {
                    points.leave(point, Milestone::Completed, &waiter);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns an error if shutdown left hanging instructions behind: no wait for them may
    /// continue.
    fn check_abandoned(&self) -> Result<()> {
        if self.abandoned.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns an error if a point cannot complete: shutdown left it behind, or it is overdue.
    pub fn check_unreachable(&self, point: Point) -> Result<()> {
        self.check_abandoned()?;
        self.tables.check_workers()?;
        self.watchdog.as_ref().map_or(Ok(()), |watchdog| watchdog.check(point))
    }

    /// Returns whether other threads than the program's run instructions.
    pub fn runs_by_itself(&self) -> bool {
        self.driver == DriverKind::Threaded
    }

    /// Simulated: runs steps until `done`.
    fn step_until(
        &self,
        what: &dyn Display,
        waits_for_ranks: bool,
        done: impl Fn() -> bool,
    ) -> Result<()> {
        let mut engine = self.lock()?;
        let tables = engine.router.tables.clone();
        let done_or_pushed = || done() || self.has_queued_pushes();
        loop {
            let router = &mut engine.router;
            let Some(simulated) = router.driver.simulated_mut() else { return Ok(()) };
            reentrancy::enter(tables.machine, || {
                simulated.wait(&tables, what, waits_for_ranks, done_or_pushed)
            })?;
            if !self.emit_queued_pushes(&mut engine) {
                return Ok(());
            }
        }
    }

    /// Simulated: the program queries whether a point has completed.
    pub(crate) fn query_simulated(&self, point: Point) -> Result<bool> {
        let mut engine = self.lock()?;
        let router = &mut engine.router;
        let tables = router.tables.clone();
        let Some(simulated) = router.driver.simulated_mut() else { return Ok(false) };
        let reached = reentrancy::enter(tables.machine, || simulated.query(&tables, point));
        self.emit_queued_pushes(&mut engine);
        Ok(reached)
    }

    /// Counts the calling thread as waiting, if the communicator detects ranks that wait for one
    /// another.
    fn register(&self, awaited: Awaited) -> Option<Registered<'_>> {
        self.tables.communicator.deliveries()?;
        self.submitters.wait(awaited)
    }

    /// Returns whether every thread of the program waits. Asked last: the workers may have become
    /// quiet by completing what one of them waits for.
    fn all_wait(&self) -> bool {
        let Tables { points, backlog, .. } = &*self.tables;
        self.submitters.all_wait(|awaited| match awaited {
            Awaited::Point(point) => points.reached(*point, Milestone::Completed),
            Awaited::Room => backlog.pending() <= self.watermark / 2,
        })
    }

    /// Tells the communicator if nothing of this machine can run before another rank acts, and all
    /// threads of the program wait.
    fn report_stall(&self) -> Result<()> {
        let communicator = &self.tables.communicator;
        let Some(deliveries) = communicator.deliveries() else { return Ok(()) };
        let is_quiet = self.lock()?.router.driver.is_quiet(&self.tables);
        if is_quiet && self.all_wait() {
            communicator.report_stall(deliveries);
        }
        Ok(())
    }

    /// Inline: runs everything that can run; if nothing could, waits up to `patience` for a
    /// message.
    pub(crate) fn advance_inline(&self, patience: Duration) -> Result<()> {
        let mut engine = self.lock()?;
        let router = &mut engine.router;
        let tables = router.tables.clone();
        // If something ran, the caller may already have what it waits for.
        let deliveries = tables.communicator.deliveries();
        if !router.driver.advance(&tables) && !patience.is_zero() {
            let is_stalled = |_: &u64| router.driver.is_quiet(&tables) && self.all_wait();
            if let Some(deliveries) = deliveries.filter(is_stalled) {
                tables.communicator.report_stall(deliveries);
            }
            router.driver.wait_for_messages(&tables, patience);
        }
        while self.emit_queued_pushes(&mut engine) {
            engine.router.driver.advance(&tables);
        }
        Ok(())
    }
}
