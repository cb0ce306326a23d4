//! The stage without a device: the builder alone, so that a whole program is checked before
//! anything runs.
//!
//! A tensor whose shape only the data can tell is unknown here, and so is all that is made of it:
//! of calls on it nothing is checked but the op's name and the stream.

use std::sync::Arc;

use millstream_instructions::builder::{EventRef, Output, SectionId};
use millstream_instructions::{
    Builder, BuilderConfig, Call, Instruction, Need, Outcome, Sink, TensorRef,
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

/// Takes instructions and forgets them. Nothing runs, so nothing is ever in use.
struct Nowhere;

impl Sink for Nowhere {
    fn emit(&mut self, _: Instruction) {}

    fn reached(&self, _: Point) -> bool {
        true
    }

    fn annotated(&self) -> bool {
        false
    }
}

struct Rehearsal {
    builder: Builder,
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
    let Body::Statements(block) = &program.body else { return Ok(()) };
    let streams = Streams::new(program, options)?;
    let mut uses = Vec::new();
    for job in &program.jobs {
        one(machine, program, options, streams.clone(), &job.block, &job.uses, None)?;
        uses.push(job.uses.as_slice());
    }
    let all: Vec<ValueRef> = (0..program.tensors.len() as u32).map(ValueRef).collect();
    one(machine, program, options, streams, block, &all, Some(&uses))
}

/// Checks the program, or one job of it. `jobs` holds the tensors that each job uses.
fn one(
    machine: &Machine,
    program: &Program,
    options: &RunOptions,
    streams: Streams,
    block: &Block,
    tensors: &[ValueRef],
    jobs: Option<&[&[ValueRef]]>,
) -> Result<(), RunError> {
    let catalog = Box::new(Catalog(machine.policies().clone()));
    let config = BuilderConfig { sync: options.sync };
    let builder = Builder::new(&config, options.ops.clone(), catalog);
    let stage =
        Rehearsal { builder, sections: Vec::new(), jobs: Vec::new(), in_job: jobs.is_none() };
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
        let made = walk.stage.builder.import(&Nowhere, tensor.spec.clone(), bytes, device);
        walk.set(value, Some(made.map_err(at)?));
    }
    for used in jobs.unwrap_or_default() {
        let used = used.iter().map(|v| walk.get(*v).copied().flatten()).collect();
        walk.stage.jobs.push(used);
    }
    match walk.all(&block.statements) {
        // The program is right as far as it goes; how far that is, its run will tell.
        Err(e) if e.runtime => Ok(()),
        done => done,
    }
}

impl Rehearsal {
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
            return Ok(vec![None; call.named]);
        };
        let attrs = Arc::new(call.attrs.clone());
        let call_of_op = Call {
            op,
            inputs: &inputs,
            into: into.as_deref(),
            attrs: &attrs,
            stream: *stream,
            section: self.section(),
            origin,
        };
        let outputs = loop {
            match self.builder.call(&mut Nowhere, &call_of_op)? {
                Outcome::Done(outputs) => break outputs,
                Outcome::Need(need) => grow(&mut self.builder, &mut Nowhere, need, origin)?,
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
                    for tensor in [data, count] {
                        self.builder.release(&mut Nowhere, tensor, None, origin)?;
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
        self.builder.release(&mut Nowhere, tensor, section, origin)
    }

    fn record(&mut self, stream: &StreamId, origin: &Origin) -> Result<EventRef> {
        self.builder.record_event(&mut Nowhere, *stream, origin)
    }

    fn wait(&mut self, stream: &StreamId, event: &EventRef, origin: &Origin) -> Result<()> {
        self.builder.wait_event(&mut Nowhere, *stream, event, origin)
    }

    fn stream_wait(&mut self, from: &StreamId, to: &StreamId, origin: &Origin) -> Result<()> {
        self.builder.wait_stream(&mut Nowhere, *to, *from, origin)
    }

    fn touch(
        &mut self,
        tensors: &[&Option<TensorRef>],
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<()> {
        let tensors: Vec<TensorRef> = tensors.iter().filter_map(|t| **t).collect();
        let section = self.section();
        self.builder.touch(&mut Nowhere, *stream, &tensors, section, origin)?;
        Ok(())
    }

    fn read(&mut self, tensor: &Option<TensorRef>, origin: &Origin) -> Result<()> {
        let Some(tensor) = *tensor else { return Ok(()) };
        let stream = match self.builder.device(tensor)? {
            device if device.kind() == "cpu" => StreamKey::compute(device.clone(), 0),
            device => StreamKey::new(device.clone(), StreamType::Device2Host, 0),
        };
        let stream = self.any_stream(&stream)?;
        let section = self.section();
        self.builder.sync_read(&mut Nowhere, stream, tensor, ReadId(0), section, origin)?;
        Ok(())
    }

    fn barrier(&mut self, global: bool, origin: &Origin) -> Result<()> {
        let stream = self.host_stream(StreamType::Barrier)?;
        self.builder.barrier(&mut Nowhere, stream, global, origin)?;
        Ok(())
    }

    fn synchronize(&mut self, _: &StreamId, _: &Origin) -> Result<()> {
        Ok(())
    }

    fn begin_section(&mut self, tensors: &[&Option<TensorRef>], origin: &Origin) -> Result<()> {
        let stream = self.host_stream(StreamType::CriticalSection)?;
        let held: Vec<TensorRef> = tensors.iter().filter_map(|t| **t).collect();
        if held.is_empty() && !tensors.is_empty() {
            self.sections.push(None);
            return Ok(());
        }
        let outer = self.section();
        let begun =
            self.builder.begin_nested_section(&mut Nowhere, stream, &held, outer, origin)?;
        self.sections.push(Some(begun));
        Ok(())
    }

    fn end_section(&mut self, origin: &Origin) -> Result<()> {
        let Some(Some(section)) = self.sections.pop() else { return Ok(()) };
        self.builder.end_critical_section(&mut Nowhere, section, origin)?;
        Ok(())
    }

    fn job(&mut self, job: JobRef, stream: Option<&StreamId>, origin: &Origin) -> Result<()> {
        let stream = match stream {
            Some(stream) => *stream,
            None => self.host_stream(StreamType::LazyJobLauncher)?,
        };
        let used: Vec<_> = self.jobs[job.index()]
            .iter()
            .filter_map(|t| Some(((*t)?, millstream_types::Access::ReadWrite)))
            .collect();
        let list = millstream_types::ListId(job.0);
        self.builder.launch_job(&mut Nowhere, stream, list, &used, None, origin)?;
        Ok(())
    }
}
