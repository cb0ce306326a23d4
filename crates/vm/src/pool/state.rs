//! What the workers of a crew have in common.

use std::time::Duration;

use millstream_types::StreamId;

use crate::sync::spsc_queue::{Consumer, Watcher};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, share, spin_loop, spins,
};
use crate::tables::Tables;
use crate::worker::Worker;
use crate::worker::inbox::{Inbox, Message};
use crate::worker::task::Task;

use super::claim_counter::ClaimCounter;
use super::parked::ParkedWorkers;
use super::scheduler::Scheduler;
use super::{MachineContext, lock};

/// How far ahead a crew spin_limit for something that can run: so many instructions are in the graph, the
/// others wait in the queue, where they take less memory.
const WINDOW: usize = 1024;

/// As much work is taken at once, and as many calls at most: with each taking, what the lock protects
/// comes over from another worker.
const CLAIM_TIME: Duration = share(Duration::from_micros(8));
pub(super) const MAX_CLAIMED: usize = 32;

/// What a call costs at least that is worth handing to another worker: less than that and the handing
/// over is most of the work.
pub(super) const MIN_HANDOVER: Duration = Duration::from_nanos(250);

/// What being woken costs, about: work that is done sooner than that is not waited for.
const WAKE_COST: Duration = Duration::from_micros(20);

/// How often a worker tries to get the lock before it sleeps.
const LOCK_SPINS: u32 = spins(200);

/// What a crew has in common.
pub(super) struct PoolShared {
    pub(super) tables: Arc<Tables>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) parked: Arc<ParkedWorkers>,
    pub(super) state: Mutex<State>,
    /// How far each worker is with what it has taken. Should one be held up, others go on with that.
    pub(super) claims: Box<[ClaimCounter]>,
    /// What was ever put into the queue, and how much of it was taken out: for spin_limit without the lock.
    pub(super) given: Watcher<Task>,
    pub(super) entered: AtomicU64,
    /// Whether the graph has no room: what the queue holds is left there.
    pub(super) full: AtomicBool,
    /// How many can run that nobody has taken.
    pub(super) ready: AtomicUsize,
    /// Whether a worker spin_limit and finds nothing, while others may have taken what it could run, or
    /// know of something that has completed.
    pub(super) starving: AtomicBool,
    /// Whether others run small calls, and will see to all that can run.
    pub(super) has_active_poller: AtomicBool,
}

/// What a worker has taken: the calls' numbers and streams, in order.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) calls: Vec<(u32, StreamId)>,
    /// How many the worker had begun before.
    pub(super) base: u64,
    /// How many of these the graph has been reported of.
    pub(super) reported: usize,
}

/// In place of a number: somebody else is to complete the call, and the scheduler knows.
pub(super) const EXTERNAL: u32 = u32::MAX;

/// What the lock protects.
pub(super) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) tasks: Consumer<Task>,
    pub(super) messages: Vec<Message>,
    /// What each worker has taken.
    pub(super) taken: Vec<Taken>,
    /// How many workers are awake and have nothing to run, and how many run something.
    pub(super) looking: usize,
    pub(super) running: usize,
    /// Whether a worker that sleeps spin_limit by itself now and then.
    pub(super) monitor: bool,
    /// How often work was taken.
    pub(super) rounds: u64,
    /// What a call costs on the average, as far as is known.
    pub(super) cost: Duration,
    /// How much others could have done since one was last woken or went to sleep.
    pub(super) missed: Duration,
}

impl PoolShared {
    pub(super) fn new(
        tables: Arc<Tables>,
        inbox: Arc<Inbox>,
        tasks: Consumer<Task>,
        workers: usize,
    ) -> PoolShared {
        let parked: Arc<ParkedWorkers> = Arc::default();
        let to_wake = parked.clone();
        inbox.set_wake(move || {
            to_wake.wake_one();
        });
        let given = tasks.watcher();
        let state = State {
            scheduler: Scheduler::default(),
            tasks,
            messages: Vec::new(),
            taken: (0..workers).map(|_| Taken::default()).collect(),
            looking: 0,
            running: 0,
            monitor: false,
            rounds: 0,
            // As long as nothing is known, every call may be a large one.
            cost: 2 * WAKE_COST,
            missed: Duration::ZERO,
        };
        PoolShared {
            tables,
            inbox,
            parked,
            state: Mutex::new(state),
            claims: (0..workers).map(|_| ClaimCounter::default()).collect(),
            given,
            entered: AtomicU64::new(0),
            full: AtomicBool::new(false),
            ready: AtomicUsize::new(0),
            starving: AtomicBool::new(false),
            has_active_poller: AtomicBool::new(false),
        }
    }

    /// The lock. It is held for less than a microsecond, which is soon looked out.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        for _ in 0..LOCK_SPINS {
            if let Ok(state) = self.state.try_lock() {
                return state;
            }
            spin_loop();
        }
        lock(&self.state)
    }

    pub(super) fn context(&self) -> MachineContext<'_> {
        MachineContext { tables: &self.tables, inbox: &self.inbox }
    }

    /// Whether the queue holds something that can be taken.
    pub(super) fn is_given(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
            && self.given.pushed() != self.entered.load(Ordering::Relaxed)
    }

    /// Whether there may be something to do, as far as that is seen without the lock.
    pub(super) fn is_worth_a_look(&self) -> bool {
        self.inbox.has_messages()
            || (!self.has_active_poller.load(Ordering::Relaxed)
                && (self.ready.load(Ordering::Relaxed) > 0 || self.is_given()))
    }
}

impl State {
    /// Puts into the graph what was given, until there is enough to run or no room.
    pub(super) fn fill(&mut self, shared: &PoolShared) {
        let context = shared.context();
        let mut taken = 0;
        // What is urgent may stand far behind.
        let urgent = shared.tables.has_priorities.load(Ordering::Relaxed);
        // What can run comes first: more is put in by a worker that has nothing else to do.
        if !urgent && self.scheduler.ready() > 0 && self.scheduler.live() > WINDOW / 2 {
            return;
        }
        let enough = if urgent { WINDOW } else { 2 * MAX_CLAIMED };
        while self.scheduler.live() < WINDOW
            && self.scheduler.ready() < enough
            && let Some(task) = self.tasks.pop()
        {
            taken += 1;
            self.scheduler.accept(task, &context);
        }
        if taken > 0 {
            // Relaxed: a hint; what it stands for is under the lock.
            shared.entered.store(self.tasks.popped(), Ordering::Relaxed);
        }
        let full = self.scheduler.live() >= WINDOW;
        if shared.full.load(Ordering::Relaxed) != full {
            shared.full.store(full, Ordering::Relaxed);
        }
    }

    pub(super) fn poll_inbox(&mut self, shared: &PoolShared, worker: &mut Worker) {
        if !shared.inbox.has_messages() {
            return;
        }
        let mut messages = std::mem::take(&mut self.messages);
        shared.inbox.take(&mut messages);
        for one in messages.drain(..) {
            self.scheduler.handle(one, worker, &shared.context());
        }
        self.messages = messages;
    }

    /// Sees that nobody waits for what has come, here or elsewhere.
    pub(super) fn catch_up(&mut self, shared: &PoolShared) {
        self.scheduler.catch_up(&shared.context());
        self.scheduler.flush(&shared.context());
    }

    /// Whether nothing is left, nor will anything come.
    pub(super) fn is_done(&self) -> bool {
        self.scheduler.is_done() && self.tasks.is_empty()
    }

    /// How many calls a worker takes beside one: of those that can run its share, if that is worth
    /// more than it costs to claim over, and no more than are soon done.
    pub(super) fn share(&self) -> usize {
        let ready = self.scheduler.ready();
        if ready == 0 {
            return 0;
        }
        let cost = self.cost.max(Duration::from_nanos(1));
        let soon = (CLAIM_TIME.as_nanos() / cost.as_nanos()) as usize;
        // Of what there is, with the one that is taken already.
        let awake = (self.looking + self.running).max(1);
        let fair = if cost < MIN_HANDOVER { ready } else { (ready + 1).div_ceil(awake) - 1 };
        fair.min(soon.min(MAX_CLAIMED).saturating_sub(1))
    }

    /// Whether it is_wakeup_worthwhile to wake another worker: once it could have done as much, had it been awake, as
    /// waking it costs. So no more is lost than twice what had to be (A. Karlin et al., "Competitive
    /// Snoopy Caching", Algorithmica 1988). A worker takes `count` calls now, of which another would
    /// have got half.
    pub(super) fn is_wakeup_worthwhile(&mut self, count: usize) -> bool {
        if self.cost < MIN_HANDOVER {
            return false;
        }
        let others = self.scheduler.ready() + count / 2;
        self.missed += self.cost * others.min(count) as u32;
        others > 0 && (self.missed >= WAKE_COST || self.cost * others as u32 >= WAKE_COST)
    }

    /// Whether calls are so small that whoever runs some will look again before anybody else could
    /// have been woken.
    pub(super) fn is_small(&self) -> bool {
        self.cost < WAKE_COST / 4
    }

    /// The first `ran` calls that a worker has taken have been run.
    pub(super) fn report_ran(&mut self, worker: usize, ran: usize, context: &MachineContext<'_>) {
        let taken = &mut self.taken[worker];
        for &(number, stream) in taken.calls[..ran].iter().skip(taken.reported) {
            if number != EXTERNAL {
                self.scheduler.ran(number, stream, context);
            }
        }
        taken.reported = ran;
    }

    pub(super) fn measured(&mut self, time: Duration, calls: usize) {
        // One that took far longer than usual may have been interrupted: then the next ones tell.
        let each = (time / calls.max(1) as u32).min(self.cost * 4 + MIN_HANDOVER / 4);
        self.cost = (self.cost * 3 + each) / 4;
    }
}
