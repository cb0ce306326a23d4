//! Executes the actions of a lowered program on a machine: one that runs them, one that only
//! checks them, or the one that records the list of an executable.

use std::sync::Arc;

use millstream_ops::random::{OFFSET, SEED};
use millstream_types::{
    Attrs, Error, Origin, Result, ScalarUse, StreamKey, StreamMode, StreamType, TensorSpec,
};
use millstream_vm::lowering::runs_on_host;
use millstream_vm::{
    Event, Generator, GeneratorState, Machine, RecordedTensor, Recorder, Section, Stream, Tensor,
    with_origin, with_stream,
};

use crate::executables::Compiled;
use crate::lower::{Callee, LoweredCall};

/// The operands of a call.
pub(crate) struct Operands<'a> {
    pub(crate) inputs: Vec<&'a Tensor>,
    /// The existing tensors that take the results.
    pub(crate) out: Option<Vec<&'a Tensor>>,
    pub(crate) attrs: &'a Arc<Attrs>,
}

/// Submits actions to a machine. Errors carry no place of the trace: the step has its own.
pub(crate) struct Executor {
    machine: Machine,
    /// The list of an executable, if actions are recorded for its launches.
    recording: Option<Recording>,
    /// The open sections, the innermost last.
    sections: Vec<Section>,
    /// The program's executables.
    pub(crate) executables: Vec<Compiled>,
    /// Failures of instructions that a step waited for. The program goes on.
    pub(crate) failures: Vec<Error>,
    /// Whether tensors whose shapes only a run tells have those that the trace recorded.
    pub(crate) stands_in: bool,
    /// Whether the tensors that the executables use are bound to them.
    pub(crate) binds: bool,
}

/// A list that is recorded. A read or a synchronization of the program only makes the host wait,
/// and a launch has no host in it, so they are left out.
struct Recording {
    recorder: Recorder,
    /// The machine of the launches.
    target: Machine,
    /// The draws of the program's random calls; none if their seeds are fixed.
    draws: Option<Draws>,
}

/// The own random numbers of an imported program: the import gives each draw the seed of the
/// program and the next offset.
#[derive(Default)]
struct Draws {
    /// None before the first draw.
    generator: Option<Generator>,
    /// How many draws were recorded.
    made: u64,
}

/// The offset of the first draw of an imported program.
const FIRST_OFFSET: u64 = 1;

/// Returns whether only a run tells what was asked for.
pub(crate) fn is_of_run(error: &Error) -> bool {
    matches!(error.without_place(), Error::NotRun { .. })
}

impl Recording {
    /// Refuses a collective that runs on the host, on copies.
    fn check_collective(&self, call: &LoweredCall, stream: &Stream) -> Result<()> {
        let device = &stream.key().device;
        if !runs_on_host(self.target.policies(), &**self.target.communicator(), device) {
            return Ok(());
        }
        let message = format!(
            "the collectives of {device} run on the host, on copies; they cannot stand in an \
             executable"
        );
        Err(Error::Op { op: call.name.clone(), message })
    }

    /// Returns the seed and the offset of a random call whose numbers are the program's own.
    fn draw(&mut self, attrs: &Attrs) -> Result<Option<[ScalarUse; 2]>> {
        let Some(Draws { generator, made }) = &mut self.draws else { return Ok(None) };
        let (Some(seed), Some(offset)) = (attrs.int(SEED)?, attrs.int(OFFSET)?) else {
            return Ok(None);
        };
        let generator = generator.get_or_insert_with(|| {
            let generator = Generator::new(seed as u64);
            generator.set_state(GeneratorState { seed: seed as u64, offset: FIRST_OFFSET });
            generator
        });
        let number = u64::try_from(offset).ok().and_then(|offset| offset.checked_sub(FIRST_OFFSET));
        let Some(skipped) = number.and_then(|number| number.checked_sub(*made)) else {
            return Ok(None);
        };
        self.recorder.skip_draws(generator, skipped);
        *made += skipped + 1;
        Ok(Some(self.recorder.draw(generator)))
    }
}

impl Executor {
    /// Returns the executor that runs or checks actions on a machine.
    pub(crate) fn new(machine: &Machine) -> Executor {
        Executor {
            machine: machine.clone(),
            recording: None,
            sections: Vec::new(),
            executables: Vec::new(),
            failures: Vec::new(),
            stands_in: false,
            binds: true,
        }
    }

    /// Returns the executor that records actions for launches on a machine.
    pub(crate) fn recording(target: &Machine) -> Executor {
        let recorder = target.recorder();
        let machine = recorder.list().clone();
        let recording = Some(Recording { recorder, target: target.clone(), draws: None });
        Executor { recording, ..Executor::new(&machine) }
    }

    /// Returns whether the statements of an executable are executed in the place of its launch.
    /// Outputs are then assigned to the tensors that take them.
    pub(crate) const fn is_recording(&self) -> bool {
        self.recording.is_some()
    }

    /// Returns the recorder of the list.
    pub(crate) fn recorder(&mut self) -> Result<&mut Recorder> {
        let none = || Error::Internal { message: "nothing is recorded".to_owned() };
        Ok(&mut self.recording.as_mut().ok_or_else(none)?.recorder)
    }

    /// Returns the list.
    pub(crate) fn finish(&mut self) -> Result<millstream_vm::Recorded> {
        let none = || Error::Internal { message: "nothing is recorded".to_owned() };
        self.recording.take().ok_or_else(none)?.recorder.finish()
    }

    /// Declares a formal of the list.
    pub(crate) fn formal(
        &mut self,
        declare: impl FnOnce(&mut Recorder) -> Result<RecordedTensor>,
    ) -> Result<Tensor> {
        let recorder = self.recorder()?;
        let formal = declare(recorder)?;
        recorder.shown(&formal)
    }

    /// Records random calls as draws of a generator: the first launch draws the numbers of the
    /// program, and each later launch goes on from there.
    pub(crate) fn draw(&mut self) {
        if let Some(recording) = &mut self.recording {
            recording.draws = Some(Draws::default());
        }
    }

    /// Ends the recording of a program with so many draws, of which other ranks may make some.
    pub(crate) fn end_draws(&mut self, all: usize) {
        if let Some(Recording { recorder, draws: Some(draws), .. }) = &mut self.recording
            && let Some(generator) = &draws.generator
        {
            recorder.skip_draws(generator, (all as u64).saturating_sub(draws.made));
        }
    }

    /// Returns the innermost open section: tensors that it or an outer one holds are used from
    /// there.
    pub(crate) fn section(&self) -> Option<&Section> {
        self.sections.last()
    }

    /// Keeps a failure, which does not stop the program: only its dependents are skipped.
    fn note(&mut self, done: Result<()>) -> Result<()> {
        match done {
            Err(e) if e.failure().is_some() => {
                self.failures.push(e);
                Ok(())
            }
            other => other,
        }
    }

    /// Returns the stream of a key. It exists in this mode from then on.
    pub(crate) fn stream(&self, key: &StreamKey, mode: StreamMode) -> Result<Stream> {
        self.machine.stream_with_mode(key, mode)
    }

    /// Makes a call. Returns at least as many results as have names, if the op has as many.
    pub(crate) fn call(
        &mut self,
        call: &LoweredCall,
        operands: &Operands<'_>,
        stream: &Stream,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        let Operands { inputs, out, attrs } = operands;
        if let (Callee::Redistribute, Some(to), [of]) = (call.op, &call.held, &inputs[..]) {
            let moved = || of.to_global(to.mesh(), to.sbp().iter().copied());
            let moved = with_origin(origin, || with_stream(stream, moved))?;
            return Ok(vec![moved]);
        }
        let made = self.machine.call(&call.name, inputs).attrs(&***attrs).priority(call.priority);
        let mut made = made.origin(origin.clone());
        match &mut self.recording {
            Some(recording) => {
                if call.is_collective {
                    recording.check_collective(call, stream)?;
                }
                if let Some([seed, offset]) = recording.draw(attrs)? {
                    made = made.attr(SEED, seed).attr(OFFSET, offset);
                }
            }
            None if call.is_collective => return made.collective_on(stream),
            None => {}
        }
        if let Some(targets) = out {
            made = made.out(targets);
        }
        if let Some(section) = self.sections.last() {
            made = made.within(section);
        }
        let made = match &call.held {
            Some(held) if out.is_none() => made.held_on(stream, held),
            Some(_) | None => made.on(stream),
        };
        match made {
            Err(e) if self.is_recording() => Err(match e.without_place() {
                Error::NotRun { op: Some(of) } => {
                    let why = "its result's size is known only by running it, so it cannot stand \
                               in an executable";
                    let op = call.name.clone();
                    let is_own = *of == op;
                    let inner =
                        if is_own { String::new() } else { format!("its call of '{of}': ") };
                    Error::Op { op, message: format!("{inner}{why}") }
                }
                _ => e,
            }),
            made => made,
        }
    }

    /// Returns a tensor of a recorded shape in the place of one whose shape only a run tells, if
    /// such are made.
    pub(crate) fn stand_in(
        &self,
        name: &str,
        recorded: &TensorSpec,
        stream: &Stream,
    ) -> Result<Option<Tensor>> {
        let spec = TensorSpec::contiguous(recorded.dtype, recorded.shape())?;
        let (bytes, device) = (spec.span_bytes() as u64, &stream.key().device);
        let made = self.stands_in.then(|| self.machine.declare(name, spec, bytes, device));
        made.transpose()
    }

    /// Releases a tensor. The launch of a list holds its formals; the list only stops using one.
    /// Several names may be of one global tensor, which ends with the last of them.
    pub(crate) fn release(&self, tensor: &Tensor, origin: &Origin) -> Result<()> {
        if tensor.sharding().is_some() {
            return Ok(());
        }
        let formal = self.recording.as_ref().map(|list| &list.recorder);
        if formal.is_some_and(|recorder| recorder.is_formal(&RecordedTensor::of(tensor))) {
            return Ok(());
        }
        with_origin(origin, || tensor.release_within(self.section()))
    }

    /// Records an event behind everything that the stream was given.
    pub(crate) fn record(&self, stream: &Stream, origin: &Origin) -> Result<Event> {
        with_origin(origin, || stream.record_event())
    }

    /// Orders a stream behind an event.
    pub(crate) fn wait(&self, stream: &Stream, event: &Event, origin: &Origin) -> Result<()> {
        with_origin(origin, || stream.wait_event(event))
    }

    /// Orders `to` behind everything that `from` was given.
    pub(crate) fn stream_wait(&self, from: &Stream, to: &Stream, origin: &Origin) -> Result<()> {
        with_origin(origin, || to.wait_stream(from))
    }

    /// Uses tensors as reads do, without reading them.
    pub(crate) fn touch(
        &self,
        tensors: &[&Tensor],
        stream: &Stream,
        origin: &Origin,
    ) -> Result<()> {
        with_origin(origin, || stream.touch_within(tensors, self.section())).map(drop)
    }

    /// Reads a tensor on the host. Returns its elements in row-major order, if it has any here.
    pub(crate) fn read(&mut self, tensor: &Tensor, origin: &Origin) -> Result<Option<Vec<u8>>> {
        if self.is_recording() {
            return Ok(None);
        }
        let mut bytes = None;
        let read = with_origin(origin, || tensor.read_within(self.section()));
        if matches!(&read, Err(e) if is_of_run(e)) {
            return Ok(None);
        }
        self.note(read.map(|read| bytes = Some(read)))?;
        Ok(bytes)
    }

    /// Orders everything before behind everything after, on all ranks if `global`.
    pub(crate) fn barrier(&self, global: bool, origin: &Origin) -> Result<()> {
        let barrier = || if global { self.machine.global_sync() } else { self.machine.barrier() };
        with_origin(origin, barrier).map(drop)
    }

    /// Makes the host wait for a stream.
    pub(crate) fn synchronize(&mut self, stream: &Stream, origin: &Origin) -> Result<()> {
        if self.is_recording() {
            return Ok(());
        }
        let waited = with_origin(origin, || stream.synchronize());
        self.note(waited)
    }

    /// Begins an exclusive hold of tensors.
    pub(crate) fn begin_section(&mut self, tensors: &[&Tensor], origin: &Origin) -> Result<()> {
        let outer = self.section();
        let section = with_origin(origin, || self.machine.critical_section_within(tensors, outer))?;
        self.sections.push(section);
        Ok(())
    }

    /// Ends the innermost hold.
    pub(crate) fn end_section(&mut self, origin: &Origin) -> Result<()> {
        match self.sections.pop() {
            Some(section) => with_origin(origin, || section.end()).map(drop),
            None => Ok(()),
        }
    }

    /// Copies the elements of a tensor to another one of its description.
    pub(crate) fn assign(&self, from: &Tensor, to: &Tensor, origin: &Origin) -> Result<()> {
        let key = StreamKey::new(to.device().clone(), StreamType::COMPUTE, 0);
        let stream = self.machine.stream(&key)?;
        let copy = self.machine.call("copy", &[from]).out(&[to]);
        copy.origin(origin.clone()).on(&stream).map(drop)
    }
}
