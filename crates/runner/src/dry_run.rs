//! The executor without a device: the builder alone, so that a whole program is checked before
//! anything runs, and so that its lists can be had without a run.
//!
//! A tensor whose shape depends on data is unknown here, and so are all results of calls on it:
//! such calls are checked no further than lowering does.
//!
//! Long because it has every action of an executor.

use std::sync::Arc;

use millstream_comm::Communicator;
use millstream_instructions::builder::{EventRef, Output, SectionId};
use millstream_instructions::{
    BuilderConfig, Call, Instruction, InstructionList, InstructionsBuilder, ListRecorder, Priority,
    Sink, TensorRef,
};
use millstream_stream_policy::{Catalog, PolicyTable};
use millstream_trace::{Program, TraceError, ValueRef};
use millstream_types::{
    DeviceId, Error, ListId, Origin, Point, ReadId, Result, StreamId, StreamKey, StreamMode,
    StreamType, TensorSpec,
};
use millstream_vm::lowering::{self, InnerCalls, OfflineSubmitter, OfflineTensors, Submitter};
use millstream_vm::{Executable, OfflineLaunch, OfflineLaunches};

use crate::dry_calls::DryCalls;
use crate::error::RunError;
use crate::executables;
use crate::execution::Execution;
use crate::executor::{Executor, LaunchCall, OpCall};
use crate::lower::{Callee, Lowered};
use crate::options::RunOptions;

/// The instructions of a dry run, if they are wanted. Nothing runs, so that every point counts as
/// reached.
#[derive(Default)]
pub(crate) enum Log {
    #[default]
    None,
    /// Their list.
    List(Box<ListRecorder>),
    /// Those of the last step. Results whose shapes depend on data have those that the trace
    /// recorded.
    Steps(Vec<Instruction>),
}

impl Log {
    const fn recorder(&mut self) -> Option<&mut ListRecorder> {
        match self {
            Log::List(recorder) => Some(recorder),
            Log::None | Log::Steps(_) => None,
        }
    }
}

impl Sink for Log {
    fn emit(&mut self, instruction: Instruction) {
        match self {
            Log::None => {}
            Log::List(recorder) => {
                recorder.push(&instruction);
            }
            Log::Steps(emitted) => emitted.push(instruction),
        }
    }

    fn reached(&self, _: Point) -> bool {
        true
    }

    fn annotated(&self) -> bool {
        !matches!(self, Log::None)
    }
}

pub(crate) struct DryRun {
    pub(crate) builder: InstructionsBuilder,
    pub(crate) log: Log,
    /// Whether a call could not be built because a shape depends on data.
    is_incomplete: bool,
    /// The open sections; none for one that holds only unknown tensors.
    sections: Vec<Option<SectionId>>,
    executables: Vec<OfflineLaunches>,
    policies: Arc<PolicyTable>,
    communicator: Arc<dyn Communicator>,
    tensors: OfflineTensors,
}

/// A lowered program, and the streams and devices that it is checked against.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) program: &'a Program,
    pub(crate) lowered: &'a Lowered,
    pub(crate) options: &'a RunOptions,
    pub(crate) policies: &'a Arc<PolicyTable>,
}

/// A list, and the name of the executable that it belongs to; none for the program's own.
pub(crate) type Named = (Option<String>, InstructionList);

/// Checks a program of statements. `refused` holds the errors of those that could not be lowered.
pub(crate) fn check(subject: Subject<'_>, refused: Vec<TraceError>) -> Result<(), RunError> {
    subject.lists(false, refused).map(drop)
}

/// Returns the lists of a program of statements: first its own, if all its shapes are known, then
/// those of its executables.
pub(crate) fn lists(subject: Subject<'_>) -> Result<Vec<Named>, RunError> {
    subject.lists(true, Vec::new())
}

impl<'a> Subject<'a> {
    /// Compiles the executables and makes the tensors of the program, whose statements have not
    /// been executed.
    pub(crate) fn begin(
        self,
        log: Log,
    ) -> Result<(Execution<'a, DryRun>, Vec<Executable>), RunError> {
        let Subject { program, lowered, options, policies } = self;
        let executables = match program.executables.is_empty() {
            true => Vec::new(),
            false => {
                let machine = options.open().map_err(|e| RunError::whole(program, &e))?;
                executables::compile(&machine, program, lowered, options, None)?
            }
        };
        let catalog = Box::new(Catalog(policies.clone()));
        let config = BuilderConfig { sync: options.machine.sync, ..BuilderConfig::default() };
        let dry_run = DryRun {
            builder: InstructionsBuilder::new(
                &config,
                Arc::new(options.machine.ops.clone()),
                catalog,
            ),
            log,
            is_incomplete: false,
            sections: Vec::new(),
            executables: executables.iter().cloned().map(OfflineLaunches::new).collect(),
            policies: policies.clone(),
            communicator: options.machine.communicator.clone(),
            tensors: OfflineTensors::default(),
        };
        let mut execution = Execution::new(dry_run, program, lowered, lowered.main.events);
        execution.declare_streams()?;
        for (value, tensor) in (0..).map(ValueRef).zip(&program.tensors) {
            let device = tensor.device.as_ref().unwrap_or(&options.device);
            let at = |e: Error| RunError::at(program, tensor.site.span(), &e);
            policies.devices().probe(device).map_err(at)?;
            let DryRun { builder, log, .. } = &mut execution.executor;
            let bytes = tensor.storage_bytes as u64;
            let made = builder.import(log, tensor.spec.clone(), bytes, device).map_err(at)?;
            execution.executor.declare(&tensor.name, made).map_err(at)?;
            execution.set(value, Some(made));
        }
        Ok((execution, executables))
    }

    /// Executes the program. Returns the lists of its executables if they are `wanted`, and its own
    /// if all shapes are known.
    fn lists(self, wanted: bool, mut refused: Vec<TraceError>) -> Result<Vec<Named>, RunError> {
        let Subject { program, lowered, options, .. } = self;
        if !program.executables.is_empty() && !refused.is_empty() {
            // They could not be compiled, and their launches not be checked.
            return Err(RunError { errors: refused, runtime: false });
        }
        let log = match wanted {
            true => Log::List(Box::default()),
            false => Log::None,
        };
        let (mut execution, executables) = self.begin(log)?;
        let named = program.executables.iter().zip(&executables);
        let mut lists: Vec<Named> = match wanted {
            true => named.map(|(e, made)| (Some(e.name.clone()), made.list().clone())).collect(),
            false => Vec::new(),
        };
        match execution.check(&lowered.main, &options.machine.ops, &mut refused) {
            _ if !refused.is_empty() => {
                let errors = TraceError::several(refused).into_iter().collect();
                return Err(RunError { errors, runtime: false });
            }
            // The program is valid as far as it goes; its run will find how far that is.
            Err(e) if e.runtime && !wanted => return Ok(lists),
            done => done?,
        }
        if !wanted {
            let wrong = program.outputs.iter().filter_map(|output| {
                let tensor = execution.get(output.value?)?;
                let mismatch = output.mismatch(&execution.executor.spec(tensor)?)?;
                Some(program.error(output.site.span(), format!("{}: {mismatch}", output.name)))
            });
            return match TraceError::several(wrong.collect()) {
                None => Ok(lists),
                Some(error) => Err(RunError { errors: vec![error], runtime: false }),
            };
        }
        for output in &program.outputs {
            let span = output.site.span();
            if let Some(tensor) = output.value.and_then(|v| execution.get(v)).copied() {
                let read = execution.executor.read(&tensor, &program.origin(span));
                read.map_err(|e| RunError::at(program, span, &e))?;
            }
        }
        if let Some(own) = execution.executor.finish() {
            lists.insert(0, (None, own));
        }
        Ok(lists)
    }
}

impl DryRun {
    /// Makes a tensor an external of the list.
    fn declare(&mut self, name: &str, tensor: TensorRef) -> Result<()> {
        if let Some(recorder) = self.log.recorder() {
            recorder.external(self.builder.external(name, tensor)?);
        }
        Ok(())
    }

    /// Returns the list, if it is wanted and complete.
    fn finish(self) -> Option<InstructionList> {
        match self.log {
            Log::List(recorder) if !self.is_incomplete => Some(self.builder.finish_list(*recorder)),
            Log::List(_) | Log::None | Log::Steps(_) => None,
        }
    }

    /// Returns the submitter of the calls that `origin` asks for.
    fn submitter<'s>(&'s mut self, origin: &'s Origin) -> OfflineSubmitter<'s> {
        OfflineSubmitter {
            section: self.section(),
            builder: &mut self.builder,
            sink: &mut self.log,
            policies: &self.policies,
            tensors: &mut self.tensors,
            origin,
        }
    }

    /// Notes that the host waits for a point, as a run would.
    fn observe(&mut self, point: Point, origin: &Origin) {
        if self.log.annotated() {
            self.builder.observe(&mut self.log, &[point], origin);
        }
    }

    fn host_stream(&mut self, ty: StreamType) -> Result<StreamId> {
        self.submitter(&Origin::Unknown).stream(&StreamKey::new(DeviceId::cpu(0), ty, 0))
    }

    /// Returns the innermost open section that holds a known tensor.
    fn section(&self) -> Option<SectionId> {
        self.sections.iter().rev().copied().flatten().next()
    }
}

impl Executor for DryRun {
    type Tensor = Option<TensorRef>;
    type Event = EventRef;
    type Stream = StreamId;

    fn stream(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        self.builder.stream_with_mode(key, mode)
    }

    fn call(
        &mut self,
        call: &OpCall<'_, Option<TensorRef>>,
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<Vec<Option<TensorRef>>> {
        let known = |list: &[&Option<TensorRef>]| -> Option<Vec<TensorRef>> {
            list.iter().map(|t| **t).collect()
        };
        let out = match &call.out {
            None => Some(None),
            Some(targets) => known(targets).map(Some),
        };
        let (Some(inputs), Some(out)) = (known(&call.inputs), out) else {
            self.is_incomplete = true;
            return Ok(vec![None; call.named]);
        };
        if call.is_collective {
            let device = self.builder.streams().nth(stream.index()).map(|s| s.key.device.clone());
            if let Some(device) = device {
                let inputs: Vec<&TensorRef> = inputs.iter().collect();
                let communicator = self.communicator.clone();
                let place = (stream, &device);
                let submitter = &mut self.submitter(origin);
                let (name, attrs) = (call.name, call.attrs);
                let made =
                    lowering::collective(submitter, &*communicator, place, name, &inputs, attrs)?;
                if let Some(done) = made {
                    return Ok(done.into_iter().map(Some).collect());
                }
            }
        }
        let op = match call.op {
            Callee::Op(op) => op,
            Callee::Composite(op) => {
                let mut calls = DryCalls::new(self, call, *stream, origin);
                return match calls.composite(op, &inputs, call.attrs, out.as_deref()) {
                    Err(_) if calls.is_unknown => Ok(vec![None; call.named]),
                    made => Ok(made?.into_iter().map(Some).collect()),
                };
            }
        };
        let call_of_op = Call {
            op,
            inputs: &inputs,
            into: out.as_deref(),
            attrs: call.attrs,
            stream: *stream,
            priority: Priority(call.priority),
            section: self.section(),
            origin,
        };
        let outputs = self.submitter(origin).submit(&call_of_op)?;
        let mut results = Vec::with_capacity(outputs.len());
        for output in outputs {
            results.push(match output {
                Output::Tensor(tensor) => Some(tensor),
                Output::Same(input) => Some(inputs[input]),
                Output::Bounded { data, count } => {
                    self.is_incomplete = true;
                    for tensor in [data, count] {
                        self.builder.release(&mut self.log, tensor, None, origin)?;
                    }
                    None
                }
            });
        }
        Ok(results)
    }

    fn completed(
        &mut self,
        result: Option<TensorRef>,
        recorded: &TensorSpec,
        stream: &StreamId,
    ) -> Result<Option<TensorRef>> {
        if result.is_some() || !matches!(self.log, Log::Steps(_)) {
            return Ok(result);
        }
        let device = self.builder.streams().nth(stream.index()).map(|s| s.key.device.clone());
        let Some(device) = device else { return Ok(None) };
        let bytes = (recorded.numel() * recorded.dtype.size()) as u64;
        let spec = TensorSpec::contiguous(recorded.dtype, recorded.shape())?;
        self.builder.import(&self.log, spec, bytes, &device).map(Some)
    }

    fn device<'t>(&'t self, tensor: &'t Option<TensorRef>) -> Option<&'t DeviceId> {
        self.builder.device((*tensor)?).ok()
    }

    fn spec(&self, tensor: &Option<TensorRef>) -> Option<TensorSpec> {
        self.builder.spec((*tensor)?).ok().cloned()
    }

    fn is_same(&self, a: &Option<TensorRef>, b: &Option<TensorRef>) -> bool {
        a == b
    }

    fn release(&mut self, tensor: &Option<TensorRef>, origin: &Origin) -> Result<()> {
        let Some(tensor) = *tensor else { return Ok(()) };
        let section = self.section();
        self.builder.release(&mut self.log, tensor, section, origin)
    }

    fn record(&mut self, stream: &StreamId, origin: &Origin) -> Result<EventRef> {
        self.builder.record_event(&mut self.log, *stream, origin)
    }

    fn wait(&mut self, stream: &StreamId, event: &EventRef, origin: &Origin) -> Result<()> {
        self.builder.wait_event(&mut self.log, *stream, event, origin)
    }

    fn stream_wait(&mut self, from: &StreamId, to: &StreamId, origin: &Origin) -> Result<()> {
        self.builder.wait_stream(&mut self.log, *to, *from, origin)
    }

    fn touch(
        &mut self,
        tensors: &[&Option<TensorRef>],
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<()> {
        let tensors: Vec<TensorRef> = tensors.iter().filter_map(|t| **t).collect();
        let section = self.section();
        self.builder.touch(&mut self.log, *stream, &tensors, section, origin)?;
        Ok(())
    }

    fn read(&mut self, tensor: &Option<TensorRef>, origin: &Origin) -> Result<Option<Vec<u8>>> {
        let Some(tensor) = *tensor else { return Ok(None) };
        let submitter = &mut self.submitter(origin);
        let (tensor, stream, section) = match lowering::stage_read(submitter, &tensor)? {
            Some((staged, stream)) => (staged, stream, None),
            None => (tensor, lowering::read_stream(submitter, &tensor)?, submitter.section),
        };
        let Self { builder, log, .. } = self;
        let at = builder.sync_read(log, stream, tensor, ReadId(0), section, origin)?;
        self.observe(at, origin);
        Ok(None)
    }

    fn barrier(&mut self, global: bool, origin: &Origin) -> Result<()> {
        let stream = self.host_stream(StreamType::BARRIER)?;
        self.builder.barrier(&mut self.log, stream, global, origin)?;
        Ok(())
    }

    fn synchronize(&mut self, stream: &StreamId, origin: &Origin) -> Result<()> {
        self.observe(self.builder.tail(*stream), origin);
        Ok(())
    }

    fn begin_section(&mut self, tensors: &[&Option<TensorRef>], origin: &Origin) -> Result<()> {
        let stream = self.host_stream(StreamType::CRITICAL_SECTION)?;
        let held: Vec<TensorRef> = tensors.iter().filter_map(|t| **t).collect();
        if held.is_empty() && !tensors.is_empty() {
            self.sections.push(None);
            return Ok(());
        }
        let outer = self.section();
        let begun =
            self.builder.begin_nested_section(&mut self.log, stream, &held, outer, origin)?;
        self.sections.push(Some(begun));
        Ok(())
    }

    fn end_section(&mut self, origin: &Origin) -> Result<()> {
        let Some(Some(section)) = self.sections.pop() else { return Ok(()) };
        self.builder.end_critical_section(&mut self.log, section, origin)?;
        Ok(())
    }

    fn launch(
        &mut self,
        call: &LaunchCall<'_, Option<TensorRef>>,
        stream: Option<&StreamId>,
        origin: &Origin,
    ) -> Result<Vec<Option<TensorRef>>> {
        let stream = match stream {
            Some(stream) => *stream,
            None => self.host_stream(StreamType::LAZY_JOB_LAUNCHER)?,
        };
        let (list, section) = (ListId(call.executable.0), self.section());
        let given = call.inputs.iter().chain(&call.bound);
        let inputs = given.map(|(name, tensor)| Some((*name, (**tensor)?)));
        let into = call.into.iter().map(|(name, tensor)| Some((*name, (**tensor)?)));
        let inputs: Option<Vec<(&str, TensorRef)>> = inputs.collect();
        let into: Option<Vec<(&str, TensorRef)>> = into.collect();
        let workspaces: Option<Vec<TensorRef>> = call.workspaces.iter().map(|t| **t).collect();
        let (Some(inputs), Some(into), Some(workspaces)) = (inputs, into, workspaces) else {
            self.is_incomplete = true;
            return Ok(vec![None; call.outputs]);
        };
        let DryRun { builder, log, executables, .. } = self;
        let launches = &mut executables[call.executable.index()];
        if let Some(recorder) = log.recorder() {
            recorder.executable(list, launches.executable().list());
        }
        let launch = OfflineLaunch { stream, list, section, workspaces: &workspaces, origin };
        let made = launches.launch(builder, log, &inputs, &into, &call.scalars, launch)?;
        Ok(made.into_iter().map(Some).collect())
    }

    fn assign(&mut self, _: &Self::Tensor, _: &Self::Tensor, _: &Origin) -> Result<()> {
        Err(Error::Internal { message: "a launch writes its outputs itself".to_owned() })
    }
}
