//! Instructions on their way, to be waited for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use millstream_types::{Error, Origin, Point, Result};

use crate::emission::Emission;
use crate::machine::Machine;
use crate::points::{Mark, Waiter};

/// An instruction on its way, to be waited for: blocking, with a time-out, or as a future.
#[derive(Clone)]
pub struct Completion {
    machine: Machine,
    point: Point,
}

impl Completion {
    pub(crate) const fn new(machine: Machine, point: Point) -> Completion {
        Completion { machine, point }
    }

    /// Whether it has completed. Never blocks.
    pub fn query(&self) -> bool {
        self.machine.shared.query(self.point)
    }

    /// Blocks until it has completed.
    ///
    /// # Errors
    /// Why the first instruction on its stream, up to it, failed or was skipped since failures were
    /// last cleared.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        self.wait_from(None, Origin::caller())
    }

    /// As [`Completion::wait`], for no longer than `timeout`.
    ///
    /// # Errors
    /// [`Error::Timeout`], or as [`Completion::wait`].
    #[track_caller]
    pub fn wait_for(&self, timeout: Duration) -> Result<()> {
        self.wait_from(Some(timeout), Origin::caller())
    }

    pub(crate) fn wait_from(&self, timeout: Option<Duration>, origin: Origin) -> Result<()> {
        let machine = &self.machine;
        let waited = machine.shared.wait_point(self.point, timeout);
        waited.map_err(|e| machine.name_stream(e, self.point).at(&origin))?;
        let mut emission = machine.shared.lock()?;
        let Emission { builder, router, .. } = &mut *emission;
        builder.observe(router, &[self.point], &origin);
        drop(emission);
        self.failure()
    }

    fn failure(&self) -> Result<()> {
        let failures = &self.machine.shared.engine.failures;
        failures.up_to(self.point).map_or(Ok(()), |f| Err(Error::Failed(f)))
    }
}

impl Future for Completion {
    type Output = Result<()>;

    /// Ready once the instruction has completed; does not tell the builder so, as a query does not.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let engine = &self.machine.shared.engine;
        if self.query()
            || !engine.points.park(
                self.point,
                Mark::Completed,
                Waiter::Task(context.waker().clone()),
            )
        {
            return Poll::Ready(self.failure());
        }
        Poll::Pending
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({})", self.point)
    }
}
