//! The pool of events, from outside.

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
fn a_slot_comes_back_with_its_last_clone() {
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
fn the_steady_state_makes_no_event() {
    let pool = pool();
    for _ in 0..1000 {
        let held: Vec<_> = (0..4).map(|_| pool.take().unwrap()).collect();
        drop(held);
    }
    assert_eq!((pool.created(), pool.in_use()), (4, 0));
}

/// A device without events, to see the error pass through.
#[test]
fn a_refusal_takes_nothing() {
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

/// Handles travel between threads and are dropped wherever they end. No slot may be lost, and no
/// slot may be handed out while a handle of it lives.
#[test]
fn clones_dropped_on_many_threads_return_the_slot_once() {
    const ROUNDS: usize = 2000;
    const DROPPERS: usize = 3;
    // Two takers, each with an event in hand, and what the droppers hold or have before them.
    const MOST: usize = 2 + DROPPERS * (8 + 1);
    let pool = pool();
    let handles: [AtomicUsize; MOST] = std::array::from_fn(|_| AtomicUsize::new(0));
    let give_up = |event: PooledEvent| {
        handles[event.number() as usize].fetch_sub(1, Ordering::SeqCst);
        drop(event);
    };
    thread::scope(|scope| {
        let mut senders = Vec::new();
        for _ in 0..DROPPERS {
            let (send, receive) = mpsc::sync_channel::<PooledEvent>(8);
            senders.push(send);
            scope.spawn(move || receive.into_iter().for_each(give_up));
        }
        for _ in 0..2 {
            let (pool, handles, senders) = (&pool, &handles, senders.clone());
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let event = pool.take().unwrap();
                    let before =
                        handles[event.number() as usize].swap(DROPPERS + 1, Ordering::SeqCst);
                    assert_eq!(before, 0, "{event:?} is handed out while handles of it live");
                    for send in &senders {
                        send.send(event.clone()).unwrap();
                    }
                    give_up(event);
                }
            });
        }
        drop(senders);
    });
    assert_eq!(pool.in_use(), 0, "every slot came back");
    let all: Vec<_> = (0..pool.created()).map(|_| pool.take().unwrap()).collect();
    assert_eq!(pool.created(), all.len(), "a slot was lost");
    let slots: HashSet<u32> = all.iter().map(PooledEvent::number).collect();
    assert_eq!(slots.len(), all.len(), "a slot stands in the list twice");
}
