//! Graphs: the tapes of one device that are launched as one command.
//!
//! # Rules
//! 1. The first launch of an instance makes the calls of its tapes one by one. So kernels are
//!    compiled, and scratch memory and workspaces exist, which no capture may make. Once such a
//!    launch has ended without a failure, the next one captures its calls as a graph.
//! 2. A launch runs its graph only if no formal is poisoned and it is not cancelled. Otherwise it
//!    makes its calls one by one, as each may have to be skipped.
//! 3. All tapes of a graph take part in its launch: each is idle when the graph is launched, and
//!    none goes on before the graph has completed. So the graph is never in flight when it is
//!    captured or launched again, and nothing else uses the scratch memory of its streams.
//! 4. A graph holds the addresses and the floating-point numbers of one launch. An instance keeps
//!    [`MAX_GRAPHS`] graphs, since a program's launches repeat a few sets of addresses: memory that
//!    is freed and allocated anew, gradients that two tensors hold by turns. If a launch has none
//!    of them, its calls are captured: a new graph while there are fewer, else the one launched
//!    longest ago is updated in place, or replaced. The whole numbers of a launch are words that
//!    the graph's kernels read, so they need no other capture.
//! 5. After a refused capture the launch makes its calls one by one, and the next launch tries
//!    again: other addresses may need a kernel that no launch has used before. After
//!    [`MAX_REFUSALS`] refusals the instance makes all its calls one by one, as does a program
//!    whose tapes cannot be a graph. The reason is kept.

use std::fmt;
use std::sync::PoisonError;

use smallvec::SmallVec;

use millstream_ep::{Captured, Graph};
use millstream_types::DeviceId;

use crate::sync::{Mutex, MutexGuard};

use super::run::{Base, Run};
use super::tape::{Program, StepCall};

/// The number of refused captures after which an instance tries no more.
const MAX_REFUSALS: u32 = 3;

/// How many graphs an instance keeps for a plan.
const MAX_GRAPHS: usize = 4;

/// The tapes of one device, which are launched as a graph if they can be.
pub struct GraphPlan {
    pub device: DeviceId,
    pub tapes: SmallVec<[u16; 4]>,
    /// The capture; or the reason why the tapes cannot be a graph.
    pub capture: Result<CapturePlan, String>,
}

/// The capture of a graph.
pub struct CapturePlan {
    /// The steps of other tapes that the graph comes after: the tape, and its number of steps.
    pub before: Vec<(u16, u32)>,
    /// In an order that keeps that of each tape, and every wait after what it waits for.
    pub steps: Vec<CaptureStep>,
    /// How many positions the steps record.
    pub positions: usize,
    /// The bases of the launch that the calls use, in ascending order.
    pub bases: Vec<u32>,
    /// The floating-point numbers of the launch that the calls use, in ascending order.
    pub floats: Vec<u32>,
}

/// A step of a capture. The stream of the first tape begins and ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStep {
    /// Captures the call that is a step of a tape.
    Call { tape: u16, step: u32 },
    /// Records how far the stream of a tape has got.
    Record { tape: u16, position: u32 },
    /// Orders the stream of a tape after a recorded position.
    Wait { tape: u16, position: u32 },
}

impl CapturePlan {
    /// Returns what a graph of this launch keeps of it.
    pub(crate) fn given(&self, run: &Run) -> Given {
        let bases = self.bases.iter().filter_map(|base| run.bases.get(*base as usize));
        let floats = self.floats.iter().filter_map(|scalar| run.words.get(*scalar as usize));
        Given { bases: bases.copied().collect(), floats: floats.copied().collect() }
    }

    /// Returns whether the graph keeps all numbers that the launch gives a call. A kernel that
    /// expects a number and gets a word refuses the capture.
    pub(crate) fn keeps_numbers(&self, call: &StepCall) -> bool {
        let mut used = call.attrs.iter().flat_map(|attrs| attrs.scalars());
        used.all(|used| self.floats.contains(&used.scalar.0))
    }

    /// Returns the calls in the order of the capture: the tape and the step of each.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (u16, u32)> {
        self.steps.iter().filter_map(|step| match step {
            CaptureStep::Call { tape, step } => Some((*tape, *step)),
            CaptureStep::Record { .. } | CaptureStep::Wait { .. } => None,
        })
    }
}

/// The graphs of an instance, one for each plan of its program.
pub struct InstanceGraphs(Box<[Mutex<InstanceGraph>]>);

/// What a capture keeps of its launch: the addresses, and the words of floating-point numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) bases: SmallVec<[Base; 8]>,
    pub(crate) floats: SmallVec<[i64; 4]>,
}

/// The graphs of an instance for one plan.
#[derive(Default)]
pub(crate) struct InstanceGraph {
    pub(crate) stage: Stage,
    /// Each with what it was captured with, the one launched last at the end.
    pub(crate) graphs: SmallVec<[(Given, Box<dyn Graph>); 1]>,
    /// Why the newest capture was refused, and how many were.
    refused: (String, u32),
    instantiated: u64,
    updated: u64,
    pub(crate) launches: u64,
}

/// How far an instance has got with its graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No launch has made the calls without a failure.
    #[default]
    Cold,
    /// The next launch captures its calls.
    Warm,
    /// There is a graph.
    Ready,
    /// There is none, for this reason.
    Refused(String),
}

impl InstanceGraph {
    /// Notes that a capture was refused.
    pub(crate) fn note_refusal(&mut self, why: String) {
        let count = self.refused.1 + 1;
        self.stage = match count < MAX_REFUSALS {
            true => Stage::Cold,
            false => Stage::Refused(why.clone()),
        };
        self.refused = (why, count);
    }

    /// Moves the graph of these addresses and numbers to the end. Returns false if there is none.
    pub(crate) fn select(&mut self, given: &Given) -> bool {
        let found = self.graphs.iter().position(|(own, _)| own == given);
        found.map(|k| self.graphs[k..].rotate_left(1)).is_some()
    }

    /// Takes a graph for a new capture, if there are as many as may be.
    pub(crate) fn take_oldest(&mut self) -> Option<Box<dyn Graph>> {
        (self.graphs.len() >= MAX_GRAPHS).then(|| self.graphs.remove(0).1)
    }

    /// Adds a captured graph.
    pub(crate) fn add(&mut self, captured: Captured, given: Given, graph: Box<dyn Graph>) {
        match captured {
            Captured::Instantiated => self.instantiated += 1,
            Captured::Updated => self.updated += 1,
        }
        self.graphs.push((given, graph));
    }
}

impl InstanceGraphs {
    pub fn new(program: &Program) -> InstanceGraphs {
        let graph = |plan: &GraphPlan| {
            let stage = match &plan.capture {
                Ok(_) => Stage::Cold,
                Err(why) => Stage::Refused(why.clone()),
            };
            Mutex::new(InstanceGraph { stage, ..InstanceGraph::default() })
        };
        InstanceGraphs(program.graphs.iter().map(graph).collect())
    }

    pub(crate) fn lock(&self, plan: usize) -> MutexGuard<'_, InstanceGraph> {
        self.0[plan].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A launch's part in a graph.
#[derive(Default)]
pub(crate) struct GraphRun {
    /// The tapes that have arrived, and wait for the others.
    pub(crate) arrived: SmallVec<[u16; 4]>,
    pub(crate) decision: Option<Decision>,
}

/// How a launch runs the tapes of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Call by call.
    Calls,
    /// As a graph, on the stream of this tape.
    Graph(u16),
}

/// How an executable launches its tapes on one device: as a graph, or call by call. Returned by
/// `Executable::graphs`.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let f = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// let graphs: Vec<GraphStatus> = f.graphs();
/// assert!(graphs.is_empty()); // the host has no graphs
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphStatus {
    /// The device.
    pub device: DeviceId,
    /// The tapes, by number.
    pub tapes: Vec<usize>,
    /// The number of nodes; 0 while there is no graph.
    pub nodes: usize,
    /// Why there is no graph, or not yet; none if there is one.
    pub reason: Option<String>,
    /// How many graphs were made, over all instances: up to four each, for launches with other
    /// addresses or floating-point numbers.
    pub instantiated: u64,
    /// How often a graph was updated in place, because a launch had others than its instance's
    /// graphs.
    pub updated: u64,
    /// How many launches ran a graph.
    pub launches: u64,
}

impl GraphStatus {
    /// Describes a plan and what the instances have made of it.
    #[doc(hidden)]
    pub fn of<'a>(
        plan: &GraphPlan,
        number: usize,
        instances: impl Iterator<Item = &'a InstanceGraphs>,
    ) -> GraphStatus {
        let mut status = GraphStatus {
            device: plan.device.clone(),
            tapes: plan.tapes.iter().map(|tape| usize::from(*tape)).collect(),
            nodes: 0,
            reason: plan.capture.as_ref().err().cloned(),
            instantiated: 0,
            updated: 0,
            launches: 0,
        };
        for instance in instances {
            let graph = instance.lock(number);
            status.instantiated += graph.instantiated;
            status.updated += graph.updated;
            status.launches += graph.launches;
            match &graph.stage {
                Stage::Ready => {
                    status.nodes = graph.graphs.last().map_or(0, |(_, graph)| graph.nodes());
                }
                Stage::Refused(why) => status.reason = Some(why.clone()),
                Stage::Cold | Stage::Warm if graph.refused.1 > 0 => {
                    status.reason = Some(graph.refused.0.clone());
                }
                Stage::Cold | Stage::Warm => {}
            }
        }
        if status.nodes == 0 && status.reason.is_none() {
            status.reason = Some("no second launch has captured it".to_owned());
        }
        if status.nodes > 0 {
            status.reason = None;
        }
        status
    }
}

impl fmt::Display for GraphStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GraphStatus { device, nodes, instantiated, updated, launches, .. } = self;
        match &self.reason {
            Some(reason) => write!(f, "{device}: calls one by one: {reason}"),
            None => write!(
                f,
                "{device}: a graph of {nodes} nodes (instantiated: {instantiated}, updated: \
                 {updated}, launched: {launches})"
            ),
        }
    }
}
