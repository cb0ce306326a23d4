//! The executor that records a list to be stored.

use millstream_instructions::builder::EventRef;
use millstream_types::{Attrs, Origin, Result, StreamId, StreamKey, StreamMode, TensorSpec};
use millstream_vm::{JobRecorder, JobTensor};

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
        let into: Option<Vec<JobTensor>> =
            call.out.as_ref().map(|targets| targets.iter().map(|t| **t).collect());
        let (attrs, origin) = (Attrs::clone(call.attrs), origin.clone());
        self.0.prioritize(call.priority);
        self.0.call_from(call.name, &inputs, into.as_deref(), attrs, *stream, origin)
    }

    fn spec(&self, _: &JobTensor) -> Option<TensorSpec> {
        None
    }

    fn release(&mut self, tensor: &JobTensor, origin: &Origin) -> Result<()> {
        self.0.release_from(*tensor, origin.clone())
    }

    fn record(&mut self, stream: &StreamId, origin: &Origin) -> Result<EventRef> {
        self.0.record_from(*stream, origin.clone())
    }

    fn wait(&mut self, stream: &StreamId, event: &EventRef, origin: &Origin) -> Result<()> {
        self.0.wait_from(*stream, event, origin.clone())
    }

    fn stream_wait(&mut self, from: &StreamId, to: &StreamId, origin: &Origin) -> Result<()> {
        self.0.wait_stream_from(*to, *from, origin.clone())
    }

    fn touch(&mut self, tensors: &[&JobTensor], stream: &StreamId, origin: &Origin) -> Result<()> {
        let tensors: Vec<JobTensor> = tensors.iter().map(|t| **t).collect();
        self.0.touch_from(&tensors, *stream, origin.clone())
    }
}
