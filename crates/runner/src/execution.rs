//! Executes the steps of a lowered program, and checks recorded specs.
//!
//! Long because each kind of step is executed here.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_ops::OpRegistry;
use millstream_trace::{Held, MAX_ERRORS, Part, Program, Span, Target, TraceError, ValueRef};
use millstream_types::{
    DeviceId, Error, Origin, ScalarUse, ScalarValue, SourceFile, StreamKey, StreamMode, TensorSpec,
};
use millstream_vm::lowering::compute_device;
use millstream_vm::{Event, Stream, Tensor, with_origin};

use crate::error::RunError;
use crate::executor::{Executor, Operands, is_of_run};
use crate::lower::{
    Effect, Lowered, LoweredBlock, LoweredCall, LoweredLaunch, Step, StepAction, StreamSlot,
};
use crate::options::Progress;
use crate::report::ReadReports;

/// The mode of the streams that the program does not declare.
const MODE: StreamMode = StreamMode::InOrder;

/// A block of a lowered program on its way through an executor.
pub(crate) struct Execution<'a> {
    pub(crate) executor: Executor,
    program: &'a Program,
    lowered: &'a Lowered,
    file: Arc<SourceFile>,
    values: Vec<Option<Tensor>>,
    events: Vec<Option<Event>>,
    /// The values whose shapes only a run tells. Calls on them are checked no further than
    /// lowering does.
    unknown: HashSet<ValueRef>,
    /// Whether a call was not made, because a shape depends on data.
    pub(crate) is_incomplete: bool,
    /// The numbers of the launch whose statements are executed in its place.
    scalars: Vec<ScalarValue>,
    /// The streams that a step has used.
    streams: Vec<Option<Stream>>,
    progress: Option<&'a Progress>,
    /// What the program's statements read.
    pub(crate) reads: ReadReports,
}

impl<'a> Execution<'a> {
    /// Returns the execution of a block of `lowered` that names `events` events.
    pub(crate) fn new(
        executor: Executor,
        program: &'a Program,
        lowered: &'a Lowered,
        events: usize,
    ) -> Execution<'a> {
        Execution {
            executor,
            program,
            lowered,
            file: Arc::new(program.source.file()),
            values: vec![None; program.values.len()],
            events: vec![None; events],
            unknown: HashSet::new(),
            is_incomplete: false,
            scalars: Vec::new(),
            streams: vec![None; lowered.streams.len()],
            progress: None,
            reads: ReadReports::default(),
        }
    }

    /// Calls `progress` after each statement.
    pub(crate) fn with_progress(mut self, progress: Option<&'a Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Makes sure of all streams that the program declares, before anything else can take one of
    /// them for an in-order stream.
    ///
    /// # Errors
    /// A stream cannot be had.
    pub(crate) fn declare_streams(&mut self) -> Result<(), RunError> {
        for (k, declared) in self.program.streams.iter().enumerate() {
            let (key, mode) = &self.lowered.streams[k];
            let stream = self.executor.stream(key, *mode);
            let at = |e| RunError::at(self.program, declared.site.span(), &e);
            self.streams[k] = Some(stream.map_err(at)?);
        }
        Ok(())
    }

    /// Makes global tensors of the program's tensors that meshes hold. Those that the rank has
    /// parts of have them as values.
    pub(crate) fn hold_tensors(
        &mut self,
        device: &DeviceId,
        of: impl Fn(ValueRef) -> bool,
    ) -> Result<(), RunError> {
        let wholes = self.program.wholes.iter().flatten();
        wholes.filter(|(value, _)| of(*value)).try_for_each(|(value, whole)| {
            let device = whole.device.as_ref().unwrap_or(device);
            whole.held.as_ref().map_or(Ok(()), |held| self.hold(*value, &whole.spec, held, device))
        })
    }

    /// Makes a global tensor of a value, the part of this rank if it has one.
    pub(crate) fn hold(
        &mut self,
        value: ValueRef,
        spec: &TensorSpec,
        held: &Held,
        device: &DeviceId,
    ) -> Result<(), RunError> {
        let part = self.take(value);
        let hold = || {
            let stream = self.executor.stream(&StreamKey::compute(device.clone(), 0), MODE)?;
            Tensor::of_part(part, spec.clone(), held.sharding()?, &stream)
        };
        let made = hold().map_err(|e| RunError::at(self.program, held.span, &e))?;
        self.set(value, made);
        Ok(())
    }

    /// Gives outputs that meshes hold all of their elements, on each rank that reads them.
    pub(crate) fn gather_outputs(&mut self) -> Result<(), RunError> {
        for output in &self.program.outputs {
            let span = output.site.span();
            let Some(value) = output.value else { continue };
            let Some((tensor, held)) = self.get(value).and_then(|of| Some((of, of.sharding()?)))
            else {
                continue;
            };
            let whole = with_origin(&self.origin(span), || match held.is_broadcast() {
                true => tensor.to_local(),
                false => tensor.full_tensor(),
            });
            self.set(value, whole.map_err(|e| RunError::at(self.program, span, &e))?);
        }
        Ok(())
    }

    /// Gives a value its tensor.
    pub(crate) fn set(&mut self, value: ValueRef, tensor: Tensor) {
        self.values[value.index()] = Some(tensor);
    }

    /// Returns the tensor of a value that lives.
    pub(crate) fn get(&self, value: ValueRef) -> Option<&Tensor> {
        self.values[value.index()].as_ref()
    }

    /// Returns the tensor of a value that lives on this rank: the rank's part, if a mesh holds it.
    pub(crate) fn own(&self, value: ValueRef) -> Option<Tensor> {
        own(self.get(value)?).ok()
    }

    /// Takes the tensor of a value, if it was made and not released.
    pub(crate) fn take(&mut self, value: ValueRef) -> Option<Tensor> {
        self.values[value.index()].take()
    }

    /// Returns whether the shape of a value depends on data that this execution does not have.
    pub(crate) fn is_unknown(&self, value: ValueRef) -> bool {
        self.unknown.contains(&value)
    }

    /// Returns those of the values whose shapes are known.
    fn known(&self, named: &[ValueRef]) -> Vec<ValueRef> {
        named.iter().copied().filter(|value| !self.is_unknown(*value)).collect()
    }

    fn origin(&self, span: Span) -> Origin {
        Origin::Trace(self.file.clone(), span.line)
    }

    /// Executes a block up to the first step that is refused.
    ///
    /// # Errors
    /// The refusal, with its place.
    pub(crate) fn run(&mut self, block: &LoweredBlock) -> Result<(), RunError> {
        for step in &block.steps {
            self.step(step)?;
            // A critical section is one statement of the program.
            if let Some(progress) = self.progress
                && !matches!(step.action, StepAction::Effect(Effect::EndSection))
            {
                progress.call();
            }
        }
        Ok(())
    }

    /// Executes a step.
    ///
    /// # Errors
    /// The refusal, with its place.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), RunError> {
        if !self.unknown.is_empty() && step.action.operands().any(|v| self.is_unknown(*v)) {
            let done = self.step_on_unknown(step);
            return done.map_err(|e| RunError::at(self.program, step.span, &e));
        }
        match &step.action {
            StepAction::Call(call) => self.call(call, step.span),
            StepAction::Launch(launch) if self.executor.is_recording() => {
                self.inline(launch, step.span)
            }
            StepAction::Launch(launch) => {
                let done = self.launch(launch, &self.origin(step.span));
                done.map_err(|e| RunError::at(self.program, step.span, &e))
            }
            StepAction::Effect(effect) => {
                let done = self.effect(effect, &self.origin(step.span));
                done.map_err(|e| RunError::at(self.program, step.span, &e))
            }
        }
    }

    /// Does what a step with tensors of unknown shapes does with its other tensors.
    fn step_on_unknown(&mut self, step: &Step) -> Result<(), Error> {
        match &step.action {
            StepAction::Call(call) => {
                let stream = self.stream_of_call(call)?;
                self.without_results(call, &stream)
            }
            StepAction::Launch(launch) => {
                self.is_incomplete = true;
                self.unknown.extend(launch.outputs.iter().filter_map(|target| match target {
                    Some(Target::New(value)) => Some(*value),
                    Some(Target::Into(_)) | None => None,
                }));
                Ok(())
            }
            StepAction::Effect(Effect::Read(_)) => Ok(()),
            StepAction::Effect(effect) => self.effect(effect, &self.origin(step.span)),
        }
    }

    /// Notes that the shapes of a call's results depend on data, but for those that the executor
    /// has stand-ins for.
    fn without_results(&mut self, call: &LoweredCall, stream: &Stream) -> Result<(), Error> {
        self.is_incomplete = true;
        for &value in &call.results {
            let declared = self.program.value(value);
            let recorded = declared.recorded.as_ref();
            let made = recorded.map(|spec| self.executor.stand_in(&declared.name, spec, stream));
            match made.transpose()?.flatten() {
                Some(tensor) => self.set(value, tensor),
                None => drop(self.unknown.insert(value)),
            }
        }
        Ok(())
    }

    /// Executes a block past steps that are refused, and adds the refusals to `refused`. What a
    /// refused step would have made is missing; later steps on it are passed over. Ends at a
    /// section that is refused, as its statements would be as well.
    ///
    /// # Errors
    /// A step failed while running.
    pub(crate) fn check(
        &mut self,
        block: &LoweredBlock,
        ops: &OpRegistry,
        refused: &mut Vec<TraceError>,
    ) -> Result<(), RunError> {
        for step in &block.steps {
            let is_made =
                |value: &ValueRef| self.values[value.index()].is_some() || self.is_unknown(*value);
            let is_begin = matches!(step.action, StepAction::Effect(Effect::BeginSection(_)));
            let is_partial = self.program.is_partial || !refused.is_empty();
            if is_partial && !step.action.operands().all(is_made) {
                if is_begin {
                    break;
                }
                continue;
            }
            match self.step(step) {
                Ok(()) => {}
                Err(error) if error.runtime => return Err(error),
                Err(error) => {
                    let own = error.errors.into_iter().map(|e| in_call(e, self.program, step, ops));
                    refused.extend(own);
                    if is_begin || refused.len() >= MAX_ERRORS {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Executes the statements of an executable in the place of its launch. Its events are its own.
    fn inline(&mut self, launch: &LoweredLaunch, span: Span) -> Result<(), RunError> {
        let (program, lowered) = (self.program, self.lowered);
        let at = |e: Error| RunError::at(program, span, &e);
        let declared = &program.executables[launch.executable.index()];
        for (input, &given) in declared.inputs.iter().zip(&launch.inputs) {
            self.values[input.value.index()] =
                Some(tensor(&self.values, given).map_err(at)?.clone());
        }
        let block = &lowered.executables[launch.executable.index()];
        let mut scalars: Vec<ScalarValue> =
            declared.scalars.iter().map(|(_, value)| (*value).into()).collect();
        launch.scalars.iter().for_each(|(at, value)| scalars[*at] = (*value).into());
        let outer = std::mem::replace(&mut self.events, vec![None; block.events]);
        self.scalars = scalars;
        let done = self.run(block);
        self.scalars = Vec::new();
        self.events = outer;
        done?;
        for (result, target) in declared.results.iter().zip(&launch.outputs) {
            let made = tensor(&self.values, result.value).map_err(at)?.clone();
            match *target {
                None => {}
                Some(Target::New(value)) => self.set(value, made),
                Some(Target::Into(value)) => {
                    let origin = self.origin(span);
                    let into = tensor(&self.values, value).map_err(at)?;
                    self.executor.assign(&made, into, &origin).map_err(at)?;
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, launch: &LoweredLaunch, origin: &Origin) -> Result<(), Error> {
        let program = self.program;
        let stream = launch.stream.map(|stream| self.stream(stream)).transpose()?;
        let declared = &program.executables[launch.executable.index()];
        let compiled = &self.executor.executables[launch.executable.index()];
        let given = launch.inputs.iter().chain(&declared.bound);
        let given = tensors(&self.values, &given.copied().collect::<Vec<_>>())?;
        let workspaces = tensors(&self.values, &launch.workspaces)?;
        let into = launch.outputs.iter().enumerate().filter_map(|(k, target)| match target {
            Some(Target::Into(value)) => Some((k, *value)),
            Some(Target::New(_)) | None => None,
        });
        let into: Vec<(usize, ValueRef)> = into.collect();
        let targets: Vec<ValueRef> = into.iter().map(|(_, value)| *value).collect();
        let targets = tensors(&self.values, &targets)?;
        if let Some(formals) = &compiled.formals {
            let inputs = declared.inputs.iter().map(|input| &input.name).zip(&formals.inputs);
            let inputs = inputs.zip(&launch.inputs).map(|(formal, value)| ("input", formal, value));
            let outputs = into.iter().map(|(k, value)| {
                ("output", (&declared.results[*k].name, &formals.outputs[*k]), value)
            });
            for (kind, (name, formal), value) in inputs.chain(outputs) {
                let what = format!("the {kind} '{name}' of '{}'", declared.name);
                self.check_held(&what, formal, *value)?;
            }
        }
        let mut made = Vec::new();
        if let Some(executable) = &compiled.executable {
            let [given, targets, workspaces] = [owns(&given)?, owns(&targets)?, owns(&workspaces)?];
            let mut call = executable.launch().origin(origin.clone());
            // On a machine that runs nothing, what would be bound is given.
            let bound = if self.executor.binds { &[][..] } else { &declared.bound };
            let bound = bound.iter().map(|value| &program.value(*value).name);
            let names = declared.inputs.iter().map(|input| &input.name).chain(bound);
            for (name, tensor) in names.zip(&given) {
                call = call.input(name, tensor);
            }
            for (at, value) in &launch.scalars {
                call = call.scalar(&declared.scalars[*at].0, *value);
            }
            for ((k, _), tensor) in into.iter().zip(&targets) {
                call = call.output(&declared.results[*k].name, tensor);
            }
            for memory in &workspaces {
                call = call.workspace(memory);
            }
            if let Some(stream) = &stream {
                call = call.on(stream);
            }
            if let Some(section) = self.executor.section() {
                call = call.within(section);
            }
            made = call.run()?.outputs().to_vec();
        }
        if let Some(formals) = &compiled.formals {
            let (key, mode) = &self.lowered.streams[program.streams.len()];
            let stream = self.executor.stream(key, *mode)?;
            let changed: Vec<&Tensor> = targets.iter().chain(&workspaces).copied().collect();
            let launched = || formals.launched(&declared.name, &given, &changed, made, &stream);
            made = with_origin(origin, launched)?;
        }
        // An output that is a tensor of the launch lives on.
        let lives = |made: &Tensor| given.iter().any(|of| of.tensor_ref() == made.tensor_ref());
        let lives: Vec<bool> = made.iter().map(lives).collect();
        for ((tensor, target), lives) in made.into_iter().zip(&launch.outputs).zip(lives) {
            match target {
                Some(Target::New(value)) => self.set(*value, tensor),
                Some(Target::Into(_)) => {}
                None if lives => {}
                None => self.executor.release(&tensor, origin)?,
            }
        }
        Ok(())
    }

    /// Refuses a tensor of a launch that is not held, or described, as that of the executable.
    fn check_held(&self, what: &str, formal: &Tensor, value: ValueRef) -> Result<(), Error> {
        let (given, name) = (tensor(&self.values, value)?, &self.program.value(value).name);
        let (held, other) = (formal.sharding(), given.sharding());
        let (spec, given) = (formal.spec(), given.spec());
        let is_same = (spec.dtype, spec.shape()) == (given.dtype, given.shape());
        let message = if let (Some(held), Some(other)) = (held, other)
            && held != other
        {
            format!(
                "{what} is held as {held:?}, and '{name}' as {other:?}; redistribute before or \
                 after the launch"
            )
        } else if !is_same || spec.layout.strides() != given.layout.strides() {
            let help = if is_same { "; copy that before, with the op contiguous" } else { "" };
            format!("{what} is {spec}, and '{name}' is {given}{help}")
        } else {
            return Ok(());
        };
        Err(Error::Invalid { what: "launch", message })
    }

    fn effect(&mut self, effect: &Effect, origin: &Origin) -> Result<(), Error> {
        match effect {
            Effect::Release(values) => {
                for &value in values {
                    if let Some(tensor) = self.values[value.index()].take() {
                        self.executor.release(&tensor, origin)?;
                    }
                }
            }
            Effect::Record { event, stream } => {
                let stream = self.stream(*stream)?;
                self.events[event.index()] = Some(self.executor.record(&stream, origin)?);
            }
            Effect::Wait { event, stream } => {
                let stream = self.stream(*stream)?;
                let recorded = self.events[event.index()].as_ref();
                let recorded = recorded.ok_or_else(|| internal("the event is not recorded"))?;
                self.executor.wait(&stream, recorded, origin)?;
            }
            Effect::StreamWait { from, to } => {
                let (from, to) = (self.stream(*from)?, self.stream(*to)?);
                self.executor.stream_wait(&from, &to, origin)?;
            }
            Effect::Read(value) => {
                let read = own(tensor(&self.values, *value)?)?;
                let elements = self.executor.read(&read, origin)?;
                if let Some(bytes) = elements {
                    self.reads.note(&self.program.value(*value).name, origin, read.spec(), bytes);
                }
            }
            Effect::Touch { tensors: touched, stream } => {
                let stream = self.stream(*stream)?;
                let touched = tensors(&self.values, &self.known(touched))?;
                let touched = owns(&touched)?;
                self.executor.touch(&touched.iter().collect::<Vec<_>>(), &stream, origin)?;
            }
            Effect::Barrier { global } => self.executor.barrier(*global, origin)?,
            Effect::Synchronize(stream) => {
                let stream = self.stream(*stream)?;
                self.executor.synchronize(&stream, origin)?;
            }
            Effect::BeginSection(held) => {
                let held = tensors(&self.values, &self.known(held))?;
                self.executor.begin_section(&held, origin)?;
            }
            Effect::EndSection => self.executor.end_section(origin)?,
        }
        Ok(())
    }

    /// Returns the executor's stream, which it is asked for once.
    fn stream(&mut self, slot: StreamSlot) -> Result<Stream, Error> {
        if let Some(stream) = &self.streams[slot.index()] {
            return Ok(stream.clone());
        }
        let (key, mode) = &self.lowered.streams[slot.index()];
        let stream = self.executor.stream(key, *mode)?;
        self.streams[slot.index()] = Some(stream.clone());
        Ok(stream)
    }

    /// Returns the stream of a call. A call that names none and has no operand on the device of its
    /// stream runs on the compute stream of the same number on the device of its first operand.
    fn stream_of_call(&mut self, call: &LoweredCall) -> Result<Stream, Error> {
        let own = &self.lowered.streams[call.stream.index()].0;
        let mut elsewhere = None;
        if call.stream.index() >= self.program.streams.len() {
            let operands = call.inputs.iter().chain(call.out.iter().flatten());
            for &operand in operands {
                let known = self.values[operand.index()].as_ref();
                let Some(memory) = known.map(Tensor::device) else { continue };
                if *memory == own.device || memory.is_host() && own.device.is_host() {
                    return self.stream(call.stream);
                }
                elsewhere = elsewhere.or(Some(memory));
            }
        }
        let Some(memory) = elsewhere else { return self.stream(call.stream) };
        let key = StreamKey::compute(compute_device(memory), own.index);
        let declared = self.lowered.streams.iter().find(|(declared, _)| *declared == key);
        let mode = declared.map_or(StreamMode::InOrder, |(_, mode)| *mode);
        self.executor.stream(&key, mode)
    }

    fn call(&mut self, call: &LoweredCall, span: Span) -> Result<(), RunError> {
        let program = self.program;
        let at = |e: Error| RunError::at(program, span, &e);
        let origin = self.origin(span);
        let stream = self.stream_of_call(call).map_err(at)?;
        let out = call.out.as_ref().map(|targets| tensors(&self.values, targets));
        let launched;
        let attrs = match self.scalars.is_empty() {
            true => &call.attrs,
            false => {
                let number = |used: ScalarUse| self.scalars[used.scalar.index()].into();
                launched = Arc::new(call.attrs.with_scalars(number));
                &launched
            }
        };
        let operands = Operands {
            inputs: tensors(&self.values, &call.inputs).map_err(at)?,
            out: out.transpose().map_err(at)?,
            attrs,
        };
        let results = match self.executor.call(call, &operands, &stream, &origin) {
            Err(e) if is_of_run(&e) => return self.without_results(call, &stream).map_err(at),
            results => results.map_err(at)?,
        };
        if results.len() < call.results.len() {
            let (op, made, named) = (&call.name, results.len(), call.results.len());
            let message = format!("{op} gives {made} result(s), and 'out' names {named}");
            return Err(RunError::input(program.error(span, message)));
        }
        for (&value, result) in call.results.iter().zip(results) {
            let recorded = program.value(value).recorded.as_ref();
            let found = result.spec();
            if let Some(recorded) = recorded
                && (recorded.dtype, recorded.shape()) != (found.dtype, found.shape())
            {
                let (found, recorded) = (found.brief(), recorded.brief());
                let message = format!("its result is {found}, and the trace says {recorded}");
                return Err(RunError::input(program.error(span, message)));
            }
            self.values[value.index()] = Some(result);
        }
        Ok(())
    }
}

/// Places the error of a call at the argument or operand that it is about.
fn in_call(error: TraceError, program: &Program, step: &Step, ops: &OpRegistry) -> TraceError {
    let StepAction::Call(call) = &step.action else { return error };
    let Some(said) = error.message().strip_prefix(&format!("{}: ", call.name)) else {
        return error;
    };
    let find = |part| program.part(step.span, part);
    let unknown = said.strip_prefix("unknown argument '").and_then(|rest| rest.split_once('\''));
    let named = said.split_once(": ").map(|(name, _)| name);
    let position = |name| call.op.position(ops, name);
    let place = match (unknown, named.filter(|name| !name.contains(' '))) {
        (Some((name, _)), _) => find(Part::ArgumentName(name)),
        (None, Some(name)) => find(Part::Argument(name))
            .or_else(|| find(Part::Input(position(name)?)))
            .or_else(|| find(Part::Op)),
        (None, None) if said.starts_with("invalid dimension") => {
            let argument = find(Part::Argument("dim")).or_else(|| find(Part::Argument("dims")));
            argument.or_else(|| find(Part::Op))
        }
        (None, None) => find(Part::Inputs).or_else(|| find(Part::Op)),
    };
    place.map_or(error.clone(), |place| error.moved(&program.source, place))
}

/// Returns the tensor, or the part of this rank if a mesh holds it.
fn own(tensor: &Tensor) -> Result<Tensor, Error> {
    tensor.sharding().map_or_else(|| Ok(tensor.clone()), |_| tensor.to_local())
}

fn owns(tensors: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    tensors.iter().map(|&tensor| own(tensor)).collect()
}

fn internal(message: &str) -> Error {
    Error::Internal { message: message.to_owned() }
}

/// Returns the tensor of a value. The loader resolves names in straight-line order, so that a value
/// has its tensor where it is named.
fn tensor(values: &[Option<Tensor>], value: ValueRef) -> Result<&Tensor, Error> {
    values[value.index()].as_ref().ok_or_else(|| internal("a tensor is used before it is made"))
}

fn tensors<'v>(values: &'v [Option<Tensor>], named: &[ValueRef]) -> Result<Vec<&'v Tensor>, Error> {
    named.iter().map(|&value| tensor(values, value)).collect()
}
