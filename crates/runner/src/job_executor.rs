//! The executor that records a list to be compiled.

use millstream_instructions::builder::EventRef;
use millstream_types::{Attrs, Origin, Result, StreamId, StreamKey, StreamMode, TensorSpec};
use millstream_vm::{RecordedTensor, Recorder, with_origin};

use crate::executor::{Executor, OpCall};

/// Records the steps of a job.
pub(crate) struct JobExecutor(pub(crate) Recorder);

impl Executor for JobExecutor {
    type Tensor = RecordedTensor;
    type Event = EventRef;
    type Stream = StreamId;

    fn stream(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        self.0.stream_with_mode(key, mode)
    }

    fn call(
        &mut self,
        call: &OpCall<'_, RecordedTensor>,
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<Vec<RecordedTensor>> {
        let inputs: Vec<RecordedTensor> = call.inputs.iter().map(|t| **t).collect();
        let out: Option<Vec<RecordedTensor>> =
            call.out.as_ref().map(|targets| targets.iter().map(|t| **t).collect());
        let recorded = self.0.call(call.name, &inputs).attrs(Attrs::clone(call.attrs));
        let recorded = recorded.priority(call.priority).origin(origin.clone());
        match &out {
            Some(out) => recorded.out(out).on(*stream),
            None => recorded.on(*stream),
        }
    }

    fn spec(&self, _: &RecordedTensor) -> Option<TensorSpec> {
        None
    }

    fn release(&mut self, tensor: &RecordedTensor, origin: &Origin) -> Result<()> {
        with_origin(origin, || self.0.release(*tensor))
    }

    fn record(&mut self, stream: &StreamId, origin: &Origin) -> Result<EventRef> {
        with_origin(origin, || self.0.record_event(*stream))
    }

    fn wait(&mut self, stream: &StreamId, event: &EventRef, origin: &Origin) -> Result<()> {
        with_origin(origin, || self.0.wait_event(*stream, event))
    }

    fn stream_wait(&mut self, from: &StreamId, to: &StreamId, origin: &Origin) -> Result<()> {
        with_origin(origin, || self.0.wait_stream(*to, *from))
    }

    fn touch(
        &mut self,
        tensors: &[&RecordedTensor],
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<()> {
        let tensors: Vec<RecordedTensor> = tensors.iter().map(|t| **t).collect();
        with_origin(origin, || self.0.touch(&tensors, *stream))
    }
}
