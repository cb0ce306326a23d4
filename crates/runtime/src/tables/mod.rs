//! The state that all workers of a machine share.

pub mod functions;
pub mod loans;
pub mod poison;
pub mod run_context;
pub mod slots;
pub mod timed_records;

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use dashmap::DashMap;

use millstream_comm::Communicator;
use millstream_ep::PooledEvent;
use millstream_instructions::Instruction;
use millstream_kernels::{Kernel, KernelRegistry, Threads};
use millstream_ops::closure::CLOSURE;
use millstream_ops::{Op, OpRegistry};
use millstream_stream_policy::{ArenaMemory, PolicyTable};
use millstream_types::{Cause, Error, EventId, FailedOperand, Failure, OpId, Panicked, catch_unit};

use crate::host::{HostTable, HostWorkers};
use crate::sync::points::PointTable;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use crate::tables::functions::FunctionTable;
use crate::tables::loans::Loans;
use crate::tables::poison::{FailureLog, Poison};
use crate::tables::slots::{CallSlot, Slots, TensorSlot};
use crate::tables::timed_records::TimedRecords;

/// A kind of device's kernels, by op.
pub(crate) type KernelsByOp = Arc<[Option<Arc<dyn Kernel>>]>;

/// The tables of a machine. No lock in here is held while a kernel runs.
pub struct Tables {
    /// A number that no other machine of the process has.
    pub machine: u64,
    pub points: PointTable,
    pub slots: Slots<TensorSlot>,
    /// The first tensor of each tensor's storage. Its slot may belong to another tensor by now, so
    /// two storages may have the same root.
    pub storage_roots: Slots<u32>,
    /// The stored calls: calls that are made many times.
    pub calls: Slots<CallSlot>,
    pub functions: FunctionTable,
    pub loans: Loans,
    pub poison: Poison,
    pub failures: FailureLog,
    pub host: HostTable,
    pub host_workers: HostWorkers,
    pub policies: Arc<PolicyTable>,
    pub memory: Arc<ArenaMemory>,
    pub ops: Arc<OpRegistry>,
    pub kernels: KernelRegistry,
    /// The host's kernel of `copy`, once it was looked up.
    pub host_copy: OnceLock<Option<Arc<dyn Kernel>>>,
    /// The kernels of each kind of device with an open stream.
    pub kernels_by_op: DashMap<String, KernelsByOp>,
    /// The native events of event slots, set by records.
    pub events: DashMap<EventId, PooledEvent>,
    pub timed_records: TimedRecords,
    pub threads: Threads,
    pub communicator: Arc<dyn Communicator>,
    /// For each op whether it is a collective.
    pub collectives: Box<[bool]>,
    /// The number of the next barrier of all ranks. They run in the order of emission, which all
    /// ranks share.
    pub next_barrier: AtomicU64,
    pub backlog: Backlog,
    /// The panic that ended a worker.
    pub lost: OnceLock<Panicked>,
    /// How many threads of the program wait for results: no worker pauses then.
    pub waiting: AtomicUsize,
    /// Whether any call was ever given a priority.
    pub has_priorities: AtomicBool,
    /// How many steps of a tape a worker makes before it looks at its other streams.
    pub steps_at_once: u32,
    /// How often a tape checks for a step of another worker's tape before it blocks.
    pub step_checks: u32,
}

impl Tables {
    /// Returns whether an op is a collective.
    pub fn is_collective(&self, op: OpId) -> bool {
        self.collectives.get(op.index()).is_some_and(|is| *is)
    }

    /// Returns whether a thread of the program waits for a result.
    pub(crate) fn is_awaited(&self) -> bool {
        // Relaxed: it only hints.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns the kernels of a kind of device, which all its streams share.
    pub(crate) fn kernels_of(&self, kind: &str) -> KernelsByOp {
        if let Some(known) = self.kernels_by_op.get(kind) {
            return known.clone();
        }
        let kernel = |op: &Arc<dyn Op>| {
            // The kernel of a function of the program is the same for all devices.
            let kind = if op.name() == CLOSURE { "cpu" } else { kind };
            self.kernels.get(kind, op.name()).cloned()
        };
        let all: KernelsByOp = self.ops.iter().map(kernel).collect();
        self.kernels_by_op.insert(kind.to_owned(), all.clone());
        all
    }

    /// Ends a worker. If it panicked, nothing can tell which of its instructions were begun: every
    /// waiter of the machine and of its ranks gets an error.
    #[cold]
    pub(crate) fn end_worker<W>(&self, worker: W, ended: Result<(), Panicked>) {
        let Err(panicked) = ended else { return };
        // Its devices may still run commands, on memory that its streams own.
        std::mem::forget(worker);
        let message = panicked.to_string();
        let _ = self.lost.set(panicked);
        self.points.wake_to_recheck();
        self.backlog.wake();
        // The communicator may have panicked itself.
        let _ = catch_unit(|| self.communicator.abort(&message));
    }

    /// Checks that no worker has panicked.
    ///
    /// # Errors
    /// One has: some instructions never complete.
    #[inline]
    pub fn check_workers(&self) -> Result<(), Error> {
        self.lost.get().map_or(Ok(()), |panicked| {
            Err(Error::Internal { message: format!("a worker of the machine {panicked}") })
        })
    }

    /// Builds an instruction's failure, with all details for the program, and logs it.
    pub(crate) fn failure(
        &self,
        instruction: &Instruction,
        stream: &dyn fmt::Display,
        cause: Cause,
        message: String,
    ) -> Arc<Failure> {
        let body = &instruction.body;
        let operand = |o: &millstream_instructions::Operand| {
            // SAFETY: the caller runs the instruction, which names these tensors.
            let slot = unsafe { self.slots.get(o.tensor.index()) }?;
            Some(FailedOperand {
                tensor: o.tensor.to_string(),
                access: o.access,
                dtype: slot.spec.dtype,
                shape: slot.spec.shape().into(),
            })
        };
        let op = body.op().and_then(|op| self.ops.get(op));
        self.note_failure(Failure {
            cause,
            message,
            instruction: body.kind().name(),
            op: body.function_name().or(op.map(|o| o.name())).map(str::to_owned),
            operands: body.operands().iter().filter_map(operand).collect(),
            stream: stream.to_string(),
            seq: body.at().map_or(0, |p| p.seq),
            origin: instruction.origin.clone(),
            launched: None,
        })
    }

    /// Logs a failure.
    pub(crate) fn note_failure(&self, failure: Failure) -> Arc<Failure> {
        let failure = Arc::new(failure);
        self.failures.add(&failure);
        failure
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// The count of instructions emitted and not finished, and the wait for a lower one. The engine's
/// and the workers' fields lie on separate cache lines.
#[derive(Debug, Default)]
pub struct Backlog {
    engine: Emitted,
    workers: Finished,
    /// How many threads wait.
    waiting: Mutex<usize>,
    less: Condvar,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Emitted {
    emitted: AtomicU64,
    /// While fewer than this were emitted, there is room, without a look at `finished`.
    room: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Finished {
    finished: AtomicU64,
    /// The greatest number that a thread waits for to be pending, and one more; 0 if none waits.
    awaited: AtomicU64,
}

impl Backlog {
    /// Counts an emitted instruction. Called under the engine's lock.
    pub(crate) fn add(&self) {
        let emitted = &self.engine.emitted;
        // Relaxed: the lock orders the writers, and readers need only a rough figure.
        emitted.store(emitted.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns whether fewer than `watermark` instructions are pending.
    #[inline]
    pub(crate) fn has_room(&self, watermark: u64) -> bool {
        let Emitted { emitted, room } = &self.engine;
        // Relaxed: `finished` only grows, so an old bound is safe.
        let emitted = emitted.load(Ordering::Relaxed);
        if emitted < room.load(Ordering::Relaxed) {
            return true;
        }
        let bound = self.workers.finished.load(Ordering::Relaxed).saturating_add(watermark);
        room.store(bound, Ordering::Relaxed);
        emitted < bound
    }

    /// Returns how many instructions were emitted and not finished.
    pub(crate) fn pending(&self) -> u64 {
        let finished = self.workers.finished.load(Ordering::SeqCst);
        self.engine.emitted.load(Ordering::Relaxed).saturating_sub(finished)
    }

    /// Counts `count` finished instructions. Called by a worker.
    pub(crate) fn finish(&self, count: u64) {
        let Finished { finished, awaited } = &self.workers;
        // SeqCst with the store in `wait`: either the waiter sees the count, or this sees the
        // waiter.
        finished.fetch_add(count, Ordering::SeqCst);
        let awaited = awaited.load(Ordering::SeqCst);
        // A signal is a system call, so there is none before it helps.
        if awaited > 0 && self.pending() < awaited {
            self.wake();
        }
    }

    /// Wakes the threads that wait, so that they check whether the wait can end.
    fn wake(&self) {
        let _guard = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.less.notify_all();
    }

    /// Waits until at most `most` are pending. Returns false if that takes longer than `timeout`.
    pub fn wait(&self, most: u64, timeout: Duration) -> bool {
        let start = Instant::now();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting += 1;
        let awaited = &self.workers.awaited;
        // Relaxed: the lock orders the writers.
        let most_awaited = awaited.load(Ordering::Relaxed).max(most.saturating_add(1));
        awaited.store(most_awaited, Ordering::SeqCst);
        let enough = loop {
            if self.pending() <= most {
                break true;
            }
            let Some(left) = timeout.checked_sub(start.elapsed()) else { break false };
            let woken = self.less.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        *waiting -= 1;
        if *waiting == 0 {
            awaited.store(0, Ordering::SeqCst);
        }
        enough
    }
}
