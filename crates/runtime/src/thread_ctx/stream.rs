//! A stream, as its worker sees it.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use millstream_ep::{Device, Event, EventPool, Notify, Progress, Stream, Ticket, Work, WorkResult};
use millstream_types::panics::{Guarded, catch_panic};
use millstream_types::{Cause, Error, Point, Result, StreamId, StreamKey};

use crate::profile::samples::StreamSamples;
use crate::scope::cancel::CancelScope;
use crate::sync::points::Milestone;
use crate::tables::{KernelsByOp, Tables};
use crate::thread_ctx::graph::GraphRef;
use crate::thread_ctx::subject::{StepRef, Subject};
use crate::thread_ctx::task::{StoredCall, Task};

/// The device objects of a stream, created for its first instruction that needs them.
pub(super) struct NativeStream {
    pub(super) device: Arc<dyn Device>,
    pub(super) stream: DeviceStream,
    pub(super) events: Option<Arc<EventPool>>,
    pub(super) kernels: KernelsByOp,
    pub(super) asynchronous: bool,
    /// Whether collectives are launched on it: it is asynchronous, and its memory is not the
    /// host's.
    pub(super) launches_collectives: bool,
    pub(super) notifies: bool,
}

impl NativeStream {
    /// Creates the objects by the stream's policy.
    pub(super) fn create(tables: &Tables, key: &StreamKey, notify: Notify) -> Result<NativeStream> {
        catch_panic(|| {
            let parts = tables.policies.create(key, notify)?;
            let can = parts.device.capabilities();
            Ok(NativeStream {
                kernels: tables.kernels_of(parts.device.kernel_kind()),
                device: parts.device,
                stream: DeviceStream(Guarded::new(parts.stream)),
                events: parts.events,
                asynchronous: can.asynchronous,
                launches_collectives: can.asynchronous && !can.host_memory,
                notifies: can.notifies,
            })
        })
    }
}

/// A stream of a backend, which may be the program's: a panic is an error of the call.
pub(super) struct DeviceStream(Guarded<Box<dyn Stream>>);

impl DeviceStream {
    #[inline]
    pub(super) fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        catch_panic(|| self.0.submit(work))
    }

    pub(super) fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        catch_panic(|| self.0.record(event))
    }

    pub(super) fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        catch_panic(|| self.0.wait(event))
    }

    pub(super) fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        catch_panic(|| self.0.poll(done))
    }
}

/// The other calls are rare: a panic ends the worker.
impl Deref for DeviceStream {
    type Target = Box<dyn Stream>;

    fn deref(&self) -> &Box<dyn Stream> {
        &self.0
    }
}

impl DerefMut for DeviceStream {
    fn deref_mut(&mut self) -> &mut Box<dyn Stream> {
        &mut self.0
    }
}

/// The action at the completion of a launched instruction.
pub(super) enum Effect {
    /// None.
    None,
    /// Poisons or heals the outputs of a call.
    Call(Subject),
    /// The same of a stored call, which stays in its slot until it has completed.
    Stored(StoredCall),
    /// Poisons the outputs of a refused call, in its turn.
    Failed(Subject, Cause, String),
    /// As for a call, unless the communicator has failed meanwhile.
    Collective(Subject),
    /// Reports the failure of a record or a wait.
    Order(Subject),
    /// Poisons what failed calls of a graph have written.
    Graph(GraphRef),
    /// Gives a host read its bytes.
    Read(Subject, Arc<Mutex<Option<Vec<u8>>>>),
}

impl Effect {
    /// Returns the step of a tape that it belongs to.
    pub(super) const fn step(&self) -> Option<&StepRef> {
        match self {
            Effect::Call(Subject::Step(step))
            | Effect::Collective(Subject::Step(step))
            | Effect::Failed(Subject::Step(step), ..)
            | Effect::Order(Subject::Step(step))
            | Effect::Read(Subject::Step(step), _) => Some(step),
            _ => None,
        }
    }
}

/// A launched instruction that has not completed.
pub(super) struct InFlight {
    pub(super) seq: u64,
    /// Its command on the device, if it has one.
    pub(super) ticket: Option<Ticket>,
    /// The point that it completes after.
    pub(super) until: Option<Point>,
    pub(super) effect: Effect,
}

/// An instruction that another party completes: a host function, or the holder of its completion
/// token.
pub(crate) struct ExternalCompletion {
    pub(crate) subject: Subject,
    /// Its result so far.
    pub(crate) so_far: WorkResult,
}

/// A stream of the worker.
pub(super) struct WorkerStream {
    pub(super) id: StreamId,
    pub(super) key: StreamKey,
    pub(super) native: Option<NativeStream>,
    /// Why nothing runs on the stream's device any more.
    pub(super) lost: Option<Error>,
    /// Tasks behind a blocked one.
    pub(super) pending: VecDeque<Task>,
    /// The milestone that blocks the head. A waiter of this stream is registered for it.
    pub(super) blocked_on: Option<(Point, Milestone)>,
    /// Whether it is a pool: then nothing blocks here, and nothing is published.
    pub(super) pooled: bool,
    /// The times of its instructions, while a recording of times is under way.
    pub(super) samples: Option<Box<StreamSamples>>,
    /// The instruction that another party completes.
    pub(super) external: Option<ExternalCompletion>,
    /// Whether the head waits for all instructions in flight.
    pub(super) draining: bool,
    /// Whether the head, a tape of a graph, waits for the graph's other tapes.
    pub(super) joining: bool,
    /// Launched and not completed, in order.
    pub(super) in_flight: VecDeque<InFlight>,
    /// Commands that the device has reported as completed.
    pub(super) reported: VecDeque<(Ticket, WorkResult)>,
    /// The point that the first of `in_flight` completes after, if a waiter of this stream is
    /// registered for it.
    pub(super) awaited: Option<Point>,
    /// The cancel scopes of the next instructions.
    pub(super) cancel_scope: Option<Arc<CancelScope>>,
    /// Whether points were published since the last flush.
    pub(super) dirty: bool,
    /// Whether it is among the worker's `active` streams.
    pub(super) is_active: bool,
    /// Whether the worker forgets the stream once it is idle.
    pub(super) closing: bool,
}

impl WorkerStream {
    pub(super) fn new(id: StreamId, key: StreamKey) -> WorkerStream {
        WorkerStream {
            id,
            key,
            native: None,
            lost: None,
            pending: VecDeque::new(),
            blocked_on: None,
            pooled: false,
            samples: None,
            external: None,
            draining: false,
            joining: false,
            in_flight: VecDeque::new(),
            reported: VecDeque::new(),
            awaited: None,
            cancel_scope: None,
            dirty: false,
            is_active: false,
            closing: false,
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_on.is_some() || self.draining || self.joining || self.external.is_some()
    }

    pub(super) fn launches_collectives(&self) -> bool {
        self.native.as_ref().is_some_and(|native| native.launches_collectives)
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_blocked() && self.pending.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn must_be_polled(&self) -> bool {
        !self.in_flight.is_empty() && self.native.as_ref().is_some_and(|n| !n.notifies)
    }
}
