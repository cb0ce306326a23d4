//! How far each stream has come, and who waits for it.
//!
//! # Rules
//! 1. A stream's counters are written by the one worker that owns it, those of a pool by whoever has
//!    its crew's lock; they only grow.
//! 2. `completed` is stored with release order after all that the completed instructions did, and
//!    loaded with acquire order: who sees a point reached sees what it did.
//! 3. Lost wake-ups: a waiter enters the list, lowers `due` to what it waits for, fences, and looks
//!    at the counter again. The owner stores the counter, and at its next [`StreamState::flush`]
//!    fences and compares it with `due`. Of two such fences one comes first, so either the waiter
//!    sees the counter or the owner sees the waiter (Dekker's argument).
//! 4. The owner flushes before it sleeps and after a bounded number of instructions, one of which may
//!    last. So between flushes it compares as well, with a light fence, of which the heavy one is on
//!    the side of the waiter: a task makes it when it enters the list, a thread after its first tenth
//!    of a second, a worker that waits for the sake of one of its streams before it sleeps. As long as
//!    that is awake it looks at the counter again now and then.
//! 5. Who gives up waiting leaves the list.

use std::sync::{OnceLock, PoisonError};
use std::task::Waker;

use intrusive_collections::{LinkedList, LinkedListAtomicLink, intrusive_adapter};
use smallvec::SmallVec;

use millstream_types::{Point, StreamId};

use crate::sync::{Arc, AtomicU64, Mutex, Ordering, Thread, fence, heavy_fence, light_fence};
use crate::worker::inbox::{Inbox, Message};

/// Which of a stream's counters is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Milestone {
    /// Handed to the device.
    Launched,
    /// Finished there.
    Completed,
}

/// Who is to be told.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A stream that its worker holds.
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
            Waiter::Task(waker) => waker.wake(),
        }
    }

    /// Whether it is the same who is told. A stream does not leave.
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
    // Nodes used before, so that holding a stream allocates nothing in the steady state.
    free: LinkedList<NodeList>,
}

/// One stream's progress. SingleRank on its cache lines, since its owner writes it all the time.
#[repr(align(128))]
pub(crate) struct StreamState {
    completed: AtomicU64,
    launched: AtomicU64,
    /// The first instruction that somebody waits for, until it is launched or until it completes.
    due: AtomicU64,
    /// The first whose launch somebody waits for.
    due_launched: AtomicU64,
    waiters: Mutex<Waiters>,
}

/// Nobody waits.
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

    /// Whether instruction `seq` has got that far. What completed was launched before.
    pub(crate) fn reached(&self, seq: u64, milestone: Milestone) -> bool {
        self.completed.load(Ordering::Acquire) >= seq
            || (milestone == Milestone::Launched && self.launched.load(Ordering::Acquire) >= seq)
    }

    /// The last completed instruction.
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// The last instruction of which it was published that it is launched and not completed.
    pub(crate) fn launched(&self) -> u64 {
        self.launched.load(Ordering::Acquire)
    }

    /// The owner tells that all up to `seq` have got that far.
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
        // Pairs with the heavy fence of rule 4.
        light_fence();
        if due.load(Ordering::Relaxed) <= seq {
            self.wake_due();
        }
    }

    /// The owner makes sure that nobody waits for what it has published.
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
        // With the lock let go: a woken thread may come straight back.
        for waiter in due {
            waiter.wake();
        }
    }

    /// Has the waiters but for streams look again: what they wait for may never come.
    pub(crate) fn wake_to_recheck(&self) {
        let mut waiters: SmallVec<[Waiter; 4]> = SmallVec::new();
        {
            let guard = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            for node in &guard.held {
                waiters.extend(node.waiter.clone().filter(|w| !matches!(w, Waiter::Stream(..))));
            }
        }
        for waiter in waiters {
            waiter.wake();
        }
    }

    /// Has `waiter` told once instruction `seq` has got that far. Returns false, and forgets the
    /// waiter, if it has already.
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
        // Pairs with the fence in `flush`; the heavy one with that in `publish`, too.
        if rechecks || !heavy_fence() {
            fence(Ordering::SeqCst);
        }
        if !self.reached(seq, milestone) {
            return true;
        }
        // The lock is still ours, so the last of the list is this waiter's node.
        if let Some(mut node) = held.pop_back() {
            node.waiter = None;
            free.push_front(node);
        }
        self.set_due(held);
        false
    }

    /// Has a waiter that [`StreamState::park`] took told no more. It may have been told meanwhile.
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

    /// Notes what is waited for first. Called with the list locked.
    fn set_due(&self, held: &LinkedList<NodeList>) {
        let first = |milestone: Option<Milestone>| {
            let of_mark = held
                .iter()
                .filter(|node| milestone.is_none_or(|milestone| node.milestone == milestone));
            of_mark.map(|node| node.seq).min().unwrap_or(NEVER)
        };
        // Relaxed: the fences of rule 3 order them with the counters.
        self.due.store(first(None), Ordering::Relaxed);
        self.due_launched.store(first(Some(Milestone::Launched)), Ordering::Relaxed);
    }
}

const CHUNK: usize = 64;
const CHUNKS: usize = (u16::MAX as usize + 1) / CHUNK;

/// The progress of all streams, by id. Entries never move.
pub(crate) struct PointTable {
    chunks: Box<[OnceLock<Box<[StreamState]>>]>,
}

impl PointTable {
    pub(crate) fn new() -> PointTable {
        PointTable { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    pub(crate) fn stream(&self, stream: StreamId) -> &StreamState {
        let chunk = &self.chunks[stream.index() / CHUNK];
        let made = || (0..CHUNK).map(|_| StreamState::new()).collect();
        &chunk.get_or_init(made)[stream.index() % CHUNK]
    }

    pub(crate) fn reached(&self, point: Point, milestone: Milestone) -> bool {
        point.seq == 0 || self.stream(point.stream).reached(point.seq, milestone)
    }

    pub(crate) fn park(&self, point: Point, milestone: Milestone, waiter: Waiter) -> bool {
        point.seq != 0 && self.stream(point.stream).park(point.seq, milestone, waiter)
    }

    pub(crate) fn leave(&self, point: Point, milestone: Milestone, waiter: &Waiter) {
        self.stream(point.stream).leave(point.seq, milestone, waiter);
    }
}
