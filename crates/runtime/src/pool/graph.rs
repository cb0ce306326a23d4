//! The dependency graph of the instructions of all pools.
//!
//! Long because nodes, storages and streams change together in each operation.
//!
//! # Rules
//! 1. Reads of a storage between two writes come after the first of them, in any order; a write
//!    comes after the previous write and all reads since (MXNet's rules for its variables).
//! 2. A wait orders the next instruction of its stream that is neither a wait nor a record, and no
//!    other. A gate, which stands for a barrier, orders all later
//!    instructions of its stream.
//! 3. A point is published once all instructions of its stream up to it have completed.
//! 4. Every edge leads from an earlier instruction to a later one, so the first remaining one can
//!    always run.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::{Class, Priority};
use millstream_types::{Point, StreamId, StreamKey};

use crate::profile::recording::Recording;
use crate::scope::cancel::CancelScope;
use crate::sync::points::Milestone;
use crate::thread_ctx::pooled::ReadyTask;
use crate::thread_ctx::task::{StoredCall, Task};
use crate::thread_ctx::unopened_key;

use super::ready::Ready;
use super::storages::{After, Noted, Storages};

/// The storages that a task uses, each with whether the task writes it.
pub(super) type Uses = SmallVec<[(u32, bool); 4]>;

/// The graph's access to its machine.
pub(super) trait GraphContext {
    /// Returns the priority of a task, and fills in its operands: for each the number of a storage,
    /// which may stand for other storages as well, and whether it is written.
    fn uses(&self, task: &Task, uses: &mut Uses) -> Priority;

    /// Registers a wait for a point, and returns whether the point is not reached yet. Once it is,
    /// the owner of the graph gets a message.
    fn register_wait(&self, stream: StreamId, point: Point, milestone: Milestone) -> bool;

    /// Returns whether a point has reached a milestone.
    fn is_reached(&self, point: Point, milestone: Milestone) -> bool;

    /// Publishes that all of a stream up to `seq` has completed.
    fn publish_completed(&self, stream: StreamId, seq: u64);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    /// An instruction to run.
    Work,
    /// An instruction to run that has a priority.
    WithPriority,
    /// No work: it has a point alone.
    Position,
    /// The wait for a point.
    Wait,
}

pub(super) const NONE: u32 = u32::MAX;

/// An instruction as its predecessors and successors see it. One cache line: workers exchange it
/// all the time.
#[repr(align(64))]
struct Node {
    /// How many predecessors have not completed.
    open: u32,
    /// Its position in the stream's order, counted from the stream's beginning, modulo 2^32.
    place: u32,
    stream: u16,
    kind: NodeKind,
    has_place: bool,
    after: SmallVec<[u32; 4]>,
    noted: SmallVec<[u32; 4]>,
}

const _: () = assert!(size_of::<Node>() == 64);

/// The part of an instruction that only its worker needs.
#[derive(Default)]
struct NodeData {
    task: Option<Task>,
    priority: Priority,
    /// Of a wait, the awaited milestone.
    until: Option<(Point, Milestone)>,
    cancel_scope: Option<Arc<CancelScope>>,
}

struct PoolStream {
    id: StreamId,
    key: StreamKey,
    /// The sequence numbers that have not been published, each with whether it has completed. The
    /// position of the first is `first`.
    order: VecDeque<(u64, bool)>,
    first: u32,
    /// The gate before all later instructions.
    gate: u32,
    /// The waits since the last instruction that was none.
    waits: SmallVec<[u32; 4]>,
    cancel_scope: Option<Arc<CancelScope>>,
}

/// The instructions of all pools that have not completed.
#[derive(Default)]
pub(crate) struct Graph {
    streams: Vec<PoolStream>,
    /// The position of each stream in `streams`.
    index: Vec<u32>,
    nodes: Vec<Node>,
    data: Vec<NodeData>,
    free: Vec<u32>,
    storages: Storages,
    ready: Ready,
    /// The waits whose points are not reached.
    awaited: Vec<u32>,
    /// Nodes without predecessors that need no worker.
    settled: Vec<u32>,
    live: usize,
    /// How many tasks have ended since `take_finished` was last called.
    finished: u64,
    /// The recording of times under way.
    recording: Option<Arc<Recording>>,
}

impl Graph {
    /// Returns how many instructions have not completed.
    pub(super) const fn live(&self) -> usize {
        self.live
    }

    /// Returns the recording of times under way.
    pub(super) const fn recording(&self) -> Option<&Arc<Recording>> {
        self.recording.as_ref()
    }

    /// Returns how many can run.
    pub(super) const fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns how many tasks have ended since the last call.
    pub(super) fn take_finished(&mut self) -> u64 {
        std::mem::take(&mut self.finished)
    }

    /// Returns a stream's key.
    pub(super) fn key(&self, stream: StreamId) -> &StreamKey {
        &self.streams[self.index[stream.index()] as usize].key
    }

    /// Accepts a task, and adds its edges.
    #[inline]
    pub(super) fn accept(&mut self, task: Task, context: &impl GraphContext) {
        let id = task.stream();
        let is_open = self.index.get(id.index()).is_some_and(|at| *at != NONE);
        if !is_open && !matches!(task, Task::OpenStream(..)) {
            self.open(id, unopened_key());
        }
        match task {
            Task::OpenStream(id, key) => self.open(id, *key),
            Task::CloseStream(_) => unreachable!("pools have no lease"),
            Task::Call(ref call) => self.work(call.stream, call.seq, task, context),
            Task::Wait { at, until, .. } => self.wait(at, until, context),
            Task::RecordEvent { at, .. } | Task::RecordForWait { until: at, .. } => {
                self.record(at, context)
            }
            Task::SetCancelScope(id, cancel_scope) => {
                self.stream(id).cancel_scope = cancel_scope;
                self.finished += 1;
            }
            Task::RecordTimes(_, recording) => {
                self.recording = recording;
                self.finished += 1;
            }
            Task::Gate(id, point, milestone) => self.gate(id, (point, milestone), context),
            Task::Run(instruction) => {
                let body = &instruction.body;
                match (body.class(), body.at(), body.until()) {
                    (Class::Waits, Some(at), Some(until)) => self.wait(at, until, context),
                    (Class::Records, Some(at), _) => self.record(at, context),
                    (_, Some(at), _) => {
                        self.work(at.stream, at.seq, Task::Run(instruction), context);
                    }
                    // It took effect when it was emitted.
                    (_, None, _) => {}
                }
            }
            Task::Launch(_) | Task::BeginLaunch(_) | Task::Play { .. } | Task::EndLaunch(_) => {
                unreachable!("launches and tapes run in the order of their streams")
            }
        }
    }

    /// Takes the next instruction that can run.
    #[inline]
    pub(super) fn next(&mut self) -> Option<ReadyTask> {
        let number = self.ready.pop()?;
        self.take_ready(number)
    }

    /// Takes one of the instructions that can run, by number and regardless of priority.
    pub(super) fn any(&mut self, at: usize) -> Option<ReadyTask> {
        let number = self.ready.take(at)?;
        self.take_ready(number)
    }

    /// Takes the next instruction that can run, if it is a stored call without a scope.
    #[inline]
    pub(super) fn next_call(&mut self) -> Option<(u32, StoredCall)> {
        let number = self.ready.peek()?;
        let content = &self.data[number as usize];
        let plain = content.cancel_scope.is_none();
        let call = content.task.as_ref().filter(|_| plain)?.stored()?;
        self.ready.pop();
        Some((number, call))
    }

    /// Makes a stored call ready again that was taken and not begun.
    pub(super) fn unclaim(&mut self, number: u32) {
        self.ready.push(self.data[number as usize].priority, number);
    }

    fn take_ready(&mut self, number: u32) -> Option<ReadyTask> {
        let stream = self.streams[usize::from(self.nodes[number as usize].stream)].id;
        let content = &mut self.data[number as usize];
        let cancel_scope = content.cancel_scope.take();
        Some(ReadyTask { number, stream, task: content.task.take()?, cancel_scope })
    }

    /// Completes an instruction.
    #[inline]
    pub(super) fn done(&mut self, number: u32, context: &impl GraphContext) {
        self.finish(number, context);
        self.settle(context);
    }

    /// Returns whether an awaited point has been reached.
    pub(super) fn is_behind(&self, context: &impl GraphContext) -> bool {
        let awaited = self.awaited.iter().map(|number| self.data[*number as usize].until);
        awaited.flatten().any(|(point, milestone)| context.is_reached(point, milestone))
    }

    /// Completes the waits whose points have been reached.
    pub(super) fn recheck(&mut self, context: &impl GraphContext) {
        let mut k = 0;
        while k < self.awaited.len() {
            let number = self.awaited[k];
            let until = self.data[number as usize].until;
            if until.is_none_or(|(point, milestone)| context.is_reached(point, milestone)) {
                self.awaited.swap_remove(k);
                self.finish(number, context);
            } else {
                k += 1;
            }
        }
        self.settle(context);
    }

    /// Describes the remaining instructions, one line for each stream.
    pub(super) fn describe(&self, into: &mut String) {
        for stream in self.streams.iter().filter(|stream| !stream.order.is_empty()) {
            let (first, left) =
                (stream.order.front().map_or(0, |(seq, _)| *seq), stream.order.len());
            // Writing to a string does not fail.
            let _ = writeln!(
                into,
                "{} ({}): {left} left from {first} on; of all pools {} can run, {} wait for others",
                stream.id,
                stream.key,
                self.ready.len(),
                self.awaited.len()
            );
        }
    }

    fn open(&mut self, id: StreamId, key: StreamKey) {
        if self.index.len() <= id.index() {
            self.index.resize(id.index() + 1, NONE);
        }
        self.index[id.index()] = self.streams.len() as u32;
        self.streams.push(PoolStream {
            id,
            key,
            order: VecDeque::new(),
            first: 0,
            gate: NONE,
            waits: SmallVec::new(),
            cancel_scope: None,
        });
    }

    fn stream(&mut self, id: StreamId) -> &mut PoolStream {
        &mut self.streams[self.index[id.index()] as usize]
    }

    /// Creates a node after its stream's gate. It is not ready before [`Graph::release`].
    #[inline]
    fn node(&mut self, id: StreamId, seq: Option<u64>, kind: NodeKind) -> u32 {
        let at = self.index[id.index()];
        let stream = &mut self.streams[at as usize];
        stream.order.extend(seq.map(|seq| (seq, false)));
        let place = stream.first.wrapping_add(stream.order.len() as u32).wrapping_sub(1);
        let gate = stream.gate;
        let number = self.free.pop().unwrap_or(self.nodes.len() as u32);
        if number as usize == self.nodes.len() {
            let (after, noted) = (SmallVec::new(), SmallVec::new());
            let (stream, has_place) = (at as u16, seq.is_some());
            self.nodes.push(Node { open: 1, place, stream, kind, has_place, after, noted });
            self.data.push(NodeData::default());
        }
        let node = &mut self.nodes[number as usize];
        (node.open, node.place, node.has_place) = (1, place, seq.is_some());
        (node.stream, node.kind) = (at as u16, kind);
        self.live += 1;
        if gate != NONE {
            self.order(gate, number);
        }
        number
    }

    /// Adds an edge. `earlier` has not completed.
    #[inline]
    fn order(&mut self, earlier: u32, later: u32) {
        self.nodes[earlier as usize].after.push(later);
        self.nodes[later as usize].open += 1;
    }

    fn gate(&mut self, id: StreamId, until: (Point, Milestone), context: &impl GraphContext) {
        let number = self.until(id, None, until);
        self.stream(id).gate = number;
        self.release(number);
        self.settle(context);
    }

    fn wait(&mut self, at: Point, until: Point, context: &impl GraphContext) {
        let number = self.until(at.stream, Some(at.seq), (until, Milestone::Completed));
        self.stream(at.stream).waits.push(number);
        self.release(number);
        self.settle(context);
    }

    fn until(&mut self, id: StreamId, seq: Option<u64>, until: (Point, Milestone)) -> u32 {
        let number = self.node(id, seq, NodeKind::Wait);
        self.data[number as usize].until = Some(until);
        number
    }

    fn record(&mut self, at: Point, context: &impl GraphContext) {
        let number = self.node(at.stream, Some(at.seq), NodeKind::Position);
        self.release(number);
        self.settle(context);
    }

    #[inline]
    fn work(&mut self, id: StreamId, seq: u64, task: Task, context: &impl GraphContext) {
        let number = self.node(id, Some(seq), NodeKind::Work);
        let stream = self.stream(id);
        let cancel_scope = stream.cancel_scope.clone();
        if !stream.waits.is_empty() {
            for wait in std::mem::take(&mut stream.waits) {
                self.order(wait, number);
            }
        }
        let mut uses = Uses::new();
        let priority = context.uses(&task, &mut uses);
        // Writes first: an operand that is both read and written comes after everything that a read
        // comes after.
        for &(root, _) in uses.iter().filter(|(_, writes)| *writes) {
            let noted = self.storages.write(root, number);
            self.note(number, noted);
        }
        for &(root, _) in uses.iter().filter(|(_, writes)| !*writes) {
            let noted = self.storages.read(root, number);
            self.note(number, noted);
        }
        if priority != Priority::default() {
            self.nodes[number as usize].kind = NodeKind::WithPriority;
        }
        let content = &mut self.data[number as usize];
        content.task = Some(task);
        (content.priority, content.cancel_scope) = (priority, cancel_scope);
        self.release(number);
    }

    /// Adds the edges of one use of a storage.
    #[inline]
    fn note(&mut self, number: u32, noted: Option<Noted>) {
        let Some(Noted { entry, after }) = noted else { return };
        self.nodes[number as usize].noted.push(entry);
        match after {
            After::Nothing => {}
            After::Write(writer) => self.order(writer, number),
            After::Reads => self.nodes[number as usize].open += 1,
        }
    }

    /// Removes one predecessor of a node.
    #[inline]
    fn release(&mut self, number: u32) {
        let node = &mut self.nodes[number as usize];
        node.open -= 1;
        if node.open == 0 {
            match node.kind {
                NodeKind::Work => self.ready.push(Priority::default(), number),
                NodeKind::WithPriority => {
                    self.ready.push(self.data[number as usize].priority, number)
                }
                NodeKind::Position | NodeKind::Wait => self.settled.push(number),
            }
        }
    }

    /// Completes all nodes that need no worker.
    #[inline]
    fn settle(&mut self, context: &impl GraphContext) {
        while let Some(number) = self.settled.pop() {
            let node = &self.nodes[number as usize];
            let stream = self.streams[usize::from(node.stream)].id;
            if node.kind == NodeKind::Wait
                && let Some((point, milestone)) = self.data[number as usize].until
                && context.register_wait(stream, point, milestone)
            {
                self.awaited.push(number);
            } else {
                self.finish(number, context);
            }
        }
    }

    fn finish(&mut self, number: u32, context: &impl GraphContext) {
        let node = &mut self.nodes[number as usize];
        let (at, kind) = (usize::from(node.stream), node.kind);
        let place = node.has_place.then_some(node.place);
        let (mut after, mut noted) =
            (std::mem::take(&mut node.after), std::mem::take(&mut node.noted));
        for entry in noted.drain(..) {
            if let Some(writer) = self.storages.end_use(number, entry) {
                self.release(writer);
            }
        }
        for later in after.drain(..) {
            self.release(later);
        }
        // The lists keep their capacity.
        let node = &mut self.nodes[number as usize];
        (node.after, node.noted) = (after, noted);
        self.free.push(number);
        self.live -= 1;
        self.finished += 1;
        let stream = &mut self.streams[at];
        if kind == NodeKind::Wait {
            if stream.gate == number {
                stream.gate = NONE;
            }
            stream.waits.retain(|wait| *wait != number);
        }
        let Some(place) = place else { return };
        stream.order[place.wrapping_sub(stream.first) as usize].1 = true;
        if place == stream.first {
            let mut passed = 0;
            while let Some((seq, true)) = stream.order.front() {
                passed = *seq;
                stream.order.pop_front();
                stream.first = stream.first.wrapping_add(1);
            }
            context.publish_completed(stream.id, passed);
        }
    }
}
