//! Lowers a program of statements: each op is looked up, each statement gets its stream, critical
//! sections become a begin and an end. What runs afterwards, with or without a device, executes the
//! same steps.
//!
//! Lowering is pure. It opens no device and builds no instruction; shapes and streams are checked
//! by the executor that comes first, the dry run.
//!
//! Long because each kind of statement is lowered here.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use millstream_ops::composite::Composite;
use millstream_ops::{OpRegistry, collective};
use millstream_trace::{
    Action, Block, Body, EventRef, ExecutableRef, Held, Program, REDISTRIBUTE, Results, Span,
    Statement, StreamRef, Target, TraceError, ValueRef,
};
use millstream_types::{Attrs, Error, OpId, Sharding, StreamKey, StreamMode, StreamType};
use serde_json::Value;

use crate::assigner;
use crate::dry_run::Subject;
use crate::error::{RunError, placed};
use crate::options::{Assigner, RunOptions};

/// The index of a stream in [`Lowered::streams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamSlot(u32);

impl StreamSlot {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A lowered program.
#[derive(Debug)]
pub(crate) struct Lowered {
    /// The streams of the program: those that it declares, in its order, then those over which
    /// statements without a stream are spread.
    pub(crate) streams: Vec<(StreamKey, StreamMode)>,
    /// The statements of the program.
    pub(crate) main: LoweredBlock,
    /// The statements of each executable.
    pub(crate) executables: Vec<LoweredBlock>,
}

impl Lowered {
    /// Returns whether its calls run on one compute stream of the host.
    pub(crate) fn is_serial(&self, options: &RunOptions) -> bool {
        let is_spread_later = options.replay && options.compute_streams > 1;
        let steps = self.main.steps.iter().filter_map(|step| match &step.action {
            StepAction::Call(call) => Some(&self.streams[call.stream.index()]),
            StepAction::Launch(_) | StepAction::Effect(_) => None,
        });
        let is_one = crate::is_serial(steps.map(|(key, mode)| (key, *mode)));
        is_one && self.executables.is_empty() && !is_spread_later
    }
}

/// Lowered statements that run in order.
#[derive(Debug)]
pub(crate) struct LoweredBlock {
    pub(crate) steps: Vec<Step>,
    /// The number of events that the steps name.
    pub(crate) events: usize,
}

/// A lowered statement.
#[derive(Debug)]
pub(crate) struct Step {
    /// The span of the statement.
    pub(crate) span: Span,
    pub(crate) action: StepAction,
}

/// The action of a step.
#[derive(Debug)]
pub(crate) enum StepAction {
    Call(Box<LoweredCall>),
    Launch(Box<LoweredLaunch>),
    Effect(Effect),
}

impl StepAction {
    /// Returns the tensors that the action needs. A release needs none: what was never made is
    /// not released.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &ValueRef> {
        let (inputs, others): (&[ValueRef], Vec<&ValueRef>) = match self {
            StepAction::Call(call) => (&call.inputs, call.out.iter().flatten().collect()),
            StepAction::Launch(launch) => {
                let into = launch.outputs.iter().filter_map(|target| match target {
                    Some(Target::Into(value)) => Some(value),
                    Some(Target::New(_)) | None => None,
                });
                (&launch.inputs, into.chain(&launch.workspaces).collect())
            }
            StepAction::Effect(Effect::Touch { tensors, .. } | Effect::BeginSection(tensors)) => {
                (tensors, Vec::new())
            }
            StepAction::Effect(Effect::Read(value)) => (std::slice::from_ref(value), Vec::new()),
            StepAction::Effect(_) => (&[], Vec::new()),
        };
        inputs.iter().chain(others)
    }
}

/// An action without results.
#[derive(Debug)]
pub(crate) enum Effect {
    Release(Vec<ValueRef>),
    Record { event: EventRef, stream: StreamSlot },
    Wait { event: EventRef, stream: StreamSlot },
    StreamWait { from: StreamSlot, to: StreamSlot },
    Read(ValueRef),
    Touch { tensors: Vec<ValueRef>, stream: StreamSlot },
    Barrier { global: bool },
    Synchronize(StreamSlot),
    BeginSection(Vec<ValueRef>),
    EndSection,
}

/// A launch of an executable.
#[derive(Debug)]
pub(crate) struct LoweredLaunch {
    pub(crate) executable: ExecutableRef,
    /// The tensor for each input.
    pub(crate) inputs: Vec<ValueRef>,
    /// The numbers for scalars, by position.
    pub(crate) scalars: Vec<(usize, f64)>,
    /// The target of each output.
    pub(crate) outputs: Vec<Option<Target>>,
    /// The tensors in whose memory it computes.
    pub(crate) workspaces: Vec<ValueRef>,
    pub(crate) stream: Option<StreamSlot>,
}

/// The op of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    Op(OpId),
    Composite(&'static Composite),
    /// A redistribution.
    Redistribute,
}

impl Callee {
    pub(crate) fn find(ops: &OpRegistry, name: &str) -> Result<Callee, Error> {
        match ops.composite(name) {
            Some(composite) => Ok(Callee::Composite(composite)),
            None if name == REDISTRIBUTE => Ok(Callee::Redistribute),
            None => ops.id(name).map(Callee::Op),
        }
    }

    /// Returns the position of the operand of this name.
    pub(crate) fn position(self, ops: &OpRegistry, operand: &str) -> Option<usize> {
        let inputs = match self {
            Callee::Op(id) => ops.get(id)?.inputs(),
            Callee::Composite(op) => op.inputs,
            Callee::Redistribute => &[],
        };
        inputs.iter().position(|input| input.name == operand)
    }
}

/// A call of an op.
#[derive(Debug)]
pub(crate) struct LoweredCall {
    pub(crate) op: Callee,
    pub(crate) name: String,
    pub(crate) inputs: Vec<ValueRef>,
    /// The values of the results, unless existing tensors take them.
    pub(crate) results: Vec<ValueRef>,
    /// The existing tensors that take the results.
    pub(crate) out: Option<Vec<ValueRef>>,
    pub(crate) attrs: Arc<Attrs>,
    pub(crate) priority: i32,
    pub(crate) stream: StreamSlot,
    /// How the ranks of a mesh are to hold the first result, if the program says so.
    pub(crate) held: Option<Sharding>,
    /// Whether the call may have to run on the host, on copies of its operands: a collective
    /// outside of critical sections.
    pub(crate) is_collective: bool,
}

/// Lowers a program of statements.
///
/// # Errors
/// Two streams of the program are one, an op is unknown, or the program is a list of instructions.
pub(crate) fn lower(program: &Program, options: &RunOptions) -> Result<Lowered, RunError> {
    let (lowered, refused) = lower_known(program, options)?;
    match refused.is_empty() {
        true => Ok(lowered),
        false => Err(RunError { errors: refused, runtime: false }),
    }
}

/// Lowers the statements of a program whose ops are known. Returns the errors of the others, whose
/// results nothing makes.
///
/// # Errors
/// Two streams of the program are one, or the program is a list of instructions.
pub(crate) fn lower_known(
    program: &Program,
    options: &RunOptions,
) -> Result<(Lowered, Vec<TraceError>), RunError> {
    let Body::Statements(block) = &program.body else {
        let message = "the program is a list of instructions".to_owned();
        return Err(RunError::whole(program, &Error::Internal { message }));
    };
    let keys = program.stream_keys(&options.device)?;
    let mut streams: Vec<(StreamKey, StreamMode)> =
        keys.into_iter().zip(&program.streams).map(|(key, s)| (key, s.mode)).collect();
    let declared = streams.len();
    let spread = if program.spread { options.compute_streams.max(1) } else { 1 };
    // The assigner chooses streams afterwards, and the pass `assign` those of executables.
    let turns = match options.assigner {
        Assigner::Auto => 1,
        Assigner::RoundRobin => spread,
    };
    for k in 0..spread {
        let key = StreamKey::compute(options.device.clone(), k);
        // A stream that the program declares as well has the declared mode.
        let known = streams[..declared].iter().find(|(declared, _)| *declared == key);
        let mode = known.map_or(StreamMode::InOrder, |(_, mode)| *mode);
        streams.push((key, mode));
    }
    let lowering = Lowering {
        program,
        ops: &options.machine.ops,
        unnamed: declared as u32..declared as u32 + turns,
    };
    let mut refused = Vec::new();
    let main = lowering.block(block, &mut refused);
    let executables = program.executables.iter().map(|e| lowering.block(&e.block, &mut refused));
    let executables = executables.collect();
    let mut lowered = Lowered { main, executables, streams };
    if spread > turns && !options.replay && refused.is_empty() {
        assign(program, &mut lowered, options);
    }
    Ok((lowered, refused))
}

/// Gives the calls that name no stream those that the assigner chooses.
fn assign(program: &Program, lowered: &mut Lowered, options: &RunOptions) {
    // What is wrong with the program or its devices, the dry run that follows says.
    let subject = Subject { program, lowered, options };
    let first = program.streams.len();
    for (step, stream) in assigner::streams(subject).unwrap_or_default() {
        if let StepAction::Call(call) = &mut lowered.main.steps[step].action {
            call.stream = StreamSlot((first + stream) as u32);
        }
    }
}

/// Returns the streams of a program's calls as an assignment, with a rule for each op at each
/// place. The calls of one op at one line or node have one rule, with the stream of the first.
///
/// # Errors
/// An op is unknown, two streams of the program are one, or the program is a list of instructions.
pub fn assignment(program: &Program, options: &RunOptions) -> Result<String, RunError> {
    let lowered = lower(program, options)?;
    let (mut rules, mut declared) = (Vec::new(), BTreeSet::new());
    let mut known = HashSet::new();
    for step in lowered.executables.iter().chain([&lowered.main]).flat_map(|block| &block.steps) {
        let StepAction::Call(call) = &step.action else { continue };
        if !known.insert((step.span.line, call.name.as_str())) {
            continue;
        }
        let stream = match program.streams.get(call.stream.index()) {
            Some(stream) if Arc::ptr_eq(stream.site.source(), &program.source) => {
                Value::from(stream.name.as_str())
            }
            Some(stream) if (&stream.device, stream.ty) != (&None, StreamType::COMPUTE) => {
                let name = Value::from(stream.name.as_str());
                let key = &lowered.streams[call.stream.index()].0;
                let (device, ty, index, mode) =
                    (&key.device, key.ty, key.index, stream.mode.name());
                declared.insert(format!(
                    "{name}: {{ \"device\": \"{device}\", \"type\": \"{ty}\", \
                     \"index\": {index}, \"mode\": \"{mode}\" }}"
                ));
                name
            }
            Some(_) | None => lowered.streams[call.stream.index()].0.index.into(),
        };
        rules.push((step.span.line, Some(call.name.clone()), stream));
    }
    Ok(millstream_trace::assignment::to_text(declared, rules))
}

struct Lowering<'a> {
    program: &'a Program,
    ops: &'a OpRegistry,
    /// The slots of the streams over which statements without a stream are spread, in turn.
    unnamed: std::ops::Range<u32>,
}

/// The steps of a block while they are lowered.
struct Steps<'e> {
    steps: Vec<Step>,
    refused: &'e mut Vec<TraceError>,
    /// How many statements without a stream there were.
    turns: u32,
    /// The number of open critical sections.
    sections: usize,
}

impl Lowering<'_> {
    fn block(&self, block: &Block, refused: &mut Vec<TraceError>) -> LoweredBlock {
        let mut steps = Steps { steps: Vec::new(), refused, turns: 0, sections: 0 };
        self.statements(&block.statements, &mut steps);
        LoweredBlock { steps: steps.steps, events: block.events.len() }
    }

    /// The stream of a statement that may name one.
    fn stream(&self, named: Option<StreamRef>, steps: &mut Steps<'_>) -> StreamSlot {
        match named {
            Some(stream) => slot(stream),
            None => {
                let turn = steps.turns % self.unnamed.len() as u32;
                steps.turns += 1;
                StreamSlot(self.unnamed.start + turn)
            }
        }
    }

    fn statements(&self, statements: &[Statement], steps: &mut Steps<'_>) {
        for statement in statements {
            let span = statement.span;
            let effect = match &statement.action {
                Action::Call(call) => {
                    if let Some(call) = self.call(call, steps) {
                        steps.steps.push(Step { span, action: StepAction::Call(Box::new(call)) });
                    }
                    continue;
                }
                Action::Release(values) => Effect::Release(values.clone()),
                Action::Record { event, stream } => {
                    Effect::Record { event: *event, stream: slot(*stream) }
                }
                Action::Wait { event, stream } => {
                    Effect::Wait { event: *event, stream: slot(*stream) }
                }
                Action::StreamWait { from, to } => {
                    Effect::StreamWait { from: slot(*from), to: slot(*to) }
                }
                Action::Read(value) => Effect::Read(*value),
                Action::Touch { tensors, stream } => {
                    let stream = self.stream(*stream, steps);
                    Effect::Touch { tensors: tensors.clone(), stream }
                }
                Action::Barrier => Effect::Barrier { global: false },
                Action::GlobalSync => Effect::Barrier { global: true },
                Action::Synchronize(stream) => Effect::Synchronize(slot(*stream)),
                Action::CriticalSection { tensors, body } => {
                    steps.push(span, Effect::BeginSection(tensors.clone()));
                    steps.sections += 1;
                    self.statements(body, steps);
                    steps.sections -= 1;
                    Effect::EndSection
                }
                Action::Launch(launch) => {
                    let launch = LoweredLaunch {
                        executable: launch.executable,
                        inputs: launch.inputs.clone(),
                        scalars: launch.scalars.clone(),
                        outputs: launch.outputs.clone(),
                        workspaces: launch.workspaces.clone(),
                        stream: launch.stream.map(slot),
                    };
                    steps.steps.push(Step { span, action: StepAction::Launch(Box::new(launch)) });
                    continue;
                }
            };
            steps.push(span, effect);
        }
    }

    fn call(&self, call: &millstream_trace::Call, steps: &mut Steps<'_>) -> Option<LoweredCall> {
        if let Some(placement) = &call.ranks {
            let message = "the program names ranks: load the part of one rank".to_owned();
            let error = Error::Invalid { what: "program", message };
            steps.refused.push(placed(self.program, placement.span, &error));
            return None;
        }
        let held = || call.held.as_ref().map(Held::sharding).transpose();
        let found = Callee::find(self.ops, &call.op).and_then(|op| Ok((op, held()?)));
        let (op, held) = match found {
            Ok(found) => found,
            Err(e) => {
                steps.refused.push(placed(self.program, call.op_span, &e));
                return None;
            }
        };
        let (results, out) = match &call.results {
            Results::New(values) => (values.clone(), None),
            Results::Into(targets) => (Vec::new(), Some(targets.clone())),
        };
        // A call that an assignment moves has had its turn: the others keep their streams.
        if call.stream.is_some() && self.program.spread && !collective::is(&call.op) {
            steps.turns += 1;
        }
        Some(LoweredCall {
            op,
            name: call.op.clone(),
            is_collective: collective::is(&call.op) && out.is_none() && steps.sections == 0,
            inputs: call.inputs.clone(),
            results,
            out,
            attrs: Arc::new(call.attrs.clone()),
            priority: call.priority,
            stream: self.stream(call.stream, steps),
            held,
        })
    }
}

impl Steps<'_> {
    fn push(&mut self, span: Span, effect: Effect) {
        self.steps.push(Step { span, action: StepAction::Effect(effect) });
    }
}

const fn slot(stream: StreamRef) -> StreamSlot {
    StreamSlot(stream.0)
}
