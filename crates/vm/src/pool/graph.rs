//! Which instructions of the pools must come after which.
//!
//! # Rules
//! 1. Reads of a storage between two writes come after the first of them, in any order; a write comes
//!    after the write before it and all reads since (MXNet's rules for its variables).
//! 2. A wait holds the next instruction of its stream that is neither a wait nor a record, and no
//!    other. A gate, which stands for a barrier or for the begin of a stored list, holds all that come
//!    later on its stream.
//! 3. To others, a place is passed once all up to it have completed.
//! 4. Every edge leads from an earlier instruction to a later one, so the first that is left can
//!    always go on.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::{Body, Priority};
use millstream_types::{Point, StreamId, StreamKey};

use crate::cancel::Within;
use crate::points::Mark;
use crate::task::{StoredCall, Task};

use super::ready::Ready;
use super::storages::{After, Noted, Storages};

/// The storages that a task uses, and whether it writes them.
pub(super) type Uses = SmallVec<[(u32, bool); 4]>;

/// What the graph has to know of the machine.
pub(super) trait Around {
    /// The priority of a task, and its operands: of each a number of its storage, which may stand for
    /// others as well, and whether it is written.
    fn uses(&self, task: &Task, uses: &mut Uses) -> Priority;

    /// Whether a point has yet to come. If so, the graph's owner is told once it has.
    fn is_awaited(&self, lane: StreamId, point: Point, mark: Mark) -> bool;

    /// Whether a point has come.
    fn has_come(&self, point: Point, mark: Mark) -> bool;

    /// All of a stream up to a place has completed.
    fn passed(&self, lane: StreamId, seq: u64);
}

/// An instruction that can run, with what its stream had around it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u32,
    pub(crate) lane: StreamId,
    pub(crate) task: Task,
    pub(crate) within: Option<Arc<Within>>,
    pub(crate) launcher: Option<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Something to run.
    Work,
    /// Something to run that has a priority.
    Urgent,
    /// Nothing: it has a place alone.
    Place,
    /// The wait for a point.
    Wait,
}

pub(super) const NONE: u32 = u32::MAX;

/// An instruction, as others see it that come before or after. One cache line: workers pass it on to
/// one another all the time.
#[repr(align(64))]
struct Node {
    /// How many that it comes after have not completed.
    open: u32,
    /// Its entry in the stream's order, counted from the stream's beginning as far as a number goes.
    place: u32,
    lane: u16,
    what: What,
    has_place: bool,
    after: SmallVec<[u32; 4]>,
    noted: SmallVec<[u32; 4]>,
}

const _: () = assert!(size_of::<Node>() == 64);

/// What of an instruction matters to those alone who run it.
#[derive(Default)]
struct Content {
    task: Option<Task>,
    priority: Priority,
    /// Of a wait, for what.
    until: Option<(Point, Mark)>,
    within: Option<Arc<Within>>,
    launcher: Option<Point>,
}

struct Lane {
    id: StreamId,
    key: StreamKey,
    /// The places that have not passed, with whether each has completed; the first has this number.
    order: VecDeque<(u64, bool)>,
    first: u32,
    /// What all that comes later comes after.
    gate: u32,
    /// The waits since the last instruction that was none.
    waits: SmallVec<[u32; 4]>,
    within: Option<Arc<Within>>,
    launcher: Option<Point>,
}

/// The instructions of all pools that have not completed.
#[derive(Default)]
pub(crate) struct Graph {
    lanes: Vec<Lane>,
    /// The place of each stream in `lanes`.
    index: Vec<u32>,
    nodes: Vec<Node>,
    contents: Vec<Content>,
    free: Vec<u32>,
    storages: Storages,
    ready: Ready,
    /// The waits whose points have yet to come.
    awaited: Vec<u32>,
    /// What is free to go on and needs nobody to run it.
    settled: Vec<u32>,
    live: usize,
    /// How many tasks have come to an end since this was last asked.
    finished: u64,
}

impl Graph {
    /// How many instructions have not completed.
    pub(super) const fn live(&self) -> usize {
        self.live
    }

    /// How many can run.
    pub(super) const fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many tasks have come to an end since this was last asked.
    pub(super) fn take_finished(&mut self) -> u64 {
        std::mem::take(&mut self.finished)
    }

    /// A stream's key.
    pub(super) fn key(&self, lane: StreamId) -> &StreamKey {
        &self.lanes[self.index[lane.index()] as usize].key
    }

    /// Takes a task: what it has to come after is known from now on.
    #[inline]
    pub(super) fn accept(&mut self, task: Task, around: &impl Around) {
        match task {
            Task::Open(id, key) => self.open(id, *key),
            Task::Call(call) => self.work(call.stream, call.seq, task, around),
            Task::Wait { at, until, .. } => self.wait(at, until, around),
            Task::Mark { at, .. } | Task::Record { until: at, .. } => self.record(at, around),
            Task::Within(id, within) => {
                self.lane(id).within = within;
                self.finished += 1;
            }
            Task::Hold(id, point, mark) => self.gate(id, (point, mark), around),
            Task::Enter(id, launcher, within) => {
                self.gate(id, (launcher, Mark::Launched), around);
                let lane = self.lane(id);
                (lane.launcher, lane.within) = (Some(launcher), within);
            }
            Task::Run(instruction) => match instruction.body {
                Body::StreamWaitEvent { at, until, .. } | Body::StreamWait { at, until, .. } => {
                    self.wait(at, until, around);
                }
                Body::RecordEvent { at, .. } => self.record(at, around),
                Body::OpCall { at, .. }
                | Body::TouchTensors { at, .. }
                | Body::Barrier { at }
                | Body::GlobalSync { at }
                | Body::AccessBlobByCallback { at, .. }
                | Body::SyncRead { at, .. }
                | Body::CriticalSectionBegin { at, .. }
                | Body::CriticalSectionEnd { at, .. }
                | Body::LazyJobLauncher { at, .. } => {
                    self.work(at.stream, at.seq, Task::Run(instruction), around);
                }
                Body::AllocateTensor { .. }
                | Body::ViewTensor { .. }
                | Body::ReleaseTensor { .. }
                | Body::SoftSyncStream { .. }
                | Body::HostObserved { .. } => {}
            },
            Task::Begin(..) => unreachable!("stored lists begin on streams of their launchers"),
        }
    }

    /// The next one to run, of those that can.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Job> {
        let number = self.ready.pop()?;
        self.job(number)
    }

    /// One of those that can run: which, does not go by priority.
    pub(super) fn any(&mut self, at: usize) -> Option<Job> {
        let number = self.ready.take(at)?;
        self.job(number)
    }

    /// The next one to run, if that is a stored call and nothing is around it.
    #[inline]
    pub(super) fn next_call(&mut self) -> Option<(u32, StoredCall)> {
        let number = self.ready.peek()?;
        let content = &self.contents[number as usize];
        let plain = content.within.is_none() && content.launcher.is_none();
        let call = content.task.as_ref().filter(|_| plain)?.stored()?;
        self.ready.pop();
        Some((number, call))
    }

    /// A stored call that was taken, and not begun, can run again.
    pub(super) fn give_back(&mut self, number: u32) {
        self.ready.push(self.contents[number as usize].priority, number);
    }

    fn job(&mut self, number: u32) -> Option<Job> {
        let lane = self.lanes[usize::from(self.nodes[number as usize].lane)].id;
        let content = &mut self.contents[number as usize];
        let (within, launcher) = (content.within.take(), content.launcher);
        Some(Job { number, lane, task: content.task.take()?, within, launcher })
    }

    /// A job has completed.
    #[inline]
    pub(super) fn done(&mut self, number: u32, around: &impl Around) {
        self.finish(number, around);
        self.settle(around);
    }

    /// Whether an awaited point has come.
    pub(super) fn is_behind(&self, around: &impl Around) -> bool {
        let awaited = self.awaited.iter().map(|number| self.contents[*number as usize].until);
        awaited.flatten().any(|(point, mark)| around.has_come(point, mark))
    }

    /// Some of the awaited points may have come.
    pub(super) fn look_again(&mut self, around: &impl Around) {
        let mut k = 0;
        while k < self.awaited.len() {
            let number = self.awaited[k];
            let until = self.contents[number as usize].until;
            if until.is_none_or(|(point, mark)| around.has_come(point, mark)) {
                self.awaited.swap_remove(k);
                self.finish(number, around);
            } else {
                k += 1;
            }
        }
        self.settle(around);
    }

    /// Says what has not completed, a line for each stream.
    pub(super) fn describe(&self, into: &mut String) {
        for lane in self.lanes.iter().filter(|lane| !lane.order.is_empty()) {
            let (first, left) = (lane.order.front().map_or(0, |(seq, _)| *seq), lane.order.len());
            // Writing to a string does not fail.
            let _ = writeln!(
                into,
                "{} ({}): {left} left from {first} on; of all pools {} can run, {} wait for others",
                lane.id,
                lane.key,
                self.ready.len(),
                self.awaited.len()
            );
        }
    }

    fn open(&mut self, id: StreamId, key: StreamKey) {
        if self.index.len() <= id.index() {
            self.index.resize(id.index() + 1, NONE);
        }
        self.index[id.index()] = self.lanes.len() as u32;
        self.lanes.push(Lane {
            id,
            key,
            order: VecDeque::new(),
            first: 0,
            gate: NONE,
            waits: SmallVec::new(),
            within: None,
            launcher: None,
        });
    }

    fn lane(&mut self, id: StreamId) -> &mut Lane {
        &mut self.lanes[self.index[id.index()] as usize]
    }

    /// A node that comes after its stream's gate. It is held until [`Graph::release`].
    #[inline]
    fn node(&mut self, id: StreamId, seq: Option<u64>, what: What) -> u32 {
        let at = self.index[id.index()];
        let lane = &mut self.lanes[at as usize];
        lane.order.extend(seq.map(|seq| (seq, false)));
        let place = lane.first.wrapping_add(lane.order.len() as u32).wrapping_sub(1);
        let gate = lane.gate;
        let number = self.free.pop().unwrap_or(self.nodes.len() as u32);
        if number as usize == self.nodes.len() {
            let (after, noted) = (SmallVec::new(), SmallVec::new());
            let (lane, has_place) = (at as u16, seq.is_some());
            self.nodes.push(Node { open: 1, place, lane, what, has_place, after, noted });
            self.contents.push(Content::default());
        }
        let node = &mut self.nodes[number as usize];
        (node.open, node.place, node.has_place) = (1, place, seq.is_some());
        (node.lane, node.what) = (at as u16, what);
        self.live += 1;
        if gate != NONE {
            self.order(gate, number);
        }
        number
    }

    /// `later` comes after `earlier`, which has not completed.
    #[inline]
    fn order(&mut self, earlier: u32, later: u32) {
        self.nodes[earlier as usize].after.push(later);
        self.nodes[later as usize].open += 1;
    }

    fn gate(&mut self, id: StreamId, until: (Point, Mark), around: &impl Around) {
        let number = self.until(id, None, until);
        self.lane(id).gate = number;
        self.release(number);
        self.settle(around);
    }

    fn wait(&mut self, at: Point, until: Point, around: &impl Around) {
        let number = self.until(at.stream, Some(at.seq), (until, Mark::Completed));
        self.lane(at.stream).waits.push(number);
        self.release(number);
        self.settle(around);
    }

    fn until(&mut self, id: StreamId, seq: Option<u64>, until: (Point, Mark)) -> u32 {
        let number = self.node(id, seq, What::Wait);
        self.contents[number as usize].until = Some(until);
        number
    }

    fn record(&mut self, at: Point, around: &impl Around) {
        let number = self.node(at.stream, Some(at.seq), What::Place);
        self.release(number);
        self.settle(around);
    }

    #[inline]
    fn work(&mut self, id: StreamId, seq: u64, task: Task, around: &impl Around) {
        let number = self.node(id, Some(seq), What::Work);
        let lane = self.lane(id);
        let (launcher, within) = (lane.launcher, lane.within.clone());
        if !lane.waits.is_empty() {
            for wait in std::mem::take(&mut lane.waits) {
                self.order(wait, number);
            }
        }
        let mut uses = Uses::new();
        let priority = around.uses(&task, &mut uses);
        // Writes first: one that also reads its storage comes after everything that a read would.
        for &(home, _) in uses.iter().filter(|(_, writes)| *writes) {
            let noted = self.storages.write(home, number);
            self.note(number, noted);
        }
        for &(home, _) in uses.iter().filter(|(_, writes)| !*writes) {
            let noted = self.storages.read(home, number);
            self.note(number, noted);
        }
        if priority != Priority::default() {
            self.nodes[number as usize].what = What::Urgent;
        }
        let content = &mut self.contents[number as usize];
        content.task = Some(task);
        (content.priority, content.launcher, content.within) = (priority, launcher, within);
        self.release(number);
    }

    /// A node uses a storage, and comes after what the storage says.
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

    /// One of those that a node comes after has completed.
    #[inline]
    fn release(&mut self, number: u32) {
        let node = &mut self.nodes[number as usize];
        node.open -= 1;
        if node.open == 0 {
            match node.what {
                What::Work => self.ready.push(Priority::default(), number),
                What::Urgent => self.ready.push(self.contents[number as usize].priority, number),
                What::Place | What::Wait => self.settled.push(number),
            }
        }
    }

    /// Goes on with what needs nobody to run it.
    #[inline]
    fn settle(&mut self, around: &impl Around) {
        while let Some(number) = self.settled.pop() {
            let node = &self.nodes[number as usize];
            let lane = self.lanes[usize::from(node.lane)].id;
            if node.what == What::Wait
                && let Some((point, mark)) = self.contents[number as usize].until
                && around.is_awaited(lane, point, mark)
            {
                self.awaited.push(number);
            } else {
                self.finish(number, around);
            }
        }
    }

    fn finish(&mut self, number: u32, around: &impl Around) {
        let node = &mut self.nodes[number as usize];
        let (at, what) = (usize::from(node.lane), node.what);
        let place = node.has_place.then_some(node.place);
        let (mut after, mut noted) =
            (std::mem::take(&mut node.after), std::mem::take(&mut node.noted));
        for entry in noted.drain(..) {
            if let Some(writer) = self.storages.take_back(number, entry) {
                self.release(writer);
            }
        }
        for later in after.drain(..) {
            self.release(later);
        }
        // What was grown is kept.
        let node = &mut self.nodes[number as usize];
        (node.after, node.noted) = (after, noted);
        self.free.push(number);
        self.live -= 1;
        self.finished += 1;
        let lane = &mut self.lanes[at];
        if what == What::Wait {
            if lane.gate == number {
                lane.gate = NONE;
            }
            lane.waits.retain(|wait| *wait != number);
        }
        let Some(place) = place else { return };
        lane.order[place.wrapping_sub(lane.first) as usize].1 = true;
        if place == lane.first {
            let mut passed = 0;
            while let Some((seq, true)) = lane.order.front() {
                passed = *seq;
                lane.order.pop_front();
                lane.first = lane.first.wrapping_add(1);
            }
            around.passed(lane.id, passed);
        }
    }
}
