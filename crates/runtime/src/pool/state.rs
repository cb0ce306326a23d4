//! The state that the workers of the pools share.

use std::time::Duration;

use millstream_types::StreamId;

use crate::sync::inbox::{Inbox, Message};
use crate::sync::spsc_queue::{Consumer, Watcher};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, share, spin_loop, spins,
};
use crate::tables::Tables;
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::task::Task;

use super::claim_counter::ClaimCounter;
use super::parked::ParkedWorkers;
use super::scheduler::Scheduler;
use super::{MachineContext, lock};

/// The most instructions in the graph, unless all of them are blocked: then there are more, in
/// which one that can run may be found. The others stay in the queue, where they take less memory.
const WINDOW: usize = 1024;

/// A worker claims about this much work at once, and at most `MAX_CLAIMED` calls: every claim moves
/// the data under the lock to another core.
const CLAIM_TIME: Duration = share(Duration::from_micros(8));
pub(super) const MAX_CLAIMED: usize = 32;

/// The least cost of a call that is worth handing to another worker: for cheaper calls, handing
/// over is most of the work.
pub(super) const MIN_HANDOVER: Duration = Duration::from_nanos(250);

/// The approximate cost of a wake-up: work that ends sooner does not wait for one.
const WAKE_COST: Duration = Duration::from_micros(20);

/// How often a worker tries to get the lock before it blocks.
const LOCK_SPINS: u32 = spins(200);

/// The shared state.
pub(super) struct PoolShared {
    pub(super) tables: Arc<Tables>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) parked: Arc<ParkedWorkers>,
    pub(super) state: Mutex<State>,
    /// The progress of each worker with its claims. If a call takes long, other workers take over
    /// the rest.
    pub(super) claims: Box<[ClaimCounter]>,
    /// The number of tasks ever queued, and of those moved to the graph: read without the lock.
    pub(super) queued: Watcher<Task>,
    pub(super) entered: AtomicU64,
    /// Whether the graph is full: tasks stay in the queue.
    pub(super) full: AtomicBool,
    /// How many ready instructions nobody has claimed.
    pub(super) ready: AtomicUsize,
    /// Whether a worker polls and finds nothing, while others may have claimed calls that it could
    /// run, or have completions to report.
    pub(super) starving: AtomicBool,
    /// Whether other workers run small calls and will claim everything that is ready.
    pub(super) has_active_poller: AtomicBool,
}

/// A worker's claims: the numbers and streams of the calls, in order.
#[derive(Default)]
pub(super) struct Claimed {
    pub(super) calls: Vec<(u32, StreamId)>,
    /// How many calls the worker had begun before.
    pub(super) base: u64,
    /// How many of the claimed calls were reported to the graph.
    pub(super) reported: usize,
}

/// In place of a number: another party completes the call, and the scheduler has it.
pub(super) const EXTERNAL: u32 = u32::MAX;

/// The state under the lock.
pub(super) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) tasks: Consumer<Task>,
    pub(super) messages: Vec<Message>,
    /// The claims of each worker.
    pub(super) taken: Vec<Claimed>,
    /// How many workers are awake without work, and how many run a call.
    pub(super) polling: usize,
    pub(super) running: usize,
    /// Whether a parked worker wakes regularly to check on the others.
    pub(super) monitor: bool,
    /// The most instructions in the graph now.
    window: usize,
    /// How often work was claimed.
    pub(super) rounds: u64,
    /// The average cost of a call, as measured so far.
    pub(super) cost: Duration,
    /// How much work other workers could have done since one was last woken or parked.
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
        let queued = tasks.watcher();
        let state = State {
            scheduler: Scheduler::default(),
            tasks,
            messages: Vec::new(),
            taken: (0..workers).map(|_| Claimed::default()).collect(),
            polling: 0,
            running: 0,
            monitor: false,
            window: WINDOW,
            rounds: 0,
            // Until something is measured, every call may be a large one.
            cost: 2 * WAKE_COST,
            missed: Duration::ZERO,
        };
        PoolShared {
            tables,
            inbox,
            parked,
            state: Mutex::new(state),
            claims: (0..workers).map(|_| ClaimCounter::default()).collect(),
            queued,
            entered: AtomicU64::new(0),
            full: AtomicBool::new(false),
            ready: AtomicUsize::new(0),
            starving: AtomicBool::new(false),
            has_active_poller: AtomicBool::new(false),
        }
    }

    /// Locks the state. The lock is held for less than a microsecond, so spinning first pays.
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

    /// Returns whether the queue holds a task that the graph has room for.
    pub(super) fn has_queued(&self) -> bool {
        !self.full.load(Ordering::Relaxed)
            && self.queued.pushed() != self.entered.load(Ordering::Relaxed)
    }

    /// Returns whether there may be work, as far as the fields outside the lock tell.
    pub(super) fn may_have_work(&self) -> bool {
        self.inbox.has_messages()
            || (!self.has_active_poller.load(Ordering::Relaxed)
                && (self.ready.load(Ordering::Relaxed) > 0 || self.has_queued()))
    }
}

impl State {
    /// Moves tasks from the queue into the graph, until enough can run or the graph is full.
    pub(super) fn fill(&mut self, shared: &PoolShared) {
        let context = shared.context();
        let mut taken = 0;
        // A call of high priority may stand far behind.
        let urgent = shared.tables.has_priorities.load(Ordering::Relaxed);
        // Ready instructions run first: a worker without other work adds more.
        if !urgent && self.scheduler.ready() > 0 && self.scheduler.live() > WINDOW / 2 {
            return;
        }
        let enough = if urgent { WINDOW } else { 2 * MAX_CLAIMED };
        if self.window > WINDOW && self.scheduler.live() < WINDOW {
            self.window = WINDOW;
        }
        while self.scheduler.live() < self.window
            && self.scheduler.ready() < enough
            && let Some(task) = self.tasks.pop()
        {
            taken += 1;
            self.scheduler.accept(task, &context);
        }
        if taken > 0 {
            // Relaxed: a hint; the lock protects the queue itself.
            shared.entered.store(self.tasks.popped(), Ordering::Relaxed);
        }
        let full = self.scheduler.live() >= self.window;
        if shared.full.load(Ordering::Relaxed) != full {
            shared.full.store(full, Ordering::Relaxed);
        }
    }

    pub(super) fn poll_inbox(&mut self, shared: &PoolShared, worker: &mut ThreadCtx) {
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

    /// Completes waits whose points have been reached, and wakes all waiters for published points.
    pub(super) fn catch_up(&mut self, shared: &PoolShared) {
        self.scheduler.catch_up(&shared.context());
        self.scheduler.flush(&shared.context());
    }

    /// Doubles the window if all instructions of a full graph are blocked. Returns whether it did.
    pub(super) fn widen(&mut self) -> bool {
        let is_stuck = self.scheduler.ready() == 0
            && self.scheduler.live() >= self.window
            && !self.tasks.is_empty();
        if is_stuck {
            self.window = 2 * self.scheduler.live();
        }
        is_stuck
    }

    /// Returns whether nothing is left and nothing more will come.
    pub(super) fn is_done(&self) -> bool {
        self.scheduler.is_done() && self.tasks.is_empty()
    }

    /// Returns how many calls a worker claims beside the first: its share of the ready ones, if a
    /// share is worth more than handing it over costs, and at most a short time's work.
    pub(super) fn share(&self) -> usize {
        let ready = self.scheduler.ready();
        if ready == 0 {
            return 0;
        }
        let cost = self.cost.max(Duration::from_nanos(1));
        let soon = (CLAIM_TIME.as_nanos() / cost.as_nanos()) as usize;
        // Of the ready ones, with the one that is claimed already.
        let awake = (self.polling + self.running).max(1);
        let fair = if cost < MIN_HANDOVER { ready } else { (ready + 1).div_ceil(awake) - 1 };
        fair.min(soon.min(MAX_CLAIMED).saturating_sub(1))
    }

    /// Returns whether it pays to wake another worker: once that worker could have done as much
    /// work as its wake-up costs, had it been awake. So at most twice the unavoidable cost is lost
    /// (A. Karlin et al., "Competitive Snoopy Caching", Algorithmica 1988). A worker claims `count`
    /// calls now, of which another would have got half.
    pub(super) fn is_wakeup_worthwhile(&mut self, count: usize) -> bool {
        if self.cost < MIN_HANDOVER {
            return false;
        }
        let others = self.scheduler.ready() + count / 2;
        self.missed += self.cost * others.min(count) as u32;
        others > 0 && (self.missed >= WAKE_COST || self.cost * others as u32 >= WAKE_COST)
    }

    /// Returns whether calls are so small that a worker that runs some polls again before another
    /// could have been woken.
    pub(super) fn is_small(&self) -> bool {
        self.cost < WAKE_COST / 4
    }

    /// Reports that a worker has run the first `ran` calls of its claims.
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
        // A call that took far longer than usual may have been interrupted: then the next ones
        // tell.
        let each = (time / calls.max(1) as u32).min(self.cost * 4 + MIN_HANDOVER / 4);
        self.cost = (self.cost * 3 + each) / 4;
    }
}
