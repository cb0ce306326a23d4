//! A worker of a crew.

use std::time::{Duration, Instant};

use millstream_types::{Error, Result};

use crate::driver::pause;
use crate::emission::reentrancy;
use crate::sync::{Arc, Builder, JoinHandle, MutexGuard, Ordering, current, spin_loop, spins};
use crate::worker::task::StoredCall;
use crate::worker::{Core, Hosting};

use super::graph::Job;
use super::sleepers::Sleeper;
use super::state::{HANDED, MOST, Shared, State, TOLD};

/// How often small calls are timed: every so many rounds.
const TIMED: u32 = 8;

/// How often a worker that has nothing looks again before it sleeps: some ten microseconds.
const LOOKS: u32 = spins(500);

/// The same beside others that run calls of microseconds, any of which may make something ready: about
/// what being woken costs.
const LOOKS_BESIDE: u32 = 4 * LOOKS;

/// How often the sentry looks.
const WATCH: Duration = Duration::from_millis(1);

/// After so many rounds a worker looks whether others are held up.
const PATIENCE: u32 = 256;

/// After so many rounds with small calls everyone is told who waits for what has passed.
const ROUNDS: u32 = 16;

pub(super) fn start(shared: &Arc<Shared>, number: usize) -> Result<JoinHandle<()>> {
    let shared = shared.clone();
    Builder::new()
        .name(format!("millstream-pool-{number}"))
        .spawn(move || {
            reentrancy::forever(shared.engine.machine);
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
            state.catch_up(shared);
            self.unflushed = 0;
            if state.ledger.ready() > 0 {
                continue;
            }
            let others = state.running > 0 && state.cost >= HANDED;
            shared.hungry.store(others, Ordering::Relaxed);
            if state.running == 0 {
                shared.covered.store(false, Ordering::Relaxed);
            }
            shared.ready.store(0, Ordering::Relaxed);
            if state.is_done() {
                // The others find the same.
                while shared.crew.wake_one() {}
                return;
            }
            let looks = if others && state.is_small() { LOOKS_BESIDE } else { self.looks };
            drop(state);
            let seen = self.look(looks);
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
        let (shares, timed) = (state.cost >= HANDED, state.cost >= HANDED || self.untimed >= TIMED);
        drop(state);

        let begun = timed.then(Instant::now);
        if let Some(hosted) = self.core.run_pooled(first) {
            self.host(0, hosted);
        }
        let mut ran = 1;
        while ran <= self.calls.len() {
            if shares && shared.hungry.load(Ordering::Relaxed) {
                self.hand_over(ran);
                if ran > self.calls.len() {
                    break;
                }
            }
            let is_mine =
                hand.begin(base + 1 + ran as u64) || ran < shared.lock().taken[own].calls.len();
            if !is_mine {
                break;
            }
            if let Some(hosted) = self.core.call_pooled(self.calls[ran - 1]) {
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

    /// A worker has nothing to run: it gets half of what this one has not begun, if what has completed
    /// meanwhile makes nothing ready.
    #[cold]
    fn hand_over(&mut self, ran: usize) {
        let shared = self.shared;
        let mut state = shared.lock();
        state.tell(self.number, ran, &shared.world());
        let State { taken, ledger, .. } = &mut *state;
        let calls = &mut taken[self.number].calls;
        if ledger.ready() == 0 {
            let keep = ran + calls.len().saturating_sub(ran).div_ceil(2);
            for (number, _) in calls.drain(keep.min(calls.len())..) {
                ledger.give_back(number);
            }
        }
        // Others may have taken over some as well.
        self.calls.truncate(calls.len().max(ran) - 1);
        shared.ready.store(ledger.ready(), Ordering::Relaxed);
        shared.hungry.store(false, Ordering::Relaxed);
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
            state.catch_up(self.shared);
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
        if !shared.inbox.fall_asleep(|| given() || state.ledger.is_behind(&shared.world())) {
            shared.crew.wake_one();
        }
    }

    /// Looks a while without the lock. Returns whether there may be something to do.
    fn look(&mut self, looks: u32) -> bool {
        // Where small calls come in a stream, some are let come together.
        pause(std::mem::take(&mut self.ran), &self.shared.inbox);
        for _ in 0..looks {
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
            if state.looking == 0 {
                shared.hungry.store(false, Ordering::Relaxed);
            }
            state.missed = Duration::ZERO;
            state.sentry |= sentry;
            shared.crew.enter(&self.sleeper);
            let lone = state.looking == 0 && (state.running == 0 || !state.is_small());
            let given = || shared.is_given() || shared.inbox.has_news();
            let given = || given() || state.ledger.is_behind(&shared.world());
            if lone && !shared.inbox.is_asleep() && !shared.inbox.fall_asleep(given) {
                state.catch_up(shared);
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
            state.catch_up(shared);
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
