//! The executor that records a list to be stored.

use millstream_instructions::builder::EventRef;
use millstream_types::{Attrs, Origin, Result, StreamId, StreamKey, StreamMode, TensorSpec};
use millstream_vm::{JobRecorder, JobTensor, with_origin};

use crate::executor::{Executor, OpCall};

/// Records the steps of a job.
pub(crate) struct JobExecutor(pub(crate) JobRecorder);

impl Executor for JobExecutor {
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
        let out: Option<Vec<JobTensor>> =
            call.out.as_ref().map(|targets| targets.iter().map(|t| **t).collect());
        let (attrs, list) = (Attrs::clone(call.attrs), &mut self.0);
        list.prioritize(call.priority);
        with_origin(origin, || match &out {
            Some(out) => list.call_out(call.name, &inputs, out, attrs, *stream),
            None => list.call(call.name, &inputs, attrs, *stream),
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
