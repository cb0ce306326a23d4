//! Each worker is a thread.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use millstream_stream_policy::Crew;
use millstream_types::{Error, Result};

use crate::core::Core;
use crate::engine::Engine;
use crate::guard;
use crate::inbox::{Inbox, News};
use crate::ring::{Consumer, Producer, queue};
use crate::task::Task;

use super::crews::Crews;

/// A worker thread and the way to it.
struct Worker {
    queue: Producer<Task>,
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

/// The worker threads, started when their first stream comes.
pub(crate) struct Threaded {
    workers: Vec<Worker>,
    crews: Crews,
}

impl Threaded {
    pub(super) fn new(host_workers: usize) -> Threaded {
        Threaded { workers: Vec::new(), crews: Crews::new(host_workers) }
    }

    pub(super) fn host_worker(&mut self, engine: &Arc<Engine>, count: usize) -> Result<usize> {
        let Threaded { workers, crews } = self;
        crews.host(count, |name| start(workers, engine, name))
    }

    pub(super) fn own_worker(&mut self, engine: &Arc<Engine>, crew: Crew) -> Result<usize> {
        let Threaded { workers, crews } = self;
        crews.own(crew, |name| start(workers, engine, name))
    }

    pub(super) fn push(&mut self, worker: usize, task: Task) {
        let worker = &mut self.workers[worker];
        worker.queue.push(task);
        worker.inbox.wake();
    }

    pub(super) fn threads(&self) -> usize {
        self.workers.len()
    }

    pub(super) fn stop(&mut self) -> Vec<JoinHandle<()>> {
        let stopped = self.workers.iter_mut().filter_map(|worker| {
            worker.inbox.post(News::Stop);
            worker.thread.take()
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
    let thread = std::thread::Builder::new()
        .name(name)
        .spawn(move || {
            guard::forever(machine);
            own.owned_by(std::thread::current());
            work(Core::new(engine, own.clone()), &own, tasks);
        })
        .map_err(|e| Error::Internal { message: format!("no thread for a worker: {e}") })?;
    workers.push(Worker { queue, inbox, thread: Some(thread) });
    Ok(workers.len() - 1)
}

/// How many tasks are taken at once, and how many rounds of the loop may pass before a flush.
const BATCH: usize = 16;

/// How often a worker finds nothing before it flushes: far less than a microsecond, and long enough
/// for a submitter that is about to give the next task.
const QUIET: u32 = 4;

/// How often an idle worker looks again before it sleeps. About ten microseconds.
const SPINS: u32 = 500;

/// How long a worker sleeps between two questions to a device that does not tell by itself.
const POLL: Duration = Duration::from_micros(50);

fn work(mut core: Core, inbox: &Inbox, mut tasks: Consumer<Task>) {
    let (mut idle, mut unflushed) = (0, 0);
    loop {
        let mut busy = core.hear();
        for _ in 0..BATCH {
            let Some(task) = tasks.pop() else { break };
            busy = true;
            unflushed += 1;
            core.accept(task);
        }
        busy |= core.poll_devices();
        if busy {
            (idle, unflushed) = (0, unflushed + 1);
            // Points are published as they are reached; a flush finds those who wait without
            // spinning, and costs a fence.
            if unflushed > BATCH {
                core.flush();
                unflushed = 0;
            }
            continue;
        }
        idle += 1;
        if idle < QUIET {
            std::hint::spin_loop();
            continue;
        }
        core.flush();
        unflushed = 0;
        if core.is_done() && tasks.is_empty() {
            return;
        }
        if idle < SPINS {
            std::hint::spin_loop();
            continue;
        }
        if core.must_poll() {
            std::thread::sleep(POLL);
            continue;
        }
        inbox.sleep(|| !tasks.is_empty() || inbox.has_news());
        idle = 0;
    }
}
