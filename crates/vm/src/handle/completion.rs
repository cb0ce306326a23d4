//! Completions: submitted instructions that can be waited for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;

use millstream_runtime::engine::Engine;
use millstream_runtime::engine::leases::Lease;
use millstream_runtime::scope::origin;
use millstream_runtime::scope::reentrancy;
use millstream_runtime::sync::points::{Milestone, Waiter};
use millstream_runtime::tapes::run::Run;
use millstream_types::{Error, Origin, Point, Result};

use crate::handle::machine::Machine;

/// Submitted instructions that can be waited for: blocking, with a time-out, or as a future.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let y = x.relu()?;
/// let done = y.completion()?; // also a future
/// done.wait()?;
/// assert!(done.query());
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Completion {
    machine: Machine,
    /// At most one of each stream.
    points: SmallVec<[Point; 1]>,
    reports: Reports,
    /// Keeps the stream of the point from being reused: a reused one reports later failures alone.
    lease: Option<Arc<Lease>>,
    /// The registered waker, and the point that it is registered for.
    registered: Option<(Point, Waker)>,
}

/// The failure that a wait reports.
#[derive(Clone)]
enum Reports {
    /// The first one on a stream up to the awaited point.
    Streams,
    /// The poison of a storage, given by its number.
    Storage(u64),
    /// The launch's own.
    Launch(Arc<Run>),
}

impl Completion {
    pub(crate) fn new(machine: Machine, points: impl IntoIterator<Item = Point>) -> Completion {
        let points = points.into_iter().collect();
        Completion { machine, points, reports: Reports::Streams, lease: None, registered: None }
    }

    /// Returns the completion, which from now on keeps the lease of its point's stream.
    pub(super) fn keeping(mut self, lease: Option<Arc<Lease>>) -> Completion {
        self.lease = lease;
        self
    }

    /// Creates a completion of the last write of a storage, given by its number.
    pub(crate) fn of_storage(machine: Machine, last: Point, storage: Option<u64>) -> Completion {
        let mut completion = Completion::new(machine, [last]);
        completion.reports = storage.map_or(Reports::Streams, Reports::Storage);
        completion
    }

    /// Creates a completion of a launch.
    pub(crate) fn of_launch(machine: Machine, run: Arc<Run>) -> Completion {
        let mut completion = Completion::new(machine, [run.at]);
        completion.reports = Reports::Launch(run);
        completion
    }

    /// Returns whether all points have completed. Never blocks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let done = x.relu()?.completion()?;
    /// done.wait()?;
    /// assert!(done.query()); // true from now on
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn query(&self) -> bool {
        self.points.iter().all(|&point| self.machine.shared.query(point))
    }

    /// Blocks until all points have completed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let wrong = Tensor::from_slice(&[7i64], 1, &machine)?;
    /// let row = x.index_select(&wrong, 0)?; // there is no row 7
    /// assert!(row.completion()?.wait().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Why the first instruction on a stream, up to the awaited one, failed or was skipped since
    /// failures were last cleared. Of a tensor: why it is poisoned. Of a launch: why its first call
    /// failed or was skipped.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        self.wait_at(None, origin::caller())
    }

    /// Blocks as [`Completion::wait`] does, for no longer than `timeout`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let done = x.relu()?.completion()?;
    /// done.wait_for(std::time::Duration::from_secs(60))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Timeout`], or as [`Completion::wait`].
    #[track_caller]
    pub fn wait_for(&self, timeout: Duration) -> Result<()> {
        self.wait_at(Some(timeout), origin::caller())
    }

    pub(crate) fn wait_at(&self, timeout: Option<Duration>, origin: Origin) -> Result<()> {
        let waited = self.machine.wait_for_all(&self.points, timeout);
        waited.map_err(|e| e.at(&origin))?;
        self.observe(&origin)
    }

    /// Removes the registered waker.
    fn leave(&mut self) {
        if let Some((point, waker)) = self.registered.take() {
            let points = &self.machine.shared.tables.points;
            points.leave(point, Milestone::Completed, &Waiter::Task(waker));
        }
    }

    /// Notes that the host has waited, and returns the failure, if any.
    fn observe(&self, origin: &Origin) -> Result<()> {
        let shared = &self.machine.shared;
        let observed = match self.points[..] {
            [point] => shared.observe(point, origin),
            _ => shared.lock().map(|mut engine| {
                let Engine { builder, router, .. } = &mut *engine;
                builder.observe(router, &self.points, origin);
            }),
        };
        observed.map_err(|e| e.at(origin))?;
        let tables = &self.machine.shared.tables;
        let first = match &self.reports {
            Reports::Storage(storage) => tables.poison.get(*storage),
            Reports::Launch(run) => run.failure(),
            Reports::Streams => self.points.iter().find_map(|&point| tables.failures.up_to(point)),
        };
        first.map_or(Ok(()), |f| Err(Error::of(f)))
    }
}

impl Future for Completion {
    type Output = Result<()>;

    /// Ready once all points have completed, or never can: as a wait without a limit. As after
    /// [`Completion::wait`], no stream waits for them again.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shared = self.machine.shared.clone();
        if let Err(error) = reentrancy::check(shared.tables.machine, "waiting") {
            return Poll::Ready(Err(error));
        }
        let Some(&open) = self.points.iter().find(|&&point| !shared.query(point)) else {
            return Poll::Ready(self.observe(&Origin::Unknown));
        };
        if let Err(error) = shared.check_unreachable(open) {
            return Poll::Ready(Err(error));
        }
        if !shared.runs_by_itself() {
            // No other thread runs instructions, so the task has to poll again.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let waker = context.waker();
        if self
            .registered
            .as_ref()
            .is_some_and(|(point, registered)| *point == open && registered.will_wake(waker))
        {
            return Poll::Pending;
        }
        self.leave();
        if shared.tables.points.park(open, Milestone::Completed, Waiter::Task(waker.clone())) {
            self.registered = Some((open, waker.clone()));
        } else {
            // It has completed meanwhile; the next poll checks the other points.
            waker.wake_by_ref();
        }
        Poll::Pending
    }
}

impl Clone for Completion {
    fn clone(&self) -> Completion {
        let (points, reports) = (self.points.clone(), self.reports.clone());
        let (machine, lease) = (self.machine.clone(), self.lease.clone());
        Completion { machine, points, reports, lease, registered: None }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points: Vec<String> = self.points.iter().map(Point::to_string).collect();
        write!(f, "Completion({})", points.join(", "))
    }
}
