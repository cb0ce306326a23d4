//! Messages to a worker from any thread, and the parking of the worker.
//!
//! # Rules
//! 1. A worker without work sets `parked`, fences, checks its queue and inbox once more, and only
//!    then parks.
//! 2. A thread that submits does so first, then fences, then reads `parked`. One of the two fences
//!    comes first, so either the worker sees the submission or the submitter sees the worker
//!    parked. The submitter executes the cheap half of the asymmetric fence, since workers park
//!    rarely and receive all the time.
//! 3. The thread that wakes the worker clears `parked`, so that it is woken once.

use std::fmt;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use millstream_types::{Point, StreamId};

use crate::sync::{
    AtomicBool, AtomicU64, Condvar, Mutex, Ordering, Thread, heavy_fence, light_fence, park,
    park_timeout,
};

/// A message to a worker.
#[derive(Debug)]
pub(crate) enum Message {
    /// A point that a blocked stream waits for was reached.
    Resume(StreamId),
    /// The external completion of the instruction at a point: a host function has returned, or the
    /// holder of a completion token has completed the call.
    ExternalDone(Point, anyhow::Result<()>),
    /// The device of a stream may have completed commands.
    Device(StreamId),
    /// Stop once nothing is left to do.
    Stop,
}

/// A worker's inbox.
#[derive(Default)]
pub struct Inbox {
    parked: AtomicBool,
    /// How often the owner was about to park, and whether it has then parked with nothing that
    /// could run without a message from outside of the machine.
    parks: AtomicU64,
    quiet: AtomicBool,
    full: AtomicBool,
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Wakes the worker, or one worker of the group that shares this inbox.
    unpark: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("parked", &self.parked).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Queue {
    messages: Vec<Message>,
    /// How many threads wait for `arrived`. A signal is a system call.
    waiting: usize,
}

impl Inbox {
    /// Sets the thread to wake.
    pub(crate) fn set_thread(&self, thread: Thread) {
        self.set_wake(move || thread.unpark());
    }

    /// Sets the function that wakes the owner.
    pub(crate) fn set_wake(&self, unpark: impl Fn() + Send + Sync + 'static) {
        // Set once, before the owner first parks.
        let _ = self.unpark.set(Box::new(unpark));
    }

    pub(crate) fn post(&self, messages: Message) {
        let waited_for = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.messages.push(messages);
            // Release: pairs with the load of `take`; the lock orders the list itself.
            self.full.store(true, Ordering::Release);
            queue.waiting > 0
        };
        if waited_for {
            self.arrived.notify_all();
        }
        self.wake();
    }

    /// Wakes the worker if it is parked, and returns whether it was. Called after a submission to
    /// it.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        light_fence();
        self.parked.load(Ordering::Relaxed) && self.unpark_owner()
    }

    #[cold]
    fn unpark_owner(&self) -> bool {
        let slept = self.parked.swap(false, Ordering::Relaxed);
        if slept && let Some(unpark) = self.unpark.get() {
            unpark();
        }
        slept
    }

    pub(crate) fn has_messages(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Takes all messages, into an empty list.
    pub(crate) fn take(&self, into: &mut Vec<Message>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(false, Ordering::Relaxed);
        std::mem::swap(&mut queue.messages, into);
    }

    /// Takes the oldest message.
    pub(crate) fn take_one(&self) -> Option<Message> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if queue.messages.is_empty() { None } else { Some(queue.messages.remove(0)) };
        // As in `take`: the lock orders the list.
        self.full.store(!queue.messages.is_empty(), Ordering::Relaxed);
        oldest
    }

    /// Returns the number of the owner's newest park if it is parked, has no message, and was quiet
    /// then. If all inboxes of a machine return the same numbers twice, none was woken in between.
    pub(crate) fn quiet_since(&self) -> Option<u64> {
        // Acquire: pairs with `begin_park`. What is read below is of this park, or newer.
        let parks = self.parks.load(Ordering::Acquire);
        let is_quiet = self.parked.load(Ordering::Acquire)
            // Acquire: pairs with the end of `begin_park`. A thread that sees that the owner is
            // quiet sees the wake-ups that the owner has sent before.
            && self.quiet.load(Ordering::Acquire)
            && !self.has_messages()
            && self.parks.load(Ordering::Relaxed) == parks;
        is_quiet.then_some(parks)
    }

    /// Announces that the owner is about to park: from now on submitters wake it. Returns false if
    /// `busy` finds work. `quiet` tells whether the owner could only be woken by other ranks or by
    /// the program.
    pub(crate) fn begin_park(&self, quiet: bool, busy: impl FnOnce() -> bool) -> bool {
        // Until `busy` has found nothing, there may be a task that nobody has woken the owner for.
        self.quiet.store(false, Ordering::Relaxed);
        // Release: pairs with the first load of `quiet_since`.
        self.parks.fetch_add(1, Ordering::Release);
        // Release: pairs with the second.
        self.parked.store(true, Ordering::Release);
        // Pairs with the fence in `wake`. Without the fence a submission might be missed, so the
        // owner does not park.
        if !heavy_fence() || busy() {
            self.parked.store(false, Ordering::Relaxed);
            return false;
        }
        // Release: pairs with the third.
        self.quiet.store(quiet, Ordering::Release);
        true
    }

    /// Returns whether submitters wake the owner.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Parks until woken, unless `busy` finds work. `quiet` is that of [`Inbox::begin_park`].
    pub(crate) fn park_unless(&self, quiet: bool, busy: impl FnOnce() -> bool) {
        if !self.begin_park(quiet, busy) {
            return;
        }
        while self.parked.load(Ordering::Relaxed) {
            park();
        }
    }

    /// Parks until woken, or for `limit`, unless `busy` finds work. The owner is not quiet.
    pub(crate) fn park_at_most(&self, limit: Duration, busy: impl FnOnce() -> bool) {
        if self.begin_park(false, busy) {
            // After a spurious wake-up the owner checks a little early, which does no harm.
            park_timeout(limit);
            // A waker that still finds it set unparks a running thread: the next park ends early.
            self.parked.store(false, Ordering::Relaxed);
        }
    }

    /// Waits for a message, on a thread that is not the worker's. Returns whether there is any.
    pub(crate) fn wait_for_messages(&self, timeout: Duration) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.messages.is_empty() {
            queue.waiting += 1;
            let waited = self.arrived.wait_timeout(queue, timeout);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.waiting -= 1;
        }
        !queue.messages.is_empty()
    }
}
