//! The queue, on threads. Its models stand in `tests/loom`.

use std::sync::Arc;

use crate::sync::BLOCK;
use crate::sync::spsc_queue::{SPARE, queue};

#[test]
fn order_and_reuse_of_blocks() {
    let (mut producer, mut consumer) = queue();
    for round in 0..5u64 {
        for k in 0..1000 {
            producer.push(Box::new(round * 1000 + k));
        }
        for k in 0..1000 {
            assert_eq!(consumer.pop().as_deref(), Some(&(round * 1000 + k)));
        }
        assert!(consumer.pop().is_none() && consumer.is_empty());
    }
    let spare = consumer.spare();
    assert!((1..=SPARE).contains(&spare), "{spare}");
    drop(consumer);
}

#[test]
fn items_left_behind_are_dropped() {
    let item = Arc::new(());
    let (mut producer, consumer) = queue();
    for _ in 0..300 {
        producer.push(item.clone());
    }
    drop(consumer);
    drop(producer);
    assert_eq!(Arc::strong_count(&item), 1);
}

/// A worker that hangs, or whose machine goes while it works, outlives the producer.
#[test]
fn either_end_may_go_first() {
    let item = Arc::new(());
    for left in [0, 1, BLOCK, BLOCK + 1, 300] {
        let (mut producer, mut consumer) = queue();
        for _ in 0..left {
            producer.push(item.clone());
        }
        drop(producer);
        assert_eq!(consumer.pop().is_some(), left > 0);
        drop(consumer);
        assert_eq!(Arc::strong_count(&item), 1);
    }
    let (mut producer, consumer) = queue();
    drop(consumer);
    for _ in 0..300 {
        producer.push(item.clone());
    }
    drop(producer);
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn two_threads() {
    let (mut producer, mut consumer) = queue();
    let taker = std::thread::spawn(move || {
        let mut next = 0u64;
        while next < 100_000 {
            match consumer.pop() {
                Some(item) => {
                    assert_eq!(item, next);
                    next += 1;
                }
                None => std::thread::yield_now(),
            }
        }
    });
    for k in 0..100_000u64 {
        producer.push(k);
    }
    taker.join().unwrap();
}
