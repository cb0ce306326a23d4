//! Pushes of functions that the machine runs.
//!
//! # Rules
//! 1. Such a push waits for nothing, neither for room nor for memory: what it would wait for might
//!    be the function that pushes.
//! 2. With threads it is emitted at once, as from any thread.
//! 3. Without threads, the thread that runs the function holds the critical section. The push is
//!    queued among the releases, so that variables which the function drops end after it, and is
//!    emitted once the functions that run have returned.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::TensorRef;
use millstream_ops::closure::CLOSURE;
use millstream_types::{Cause, Error, Failure, Origin, Point, Result, StreamId, catch_unit};

use crate::engine::closure_calls::ClosureForm;
use crate::engine::shared::MachineShared;
use crate::engine::{Engine, Release};
use crate::scope::cancel::{self, CancelScope};
use crate::scope::reentrancy;
use crate::sync::Ordering;
use crate::tables::functions::Function;

use super::uses::Uses;
use super::{Target, emit};

/// A push that is yet to be emitted.
pub struct QueuedPush {
    /// None once it was emitted.
    function: Option<Function>,
    stream: Target,
    are_plain: bool,
    form: ClosureForm,
    operands: SmallVec<[TensorRef; 4]>,
    pub(crate) cancel_scope: Option<Arc<CancelScope>>,
    origin: Origin,
}

impl QueuedPush {
    pub fn new(
        function: Function,
        stream: Target,
        uses: &Uses,
        form: &ClosureForm,
        operands: &[TensorRef],
        origin: &Origin,
    ) -> QueuedPush {
        QueuedPush {
            function: Some(function),
            stream,
            are_plain: uses.are_plain,
            form: form.clone(),
            operands: SmallVec::from_slice(operands),
            cancel_scope: cancel::current(),
            origin: origin.clone(),
        }
    }

    /// Emits the push. Keeps the function if it is refused.
    pub fn try_emit(&mut self, engine: &mut Engine) -> Result<Point> {
        let QueuedPush { function, stream, are_plain, form, operands, cancel_scope, origin } = self;
        let outer = std::mem::replace(&mut engine.router.cancel_scope, cancel_scope.take());
        let made = emit(engine, function, stream, *are_plain, form, operands, origin);
        engine.router.cancel_scope = outer;
        made
    }

    /// Emits the push. Its pusher has returned, so a refusal becomes a failure of the machine.
    /// `pusher` names the cause of the push.
    pub(crate) fn emit(mut self, engine: &mut Engine, pusher: &str) {
        let made = self.try_emit(engine);
        let QueuedPush { function, stream, form, origin, .. } = self;
        // Dropping a refused function may run code of the program, which must not enter.
        let machine = engine.router.tables.machine;
        let dropped = reentrancy::enter(machine, || catch_unit(|| drop(function)));
        if let Err(error) = made {
            let dropped = dropped.map_or_else(|p| format!("; its drop {p}"), |()| String::new());
            let failure = Failure {
                cause: Cause::Error,
                message: format!("{pusher}, and it was refused: {error}{dropped}"),
                instruction: "OpCall",
                op: Some(form.name.map_or_else(|| CLOSURE.to_owned(), |name| name.into_owned())),
                operands: Vec::new(),
                stream: stream.describe(engine),
                seq: 0,
                origin,
                launched: None,
            };
            engine.router.tables.note_failure(failure);
        }
    }
}

impl MachineShared {
    /// Queues a push of a function that runs while this thread holds the critical section. It is
    /// emitted once the functions that run have returned.
    pub fn queue_push(&self, push: QueuedPush) -> Result<Point> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        self.releases.push(Release::Push(Box::new(push)));
        self.nested_pushes.fetch_add(1, Ordering::Release);
        self.has_queued_pushes.store(true, Ordering::Relaxed);
        Ok(Point::new(StreamId(0), 0))
    }

    /// Returns whether functions have pushed since queued pushes were last emitted.
    pub(crate) fn has_queued_pushes(&self) -> bool {
        self.has_queued_pushes.load(Ordering::Relaxed)
    }

    /// Emits what functions have pushed. Returns whether there was anything.
    pub(crate) fn emit_queued_pushes(&self, engine: &mut Engine) -> bool {
        if !self.has_queued_pushes() {
            return false;
        }
        // Relaxed: set and cleared by threads that hold the lock.
        self.has_queued_pushes.store(false, Ordering::Relaxed);
        self.drain(engine);
        true
    }
}
