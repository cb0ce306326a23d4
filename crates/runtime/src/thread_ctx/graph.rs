//! Tapes that are launched as a graph. `executable::graph` states the rules.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_ep::{Captured, FailedWork, Graph, GraphStream, Progress, WorkResult};
use millstream_types::{Cause, FailedOperand, Failure, Point, Result};

use crate::scope::cancel::{self, Cancelled};
use crate::sync::inbox::Message;
use crate::sync::points::Milestone;
use crate::tapes::graph::{CapturePlan, CaptureStep, Decision, Stage};
use crate::tapes::run::Run;
use crate::tapes::tape::Formal;
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::launch::{kernel_of, no_kernel};
use crate::thread_ctx::stream::Effect;
use crate::thread_ctx::subject::{StepRef, Subject};
use crate::thread_ctx::unit::{Arguments, Unit};
use crate::thread_ctx::work::TokenSource;

/// A tape's part in the launch of a graph.
pub(super) enum Part {
    /// The tape makes its calls one by one.
    Calls,
    /// The stream is blocked.
    Blocked,
    /// The tape has ended, or ends with the graph.
    Done,
}

/// A launch of a graph.
#[derive(Clone)]
pub(super) struct GraphRef {
    pub(super) run: Arc<Run>,
    pub(super) plan: usize,
}

impl ThreadCtx {
    /// Begins a tape that may be a part of a graph.
    pub(super) fn play_in_graph(&mut self, at: usize, tape: u16, run: &Arc<Run>) -> Part {
        let mut plans = run.program.graphs.iter();
        let Some(plan) = plans.position(|plan| plan.tapes.contains(&tape)) else {
            return Part::Calls;
        };
        let decided = run.graph(plan).decision;
        match decided {
            Some(Decision::Calls) => Part::Calls,
            Some(Decision::Graph(carrier)) => {
                if self.block_until(at, run.end_of(usize::from(carrier)), Milestone::Completed) {
                    return Part::Blocked;
                }
                self.completed(at, run.end_of(usize::from(tape)).seq);
                Part::Done
            }
            None => self.arrive(at, tape, &GraphRef { run: run.clone(), plan }),
        }
    }

    /// Handles the arrival of a tape. The last one launches the graph.
    fn arrive(&mut self, at: usize, tape: u16, graph: &GraphRef) -> Part {
        let GraphRef { run, plan } = graph;
        let tapes = &run.program.graphs[*plan].tapes;
        let (true, Ok(capture)) =
            (self.can_launch(graph), run.program.graphs[*plan].capture.as_ref())
        else {
            self.decide(graph, Decision::Calls);
            return Part::Calls;
        };
        if self.drains(at) {
            return Part::Blocked;
        }
        for (other, steps) in &capture.before {
            let until = run.point(usize::from(*other), *steps);
            if self.block_until(at, until, Milestone::Completed) {
                return Part::Blocked;
            }
        }
        {
            let mut own = run.graph(*plan);
            if !own.arrived.contains(&tape) {
                own.arrived.push(tape);
            }
            if own.arrived.len() < tapes.len() {
                self.streams[at].joining = true;
                return Part::Blocked;
            }
        }
        // A step that the graph comes after may have failed.
        if !self.can_launch(graph) {
            self.decide(graph, Decision::Calls);
            return Part::Calls;
        }
        let launched = self.launch_graph(at, graph, capture);
        let end = run.end_of(usize::from(tape)).seq;
        match launched {
            Ok(Ok(progress)) => {
                self.decide(graph, Decision::Graph(tape));
                match progress {
                    Progress::Pending(ticket) => {
                        let effect = Effect::Graph(graph.clone());
                        self.launched(at, end, Some(ticket), None, effect);
                    }
                    Progress::Done(result) => {
                        self.finish_graph(graph, result, None);
                        self.launched(at, end, None, None, Effect::None);
                    }
                }
                Part::Done
            }
            Ok(Err(error)) => {
                self.fail_graph(graph, format!("the graph was not launched: {error}"));
                self.decide(graph, Decision::Graph(tape));
                self.launched(at, end, None, None, Effect::None);
                Part::Done
            }
            Err(why) => {
                if why.downcast_ref::<Cancelled>().is_none() {
                    run.instance_graph(*plan).note_refusal(format!("{why:#}"));
                }
                self.decide(graph, Decision::Calls);
                Part::Calls
            }
        }
    }

    /// Returns whether a launch may run its graph, if there is one or can be.
    fn can_launch(&self, graph: &GraphRef) -> bool {
        let GraphRef { run, plan } = graph;
        let mut own = run.instance_graph(*plan);
        if !matches!(own.stage, Stage::Warm | Stage::Ready) {
            return false;
        }
        let tapes = run.program.graphs[*plan].tapes.iter();
        let mut workers = tapes.map(|tape| run.tapes[usize::from(*tape)].stream.worker());
        let first = workers.next();
        if !workers.all(|worker| Some(worker) == first) {
            own.stage = Stage::Refused("its tapes run on several workers".to_owned());
            return false;
        }
        !run.has_poison() && cancel::check(run.cancel_scope.as_ref()).is_ok()
    }

    /// Decides how the tapes of a graph run, and lets those that have arrived go on.
    fn decide(&mut self, graph: &GraphRef, decision: Decision) {
        let mut own = graph.run.graph(graph.plan);
        own.decision = Some(decision);
        let arrived = std::mem::take(&mut own.arrived);
        drop(own);
        for tape in arrived {
            let stream = graph.run.tapes[usize::from(tape)].stream.id();
            let at = self.index[stream.index()] as usize;
            if std::mem::take(&mut self.streams[at].joining) {
                self.inbox.post(Message::Resume(stream));
            }
        }
    }

    /// Launches a graph on the stream at `at`, after a capture if it has none with the addresses
    /// and floating-point numbers of the launch. The inner error is that of the launch: nothing of
    /// it has run.
    ///
    /// # Errors
    /// There is no graph, for this reason.
    fn launch_graph(
        &mut self,
        at: usize,
        graph: &GraphRef,
        capture: &CapturePlan,
    ) -> anyhow::Result<Result<Progress>> {
        let run = &graph.run;
        let mut own = run.instance_graph(graph.plan);
        let given = capture.given(run);
        if !own.select(&given) {
            // A graph whose capture fails is gone.
            let oldest = own.take_oldest();
            let (captured, made) = self.capture(graph, capture, oldest)?;
            own.add(captured, given, made);
        }
        own.stage = Stage::Ready;
        let Some((_, made)) = own.graphs.last_mut() else { anyhow::bail!("the graph is missing") };
        let launched = self.graphs_of(at)?.launch(&mut **made, &run.words);
        own.launches += u64::from(launched.is_ok());
        Ok(launched)
    }

    /// Returns the stream's part in graphs.
    fn graphs_of(&mut self, at: usize) -> anyhow::Result<&mut dyn GraphStream> {
        let graphs = self.native_stream(at)?.stream.graphs();
        graphs.ok_or_else(|| anyhow::anyhow!("a stream of the device has no graphs"))
    }

    /// Returns the position of the stream of a tape, which must be this worker's.
    fn stream_of(&self, run: &Run, tape: u16) -> anyhow::Result<usize> {
        let stream = run.tapes[usize::from(tape)].stream.id();
        let at = self.index.get(stream.index()).filter(|at| **at != super::NONE);
        let at = at.ok_or_else(|| anyhow::anyhow!("tape {tape} runs on another worker"))?;
        Ok(*at as usize)
    }

    /// Captures the calls of a launch into `made`, or into a new graph.
    fn capture(
        &mut self,
        graph: &GraphRef,
        capture: &CapturePlan,
        made: Option<Box<dyn Graph>>,
    ) -> anyhow::Result<(Captured, Box<dyn Graph>)> {
        let GraphRef { run, plan } = graph;
        let tapes = &run.program.graphs[*plan].tapes;
        let mut streams: SmallVec<[(u16, usize); 4]> = SmallVec::new();
        for &tape in tapes {
            let at = self.stream_of(run, tape)?;
            streams.push((tape, at));
            let works = capture.calls().filter(|(of, _)| *of == tape).count();
            self.graphs_of(at)?.prepare_capture(works)?;
        }
        let Some(&(_, first)) = streams.first() else { anyhow::bail!("it has no tapes") };
        let mut made = match made {
            Some(graph) => graph,
            None => {
                let device = self.native_stream(first)?.device.clone();
                device.create_graph(capture.positions, run.words.len())?
            }
        };
        self.graphs_of(first)?.begin_capture(&mut *made)?;
        match self.capture_steps(run, capture, &streams, &mut *made) {
            Ok(()) => Ok((self.graphs_of(first)?.end_capture(&mut *made)?, made)),
            Err(error) => {
                self.graphs_of(first)?.abort_capture(&mut *made);
                Err(error)
            }
        }
    }

    fn capture_steps(
        &mut self,
        run: &Arc<Run>,
        capture: &CapturePlan,
        streams: &[(u16, usize)],
        graph: &mut dyn Graph,
    ) -> anyhow::Result<()> {
        let at_of = |tape: u16| {
            let found = streams.iter().find(|(of, _)| *of == tape);
            found.map(|found| found.1).ok_or_else(|| anyhow::anyhow!("no stream of tape {tape}"))
        };
        for step in &capture.steps {
            match *step {
                CaptureStep::Record { tape, position } => {
                    self.graphs_of(at_of(tape)?)?.capture_record(graph, position as usize)?;
                }
                CaptureStep::Wait { tape, position } => {
                    self.graphs_of(at_of(tape)?)?.capture_wait(graph, position as usize)?;
                }
                CaptureStep::Call { tape, step } => {
                    let step = StepRef { run: run.clone(), tape, step };
                    self.capture_call(at_of(tape)?, &step, capture, graph).map_err(|error| {
                        error.context(format!("tape {tape}, step {}", step.step + 1))
                    })?;
                }
            }
        }
        Ok(())
    }

    fn capture_call(
        &mut self,
        at: usize,
        step: &StepRef,
        capture: &CapturePlan,
        graph: &mut dyn Graph,
    ) -> anyhow::Result<()> {
        let Some(call) = step.call() else { anyhow::bail!("it is no call") };
        anyhow::ensure!(call.number.is_none(), "a collective cannot be captured");
        self.native_stream(at)?;
        let ThreadCtx { tables, inbox, streams, .. } = self;
        let Some(native) = streams[at].native.as_mut() else { anyhow::bail!("no stream") };
        let Some(kernel) = kernel_of(&native.kernels, call.op) else {
            anyhow::bail!(no_kernel(tables, call.op, native));
        };
        let (subject, token) = (Subject::Step(step.clone()), TokenSource::new(inbox, step.point()));
        let mut work = Unit::of_step(tables, native.device.id(), &subject, kernel, token);
        if !capture.keeps_numbers(call) {
            work.arguments = Arguments::OfGraph(graph.words());
        }
        let Some(graphs) = native.stream.graphs() else { anyhow::bail!("no graphs") };
        let captured = graphs.capture(graph, &mut work);
        anyhow::ensure!(!work.token.is_taken(), "a call that completes later cannot be captured");
        captured
    }

    /// Poisons everything that a graph writes with one failure: that of the launch.
    fn fail_graph(&self, graph: &GraphRef, message: String) {
        let run = &graph.run;
        let Point { stream, seq } = run.at;
        let operand = |(k, formal): (usize, &Formal)| {
            let Formal { access, spec, .. } = formal;
            let (tensor, shape) = (run.program.name(k).to_owned(), spec.shape().into());
            Some(FailedOperand { tensor, access: (*access)?, dtype: spec.dtype, shape })
        };
        let failure = self.tables.note_failure(Failure {
            cause: Cause::Device,
            message,
            instruction: millstream_instructions::Kind::LazyJobLauncher.name(),
            op: None,
            operands: run.program.formals.iter().enumerate().filter_map(operand).collect(),
            stream: stream.to_string(),
            seq,
            origin: run.origin.clone(),
            launched: None,
        });
        self.each_call(graph, |_, subject| subject.skip(&self.tables, &failure));
    }

    /// Calls a function for each call of a graph, in the order of the capture, with its number.
    fn each_call(&self, graph: &GraphRef, mut each: impl FnMut(usize, &Subject)) {
        let GraphRef { run, plan } = graph;
        let Ok(capture) = &run.program.graphs[*plan].capture else { return };
        for (number, (tape, step)) in capture.calls().enumerate() {
            each(number, &Subject::Step(StepRef { run: run.clone(), tape, step }));
        }
    }

    /// Handles the completion of a graph: each failed call poisons what depends on it, as if the
    /// calls had been made one by one. `lost` says that the device is lost.
    pub(super) fn finish_graph(&self, graph: &GraphRef, result: WorkResult, lost: Option<&str>) {
        let failures = match (result, lost) {
            (Ok(()), None) => return,
            (Ok(()), Some(_)) => Vec::new(),
            (Err(error), _) => match error.downcast::<FailedWork>() {
                Ok(failed) => failed.failures,
                // Nobody knows which call it was.
                Err(error) => return self.fail_graph(graph, format!("{error:#}")),
            },
        };
        self.each_call(graph, |number, subject| {
            let own = failures.iter().find(|(of, _)| *of == number).map(|(_, message)| message);
            let (result, cause) = match (own, lost) {
                (_, Some(lost)) => (Some(lost), Cause::Device),
                (Some(own), None) => (Some(own.as_str()), Cause::Error),
                (None, None) => (None, Cause::Error),
            };
            match (subject.poison(&self.tables), result) {
                (Some(cause), _) => subject.skip(&self.tables, &cause),
                (None, Some(message)) => {
                    let Subject::Step(step) = subject else { return };
                    let key = &graph.run.program.tapes[usize::from(step.tape)].key;
                    let message = message.to_owned();
                    let failure = subject.failure(&self.tables, key, cause, message);
                    subject.skip(&self.tables, &failure);
                }
                (None, None) => subject.heal(&self.tables),
            }
        });
    }
}
