//! Tests of the event pool through its public functions.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::device::Backend;
use crate::event_pool::{EventPool, PooledEvent};
use crate::sim::{SimBackend, SimConfig};

fn pool() -> EventPool {
    EventPool::new(SimBackend::new(SimConfig::default()).open(0).unwrap())
}

#[test]
fn a_slot_is_used_again_with_a_new_generation() {
    let pool = pool();
    let first = pool.take().unwrap();
    let native = first.native().clone();
    assert_eq!((first.number(), first.generation()), (0, 1));
    drop(first);
    let again = pool.take().unwrap();
    assert!(Arc::ptr_eq(&native, again.native()));
    assert_eq!((again.number(), again.generation()), (0, 2));
    assert_eq!((pool.created(), pool.in_use()), (1, 1));
}

#[test]
fn a_slot_returns_with_its_last_clone() {
    let pool = pool();
    let event = pool.take().unwrap();
    let clones = [event.clone(), event.clone()];
    drop(event);
    assert_eq!(pool.in_use(), 1);
    let other = pool.take().unwrap();
    assert_eq!(other.number(), 1, "slot 0 still has handles");
    drop(clones);
    assert_eq!((pool.created(), pool.in_use()), (2, 1));
}

#[test]
fn the_steady_state_creates_no_event() {
    let pool = pool();
    for _ in 0..1000 {
        let held: Vec<_> = (0..4).map(|_| pool.take().unwrap()).collect();
        drop(held);
    }
    assert_eq!((pool.created(), pool.in_use()), (4, 0));
}

/// The device has no events, so `take` returns its error.
#[test]
fn a_refused_event_counts_nowhere() {
    let pool = EventPool::new(crate::cpu::CpuBackend::new().open(0).unwrap());
    assert!(pool.take().is_err());
    assert_eq!((pool.created(), pool.in_use()), (0, 0));
}

#[test]
fn events_outlive_their_pool() {
    let backend = SimBackend::new(SimConfig::default());
    let pool = EventPool::new(backend.open(0).unwrap());
    let (kept, freed) = (pool.take().unwrap(), pool.take().unwrap());
    let (native, gone) = (Arc::downgrade(kept.native()), Arc::downgrade(freed.native()));
    drop(freed);
    assert!(gone.upgrade().is_some(), "the pool keeps a free event");
    drop(pool);
    assert!(gone.upgrade().is_none(), "a dropped pool frees its events");
    assert!(kept.native().query().unwrap());
    drop(kept);
    assert!(native.upgrade().is_none());
}

/// Several threads drop clones of the same events. No slot may be lost, and no slot may be taken
/// again while it has a handle.
#[test]
fn clones_dropped_on_many_threads_return_the_slot_once() {
    const ROUNDS: usize = 2000;
    const DROPPERS: usize = 3;
    // Each of the two takers holds one event; each dropper holds one and has eight in its channel.
    const MOST: usize = 2 + DROPPERS * (8 + 1);
    let pool = pool();
    let handles: [AtomicUsize; MOST] = std::array::from_fn(|_| AtomicUsize::new(0));
    let release = |event: PooledEvent| {
        handles[event.number() as usize].fetch_sub(1, Ordering::SeqCst);
        drop(event);
    };
    thread::scope(|scope| {
        let mut senders = Vec::new();
        for _ in 0..DROPPERS {
            let (send, receive) = mpsc::sync_channel::<PooledEvent>(8);
            senders.push(send);
            scope.spawn(move || receive.into_iter().for_each(release));
        }
        for _ in 0..2 {
            let (pool, handles, senders) = (&pool, &handles, senders.clone());
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let event = pool.take().unwrap();
                    let before =
                        handles[event.number() as usize].swap(DROPPERS + 1, Ordering::SeqCst);
                    assert_eq!(before, 0, "{event:?} was taken while it had handles");
                    for send in &senders {
                        send.send(event.clone()).unwrap();
                    }
                    release(event);
                }
            });
        }
        drop(senders);
    });
    assert_eq!(pool.in_use(), 0, "every slot has returned");
    let all: Vec<_> = (0..pool.created()).map(|_| pool.take().unwrap()).collect();
    assert_eq!(pool.created(), all.len(), "a slot was lost");
    let slots: HashSet<u32> = all.iter().map(PooledEvent::number).collect();
    assert_eq!(slots.len(), all.len(), "a slot was in the free list twice");
}
