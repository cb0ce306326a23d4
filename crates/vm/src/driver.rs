//! Who runs the workers' cores: threads of their own, or the caller.

use std::collections::{HashMap, VecDeque};
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

/// The drivers.
pub(crate) enum Driver {
    /// Each worker is a thread.
    Threaded(Crews),
    /// One core on the caller's thread, in program order: the reference for all others.
    Inline(Box<Inline>),
}

/// A worker thread and the way to it.
struct Worker {
    queue: Producer<Task>,
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

/// The worker threads, started when their first stream comes.
pub(crate) struct Crews {
    workers: Vec<Worker>,
    /// The workers of the host's streams.
    host: Vec<usize>,
    host_limit: usize,
    own: HashMap<Crew, usize>,
}

pub(crate) struct Inline {
    core: Option<Core>,
    inbox: Arc<Inbox>,
    tasks: VecDeque<Task>,
}

impl Driver {
    pub(crate) fn threaded(host_workers: usize) -> Driver {
        Driver::Threaded(Crews {
            workers: Vec::new(),
            host: Vec::new(),
            host_limit: host_workers.max(1),
            own: HashMap::new(),
        })
    }

    pub(crate) fn inline() -> Driver {
        let inbox = Arc::default();
        Driver::Inline(Box::new(Inline { core: None, inbox, tasks: VecDeque::new() }))
    }

    /// The worker for the `count`-th stream of the host's.
    pub(crate) fn host_worker(&mut self, engine: &Arc<Engine>, count: usize) -> Result<usize> {
        let Driver::Threaded(crews) = self else { return Ok(0) };
        if crews.host.len() < crews.host_limit {
            let worker = crews.start(engine, "host")?;
            crews.host.push(worker);
            return Ok(worker);
        }
        Ok(crews.host[count % crews.host_limit])
    }

    /// The one worker of a crew.
    pub(crate) fn own_worker(&mut self, engine: &Arc<Engine>, crew: Crew) -> Result<usize> {
        let Driver::Threaded(crews) = self else { return Ok(0) };
        if let Some(&worker) = crews.own.get(&crew) {
            return Ok(worker);
        }
        let name = match &crew {
            Crew::Host => "host".to_owned(),
            Crew::Device(device) => device.to_string(),
            Crew::Own(ty) => ty.to_string(),
        };
        let worker = crews.start(engine, &name)?;
        crews.own.insert(crew, worker);
        Ok(worker)
    }

    pub(crate) fn push(&mut self, worker: usize, task: Task) {
        match self {
            Driver::Threaded(crews) => {
                let worker = &mut crews.workers[worker];
                worker.queue.push(task);
                worker.inbox.wake();
            }
            Driver::Inline(inline) => inline.tasks.push_back(task),
        }
    }

    /// How many worker threads there are.
    pub(crate) fn threads(&self) -> usize {
        match self {
            Driver::Threaded(crews) => crews.workers.len(),
            Driver::Inline(_) => 0,
        }
    }

    /// Inline: runs all that can run now. Called once an emission is whole.
    pub(crate) fn advance(&mut self, engine: &Arc<Engine>) {
        let Driver::Inline(inline) = self else { return };
        guard::within(engine.machine, || inline.advance(engine));
    }

    /// Inline: waits for news from devices or host functions, then runs what can run. Returns
    /// false if none came in time.
    pub(crate) fn wait_for_news(&mut self, engine: &Arc<Engine>, timeout: Duration) -> bool {
        let Driver::Inline(inline) = self else { return false };
        let polled = inline.core.as_ref().is_some_and(Core::must_poll);
        let came = inline.inbox.wait_for_news(timeout);
        if came || polled {
            self.advance(engine);
        }
        came
    }

    /// Tells all workers to stop once they have nothing left to do.
    pub(crate) fn stop(&mut self) -> Vec<JoinHandle<()>> {
        match self {
            Driver::Threaded(crews) => crews
                .workers
                .iter_mut()
                .filter_map(|worker| {
                    worker.inbox.post(News::Stop);
                    worker.thread.take()
                })
                .collect(),
            Driver::Inline(_) => Vec::new(),
        }
    }
}

impl Inline {
    fn advance(&mut self, engine: &Arc<Engine>) {
        let core = self.core.get_or_insert_with(|| Core::new(engine.clone(), self.inbox.clone()));
        loop {
            while let Some(task) = self.tasks.pop_front() {
                core.accept(task);
            }
            core.flush();
            let heard = core.hear() | core.poll_devices();
            core.flush();
            if heard {
                continue;
            }
            // Program order: what comes next comes after the function has returned.
            if core.is_hosting() {
                self.inbox.wait_for_news(Duration::from_secs(1));
                continue;
            }
            return;
        }
    }
}

impl Crews {
    fn start(&mut self, engine: &Arc<Engine>, name: &str) -> Result<usize> {
        let (queue, tasks) = queue();
        let inbox: Arc<Inbox> = Arc::default();
        let (engine, own) = (engine.clone(), inbox.clone());
        let machine = engine.machine;
        let name = format!("millstream-{name}-{}", self.workers.len());
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                guard::forever(machine);
                own.owned_by(std::thread::current());
                work(Core::new(engine, own.clone()), &own, tasks);
            })
            .map_err(|e| Error::Internal { message: format!("no thread for a worker: {e}") })?;
        self.workers.push(Worker { queue, inbox, thread: Some(thread) });
        Ok(self.workers.len() - 1)
    }
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
