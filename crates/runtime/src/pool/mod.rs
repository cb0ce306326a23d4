//! Pools: streams whose instructions run in any order that their data allow, on any of the pool
//! workers.
//!
//! All pools of a machine share one graph, one queue from the engine, and one group of workers. A
//! worker without work takes the lock, moves the queue's tasks into the graph, claims some of the
//! ready calls, releases the lock and runs them. There is no scheduler thread.
//!
//! # Rules
//! 1. The lock is held for bookkeeping alone, never while a kernel runs.
//! 2. A worker claims dozens of small calls at once, and of others as many as take a short time
//!    (`share`): a measured average tells their cost.
//! 3. A worker is woken only where the remaining work pays for it: a wake-up costs tens of
//!    microseconds.
//! 4. Every submission is found: a polling worker finds it. If no worker polls, the inbox is marked
//!    as parked, and the submitter wakes a worker.
//! 5. An exception are workers that run small calls, which poll again soon. The inbox is not marked
//!    then; one of the others, the monitor, wakes every millisecond to check that they do poll. If
//!    they do not, one of those calls was not small after all: the monitor takes over their
//!    remaining claims.
//! 6. A worker that finds nothing, while others run calls worth handing over, sets `starving`. The
//!    next worker at the end of a call reports its completed calls and, if that makes nothing
//!    ready, returns half of its remaining claims.
//! 7. The graph holds a window of the queue. If all of it is blocked, a worker that is about to
//!    park doubles the window: an instruction behind it may be able to run, and the blocked ones
//!    may wait for that.

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
use millstream_stream_policy::WorkerGroup;
use millstream_types::{Point, Result, StreamId, TensorId};

use crate::sync::inbox::Inbox;
use crate::sync::points::{Milestone, Waiter};
use crate::sync::spsc_queue::{Producer, queue};
use crate::sync::{Arc, JoinHandle, Mutex, MutexGuard};
use crate::tables::Tables;
use crate::thread_ctx::task::Task;

use graph::{GraphContext, Uses};
pub(crate) use scheduler::Scheduler;
use state::PoolShared;

/// The workers of all pools, with their queue and inbox.
pub(crate) struct Pool {
    pub(crate) queue: Producer<Task>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the workers.
    ///
    /// # Errors
    /// A thread is refused. Those that were started stop.
    pub(crate) fn start(tables: &Arc<Tables>, group: &WorkerGroup, workers: usize) -> Result<Pool> {
        let (queue, tasks) = queue();
        let inbox: Arc<Inbox> = Arc::default();
        let shared =
            Arc::new(PoolShared::new(tables.clone(), inbox.clone(), tasks, workers.max(1)));
        let mut pool = Pool { queue, inbox, threads: Vec::new() };
        for k in 0..workers.max(1) {
            match worker::start(&shared, group.clone(), k) {
                Ok(thread) => pool.threads.push(thread),
                // One worker is enough to run everything.
                Err(_) if k > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(pool)
    }
}

/// The machine, as the graph sees it.
pub(crate) struct MachineContext<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) inbox: &'a Arc<Inbox>,
}

impl GraphContext for MachineContext<'_> {
    #[inline]
    fn uses(&self, task: &Task, uses: &mut Uses) -> Priority {
        let root = |tensor: TensorId| {
            // SAFETY: the task names the tensor, and is pending.
            unsafe { self.tables.storage_roots.get(tensor.index()) }.copied().unwrap_or(tensor.0)
        };
        match task {
            Task::Call(call) => {
                // SAFETY: as above, for the call.
                let Some(slot) = (unsafe { self.tables.calls.get(call.number as usize) }) else {
                    unreachable!("a stored call is in the table before it is emitted")
                };
                let tensors = call.tensors.iter().zip(slot.call.accesses());
                uses.extend(tensors.map(|(tensor, access)| (root(*tensor), access.writes())));
                slot.call.priority
            }
            Task::Run(instruction) => {
                let operands = instruction.body.operands().iter();
                uses.extend(operands.map(|o| (root(o.tensor), o.access.writes())));
                if let Body::OpCall { priority, .. } = &instruction.body {
                    *priority
                } else {
                    Priority::default()
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
