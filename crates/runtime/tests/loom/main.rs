//! Models of the lock-free parts: loom runs every order of their steps that the memory model
//! allows. The files under test are the crate's own, compiled on loom's primitives.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each model uses a part of each file")]

#[path = "../../src/pool/claim_counter.rs"]
mod claim_counter;
#[path = "../../src/sync/inbox.rs"]
mod inbox;
#[path = "../../src/pool/parked.rs"]
mod parked;
#[path = "../../src/sync/points.rs"]
mod points;
#[path = "../../src/tapes/recycled.rs"]
mod recycled;
#[path = "../../src/sync/ring.rs"]
mod ring;
#[path = "../../src/sync/spsc_queue.rs"]
mod spsc_queue;

mod launches;

mod sync {
    pub(crate) use super::inbox;
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex};
    pub(crate) use loom::thread::{Thread, park};

    /// A model has no fence that acts on all threads. A property that holds with a full fence on
    /// both sides holds with the asymmetric pair of `asymmetric_fence.rs`.
    pub(crate) fn light_fence() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy_fence() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    /// Ends at any time.
    pub(crate) fn park_timeout(_: std::time::Duration) {
        loom::thread::yield_now();
    }

    /// Small, so that the models cross the border of a block.
    pub(crate) const BLOCK: usize = 2;

    /// Small, so that the models fill it.
    pub(crate) const RING: usize = 2;
}

use std::time::Duration;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use millstream_types::StreamId;

use claim_counter::ClaimCounter;
use inbox::{Inbox, Message};
use parked::{ParkedWorker, ParkedWorkers};
use points::{Milestone, StreamState, Waiter};
use sync::Arc;

/// Blocks a worker until a point is reached, as a blocked stream of it does.
fn wait_for(state: &StreamState, seq: u64, milestone: Milestone, inbox: &Arc<Inbox>) {
    let to_wake = Waiter::Stream(inbox.clone(), StreamId(0));
    if state.park(seq, milestone, to_wake) {
        while !inbox.has_messages() {
            inbox.park_unless(false, || inbox.has_messages());
        }
        let mut messages = Vec::new();
        inbox.take(&mut messages);
        assert!(matches!(messages[..], [Message::Resume(StreamId(0))]));
    }
    assert!(state.reached(seq, milestone));
}

/// Every item arrives once and in order, over the border of a block.
#[test]
fn a_queue_keeps_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc_queue::queue();
        let taker = thread::spawn(move || {
            let mut next = 0u64;
            while next < 3 {
                match consumer.pop() {
                    Some(item) => {
                        assert_eq!(item, next);
                        next += 1;
                    }
                    None => thread::yield_now(),
                }
            }
        });
        for item in 0..3u64 {
            producer.push(item);
        }
        taker.join().unwrap();
    });
}

/// Items of a ring arrive once and in order, also where its places are used again, and a push into
/// a full ring returns its item.
#[test]
fn a_ring_keeps_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring::ring::<Box<u64>>();
        let taker = thread::spawn(move || {
            let mut next = 0u64;
            while next < 3 {
                match consumer.pop() {
                    Some(item) => {
                        assert_eq!(*item, next);
                        next += 1;
                    }
                    None => thread::yield_now(),
                }
            }
            assert!(consumer.is_empty());
        });
        for item in 0..3u64 {
            let mut item = Box::new(item);
            while let Err(refused) = producer.push(item) {
                item = refused;
                thread::yield_now();
            }
        }
        taker.join().unwrap();
    });
}

/// Items that are left in a ring are dropped once, whichever end goes first.
#[test]
fn items_left_in_a_ring_are_dropped() {
    loom::model(|| {
        let item = std::sync::Arc::new(());
        let (mut producer, mut consumer) = ring::ring();
        let own = item.clone();
        let pusher = thread::spawn(move || {
            assert!(producer.push(own.clone()).is_ok());
            assert!(producer.push(own).is_ok());
        });
        drop(consumer.pop());
        drop(consumer);
        pusher.join().unwrap();
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
    });
}

/// A worker that parks during a submission does not sleep on it.
#[test]
fn a_submission_wakes_the_worker() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc_queue::queue();
        let inbox = Arc::new(Inbox::default());
        let own = inbox.clone();
        let worker = thread::spawn(move || {
            own.set_thread(thread::current());
            while consumer.pop().is_none() {
                own.park_unless(false, || !consumer.is_empty());
            }
        });
        producer.push(1u64);
        inbox.wake();
        worker.join().unwrap();
    });
}

/// A worker that has parked for a limited time, as beside a device without notifications, and then
/// parks without a limit, misses no submission in between.
#[test]
fn a_limited_park_loses_no_submission() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc_queue::queue();
        let inbox = Arc::new(Inbox::default());
        let own = inbox.clone();
        let worker = thread::spawn(move || {
            own.set_thread(thread::current());
            own.park_at_most(Duration::ZERO, || !consumer.is_empty());
            while consumer.pop().is_none() {
                own.park_unless(false, || !consumer.is_empty());
            }
        });
        producer.push(1u64);
        inbox.wake();
        worker.join().unwrap();
    });
}

/// A worker of a pool that enters the list of parked workers is woken, even if the waker is faster
/// than its park.
#[test]
fn a_parked_worker_of_a_pool_is_woken() {
    loom::model(|| {
        let parked = Arc::new(ParkedWorkers::default());
        let has_work = Arc::new(sync::Mutex::new(false));
        let (own, work) = (parked.clone(), has_work.clone());
        let worker = thread::spawn(move || {
            let parker = Arc::new(ParkedWorker::new(thread::current()));
            let has_work = work.lock().unwrap();
            if !*has_work {
                own.enter(&parker);
                drop(has_work);
                // Limited first, as the monitor parks.
                let _ = parker.park(Some(Duration::ZERO)) || parker.park(None);
                assert!(*work.lock().unwrap());
            }
        });
        *has_work.lock().unwrap() = true;
        parked.wake_one();
        worker.join().unwrap();
        assert!(!parked.has_parked());
    });
}

/// A worker with a task is never taken for one that waits for other ranks, not even while it is
/// about to park.
#[test]
fn a_worker_with_a_task_is_not_quiet() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc_queue::queue();
        let inbox = Arc::new(Inbox::default());
        let own = inbox.clone();
        let ran = Arc::new(AtomicBool::new(false));
        let runs = ran.clone();
        let worker = thread::spawn(move || {
            own.set_thread(thread::current());
            while consumer.pop().is_none() {
                own.park_unless(true, || !consumer.is_empty());
            }
            runs.store(true, Ordering::Relaxed);
        });
        producer.push(1u64);
        inbox.wake();
        if inbox.quiet_since().is_some() {
            assert!(ran.load(Ordering::Relaxed), "a task was left");
        }
        worker.join().unwrap();
    });
}

/// A waiter that parks while the point is published is woken, or sees the point by itself.
#[test]
fn a_published_point_reaches_its_waiter() {
    loom::model(|| {
        let state = Arc::new(StreamState::new());
        let inbox = Arc::new(Inbox::default());
        let (owner, waiting) = (state.clone(), inbox.clone());
        let waiter = thread::spawn(move || {
            waiting.set_thread(thread::current());
            wait_for(&state, 2, Milestone::Completed, &waiting);
        });
        owner.publish(1, Milestone::Completed);
        owner.publish(2, Milestone::Completed);
        // The hint in `publish` may miss a waiter; this must not.
        owner.flush();
        waiter.join().unwrap();
    });
}

/// A thread that waits while the point is published does not park for long, even if the owner does
/// not flush.
#[test]
fn a_thread_does_not_park_on_a_reached_point() {
    loom::model(|| {
        let state = Arc::new(StreamState::new());
        let owner = state.clone();
        let waiter = thread::spawn(move || {
            let to_wake = Waiter::Thread(thread::current());
            if state.park(1, Milestone::Completed, to_wake) {
                // After a short sleep.
                assert!(sync::heavy_fence());
                while !state.reached(1, Milestone::Completed) {
                    thread::park();
                }
            }
        });
        owner.publish(1, Milestone::Completed);
        waiter.join().unwrap();
    });
}

/// Nor does a worker park on a point that another has published and not flushed.
#[test]
fn a_worker_does_not_park_on_a_reached_point() {
    loom::model(|| {
        let state = Arc::new(StreamState::new());
        let owner = state.clone();
        let worker = thread::spawn(move || {
            let inbox = Arc::new(Inbox::default());
            inbox.set_thread(thread::current());
            let to_wake = Waiter::Stream(inbox.clone(), StreamId(0));
            if state.park(1, Milestone::Completed, to_wake) {
                let come = || inbox.has_messages() || state.reached(1, Milestone::Completed);
                while !come() {
                    inbox.park_unless(false, come);
                }
            }
        });
        owner.publish(1, Milestone::Completed);
        worker.join().unwrap();
    });
}

/// A worker claims three calls, and another takes over the calls that it has not begun: each call
/// is run once, and the second worker sees the effects of the calls before.
#[test]
fn claimed_calls_are_run_once() {
    loom::model(|| {
        let claim = Arc::new(ClaimCounter::default());
        // How many calls are the worker's: protected by the pool's lock.
        let left = Arc::new(sync::Mutex::new(3));
        let ran = Arc::new(loom::cell::UnsafeCell::new(0u64));
        let base = claim.take();
        let worker = {
            let (claim, left, ran) = (claim.clone(), left.clone(), ran.clone());
            thread::spawn(move || {
                let mut count = 0;
                loop {
                    // A call has an effect.
                    if count == 0 {
                        // SAFETY: loom checks that no other thread uses it meanwhile.
                        ran.with_mut(|ran| unsafe { *ran = 1 });
                    }
                    count += 1;
                    if count == 3
                        || !(claim.begin(base + 1 + count) || count < *left.lock().unwrap())
                    {
                        return count;
                    }
                }
            })
        };
        let taken = {
            let mut left = left.lock().unwrap();
            let begun = claim.stop().unwrap() - base;
            if begun > 1 {
                // The first call has been run, and its effect is seen.
                // SAFETY: as above.
                ran.with(|ran| assert_eq!(unsafe { *ran }, 1));
            }
            *left = begun;
            3 - begun
        };
        assert_eq!(worker.join().unwrap() + taken, 3);
    });
}
