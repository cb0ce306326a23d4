//! What a crew knows of its pools: the graph, and what somebody else has yet to complete.

use std::collections::HashMap;

use millstream_ep::WorkResult;
use millstream_types::{Point, StreamId, StreamKey};

use crate::worker::inbox::News;
use crate::worker::task::{StoredCall, Task};
use crate::worker::{Core, Hosting};

use super::World;
use super::graph::{Graph, Job};

/// The bookkeeping of a crew.
#[derive(Default)]
pub(crate) struct Ledger {
    graph: Graph,
    /// Instructions that somebody else completes, with their numbers.
    hosted: HashMap<Point, (u32, Hosting)>,
    /// Results of such that came before the worker had said that it was one.
    early: HashMap<Point, WorkResult>,
    /// Streams with points that were published and not flushed.
    dirty: Vec<StreamId>,
    /// Whether the crew was told to stop.
    stop: bool,
}

impl Ledger {
    /// Takes a task.
    #[inline]
    pub(crate) fn accept(&mut self, task: Task, world: &World<'_>) {
        self.graph.accept(task, world);
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
    pub(crate) fn next(&mut self) -> Option<Job> {
        self.graph.next()
    }

    /// A stored call that was taken, and not begun, can run again.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.graph.give_back(number);
    }

    /// One of those that can run, by number.
    pub(crate) fn any(&mut self, at: usize) -> Option<Job> {
        self.graph.any(at)
    }

    /// A stream's key.
    pub(crate) fn key(&self, lane: StreamId) -> &StreamKey {
        self.graph.key(lane)
    }

    /// The next one to run, if that is a stored call and nothing is around it.
    #[inline]
    pub(crate) fn next_call(&mut self) -> Option<(u32, StoredCall)> {
        self.graph.next_call()
    }

    /// An instruction was run, and has completed.
    #[inline]
    pub(crate) fn ran(&mut self, number: u32, lane: StreamId, world: &World<'_>) {
        if !self.dirty.contains(&lane) {
            self.dirty.push(lane);
        }
        self.graph.done(number, world);
    }

    /// An instruction was run, and somebody else has yet to complete it.
    pub(crate) fn host(
        &mut self,
        number: u32,
        hosting: Hosting,
        core: &mut Core,
        world: &World<'_>,
    ) {
        let Some(point) = hosting.instruction.body.at() else { return };
        match self.early.remove(&point) {
            Some(result) => self.complete(number, hosting, result, core, world),
            None => drop(self.hosted.insert(point, (number, hosting))),
        }
    }

    /// Hears a piece of news.
    pub(crate) fn heed(&mut self, news: News, core: &mut Core, world: &World<'_>) {
        match news {
            News::Stop => self.stop = true,
            News::Resume(_) => self.graph.look_again(world),
            News::HostDone(point, result) => match self.hosted.remove(&point) {
                Some((number, hosting)) => {
                    self.complete(number, hosting, result, core, world);
                }
                None => drop(self.early.insert(point, result)),
            },
            // The worker that launched something stays with it.
            News::Device(_) => {}
        }
    }

    fn complete(
        &mut self,
        number: u32,
        hosting: Hosting,
        result: WorkResult,
        core: &mut Core,
        world: &World<'_>,
    ) {
        let Some(point) = hosting.instruction.body.at() else { return };
        core.open_pooled(point.stream, |lane| self.graph.key(lane).clone());
        core.finish_pooled(hosting, result);
        self.ran(number, point.stream, world);
    }

    /// Makes sure that everyone is told who waits for what has passed.
    pub(crate) fn flush(&mut self, world: &World<'_>) {
        for lane in self.dirty.drain(..) {
            world.engine.points.stream(lane).flush();
        }
        let finished = self.graph.take_finished();
        if finished > 0 {
            world.engine.backlog.finish(finished);
        }
    }

    /// Whether something waits for what has come, and the crew has not been told yet.
    pub(crate) fn is_behind(&self, world: &World<'_>) -> bool {
        self.graph.is_behind(world)
    }

    /// Goes on with what waits for what has come.
    pub(crate) fn catch_up(&mut self, world: &World<'_>) {
        self.graph.look_again(world);
    }

    /// Whether the crew was told to stop and nothing is left.
    pub(crate) const fn is_done(&self) -> bool {
        self.stop && self.graph.live() == 0
    }

    /// Says what has not completed, a line for each stream.
    pub(crate) fn describe(&self, into: &mut String) {
        self.graph.describe(into);
    }
}
