//! How long a list would take on a device that is not here: a timeline and its critical path, from
//! a cost model.
//!
//! # Rules
//! 1. A stream runs its instructions one after the other, and other streams beside them at full
//!    speed: nothing is shared. So a prediction is a lower bound where streams compete.
//! 2. An op takes its launch and then the longer of two times: that of its operations, and that of
//!    its operands' bytes through the device's memory. A copy to or from the device takes its
//!    launch and its bytes over the link, and so does a read by the host.
//! 3. Records, waits and barriers take no time. A wait ends when its point has completed.
//! 4. The host submits in no time, but goes on after a wait of its own only when that has ended.
//! 5. Time is counted in whole picoseconds.
//!
//! What a stored list takes and what a function of the host's takes is not in the list: both count
//! as nothing, and [`Prediction::unknown`] says how many there were.

mod cost;
pub mod model;

use std::collections::HashMap;

use millstream_instructions::{Body, Effect, InstructionList, Operand, StreamDecl};
use millstream_types::{Point, TensorId, TensorSpec, WorkKind, WorkSet};

pub use model::{DeviceCosts, Model};

use model::picoseconds;

/// An instruction on the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which instruction of the list it is.
    pub index: usize,
    /// Its op or kind.
    pub name: String,
    /// The number of its stream in the list.
    pub stream: usize,
    /// When it begins, in picoseconds.
    pub start: u64,
    /// When it has completed.
    pub end: u64,
    /// The span that it begins after, by its place in the timeline.
    after: Option<usize>,
}

/// What a list would take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Every instruction with a place on a stream, in the order of the list.
    pub timeline: Vec<Span>,
    /// The spans that nothing but one another hold up, from the start to the end, by their places
    /// in the timeline. Those that take no time are left out.
    pub critical: Vec<usize>,
    /// How long it takes in all, in picoseconds.
    pub total: u64,
    /// How many instructions take a time that the list does not tell.
    pub unknown: usize,
}

/// What has been predicted of one stream.
#[derive(Default)]
struct Track {
    /// Its spans by sequence number, the first at 0. A record that another stream's
    /// `StreamWait` brings along is the span before it.
    spans: Vec<Option<usize>>,
    /// What its next instruction begins after, beside its last one.
    gate: Option<usize>,
}

struct Predicting<'a> {
    list: &'a InstructionList,
    model: &'a Model,
    specs: HashMap<TensorId, TensorSpec>,
    tracks: Vec<Track>,
    made: Prediction,
    /// The span that the host has waited for.
    host: Option<usize>,
}

/// Predicts what a list takes.
///
/// # Errors
/// The model lacks a kind of device that the list uses.
pub fn predict(list: &InstructionList, model: &Model) -> Result<Prediction, String> {
    let mut predicting = Predicting {
        list,
        model,
        specs: list.externals.iter().map(|e| (e.tensor, e.spec.clone())).collect(),
        tracks: list.streams.iter().map(|_| Track::default()).collect(),
        made: Prediction::default(),
        host: None,
    };
    for index in 0..list.instructions.len() {
        predicting.instruction(index)?;
    }
    let mut made = predicting.made;
    made.total = made.timeline.iter().map(|s| s.end).max().unwrap_or(0);
    let mut at = made.timeline.iter().rposition(|s| s.end == made.total);
    while let Some(k) = at {
        let span = &made.timeline[k];
        if span.end > span.start {
            made.critical.push(k);
        }
        at = span.after;
    }
    made.critical.reverse();
    Ok(made)
}

impl Predicting<'_> {
    fn end(&self, span: Option<usize>) -> u64 {
        span.map_or(0, |k| self.made.timeline[k].end)
    }

    /// The later of two spans; the first if they end together.
    fn later(&self, a: Option<usize>, b: Option<usize>) -> Option<usize> {
        match (a, b) {
            (Some(_), Some(_)) => {
                if self.end(b) > self.end(a) {
                    b
                } else {
                    a
                }
            }
            (a, b) => a.or(b),
        }
    }

    /// The span that has completed when a point has.
    fn at(&self, point: Point) -> Option<usize> {
        let spans = &self.tracks.get(point.stream.index())?.spans;
        let upto = spans.len().min(point.seq as usize);
        spans[..upto].iter().rev().find_map(|s| *s)
    }

    fn last(&self, stream: usize) -> Option<usize> {
        self.tracks[stream].spans.iter().rev().find_map(|s| *s)
    }

    fn instruction(&mut self, index: usize) -> Result<(), String> {
        let body = &self.list.instructions[index].body;
        if let Some((tensor, spec)) = body.begins() {
            self.specs.insert(tensor, spec.clone());
        }
        if let Body::HostObserved { points } = body {
            for &point in points {
                self.host = self.later(self.host, self.at(point));
            }
        }
        let Some(at) = body.at() else { return Ok(()) };
        let stream = at.stream.index();
        if stream >= self.tracks.len() {
            return Err(format!("instruction {index} runs on s{stream}, which is not declared"));
        }
        let (name, takes) = self.takes(body, stream)?;
        let gate = self.tracks[stream].gate.take();
        let mut after = self.later(self.last(stream), gate);
        after = self.later(after, self.host);
        if let Some(until) = body.until() {
            after = self.later(after, self.at(until));
        }
        let fences = body.effect() == Effect::Fences;
        if fences {
            for other in 0..self.tracks.len() {
                after = self.later(after, self.last(other));
            }
        }
        let start = self.end(after);
        let place = self.made.timeline.len();
        self.made.timeline.push(Span { index, name, stream, start, end: start + takes, after });
        let spans = &mut self.tracks[stream].spans;
        spans.resize(spans.len().max(at.seq as usize), None);
        spans[at.seq as usize - 1] = Some(place);
        if fences {
            for track in &mut self.tracks {
                track.gate = Some(place);
            }
        }
        Ok(())
    }

    /// What an instruction is called, and how long it takes.
    fn takes(&mut self, body: &Body, stream: usize) -> Result<(String, u64), String> {
        let StreamDecl { key, work, .. } = &self.list.streams[stream];
        let kind = key.device.kind();
        let costs = |kind: &str| {
            self.model.devices.get(kind).ok_or_else(|| {
                let (model, has) = (&self.model.name, self.model.devices.keys());
                let has = has.map(String::as_str).collect::<Vec<_>>().join(" and ");
                format!("the model '{model}' has no devices of kind {kind}, only {has}")
            })
        };
        let spec = |o: &&Operand| self.specs.get(&o.tensor);
        let name = body.kind().name();
        Ok(match body {
            Body::OpCall { op, operands, .. } => {
                let costs = costs(kind)?;
                let read = operands.iter().filter(|o| o.access.reads());
                let read: Vec<&TensorSpec> = read.filter_map(|o| spec(&o)).collect();
                let written = operands.iter().filter(|o| o.access.writes());
                let written: Vec<&TensorSpec> = written.filter_map(|o| spec(&o)).collect();
                let bytes = |specs: &[&TensorSpec]| -> u64 {
                    specs.iter().map(|s| (s.numel() * s.dtype.size()) as u64).sum()
                };
                let op = self.list.ops.name(*op);
                // A stream that only copies moves bytes between the host and the device.
                let only = |kind: WorkKind| *work == WorkSet::of(&[kind]);
                let work = if only(WorkKind::CopyIn) {
                    picoseconds(bytes(&read), costs.from_host_gb_s)
                } else if only(WorkKind::CopyOut) {
                    picoseconds(bytes(&read), costs.to_host_gb_s)
                } else {
                    let moved = bytes(&read) + bytes(&written);
                    let dtype = written.first().or(read.first()).map(|s| s.dtype);
                    let flops = cost::flops(op, &read, &written);
                    let computing = dtype.map_or(0, |d| costs.computing(flops, d));
                    picoseconds(moved, costs.memory_gb_s).max(computing)
                };
                (op.to_owned(), costs.launch() + work)
            }
            Body::SyncRead { operand, .. } => {
                let costs = costs(kind)?;
                let bytes = spec(&operand).map_or(0, |s| (s.numel() * s.dtype.size()) as u64);
                let rate = if kind == "cpu" { costs.memory_gb_s } else { costs.to_host_gb_s };
                (name.to_owned(), costs.launch() + picoseconds(bytes, rate))
            }
            Body::AccessBlobByCallback { .. } | Body::LazyJobLauncher { .. } => {
                self.made.unknown += 1;
                (name.to_owned(), 0)
            }
            Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::TouchTensors { .. }
            | Body::SoftSyncStream { .. }
            | Body::RecordEvent { .. }
            | Body::StreamWaitEvent { .. }
            | Body::StreamWait { .. }
            | Body::Barrier { .. }
            | Body::GlobalSync { .. }
            | Body::HostObserved { .. }
            | Body::CriticalSectionBegin { .. }
            | Body::CriticalSectionEnd { .. } => (name.to_owned(), 0),
        })
    }
}
