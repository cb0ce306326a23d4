//! A worker of a crew.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millstream_instructions::Instruction;
use millstream_types::{Error, Result, StreamId};

use crate::core::Core;
use crate::engine::Engine;
use crate::guard;
use crate::inbox::{Inbox, News};
use crate::ring::{Consumer, Watcher};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Builder, JoinHandle, Mutex, MutexGuard, Ordering,
    current, spin_loop, spins,
};
use crate::task::Task;

use super::crew::{Crew, Sleeper};
use super::graph::Job;
use super::ledger::Ledger;
use super::{World, lock};

/// How far ahead a crew looks for something that can run: so many instructions are in the graph, the
/// others wait in the queue, where they take less memory.
const WINDOW: usize = 8192;

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
    /// What each worker has in hand. Should one be held up, the sentry takes it over.
    hands: Box<[Mutex<Hand>]>,
    /// What was ever put into the queue, and how much of it was taken out: for looks without the lock.
    given: Watcher<Task>,
    entered: AtomicU64,
    /// How many can run that nobody has taken.
    ready: AtomicUsize,
    /// Whether others run small calls, and will see to all that can run.
    covered: AtomicBool,
}

/// What a worker has in hand.
#[derive(Default)]
struct Hand {
    /// Taken, and not begun.
    jobs: VecDeque<Job>,
    /// Run, and not told.
    ended: Vec<Ended>,
    /// How many were ever begun.
    begun: u64,
}

/// A job that was run, and what is left of it to be completed.
type Ended = ((u32, StreamId), Option<Instruction>);

/// What the lock protects.
pub(super) struct State {
    ledger: Ledger,
    tasks: Consumer<Task>,
    news: Vec<News>,
    /// How many workers are awake and have nothing to run, and how many run something.
    looking: usize,
    running: usize,
    /// Whether a worker that sleeps looks by itself now and then.
    sentry: bool,
    /// How often work was taken.
    rounds: u64,
    /// What a call costs on the average, as far as is known.
    cost: Duration,
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
            looking: 0,
            running: 0,
            sentry: false,
            rounds: 0,
            // As long as nothing is known, every call may be a large one.
            cost: 2 * WAKING,
        };
        Shared {
            engine,
            inbox,
            crew,
            state: Mutex::new(state),
            hands: (0..workers).map(|_| Mutex::default()).collect(),
            given,
            entered: AtomicU64::new(0),
            ready: AtomicUsize::new(0),
            covered: AtomicBool::new(false),
        }
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

    /// How many calls a worker takes at once: of those that can run its share, if that is worth more
    /// than it costs to hand over, and no more than are soon done.
    fn share(&self) -> usize {
        let cost = self.cost.max(Duration::from_nanos(1));
        let soon = (SHARE.as_nanos() / cost.as_nanos()) as usize;
        let ready = self.ledger.ready();
        let fair = if cost < HANDED { ready } else { ready.div_ceil(self.looking.max(1)) };
        fair.min(soon.clamp(1, MOST))
    }

    /// Whether the calls that are left are worth a worker's being woken.
    fn pays(&self) -> bool {
        let left = self.ledger.ready() as u32;
        left > 0 && self.cost >= HANDED && self.cost.saturating_mul(left) >= WAKING
    }

    /// Whether calls are so small that whoever runs some will look again before anybody else could
    /// have been woken.
    fn is_small(&self) -> bool {
        self.cost < WAKING / 4
    }

    fn measured(&mut self, time: Duration, calls: usize) {
        let each = time / calls.max(1) as u32;
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
    /// How many each worker had begun when this one last looked whether it is held up.
    seen: Vec<u64>,
}

impl Worker<'_> {
    fn work(&mut self) {
        let shared = self.shared;
        let mut state = lock(&shared.state);
        state.looking += 1;
        loop {
            state.hear(shared, &mut self.core);
            state.fill(shared);
            let count = self.take(&mut state);
            if count > 0 {
                state = self.run(state, count);
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
            state = lock(&shared.state);
            if !seen {
                state = self.rest(state);
            }
        }
    }

    /// Takes its share of what can run. Returns how much that is.
    fn take(&mut self, state: &mut State) -> usize {
        let mut hand = lock(&self.shared.hands[self.number]);
        for _ in 0..state.share() {
            hand.jobs.extend(state.ledger.next());
        }
        for job in &hand.jobs {
            self.core.open_pooled(job.lane, |lane| state.ledger.key(lane).clone());
        }
        hand.jobs.len()
    }

    /// Runs what was taken, without the lock.
    fn run<'s>(&mut self, mut state: MutexGuard<'s, State>, count: usize) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let shared = self.shared;
        state.rounds += 1;
        state.looking -= 1;
        state.running += 1;
        self.unflushed += 1;
        if self.unflushed >= ROUNDS || !state.is_small() {
            state.ledger.flush(&shared.world());
            self.unflushed = 0;
        }
        self.unasked += 1;
        if self.unasked >= PATIENCE {
            self.unasked = 0;
            self.take_over(&mut state);
        }
        self.leave_to_others(&mut state, count);
        self.untimed += 1;
        let timed = state.cost >= HANDED || self.untimed >= TIMED;
        drop(state);

        let begun = timed.then(Instant::now);
        let hand = &shared.hands[self.number];
        let (mut ran, mut last) = (0, None);
        loop {
            let next = {
                let mut hand = lock(hand);
                hand.ended.extend(last.take());
                hand.begun += 1;
                hand.jobs.pop_front()
            };
            let Some(job) = next else { break };
            let which = (job.number, job.lane);
            last = Some((which, self.core.run_pooled(job)));
            ran += 1;
        }
        let time = begun.map(|begun| begun.elapsed());

        let mut state = lock(&shared.state);
        state.running -= 1;
        state.looking += 1;
        if let Some(time) = time {
            state.measured(time, ran);
            self.untimed = 0;
        }
        for (job, hosted) in lock(hand).ended.drain(..) {
            state.ledger.ran(job, hosted, &mut self.core, &shared.world());
        }
        state
    }

    /// Sees that somebody looks while this worker runs so many, and wakes one if there is work for
    /// two.
    fn leave_to_others(&self, state: &mut State, count: usize) {
        let shared = self.shared;
        shared.ready.store(state.ledger.ready(), Ordering::Relaxed);
        shared.covered.store(state.is_small() && state.cost < HANDED, Ordering::Relaxed);
        if state.looking > 0 {
            return;
        }
        // Any of them may last, although none has of late: somebody must be there for the others.
        let others = count + state.ledger.ready() > 1;
        if state.pays() || (others && !state.sentry) {
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
    fn look(&self) -> bool {
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
            let others = state.running > 0 && state.is_small();
            if others {
                self.take_over(&mut state);
            }
            let work = shared.is_given() || state.ledger.ready() > 0;
            // Those who run small calls see to what is there, as long as they do look.
            if shared.inbox.has_news() || state.is_done() || (work && !(others && moved)) {
                return state;
            }
            let sentry = state.running > 0 && state.is_small() && !state.sentry;
            state.looking -= 1;
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
            self.sleeper.sleep(sentry.then_some(WATCH));
            self.looks = if asleep.elapsed() < WATCH / 20 { LOOKS } else { self.looks / 2 };
            shared.crew.leave(&self.sleeper);
            state = lock(&shared.state);
            state.looking += 1;
            state.sentry &= !sentry;
            if !sentry {
                return state;
            }
        }
    }

    /// What those have in hand who have begun nothing since this was last asked, and are held up by
    /// what they run, can go on without them.
    fn take_over(&mut self, state: &mut State) {
        for (k, hand) in self.shared.hands.iter().enumerate().filter(|(k, _)| *k != self.number) {
            let mut hand = lock(hand);
            if std::mem::replace(&mut self.seen[k], hand.begun) != hand.begun {
                continue;
            }
            for job in hand.jobs.drain(..) {
                state.ledger.give_back(job);
            }
            for (job, hosted) in hand.ended.drain(..) {
                state.ledger.ran(job, hosted, &mut self.core, &self.shared.world());
            }
        }
    }
}
