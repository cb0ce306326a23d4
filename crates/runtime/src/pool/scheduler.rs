//! The bookkeeping of the pools: the graph, and the instructions that another party completes.

use std::collections::HashMap;

use millstream_ep::WorkResult;
use millstream_types::{Point, StreamId, StreamKey};

use crate::profile::recording::Recording;
use crate::sync::Arc;
use crate::sync::inbox::Message;
use crate::tables::Tables;
use crate::thread_ctx::task::{StoredCall, Task};
use crate::thread_ctx::{ExternalCompletion, ThreadCtx};

use super::MachineContext;
use super::graph::Graph;
use crate::thread_ctx::pooled::ReadyTask;

/// The graph, and the instructions that another party completes.
#[derive(Default)]
pub(crate) struct Scheduler {
    graph: Graph,
    /// Instructions that another party completes, with their numbers.
    external: HashMap<Point, (u32, ExternalCompletion)>,
    /// Results of such instructions that arrived before their worker had registered them.
    early: HashMap<Point, WorkResult>,
    /// Streams with points that were published and not flushed.
    dirty: Vec<StreamId>,
    /// Whether the workers were told to stop.
    stop: bool,
}

impl Scheduler {
    /// Accepts a task.
    #[inline]
    pub(crate) fn accept(&mut self, task: Task, context: &MachineContext<'_>) {
        self.graph.accept(task, context);
    }

    /// Returns how many instructions have not completed.
    pub(crate) const fn live(&self) -> usize {
        self.graph.live()
    }

    /// Returns the recording of times under way.
    #[inline]
    pub(crate) const fn recording(&self) -> Option<&Arc<Recording>> {
        self.graph.recording()
    }

    /// Returns how many can run.
    pub(crate) const fn ready(&self) -> usize {
        self.graph.ready()
    }

    /// Takes the next instruction that can run.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<ReadyTask> {
        self.graph.next()
    }

    /// Makes a stored call ready again that was taken and not begun.
    pub(crate) fn unclaim(&mut self, number: u32) {
        self.graph.unclaim(number);
    }

    /// Takes one of the instructions that can run, by number.
    pub(crate) fn any(&mut self, at: usize) -> Option<ReadyTask> {
        self.graph.any(at)
    }

    /// Returns a stream's key.
    pub(crate) fn key(&self, stream: StreamId) -> &StreamKey {
        self.graph.key(stream)
    }

    /// Takes the next instruction that can run, if it is a stored call without a scope.
    #[inline]
    pub(crate) fn next_call(&mut self) -> Option<(u32, StoredCall)> {
        self.graph.next_call()
    }

    /// Completes an instruction that was run.
    #[inline]
    pub(crate) fn ran(&mut self, number: u32, stream: StreamId, context: &MachineContext<'_>) {
        if !self.dirty.contains(&stream) {
            self.dirty.push(stream);
        }
        self.graph.done(number, context);
    }

    /// Registers an instruction that was run and that another party has yet to complete.
    /// Returns whether only other ranks can complete what others have yet to complete.
    pub(crate) fn is_quiet(&self, tables: &Tables) -> bool {
        self.external.values().all(|(_, external)| external.subject.awaits_ranks(tables))
    }

    pub(crate) fn register_external(
        &mut self,
        number: u32,
        external: ExternalCompletion,
        worker: &mut ThreadCtx,
        context: &MachineContext<'_>,
    ) {
        let Some(point) = external.subject.point() else { return };
        match self.early.remove(&point) {
            Some(result) => self.complete(number, external, result, worker, context),
            None => drop(self.external.insert(point, (number, external))),
        }
    }

    /// Handles a message.
    pub(crate) fn handle(
        &mut self,
        messages: Message,
        worker: &mut ThreadCtx,
        context: &MachineContext<'_>,
    ) {
        match messages {
            Message::Stop => self.stop = true,
            Message::Resume(_) => self.graph.recheck(context),
            Message::ExternalDone(point, result) => match self.external.remove(&point) {
                Some((number, external)) => {
                    self.complete(number, external, result, worker, context);
                }
                None => drop(self.early.insert(point, result)),
            },
            // The worker that launched a command waits for it.
            Message::Device(_) => {}
        }
    }

    fn complete(
        &mut self,
        number: u32,
        external: ExternalCompletion,
        result: WorkResult,
        worker: &mut ThreadCtx,
        context: &MachineContext<'_>,
    ) {
        let Some(point) = external.subject.point() else { return };
        worker.open_pooled(point.stream, |stream| self.graph.key(stream).clone());
        worker.finish_pooled(external, result);
        self.ran(number, point.stream, context);
    }

    /// Wakes all waiters for published points.
    pub(crate) fn flush(&mut self, context: &MachineContext<'_>) {
        for stream in self.dirty.drain(..) {
            context.tables.points.stream(stream).flush();
        }
        let finished = self.graph.take_finished();
        if finished > 0 {
            context.tables.backlog.finish(finished);
        }
    }

    /// Returns whether a wait's point has been reached whose message has not arrived.
    pub(crate) fn is_behind(&self, context: &MachineContext<'_>) -> bool {
        self.graph.is_behind(context)
    }

    /// Completes the waits whose points have been reached.
    pub(crate) fn catch_up(&mut self, context: &MachineContext<'_>) {
        self.graph.recheck(context);
    }

    /// Returns whether the workers were told to stop and nothing is left.
    pub(crate) const fn is_done(&self) -> bool {
        self.stop && self.graph.live() == 0
    }

    /// Describes the remaining instructions, one line for each stream.
    pub(crate) fn describe(&self, into: &mut String) {
        self.graph.describe(into);
    }
}
