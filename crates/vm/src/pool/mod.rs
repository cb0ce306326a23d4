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
//! 3. A worker is woken only where the work that is left pays for it: waking one costs tens of
//!    microseconds.
//! 4. What the emission gives is found by somebody: who looks, finds it. If nobody looks, the inbox's
//!    bell is down, and whoever gives something wakes one that sleeps.
//! 5. The exception are workers that run small calls, who will look soon: the bell stays up
//!    while one of the others, the sentry, wakes every millisecond to see whether they do look. If they
//!    do not, one of those calls was not small after all: the sentry takes over what they have in hand.
//! 6. A worker that finds nothing while others run calls worth handing over says so (`hungry`). The
//!    next of them to come to the end of a call tells what has completed and, if nothing is ready then,
//!    gives back half of what it has not begun.

mod crew;
mod graph;
mod hand;
mod ledger;
mod ready;
mod state;
mod storages;
mod worker;

use std::sync::PoisonError;

use millstream_instructions::{Body, Priority};
use millstream_types::{Point, Result, StreamId, TensorId};

use crate::engine::Engine;
use crate::inbox::Inbox;
use crate::points::{Mark, Waiter};
use crate::ring::{Producer, queue};
use crate::sync::{Arc, JoinHandle, Mutex, MutexGuard};
use crate::task::Task;

pub(crate) use graph::Job;
use graph::{Around, Uses};
pub(crate) use ledger::Ledger;
use state::Shared;

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
    pub(crate) fn start(engine: &Arc<Engine>, workers: usize) -> Result<Pool> {
        let (queue, tasks) = queue();
        let inbox: Arc<Inbox> = Arc::default();
        let shared = Arc::new(Shared::new(engine.clone(), inbox.clone(), tasks, workers.max(1)));
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
pub(crate) struct World<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) inbox: &'a Arc<Inbox>,
}

impl Around for World<'_> {
    #[inline]
    fn uses(&self, task: &Task, uses: &mut Uses) -> Priority {
        let home = |tensor: TensorId| {
            // SAFETY: the task names the tensor, and is on its way to run.
            unsafe { self.engine.homes.get(tensor.index()) }.copied().unwrap_or(tensor.0)
        };
        match task {
            Task::Call(call) => {
                // SAFETY: as above, of the call.
                let Some(slot) = (unsafe { self.engine.calls.get(call.number as usize) }) else {
                    unreachable!("a stored call is in the table before it is emitted")
                };
                let tensors = call.tensors.iter().zip(&slot.accesses);
                uses.extend(tensors.map(|(tensor, access)| (home(*tensor), access.writes())));
                slot.priority
            }
            Task::Run(instruction) => {
                let operands = instruction.body.operands().iter();
                uses.extend(operands.map(|o| (home(o.tensor), o.access.writes())));
                if let Body::OpCall { priority, .. } = &instruction.body {
                    *priority
                } else {
                    Priority::default()
                }
            }
            _ => Priority::default(),
        }
    }

    fn is_awaited(&self, lane: StreamId, point: Point, mark: Mark) -> bool {
        let points = &self.engine.points;
        !points.reached(point, mark)
            && points.park(point, mark, Waiter::Lane(self.inbox.clone(), lane))
    }

    fn has_come(&self, point: Point, mark: Mark) -> bool {
        self.engine.points.reached(point, mark)
    }

    #[inline]
    fn passed(&self, lane: StreamId, seq: u64) {
        self.engine.points.stream(lane).publish(seq, Mark::Completed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
