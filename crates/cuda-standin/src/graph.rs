//! Captures of streams, graphs, and executable graphs.
//!
//! # Rules
//! 1. A stream takes part in a capture from [`begin`], or from its first wait for an event of the
//!    capture, until the capture ends. Its commands become nodes and do not run.
//! 2. A node depends on the nodes before it on its stream, and on those before the events that the
//!    stream waits for.
//! 3. A call that is illegal while capturing invalidates the capture: every later call that needs
//!    the capture fails, and its end returns no graph.
//! 4. A graph keeps no memory. Its launch checks that the memory of each node still exists.
//! 5. Launches of one executable graph run one after another. It is neither updated nor destroyed
//!    while a launch is outstanding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::ThreadId;

use crate::code;
use crate::memory::{Range, WeakRange};
use crate::state::{DriverResult, State};
use crate::stream::Command;

/// The threads that an active capture keeps from unsafe calls: `CUstreamCaptureMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

/// A node of a graph.
#[derive(Clone)]
pub(crate) struct Node {
    /// The nodes that run before it, by position.
    pub(crate) after: Vec<usize>,
    pub(crate) command: Command,
    ranges: Vec<WeakRange>,
}

/// The nodes of a graph. A node comes after those that it depends on.
pub(crate) type Nodes = Arc<Vec<Node>>;

/// A capture under way.
pub(crate) struct Capture {
    mode: Mode,
    thread: ThreadId,
    origin: u64,
    nodes: Vec<Node>,
    /// For each stream that takes part, the nodes that its next one depends on.
    streams: BTreeMap<u64, BTreeSet<usize>>,
    pub(crate) is_invalid: bool,
}

/// The position of an event that was recorded in a capture.
#[derive(Clone)]
pub(crate) struct CapturedRecord {
    capture: u64,
    nodes: BTreeSet<usize>,
}

/// A graph.
pub(crate) struct Graph {
    pub(crate) name: String,
    pub(crate) nodes: Nodes,
}

/// An executable graph.
pub(crate) struct GraphExec {
    pub(crate) name: String,
    pub(crate) nodes: Nodes,
    pub(crate) launched: u64,
    pub(crate) completed: u64,
}

impl GraphExec {
    pub(crate) fn is_in_flight(&self) -> bool {
        self.launched > self.completed
    }
}

/// Begins a capture on a stream.
pub(crate) fn begin(state: &mut State, stream: u64, mode: Mode) {
    let id = state.handle();
    let thread = std::thread::current().id();
    let streams = BTreeMap::from([(stream, BTreeSet::new())]);
    let capture =
        Capture { mode, thread, origin: stream, nodes: Vec::new(), streams, is_invalid: false };
    state.captures.insert(id, capture);
}

/// Returns the capture that a stream takes part in.
pub(crate) fn of_stream(state: &State, stream: u64) -> Option<u64> {
    state.captures.iter().find(|(_, c)| c.streams.contains_key(&stream)).map(|(id, _)| *id)
}

/// Invalidates a capture, because of `what`.
///
/// # Errors
/// Always: `code`.
pub(crate) fn invalidate<T>(state: &mut State, id: u64, what: &str, code: u32) -> DriverResult<T> {
    if let Some(capture) = state.captures.get_mut(&id) {
        capture.is_invalid = true;
    }
    state.violation(what, code)
}

/// Refuses a call for a stream that takes part in a capture.
///
/// # Errors
/// The stream takes part in a capture, which is invalid from now on.
pub(crate) fn refuse(state: &mut State, stream: u64) -> DriverResult<()> {
    let Some(id) = of_stream(state, stream) else { return Ok(()) };
    let what = "the stream takes part in a capture";
    invalidate(state, id, what, code::STREAM_CAPTURE_UNSUPPORTED)
}

/// Refuses a call that can wait for the device, or change what a capture relies on.
///
/// # Errors
/// A capture forbids it to this thread. The capture is invalid from now on.
pub(crate) fn refuse_unsafe(state: &mut State) -> DriverResult<()> {
    let thread = std::thread::current().id();
    let forbids = |capture: &Capture| match capture.mode {
        Mode::Global => true,
        Mode::ThreadLocal => capture.thread == thread,
        Mode::Relaxed => false,
    };
    let found = state.captures.iter().find(|(_, capture)| forbids(capture));
    let Some(id) = found.map(|(id, _)| *id) else { return Ok(()) };
    let what = "the call is illegal during a capture";
    invalidate(state, id, what, code::STREAM_CAPTURE_UNSUPPORTED)
}

/// Adds a command of a stream to the capture that the stream takes part in.
pub(crate) fn add(state: &mut State, id: u64, stream: u64, command: Command, ranges: &[Range]) {
    let Some(capture) = state.captures.get_mut(&id) else { return };
    let node = capture.nodes.len();
    let before = capture.streams.insert(stream, BTreeSet::from([node])).unwrap_or_default();
    let ranges = ranges.iter().map(Range::downgrade).collect();
    capture.nodes.push(Node { after: before.into_iter().collect(), command, ranges });
}

/// Returns the position of a stream in its capture, for an event that is recorded there.
pub(crate) fn record(state: &State, id: u64, stream: u64) -> CapturedRecord {
    let nodes = state.captures.get(&id).and_then(|c| c.streams.get(&stream)).cloned();
    CapturedRecord { capture: id, nodes: nodes.unwrap_or_default() }
}

/// Returns the capture of a record, if it has not ended.
pub(crate) fn active(state: &State, record: &CapturedRecord) -> Option<u64> {
    state.captures.contains_key(&record.capture).then_some(record.capture)
}

/// Makes a stream wait for an event, where one of both takes part in a capture. Returns false if
/// neither does.
///
/// # Errors
/// The wait would leave a capture, enter one from outside, or join two.
pub(crate) fn wait(
    state: &mut State,
    stream: u64,
    record: Option<CapturedRecord>,
) -> DriverResult<bool> {
    let own = of_stream(state, stream);
    let Some(record) = record else {
        let Some(own) = own else { return Ok(false) };
        let what = "a captured stream waits for an event from outside the capture";
        return invalidate(state, own, what, code::STREAM_CAPTURE_ISOLATION);
    };
    if active(state, &record).is_none() {
        let what = "the event was last recorded in a capture that has ended";
        return state.violation(what, code::CAPTURED_EVENT);
    }
    if let Some(own) = own.filter(|own| *own != record.capture) {
        let what = "the wait would join two captures";
        let _ = invalidate::<()>(state, own, what, code::STREAM_CAPTURE_MERGE);
        let other = record.capture;
        return invalidate(state, other, what, code::STREAM_CAPTURE_MERGE);
    }
    if let Some(capture) = state.captures.get_mut(&record.capture) {
        if capture.is_invalid {
            return Err(code::STREAM_CAPTURE_INVALIDATED);
        }
        capture.streams.entry(stream).or_default().extend(record.nodes);
    }
    Ok(true)
}

/// Ends the capture that began on `stream`, and returns its nodes.
///
/// # Errors
/// The stream has begun no capture; the capture is invalid; another thread has begun it; or a
/// stream has work that the first one does not wait for. All but the first end the capture.
pub(crate) fn end(state: &mut State, stream: u64) -> DriverResult<Vec<Node>> {
    let Some(id) = of_stream(state, stream) else {
        return state.violation("the stream does not capture", code::ILLEGAL_STATE);
    };
    if state.captures.get(&id).is_some_and(|capture| capture.origin != stream) {
        let what = "the capture began on another stream";
        return invalidate(state, id, what, code::STREAM_CAPTURE_UNMATCHED);
    }
    let Some(capture) = state.captures.remove(&id) else { return Err(code::ILLEGAL_STATE) };
    if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
        let what = "another thread began the capture";
        return state.violation(what, code::STREAM_CAPTURE_WRONG_THREAD);
    }
    if capture.is_invalid {
        return Err(code::STREAM_CAPTURE_INVALIDATED);
    }
    let mut joined: BTreeSet<usize> = capture.streams[&stream].clone();
    for (node, what) in capture.nodes.iter().enumerate().rev() {
        if joined.contains(&node) {
            joined.extend(&what.after);
        }
    }
    if joined.len() < capture.nodes.len() {
        // No violation: a capture that is given up may end like this.
        return Err(code::STREAM_CAPTURE_UNJOINED);
    }
    Ok(capture.nodes)
}

/// Returns whether an executable graph with the nodes `old` can be updated to `new`: the same kinds
/// of nodes with the same edges, and the same kernels.
pub(crate) fn can_update(old: &[Node], new: &[Node]) -> bool {
    let same = |(old, new): (&Node, &Node)| {
        old.after == new.after
            && match (&old.command, &new.command) {
                (Command::Kernel { name, .. }, Command::Kernel { name: other, .. }) => {
                    name == other
                }
                (old, new) => std::mem::discriminant(old) == std::mem::discriminant(new),
            }
    };
    old.len() == new.len() && old.iter().zip(new).all(same)
}

/// Returns the memory of all nodes, for a launch; none if a part of it was freed.
pub(crate) fn ranges(nodes: &[Node]) -> Option<Vec<Range>> {
    nodes.iter().flat_map(|node| &node.ranges).map(WeakRange::upgrade).collect()
}

/// Returns the order in which a launch runs its nodes: always the newest of those that can run, so
/// that a missing dependency shows.
pub(crate) fn order(nodes: &[Node]) -> Vec<usize> {
    let mut waits: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|node| waits[*node] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(node) = ready.pop_last() {
        order.push(node);
        for (later, what) in nodes.iter().enumerate().skip(node + 1) {
            if what.after.contains(&node) {
                waits[later] -= 1;
                if waits[later] == 0 {
                    ready.insert(later);
                }
            }
        }
    }
    order
}
