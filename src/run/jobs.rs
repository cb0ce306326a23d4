//! The stage that is a list to be stored.

use millstream_instructions::builder::EventRef;
use millstream_types::{Origin, Result, StreamId, StreamKey, StreamMode, TensorSpec};
use millstream_vm::{JobRecorder, JobTensor, with_origin};

use crate::run::stage::{OpCall, Stage};

/// Statements of a job, on their way into a list.
pub(super) struct Recording(pub(super) JobRecorder);

impl Stage for Recording {
    type Tensor = JobTensor;
    type Event = EventRef;
    type Stream = StreamId;

    fn stream(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        self.0.stream_with_mode(key, mode)
    }

    fn call(
        &mut self,
        call: &OpCall<'_, JobTensor>,
        stream: &StreamId,
        origin: &Origin,
    ) -> Result<Vec<JobTensor>> {
        let inputs: Vec<JobTensor> = call.inputs.iter().map(|t| **t).collect();
        let into: Option<Vec<JobTensor>> =
            call.into.as_ref().map(|targets| targets.iter().map(|t| **t).collect());
        let (attrs, list) = (call.attrs.clone(), &mut self.0);
        list.prioritize(call.priority);
        with_origin(origin, || match &into {
            Some(out) => list.call_out(call.op, &inputs, out, attrs, *stream),
            None => list.call(call.op, &inputs, attrs, *stream),
        })
    }

    fn spec(&self, _: &JobTensor) -> Option<TensorSpec> {
        None
    }

    fn release(&mut self, tensor: &JobTensor, origin: &Origin) -> Result<()> {
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

    fn touch(&mut self, tensors: &[&JobTensor], stream: &StreamId, origin: &Origin) -> Result<()> {
        let tensors: Vec<JobTensor> = tensors.iter().map(|t| **t).collect();
        with_origin(origin, || self.0.touch(&tensors, *stream))
    }
}
