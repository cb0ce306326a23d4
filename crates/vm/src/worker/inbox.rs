//! What reaches a worker from anywhere, and its sleep.
//!
//! # Rules
//! 1. A worker that finds nothing to do sets `asleep`, fences, looks at its queue and inbox once
//!    more, and only then parks.
//! 2. Whoever gives it something does so first, then fences, then looks at `asleep`. Of the two
//!    fences one comes first, so either the worker sees the gift or the giver sees it asleep. The
//!    giver's fence is the light one, since a worker sleeps seldom and is given things all the time.
//! 3. `asleep` is cleared by whoever wakes the worker, so that it is woken once.

use std::fmt;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use millstream_types::{Point, StreamId};

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, Thread, heavy_fence, light_fence, park};

/// Something a worker has to hear of.
#[derive(Debug)]
pub(crate) enum News {
    /// What a held stream waited for has come.
    Resume(StreamId),
    /// The host function that the instruction at a place waited for has returned, or whoever was to
    /// complete it has.
    HostDone(Point, anyhow::Result<()>),
    /// A stream's device may have completed something.
    Device(StreamId),
    /// Stop once there is nothing left to do.
    Stop,
}

/// A worker's inbox.
#[derive(Default)]
pub(crate) struct Inbox {
    asleep: AtomicBool,
    full: AtomicBool,
    mail: Mutex<Mail>,
    arrived: Condvar,
    /// Wakes the worker, or one of the crew whose inbox this is.
    unpark: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("asleep", &self.asleep).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Mail {
    news: Vec<News>,
    /// How many threads wait for `arrived`. To signal it is a call of the system's.
    waiting: usize,
}

impl Inbox {
    /// Names the thread that is to be woken.
    pub(crate) fn owned_by(&self, thread: Thread) {
        self.wakes(move || thread.unpark());
    }

    /// Says how to wake whoever's inbox this is.
    pub(crate) fn wakes(&self, unpark: impl Fn() + Send + Sync + 'static) {
        // Said once, before anybody first sleeps.
        let _ = self.unpark.set(Box::new(unpark));
    }

    pub(crate) fn post(&self, news: News) {
        let waited_for = {
            let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
            mail.news.push(news);
            // Release: pairs with the load of `take`; the lock orders the list itself.
            self.full.store(true, Ordering::Release);
            mail.waiting > 0
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
        self.asleep.load(Ordering::Relaxed) && self.rouse()
    }

    #[cold]
    fn rouse(&self) -> bool {
        let slept = self.asleep.swap(false, Ordering::Relaxed);
        if slept && let Some(unpark) = self.unpark.get() {
            unpark();
        }
        slept
    }

    pub(crate) fn has_news(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Takes all news, into a list that is empty.
    pub(crate) fn take(&self, into: &mut Vec<News>) {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        self.full.store(false, Ordering::Relaxed);
        std::mem::swap(&mut mail.news, into);
    }

    /// Takes the oldest news alone.
    pub(crate) fn take_one(&self) -> Option<News> {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if mail.news.is_empty() { None } else { Some(mail.news.remove(0)) };
        // As in `take`: the lock orders the list.
        self.full.store(!mail.news.is_empty(), Ordering::Relaxed);
        oldest
    }

    /// From now on whoever gives something wakes somebody; returns false, and changes nothing, if
    /// `busy` sees something to do.
    pub(crate) fn fall_asleep(&self, busy: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`.
        // Without the fence a gift might be missed, so there is no sleep.
        if !heavy_fence() || busy() {
            self.asleep.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Whether whoever gives something wakes somebody.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Sleeps until woken, unless `busy` sees something to do.
    pub(crate) fn sleep(&self, busy: impl FnOnce() -> bool) {
        if !self.fall_asleep(busy) {
            return;
        }
        while self.asleep.load(Ordering::Relaxed) {
            park();
        }
    }

    /// Waits for news, for a thread that does not own the inbox's worker. Returns whether there
    /// is any.
    pub(crate) fn wait_for_news(&self, timeout: Duration) -> bool {
        let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        if mail.news.is_empty() {
            mail.waiting += 1;
            let waited = self.arrived.wait_timeout(mail, timeout);
            mail = waited.unwrap_or_else(PoisonError::into_inner).0;
            mail.waiting -= 1;
        }
        !mail.news.is_empty()
    }
}
