//! New tensors, empty or with elements.

use std::cell::RefCell;
use std::sync::Arc;

use millstream_instructions::{Outcome, TensorRef};
use millstream_runtime::engine::{Engine, MadeTensor};
use millstream_runtime::host::Blob;
use millstream_runtime::scope::origin;
use millstream_types::{Access, Error, Origin, Result, TensorSpec};

use crate::handle::request::{self, Request, Verb};
use crate::handle::{Section, Stream, Tensor};

use super::Machine;

impl Machine {
    #[inline]
    pub(crate) fn owns(&self, tensor: &Tensor) -> Result<TensorRef> {
        if !self.has(tensor) {
            return Err(Error::Foreign { what: "the tensor".to_owned() });
        }
        tensor.resolved()
    }

    /// Returns the slot of a tensor of this machine; none where [`Machine::owns`] refuses it.
    #[inline]
    pub(crate) fn slot(&self, tensor: &Tensor) -> Option<TensorRef> {
        tensor.slot().filter(|_| self.has(tensor))
    }

    #[inline]
    fn has(&self, tensor: &Tensor) -> bool {
        Arc::ptr_eq(&tensor.machine().shared, &self.shared)
    }

    #[inline]
    pub(crate) fn tensor(&self, made: MadeTensor, made_on: &Stream, origin: &Origin) -> Tensor {
        Tensor::new(made, made_on.clone(), origin.clone())
    }

    /// Ends a tensor; no capture notes it.
    ///
    /// # Errors
    /// As [`Tensor::release`].
    pub(crate) fn release_now(
        &self,
        tensor: &Tensor,
        section: Option<&Section>,
        origin: &Origin,
    ) -> Result<()> {
        let at = |e: Error| e.at(origin);
        let section = self.own_section(section).map_err(at)?;
        let tensor = tensor.resolved().map_err(at)?;
        self.shared.emit(origin, |e| {
            let Engine { builder, router, .. } = e;
            builder.release(router, tensor, section, origin).map(Outcome::Done)
        })
    }

    /// Makes a view; no capture notes it.
    ///
    /// # Errors
    /// As [`Tensor::view_storage`].
    pub(crate) fn view_now(
        &self,
        tensor: &Tensor,
        spec: &TensorSpec,
        origin: &Origin,
    ) -> Result<Tensor> {
        let whole = tensor.resolved().map_err(|e| e.at(origin))?;
        let made = self.shared.emit(origin, |e| {
            let Engine { builder, router, .. } = e;
            let made = builder.view(router, whole, spec.clone(), origin)?;
            e.made(made).map(Outcome::Done)
        })?;
        Ok(self.tensor(made, tensor.made_on(), origin))
    }

    /// Makes a tensor of unspecified content in the memory that `stream` works on.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let x = machine.empty(&s, TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// x.fill_(1.0)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let part = machine.empty_in(&s, TensorSpec::contiguous(DType::F32, &[2])?, 64)?;
    /// // Of the same storage.
    /// let more = part.view_storage(TensorSpec::contiguous(DType::F32, &[16])?)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
        let empty = Request::new(Verb::Empty { spec: &spec, bytes, stream }, &origin);
        request::submit(empty, |_| {
            let made = self.shared.emit(&origin, |e| {
                e.open(stream.id)?;
                let Engine { builder, router, .. } = &mut *e;
                match builder.allocate(router, stream.id, spec.clone(), bytes, &origin)? {
                    Outcome::Done(made) => e.made(made).map(Outcome::Done),
                    Outcome::Need(need) => Ok(Outcome::Need(need)),
                }
            })?;
            Ok(self.tensor(made, stream, &origin))
        })
    }

    /// Makes a tensor with these elements, given in row-major order without gaps, in the memory
    /// that `stream` works on. For a device's memory, the device's host-to-device stream copies
    /// them there.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let spec = TensorSpec::contiguous(DType::I64, &[1])?;
    /// let x = machine.upload(&s, spec, 7i64.to_ne_bytes().to_vec())?;
    /// assert_eq!(x.item::<i64>()?, 7);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
        let bytes = RefCell::new(bytes);
        let upload = Verb::Upload { spec: &spec, bytes: &bytes, stream };
        request::submit(Request::new(upload, &origin), |_| {
            let (spec, bytes) = (spec.clone(), bytes.take());
            self.fill(stream, spec, storage, origin.clone(), move |b| b.write_bytes(&bytes))
        })
    }

    /// Makes a tensor in a storage of `bytes` bytes, whose elements a host function writes. The
    /// tensor lies in the memory that `stream` works on. For a device's memory, the function writes
    /// to host memory, and the device's host-to-device stream copies the elements.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let spec = TensorSpec::contiguous(DType::U8, &[3])?;
    /// let x = machine.upload_with(&s, spec, 3, |blob| blob.write_bytes(&[1, 2, 3]))?;
    /// assert_eq!(x.to_vec::<u8>()?, [1, 2, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The memory is used up, or the storage is too small for the layout.
    #[track_caller]
    pub fn upload_with(
        &self,
        stream: &Stream,
        spec: TensorSpec,
        bytes: u64,
        write: impl FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<Tensor> {
        self.fill(stream, spec, bytes, origin::caller(), write)
    }

    fn fill(
        &self,
        stream: &Stream,
        spec: TensorSpec,
        bytes: u64,
        origin: Origin,
        write: impl FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<Tensor> {
        let target = self.empty_at(stream, spec.clone(), bytes, origin.clone())?;
        if target.device().is_host() {
            target.access_at(Access::ReadWrite, origin, write)?;
            return Ok(target);
        }
        // Without automatic waits, the program cannot order the steps of an upload: the host does.
        let is_unordered = !self.shared.protection.waits() || !self.shared.protection.memory();
        if is_unordered {
            stream.synchronize_at(None, origin.clone())?;
        }
        let submitter = self.submitter(origin.clone());
        let host = submitter.staging(target.device()).map_err(|e| e.at(&origin))?;
        let staged = self.empty_at(&host, spec, bytes, origin.clone())?;
        let written = staged.access_at(Access::ReadWrite, origin.clone(), write)?;
        if is_unordered {
            written.wait_at(None, origin.clone())?;
        }
        let copies = submitter.copy_to_device(&staged, &target);
        let copies = copies.map_err(|e| e.at(&origin))?;
        if is_unordered {
            copies.synchronize_at(None, origin)?;
        }
        Ok(target)
    }
}
