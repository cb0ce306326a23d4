//! Copies of tensors, and a machine as the submitter of their calls.

use millstream_runtime::scope::origin;
use millstream_stream_policy::PolicyTable;
use millstream_types::{Attrs, DeviceId, Origin, Result, StreamKey, TensorSpec};

use crate::handle::machine::Machine;
use crate::lowering::{self, Submitter};

use super::request::{self, Request, Verb};
use super::{Section, Stream, Tensor};

/// Submits the calls of a lowering to a machine.
pub(crate) struct MachineSubmitter<'a> {
    pub(crate) machine: &'a Machine,
    /// The section that calls belong to.
    pub(crate) section: Option<&'a Section>,
    pub(crate) origin: Origin,
}

impl Submitter for MachineSubmitter<'_> {
    type Tensor = Tensor;
    type Stream = Stream;

    fn policies(&self) -> &PolicyTable {
        self.machine.policies()
    }

    fn spec(&self, tensor: &Tensor) -> Result<TensorSpec> {
        Ok(tensor.spec().clone())
    }

    fn device(&self, tensor: &Tensor) -> Result<DeviceId> {
        Ok(tensor.device().clone())
    }

    fn made_on(&self, tensor: &Tensor) -> Option<(StreamKey, Stream)> {
        let made_on = tensor.made_on();
        Some((made_on.key.clone(), made_on.clone()))
    }

    fn written_on(&self, tensor: &Tensor) -> Result<Option<(StreamKey, Stream)>> {
        let tensor = self.machine.owns(tensor)?;
        let mut engine = self.machine.shared.lock()?;
        let last = engine.builder.last_write(tensor)?;
        if last.seq == 0 {
            return Ok(None);
        }
        let stream = self.machine.handle(&mut engine, last.stream);
        Ok(stream.map(|stream| (stream.key.clone(), stream)))
    }

    fn stream(&mut self, key: &StreamKey) -> Result<Stream> {
        self.machine.stream(key)
    }

    fn copies_from(&mut self, stream: &Stream, device: &DeviceId) -> Result<bool> {
        Ok(self.machine.shared.lock()?.builder.copies_from(stream.id, device))
    }

    fn empty(&mut self, stream: &Stream, spec: TensorSpec) -> Result<Tensor> {
        let bytes = spec.span_bytes() as u64;
        self.machine.empty_at(stream, spec, bytes, self.origin.clone())
    }

    fn call(
        &mut self,
        op: &str,
        inputs: &[&Tensor],
        attrs: &Attrs,
        out: Option<&Tensor>,
        stream: &Stream,
    ) -> Result<Vec<Tensor>> {
        let mut call = self.machine.call(op, inputs).attrs(attrs).origin(self.origin.clone());
        if let Some(out) = out {
            call = call.out(&[out]);
        }
        if let Some(section) = self.section {
            call = call.within(section);
        }
        call.on(stream)
    }

    fn is_same(&self, a: &Tensor, b: &Tensor) -> bool {
        a.tensor_ref() == b.tensor_ref()
    }
}

impl Machine {
    /// Returns the submitter of the calls that `origin` asks for.
    pub(crate) const fn submitter(&self, origin: Origin) -> MachineSubmitter<'_> {
        MachineSubmitter { machine: self, section: None, origin }
    }
}

impl Tensor {
    /// Makes a dense, row-major copy in the memory of `stream`. Later instructions on any stream
    /// wait for it as for any other result.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DeviceId;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let other = machine.compute(&DeviceId::cpu(0), 1)?; // or a stream of another device
    /// let y = x.t()?.copy_to(&other)?;
    /// assert!(y.spec().layout.is_contiguous());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released, or the memory is used up.
    #[track_caller]
    pub fn copy_to(&self, stream: &Stream) -> Result<Tensor> {
        let origin = origin::caller();
        self.check_usable().map_err(|e| e.at(&origin))?;
        let copy = Request::new(Verb::Copy { of: self }, &origin);
        let copied = request::submit(copy, |_| {
            lowering::copy_to(&mut self.machine().submitter(origin.clone()), self, stream)
        });
        copied.map_err(|e| e.at(&origin))
    }

    /// Sets the elements of `target`, of the same dtype and shape, to this tensor's. Both may be
    /// views, also of one storage: this tensor counts as read in full before `target` is written.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::zeros((2, 2), DType::F32, &machine)?;
    /// x.copy_into(&y)?;
    /// assert_eq!(y.to_vec::<f32>()?, x.to_vec::<f32>()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor was released, the two differ in dtype or shape, elements of `target` overlap, or
    /// memory is used up.
    #[track_caller]
    pub fn copy_into(&self, target: &Tensor) -> Result<()> {
        let origin = origin::caller();
        self.check_usable().and_then(|()| target.check_usable()).map_err(|e| e.at(&origin))?;
        let copy = Request::new(Verb::CopyInto { of: self, target }, &origin);
        let copied = request::submit(copy, |_| {
            let mut submitter = self.machine().submitter(origin.clone());
            lowering::copy_into(&mut submitter, self, target).map(Some)
        });
        copied.map(drop).map_err(|e| e.at(&origin))
    }

    /// Refuses a tensor that was released or is held, before the first of several calls. A tensor
    /// that is not made yet is left to its calls.
    fn check_usable(&self) -> Result<()> {
        if self.recorded().is_some() {
            return Ok(());
        }
        let tensor = self.resolved()?;
        self.machine().shared.lock()?.builder.usable(tensor, None)
    }
}
