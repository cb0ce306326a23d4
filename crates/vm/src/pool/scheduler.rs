//! What a crew knows of its pools: the graph, and what somebody else has yet to complete.

use std::collections::HashMap;

use millstream_ep::WorkResult;
use millstream_types::{Point, StreamId, StreamKey};

use crate::worker::inbox::Message;
use crate::worker::task::{StoredCall, Task};
use crate::worker::{ExternalCompletion, Worker};

use super::MachineContext;
use super::graph::{Graph, ReadyTask};

/// The bookkeeping of a crew.
#[derive(Default)]
pub(crate) struct Scheduler {
    graph: Graph,
    /// Instructions that somebody else completes, with their numbers.
    external: HashMap<Point, (u32, ExternalCompletion)>,
    /// Results of such that came before the worker had said that it was one.
    early: HashMap<Point, WorkResult>,
    /// Streams with points that were published and not flushed.
    dirty: Vec<StreamId>,
    /// Whether the crew was reported to stop.
    stop: bool,
}

impl Scheduler {
    /// Takes a task.
    #[inline]
    pub(crate) fn accept(&mut self, task: Task, context: &MachineContext<'_>) {
        self.graph.accept(task, context);
    }

    /// How many instructions have not completed.
    pub(crate) const fn live(&self) -> usize {
        self.graph.live()
    }

    /// How many can run.
    pub(crate) const fn ready(&self) -> usize {
        self.graph.ready()
    }

    /// The next one to run.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<ReadyTask> {
        self.graph.next()
    }

    /// A stored call that was taken, and not begun, can run again.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.graph.give_back(number);
    }

    /// One of those that can run, by number.
    pub(crate) fn any(&mut self, at: usize) -> Option<ReadyTask> {
        self.graph.any(at)
    }

    /// A stream's key.
    pub(crate) fn key(&self, stream: StreamId) -> &StreamKey {
        self.graph.key(stream)
    }

    /// The next one to run, if that is a stored call and nothing is context it.
    #[inline]
    pub(crate) fn next_call(&mut self) -> Option<(u32, StoredCall)> {
        self.graph.next_call()
    }

    /// An instruction was run, and has completed.
    #[inline]
    pub(crate) fn ran(&mut self, number: u32, stream: StreamId, context: &MachineContext<'_>) {
        if !self.dirty.contains(&stream) {
            self.dirty.push(stream);
        }
        self.graph.done(number, context);
    }

    /// An instruction was run, and somebody else has yet to complete it.
    pub(crate) fn register_external(
        &mut self,
        number: u32,
        external: ExternalCompletion,
        worker: &mut Worker,
        context: &MachineContext<'_>,
    ) {
        let Some(point) = external.instruction.body.at() else { return };
        match self.early.remove(&point) {
            Some(result) => self.complete(number, external, result, worker, context),
            None => drop(self.external.insert(point, (number, external))),
        }
    }

    /// Hears a piece of messages.
    pub(crate) fn handle(
        &mut self,
        messages: Message,
        worker: &mut Worker,
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
            // The worker that launched something stays with it.
            Message::Device(_) => {}
        }
    }

    fn complete(
        &mut self,
        number: u32,
        external: ExternalCompletion,
        result: WorkResult,
        worker: &mut Worker,
        context: &MachineContext<'_>,
    ) {
        let Some(point) = external.instruction.body.at() else { return };
        worker.open_pooled(point.stream, |stream| self.graph.key(stream).clone());
        worker.finish_pooled(external, result);
        self.ran(number, point.stream, context);
    }

    /// Makes sure that everyone is reported who waits for what has passed.
    pub(crate) fn flush(&mut self, context: &MachineContext<'_>) {
        for stream in self.dirty.drain(..) {
            context.tables.points.stream(stream).flush();
        }
        let finished = self.graph.take_finished();
        if finished > 0 {
            context.tables.backlog.finish(finished);
        }
    }

    /// Whether something waits for what has come, and the crew has not been reported yet.
    pub(crate) fn is_behind(&self, context: &MachineContext<'_>) -> bool {
        self.graph.is_behind(context)
    }

    /// Goes on with what waits for what has come.
    pub(crate) fn catch_up(&mut self, context: &MachineContext<'_>) {
        self.graph.recheck(context);
    }

    /// Whether the crew was reported to stop and nothing is left.
    pub(crate) const fn is_done(&self) -> bool {
        self.stop && self.graph.live() == 0
    }

    /// Says what has not completed, a line for each stream.
    pub(crate) fn describe(&self, into: &mut String) {
        self.graph.describe(into);
    }
}
