//! ThreadCtx threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_stream_policy::WorkerGroup;
use millstream_types::{Error, Result, catch_unit};

use crate::pool::Pool;
use crate::scope::reentrancy;
use crate::sync::backoff::{Backoff, POLLS, PROGRAM_POLLS};
use crate::sync::inbox::{Inbox, Message};
use crate::sync::spsc_queue::{Consumer, Producer, queue};
use crate::sync::{Builder, JoinHandle, current, spins};
use crate::tables::Tables;
use crate::thread_ctx::pauses::{PAUSES, pause};
use crate::thread_ctx::task::Task;
use crate::thread_ctx::{POLL, ThreadCtx};

use super::worker_groups::WorkerGroups;

/// A worker thread, with its queue and inbox; or all pool workers, which share one.
struct WorkerHandle {
    queue: Producer<Task>,
    inbox: Arc<Inbox>,
    /// One thread, or those of the pools.
    threads: Vec<JoinHandle<()>>,
}

/// The worker threads, each started for its first stream.
pub struct Threaded {
    workers: Vec<WorkerHandle>,
    groups: WorkerGroups,
    /// The entry of the pool workers of each group.
    pools: HashMap<WorkerGroup, usize>,
    /// How many workers the pools of the host share. The pools of another group have one.
    pool_workers: usize,
}

impl Threaded {
    pub(super) fn new(host_workers: usize) -> Threaded {
        Threaded {
            workers: Vec::new(),
            groups: WorkerGroups::new(host_workers),
            pools: HashMap::new(),
            pool_workers: host_workers,
        }
    }

    pub(super) fn host_worker(&mut self, tables: &Arc<Tables>, count: usize) -> Result<usize> {
        let Threaded { workers, groups, .. } = self;
        groups.host(count, |group| start(workers, tables, group))
    }

    pub(super) fn host_worker_after(
        &mut self,
        tables: &Arc<Tables>,
        worker: usize,
        count: usize,
    ) -> Result<usize> {
        let Threaded { workers, groups, .. } = self;
        groups.host_after(worker, count, |group| start(workers, tables, group))
    }

    pub(super) fn own_worker(&mut self, tables: &Arc<Tables>, group: WorkerGroup) -> Result<usize> {
        let Threaded { workers, groups, .. } = self;
        groups.own(group, |group| start(workers, tables, group))
    }

    pub(super) fn pool(&mut self, tables: &Arc<Tables>, group: WorkerGroup) -> Result<usize> {
        if let Some(&pool) = self.pools.get(&group) {
            return Ok(pool);
        }
        let workers = if group == WorkerGroup::Host { self.pool_workers } else { 1 };
        let Pool { queue, inbox, threads } = Pool::start(tables, &group, workers)?;
        self.workers.push(WorkerHandle { queue, inbox, threads });
        let pool = self.workers.len() - 1;
        self.pools.insert(group, pool);
        Ok(pool)
    }

    pub(super) fn push(&mut self, worker: usize, task: Task) {
        let worker = &mut self.workers[worker];
        worker.queue.push(task);
        if worker.inbox.wake() {
            reentrancy::note_wakeup();
        }
    }

    /// Gives a worker the task that `make` makes, in its place in the queue.
    #[inline(always)]
    pub(crate) fn push_with(&mut self, worker: usize, make: impl FnOnce() -> Task) {
        let worker = &mut self.workers[worker];
        worker.queue.push_with(make);
        if worker.inbox.wake() {
            reentrancy::note_wakeup();
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.workers.iter().map(|worker| worker.threads.len()).sum()
    }

    /// Returns whether no worker has anything to run before another rank or the program acts. No
    /// task is submitted meanwhile, as the engine's lock is held.
    pub(super) fn is_quiet(&self) -> bool {
        let look = || -> Option<Vec<u64>> {
            self.workers.iter().map(|worker| worker.inbox.quiet_since()).collect()
        };
        let first = look();
        first.is_some() && first == look()
    }

    pub(super) fn stop(&mut self) -> Vec<JoinHandle<()>> {
        let stopped = self.workers.iter_mut().flat_map(|worker| {
            worker.inbox.post(Message::Stop);
            std::mem::take(&mut worker.threads)
        });
        stopped.collect()
    }
}

fn start(
    workers: &mut Vec<WorkerHandle>,
    tables: &Arc<Tables>,
    group: WorkerGroup,
) -> Result<usize> {
    let (queue, tasks) = queue();
    let inbox: Arc<Inbox> = Arc::default();
    let (tables, own) = (tables.clone(), inbox.clone());
    let machine = tables.machine;
    let name = format!("millstream-{group}-{}", workers.len());
    let thread = Builder::new()
        .name(name)
        .spawn(move || {
            reentrancy::mark_thread(machine);
            own.set_thread(current());
            let mut worker = ThreadCtx::new(tables.clone(), own.clone(), group);
            let ended = catch_unit(|| work(&mut worker, &own, tasks));
            tables.end_worker(worker, ended);
        })
        .map_err(|e| Error::Internal { message: format!("no thread for a worker: {e}") })?;
    workers.push(WorkerHandle { queue, inbox, threads: vec![thread] });
    Ok(workers.len() - 1)
}

/// How many tasks are taken at once, and how many rounds of the loop may pass before a flush.
const BATCH: u32 = 16;

/// How many full batches a worker takes between two polls of its devices. A poll asks the driver,
/// which takes about as long as a launch, and the device has enough to do.
const BATCHES_PER_POLL: u32 = 4;

/// How often a worker finds nothing before it flushes: far less than a microsecond, and long enough
/// for a submitter that is about to give the next task.
const IDLE_BEFORE_FLUSH: u32 = spins(4);

/// A park that polling would have been better than. Where tasks come rarely, polling is in vain,
/// and there is less of it after each park; after a short park the limit is restored.
const SHORT: Duration = Duration::from_micros(50);

fn work(worker: &mut ThreadCtx, inbox: &Inbox, mut tasks: Consumer<Task>) {
    let (mut unflushed, mut unpolled, mut limit) = (0, 0, POLLS);
    // Whether it has polled longer for a thread of the program that waits.
    let mut has_stayed = false;
    let mut backoff = Backoff::new(limit);
    loop {
        let mut busy = worker.poll_inbox();
        let mut taken = 0;
        for _ in 0..BATCH {
            match tasks.pop() {
                Some(Task::Call(call)) => worker.accept_call(call),
                Some(task) => worker.accept(task),
                None => break,
            }
            taken += 1;
        }
        unflushed += taken;
        busy |= taken > 0;
        unpolled += 1;
        if taken < BATCH || unpolled == BATCHES_PER_POLL {
            busy |= worker.poll_devices();
            unpolled = 0;
        }
        if busy {
            unflushed += 1;
            backoff.restart(limit);
            has_stayed = false;
            // Points are published as they are reached; a flush finds the parked waiters, and costs
            // a fence.
            if unflushed > BATCH {
                worker.flush();
                worker.catch_up();
                unflushed = 0;
            }
            // A full batch means that there is more.
            if taken > 0 && taken < BATCH {
                pause(PAUSES, inbox, worker.tables());
            }
            continue;
        }
        if backoff.checks() < IDLE_BEFORE_FLUSH && backoff.spin() {
            continue;
        }
        worker.flush();
        unflushed = 0;
        if worker.is_done() && tasks.is_empty() {
            return;
        }
        if backoff.spin() {
            continue;
        }
        let has_work = || !tasks.is_empty() || inbox.has_messages() || worker.is_behind();
        // A thread of the program waits, and a sleep takes longer than most launches.
        if worker.has_in_flight() && worker.tables().is_awaited() && !has_stayed {
            has_stayed = true;
            backoff.restart(PROGRAM_POLLS);
            continue;
        }
        if worker.must_poll() {
            inbox.park_at_most(POLL, has_work);
            worker.catch_up();
            continue;
        }
        let since = Instant::now();
        inbox.park_unless(worker.is_quiet(), has_work);
        worker.catch_up();
        limit = if since.elapsed() < SHORT { POLLS } else { limit / 2 };
        backoff.restart(limit);
    }
}
