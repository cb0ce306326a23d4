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
//! 6. A launch of an executable takes the time of the executable's list.
//!
//! A list does not contain the time of a host function. It counts as zero, and
//! [`Prediction::unknown`] counts such instructions.

pub mod model;
mod profile;

use std::collections::HashMap;

use millstream_instructions::passes::timeline::{Interval, timeline};
use millstream_instructions::{Body, Class, InstructionList, StreamDecl};
use millstream_types::{Access, Point, TensorId, TensorSpec};

pub use model::{DeviceCosts, Model};
pub use profile::profile;

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
    /// The predictions of the lists of the executables that the list launches, by id.
    pub executables: Vec<Prediction>,
}

struct Predictor<'a> {
    list: &'a InstructionList,
    model: &'a Model,
    specs: HashMap<TensorId, TensorSpec>,
    names: Vec<String>,
    unknown: usize,
    executables: Vec<Prediction>,
}

/// Predicts the time that a list takes.
///
/// # Errors
/// Fails if the model lacks a kind of device that the list uses.
pub fn predict(list: &InstructionList, model: &Model) -> Result<Prediction, String> {
    let declared = |at: Point| at.stream.index() < list.streams.len();
    for (index, instruction) in list.instructions.iter().enumerate() {
        if let Some(at) = instruction.body.at().filter(|at| !declared(*at)) {
            let stream = at.stream;
            return Err(format!("instruction {index} runs on {stream}, which is not declared"));
        }
    }
    // The description of a tensor whose id is used again is that of its last owner so far.
    let mut predictor = Predictor {
        list,
        model,
        specs: list.externals.iter().map(|e| (e.tensor, e.spec.clone())).collect(),
        names: Vec::new(),
        unknown: 0,
        executables: list
            .executables
            .iter()
            .map(|l| predict(l, model))
            .collect::<Result<_, _>>()?,
    };
    let mut begun = 0;
    let intervals = timeline(list, |index, body| {
        for instruction in &list.instructions[begun..index] {
            if let Some((tensor, spec)) = instruction.body.begins() {
                predictor.specs.insert(tensor, spec.clone());
            }
        }
        begun = index;
        let stream = body.at().map_or(0, |at| at.stream.index());
        let (name, takes) = predictor.name_and_time(body, stream)?;
        predictor.names.push(name);
        Ok::<u64, String>(takes)
    })?;
    let Predictor { names, unknown, executables, .. } = predictor;
    let total = intervals.iter().map(|i| i.end).max().unwrap_or(0);
    let mut critical = Vec::new();
    let mut at = intervals.iter().rposition(|i| i.end == total);
    while let Some(k) = at {
        let interval = &intervals[k];
        if interval.end > interval.start {
            critical.push(k);
        }
        at = interval.after;
    }
    critical.reverse();
    let span = |(Interval { index, stream, start, end, .. }, name)| Span {
        index,
        name,
        stream,
        start,
        end,
    };
    let timeline = intervals.into_iter().zip(names).map(span).collect();
    Ok(Prediction { timeline, critical, total, unknown, executables })
}

impl Predictor<'_> {
    /// Returns the name of an instruction and the time that it takes.
    fn name_and_time(&mut self, body: &Body, stream: usize) -> Result<(String, u64), String> {
        let StreamDecl { key, work, .. } = &self.list.streams[stream];
        let kind = key.device.kind();
        let name = body.kind().name();
        let uses = |is_used: fn(Access) -> bool| -> Vec<&TensorSpec> {
            let used = body.operands().iter().filter(|o| is_used(o.access));
            used.filter_map(|o| self.specs.get(&o.tensor)).collect()
        };
        Ok(match body {
            Body::OpCall { op, .. } => {
                let op = self.list.ops.name(*op);
                let (read, written) = (uses(Access::reads), uses(Access::writes));
                (op.to_owned(), self.model.of(kind)?.call(op, *work, &read, &written))
            }
            Body::SyncRead { .. } => {
                (name.to_owned(), self.model.of(kind)?.read(kind, &uses(Access::reads)))
            }
            Body::LazyJobLauncher { list, .. } => {
                let inner = self.executables.get(list.index());
                let inner = inner.ok_or_else(|| format!("{list} is not declared"))?;
                self.unknown += inner.unknown;
                (name.to_owned(), inner.total)
            }
            _ => {
                // Functions of the program's.
                self.unknown += usize::from(body.class() == Class::Computes);
                (name.to_owned(), 0)
            }
        })
    }
}
