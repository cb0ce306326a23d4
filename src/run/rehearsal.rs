//! The stage without a device: the builder alone, so that a whole program is checked before
//! anything runs, and so that its lists can be had without a run.
//!
//! A tensor whose shape only the data can tell is unknown here, and so is all that is made of it:
//! of calls on it nothing is checked but the op's name and the stream.

use std::sync::Arc;

use millstream_instructions::builder::{EventRef, Output, SectionId};
use millstream_instructions::{
    Builder, BuilderConfig, Call, External, Instruction, InstructionList, ListRecorder, Need,
    Outcome, Priority, Sink, TensorRef,
};
use millstream_stream_policy::Catalog;
use millstream_trace::{Block, Body, JobRef, Program, ValueRef};
use millstream_types::{
    DeviceId, Error, Origin, Point, ReadId, Result, StreamId, StreamKey, StreamMode, StreamType,
    TensorSpec,
};
use millstream_vm::Machine;

use crate::run::error::RunError;
use crate::run::options::RunOptions;
use crate::run::stage::{OpCall, Stage};
use crate::run::statements::Walk;
use crate::run::streams::Streams;

/// More memory than any machine has: a program that needs it is right, and fails when it runs.
const ALL_MEMORY: u64 = 1 << 56;

/// Takes instructions and notes them, if they are wanted. Nothing runs, so nothing is ever in use.
#[derive(Default)]
struct Log(Option<ListRecorder>);

impl Sink for Log {
    fn emit(&mut self, instruction: Instruction) {
        if let Some(recorder) = &mut self.0 {
            recorder.push(&instruction);
        }
    }

    fn reached(&self, _: Point) -> bool {
        true
    }

    fn annotated(&self) -> bool {
        self.0.is_some()
    }
}

struct Rehearsal {
    builder: Builder,
    log: Log,
    /// Whether something could not be built, as only the data could tell its shape.
    unknown: bool,
    /// The sections that are open; none for one that holds only what is unknown.
    sections: Vec<Option<SectionId>>,
    /// The tensors of the trace that each job uses.
    jobs: Vec<Vec<Option<TensorRef>>>,
    in_job: bool,
}

/// Checks a program of statements.
pub(super) fn rehearse(
    machine: &Machine,
    program: &Program,
    options: &RunOptions,
) -> Result<(), RunError> {
    parts(machine, program, options, false).map(drop)
}

/// The lists of a program of statements, with the names of its jobs: first the program's own, if all
/// shapes are known.
pub(super) fn lists(
    machine: &Machine,
    program: &Program,
    options: &RunOptions,
) -> Result<Vec<(Option<String>, InstructionList)>, RunError> {
    let mut lists = parts(machine, program, options, true)?;
    if lists.last().is_some_and(|(job, _)| job.is_none()) {
        lists.rotate_right(1);
    }
    Ok(lists)
}

/// Checks the jobs and then the program. Returns their lists, if they are wanted.
fn parts(
    machine: &Machine,
    program: &Program,
    options: &RunOptions,
    wanted: bool,
) -> Result<Vec<(Option<String>, InstructionList)>, RunError> {
    let Body::Statements(block) = &program.body else { return Ok(Vec::new()) };
    let streams = Streams::new(program, options)?;
    let (mut uses, mut lists) = (Vec::new(), Vec::new());
    let part = |block, tensors: &[ValueRef], jobs| {
        one(machine, program, options, streams.clone(), block, tensors, jobs, wanted)
    };
    for job in &program.jobs {
        let list = part(&job.block, &job.uses, None)?;
        lists.extend(list.map(|list| (Some(job.name.clone()), list)));
        uses.push(job.uses.as_slice());
    }
    let all: Vec<ValueRef> = (0..program.tensors.len() as u32).map(ValueRef).collect();
    let list = part(block, &all, Some(&uses))?;
    lists.extend(list.map(|list| (None, list)));
    Ok(lists)
}

/// Checks the program, or one job of it. `jobs` holds the tensors that each job uses. Returns its
/// list, if that is wanted and all shapes are known.
#[allow(clippy::too_many_arguments)]
fn one(
    machine: &Machine,
    program: &Program,
    options: &RunOptions,
    streams: Streams,
    block: &Block,
    tensors: &[ValueRef],
    jobs: Option<&[&[ValueRef]]>,
    wanted: bool,
) -> Result<Option<InstructionList>, RunError> {
    let catalog = Box::new(Catalog(machine.policies().clone()));
    let config = BuilderConfig { sync: options.sync };
    let builder = Builder::new(&config, options.ops.clone(), catalog);
    let stage = Rehearsal {
        builder,
        log: Log(wanted.then(ListRecorder::new)),
        unknown: false,
        sections: Vec::new(),
        jobs: Vec::new(),
        in_job: jobs.is_none(),
    };
    let mut walk = Walk::new(stage, program, streams.clone(), block.events.len());
    for ((key, mode), declared) in streams.declared().iter().zip(&program.streams) {
        let known = walk.stage.builder.stream_with_mode(key, *mode);
        known.map_err(|e| RunError::at(program, declared.site.place(), &e))?;
    }
    for &value in tensors {
        let Some(tensor) = program.tensor(value) else { continue };
        let device = tensor.device.as_ref().unwrap_or(&options.device);
        let bytes = tensor.storage_bytes as u64;
        let at = |e: Error| RunError::at(program, tensor.site.place(), &e);
        machine.policies().devices().probe(device).map_err(at)?;
        let made = walk.stage.builder.import(&walk.stage.log, tensor.spec.clone(), bytes, device);
        let made = made.map_err(at)?;
        walk.stage.declare(&tensor.name, made).map_err(at)?;
        walk.set(value, Some(made));
    }
    for used in jobs.unwrap_or_default() {
        let used = used.iter().map(|v| walk.get(*v).copied().flatten()).collect();
        walk.stage.jobs.push(used);
    }
    match walk.all(&block.statements) {
        // The program is right as far as it goes; how far that is, its run will tell.
        Err(e) if e.runtime && !wanted => return Ok(None),
        done => done?,
    }
    if !wanted {
        return Ok(None);
    }
    for output in program.outputs.iter().filter(|_| jobs.is_some()) {
        let place = output.site.place();
        if let Some(tensor) = output.value.and_then(|v| walk.get(v)).copied() {
            let read = walk.stage.read(&tensor, &program.origin(place));
            read.map_err(|e| RunError::at(program, place, &e))?;
        }
    }
    if walk.stage.unknown {
        return Ok(None);
    }
    Ok(walk.stage.finish())
}

impl Rehearsal {
    /// A tensor that is there before the list.
    fn declare(&mut self, name: &str, tensor: TensorRef) -> Result<()> {
        let Some(recorder) = &mut self.log.0 else { return Ok(()) };
        let device = self.builder.device(tensor)?.clone();
        recorder.external(External {
            tensor: tensor.id,
            name: name.to_owned(),
            spec: self.builder.spec(tensor)?.clone(),
            bytes: self.builder.storage_bytes(tensor)?,
            arena: self.builder.planner_mut().arena(&device),
        });
        Ok(())
    }

    /// The stream that reads a tensor, as a machine chooses it.
    fn reader(&mut self, tensor: TensorRef) -> Result<StreamId> {
        let device = self.builder.device(tensor)?.clone();
        if !device.is_host() {
            return self.any_stream(&StreamKey::new(device, StreamType::DEVICE2HOST, 0));
        }
        let last = self.builder.last_write(tensor)?;
        let writer =
            self.builder.streams().nth(last.stream.index()).filter(|s| {
                last.seq > 0 && s.key.ty == StreamType::COMPUTE && s.key.device == device
            });
        match writer {
            Some(_) => Ok(last.stream),
            None => self.any_stream(&StreamKey::compute(device, 0)),
        }
    }

    /// The list, if it is wanted.
    fn finish(self) -> Option<InstructionList> {
        let mut recorder = self.log.0?;
        for decl in self.builder.streams() {
            recorder.stream(decl.clone());
        }
        for device in self.builder.planner().devices() {
            recorder.arena(device.clone());
        }
        recorder.ops(self.builder.ops().iter().map(|o| o.name()));
        Some(recorder.finish())
    }

    /// The host waits for a point, as a run would do here.
    fn observe(&mut self, point: Point, origin: &Origin) {
        if self.log.0.is_some() {
            self.builder.observe(&mut self.log, &[point], origin);
        }
    }

    fn host_stream(&mut self, ty: StreamType) -> Result<StreamId> {
        self.any_stream(&StreamKey::new(DeviceId::cpu(0), ty, 0))
    }

    /// The stream of this key, in whichever mode it is known.
    fn any_stream(&mut self, key: &StreamKey) -> Result<StreamId> {
        let known = self.builder.streams().find(|s| s.key == *key).map(|s| s.mode);
        self.builder.stream_with_mode(key, known.unwrap_or(StreamMode::InOrder))
    }

    /// The innermost section that is open and holds something.
    fn section(&self) -> Option<SectionId> {
        self.sections.iter().rev().copied().flatten().next()
    }
}

/// Gives the builder the memory that it asks for.
fn grow(builder: &mut Builder, sink: &mut dyn Sink, need: Need, origin: &Origin) -> Result<()> {
    if let Need::Grow { arena, bytes, .. } = need {
        let in_use = builder.planner().reserved(arena);
        if bytes > ALL_MEMORY || in_use > ALL_MEMORY {
            return Err(Error::OutOfMemory {
                device: builder.planner().device(arena).clone(),
                purpose: "the program".to_owned(),
                wanted: bytes,
                in_use,
                limit: ALL_MEMORY,
                holders: Vec::new(),
            });
        }
    }
    builder.assume(sink, need, origin)
}

impl Stage for Rehearsal {
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
        let op = self.builder.ops().id(call.op)?;
        let known = |list: &[&Option<TensorRef>]| -> Option<Vec<TensorRef>> {
            list.iter().map(|t| **t).collect()
        };
        let into = match &call.into {
            None => Some(None),
            Some(targets) => known(targets).map(Some),
        };
        let (Some(inputs), Some(into)) = (known(&call.inputs), into) else {
            self.unknown = true;
            return Ok(vec![None; call.named]);
        };
        let attrs = Arc::new(call.attrs.clone());
        let call_of_op = Call {
            op,
            inputs: &inputs,
            into: into.as_deref(),
            attrs: &attrs,
            stream: *stream,
            priority: Priority(call.priority),
            section: self.section(),
            origin,
        };
        let outputs = loop {
            match self.builder.call(&mut self.log, &call_of_op)? {
                Outcome::Done(outputs) => break outputs,
                Outcome::Need(need) => grow(&mut self.builder, &mut self.log, need, origin)?,
            }
        };
        let mut results = Vec::with_capacity(outputs.len());
        for output in outputs {
            results.push(match output {
                Output::Tensor(tensor) => Some(tensor),
                Output::Same(input) => Some(inputs[input]),
                Output::Bounded { .. } if self.in_job => {
                    let message = "its result's size is known only by running it, so it cannot \
                                   stand in a job"
                        .to_owned();
                    return Err(Error::Op { op: call.op.to_owned(), message });
                }
                Output::Bounded { data, count } => {
                    self.unknown = true;
                    for tensor in [data, count] {
                        self.builder.release(&mut self.log, tensor, None, origin)?;
                    }
                    None
                }
            });
        }
        Ok(results)
    }

    fn spec(&self, tensor: &Option<TensorRef>) -> Option<TensorSpec> {
        self.builder.spec((*tensor)?).ok().cloned()
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

    fn read(&mut self, tensor: &Option<TensorRef>, origin: &Origin) -> Result<()> {
        let Some(tensor) = *tensor else { return Ok(()) };
        let stream = self.reader(tensor)?;
        let section = self.section();
        let at =
            self.builder.sync_read(&mut self.log, stream, tensor, ReadId(0), section, origin)?;
        self.observe(at, origin);
        Ok(())
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

    fn job(&mut self, job: JobRef, stream: Option<&StreamId>, origin: &Origin) -> Result<()> {
        let stream = match stream {
            Some(stream) => *stream,
            None => self.host_stream(StreamType::LAZY_JOB_LAUNCHER)?,
        };
        let used: Vec<_> = self.jobs[job.index()]
            .iter()
            .filter_map(|t| Some(((*t)?, millstream_types::Access::ReadWrite)))
            .collect();
        let list = millstream_types::ListId(job.0);
        self.builder.launch_job(&mut self.log, stream, list, &used, None, origin)?;
        Ok(())
    }
}
