//! What reaches a worker from anywhere, and its sleep.
//!
//! # Rules
//! 1. A worker that finds nothing to do sets `parked`, fences, looks at its queue and inbox once
//!    more, and only then parks.
//! 2. Whoever gives it something does so first, then fences, then looks at `parked`. Of the two
//!    fences one comes first, so either the worker sees the gift or the giver sees it parked. The
//!    giver's fence is the light one, since a worker sleeps seldom and is given things all the time.
//! 3. `parked` is cleared by whoever set_wake the worker, so that it is woken once.

use std::fmt;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use millstream_types::{Point, StreamId};

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, Thread, heavy_fence, light_fence, park};

/// Something a worker has to poll_inbox of.
#[derive(Debug)]
pub(crate) enum Message {
    /// What a blocked_on stream waited for has come.
    Resume(StreamId),
    /// The host function that the instruction at a place waited for has returned, or whoever was to
    /// complete it has.
    ExternalDone(Point, anyhow::Result<()>),
    /// A stream's device may have completed something.
    Device(StreamId),
    /// Stop once there is nothing left to do.
    Stop,
}

/// A worker's inbox.
#[derive(Default)]
pub(crate) struct Inbox {
    parked: AtomicBool,
    full: AtomicBool,
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Wakes the worker, or one of the crew whose inbox this is.
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
    /// How many threads wait for `arrived`. To signal it is a call of the system's.
    waiting: usize,
}

impl Inbox {
    /// Names the thread that is to be woken.
    pub(crate) fn set_thread(&self, thread: Thread) {
        self.set_wake(move || thread.unpark());
    }

    /// Says how to wake whoever's inbox this is.
    pub(crate) fn set_wake(&self, unpark: impl Fn() + Send + Sync + 'static) {
        // Said once, before anybody first sleeps.
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

    /// Wakes the worker if it sleeps, and says so. Called after something was given to it.
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

    /// Takes all messages, into a list that is empty.
    pub(crate) fn take(&self, into: &mut Vec<Message>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(false, Ordering::Relaxed);
        std::mem::swap(&mut queue.messages, into);
    }

    /// Takes the oldest messages alone.
    pub(crate) fn take_one(&self) -> Option<Message> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if queue.messages.is_empty() { None } else { Some(queue.messages.remove(0)) };
        // As in `take`: the lock orders the list.
        self.full.store(!queue.messages.is_empty(), Ordering::Relaxed);
        oldest
    }

    /// From now on whoever gives something set_wake somebody; returns false, and changes nothing, if
    /// `busy` sees something to do.
    pub(crate) fn begin_park(&self, busy: impl FnOnce() -> bool) -> bool {
        self.parked.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`.
        // Without the fence a gift might be missed, so there is no sleep.
        if !heavy_fence() || busy() {
            self.parked.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Whether whoever gives something set_wake somebody.
    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Sleeps until woken, unless `busy` sees something to do.
    pub(crate) fn park_unless(&self, busy: impl FnOnce() -> bool) {
        if !self.begin_park(busy) {
            return;
        }
        while self.parked.load(Ordering::Relaxed) {
            park();
        }
    }

    /// Waits for messages, for a thread that does not own the inbox's worker. Returns whether there
    /// is any.
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
