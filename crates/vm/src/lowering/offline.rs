//! A builder without a machine as the submitter of a lowering's calls.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_instructions::builder::{Output, SectionId};
use millstream_instructions::{Builder, Call, Priority, Sink, TensorRef};
use millstream_stream_policy::PolicyTable;
use millstream_types::{
    Attrs, DeviceId, Error, Origin, Result, StreamId, StreamKey, StreamMode, TensorId, TensorSpec,
};

use super::Submitter;

/// The streams that tensors were made on, which a machine keeps in its handles.
#[derive(Debug, Default)]
pub struct OfflineTensors(HashMap<TensorId, StreamId>);

impl OfflineTensors {
    /// Notes that a tensor was made on a stream.
    pub fn made(&mut self, tensor: TensorRef, stream: StreamId) {
        self.0.insert(tensor.id, stream);
    }
}

/// Submits calls to a builder. Its needs are met at once ([`Builder::assume`]).
pub struct OfflineSubmitter<'a> {
    /// The builder.
    pub builder: &'a mut Builder,
    /// What takes the instructions.
    pub sink: &'a mut dyn Sink,
    /// The streams and devices of the builder.
    pub policies: &'a PolicyTable,
    /// The streams that tensors were made on.
    pub tensors: &'a mut OfflineTensors,
    /// The section that calls belong to.
    pub section: Option<SectionId>,
    /// The origin of the calls.
    pub origin: &'a Origin,
}

impl OfflineSubmitter<'_> {
    /// Makes a call and returns its outputs, of which the new ones were made on the call's stream.
    ///
    /// # Errors
    /// As [`Builder::call_offline`].
    pub fn submit(&mut self, call: &Call<'_>) -> Result<Vec<Output>> {
        let outputs = self.builder.call_offline(self.sink, call)?;
        for output in &outputs {
            if let (Output::Tensor(tensor), None) = (output, call.into) {
                self.tensors.made(*tensor, call.stream);
            }
        }
        Ok(outputs.into_iter().collect())
    }

    fn stream_with_key(&self, stream: StreamId) -> Option<(StreamKey, StreamId)> {
        self.builder.streams().nth(stream.index()).map(|decl| (decl.key.clone(), stream))
    }
}

impl Submitter for OfflineSubmitter<'_> {
    type Tensor = TensorRef;
    type Stream = StreamId;

    fn policies(&self) -> &PolicyTable {
        self.policies
    }

    fn spec(&self, tensor: &TensorRef) -> Result<TensorSpec> {
        self.builder.spec(*tensor).cloned()
    }

    fn device(&self, tensor: &TensorRef) -> Result<DeviceId> {
        self.builder.device(*tensor).cloned()
    }

    fn made_on(&self, tensor: &TensorRef) -> Option<(StreamKey, StreamId)> {
        self.stream_with_key(*self.tensors.0.get(&tensor.id)?)
    }

    fn written_on(&self, tensor: &TensorRef) -> Result<Option<(StreamKey, StreamId)>> {
        let last = self.builder.last_write(*tensor)?;
        Ok(if last.seq == 0 { None } else { self.stream_with_key(last.stream) })
    }

    fn stream(&mut self, key: &StreamKey) -> Result<StreamId> {
        let known = self.builder.streams().find(|s| s.key == *key).map(|s| s.mode);
        self.builder.stream_with_mode(key, known.unwrap_or(StreamMode::InOrder))
    }

    fn copies_from(&mut self, stream: &StreamId, device: &DeviceId) -> Result<bool> {
        Ok(self.builder.copies_from(*stream, device))
    }

    fn empty(&mut self, stream: &StreamId, spec: TensorSpec) -> Result<TensorRef> {
        let made = self.builder.allocate_offline(self.sink, *stream, &spec, self.origin)?;
        self.tensors.made(made, *stream);
        Ok(made)
    }

    fn call(
        &mut self,
        op: &str,
        inputs: &[&TensorRef],
        attrs: &Attrs,
        out: Option<&TensorRef>,
        stream: &StreamId,
    ) -> Result<Vec<TensorRef>> {
        let inputs: Vec<TensorRef> = inputs.iter().map(|input| **input).collect();
        let out = out.map(|out| [*out]);
        let (attrs, section, origin) = (Arc::new(attrs.clone()), self.section, self.origin);
        let outputs = self.submit(&Call {
            op: self.builder.ops().id(op)?,
            inputs: &inputs,
            into: out.as_ref().map(<[TensorRef; 1]>::as_slice),
            attrs: &attrs,
            stream: *stream,
            priority: Priority::default(),
            section,
            origin,
        })?;
        let result = |output: Output| match output {
            Output::Tensor(tensor) => Ok(tensor),
            Output::Same(input) => Ok(inputs[input]),
            Output::Bounded { .. } => {
                let message = format!("the size of a result of {op} depends on data");
                Err(Error::Internal { message })
            }
        };
        outputs.into_iter().map(result).collect()
    }

    fn is_same(&self, a: &TensorRef, b: &TensorRef) -> bool {
        a == b
    }
}
