//! The stage that is a machine.

use millstream_trace::JobRef;
use millstream_types::{Error, Origin, Result, StreamKey, StreamMode, TensorSpec};
use millstream_vm::{Event, Job, Machine, Section, Stream, Tensor};

use crate::run::collective;
use crate::run::stage::{OpCall, Stage};

/// Statements on their way into a machine.
pub(super) struct Live<'a> {
    machine: &'a Machine,
    /// The sections that are open, the innermost last.
    sections: Vec<Section>,
    jobs: Vec<Job>,
    /// Instructions whose failure a statement came upon. The program goes on.
    pub(super) failures: Vec<Error>,
}

impl<'a> Live<'a> {
    pub(super) const fn new(machine: &'a Machine, jobs: Vec<Job>) -> Live<'a> {
        Live { machine, sections: Vec::new(), jobs, failures: Vec::new() }
    }

    /// The innermost section that is open: what it or an outer one holds is used from there.
    fn section(&self) -> Option<&Section> {
        self.sections.last()
    }

    /// A failure does not stop the program: only what depends on it is skipped.
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

impl Stage for Live<'_> {
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
        if self.sections.is_empty() && collective::is_staged(self.machine, call, stream) {
            return collective::on_host(self.machine, call, origin);
        }
        let mut made = self
            .machine
            .call(call.op, &call.inputs)
            .attrs(call.attrs.clone())
            .priority(call.priority);
        if let Some(targets) = &call.into {
            made = made.out(targets);
        }
        if let Some(section) = self.section() {
            made = made.within(section);
        }
        made.origin(origin.clone()).on(stream)
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

    fn job(&mut self, job: JobRef, stream: Option<&Stream>, origin: &Origin) -> Result<()> {
        let job = &self.jobs[job.index()];
        match stream {
            Some(stream) => job.launch_on(stream, origin.clone())?,
            None => job.launch_from(origin.clone())?,
        };
        Ok(())
    }
}
