//! What the workers of a crew have in common.

use std::time::Duration;

use millstream_types::StreamId;

use crate::sync::spsc_queue::{Consumer, Watcher};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, share, spin_loop, spins,
};
use crate::tables::Engine;
use crate::worker::Core;
use crate::worker::inbox::{Inbox, News};
use crate::worker::task::Task;

use super::claim_counter::Hand;
use super::ledger::Ledger;
use super::sleepers::Crew;
use super::{World, lock};

/// How far ahead a crew looks for something that can run: so many instructions are in the graph, the
/// others wait in the queue, where they take less memory.
const WINDOW: usize = 1024;

/// As much work is taken at once, and as many calls at most: with each taking, what the lock protects
/// comes over from another core.
const SHARE: Duration = share(Duration::from_micros(8));
pub(super) const MOST: usize = 32;

/// What a call costs at least that is worth handing to another worker: less than that and the handing
/// over is most of the work.
pub(super) const HANDED: Duration = Duration::from_nanos(250);

/// What being woken costs, about: work that is done sooner than that is not waited for.
const WAKING: Duration = Duration::from_micros(20);

/// How often a worker tries to get the lock before it sleeps.
const LOCKING: u32 = spins(200);

/// What a crew has in common.
pub(super) struct Shared {
    pub(super) engine: Arc<Engine>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) crew: Arc<Crew>,
    pub(super) state: Mutex<State>,
    /// How far each worker is with what it has taken. Should one be held up, others go on with that.
    pub(super) hands: Box<[Hand]>,
    /// What was ever put into the queue, and how much of it was taken out: for looks without the lock.
    pub(super) given: Watcher<Task>,
    pub(super) entered: AtomicU64,
    /// Whether the graph has no room: what the queue holds is left there.
    pub(super) full: AtomicBool,
    /// How many can run that nobody has taken.
    pub(super) ready: AtomicUsize,
    /// Whether a worker looks and finds nothing, while others may have taken what it could run, or
    /// know of something that has completed.
    pub(super) hungry: AtomicBool,
    /// Whether others run small calls, and will see to all that can run.
    pub(super) covered: AtomicBool,
}

/// What a worker has taken: the calls' numbers and streams, in order.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) calls: Vec<(u32, StreamId)>,
    /// How many the worker had begun before.
    pub(super) base: u64,
    /// How many of these the graph has been told of.
    pub(super) told: usize,
}

/// In place of a number: somebody else is to complete the call, and the ledger knows.
pub(super) const TOLD: u32 = u32::MAX;

/// What the lock protects.
pub(super) struct State {
    pub(super) ledger: Ledger,
    pub(super) tasks: Consumer<Task>,
    pub(super) news: Vec<News>,
    /// What each worker has taken.
    pub(super) taken: Vec<Taken>,
    /// How many workers are awake and have nothing to run, and how many run something.
    pub(super) looking: usize,
    pub(super) running: usize,
    /// Whether a worker that sleeps looks by itself now and then.
    pub(super) sentry: bool,
    /// How often work was taken.
    pub(super) rounds: u64,
    /// What a call costs on the average, as far as is known.
    pub(super) cost: Duration,
    /// How much others could have done since one was last woken or went to sleep.
    pub(super) missed: Duration,
}

impl Shared {
    pub(super) fn new(
        engine: Arc<Engine>,
        inbox: Arc<Inbox>,
        tasks: Consumer<Task>,
        workers: usize,
    ) -> Shared {
        let crew: Arc<Crew> = Arc::default();
        let sleepers = crew.clone();
        inbox.wakes(move || {
            sleepers.wake_one();
        });
        let given = tasks.watcher();
        let state = State {
            ledger: Ledger::default(),
            tasks,
            news: Vec::new(),
            taken: (0..workers).map(|_| Taken::default()).collect(),
            looking: 0,
            running: 0,
            sentry: false,
            rounds: 0,
            // As long as nothing is known, every call may be a large one.
            cost: 2 * WAKING,
            missed: Duration::ZERO,
        };
        Shared {
            engine,
            inbox,
            crew,
            state: Mutex::new(state),
            hands: (0..workers).map(|_| Hand::default()).collect(),
            given,
            entered: AtomicU64::new(0),
            full: AtomicBool::new(false),
            ready: AtomicUsize::new(0),
            hungry: AtomicBool::new(false),
            covered: AtomicBool::new(false),
        }
    }

    /// The lock. It is held for less than a microsecond, which is soon looked out.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        for _ in 0..LOCKING {
            if let Ok(state) = self.state.try_lock() {
                return state;
            }
            spin_loop();
        }
        lock(&self.state)
    }

    pub(super) fn world(&self) -> World<'_> {
        World { engine: &self.engine, inbox: &self.inbox }
    }

    /// Whether the queue holds something that can be taken.
    pub(super) fn is_given(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
            && self.given.pushed() != self.entered.load(Ordering::Relaxed)
    }

    /// Whether there may be something to do, as far as that is seen without the lock.
    pub(super) fn is_worth_a_look(&self) -> bool {
        self.inbox.has_news()
            || (!self.covered.load(Ordering::Relaxed)
                && (self.ready.load(Ordering::Relaxed) > 0 || self.is_given()))
    }
}

impl State {
    /// Puts into the graph what was given, until there is enough to run or no room.
    pub(super) fn fill(&mut self, shared: &Shared) {
        let world = shared.world();
        let mut taken = 0;
        // What is urgent may stand far behind.
        let urgent = shared.engine.urgent.load(Ordering::Relaxed);
        // What can run comes first: more is put in by a worker that has nothing else to do.
        if !urgent && self.ledger.ready() > 0 && self.ledger.live() > WINDOW / 2 {
            return;
        }
        let enough = if urgent { WINDOW } else { 2 * MOST };
        while self.ledger.live() < WINDOW
            && self.ledger.ready() < enough
            && let Some(task) = self.tasks.pop()
        {
            taken += 1;
            self.ledger.accept(task, &world);
        }
        if taken > 0 {
            // Relaxed: a hint; what it stands for is under the lock.
            shared.entered.store(self.tasks.popped(), Ordering::Relaxed);
        }
        let full = self.ledger.live() >= WINDOW;
        if shared.full.load(Ordering::Relaxed) != full {
            shared.full.store(full, Ordering::Relaxed);
        }
    }

    pub(super) fn hear(&mut self, shared: &Shared, core: &mut Core) {
        if !shared.inbox.has_news() {
            return;
        }
        let mut news = std::mem::take(&mut self.news);
        shared.inbox.take(&mut news);
        for one in news.drain(..) {
            self.ledger.heed(one, core, &shared.world());
        }
        self.news = news;
    }

    /// Sees that nobody waits for what has come, here or elsewhere.
    pub(super) fn catch_up(&mut self, shared: &Shared) {
        self.ledger.catch_up(&shared.world());
        self.ledger.flush(&shared.world());
    }

    /// Whether nothing is left, nor will anything come.
    pub(super) fn is_done(&self) -> bool {
        self.ledger.is_done() && self.tasks.is_empty()
    }

    /// How many calls a worker takes beside one: of those that can run its share, if that is worth
    /// more than it costs to hand over, and no more than are soon done.
    pub(super) fn share(&self) -> usize {
        let ready = self.ledger.ready();
        if ready == 0 {
            return 0;
        }
        let cost = self.cost.max(Duration::from_nanos(1));
        let soon = (SHARE.as_nanos() / cost.as_nanos()) as usize;
        // Of what there is, with the one that is taken already.
        let awake = (self.looking + self.running).max(1);
        let fair = if cost < HANDED { ready } else { (ready + 1).div_ceil(awake) - 1 };
        fair.min(soon.min(MOST).saturating_sub(1))
    }

    /// Whether it pays to wake another worker: once it could have done as much, had it been awake, as
    /// waking it costs. So no more is lost than twice what had to be (A. Karlin et al., "Competitive
    /// Snoopy Caching", Algorithmica 1988). A worker takes `count` calls now, of which another would
    /// have got half.
    pub(super) fn pays(&mut self, count: usize) -> bool {
        if self.cost < HANDED {
            return false;
        }
        let others = self.ledger.ready() + count / 2;
        self.missed += self.cost * others.min(count) as u32;
        others > 0 && (self.missed >= WAKING || self.cost * others as u32 >= WAKING)
    }

    /// Whether calls are so small that whoever runs some will look again before anybody else could
    /// have been woken.
    pub(super) fn is_small(&self) -> bool {
        self.cost < WAKING / 4
    }

    /// The first `ran` calls that a worker has taken have been run.
    pub(super) fn tell(&mut self, worker: usize, ran: usize, world: &World<'_>) {
        let taken = &mut self.taken[worker];
        for &(number, lane) in taken.calls[..ran].iter().skip(taken.told) {
            if number != TOLD {
                self.ledger.ran(number, lane, world);
            }
        }
        taken.told = ran;
    }

    pub(super) fn measured(&mut self, time: Duration, calls: usize) {
        // One that took far longer than usual may have been interrupted: then the next ones tell.
        let each = (time / calls.max(1) as u32).min(self.cost * 4 + HANDED / 4);
        self.cost = (self.cost * 3 + each) / 4;
    }
}
