//! From nested events of host threads to segments that follow each other.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::recording::{HostEvent, HostKind, Name, Recording};

/// A part of an event during which none that it calls runs. The segments of a thread follow each
/// other, so that a thread is a stream of the profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The event, by its position in [`Recording::host`].
    pub(super) event: u32,
    pub(super) start: i64,
    pub(super) end: i64,
    /// The events around it.
    pub(super) path: u32,
    /// Whether the thread waits, rather than works.
    pub(super) waits: bool,
}

/// The events around an event: a linked list of names, shared by all events with the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    known: HashMap<(u32, Name), u32>,
    all: Vec<(u32, Name)>,
}

/// The most events around one that its place lists.
const DEEPEST: usize = 32;

/// The path around the outermost events.
pub(super) const OUTERMOST: u32 = u32::MAX;

impl Paths {
    fn below(&mut self, path: u32, name: Name) -> u32 {
        *self.known.entry((path, name)).or_insert_with(|| {
            self.all.push((path, name));
            self.all.len() as u32 - 1
        })
    }

    /// Returns the names from the innermost to the outermost.
    pub(crate) fn names<'a>(
        &'a self,
        path: u32,
        names: &'a [String],
    ) -> impl Iterator<Item = &'a str> {
        let at = |path: u32| self.all.get(path as usize);
        let all = std::iter::successors(at(path), move |(outer, _)| at(*outer));
        all.map(|(_, name)| names[*name as usize].as_str())
    }

    /// Returns the names from the outermost to the innermost: `aten::linear > aten::addmm`. The
    /// outer ones of many are left out: each event below them has a text, so that all names would
    /// take the square.
    pub(super) fn text(&self, path: u32, names: &[String]) -> String {
        let mut parts: Vec<&str> = self.names(path, names).take(DEEPEST + 1).collect();
        if parts.len() > DEEPEST {
            parts[DEEPEST] = "…";
        }
        parts.reverse();
        parts.join(" > ")
    }
}

/// The segments of all threads.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Sorted by thread and time, but for the second halves of calls that wait for their copies.
    pub(super) segments: Vec<Segment>,
    pub(super) paths: Paths,
    /// The path around each event, by position in [`Recording::host`].
    pub(super) around: Vec<u32>,
    /// The functions of the program's source.
    pub(super) functions: Paths,
    /// The path of functions around each event, by position in [`Recording::host`].
    pub(super) called: Vec<u32>,
    /// The op around each event, or [`OUTERMOST`].
    pub(super) inside: Vec<u32>,
    /// The first segment of each call with a correlation number: of several, of the innermost.
    pub(super) calls: HashMap<u64, u32>,
    /// For the first segment of a backward op, the arrows to it: the arrow's name, and the last
    /// segment of the forward op.
    pub(super) followed: HashMap<u32, Vec<(Name, u32)>>,
}

/// An event that has begun.
struct Open {
    event: u32,
    end: i64,
    /// The path of the events that it calls.
    below: u32,
    /// Their path of functions.
    functions: u32,
    has_segment: bool,
}

/// A thread's segments while they are made.
struct Cutting<'a> {
    recording: &'a Recording,
    host: &'a mut Host,
    open: Vec<Open>,
    /// The end of the last segment.
    done: i64,
    /// The unit of the file's times.
    unit: i64,
}

/// Cuts the events of all threads into segments. `order` lists the positions of the events.
pub(super) fn segments(recording: &Recording) -> Host {
    let mut order: Vec<u32> = (0..recording.host.len() as u32).collect();
    let event = |k: u32| &recording.host[k as usize];
    // What begins first and ends last is around the others.
    order.sort_by_key(|&k| {
        let HostEvent { thread, start, end, kind, index, .. } = event(k);
        let inner = u8::from(*kind == HostKind::Call);
        (*thread, *start, Reverse(*end), inner, *index)
    });
    let is_whole = |event: &HostEvent| event.start % 1000 == 0 && event.end % 1000 == 0;
    let unit = if recording.host.iter().all(is_whole) { 1000 } else { 1 };
    let none = || vec![OUTERMOST; recording.host.len()];
    let mut host = Host { around: none(), inside: none(), called: none(), ..Host::default() };
    for thread in order.chunk_by(|&a, &b| event(a).thread == event(b).thread) {
        let (host, open, done) = (&mut host, Vec::new(), i64::MIN);
        let mut cutting = Cutting { recording, host, open, done, unit };
        for &k in thread {
            cutting.begin(k);
        }
        cutting.end_before(i64::MAX);
    }
    for (k, segment) in host.segments.iter().enumerate() {
        let HostEvent { correlation, kind, .. } = *event(segment.event);
        if kind == HostKind::Call && correlation != 0 {
            let known = host.calls.entry(correlation).or_insert(k as u32);
            // An inner call has the same number.
            if host.segments[*known as usize].event != segment.event {
                *known = k as u32;
            }
        }
    }
    host.followed = followed(recording, &host.segments);
    host
}

/// Returns the first segments of backward ops, each with the arrows to it, as far as the times
/// allow them. Segments are sorted by thread and time.
fn followed(recording: &Recording, segments: &[Segment]) -> HashMap<u32, Vec<(Name, u32)>> {
    let mut ends: HashMap<(u32, i64), i64> = HashMap::new();
    ends.extend(recording.arrows.iter().map(|arrow| (arrow.from, i64::MIN)));
    for event in recording.host.iter().filter(|event| event.kind == HostKind::Op) {
        if let Some(end) = ends.get_mut(&(event.thread, event.start)) {
            *end = event.end.max(*end);
        }
    }
    let thread = |s: &Segment| recording.host[s.event as usize].thread;
    let mut pairs: HashMap<u32, Vec<(Name, u32)>> = HashMap::new();
    for arrow in &recording.arrows {
        let (of, end) = (arrow.from.0, ends[&arrow.from]);
        let ended = segments.partition_point(|s| (thread(s), s.end) <= (of, end));
        let first = segments.partition_point(|s| (thread(s), s.start) < arrow.to);
        let Some(from) = ended.checked_sub(1) else { continue };
        let Some(to) = segments.get(first) else { continue };
        let before = &segments[from];
        if thread(before) == of && thread(to) == arrow.to.0 && before.end <= to.start {
            pairs.entry(first as u32).or_default().push((arrow.name, from as u32));
        }
    }
    pairs
}

impl Cutting<'_> {
    fn begin(&mut self, k: u32) {
        let recording = self.recording;
        let event = &recording.host[k as usize];
        // Times are rounded: what seems to end just after this event began, and long before it
        // ends, is not around it but before it.
        for open in &mut self.open {
            let is_before = open.end <= event.start + self.unit && event.end > open.end + self.unit;
            open.end = if is_before { open.end.min(event.start) } else { open.end };
        }
        self.end_before(event.start);
        self.cut(event.start);
        let path = self.open.last().map_or(OUTERMOST, |open| open.below);
        self.host.around[k as usize] = path;
        let functions = self.open.last().map_or(OUTERMOST, |open| open.functions);
        self.host.called[k as usize] = functions;
        let is_op = |open: &&Open| recording.host[open.event as usize].kind == HostKind::Op;
        let op = self.open.iter().rev().find(is_op);
        self.host.inside[k as usize] = op.map_or(OUTERMOST, |open| open.event);
        // Times are rounded: an event may seem to end after the one around it.
        let end = self.open.last().map_or(event.end, |open| event.end.min(open.end));
        let below = match event.kind {
            // A source place is enough of a function's callers.
            HostKind::Function => self.host.paths.below(OUTERMOST, event.name),
            HostKind::Op => self.host.paths.below(path, event.name),
            HostKind::Call => path,
        };
        let functions = match event.kind {
            HostKind::Function => self.host.functions.below(functions, event.name),
            HostKind::Op | HostKind::Call => functions,
        };
        self.done = self.done.max(event.start);
        let end = end.max(event.start);
        self.open.push(Open { event: k, end, below, functions, has_segment: false });
    }

    /// Ends the open events that end by a time.
    fn end_before(&mut self, time: i64) {
        while let Some(open) = self.open.last().filter(|open| open.end <= time) {
            let end = open.end;
            self.cut(end);
            let Some(open) = self.open.pop() else { return };
            // A call without a duration is a place where streams are submitted to.
            let is_call = self.recording.host[open.event as usize].kind == HostKind::Call;
            if is_call && !open.has_segment {
                self.push(open.event, end, end);
            }
        }
    }

    /// Ends the segment of the innermost open event at a time.
    fn cut(&mut self, time: i64) {
        let Some(open) = self.open.last_mut() else { return };
        let event = open.event;
        let is_function = self.recording.host[event as usize].kind == HostKind::Function;
        if time > self.done && !is_function {
            open.has_segment = true;
            let done = self.done;
            self.push(event, done, time);
        }
        self.done = self.done.max(time);
    }

    fn push(&mut self, event: u32, start: i64, end: i64) {
        let path = self.host.around[event as usize];
        self.host.segments.push(Segment { event, start, end, path, waits: false });
    }
}
