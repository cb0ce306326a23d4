//! A stream, as its worker sees it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use millstream_ep::{Device, EventPool, Stream, Ticket, WorkResult};
use millstream_instructions::Instruction;
use millstream_kernels::Kernel;
use millstream_types::{Cause, Error, Point, StreamId, StreamKey};

use crate::emission::cancel::Within;
use crate::sync::points::Mark;
use crate::worker::task::Task;

/// What a stream is made of, once its first instruction that needs it has come.
pub(super) struct Native {
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
pub(super) struct Flying {
    pub(super) seq: u64,
    /// Its command on the device, if it has one.
    pub(super) ticket: Option<Ticket>,
    /// The point that it completes after.
    pub(super) until: Option<Point>,
    pub(super) effect: Effect,
}

/// An instruction that somebody else completes: a function of the host's, or who holds its token.
pub(crate) struct Hosting {
    pub(crate) instruction: Instruction,
    /// What has come of it so far.
    pub(crate) so_far: WorkResult,
}

/// A stream of the worker.
pub(super) struct Lane {
    pub(super) id: StreamId,
    pub(super) key: StreamKey,
    pub(super) native: Option<Native>,
    /// Why nothing runs on the stream's device any more.
    pub(super) lost: Option<Error>,
    /// Tasks that stand behind one that is held.
    pub(super) waiting: VecDeque<Task>,
    /// What the head needs: a waiter of this lane stands in that point's list.
    pub(super) held: Option<(Point, Mark)>,
    /// Whether it is a pool's: then nothing waits here, and nothing is published.
    pub(super) pooled: bool,
    /// The instruction that somebody else completes.
    pub(super) hosting: Option<Hosting>,
    /// Whether the head waits for all that flies to land.
    pub(super) landing: bool,
    /// Launched and not completed, in order.
    pub(super) flying: VecDeque<Flying>,
    /// Commands that the device has reported.
    pub(super) reported: VecDeque<(Ticket, WorkResult)>,
    /// What the first of `flying` completes after, if a waiter of this lane stands in its list.
    pub(super) watching: Option<Point>,
    /// Of a private stream: the instruction that runs its list.
    pub(super) launcher: Option<Point>,
    /// The scopes that what comes next was submitted in.
    pub(super) within: Option<Arc<Within>>,
    /// Whether points were published since the last flush.
    pub(super) dirty: bool,
}

impl Lane {
    pub(super) fn new(id: StreamId, key: StreamKey) -> Lane {
        Lane {
            id,
            key,
            native: None,
            lost: None,
            waiting: VecDeque::new(),
            held: None,
            pooled: false,
            hosting: None,
            landing: false,
            flying: VecDeque::new(),
            reported: VecDeque::new(),
            watching: None,
            launcher: None,
            within: None,
            dirty: false,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.is_some() || self.landing || self.hosting.is_some()
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_held() && self.waiting.is_empty() && self.flying.is_empty()
    }

    pub(super) fn must_be_polled(&self) -> bool {
        !self.flying.is_empty() && self.native.as_ref().is_some_and(|n| !n.notifies)
    }
}
