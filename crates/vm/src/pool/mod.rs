//! Pools: any instruction that can run, on any worker.
//!
//! All pools of a machine share one graph, one queue from the emission, and one crew of workers. Whoever
//! of the crew has nothing to do takes the lock, puts into the graph what the queue holds, takes out
//! some of what can run, lets go of the lock and runs that. There is no thread that only schedules.
//!
//! # Rules
//! 1. The lock is held for bookkeeping alone, never while a kernel runs.
//! 2. Small calls are taken by the dozen, others as many as are soon done (`share`): a measured average tells
//!    which they are.
//! 3. A worker is woken only where the work that is left is_wakeup_worthwhile for it: waking one costs tens of
//!    microseconds.
//! 4. What the emission gives is found by somebody: who spin_limit, finds it. If nobody spin_limit, the inbox's
//!    bell is down, and whoever gives something set_wake one that sleeps.
//! 5. The exception are workers that run small calls, who will look soon: the bell stays up
//!    while one of the others, the monitor, set_wake every millisecond to see whether they do look. If they
//!    do not, one of those calls was not small after all: the monitor takes over what they have in claim.
//! 6. A worker that finds nothing while others run calls worth handing over says so (`starving`). The
//!    next of them to come to the end of a call tells what has completed and, if nothing is ready then,
//!    gives back half of what it has not begun.

mod claim_counter;
mod graph;
mod parked;
mod ready;
mod scheduler;
mod state;
mod storages;
mod worker;

use std::sync::PoisonError;

use millstream_instructions::{Body, Priority};
use millstream_types::{Point, Result, StreamId, TensorId};

use crate::sync::points::{Milestone, Waiter};
use crate::sync::spsc_queue::{Producer, queue};
use crate::sync::{Arc, JoinHandle, Mutex, MutexGuard};
use crate::tables::Tables;
use crate::worker::inbox::Inbox;
use crate::worker::task::Task;

pub(crate) use graph::ReadyTask;
use graph::{GraphContext, Uses};
pub(crate) use scheduler::Scheduler;
use state::PoolShared;

/// A crew and the way to it.
pub(crate) struct Pool {
    pub(crate) queue: Producer<Task>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A crew of so many workers.
    ///
    /// # Errors
    /// A thread is refused. Those that were started stop.
    pub(crate) fn start(tables: &Arc<Tables>, workers: usize) -> Result<Pool> {
        let (queue, tasks) = queue();
        let inbox: Arc<Inbox> = Arc::default();
        let shared =
            Arc::new(PoolShared::new(tables.clone(), inbox.clone(), tasks, workers.max(1)));
        let mut pool = Pool { queue, inbox, threads: Vec::new() };
        for k in 0..workers.max(1) {
            match worker::start(&shared, k) {
                Ok(thread) => pool.threads.push(thread),
                // One is enough to run everything.
                Err(_) if k > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(pool)
    }
}

/// The graph's view of a machine.
pub(crate) struct MachineContext<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) inbox: &'a Arc<Inbox>,
}

impl GraphContext for MachineContext<'_> {
    #[inline]
    fn uses(&self, task: &Task, uses: &mut Uses) -> Priority {
        let root = |tensor: TensorId| {
            // SAFETY: the task names the tensor, and is on its way to run.
            unsafe { self.tables.storage_roots.get(tensor.index()) }.copied().unwrap_or(tensor.0)
        };
        match task {
            Task::Call(call) => {
                // SAFETY: as above, of the call.
                let Some(slot) = (unsafe { self.tables.calls.get(call.number as usize) }) else {
                    unreachable!("a stored call is in the table before it is emitted")
                };
                let tensors = call.tensors.iter().zip(&slot.accesses);
                uses.extend(tensors.map(|(tensor, access)| (root(*tensor), access.writes())));
                slot.priority
            }
            Task::Run(instruction) => {
                let operands = instruction.body.operands().iter();
                uses.extend(operands.map(|o| (root(o.tensor), o.access.writes())));
                match &instruction.body {
                    Body::OpCall { priority, .. } => *priority,
                    _ => Priority::default(),
                }
            }
            _ => Priority::default(),
        }
    }

    fn register_wait(&self, stream: StreamId, point: Point, milestone: Milestone) -> bool {
        let points = &self.tables.points;
        !points.reached(point, milestone)
            && points.park(point, milestone, Waiter::Stream(self.inbox.clone(), stream))
    }

    fn is_reached(&self, point: Point, milestone: Milestone) -> bool {
        self.tables.points.reached(point, milestone)
    }

    #[inline]
    fn publish_completed(&self, stream: StreamId, seq: u64) {
        self.tables.points.stream(stream).publish(seq, Milestone::Completed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
