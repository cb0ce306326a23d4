//! Loom models of the event pool: loom runs every order of the handles' steps that the memory model
//! allows. They compile the crate's own file on loom's primitives.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each model uses a part of the file")]

#[path = "../../src/event_pool.rs"]
mod event_pool;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

mod device {
    pub(crate) use millstream_ep::{Device, Event};
}

use event_pool::{EventPool, PooledEvent};
use loom::thread;
use millstream_ep::Backend;
use millstream_ep::sim::{SimBackend, SimConfig};

fn pool() -> EventPool {
    EventPool::new(SimBackend::new(SimConfig::default()).open(0).unwrap())
}

/// A slot returns exactly once, whichever of its handles is dropped last.
#[test]
fn the_last_handle_returns_the_slot() {
    loom::model(|| {
        let pool = pool();
        let first = pool.take().unwrap();
        let second = first.clone();
        let other = thread::spawn(move || drop(second.clone()));
        drop(first);
        other.join().unwrap();
        assert_eq!(pool.in_use(), 0);
        let again = pool.take().unwrap();
        assert_eq!((again.number(), again.generation()), (0, 2));
        let next = pool.take().unwrap();
        assert_eq!(next.number(), 1, "one slot was taken twice");
    });
}

/// One thread takes an event while another returns one: the first gets that slot or a new one.
#[test]
fn take_races_with_return() {
    loom::model(|| {
        let pool = pool();
        let first = pool.take().unwrap();
        let other = thread::spawn(move || drop(first));
        let second = pool.take().unwrap();
        let expected = if second.generation() == 2 { (0, 1) } else { (1, 2) };
        assert_eq!((second.number(), pool.created()), expected);
        other.join().unwrap();
        assert_eq!(pool.in_use(), 1);
    });
}

/// A handle that outlives its pool frees its slot.
#[test]
fn a_handle_is_dropped_while_the_pool_is() {
    loom::model(|| {
        let pool = pool();
        let event: PooledEvent = pool.take().unwrap();
        let native = event.native().clone();
        let other = thread::spawn(move || drop(event));
        drop(pool);
        other.join().unwrap();
        assert_eq!(std::sync::Arc::strong_count(&native), 1, "the slot still lives");
    });
}
