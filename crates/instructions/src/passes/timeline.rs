//! The time that a list takes, instruction by instruction, if each takes a known time.
//!
//! # Rules
//! 1. A stream runs its instructions one after another, a pool too. Streams run side by side at
//!    full speed and share nothing, so the time is a lower bound where streams compete.
//! 2. A wait begins when its point has completed.
//! 3. The host submits in no time. After a host wait it continues when the wait has ended.

use smallvec::SmallVec;

use millstream_types::{Point, TensorSpec};

use crate::instruction::{Class, Operand};

use crate::passes::cost::CostModel;
use crate::passes::facts::Facts;
use crate::table::Body;

/// An instruction on a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// The time at which it begins.
    pub(super) start: u64,
    /// The time at which it has completed.
    pub(super) end: u64,
    /// All intervals that must end before this one begins, except those that others of these come
    /// after.
    pub(super) before: SmallVec<[usize; 3]>,
}

/// The intervals of one stream.
#[derive(Clone, Default)]
struct Track {
    /// The sequence number and the interval of each instruction. The record that another stream's
    /// `StreamWait` adds to this stream has no interval.
    intervals: Vec<(u64, usize)>,
    /// The interval that the next instruction begins after, besides the stream's last one.
    gate: Option<usize>,
}

/// The intervals of a list so far.
struct Intervals {
    all: Vec<Interval>,
    tracks: Vec<Track>,
    /// The last interval that the host has waited for.
    host: Option<usize>,
}

impl Intervals {
    fn end(&self, interval: Option<usize>) -> u64 {
        interval.map_or(0, |k| self.all[k].end)
    }

    /// Returns the interval that ends later; the first if both end together.
    fn later(&self, a: Option<usize>, b: Option<usize>) -> Option<usize> {
        match (a, b) {
            (Some(_), Some(_)) if self.end(b) > self.end(a) => b,
            (a, b) => a.or(b),
        }
    }

    /// Returns the interval that has ended when `point` has completed.
    fn at(&self, point: Point) -> Option<usize> {
        let track = &self.tracks.get(point.stream.index())?.intervals;
        let upto = track.partition_point(|(seq, _)| *seq <= point.seq);
        track[..upto].last().map(|(_, k)| *k)
    }

    fn last(&self, stream: usize) -> Option<usize> {
        self.tracks[stream].intervals.last().map(|(_, k)| *k)
    }
}

/// Returns the timeline of a list by a cost model, in nanoseconds: every instruction with a point,
/// in the order of the list. Its streams are declared: the facts of a list check that.
pub(super) fn by_costs(facts: &Facts<'_>, costs: &dyn CostModel) -> Vec<Interval> {
    let list = facts.list;
    let tracks = vec![Track::default(); list.streams.len()];
    let mut made = Intervals { all: Vec::new(), tracks, host: None };
    for instruction in &list.instructions {
        let body = &instruction.body;
        if body.class() == Class::Observes {
            for &point in body.awaited() {
                made.host = made.later(made.host, made.at(point));
            }
        }
        let Some(at) = body.at() else { continue };
        let stream = at.stream.index();
        let takes = time(facts, costs, body);
        let gate = made.tracks[stream].gate.take();
        let until = body.until().and_then(|until| made.at(until));
        let mut before: SmallVec<[usize; 3]> = SmallVec::new();
        before.extend([made.last(stream), gate, made.host, until].into_iter().flatten());
        let fences = body.class() == Class::Fences;
        if fences {
            before.extend((0..made.tracks.len()).filter_map(|other| made.last(other)));
        }
        let start = before.iter().map(|k| made.all[*k].end).max().unwrap_or(0);
        let interval = made.all.len();
        let end = start + takes;
        made.all.push(Interval { start, end, before });
        made.tracks[stream].intervals.push((at.seq, interval));
        if fences {
            for track in &mut made.tracks {
                track.gate = Some(interval);
            }
        }
    }
    made.all
}

/// Returns the time at which a timeline ends.
pub(super) fn makespan(timeline: &[Interval]) -> u64 {
    timeline.iter().map(|i| i.end).max().unwrap_or(0)
}

/// Returns the latest time at which each interval may begin if the timeline is not to end later.
pub(super) fn latest_starts(timeline: &[Interval]) -> Vec<u64> {
    let mut starts = vec![makespan(timeline); timeline.len()];
    for (k, interval) in timeline.iter().enumerate().rev() {
        starts[k] -= interval.end - interval.start;
        for &before in &interval.before {
            starts[before] = starts[before].min(starts[k]);
        }
    }
    starts
}

/// Returns the time of an instruction, in nanoseconds. Reads, functions of the program's and other
/// lists count as calls of their kind's name.
pub(super) fn time(facts: &Facts<'_>, costs: &dyn CostModel, body: &Body) -> u64 {
    let name = match body.class() {
        Class::Computes => body.op().map_or(body.kind().name(), |op| facts.list.ops.name(op)),
        Class::Waits => return costs.wait(),
        Class::Begins
        | Class::Ends
        | Class::Orders
        | Class::Records
        | Class::Fences
        | Class::Observes
        | Class::Annotates => return 0,
    };
    let spec = |o: &Operand| facts.tensor(o.tensor).spec;
    let reads = body.operands().iter().filter(|o| o.access.reads()).map(spec);
    let reads: SmallVec<[&TensorSpec; 4]> = reads.collect();
    let writes = body.operands().iter().filter(|o| o.access.writes()).map(spec);
    let writes: SmallVec<[&TensorSpec; 4]> = writes.collect();
    costs.call(name, &reads, &writes)
}
