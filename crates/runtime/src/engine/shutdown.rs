//! Shutdown of a machine, in numbered steps.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use millstream_types::Point;

use crate::scope::{fork, reentrancy};
use crate::sync::Ordering;
use crate::sync::points::Milestone;

use crate::driver::DriverKind;
use crate::engine::shared::MachineShared;

/// The findings of a shutdown.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let report = machine.shutdown(std::time::Duration::from_secs(60));
/// assert!(report.hanging.is_empty() && !report.leaked);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Streams with instructions that have not completed, and the progress of each.
    pub hanging: Vec<String>,
    /// The tensors that were not released, if memory is checked: each with its size and origin.
    pub unreleased: Vec<String>,
    /// Whether worker threads, with their memory, were left behind.
    pub leaked: bool,
}

impl MachineShared {
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// 1. Refuse new work. 2. Wait for pending work. 3. Tell the workers to stop. 4. Join them; or
    ///    leave hanging ones behind, and wake all waiters without a limit.
    pub fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        // Functions in bulk scopes were submitted. Without the lock nothing more is emitted.
        let _ = self.push_bulks_before_wait();
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
        let Ok(mut engine) = self.lock() else {
            return ShutdownReport { leaked: true, ..report };
        };
        if self.check_memory {
            self.drain(&mut engine);
            report.unreleased = engine.builder.holders();
        }
        let threads = engine.router.driver.stop();
        drop(engine);
        if let Some(watchdog) = &self.watchdog {
            watchdog.stop();
        }
        if report.hanging.is_empty() {
            for thread in threads {
                // A worker that panicked returns nothing.
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
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let key = engine.builder.streams().nth(point.stream.index()).map(|s| s.key.to_string());
        format!(
            "{}: {done} of {} instructions completed",
            key.unwrap_or_else(|| point.stream.to_string()),
            point.seq
        )
    }

    /// Returns whether a point has completed. Never blocks.
    pub fn query(&self, point: Point) -> bool {
        let reached = || self.tables.points.reached(point, Milestone::Completed);
        // A query from the machine's own work moves nothing.
        if self.runs_by_itself() || reentrancy::check(self.tables.machine, "").is_err() {
            return reached();
        }
        if self.driver == DriverKind::Simulated {
            return self.query_simulated(point).unwrap_or_else(|_| reached());
        }
        if !reached() {
            // No other thread polls the devices.
            let _ = self.advance_inline(Duration::ZERO);
        }
        reached()
    }
}

impl Drop for MachineShared {
    /// Completes submitted work, however long it takes. The machine's own work cannot wait for
    /// that: then the threads end by themselves. A forked child has no work and no threads.
    fn drop(&mut self) {
        if fork::is_inherited(self.tables.machine) {
            return;
        }
        if reentrancy::check(self.tables.machine, "dropping").is_ok() {
            self.shutdown(Duration::MAX);
        } else if let Ok(engine) = self.engine.get_mut() {
            engine.router.driver.stop();
            self.watchdog.iter().for_each(|watchdog| watchdog.stop());
        }
    }
}
