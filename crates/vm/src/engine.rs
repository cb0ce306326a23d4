//! What all workers of a machine share.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use dashmap::DashMap;

use millstream_ep::PooledEvent;
use millstream_instructions::Instruction;
use millstream_kernels::{KernelRegistry, Threads};
use millstream_ops::OpRegistry;
use millstream_stream_policy::{ArenaMemory, PolicyTable};
use millstream_types::{Cause, EventId, FailedOperand, Failure, StreamKey};

use crate::host::{HostTable, HostWorkers};
use crate::points::PointTable;
use crate::poison::{FailureLog, Poison};
use crate::slots::{CallSlot, Slots, TensorSlot};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};

/// Where the ranks of a program meet.
pub trait Rendezvous: Send + Sync {
    /// Returns once every rank has come. Called on a host worker, which may be held.
    ///
    /// # Errors
    /// A rank will not come.
    fn meet(&self) -> anyhow::Result<()>;
}

/// The meeting of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Rendezvous for Alone {
    fn meet(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The tables of a machine that its workers use. No lock here is held while a kernel runs.
pub(crate) struct Engine {
    /// A number that no other machine of the process has.
    pub(crate) machine: u64,
    pub(crate) points: PointTable,
    pub(crate) slots: Slots<TensorSlot>,
    /// Of each tensor the first of its storage, whose slot may be another's by now: two storages may
    /// have the same.
    pub(crate) homes: Slots<u32>,
    /// The calls that are made many times.
    pub(crate) calls: Slots<CallSlot>,
    pub(crate) poison: Poison,
    pub(crate) failures: FailureLog,
    pub(crate) host: HostTable,
    pub(crate) host_workers: HostWorkers,
    pub(crate) policies: Arc<PolicyTable>,
    pub(crate) memory: Arc<ArenaMemory>,
    pub(crate) ops: Arc<OpRegistry>,
    pub(crate) kernels: KernelRegistry,
    /// The native events behind event slots, set by records.
    pub(crate) events: DashMap<EventId, PooledEvent>,
    pub(crate) threads: Threads,
    pub(crate) ranks: Arc<dyn Rendezvous>,
    pub(crate) backlog: Backlog,
    /// Whether a call was ever given a priority.
    pub(crate) urgent: AtomicBool,
}

impl Engine {
    /// An instruction's failure, with all that the program may want to know.
    pub(crate) fn failure(
        &self,
        instruction: &Instruction,
        stream: &StreamKey,
        cause: Cause,
        message: String,
    ) -> Arc<Failure> {
        let body = &instruction.body;
        let operand = |o: &millstream_instructions::Operand| {
            // SAFETY: whoever reports a failure is running the instruction, which names these.
            let slot = unsafe { self.slots.get(o.tensor.index()) }?;
            Some(FailedOperand {
                tensor: o.tensor.to_string(),
                access: o.access,
                dtype: slot.spec.dtype,
                shape: slot.spec.shape().into(),
            })
        };
        let op = if let millstream_instructions::Body::OpCall { op, .. } = body {
            self.ops.get(*op)
        } else {
            None
        };
        let failure = Arc::new(Failure {
            cause,
            message,
            instruction: body.kind().name(),
            op: op.map(|o| o.name().to_owned()),
            operands: body.operands().iter().filter_map(operand).collect(),
            stream: stream.to_string(),
            seq: body.at().map_or(0, |p| p.seq),
            origin: instruction.origin.clone(),
        });
        self.failures.add(&failure);
        failure
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// How much has been emitted and not finished, and the wait for less. What the emission writes and
/// what the workers write lie on cache lines of their own.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    emission: Given,
    workers: Finished,
    lock: Mutex<()>,
    less: Condvar,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Given {
    given: AtomicU64,
    /// As long as fewer than this were given, there is room without another look at what was
    /// finished.
    room: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Finished {
    finished: AtomicU64,
    /// How many threads wait.
    waiting: AtomicUsize,
}

impl Backlog {
    /// The emission has given one more. Called under its lock.
    pub(crate) fn give(&self) {
        let given = &self.emission.given;
        // Relaxed: the lock orders the writers, and readers only want a rough figure.
        given.store(given.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether fewer than `watermark` are pending.
    pub(crate) fn has_room(&self, watermark: u64) -> bool {
        let Given { given, room } = &self.emission;
        // Relaxed: what was finished only grows, so an old bound is a safe one.
        let given = given.load(Ordering::Relaxed);
        if given < room.load(Ordering::Relaxed) {
            return true;
        }
        let bound = self.workers.finished.load(Ordering::Relaxed).saturating_add(watermark);
        room.store(bound, Ordering::Relaxed);
        given < bound
    }

    /// How many have been given and not finished.
    pub(crate) fn pending(&self) -> u64 {
        let finished = self.workers.finished.load(Ordering::SeqCst);
        self.emission.given.load(Ordering::Relaxed).saturating_sub(finished)
    }

    /// A worker has finished `count` more.
    pub(crate) fn finish(&self, count: u64) {
        let Finished { finished, waiting } = &self.workers;
        // SeqCst with the addition in `wait`: either that sees the count, or this sees the waiter.
        finished.fetch_add(count, Ordering::SeqCst);
        if waiting.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.less.notify_all();
        }
    }

    /// Waits until at most `most` are pending. Returns false if that takes longer than `timeout`.
    pub(crate) fn wait(&self, most: u64, timeout: Duration) -> bool {
        let start = Instant::now();
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.workers.waiting.fetch_add(1, Ordering::SeqCst);
        let enough = loop {
            if self.pending() <= most {
                break true;
            }
            let Some(left) = timeout.checked_sub(start.elapsed()) else { break false };
            guard = self.less.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        self.workers.waiting.fetch_sub(1, Ordering::SeqCst);
        enough
    }
}
