//! The progress of each stream, and the waiters for it.
//!
//! # Rules
//! 1. The one worker that owns a stream writes its counters; the counters of a pool are written by
//!    the holder of the pool's lock. Counters only grow.
//! 2. `completed` is stored with release order after all effects of the completed instructions, and
//!    loaded with acquire order: a thread that sees a point reached sees its effects.
//! 3. Lost wake-ups: a waiter enters the list, lowers `due` to its point, fences, and checks the
//!    counter again. The owner stores the counter, and at its next [`StreamState::flush`] fences
//!    and compares it with `due`. One of the two fences comes first, so either the waiter sees the
//!    counter or the owner sees the waiter (Dekker's argument).
//! 4. The owner flushes before it parks and after a bounded number of instructions, but one
//!    instruction may take long. Therefore `publish` compares as well, with the cheap half of an
//!    asymmetric fence. The waiter executes the expensive half: a task when it enters the list, a
//!    thread after its first tenth of a second, a worker with a blocked stream before it parks. A
//!    running worker checks the counter again in its loop.
//! 5. A waiter that gives up leaves the list.

use std::sync::{OnceLock, PoisonError};
use std::task::Waker;

use intrusive_collections::{LinkedList, LinkedListAtomicLink, intrusive_adapter};
use smallvec::SmallVec;

use millstream_types::{Point, StreamId, catch_unit};

use crate::sync::inbox::{Inbox, Message};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, Thread, fence, heavy_fence, light_fence};

/// A milestone of an instruction: each stream has one counter for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// Handed to the device.
    Launched,
    /// Finished on the device.
    Completed,
}

/// A party that waits for a point.
#[derive(Clone, Debug)]
pub enum Waiter {
    /// A stream that its worker has blocked.
    Stream(Arc<Inbox>, StreamId),
    /// A thread of the program.
    Thread(Thread),
    /// A future.
    Task(Waker),
}

impl Waiter {
    fn wake(self) {
        match self {
            Waiter::Stream(inbox, stream) => inbox.post(Message::Resume(stream)),
            Waiter::Thread(thread) => thread.unpark(),
            // No call depends on a waker: the panic hook has reported its panic.
            Waiter::Task(waker) => drop(catch_unit(|| waker.wake())),
        }
    }

    /// Returns whether both wake the same party. Streams never leave the list, so they compare
    /// unequal.
    fn is(&self, other: &Waiter) -> bool {
        match (self, other) {
            (Waiter::Thread(one), Waiter::Thread(other)) => one.id() == other.id(),
            (Waiter::Task(one), Waiter::Task(other)) => one.will_wake(other),
            _ => false,
        }
    }
}

struct Node {
    link: LinkedListAtomicLink,
    seq: u64,
    milestone: Milestone,
    waiter: Option<Waiter>,
}

intrusive_adapter!(NodeList = Box<Node>: Node { link => LinkedListAtomicLink });

struct Waiters {
    held: LinkedList<NodeList>,
    // Used nodes, so that blocking a stream allocates nothing in the steady state.
    free: LinkedList<NodeList>,
}

/// The progress of one stream. Alone on its cache lines, since its owner writes it all the time.
#[repr(align(128))]
pub struct StreamState {
    completed: AtomicU64,
    launched: AtomicU64,
    /// The smallest sequence number with a waiter, for either milestone.
    due: AtomicU64,
    /// The smallest sequence number with a waiter for its launch.
    due_launched: AtomicU64,
    waiters: Mutex<Waiters>,
}

/// The value of `due` without waiters.
const NEVER: u64 = u64::MAX;

impl StreamState {
    pub(crate) fn new() -> StreamState {
        let waiters = Waiters {
            held: LinkedList::new(NodeList::new()),
            free: LinkedList::new(NodeList::new()),
        };
        StreamState {
            completed: AtomicU64::new(0),
            launched: AtomicU64::new(0),
            due: AtomicU64::new(NEVER),
            due_launched: AtomicU64::new(NEVER),
            waiters: Mutex::new(waiters),
        }
    }

    /// Returns whether instruction `seq` has reached the milestone. A completed instruction was
    /// launched before.
    pub(crate) fn reached(&self, seq: u64, milestone: Milestone) -> bool {
        self.completed.load(Ordering::Acquire) >= seq
            || (milestone == Milestone::Launched && self.launched.load(Ordering::Acquire) >= seq)
    }

    /// Returns the last completed instruction.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Returns the last instruction that was published as launched and not completed.
    pub fn launched(&self) -> u64 {
        self.launched.load(Ordering::Acquire)
    }

    /// Publishes that all instructions up to `seq` have reached the milestone. Called by the owner.
    #[inline]
    pub(crate) fn publish(&self, seq: u64, milestone: Milestone) {
        // Release: pairs with the loads of `reached`.
        let due = match milestone {
            Milestone::Completed => {
                self.completed.store(seq, Ordering::Release);
                &self.due
            }
            Milestone::Launched => {
                self.launched.store(seq, Ordering::Release);
                &self.due_launched
            }
        };
        // Pairs with the expensive fence of rule 4.
        light_fence();
        if due.load(Ordering::Relaxed) <= seq {
            self.wake_due();
        }
    }

    /// Wakes every waiter for a published point. Called by the owner.
    pub(crate) fn flush(&self) {
        // Pairs with the fence in `park`. Relaxed: the owner alone writes the counters.
        fence(Ordering::SeqCst);
        if self.due.load(Ordering::Relaxed) <= self.completed.load(Ordering::Relaxed)
            || self.due_launched.load(Ordering::Relaxed) <= self.launched.load(Ordering::Relaxed)
        {
            self.wake_due();
        }
    }

    fn wake_due(&self) {
        let mut due: SmallVec<[Waiter; 4]> = SmallVec::new();
        {
            let mut guard = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            let Waiters { held, free } = &mut *guard;
            let mut cursor = held.front_mut();
            while let Some(node) = cursor.get() {
                if !self.reached(node.seq, node.milestone) {
                    cursor.move_next();
                    continue;
                }
                if let Some(mut node) = cursor.remove() {
                    due.extend(node.waiter.take());
                    free.push_front(node);
                }
            }
            self.set_due(held);
        }
        // Outside the lock: a woken thread may park again at once.
        for waiter in due {
            waiter.wake();
        }
    }

    /// Wakes all waiters except streams, so that they check whether their point has become
    /// unreachable.
    pub(crate) fn wake_to_recheck(&self) {
        let mut waiters: SmallVec<[Waiter; 4]> = SmallVec::new();
        {
            let guard = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            for node in &guard.held {
                let waiter = node.waiter.iter().filter(|w| !matches!(w, Waiter::Stream(..)));
                // As in `wake`.
                let _ = catch_unit(|| waiters.extend(waiter.cloned()));
            }
        }
        for waiter in waiters {
            waiter.wake();
        }
    }

    /// Registers `waiter` for instruction `seq` and a milestone. Returns false, and drops the
    /// waiter, if the milestone was reached before.
    pub(crate) fn park(&self, seq: u64, milestone: Milestone, waiter: Waiter) -> bool {
        if self.reached(seq, milestone) {
            return false;
        }
        let mut guard = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiters { held, free } = &mut *guard;
        let rechecks = !matches!(waiter, Waiter::Task(_));
        let mut node = free.pop_front().unwrap_or_else(|| {
            Box::new(Node { link: LinkedListAtomicLink::new(), seq, milestone, waiter: None })
        });
        (node.seq, node.milestone, node.waiter) = (seq, milestone, Some(waiter));
        held.push_back(node);
        self.set_due(held);
        // Pairs with the fence in `flush`; the expensive fence pairs with the one in `publish`,
        // too.
        if rechecks || !heavy_fence() {
            fence(Ordering::SeqCst);
        }
        if !self.reached(seq, milestone) {
            return true;
        }
        // The lock is still held, so the last node of the list is this waiter's.
        if let Some(mut node) = held.pop_back() {
            node.waiter = None;
            free.push_front(node);
        }
        self.set_due(held);
        false
    }

    /// Removes a waiter that [`StreamState::park`] registered. It may have been woken meanwhile.
    pub(crate) fn leave(&self, seq: u64, milestone: Milestone, waiter: &Waiter) {
        let mut guard = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiters { held, free } = &mut *guard;
        let mut cursor = held.front_mut();
        while let Some(node) = cursor.get() {
            let is_it = node.seq == seq && node.milestone == milestone;
            if !is_it || !node.waiter.as_ref().is_some_and(|held| held.is(waiter)) {
                cursor.move_next();
                continue;
            }
            if let Some(mut node) = cursor.remove() {
                node.waiter = None;
                free.push_front(node);
            }
            break;
        }
        self.set_due(held);
    }

    /// Recomputes the smallest sequence numbers with waiters. Called with the list locked.
    fn set_due(&self, held: &LinkedList<NodeList>) {
        let first = |milestone: Option<Milestone>| {
            let of_mark = held
                .iter()
                .filter(|node| milestone.is_none_or(|milestone| node.milestone == milestone));
            of_mark.map(|node| node.seq).min().unwrap_or(NEVER)
        };
        // Relaxed: the fences of rule 3 order these stores with the counters.
        self.due.store(first(None), Ordering::Relaxed);
        self.due_launched.store(first(Some(Milestone::Launched)), Ordering::Relaxed);
    }
}

const CHUNK: usize = 64;
const CHUNKS: usize = (u16::MAX as usize + 1) / CHUNK;

/// The progress of all streams, by id. Entries never move.
pub struct PointTable {
    chunks: Box<[OnceLock<Box<[StreamState]>>]>,
}

impl PointTable {
    pub fn new() -> PointTable {
        PointTable { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    pub fn stream(&self, stream: StreamId) -> &StreamState {
        let chunk = &self.chunks[stream.index() / CHUNK];
        let made = || (0..CHUNK).map(|_| StreamState::new()).collect();
        &chunk.get_or_init(made)[stream.index() % CHUNK]
    }

    pub(crate) fn reached(&self, point: Point, milestone: Milestone) -> bool {
        point.seq == 0 || self.stream(point.stream).reached(point.seq, milestone)
    }

    pub fn park(&self, point: Point, milestone: Milestone, waiter: Waiter) -> bool {
        point.seq != 0 && self.stream(point.stream).park(point.seq, milestone, waiter)
    }

    /// Wakes the waiters of all streams as [`StreamState::wake_to_recheck`] does.
    pub(crate) fn wake_to_recheck(&self) {
        let streams = self.chunks.iter().filter_map(OnceLock::get).flatten();
        streams.for_each(StreamState::wake_to_recheck);
    }

    pub fn leave(&self, point: Point, milestone: Milestone, waiter: &Waiter) {
        self.stream(point.stream).leave(point.seq, milestone, waiter);
    }
}
