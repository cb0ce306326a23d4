//! A worker of the pools.

use std::time::{Duration, Instant};

use millstream_stream_policy::WorkerGroup;
use millstream_types::{Error, Result, catch_unit};

use crate::scope::reentrancy;
use crate::sync::backoff::{Backoff, POLLS};
use crate::sync::{Arc, Builder, JoinHandle, MutexGuard, Ordering, current};
use crate::thread_ctx::pauses::{PAUSES, pause};
use crate::thread_ctx::task::StoredCall;
use crate::thread_ctx::{ExternalCompletion, ThreadCtx};

use super::parked::ParkedWorker;
use super::state::{EXTERNAL, MAX_CLAIMED, MIN_HANDOVER, PoolShared, State};
use crate::thread_ctx::pooled::ReadyTask;

/// Small calls are timed once in so many rounds.
const TIMED: u32 = 8;

/// How many pauses a worker makes for each call that it ran since it last found none. Another
/// worker's call may make one ready, so where calls come one by one it polls at once.
const PAUSES_PER_CALL: u32 = 4;

/// How often a worker without work polls before it parks, beside workers that run calls of
/// microseconds, any of which may make something ready.
const POLLS_BESIDE: u32 = 4 * POLLS;

/// How often the monitor checks on the others.
const MONITOR_INTERVAL: Duration = Duration::from_millis(1);

/// After so many rounds a worker checks whether others are stuck in a call.
const PATIENCE: u32 = 256;

/// After so many rounds with small calls, all waiters for published points are woken.
const ROUNDS: u32 = 16;

pub(super) fn start(
    shared: &Arc<PoolShared>,
    group: WorkerGroup,
    number: usize,
) -> Result<JoinHandle<()>> {
    let shared = shared.clone();
    Builder::new()
        .name(format!("millstream-pool-{number}"))
        .spawn(move || {
            reentrancy::mark_thread(shared.tables.machine);
            let mut worker = PoolWorker {
                worker: ThreadCtx::new(shared.tables.clone(), shared.inbox.clone(), group),
                parker: Arc::new(ParkedWorker::new(current())),
                shared: &shared,
                number,
                limit: POLLS,
                untimed: 0,
                unflushed: 0,
                unasked: 0,
                ran: 0,
                calls: Vec::with_capacity(MAX_CLAIMED),
                seen: vec![0; shared.claims.len()],
            };
            let ended = catch_unit(|| worker.work());
            shared.tables.end_worker(worker, ended);
        })
        .map_err(|e| Error::Internal { message: format!("no thread for a worker: {e}") })
}

struct PoolWorker<'a> {
    shared: &'a PoolShared,
    worker: ThreadCtx,
    parker: Arc<ParkedWorker>,
    number: usize,
    limit: u32,
    untimed: u32,
    unflushed: u32,
    unasked: u32,
    /// How many small calls it has run since it last found nothing.
    ran: u32,
    /// Its claims, except the first.
    calls: Vec<StoredCall>,
    /// How many calls each worker had begun at the last check.
    seen: Vec<u64>,
}

impl PoolWorker<'_> {
    fn work(&mut self) {
        let shared = self.shared;
        let mut state = shared.lock();
        state.polling += 1;
        loop {
            state.poll_inbox(shared, &mut self.worker);
            state.fill(shared);
            if let Some(ready) = state.scheduler.next() {
                state = self.run(state, ready);
                continue;
            }
            state.catch_up(shared);
            self.unflushed = 0;
            if state.scheduler.ready() > 0 {
                continue;
            }
            let others = state.running > 0 && state.cost >= MIN_HANDOVER;
            shared.starving.store(others, Ordering::Relaxed);
            if state.running == 0 {
                shared.has_active_poller.store(false, Ordering::Relaxed);
            }
            shared.ready.store(0, Ordering::Relaxed);
            if state.is_done() {
                // The others find the same.
                while shared.parked.wake_one() {}
                return;
            }
            let limit = if others && state.is_small() { POLLS_BESIDE } else { self.limit };
            drop(state);
            let seen = self.poll(limit);
            state = shared.lock();
            if !seen {
                state = self.park_until_work(state);
            }
        }
    }

    /// Claims a share of the ready calls, starting with `first`, and runs them without the lock.
    fn run<'s>(
        &mut self,
        mut state: MutexGuard<'s, State>,
        first: ReadyTask,
    ) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let (shared, own) = (self.shared, self.number);
        let claim = &shared.claims[own];
        let base = claim.take();
        let ReadyTask { number, stream, .. } = first;
        let more = state.share();
        let State { taken, scheduler, .. } = &mut *state;
        self.worker.follow_recording(scheduler.recording());
        let taken = &mut taken[own];
        taken.calls.clear();
        taken.calls.push((number, stream));
        (taken.base, taken.reported) = (base, 0);
        self.calls.clear();
        self.worker.open_pooled(stream, |stream| scheduler.key(stream).clone());
        while self.calls.len() < more
            && let Some((number, call)) = scheduler.next_call()
        {
            self.worker.open_pooled(call.stream, |stream| scheduler.key(stream).clone());
            taken.calls.push((number, call.stream));
            self.calls.push(call);
        }
        self.before_unlock(&mut state);
        self.untimed += 1;
        let (shares, timed) =
            (state.cost >= MIN_HANDOVER, state.cost >= MIN_HANDOVER || self.untimed >= TIMED);
        drop(state);

        let begun = timed.then(Instant::now);
        if let Some(external) = self.worker.run_pooled(first) {
            self.register_external(0, external);
        }
        let mut ran = 1;
        while ran <= self.calls.len() {
            if shares && shared.starving.load(Ordering::Relaxed) {
                self.hand_over(ran);
                if ran > self.calls.len() {
                    break;
                }
            }
            let is_mine =
                claim.begin(base + 1 + ran as u64) || ran < shared.lock().taken[own].calls.len();
            if !is_mine {
                break;
            }
            if let Some(external) = self.worker.call_pooled(self.calls[ran - 1].clone()) {
                self.register_external(ran, external);
            }
            ran += 1;
        }
        let time = begun.map(|begun| begun.elapsed());
        self.ran = self.ran.saturating_add(ran as u32);
        self.worker.deliver_samples();

        let mut state = shared.lock();
        state.running -= 1;
        state.polling += 1;
        if let Some(time) = time {
            state.measured(time, ran);
            self.untimed = 0;
        }
        if state.cost >= MIN_HANDOVER {
            self.ran = 0;
        }
        state.report_ran(own, ran, &shared.context());
        state.taken[own].calls.clear();
        state
    }

    /// Returns half of the claims that are not begun, for a worker without work, unless the
    /// completions since make something ready.
    #[cold]
    fn hand_over(&mut self, ran: usize) {
        let shared = self.shared;
        let mut state = shared.lock();
        state.report_ran(self.number, ran, &shared.context());
        let State { taken, scheduler, .. } = &mut *state;
        let calls = &mut taken[self.number].calls;
        if scheduler.ready() == 0 {
            let keep = ran + calls.len().saturating_sub(ran).div_ceil(2);
            for (number, _) in calls.drain(keep.min(calls.len())..) {
                scheduler.unclaim(number);
            }
        }
        // Other workers may have taken over some claims as well.
        self.calls.truncate(calls.len().max(ran) - 1);
        shared.ready.store(scheduler.ready(), Ordering::Relaxed);
        shared.starving.store(false, Ordering::Relaxed);
    }

    /// Registers that another party completes claim number `k`.
    #[cold]
    fn register_external(&mut self, k: usize, external: ExternalCompletion) {
        let mut state = self.shared.lock();
        let State { taken, scheduler, .. } = &mut *state;
        let which = &mut taken[self.number].calls[k];
        let call = *which;
        which.0 = EXTERNAL;
        scheduler.register_external(call.0, external, &mut self.worker, &self.shared.context());
    }

    /// Does the work for other workers before the lock is released.
    fn before_unlock(&mut self, state: &mut State) {
        state.rounds += 1;
        state.polling -= 1;
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
        self.ensure_poller(state);
    }

    /// Makes sure that a worker polls while this one runs its claims, and wakes one if there is
    /// work for two.
    fn ensure_poller(&self, state: &mut State) {
        let shared = self.shared;
        shared.ready.store(state.scheduler.ready(), Ordering::Relaxed);
        shared
            .has_active_poller
            .store(state.is_small() && state.cost < MIN_HANDOVER, Ordering::Relaxed);
        if state.polling > 0 || shared.claims.len() == 1 {
            return;
        }
        // Any of the claims may take long, although none has recently: another worker must be ready
        // to take over.
        let count = state.taken[self.number].calls.len();
        let others = count > 1 || state.scheduler.ready() > 0;
        if state.is_wakeup_worthwhile(count) || (others && !state.monitor) {
            state.missed = Duration::ZERO;
            shared.parked.wake_one();
            return;
        }
        let will_look = state.is_small() && state.monitor;
        if will_look || shared.inbox.is_parked() || !shared.parked.has_parked() {
            return;
        }
        // No worker polls, and none will for a while.
        let has_work = || shared.has_queued() || shared.inbox.has_messages();
        let has_work = || has_work() || state.scheduler.is_behind(&shared.context());
        if !shared.inbox.begin_park(false, has_work) {
            shared.parked.wake_one();
        }
    }

    /// Polls for a while without the lock. Returns whether there may be work.
    fn poll(&mut self, limit: u32) -> bool {
        // Where small calls come in a stream, let some accumulate.
        let pauses = std::mem::take(&mut self.ran).saturating_mul(PAUSES_PER_CALL).min(PAUSES);
        pause(pauses, &self.shared.inbox, &self.shared.tables);
        let mut backoff = Backoff::new(limit);
        while backoff.spin() {
            if self.shared.may_have_work() {
                return true;
            }
        }
        false
    }

    /// Parks until there is work.
    fn park_until_work<'s>(&mut self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State>
    where
        Self: 's,
    {
        let shared = self.shared;
        shared.has_active_poller.store(false, Ordering::Relaxed);
        let mut seen = None;
        loop {
            let moved = seen.replace(state.rounds) != Some(state.rounds);
            let others = state.running > 0 && state.cost < MIN_HANDOVER;
            let work = shared.has_queued() || state.scheduler.ready() > 0;
            // Workers with calls too small to hand over will claim everything that is ready, as
            // long as they do poll.
            if shared.inbox.has_messages() || state.is_done() || (work && !(others && moved)) {
                return state;
            }
            // Others that run small calls may unblock some of the graph soon.
            let progresses = moved && state.running > 0 && state.is_small();
            if !progresses && state.widen() {
                return state;
            }
            let monitor = state.running > 0 && state.is_small() && !state.monitor;
            state.polling -= 1;
            if state.polling == 0 {
                shared.starving.store(false, Ordering::Relaxed);
            }
            state.missed = Duration::ZERO;
            state.monitor |= monitor;
            shared.parked.enter(&self.parker);
            let lone = state.polling == 0 && (state.running == 0 || !state.is_small());
            let is_quiet = || state.running == 0 && state.scheduler.is_quiet(&shared.tables);
            let has_work = || shared.has_queued() || shared.inbox.has_messages();
            let has_work = || has_work() || state.scheduler.is_behind(&shared.context());
            // Also if a worker with claims has parked the inbox, which was not quiet then.
            if lone && !shared.inbox.begin_park(is_quiet(), has_work) {
                state.catch_up(shared);
                shared.parked.leave(&self.parker);
                state.polling += 1;
                state.monitor &= !monitor;
                return state;
            }
            drop(state);
            let parked = Instant::now();
            let woken = self.parker.park(monitor.then_some(MONITOR_INTERVAL));
            shared.parked.leave(&self.parker);
            state = shared.lock();
            state.polling += 1;
            state.monitor &= !monitor;
            if woken {
                // Where calls come rarely, polling is in vain, and there is less of it after each
                // park.
                let short = parked.elapsed() < MONITOR_INTERVAL / 20 || monitor;
                self.limit = if short { POLLS } else { self.limit / 2 };
                return state;
            }
            state.catch_up(shared);
            self.take_over(&mut state);
        }
    }

    /// Takes over the claims of workers that have begun nothing since the last check: the call that
    /// they run keeps them.
    fn take_over(&mut self, state: &mut State) {
        for (k, claim) in self.shared.claims.iter().enumerate() {
            let begun = claim.begun();
            if std::mem::replace(&mut self.seen[k], begun) != begun
                || k == self.number
                || state.taken[k].calls.len() < 2
            {
                continue;
            }
            let Some(begun) = claim.stop() else { continue };
            let State { taken, scheduler, .. } = &mut *state;
            let begun = (begun - taken[k].base) as usize;
            for (number, _) in taken[k].calls.drain(begun..) {
                scheduler.unclaim(number);
            }
            // The last call that was begun is running.
            state.report_ran(k, begun - 1, &self.shared.context());
        }
    }
}
