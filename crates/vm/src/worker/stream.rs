//! A stream, as its worker sees it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use millstream_ep::{Device, EventPool, Stream, Ticket, WorkResult};
use millstream_instructions::Instruction;
use millstream_kernels::Kernel;
use millstream_types::{Cause, Error, Point, StreamId, StreamKey};

use crate::emission::cancel::CancelScope;
use crate::sync::points::Milestone;
use crate::worker::task::Task;

/// What a stream is made of, once its first instruction that needs it has come.
pub(super) struct NativeStream {
    pub(super) device: Arc<dyn Device>,
    pub(super) stream: Box<dyn Stream>,
    pub(super) events: Option<Arc<EventPool>>,
    /// The device's kernels, by op.
    pub(super) kernels: Vec<Option<Arc<dyn Kernel>>>,
    pub(super) asynchronous: bool,
    pub(super) notifies: bool,
}

/// What a launched instruction has still to do when it completes.
pub(super) enum Effect {
    /// Nothing.
    None,
    /// Poison or heal what a call wrote.
    Call(Instruction),
    /// Poison what a call that was refused would have written, in its turn.
    Failed(Instruction, Cause, String),
    /// Say so if a record or a wait has failed.
    Order(Instruction),
    /// Give a host read its bytes.
    Read(Instruction, Arc<Mutex<Option<Vec<u8>>>>),
}

/// A launched instruction.
pub(super) struct InFlight {
    pub(super) seq: u64,
    /// Its command on the device, if it has one.
    pub(super) ticket: Option<Ticket>,
    /// The point that it completes after.
    pub(super) until: Option<Point>,
    pub(super) effect: Effect,
}

/// An instruction that somebody else completes: a function of the host's, or who holds its token.
pub(crate) struct ExternalCompletion {
    pub(crate) instruction: Instruction,
    /// What has come of it so far.
    pub(crate) so_far: WorkResult,
}

/// A stream of the worker.
pub(super) struct WorkerStream {
    pub(super) id: StreamId,
    pub(super) key: StreamKey,
    pub(super) native: Option<NativeStream>,
    /// Why nothing runs on the stream's device any more.
    pub(super) lost: Option<Error>,
    /// Tasks that stand behind one that is blocked_on.
    pub(super) pending: VecDeque<Task>,
    /// What the head needs: a waiter of this stream stands in that point's list.
    pub(super) blocked_on: Option<(Point, Milestone)>,
    /// Whether it is a pool's: then nothing waits here, and nothing is published.
    pub(super) pooled: bool,
    /// The instruction that somebody else completes.
    pub(super) external: Option<ExternalCompletion>,
    /// Whether the head waits for all that flies to wait_in_flight.
    pub(super) draining: bool,
    /// Launched and not completed, in order.
    pub(super) in_flight: VecDeque<InFlight>,
    /// Commands that the device has reported.
    pub(super) reported: VecDeque<(Ticket, WorkResult)>,
    /// What the first of `in_flight` completes after, if a waiter of this stream stands in its list.
    pub(super) awaited: Option<Point>,
    /// Of a private stream: the instruction that runs its list.
    pub(super) launcher: Option<Point>,
    /// The scopes that what comes next was submitted in.
    pub(super) cancel_scope: Option<Arc<CancelScope>>,
    /// Whether points were published since the last flush.
    pub(super) dirty: bool,
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
            external: None,
            draining: false,
            in_flight: VecDeque::new(),
            reported: VecDeque::new(),
            awaited: None,
            launcher: None,
            cancel_scope: None,
            dirty: false,
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_on.is_some() || self.draining || self.external.is_some()
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_blocked() && self.pending.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn must_be_polled(&self) -> bool {
        !self.in_flight.is_empty() && self.native.as_ref().is_some_and(|n| !n.notifies)
    }
}
