//! New tensors, and the streams that serve them.

use millstream_instructions::{Outcome, TensorRef};
use millstream_types::{
    Access, DeviceId, Error, Origin, Result, StreamKey, StreamType, TensorSpec,
};

use crate::api::handle::{Stream, Tensor};
use crate::emission::{Emission, MadeTensor, origin};

use super::Machine;

impl Machine {
    /// Returns a stream that runs ops on a tensor's memory: the tensor's own stream, if that does.
    pub(crate) fn compute_stream_of(&self, tensor: &Tensor) -> Result<Stream> {
        let device = match tensor.device().is_host() {
            true => DeviceId::cpu(0),
            false => tensor.device().clone(),
        };
        let made_on = tensor.made_on();
        if made_on.key.ty == StreamType::Compute && made_on.key.device == device {
            return Ok(made_on.clone());
        }
        self.stream(&StreamKey::compute(device, 0))
    }

    /// Returns a stream that makes tensors in host memory for copies from `device`, in pinned
    /// memory where available.
    pub(crate) fn staging(&self, device: &DeviceId) -> Result<Stream> {
        let (devices, pinned) = (self.policies().devices(), DeviceId::pinned(0));
        // A probe of an unknown device searches for the nearest name, which takes longer than this
        // question.
        let key = match devices.serves(&pinned) && devices.probe(&pinned).is_ok() {
            true => StreamKey::new(device.clone(), StreamType::PinnedCompute, 0),
            false => StreamKey::compute(DeviceId::cpu(0), 0),
        };
        self.stream(&key)
    }

    /// Returns whether copies on the stream of this key read tensors where they lie in `device`'s
    /// memory.
    pub(crate) fn copies_directly(&self, device: &DeviceId, key: &StreamKey) -> Result<bool> {
        let stream = self.stream(key)?;
        Ok(self.shared.lock()?.builder.copies_from(stream.id, device))
    }

    pub(crate) fn owns(&self, tensor: &Tensor) -> Result<TensorRef> {
        self.own(tensor.machine().shared.tables.machine, "the tensor")?;
        Ok(tensor.tensor_ref())
    }

    pub(crate) fn tensor(&self, made: MadeTensor, made_on: &Stream, origin: &Origin) -> Tensor {
        Tensor::new(self.clone(), made, made_on.clone(), origin.clone())
    }

    /// Makes a tensor of unspecified content in the memory that `stream` works on.
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn empty(&self, stream: &Stream, spec: TensorSpec) -> Result<Tensor> {
        let bytes = spec.span_bytes() as u64;
        self.empty_at(stream, spec, bytes, origin::caller())
    }

    /// Makes a tensor as [`Machine::empty`] does, in a storage of `bytes` bytes.
    ///
    /// # Errors
    /// The memory is used up, or the storage is too small for the layout.
    #[track_caller]
    pub fn empty_in(&self, stream: &Stream, spec: TensorSpec, bytes: u64) -> Result<Tensor> {
        self.empty_at(stream, spec, bytes, origin::caller())
    }

    pub(crate) fn empty_at(
        &self,
        stream: &Stream,
        spec: TensorSpec,
        bytes: u64,
        origin: Origin,
    ) -> Result<Tensor> {
        self.own_stream(stream).map_err(|e| e.at(&origin))?;
        let made = self.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = &mut *e;
            match builder.allocate(router, stream.id, spec.clone(), bytes, &origin)? {
                Outcome::Done(made) => e.made(made).map(Outcome::Done),
                Outcome::Need(need) => Ok(Outcome::Need(need)),
            }
        })?;
        Ok(self.tensor(made, stream, &origin))
    }

    /// Makes a tensor with these elements, given in row-major order without gaps, in the memory
    /// that `stream` works on. For a device's memory, the device's host-to-device stream copies
    /// them there.
    ///
    /// # Errors
    /// The memory is used up, or there are more or fewer bytes than elements.
    #[track_caller]
    pub fn upload(&self, stream: &Stream, spec: TensorSpec, bytes: Vec<u8>) -> Result<Tensor> {
        self.upload_at(stream, spec, bytes, origin::caller())
    }

    pub(crate) fn upload_at(
        &self,
        stream: &Stream,
        spec: TensorSpec,
        bytes: Vec<u8>,
        origin: Origin,
    ) -> Result<Tensor> {
        let expected = spec.numel() * spec.dtype.size();
        if bytes.len() != expected {
            let message = format!("{spec}: expected {expected} bytes, got {}", bytes.len());
            return Err(Error::Invalid { what: "data", message }.at(&origin));
        }
        let storage = spec.span_bytes() as u64;
        let target = self.empty_at(stream, spec.clone(), storage, origin.clone())?;
        if target.device().is_host() {
            target.access_at(Access::ReadWrite, origin, move |blob| blob.write_bytes(&bytes))?;
            return Ok(target);
        }
        let unordered = !self.shared.protection.waits() || !self.shared.protection.memory();
        if unordered {
            // The program cannot order the steps of an upload, so the host waits for each.
            stream.synchronize_at(None, origin.clone())?;
        }
        let host = self.staging(target.device())?;
        let key = StreamKey::new(target.device().clone(), StreamType::Host2Device, 0);
        let staged = self.empty_at(&host, spec, storage, origin.clone())?;
        let written = staged
            .access_at(Access::ReadWrite, origin.clone(), move |blob| blob.write_bytes(&bytes))?;
        if unordered {
            written.wait_at(None, origin.clone())?;
        }
        let copy = self.stream(&key)?;
        self.call("copy", &[&staged]).origin(origin.clone()).out(&[&target]).on(&copy)?;
        if unordered {
            copy.synchronize_at(None, origin)?;
        }
        Ok(target)
    }
}
