//! Copies of tensors, from one memory to another or within one.
//!
//! What crosses between memories is dense: a copy engine moves bytes. A tensor with gaps is first
//! made dense where it lies, and one that is to be written with gaps gets its elements from a dense
//! one beside it.
//!
//! | from | to | way |
//! |---|---|---|
//! | one memory | the same, or the host's pinned and unpinned | `copy` on the stream given |
//! | host | device | `copy` on the device's host-to-device stream |
//! | device | host | `copy` on the device's device-to-host stream |
//! | device | another device that copies from it | `copy` on the latter's host-to-device stream |
//! | device | any other | both, through host memory, pinned where there is some |

use millstream_types::{DeviceId, Error, Origin, Result, StreamKey, StreamType, TensorSpec};

use super::{Section, Stream, Tensor};

/// Reads of at most this many bytes go through a staging buffer in pinned memory.
const STAGED: usize = 64 << 10;

impl Tensor {
    /// A dense, row-major copy in the memory that `stream` makes tensors in. Whatever is submitted
    /// on `stream` or elsewhere later waits for it as for any other result.
    ///
    /// # Errors
    /// The tensor was released, or the memory is used up.
    #[track_caller]
    pub fn copy_to(&self, stream: &Stream) -> Result<Tensor> {
        self.copy_to_from(stream, Origin::caller())
    }

    /// As [`Tensor::copy_to`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Tensor::copy_to`].
    pub fn copy_to_from(&self, stream: &Stream, origin: Origin) -> Result<Tensor> {
        let machine = self.machine();
        let spec = TensorSpec::contiguous(self.spec().dtype, self.spec().shape())?;
        let bytes = spec.span_bytes() as u64;
        let target = machine.empty_in(stream, spec, bytes, origin.clone())?;
        self.transfer(&target, stream, origin)?;
        Ok(target)
    }

    /// Sets the elements of `target`, of the same dtype and shape, to this tensor's. Both may be
    /// views, also of one storage: this one counts as read in full before `target` is written.
    ///
    /// # Errors
    /// A tensor was released, the two differ in dtype or shape, elements of `target` overlap, or
    /// memory is used up.
    #[track_caller]
    pub fn copy_into(&self, target: &Tensor) -> Result<()> {
        self.copy_into_from(target, Origin::caller())
    }

    /// As [`Tensor::copy_into`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Tensor::copy_into`].
    pub fn copy_into_from(&self, target: &Tensor, origin: Origin) -> Result<()> {
        let (own, given) = (self.spec(), target.spec());
        if own.dtype != given.dtype || own.shape() != given.shape() {
            let message = format!("{} is to be copied into {}", own.brief(), given.brief());
            return Err(Error::Invalid { what: "copy", message }.at(&origin));
        }
        let machine = self.machine();
        let home = machine.worker_of(target)?;
        let near = self.device() == target.device()
            || (self.device().is_host() && target.device().is_host());
        if !near && given.layout.is_contiguous() {
            return self.transfer(target, &home, origin);
        }
        let near = if near { self.clone() } else { self.copy_to_from(&home, origin.clone())? };
        machine.call("copy_", &[target, &near]).from(origin).on(&home).map(drop)
    }

    /// Copies into `target`, which is dense and of the same shape, made on `stream`.
    fn transfer(&self, target: &Tensor, stream: &Stream, origin: Origin) -> Result<()> {
        let machine = self.machine();
        let copy = |source: &Tensor, on: &Stream| {
            let call = machine.call("copy", &[source]).from(origin.clone()).into(&[target]);
            call.on(on).map(drop)
        };
        let (from, to) = (self.device(), target.device());
        if from == to || (from.is_host() && to.is_host()) {
            return copy(self, stream);
        }
        let into = |device: &DeviceId| StreamKey::new(device.clone(), StreamType::HOST2DEVICE, 0);
        if !from.is_host() && !to.is_host() && !machine.copies_directly(from, &into(to))? {
            let host = machine.staging(from)?;
            return self.copy_to_from(&host, origin.clone())?.transfer(target, stream, origin);
        }
        let dense = match self.spec().layout.is_contiguous() {
            true => self.clone(),
            false => self.copy_to_from(&machine.worker_of(self)?, origin.clone())?,
        };
        let key = match to.is_host() {
            true => StreamKey::new(from.clone(), StreamType::DEVICE2HOST, 0),
            false => into(to),
        };
        copy(&dense, &machine.any_stream(&key)?)
    }

    /// What the host reads in this tensor's stead, and on which stream: a small tensor of a device is
    /// first copied to pinned memory, where there is some, as a read of other memory would have to.
    /// What the host cannot read where it lies is copied in any case.
    pub(super) fn staged(
        &self,
        section: Option<&Section>,
        origin: &Origin,
    ) -> Result<Option<(Tensor, Stream)>> {
        let machine = self.machine();
        let spec = TensorSpec::contiguous(self.spec().dtype, self.spec().shape())?;
        let devices = machine.policies().devices();
        let small = spec.span_bytes() <= STAGED && devices.probe(&DeviceId::pinned(0)).is_ok();
        if self.device().is_host()
            || !small && devices.capabilities(self.device()).is_ok_and(|can| can.host_memory)
        {
            return Ok(None);
        }
        let key = |ty| StreamKey::new(self.device().clone(), ty, 0);
        let bytes = spec.span_bytes() as u64;
        let memory = machine.staging(self.device())?;
        let target = machine.empty_in(&memory, spec, bytes, origin.clone())?;
        let copy = machine.any_stream(&key(StreamType::DEVICE2HOST))?;
        let call = machine.call("copy", &[self]).from(origin.clone()).into(&[&target]);
        match section {
            Some(section) => call.within(section).on(&copy)?,
            None => call.on(&copy)?,
        };
        Ok(Some((target, copy)))
    }
}
