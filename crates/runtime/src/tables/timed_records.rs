//! The times of records that the program compares.
//!
//! # Rules
//! 1. A timed record is added, by its point, before the engine assigns the point. So the worker
//!    finds it when it makes the record, and no record without a time is looked up while there are
//!    none with one.
//! 2. On a device that completes commands later, the worker records an event that keeps its time by
//!    the device's clock, where the device has one.
//! 3. In any case a waiter that is registered for the point notes the host's time when the worker
//!    completes the record. No other thread reads a clock.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::task::Wake;
use std::time::Instant;

use millstream_ep::PooledEvent;
use millstream_types::Point;

use crate::sync::{AtomicUsize, Mutex, OnceLock, Ordering};

/// The time of a record.
#[derive(Default)]
pub struct RecordTime {
    /// When the worker observed the completion.
    pub observed: OnceLock<Instant>,
    /// The device's event, kept from its next record.
    pub native: OnceLock<PooledEvent>,
}

impl Wake for RecordTime {
    fn wake(self: Arc<Self>) {
        // A point completes once.
        let _ = self.observed.set(Instant::now());
    }
}

/// The timed records that no worker has made.
#[derive(Default)]
pub struct TimedRecords {
    count: AtomicUsize,
    records: Mutex<HashMap<Point, Arc<RecordTime>>>,
}

impl TimedRecords {
    pub fn add(&self, at: Point, time: Arc<RecordTime>) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(at, time);
        // Relaxed: the queue to the worker orders it before the record.
        self.count.store(records.len(), Ordering::Relaxed);
    }

    pub fn take(&self, at: Point) -> Option<Arc<RecordTime>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = records.remove(&at);
        self.count.store(records.len(), Ordering::Relaxed);
        taken
    }
}
