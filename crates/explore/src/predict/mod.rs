//! Predicts the time that a list takes on a device that is absent: a timeline and its critical
//! path, from a cost model.
//!
//! # Rules
//! 1. A stream runs its instructions one after another. Streams run side by side at full speed and
//!    share nothing, so a prediction is a lower bound where streams compete.
//! 2. An op takes its launch and the longer of two times: the time of its operations, and the time
//!    of its operands' bytes through the device's memory. A copy to or from the device, and a read
//!    by the host, take a launch and the time of their bytes over the link.
//! 3. Records, waits and barriers take no time. A wait ends when its point has completed.
//! 4. The host submits in no time. After a host wait it continues when the wait has ended.
//! 5. Time is counted in whole picoseconds.
//!
//! A list contains neither the time of a launch nor the time of a host function. Both count as
//! zero, and [`Prediction::unknown`] counts the instructions of both kinds.

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
    /// The index of the instruction in the list.
    pub index: usize,
    /// The name of its op or kind.
    pub name: String,
    /// The number of its stream in the list.
    pub stream: usize,
    /// The time at which it begins, in picoseconds.
    pub start: u64,
    /// The time at which it has completed, in picoseconds.
    pub end: u64,
    /// The span that ends last before this one may begin, as an index into the timeline.
    after: Option<usize>,
}

/// The predicted time of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// Every instruction with a point, in the order of the list.
    pub timeline: Vec<Span>,
    /// The critical path, from the start to the end, as indices into the timeline: each span waits
    /// only for the one before it. Spans that take no time are left out.
    pub critical: Vec<usize>,
    /// The time of the whole list, in picoseconds.
    pub total: u64,
    /// The number of instructions whose time the list does not contain.
    pub unknown: usize,
}

/// The predicted spans of one stream.
#[derive(Default)]
struct Track {
    /// The spans by sequence number, the first at 0. The record that another stream's `StreamWait`
    /// adds to this stream has no span.
    spans: Vec<Option<usize>>,
    /// The span that the next instruction begins after, besides the stream's last one.
    gate: Option<usize>,
}

struct Predictor<'a> {
    list: &'a InstructionList,
    model: &'a Model,
    specs: HashMap<TensorId, TensorSpec>,
    tracks: Vec<Track>,
    prediction: Prediction,
    /// The last span that the host has waited for.
    host: Option<usize>,
}

/// Predicts the time that a list takes.
///
/// # Errors
/// Fails if the model lacks a kind of device that the list uses.
pub fn predict(list: &InstructionList, model: &Model) -> Result<Prediction, String> {
    let mut predictor = Predictor {
        list,
        model,
        specs: list.externals.iter().map(|e| (e.tensor, e.spec.clone())).collect(),
        tracks: list.streams.iter().map(|_| Track::default()).collect(),
        prediction: Prediction::default(),
        host: None,
    };
    for index in 0..list.instructions.len() {
        predictor.instruction(index)?;
    }
    let mut prediction = predictor.prediction;
    prediction.total = prediction.timeline.iter().map(|s| s.end).max().unwrap_or(0);
    let mut at = prediction.timeline.iter().rposition(|s| s.end == prediction.total);
    while let Some(k) = at {
        let span = &prediction.timeline[k];
        if span.end > span.start {
            prediction.critical.push(k);
        }
        at = span.after;
    }
    prediction.critical.reverse();
    Ok(prediction)
}

impl Predictor<'_> {
    fn end(&self, span: Option<usize>) -> u64 {
        span.map_or(0, |k| self.prediction.timeline[k].end)
    }

    /// Returns the span that ends later; the first if both end together.
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

    /// Returns the span that has completed when `point` has.
    fn span_of(&self, point: Point) -> Option<usize> {
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
                self.host = self.later(self.host, self.span_of(point));
            }
        }
        let Some(at) = body.at() else { return Ok(()) };
        let stream = at.stream.index();
        if stream >= self.tracks.len() {
            return Err(format!("instruction {index} runs on s{stream}, which is not declared"));
        }
        let (name, takes) = self.name_and_time(body, stream)?;
        let gate = self.tracks[stream].gate.take();
        let mut after = self.later(self.last(stream), gate);
        after = self.later(after, self.host);
        if let Some(until) = body.until() {
            after = self.later(after, self.span_of(until));
        }
        let fences = body.effect() == Effect::Fences;
        if fences {
            for other in 0..self.tracks.len() {
                after = self.later(after, self.last(other));
            }
        }
        let start = self.end(after);
        let span = self.prediction.timeline.len();
        self.prediction.timeline.push(Span {
            index,
            name,
            stream,
            start,
            end: start + takes,
            after,
        });
        let spans = &mut self.tracks[stream].spans;
        spans.resize(spans.len().max(at.seq as usize), None);
        spans[at.seq as usize - 1] = Some(span);
        if fences {
            for track in &mut self.tracks {
                track.gate = Some(span);
            }
        }
        Ok(())
    }

    /// Returns the name of an instruction and the time that it takes.
    fn name_and_time(&mut self, body: &Body, stream: usize) -> Result<(String, u64), String> {
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
                self.prediction.unknown += 1;
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
