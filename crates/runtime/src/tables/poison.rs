//! Poisoned storages, and why they are poisoned.
//!
//! Errors travel with the data: the outputs of a failed instruction are poisoned, a reader of
//! poison is skipped and its outputs are poisoned, a full overwrite heals. Order alone carries no
//! poison. Workers access the map in the order of the data flow, since each instruction runs after
//! the waits that it needs.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use millstream_types::{Failure, Point, StreamId};

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

#[derive(Debug, Default)]
pub struct Poison {
    /// How many storages are poisoned. Every instruction reads it, and the map only if it is not
    /// zero. Relaxed: a reader of poisoned data comes after a published point of the poisoning
    /// instruction, which orders this too.
    count: AtomicUsize,
    map: Mutex<HashMap<u64, Arc<Failure>>>,
}

impl Poison {
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub fn get(&self, storage: u64) -> Option<Arc<Failure>> {
        if !self.any() {
            return None;
        }
        self.map.lock().unwrap_or_else(PoisonError::into_inner).get(&storage).cloned()
    }

    pub(crate) fn set(&self, storage: u64, failure: &Arc<Failure>) {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert(storage, failure.clone());
        self.count.store(map.len(), Ordering::Relaxed);
    }

    pub(crate) fn heal(&self, storage: u64) {
        if !self.any() {
            return;
        }
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.remove(&storage);
        self.count.store(map.len(), Ordering::Relaxed);
    }

    /// Drops the entries of all storages that `lives` rejects. Called when nothing is in flight.
    pub fn retain(&self, lives: impl Fn(u64) -> bool) {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|&storage, _| lives(storage));
        self.count.store(map.len(), Ordering::Relaxed);
    }
}

/// How many failures a machine keeps.
const KEPT: usize = 64;

/// The failures since they were last cleared.
#[derive(Debug, Default)]
pub struct FailureLog(Mutex<Failures>);

#[derive(Debug, Default)]
struct Failures {
    /// The first ones, oldest first.
    kept: Vec<Arc<Failure>>,
    /// How many there were.
    count: u64,
    /// How many there were before failures were last cleared.
    before: u64,
    newest: Option<Arc<Failure>>,
    /// For each stream, the first instruction that failed or was skipped, and why. Every stream has
    /// an entry of its own, so that its waiters get the error however many failed elsewhere.
    first: HashMap<StreamId, (u64, Arc<Failure>)>,
    /// For each reused stream, its last instruction before its present handles.
    begins: HashMap<StreamId, u64>,
}

impl FailureLog {
    fn lock(&self) -> MutexGuard<'_, Failures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, failure: &Arc<Failure>) {
        let mut log = self.lock();
        log.count += 1;
        log.newest = Some(failure.clone());
        if log.kept.len() < KEPT {
            log.kept.push(failure.clone());
        }
    }

    /// Notes that the instruction at `point` failed, or was skipped because of `cause`.
    pub(crate) fn note(&self, point: Point, cause: &Arc<Failure>) {
        let mut log = self.lock();
        if log.begins.get(&point.stream).is_some_and(|begin| point.seq <= *begin) {
            return;
        }
        let first = log.first.entry(point.stream).or_insert_with(|| (point.seq, cause.clone()));
        if point.seq < first.0 {
            *first = (point.seq, cause.clone());
        }
    }

    /// Notes that a stream whose last instruction is at `tail` has new handles, which report no
    /// failure of earlier instructions.
    pub fn begin(&self, tail: Point) {
        let mut log = self.lock();
        log.first.remove(&tail.stream);
        log.begins.insert(tail.stream, tail.seq);
    }

    /// Returns why an instruction on the stream, up to the point, failed or was skipped.
    pub fn up_to(&self, point: Point) -> Option<Arc<Failure>> {
        let log = self.lock();
        log.first.get(&point.stream).filter(|(seq, _)| *seq <= point.seq).map(|(_, f)| f.clone())
    }

    pub fn all(&self) -> (Vec<Arc<Failure>>, u64) {
        let log = self.lock();
        (log.kept.clone(), log.count)
    }

    pub fn first(&self) -> Option<Arc<Failure>> {
        self.lock().kept.first().cloned()
    }

    /// Returns how many failures there ever were, and the first after so many; if that is not kept,
    /// the newest.
    pub fn since(&self, seen: u64) -> (u64, Option<Arc<Failure>>) {
        let log = self.lock();
        let all = log.before + log.count;
        let missed = seen.max(log.before) - log.before;
        let first = (missed < log.count)
            .then(|| log.kept.get(missed as usize).or(log.newest.as_ref()).cloned());
        (all, first.flatten())
    }

    pub fn clear(&self) {
        let mut log = self.lock();
        let before = log.before + log.count;
        let begins = std::mem::take(&mut log.begins);
        *log = Failures { before, begins, ..Failures::default() };
    }
}
