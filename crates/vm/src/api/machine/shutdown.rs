//! The end of a machine, in numbered steps.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use millstream_types::Point;

use crate::emission::reentrancy;
use crate::sync::Ordering;
use crate::sync::points::Milestone;

use super::{DriverKind, Machine, MachineShared};

/// What shutting down found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Streams with instructions that have not completed, and how far each has come.
    pub hanging: Vec<String>,
    /// The tensors that were not released, if memory is checked: what each is, how large, and where
    /// it was made.
    pub unreleased: Vec<String>,
    /// Whether worker threads, with their memory, were left behind.
    pub leaked: bool,
}

impl Machine {
    /// Shuts down: refuses what comes, drains what there is, ends the threads. Whatever has not
    /// completed within `timeout` is reported, and left behind with its threads and memory.
    pub fn shutdown(self, timeout: Duration) -> ShutdownReport {
        self.shared.shutdown(timeout)
    }
}

impl MachineShared {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// 1. Refuse new work. 2. Wait for what is on its way. 3. Tell the workers to stop. 4. Join
    ///    them, or leave those behind that hang, and have everyone told who waits without a limit.
    fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        if self.closed.swap(true, Ordering::AcqRel) {
            return ShutdownReport::default();
        }
        let start = Instant::now();
        let mut report = ShutdownReport::default();
        let Ok(tails) = self.lock().map(|e| e.router.tails()) else {
            return ShutdownReport { leaked: true, ..report };
        };
        for &point in &tails {
            let left = timeout.saturating_sub(start.elapsed());
            if self.wait_point(point, Some(left)).is_err() {
                report.hanging.push(self.describe(point));
            }
        }
        let Ok(mut emission) = self.lock() else {
            return ShutdownReport { leaked: true, ..report };
        };
        if self.check_memory {
            self.drain(&mut emission);
            report.unreleased = emission.builder.holders();
        }
        let threads = emission.router.driver.stop();
        drop(emission);
        if let Some(watchdog) = &self.watchdog {
            watchdog.stop();
        }
        if report.hanging.is_empty() {
            for thread in threads {
                // A worker that panicked has nothing left to give.
                let _ = thread.join();
            }
        } else {
            report.leaked = true;
            self.abandoned.store(true, Ordering::Release);
            tails.iter().for_each(|tail| self.tables.points.stream(tail.stream).wake_to_recheck());
        }
        report
    }

    fn describe(&self, point: Point) -> String {
        let done = self.tables.points.stream(point.stream).completed();
        let emission = self.emission.lock().unwrap_or_else(PoisonError::into_inner);
        let key = emission.builder.streams().nth(point.stream.index()).map(|s| s.key.to_string());
        format!(
            "{}: {done} of {} instructions completed",
            key.unwrap_or_else(|| point.stream.to_string()),
            point.seq
        )
    }

    /// Whether a point has completed. Never blocks.
    pub(crate) fn query(&self, point: Point) -> bool {
        let reached = || self.tables.points.reached(point, Milestone::Completed);
        // The machine's own work looks, and moves nothing.
        if self.runs_by_itself() || reentrancy::check(self.tables.machine, "").is_err() {
            return reached();
        }
        if self.driver == DriverKind::Simulated {
            return self.query_simulated(point).unwrap_or_else(|_| reached());
        }
        if !reached() {
            // Nobody else would ask the devices.
            let _ = self.advance_inline(Duration::ZERO);
        }
        reached()
    }
}

impl Drop for MachineShared {
    /// Drains, however long it takes. From within the machine's own work it cannot: then the
    /// threads end by themselves.
    fn drop(&mut self) {
        if reentrancy::check(self.tables.machine, "dropping").is_ok() {
            self.shutdown(Duration::MAX);
        } else if let Ok(emission) = self.emission.get_mut() {
            emission.router.driver.stop();
            self.watchdog.iter().for_each(|watchdog| watchdog.stop());
        }
    }
}
