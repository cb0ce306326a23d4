//! The executor that is a machine: one that runs calls, or one that only checks them.

use millstream_types::{DeviceId, Error, Origin, Result, StreamKey, StreamMode, TensorSpec};
use millstream_vm::{Event, Executable, Machine, Section, Stream, Tensor, with_origin};

use crate::executor::{Executor, LaunchCall, OpCall};

/// Submits steps to a machine.
pub(crate) struct MachineExecutor<'a> {
    machine: &'a Machine,
    /// The open sections, the innermost last.
    sections: Vec<Section>,
    /// The program's executables.
    pub(crate) executables: Vec<Executable>,
    /// Failures of instructions that a step waited for. The program goes on.
    pub(crate) failures: Vec<Error>,
    /// Whether tensors whose shapes only a run tells have those that the trace recorded.
    pub(crate) stands_in: bool,
    /// Whether the tensors that the executables use are bound to them.
    pub(crate) binds: bool,
}

impl<'a> MachineExecutor<'a> {
    pub(crate) fn new(machine: &'a Machine) -> MachineExecutor<'a> {
        let (sections, executables, failures) = (Vec::new(), Vec::new(), Vec::new());
        MachineExecutor { machine, sections, executables, failures, stands_in: false, binds: true }
    }

    /// Returns the innermost open section: tensors that it or an outer one holds are used from
    /// there.
    fn section(&self) -> Option<&Section> {
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
}

/// Returns whether only a run tells what was asked for.
pub(crate) fn is_of_run(error: &Error) -> bool {
    matches!(error.without_place(), Error::NotRun { .. })
}

impl Executor for MachineExecutor<'_> {
    type Tensor = Tensor;
    type Event = Event;
    type Stream = Stream;

    fn stream(&mut self, key: &StreamKey, mode: StreamMode) -> Result<Stream> {
        self.machine.stream_with_mode(key, mode)
    }

    fn call(
        &mut self,
        call: &OpCall<'_, Tensor>,
        stream: &Stream,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        let mut made = self
            .machine
            .call(call.name, &call.inputs)
            .attrs(&**call.attrs)
            .priority(call.priority)
            .origin(origin.clone());
        if call.is_collective {
            return made.collective_on(stream);
        }
        if let Some(targets) = &call.out {
            made = made.out(targets);
        }
        if let Some(section) = self.section() {
            made = made.within(section);
        }
        made.on(stream)
    }

    fn stand_in(
        &mut self,
        name: &str,
        recorded: &TensorSpec,
        stream: &Stream,
    ) -> Result<Option<Tensor>> {
        let spec = TensorSpec::contiguous(recorded.dtype, recorded.shape())?;
        let (bytes, device) = (spec.span_bytes() as u64, &stream.key().device);
        let made = self.stands_in.then(|| self.machine.declare(name, spec, bytes, device));
        made.transpose()
    }

    fn device<'t>(&'t self, tensor: &'t Tensor) -> Option<&'t DeviceId> {
        Some(tensor.device())
    }

    fn spec(&self, tensor: &Tensor) -> Option<TensorSpec> {
        Some(tensor.spec().clone())
    }

    fn is_same(&self, a: &Tensor, b: &Tensor) -> bool {
        a.tensor_ref() == b.tensor_ref()
    }

    fn release(&mut self, tensor: &Tensor, origin: &Origin) -> Result<()> {
        with_origin(origin, || tensor.release_within(self.section()))
    }

    fn record(&mut self, stream: &Stream, origin: &Origin) -> Result<Event> {
        with_origin(origin, || stream.record_event())
    }

    fn wait(&mut self, stream: &Stream, event: &Event, origin: &Origin) -> Result<()> {
        with_origin(origin, || stream.wait_event(event))
    }

    fn stream_wait(&mut self, from: &Stream, to: &Stream, origin: &Origin) -> Result<()> {
        with_origin(origin, || to.wait_stream(from))
    }

    fn touch(&mut self, tensors: &[&Tensor], stream: &Stream, origin: &Origin) -> Result<()> {
        with_origin(origin, || stream.touch_within(tensors, self.section()))?;
        Ok(())
    }

    fn read(&mut self, tensor: &Tensor, origin: &Origin) -> Result<Option<Vec<u8>>> {
        let mut bytes = None;
        let read = with_origin(origin, || tensor.read_within(self.section()));
        if matches!(&read, Err(e) if is_of_run(e)) {
            return Ok(None);
        }
        self.note(read.map(|read| bytes = Some(read)))?;
        Ok(bytes)
    }

    fn barrier(&mut self, global: bool, origin: &Origin) -> Result<()> {
        with_origin(origin, || match global {
            true => self.machine.global_sync(),
            false => self.machine.barrier(),
        })?;
        Ok(())
    }

    fn synchronize(&mut self, stream: &Stream, origin: &Origin) -> Result<()> {
        let waited = with_origin(origin, || stream.synchronize());
        self.note(waited)
    }

    fn begin_section(&mut self, tensors: &[&Tensor], origin: &Origin) -> Result<()> {
        let outer = self.section();
        let section = with_origin(origin, || self.machine.critical_section_within(tensors, outer))?;
        self.sections.push(section);
        Ok(())
    }

    fn end_section(&mut self, origin: &Origin) -> Result<()> {
        match self.sections.pop() {
            Some(section) => with_origin(origin, || section.end()).map(drop),
            None => Ok(()),
        }
    }

    fn launch(
        &mut self,
        call: &LaunchCall<'_, Tensor>,
        stream: Option<&Stream>,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        let mut launch = self.executables[call.executable.index()].launch().origin(origin.clone());
        // On a machine that runs nothing, what would be bound is given.
        let bound = if self.binds { &[][..] } else { &call.bound };
        for (name, tensor) in call.inputs.iter().chain(bound) {
            launch = launch.input(name, tensor);
        }
        for (name, value) in &call.scalars {
            launch = launch.scalar(name, *value);
        }
        for (name, tensor) in &call.into {
            launch = launch.output(name, tensor);
        }
        for memory in &call.workspaces {
            launch = launch.workspace(memory);
        }
        if let Some(stream) = stream {
            launch = launch.on(stream);
        }
        if let Some(section) = self.section() {
            launch = launch.within(section);
        }
        Ok(launch.run()?.outputs().to_vec())
    }

    fn assign(&mut self, _: &Tensor, _: &Tensor, _: &Origin) -> Result<()> {
        Err(Error::Internal { message: "a launch writes its outputs itself".to_owned() })
    }
}
