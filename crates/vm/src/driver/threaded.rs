//! Each worker is a thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_stream_policy::Crew;
use millstream_types::{Error, Result};

use crate::emission::reentrancy;
use crate::pool::Pool;
use crate::sync::spsc_queue::{Consumer, Producer, queue};
use crate::sync::{Builder, JoinHandle, current, sleep, spin_loop, spins};
use crate::tables::Engine;
use crate::worker::inbox::{Inbox, News};
use crate::worker::task::Task;
use crate::worker::{Core, POLL};

use super::worker_groups::Crews;

/// A worker thread and the way to it.
struct Worker {
    queue: Producer<Task>,
    inbox: Arc<Inbox>,
    /// Its thread; those of a crew.
    threads: Vec<JoinHandle<()>>,
}

/// The worker threads, started when their first stream comes.
pub(crate) struct Threaded {
    workers: Vec<Worker>,
    crews: Crews,
    /// The crew of all pools.
    pool: Option<usize>,
    pool_workers: usize,
}

impl Threaded {
    pub(super) fn new(host_workers: usize) -> Threaded {
        Threaded {
            workers: Vec::new(),
            crews: Crews::new(host_workers),
            pool: None,
            pool_workers: host_workers,
        }
    }

    pub(super) fn host_worker(&mut self, engine: &Arc<Engine>, count: usize) -> Result<usize> {
        let Threaded { workers, crews, .. } = self;
        crews.host(count, |name| start(workers, engine, name))
    }

    pub(super) fn own_worker(&mut self, engine: &Arc<Engine>, crew: Crew) -> Result<usize> {
        let Threaded { workers, crews, .. } = self;
        crews.own(crew, |name| start(workers, engine, name))
    }

    pub(super) fn pool(&mut self, engine: &Arc<Engine>) -> Result<usize> {
        if let Some(pool) = self.pool {
            return Ok(pool);
        }
        let Pool { queue, inbox, threads } = Pool::start(engine, self.pool_workers)?;
        self.workers.push(Worker { queue, inbox, threads });
        Ok(*self.pool.insert(self.workers.len() - 1))
    }

    pub(super) fn push(&mut self, worker: usize, task: Task) {
        let worker = &mut self.workers[worker];
        worker.queue.push(task);
        if worker.inbox.wake() {
            reentrancy::roused();
        }
    }

    /// Gives a worker the task that `make` makes, in its place in the queue.
    #[inline(always)]
    pub(crate) fn push_with(&mut self, worker: usize, make: impl FnOnce() -> Task) {
        let worker = &mut self.workers[worker];
        worker.queue.push_with(make);
        if worker.inbox.wake() {
            reentrancy::roused();
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.workers.iter().map(|worker| worker.threads.len()).sum()
    }

    pub(super) fn stop(&mut self) -> Vec<JoinHandle<()>> {
        let stopped = self.workers.iter_mut().flat_map(|worker| {
            worker.inbox.post(News::Stop);
            std::mem::take(&mut worker.threads)
        });
        stopped.collect()
    }
}

fn start(workers: &mut Vec<Worker>, engine: &Arc<Engine>, name: &str) -> Result<usize> {
    let (queue, tasks) = queue();
    let inbox: Arc<Inbox> = Arc::default();
    let (engine, own) = (engine.clone(), inbox.clone());
    let machine = engine.machine;
    let name = format!("millstream-{name}-{}", workers.len());
    let thread = Builder::new()
        .name(name)
        .spawn(move || {
            reentrancy::forever(machine);
            own.owned_by(current());
            work(Core::new(engine, own.clone()), &own, tasks);
        })
        .map_err(|e| Error::Internal { message: format!("no thread for a worker: {e}") })?;
    workers.push(Worker { queue, inbox, threads: vec![thread] });
    Ok(workers.len() - 1)
}

/// How many tasks are taken at once, and how many rounds of the loop may pass before a flush.
const BATCH: u32 = 16;

/// How often a worker finds nothing before it flushes: far less than a microsecond, and long enough
/// for a submitter that is about to give the next task.
const QUIET: u32 = spins(4);

/// How many pauses a worker makes for each task that it has taken since its queue was last empty,
/// before it looks at the queue again, and how many at most: one or two microseconds. A look takes the
/// queue's counter away from a submitter that is about to write it. Where tasks come one by one, the
/// worker looks at once; where they come in a stream, it lets some come together.
const PAUSES_PER_TASK: u32 = 4;
const MOST_PAUSES: u32 = spins(200);

/// How often an idle worker looks again before it sleeps, at most: about ten microseconds. That is what
/// being woken costs, so the worker loses at most as much again as whoever had known when the next task
/// comes (A. Karlin et al., "Competitive Randomized Algorithms for Non-Uniform Problems", SODA 1990).
/// Where tasks come seldom, looking is in vain, and there is less of it with each sleep; after a short
/// sleep there is all of it again.
const SPINS: u32 = spins(500);

/// A sleep that looking would have been better than.
const SHORT: Duration = Duration::from_micros(50);

/// Lets a submitter go ahead that has just given so many tasks. Ends early if there is news.
pub(crate) fn pause(taken: u32, inbox: &Inbox) {
    for _ in 0..taken.saturating_mul(PAUSES_PER_TASK).min(MOST_PAUSES) {
        if inbox.has_news() {
            return;
        }
        spin_loop();
    }
}

fn work(mut core: Core, inbox: &Inbox, mut tasks: Consumer<Task>) {
    let (mut idle, mut unflushed, mut taken, mut looks) = (0, 0, 0u32, SPINS);
    loop {
        let mut busy = core.hear();
        let before = taken;
        for _ in 0..BATCH {
            if let Some(call) = tasks.pop_part(Task::stored) {
                core.accept_call(call);
            } else if let Some(task) = tasks.pop() {
                core.accept(task);
            } else {
                break;
            }
            taken += 1;
        }
        unflushed += taken - before;
        busy |= taken != before;
        busy |= core.poll_devices();
        if busy {
            (idle, unflushed) = (0, unflushed + 1);
            // Points are published as they are reached; a flush finds those who wait without
            // spinning, and costs a fence.
            if unflushed > BATCH {
                core.flush();
                core.catch_up();
                unflushed = 0;
            }
            // A full batch means that there is more.
            if taken < before + BATCH {
                pause(std::mem::take(&mut taken), inbox);
            }
            continue;
        }
        idle += 1;
        if idle < QUIET {
            spin_loop();
            continue;
        }
        core.flush();
        unflushed = 0;
        if core.is_done() && tasks.is_empty() {
            return;
        }
        if idle < looks {
            spin_loop();
            continue;
        }
        if core.must_poll() {
            sleep(POLL);
            continue;
        }
        let asleep = Instant::now();
        inbox.sleep(|| !tasks.is_empty() || inbox.has_news() || core.is_behind());
        core.catch_up();
        looks = if asleep.elapsed() < SHORT { SPINS } else { looks / 2 };
        idle = 0;
    }
}
