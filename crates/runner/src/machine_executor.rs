//! The executor that is a machine.

use millstream_trace::JobRef;
use millstream_types::{Attrs, Error, Origin, Result, StreamKey, StreamMode, TensorSpec};
use millstream_vm::{Event, Job, Machine, Section, Stream, Tensor};

use crate::collective;
use crate::executor::{Executor, OpCall};

/// Submits steps to a machine.
pub(crate) struct MachineExecutor<'a> {
    machine: &'a Machine,
    /// The open sections, the innermost last.
    sections: Vec<Section>,
    /// The stored lists of the program's jobs.
    pub(crate) jobs: Vec<Job>,
    /// Failures of instructions that a step waited for. The program goes on.
    pub(crate) failures: Vec<Error>,
}

impl<'a> MachineExecutor<'a> {
    pub(crate) const fn new(machine: &'a Machine) -> MachineExecutor<'a> {
        MachineExecutor { machine, sections: Vec::new(), jobs: Vec::new(), failures: Vec::new() }
    }

    /// Returns the innermost open section: tensors that it or an outer one holds are used from there.
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
        if call.is_collective && collective::is_staged(self.machine, stream) {
            return collective::on_host(self.machine, call, origin);
        }
        let mut made = self
            .machine
            .call(call.name, &call.inputs)
            .attrs(Attrs::clone(call.attrs))
            .priority(call.priority);
        if let Some(targets) = &call.out {
            made = made.into(targets);
        }
        if let Some(section) = self.section() {
            made = made.within(section);
        }
        made.from(origin.clone()).on(stream)
    }

    fn spec(&self, tensor: &Tensor) -> Option<TensorSpec> {
        Some(tensor.spec().clone())
    }

    fn release(&mut self, tensor: &Tensor, origin: &Origin) -> Result<()> {
        tensor.release_from(self.section(), origin.clone())
    }

    fn record(&mut self, stream: &Stream, origin: &Origin) -> Result<Event> {
        self.machine.record_from(stream, origin.clone())
    }

    fn wait(&mut self, stream: &Stream, event: &Event, origin: &Origin) -> Result<()> {
        stream.wait_event_from(event, origin.clone())
    }

    fn stream_wait(&mut self, from: &Stream, to: &Stream, origin: &Origin) -> Result<()> {
        to.wait_stream_from(from, origin.clone())
    }

    fn touch(&mut self, tensors: &[&Tensor], stream: &Stream, origin: &Origin) -> Result<()> {
        stream.touch_from(tensors, self.section(), origin.clone())?;
        Ok(())
    }

    fn read(&mut self, tensor: &Tensor, origin: &Origin) -> Result<()> {
        let read = tensor.read_within(self.section(), origin.clone());
        self.note(read.map(drop))
    }

    fn barrier(&mut self, global: bool, origin: &Origin) -> Result<()> {
        self.machine.barrier_from(global, origin.clone())?;
        Ok(())
    }

    fn synchronize(&mut self, stream: &Stream, origin: &Origin) -> Result<()> {
        let waited = stream.synchronize_from(None, origin.clone());
        self.note(waited)
    }

    fn begin_section(&mut self, tensors: &[&Tensor], origin: &Origin) -> Result<()> {
        let outer = self.section();
        let section = self.machine.critical_section_within(tensors, outer, origin.clone())?;
        self.sections.push(section);
        Ok(())
    }

    fn end_section(&mut self, origin: &Origin) -> Result<()> {
        match self.sections.pop() {
            Some(section) => section.end_from(origin.clone()).map(drop),
            None => Ok(()),
        }
    }

    fn launch(&mut self, job: JobRef, stream: Option<&Stream>, origin: &Origin) -> Result<()> {
        let job = &self.jobs[job.index()];
        match stream {
            Some(stream) => job.launch_on(stream, origin.clone())?,
            None => job.launch_from(origin.clone())?,
        };
        Ok(())
    }
}
