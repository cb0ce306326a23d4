//! Tensors, as users hold them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_instructions::builder::SectionId;
use millstream_instructions::{Kind, Outcome, Protection, TensorRef};
use millstream_types::{
    Access, DeviceId, Error, Origin, Result, StreamKey, StreamType, TensorSpec,
};

use crate::emission::{Emission, Release};
use crate::host::Blob;
use crate::machine::Machine;

use super::Completion;
use super::Section;
use super::Stream;

struct TensorInner {
    machine: Machine,
    tensor: TensorRef,
    spec: TensorSpec,
    device: DeviceId,
    home: Stream,
    origin: Origin,
}

impl Drop for TensorInner {
    fn drop(&mut self) {
        let origin = std::mem::take(&mut self.origin);
        self.machine.shared.release(Release::Tensor(self.tensor, origin));
    }
}

/// A tensor. Clones are the same tensor; it is released when the last is dropped.
#[derive(Clone)]
pub struct Tensor(Arc<TensorInner>);

impl Tensor {
    pub(crate) fn new(
        machine: Machine,
        tensor: TensorRef,
        spec: TensorSpec,
        device: DeviceId,
        home: Stream,
        origin: Origin,
    ) -> Tensor {
        Tensor(Arc::new(TensorInner { machine, tensor, spec, device, home, origin }))
    }

    pub(crate) fn home(&self) -> &Stream {
        &self.0.home
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// The tensor's slot, for calls that are prepared once and made many times.
    pub fn tensor_ref(&self) -> TensorRef {
        self.0.tensor
    }

    /// Dtype, shape and layout.
    pub fn spec(&self) -> &TensorSpec {
        &self.0.spec
    }

    /// The device whose memory it lies in.
    pub fn device(&self) -> &DeviceId {
        &self.0.device
    }

    /// Ends the tensor now, while handles are still held; using one is an error from now on.
    ///
    /// # Errors
    /// It was released before, or a critical section holds it.
    #[track_caller]
    pub fn release(&self) -> Result<()> {
        self.release_from(None, Origin::caller())
    }

    /// As [`Tensor::release`], asked for at `origin`, perhaps from within a section.
    ///
    /// # Errors
    /// As [`Tensor::release`].
    pub fn release_from(&self, section: Option<&Section>, origin: Origin) -> Result<()> {
        let section = self.0.machine.own_section(section).map_err(|e| e.at(&origin))?;
        self.0.machine.shared.emit(&origin, |e| {
            let Emission { builder, router, .. } = e;
            builder.release(router, self.0.tensor, section, &origin).map(Outcome::Done)
        })
    }

    /// A tensor of another dtype, shape or layout on the same storage. It costs no kernel.
    ///
    /// # Errors
    /// The tensor was released or is held, or the view reaches past the storage.
    #[track_caller]
    pub fn view(&self, spec: TensorSpec) -> Result<Tensor> {
        self.view_from(spec, Origin::caller())
    }

    /// As [`Tensor::view`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Tensor::view`].
    pub fn view_from(&self, spec: TensorSpec, origin: Origin) -> Result<Tensor> {
        let machine = &self.0.machine;
        let made = machine.shared.emit(&origin, |e| {
            let Emission { builder, router, .. } = e;
            builder.view(router, self.0.tensor, spec.clone(), &origin).map(Outcome::Done)
        })?;
        machine.tensor(made, &self.0.home, &origin)
    }

    /// The stream that can read the tensor for the host.
    fn reader(&self) -> Result<Stream> {
        let machine = &self.0.machine;
        if !self.0.device.is_host() {
            let key = StreamKey::new(self.0.device.clone(), StreamType::DEVICE2HOST, 0);
            return machine.any_stream(&key);
        }
        // Behind its last write no wait is needed.
        let last = machine.shared.lock()?.builder.last_write(self.0.tensor)?;
        let writer = machine.stream_of(last.stream).ok().filter(|s| {
            last.seq > 0 && s.key.ty == StreamType::COMPUTE && s.key.device.kind() == "cpu"
        });
        match writer {
            Some(writer) => Ok(writer),
            None => machine.any_stream(&StreamKey::compute(DeviceId::cpu(0), 0)),
        }
    }

    /// Blocks until the tensor's last write so far has completed; reads of it are not waited for, nor
    /// is anything later on its stream. On a pool, which has no order, all that the pool was given
    /// before the write is.
    ///
    /// # Errors
    /// The failure that poisoned the tensor, or it was released.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let origin = Origin::caller();
        self.completion().and_then(|done| done.wait_from(None, origin))
    }

    /// As [`Tensor::synchronize`], for no longer than `timeout`.
    ///
    /// # Errors
    /// [`Error::Timeout`](millstream_types::Error::Timeout), or as [`Tensor::synchronize`].
    #[track_caller]
    pub fn synchronize_for(&self, timeout: Duration) -> Result<()> {
        let origin = Origin::caller();
        self.completion().and_then(|done| done.wait_from(Some(timeout), origin))
    }

    /// The tensor's last write so far, to be waited for as a future or later.
    ///
    /// # Errors
    /// The tensor was released. Asked from within the machine's own work, or an earlier emission
    /// panicked.
    #[track_caller]
    pub fn completion(&self) -> Result<Completion> {
        let (machine, origin) = (&self.0.machine, Origin::caller());
        let at = |e: millstream_types::Error| e.at(&origin);
        crate::guard::refuse_within(machine.shared.engine.machine, "waiting").map_err(at)?;
        let emission = machine.shared.lock().map_err(at)?;
        let last = emission.builder.last_write(self.0.tensor).map_err(at)?;
        let storage = emission.router.slot(self.0.tensor.id).map(|slot| slot.storage);
        drop(emission);
        Ok(Completion::of_storage(machine.clone(), last, storage))
    }

    /// Reads the elements back: in row-major order without gaps, as bytes. Blocks.
    ///
    /// # Errors
    /// The failure that poisoned the tensor, or it was released.
    #[track_caller]
    pub fn read(&self) -> Result<Vec<u8>> {
        self.read_from(Origin::caller())
    }

    /// As [`Tensor::read`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read_from(&self, origin: Origin) -> Result<Vec<u8>> {
        self.read_within(None, origin)
    }

    /// As [`Tensor::read_from`], perhaps from within a section.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read_within(&self, section: Option<&Section>, origin: Origin) -> Result<Vec<u8>> {
        let machine = &self.0.machine;
        crate::guard::refuse_within(machine.shared.engine.machine, "reading")?;
        let held = section;
        let section = machine.own_section(section).map_err(|e| e.at(&origin))?;
        if machine.shared.protection == Protection::default()
            && let Some((staged, stream)) = self.staged(held, &origin)?
        {
            return staged.read_on(&stream, None, &origin);
        }
        let stream = self.reader().map_err(|e| e.at(&origin))?;
        if !machine.shared.protection.waits() {
            // The stream that reads is the machine's choice, and so is its order.
            let last = machine.shared.lock()?.builder.last_write(self.0.tensor);
            let last = last.map_err(|e| e.at(&origin))?;
            machine.wait_for_all(&[last], None).map_err(|e| e.at(&origin))?;
        }
        self.read_on(&stream, section, &origin)
    }

    fn read_on(
        &self,
        stream: &Stream,
        section: Option<SectionId>,
        origin: &Origin,
    ) -> Result<Vec<u8>> {
        let machine = &self.0.machine;
        let host = &machine.shared.engine.host;
        let read = host.add_read();
        let emitted = machine.shared.emit(origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            let tensor = self.0.tensor;
            let at = builder.sync_read(router, stream.id, tensor, read, section, origin);
            at.map(Outcome::Done)
        });
        let waited = emitted.and_then(|point| {
            machine.shared.wait_point(point, None)?;
            Ok(point)
        });
        let result = host.take_read(read);
        let point = waited?;
        let mut emission = machine.shared.lock()?;
        let Emission { builder, router, .. } = &mut *emission;
        builder.observe(router, &[point], origin);
        result.unwrap_or_else(|| {
            Err(Error::Internal { message: "a read completed without a result".to_owned() })
        })
    }

    /// Lets a function of the host's use the tensor's memory, behind all that was submitted on it.
    /// The function runs on a host worker; it must not submit or wait.
    ///
    /// # Errors
    /// The tensor was released or is held.
    #[track_caller]
    pub fn access(
        &self,
        access: Access,
        function: impl FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<Completion> {
        self.access_from(access, Origin::caller(), function)
    }

    /// As [`Tensor::access`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Tensor::access`].
    pub fn access_from(
        &self,
        access: Access,
        origin: Origin,
        function: impl FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<Completion> {
        let machine = &self.0.machine;
        let home = &self.0.home;
        let accepted = machine.policies().policy(&home.key)?.accepts();
        let stream = match Kind::AccessBlobByCallback.runs_on().allows(accepted) {
            true => home.clone(),
            false => machine.worker_of(self)?,
        };
        let host = &machine.shared.engine.host;
        let callback = host.add_callback(Box::new(function));
        let emitted = machine.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            let tensor = self.0.tensor;
            builder
                .access_blob(router, stream.id, tensor, access, callback, None, &origin)
                .map(Outcome::Done)
        });
        if emitted.is_err() {
            drop(host.take_callback(callback));
        }
        Ok(machine.completion_of(emitted?))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {} on {})", self.0.tensor.id, self.0.spec, self.0.device)
    }
}
