//! Drivers: they run the workers on threads, on the caller's thread in program order, on the
//! caller's thread in an order that a seed chooses, or not at all.

mod inline;
mod kind;
mod log;
mod schedule;
mod simulated;
mod simulated_worker;
mod threaded;
pub mod watchdog;
mod worker_groups;

use std::sync::Arc;
use std::time::Duration;

use millstream_stream_policy::WorkerGroup;
use millstream_types::Result;

use crate::scope::reentrancy;
use crate::sync::JoinHandle;
use crate::tables::Tables;
use crate::thread_ctx::task::Task;

use inline::Inline;
use simulated::Simulated;
use threaded::Threaded;

pub use kind::DriverKind;
pub use log::Schedule;
pub use simulated::Simulation;

/// A driver.
pub enum Driver {
    /// Each worker is a thread.
    Threaded(Threaded),
    /// One worker on the caller's thread, in program order: the reference for all others.
    Inline(Box<Inline>),
    /// All workers on the caller's thread, in an order that a seed chooses.
    Simulated(Box<Simulated>),
    /// No worker: what would run has completed.
    Check,
}

impl Driver {
    pub fn threaded(host_workers: usize) -> Driver {
        Driver::Threaded(Threaded::new(host_workers))
    }

    pub fn inline() -> Driver {
        Driver::Inline(Box::default())
    }

    pub fn simulated(host_workers: usize, simulation: Simulation) -> Driver {
        Driver::Simulated(Box::new(Simulated::new(host_workers, simulation)))
    }

    /// Returns the worker for the `count`-th host stream.
    pub(crate) fn host_worker(&mut self, tables: &Arc<Tables>, count: usize) -> Result<usize> {
        match self {
            Driver::Threaded(threaded) => threaded.host_worker(tables, count),
            Driver::Inline(_) | Driver::Check => Ok(0),
            Driver::Simulated(simulated) => simulated.host_worker(tables, count),
        }
    }

    /// Returns the host worker that comes so many after another one.
    pub(crate) fn host_worker_after(
        &mut self,
        tables: &Arc<Tables>,
        worker: usize,
        count: usize,
    ) -> Result<usize> {
        match self {
            Driver::Threaded(threaded) => threaded.host_worker_after(tables, worker, count),
            Driver::Inline(_) | Driver::Check => Ok(0),
            Driver::Simulated(simulated) => simulated.host_worker_after(tables, worker, count),
        }
    }

    /// Returns the worker of a group with one worker.
    pub(crate) fn own_worker(&mut self, tables: &Arc<Tables>, group: WorkerGroup) -> Result<usize> {
        match self {
            Driver::Threaded(threaded) => threaded.own_worker(tables, group),
            Driver::Inline(_) | Driver::Check => Ok(0),
            Driver::Simulated(simulated) => simulated.own_worker(tables, group),
        }
    }

    /// Returns the worker that stands for the workers of all pools of the group.
    pub(crate) fn pool(&mut self, tables: &Arc<Tables>, group: WorkerGroup) -> Result<usize> {
        match self {
            Driver::Threaded(threaded) => threaded.pool(tables, group),
            // Program order is one of the orders that a pool allows.
            Driver::Inline(_) | Driver::Check => Ok(0),
            Driver::Simulated(simulated) => Ok(simulated.pool(tables, group)),
        }
    }

    pub(crate) fn push(&mut self, worker: usize, task: Task) {
        match self {
            Driver::Threaded(threaded) => threaded.push(worker, task),
            Driver::Inline(inline) => inline.push(task),
            Driver::Simulated(simulated) => simulated.push(worker, task),
            Driver::Check => {}
        }
    }

    /// Returns how many worker threads there are.
    pub fn threads(&self) -> usize {
        match self {
            Driver::Threaded(threaded) => threaded.threads(),
            Driver::Inline(_) | Driver::Simulated(_) | Driver::Check => 0,
        }
    }

    /// Inline: runs everything that can run now, and returns whether there was anything. Simulated:
    /// runs as many steps as the seed says. Called after each emission.
    pub(crate) fn advance(&mut self, tables: &Arc<Tables>) -> bool {
        match self {
            Driver::Threaded(_) | Driver::Check => false,
            Driver::Inline(inline) => reentrancy::enter(tables.machine, || inline.advance(tables)),
            Driver::Simulated(simulated) => {
                reentrancy::enter(tables.machine, || simulated.advance(tables));
                false
            }
        }
    }

    /// Inline: waits for messages from devices or host functions, then runs everything that can
    /// run. Returns false if none came in time.
    pub(crate) fn wait_for_messages(&mut self, tables: &Arc<Tables>, timeout: Duration) -> bool {
        let Driver::Inline(inline) = self else { return false };
        let (came, worth) = inline.wait_for_messages(timeout);
        if worth {
            self.advance(tables);
        }
        came
    }

    /// Returns whether nothing can run before another rank or the program acts; asked once nothing
    /// could run. The simulated driver knows by itself.
    pub(crate) fn is_quiet(&self, tables: &Tables) -> bool {
        match self {
            Driver::Threaded(threaded) => tables.host_workers.are_idle() && threaded.is_quiet(),
            Driver::Inline(inline) => inline.is_quiet(tables),
            Driver::Simulated(_) => false,
            Driver::Check => true,
        }
    }

    /// Returns the simulated driver, if it is that.
    pub fn simulated_mut(&mut self) -> Option<&mut Simulated> {
        match self {
            Driver::Simulated(simulated) => Some(simulated),
            Driver::Threaded(_) | Driver::Inline(_) | Driver::Check => None,
        }
    }

    /// Tells all workers to stop once they have nothing left to do.
    pub(crate) fn stop(&mut self) -> Vec<JoinHandle<()>> {
        match self {
            Driver::Threaded(threaded) => threaded.stop(),
            Driver::Inline(_) | Driver::Check => Vec::new(),
            Driver::Simulated(simulated) => {
                simulated.stop();
                Vec::new()
            }
        }
    }
}
