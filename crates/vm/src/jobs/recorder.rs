//! Lists recorded to be stored.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::builder::{EventRef, OfflineSink, Output};
use millstream_instructions::{Builder, BuilderConfig, Call, Priority, TensorRef};
use millstream_stream_policy::Catalog;
use millstream_types::{Attrs, Error, Origin, Result, StreamId, StreamKey, StreamMode, TensorSpec};

use crate::api::handle::Tensor;
use crate::api::machine::Machine;
use crate::emission::origin;

use super::Job;

/// A tensor of a list that is being recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobTensor(TensorRef);

/// Records a list to be stored.
pub struct JobRecorder {
    machine: Machine,
    builder: Builder,
    sink: OfflineSink,
    bound: Vec<(Tensor, JobTensor)>,
    priority: Priority,
}

impl JobRecorder {
    /// Returns a stream of the list's own, made as the machine's stream of this key would be.
    ///
    /// # Errors
    /// There is no such device, or no policy serves the stream.
    pub fn stream(&mut self, key: &StreamKey) -> Result<StreamId> {
        self.builder.stream(key)
    }

    /// Returns a stream as [`JobRecorder::stream`] does, in-order or a pool.
    ///
    /// # Errors
    /// As [`JobRecorder::stream`], or the list has it in another mode.
    pub fn stream_with_mode(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        self.builder.stream_with_mode(key, mode)
    }

    /// Brings a tensor of the machine into the list.
    ///
    /// # Errors
    /// It is another machine's.
    pub fn import(&mut self, tensor: &Tensor) -> Result<JobTensor> {
        if let Some((_, known)) =
            self.bound.iter().find(|(t, _)| t.tensor_ref() == tensor.tensor_ref())
        {
            return Ok(*known);
        }
        let made = self.machine.owns(tensor)?;
        let emission = self.machine.shared.lock()?;
        // Views of one storage would be ordered as if they were apart.
        let storage = emission.router.slot(made.id).map(|s| s.storage);
        let shared = self
            .bound
            .iter()
            .any(|(t, _)| emission.router.slot(t.tensor_ref().id).map(|s| s.storage) == storage);
        if shared {
            let message = "two views of one storage: bring one in and make the other \
                           within the list"
                .to_owned();
            return Err(Error::Invalid { what: "list", message });
        }
        let bytes = emission.builder.storage_bytes(made)?;
        drop(emission);
        let (spec, device) = (tensor.spec().clone(), tensor.device());
        let inner = self.builder.import(&self.sink, spec, bytes, device)?;
        let name = self.bound.len().to_string();
        self.sink.recorder.external(self.builder.external(&name, inner)?);
        self.bound.push((tensor.clone(), JobTensor(inner)));
        Ok(JobTensor(inner))
    }

    /// Sets the priority of the next calls on pools. 0 at first.
    pub fn prioritize(&mut self, priority: i32) {
        self.priority = Priority(priority);
    }

    /// Calls an op.
    ///
    /// # Errors
    /// As a call on the machine; an op whose output's size must be read is refused.
    #[track_caller]
    pub fn call(
        &mut self,
        name: &str,
        inputs: &[JobTensor],
        attrs: Attrs,
        stream: StreamId,
    ) -> Result<Vec<JobTensor>> {
        self.call_at(name, inputs, None, attrs, stream, origin::caller())
    }

    /// Calls an op whose results are written to given tensors.
    ///
    /// # Errors
    /// As [`JobRecorder::call`].
    #[track_caller]
    pub fn call_out(
        &mut self,
        name: &str,
        inputs: &[JobTensor],
        out: &[JobTensor],
        attrs: Attrs,
        stream: StreamId,
    ) -> Result<Vec<JobTensor>> {
        self.call_at(name, inputs, Some(out), attrs, stream, origin::caller())
    }

    fn call_at(
        &mut self,
        name: &str,
        inputs: &[JobTensor],
        into: Option<&[JobTensor]>,
        attrs: Attrs,
        stream: StreamId,
        origin: Origin,
    ) -> Result<Vec<JobTensor>> {
        let op = self.builder.ops().id(name).map_err(|e| e.at(&origin))?;
        let refs: Vec<TensorRef> = inputs.iter().map(|t| t.0).collect();
        let targets: Option<Vec<TensorRef>> = into.map(|t| t.iter().map(|t| t.0).collect());
        let attrs = Arc::new(attrs);
        let call = Call {
            op,
            inputs: &refs,
            into: targets.as_deref(),
            attrs: &attrs,
            stream,
            priority: self.priority,
            section: None,
            origin: &origin,
        };
        let Self { builder, sink, .. } = self;
        let outputs = builder.call_offline(sink, &call).map_err(|e| e.at(&origin))?;
        outputs
            .into_iter()
            .map(|output| match output {
                Output::Tensor(t) => Ok(JobTensor(t)),
                Output::Same(input) => Ok(inputs[input]),
                Output::Bounded { .. } => Err(Error::Op {
                    op: name.to_owned(),
                    message: "its result's size is known only by running it, so it cannot \
                              stand in a stored list"
                        .to_owned(),
                }
                .at(&origin)),
            })
            .collect()
    }

    /// Ends a tensor that the list made.
    ///
    /// # Errors
    /// It was released before, or was imported.
    #[track_caller]
    pub fn release(&mut self, tensor: JobTensor) -> Result<()> {
        let origin = origin::caller();
        if self.bound.iter().any(|(_, t)| *t == tensor) {
            let message = "a list cannot release a tensor from outside".to_owned();
            return Err(Error::Invalid { what: "release", message }.at(&origin));
        }
        let Self { builder, sink, .. } = self;
        builder.release(sink, tensor.0, None, &origin).map_err(|e| e.at(&origin))
    }

    /// Uses tensors without changing or reading them.
    ///
    /// # Errors
    /// A tensor was released.
    #[track_caller]
    pub fn touch(&mut self, tensors: &[JobTensor], stream: StreamId) -> Result<()> {
        let origin = origin::caller();
        let refs: Vec<TensorRef> = tensors.iter().map(|t| t.0).collect();
        let Self { builder, sink, .. } = self;
        builder.touch(sink, stream, &refs, None, &origin).map_err(|e| e.at(&origin))?;
        Ok(())
    }

    /// Records an event of the list.
    ///
    /// # Errors
    /// The stream is not the list's.
    #[track_caller]
    pub fn record_event(&mut self, stream: StreamId) -> Result<EventRef> {
        let origin = origin::caller();
        let Self { builder, sink, .. } = self;
        builder.record_event(sink, stream, &origin).map_err(|e| e.at(&origin))
    }

    /// Orders a stream behind an event of the list.
    ///
    /// # Errors
    /// The stream is not the list's.
    #[track_caller]
    pub fn wait_event(&mut self, stream: StreamId, event: &EventRef) -> Result<()> {
        let origin = origin::caller();
        let Self { builder, sink, .. } = self;
        builder.wait_event(sink, stream, event, &origin).map_err(|e| e.at(&origin))
    }

    /// Orders a stream behind everything submitted to another one so far.
    ///
    /// # Errors
    /// A stream is not the list's.
    #[track_caller]
    pub fn wait_stream(&mut self, stream: StreamId, source: StreamId) -> Result<()> {
        let origin = origin::caller();
        let Self { builder, sink, .. } = self;
        builder.wait_stream(sink, stream, source, &origin).map_err(|e| e.at(&origin))
    }

    /// Returns dtype, shape and layout of a tensor.
    ///
    /// # Errors
    /// It was released.
    pub fn spec(&self, tensor: JobTensor) -> Result<&TensorSpec> {
        self.builder.spec(tensor.0)
    }
}

impl fmt::Debug for JobRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRecorder").field("list", self.sink.recorder.list()).finish()
    }
}

impl Machine {
    /// Begins a list to be stored.
    pub fn job_recorder(&self) -> JobRecorder {
        let catalog = Box::new(Catalog(self.policies().clone()));
        let builder =
            Builder::new(&BuilderConfig::default(), self.shared.tables.ops.clone(), catalog);
        JobRecorder {
            machine: self.clone(),
            builder,
            sink: OfflineSink::default(),
            bound: Vec::new(),
            priority: Priority::default(),
        }
    }

    /// Stores a recorded list.
    ///
    /// # Errors
    /// There is no memory for its tensors, or it was recorded for another machine.
    pub fn store(&self, recorded: JobRecorder) -> Result<Job> {
        if !Arc::ptr_eq(&recorded.machine.shared, &self.shared) {
            return Err(Error::Foreign { what: "the list".to_owned() });
        }
        let JobRecorder { builder, sink, bound, .. } = recorded;
        let tensors = bound.into_iter().map(|(t, _)| t).collect();
        self.store_list(&builder.finish_list(sink.recorder), tensors)
    }
}
