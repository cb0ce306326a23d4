//! A builder without a machine as the submitter of a lowering's calls.

use std::sync::Arc;

use millstream_instructions::builder::{Output, SectionId};
use millstream_instructions::{Call, InstructionsBuilder, Priority, Sink, TensorRef};
use millstream_stream_policy::PolicyTable;
use millstream_types::{
    Attrs, DeviceId, Error, Origin, Result, StreamId, StreamKey, StreamMode, TensorId, TensorSpec,
};
use rustc_hash::FxHashMap;

use super::Submitter;

/// The streams that tensors were made on, which a machine keeps in its handles.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// let spec = TensorSpec::contiguous(DType::F32, &[2])?;
/// let stream = builder.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// let x = builder.allocate_offline(&mut sink, stream, &spec, &Origin::Unknown)?;
/// tensors.made(x, stream);
/// # let mut s = OfflineSubmitter {
/// #     builder: &mut builder,
/// #     sink: &mut sink,
/// #     policies: &policies,
/// #     tensors: &mut tensors,
/// #     section: None,
/// #     origin: &Origin::Unknown,
/// # };
/// assert_eq!(s.made_on(&x).unwrap().1, stream);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct OfflineTensors(FxHashMap<TensorId, StreamId>);

impl OfflineTensors {
    /// Notes that a tensor was made on a stream.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_instructions::builder::OfflineSink;
    /// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
    /// # use millstream_stream_policy::Catalog;
    /// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
    /// # use millstream_vm::{Machine, MachineConfig, lowering::*};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let policies = machine.policies().clone();
    /// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
    /// # let ops = Arc::new(millstream_ops::standard());
    /// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
    /// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
    /// let spec = TensorSpec::contiguous(DType::F32, &[2])?;
    /// let stream = builder.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// let x = builder.allocate_offline(&mut sink, stream, &spec, &Origin::Unknown)?;
    /// tensors.made(x, stream);
    /// # let mut s = OfflineSubmitter {
    /// #     builder: &mut builder,
    /// #     sink: &mut sink,
    /// #     policies: &policies,
    /// #     tensors: &mut tensors,
    /// #     section: None,
    /// #     origin: &Origin::Unknown,
    /// # };
    /// assert_eq!(s.made_on(&x).unwrap().1, stream);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn made(&mut self, tensor: TensorRef, stream: StreamId) {
        self.0.insert(tensor.id, stream);
    }
}

/// Submits calls to a builder. Its needs are met at once ([`InstructionsBuilder::assume`]).
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
/// # use millstream_vm::{Machine, MachineConfig, lowering::*};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let policies = machine.policies().clone();
/// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
/// let mut s = OfflineSubmitter {
///     builder: &mut builder,
///     sink: &mut sink,
///     policies: &policies,
///     tensors: &mut tensors,
///     section: None,
///     origin: &Origin::Unknown,
/// };
/// let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
/// let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
/// s.call("relu", &[&x], &Attrs::new(), None, &stream)?; // runs nothing
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct OfflineSubmitter<'a> {
    /// The builder.
    pub builder: &'a mut InstructionsBuilder,
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
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_instructions::builder::OfflineSink;
    /// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
    /// # use millstream_stream_policy::Catalog;
    /// # use millstream_types::{Attrs, DType, DeviceId, Origin, StreamKey, TensorSpec};
    /// # use millstream_vm::{Machine, MachineConfig, lowering::*};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let policies = machine.policies().clone();
    /// # let (config, catalog) = (BuilderConfig::default(), Box::new(Catalog(policies.clone())));
    /// # let ops = Arc::new(millstream_ops::standard());
    /// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
    /// # let (mut sink, mut tensors) = (OfflineSink::default(), OfflineTensors::default());
    /// # let mut s = OfflineSubmitter {
    /// #     builder: &mut builder,
    /// #     sink: &mut sink,
    /// #     policies: &policies,
    /// #     tensors: &mut tensors,
    /// #     section: None,
    /// #     origin: &Origin::Unknown,
    /// # };
    /// # let stream = s.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// # let x = s.empty(&stream, TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// use millstream_instructions::{Call, Priority};
    ///
    /// let made = s.submit(&Call {
    ///     op: s.builder.ops().id("relu")?,
    ///     inputs: &[x],
    ///     into: None,
    ///     attrs: &Arc::default(),
    ///     stream,
    ///     priority: Priority::default(),
    ///     section: None,
    ///     origin: &Origin::Unknown,
    /// })?;
    /// assert_eq!(made.len(), 1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`InstructionsBuilder::call_offline`].
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
