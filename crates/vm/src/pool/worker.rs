//! A worker of a crew.

use std::time::{Duration, Instant};

use millstream_types::{Error, Result, StreamId};

use crate::core::{Core, Hosting};
use crate::driver::pause;
use crate::engine::Engine;
use crate::guard;
use crate::inbox::{Inbox, News};
use crate::ring::{Consumer, Watcher};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Builder, JoinHandle, Mutex, MutexGuard, Ordering,
    current, spin_loop, spins,
};
use crate::task::{StoredCall, Task};

use super::crew::{Crew, Sleeper};
use super::graph::Job;
use super::hand::Hand;
use super::ledger::Ledger;
use super::{World, lock};

/// How far ahead a crew looks for something that can run: so many instructions are in the graph, the
/// others wait in the queue, where they take less memory.
const WINDOW: usize = 1024;

/// As much work is taken at once, and as many calls at most.
const SHARE: Duration = Duration::from_micros(2);
const MOST: usize = 32;

/// What a call costs at least that is worth handing to another worker: less than that and the handing
/// over is most of the work.
const HANDED: Duration = Duration::from_nanos(250);

/// What being woken costs, about: work that is done sooner than that is not waited for.
const WAKING: Duration = Duration::from_micros(20);

/// How often small calls are timed: every so many rounds.
const TIMED: u32 = 8;

/// How often a worker that has nothing looks again before it sleeps: some ten microseconds.
const LOOKS: u32 = spins(500);

/// How often a worker tries to get the lock before it sleeps.
const LOCKING: u32 = spins(200);

/// How often the sentry looks.
const WATCH: Duration = Duration::from_millis(1);

/// After so many rounds a worker looks whether others are held up.
const PATIENCE: u32 = 256;

/// After so many rounds with small calls everyone is told who waits for what has passed.
const ROUNDS: u32 = 16;

/// What a crew has in common.
pub(super) struct Shared {
    engine: Arc<Engine>,
    inbox: Arc<Inbox>,
    crew: Arc<Crew>,
    state: Mutex<State>,
    /// How far each worker is with what it has taken. Should one be held up, others go on with that.
    hands: Box<[Hand]>,
    /// What was ever put into the queue, and how much of it was taken out: for looks without the lock.
    given: Watcher<Task>,
    entered: AtomicU64,
    /// How many can run that nobody has taken.
    ready: AtomicUsize,
    /// Whether others run small calls, and will see to all that can run.
    covered: AtomicBool,
}

/// What a worker has taken: the calls' numbers and streams, in order.
#[derive(Default)]
struct Taken {
    calls: Vec<(u32, StreamId)>,
    /// How many the worker had begun before.
    base: u64,
    /// How many of these the graph has been told of.
    told: usize,
}

/// In place of a number: somebody else is to complete the call, and the ledger knows.
const TOLD: u32 = u32::MAX;

/// What the lock protects.
pub(super) struct State {
    ledger: Ledger,
    tasks: Consumer<Task>,
    news: Vec<News>,
    /// What each worker has taken.
    taken: Vec<Taken>,
    /// How many workers are awake and have nothing to run, and how many run something.
    looking: usize,
    running: usize,
    /// Whether a worker that sleeps looks by itself now and then.
    sentry: bool,
    /// How often work was taken.
    rounds: u64,
    /// What a call costs on the average, as far as is known.
    cost: Duration,
    /// How much others could have done since one was last woken or went to sleep.
    missed: Duration,
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
            ready: AtomicUsize::new(0),
            covered: AtomicBool::new(false),
        }
    }

    /// The lock. It is held for less than a microsecond, which is soon looked out.
    fn lock(&self) -> MutexGuard<'_, State> {
        for _ in 0..LOCKING {
            if let Ok(state) = self.state.try_lock() {
                return state;
            }
            spin_loop();
        }
        lock(&self.state)
    }

    fn world(&self) -> World<'_> {
        World { engine: &self.engine, inbox: &self.inbox }
    }

    /// Whether the queue holds something that was not taken.
    fn is_given(&self) -> bool {
        self.given.pushed() != self.entered.load(Ordering::Relaxed)
    }

    /// Whether there may be something to do, as far as that is seen without the lock.
    fn is_worth_a_look(&self) -> bool {
        self.inbox.has_news()
            || (!self.covered.load(Ordering::Relaxed)
                && (self.ready.load(Ordering::Relaxed) > 0 || self.is_given()))
    }
}

impl State {
    /// Puts into the graph what was given, until there is enough to run or no room.
    fn fill(&mut self, shared: &Shared) {
        let world = shared.world();
        let mut taken = 0;
        // What is urgent may stand far behind.
        let enough = if shared.engine.urgent.load(Ordering::Relaxed) { WINDOW } else { 2 * MOST };
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
    }

    fn hear(&mut self, shared: &Shared, core: &mut Core) {
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

    /// Whether nothing is left, nor will anything come.
    fn is_done(&self) -> bool {
        self.ledger.is_done() && self.tasks.is_empty()
    }

    /// How many calls a worker takes beside one: of those that can run its share, if that is worth
    /// more than it costs to hand over, and no more than are soon done.
    fn share(&self) -> usize {
        let ready = self.ledger.ready();
        if ready == 0 {
            return 0;
        }
        let cost = self.cost.max(Duration::from_nanos(1));
        let soon = (SHARE.as_nanos() / cost.as_nanos()) as usize;
        let fair = if cost < HANDED { ready } else { ready / self.looking.max(1) };
        fair.min(soon.min(MOST).saturating_sub(1))
    }

    /// Whether it pays to wake another worker: once it could have done as much, had it been awake, as
    /// waking it costs. So no more is lost than twice what had to be (A. Karlin et al., "Competitive
    /// Snoopy Caching", Algorithmica 1988). A worker takes `count` calls now.
    fn pays(&mut self, count: usize) -> bool {
        if self.cost < HANDED {
            return false;
        }
        let left = self.ledger.ready();
        self.missed += self.cost * left.min(count) as u32;
        left > 0 && (self.missed >= WAKING || self.cost * left as u32 >= WAKING)
    }

    /// Whether calls are so small that whoever runs some will look again before anybody else could
    /// have been woken.
    fn is_small(&self) -> bool {
        self.cost < WAKING / 4
    }

    /// The first `ran` calls that a worker has taken have been run.
    fn tell(&mut self, worker: usize, ran: usize, world: &World<'_>) {
        let taken = &mut self.taken[worker];
        for &(number, lane) in taken.calls[..ran].iter().skip(taken.told) {
            if number != TOLD {
                self.ledger.ran(number, lane, world);
            }
        }
        taken.told = ran;
    }

    fn measured(&mut self, time: Duration, calls: usize) {
        // One that took far longer than usual may have been interrupted: then the next ones tell.
        let each = (time / calls.max(1) as u32).min(self.cost * 4 + HANDED / 4);
        self.cost = (self.cost * 3 + each) / 4;
    }
}

pub(super) fn start(shared: &Arc<Shared>, number: usize) -> Result<JoinHandle<()>> {
    let shared = shared.clone();
    Builder::new()
        .name(format!("millstream-pool-{number}"))
        .spawn(move || {
            guard::forever(shared.engine.machine);
            Worker {
                core: Core::new(shared.engine.clone(), shared.inbox.clone()),
                sleeper: Arc::new(Sleeper::new(current())),
                shared: &shared,
                number,
                looks: LOOKS,
                untimed: 0,
                unflushed: 0,
                unasked: 0,
                ran: 0,
                calls: Vec::with_capacity(MOST),
                seen: vec![0; shared.hands.len()],
            }
            .work();
        })
        .map_err(|e| Error::Internal { message: format!("no thread for a worker: {e}") })
}

struct Worker<'a> {
    shared: &'a Shared,
    core: Core,
    sleeper: Arc<Sleeper>,
    number: usize,
    looks: u32,
    untimed: u32,
    unflushed: u32,
    unasked: u32,
    /// How many small calls it has run since it last found nothing.
    ran: u32,
    /// The calls that it has taken, but for the first.
    calls: Vec<StoredCall>,
    /// How many each worker had begun when this one last looked whether they are held up.
    seen: Vec<u64>,
}

impl Worker<'_> {
    fn work(&mut self) {
        let shared = self.shared;
        let mut state = shared.lock();
        state.looking += 1;
        loop {
            state.hear(shared, &mut self.core);
            state.fill(shared);
            if let Some(job) = state.ledger.next() {
                state = self.run(state, job);
                continue;
            }
            state.ledger.flush(&shared.world());
            self.unflushed = 0;
            if state.running == 0 {
                shared.covered.store(false, Ordering::Relaxed);
            }
            shared.ready.store(0, Ordering::Relaxed);
            if state.is_done() {
                // The others find the same.
                while shared.crew.wake_one() {}
                return;
            }
            drop(state);
            let seen = self.look();
            state = shared.lock();
            if !seen {
                state = self.rest(state);
            }
        }
    }

    /// Takes its share of what can run, of which `first` is the first, and runs it without the lock.
    fn run<'s>(&mut self, mut state: MutexGuard<'s, State>, first: Job) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let (shared, own) = (self.shared, self.number);
        let hand = &shared.hands[own];
        let base = hand.take();
        let Job { number, lane, .. } = first;
        let more = state.share();
        let State { taken, ledger, .. } = &mut *state;
        let taken = &mut taken[own];
        taken.calls.clear();
        taken.calls.push((number, lane));
        (taken.base, taken.told) = (base, 0);
        self.calls.clear();
        self.core.open_pooled(lane, |lane| ledger.key(lane).clone());
        while self.calls.len() < more
            && let Some((number, call)) = ledger.next_call()
        {
            self.core.open_pooled(call.stream, |lane| ledger.key(lane).clone());
            taken.calls.push((number, call.stream));
            self.calls.push(call);
        }
        self.prepare_others(&mut state);
        self.untimed += 1;
        let timed = state.cost >= HANDED || self.untimed >= TIMED;
        drop(state);

        let begun = timed.then(Instant::now);
        if let Some(hosted) = self.core.run_pooled(first) {
            self.host(0, hosted);
        }
        let mut ran = 1;
        for k in 0..self.calls.len() {
            let is_mine =
                hand.begin(base + 1 + ran as u64) || ran < shared.lock().taken[own].calls.len();
            if !is_mine {
                break;
            }
            if let Some(hosted) = self.core.call_pooled(self.calls[k]) {
                self.host(ran, hosted);
            }
            ran += 1;
        }
        let time = begun.map(|begun| begun.elapsed());
        self.ran = self.ran.saturating_add(ran as u32);

        let mut state = shared.lock();
        state.running -= 1;
        state.looking += 1;
        if let Some(time) = time {
            state.measured(time, ran);
            self.untimed = 0;
        }
        if state.cost >= HANDED {
            self.ran = 0;
        }
        state.tell(own, ran, &shared.world());
        state.taken[own].calls.clear();
        state
    }

    /// Somebody else completes the call that is number `k` of those taken.
    #[cold]
    fn host(&mut self, k: usize, hosting: Hosting) {
        let mut state = self.shared.lock();
        let State { taken, ledger, .. } = &mut *state;
        let which = &mut taken[self.number].calls[k];
        let call = *which;
        which.0 = TOLD;
        ledger.host(call.0, hosting, &mut self.core, &self.shared.world());
    }

    /// What is seen to before the lock is let go of.
    fn prepare_others(&mut self, state: &mut State) {
        state.rounds += 1;
        state.looking -= 1;
        state.running += 1;
        self.unflushed += 1;
        if self.unflushed >= ROUNDS || !state.is_small() {
            state.ledger.flush(&self.shared.world());
            self.unflushed = 0;
        }
        self.unasked += 1;
        if self.unasked >= PATIENCE {
            self.unasked = 0;
            self.take_over(state);
        }
        self.leave_to_others(state);
    }

    /// Sees that somebody looks while this worker runs what it has taken, and wakes one if there is
    /// work for two.
    fn leave_to_others(&self, state: &mut State) {
        let shared = self.shared;
        shared.ready.store(state.ledger.ready(), Ordering::Relaxed);
        shared.covered.store(state.is_small() && state.cost < HANDED, Ordering::Relaxed);
        if state.looking > 0 || shared.hands.len() == 1 {
            return;
        }
        // Any of them may last, although none has of late: somebody must be there for the others.
        let count = state.taken[self.number].calls.len();
        let others = count > 1 || state.ledger.ready() > 0;
        if state.pays(count) || (others && !state.sentry) {
            state.missed = Duration::ZERO;
            shared.crew.wake_one();
            return;
        }
        let will_look = state.is_small() && state.sentry;
        if will_look || shared.inbox.is_asleep() || !shared.crew.has_sleepers() {
            return;
        }
        // Nobody looks, and nobody will for a while.
        let given = || shared.is_given() || shared.inbox.has_news();
        if !shared.inbox.fall_asleep(given) {
            shared.crew.wake_one();
        }
    }

    /// Looks a while without the lock. Returns whether there may be something to do.
    fn look(&mut self) -> bool {
        // Where small calls come in a stream, some are let come together.
        pause(std::mem::take(&mut self.ran), &self.shared.inbox);
        for _ in 0..self.looks {
            if self.shared.is_worth_a_look() {
                return true;
            }
            spin_loop();
        }
        false
    }

    /// Sleeps until there is something to do.
    fn rest<'s>(&mut self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let shared = self.shared;
        shared.covered.store(false, Ordering::Relaxed);
        let mut seen = None;
        loop {
            let moved = seen.replace(state.rounds) != Some(state.rounds);
            let others = state.running > 0 && state.cost < HANDED;
            let work = shared.is_given() || state.ledger.ready() > 0;
            // Those who run calls too small to be handed over see to what is there, as long as they do
            // look.
            if shared.inbox.has_news() || state.is_done() || (work && !(others && moved)) {
                return state;
            }
            let sentry = state.running > 0 && state.is_small() && !state.sentry;
            state.looking -= 1;
            state.missed = Duration::ZERO;
            state.sentry |= sentry;
            shared.crew.enter(&self.sleeper);
            let lone = state.looking == 0 && (state.running == 0 || !state.is_small());
            let given = || shared.is_given() || shared.inbox.has_news();
            if lone && !shared.inbox.is_asleep() && !shared.inbox.fall_asleep(given) {
                shared.crew.leave(&self.sleeper);
                state.looking += 1;
                state.sentry &= !sentry;
                return state;
            }
            drop(state);
            let asleep = Instant::now();
            let woken = self.sleeper.sleep(sentry.then_some(WATCH));
            shared.crew.leave(&self.sleeper);
            state = shared.lock();
            state.looking += 1;
            state.sentry &= !sentry;
            if woken {
                // Where calls come seldom, looking is in vain, and there is less of it with each sleep.
                let short = asleep.elapsed() < WATCH / 20 || sentry;
                self.looks = if short { LOOKS } else { self.looks / 2 };
                return state;
            }
            self.take_over(&mut state);
        }
    }

    /// What those have taken who have begun nothing since this was last asked, and are held up by what
    /// they run, can go on without them.
    fn take_over(&mut self, state: &mut State) {
        for (k, hand) in self.shared.hands.iter().enumerate() {
            let begun = hand.begun();
            if std::mem::replace(&mut self.seen[k], begun) != begun
                || k == self.number
                || state.taken[k].calls.len() < 2
            {
                continue;
            }
            let Some(begun) = hand.stop() else { continue };
            let State { taken, ledger, .. } = &mut *state;
            let begun = (begun - taken[k].base) as usize;
            for (number, _) in taken[k].calls.drain(begun..) {
                ledger.give_back(number);
            }
            // The last one that was begun runs.
            state.tell(k, begun - 1, &self.shared.world());
        }
    }
}
