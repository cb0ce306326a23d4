//! Host functions on tensors' memory.

use millstream_instructions::Outcome;
use millstream_runtime::engine::Engine;
use millstream_runtime::host::Blob;
use millstream_runtime::scope::origin;
use millstream_types::{Access, Error, Origin, Result, StreamType};

use super::request::{self, Request, Sole, Verb};
use super::{Completion, Tensor};

impl Tensor {
    fn not_on_host(&self) -> Error {
        let (spec, device) = (self.spec().brief(), self.device());
        let message = format!(
            "{spec} lies in the memory of {device}, which a host function cannot use; copy the \
             tensor to host memory first"
        );
        Error::Invalid { what: "access", message }
    }

    /// Lets a host function use the tensor's memory, behind everything submitted on the tensor. The
    /// function runs on a host worker; it must not submit or wait.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Access;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let written = x.access(Access::ReadWrite, |blob| {
    ///     let mut bytes = blob.to_bytes()?;
    ///     bytes[..4].copy_from_slice(&9.0f32.to_ne_bytes());
    ///     blob.write_bytes(&bytes)
    /// })?;
    /// written.wait()?;
    /// assert_eq!(x.to_vec::<f32>()?, [9.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released or is held, or lies in memory that the host cannot address.
    #[track_caller]
    pub fn access(
        &self,
        access: Access,
        function: impl FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<Completion> {
        self.access_at(access, origin::caller(), function)
    }

    pub(crate) fn access_at(
        &self,
        access: Access,
        origin: Origin,
        function: impl FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<Completion> {
        let verb = Verb::Access { tensor: self, access };
        let request = Request::new(verb, &origin);
        let Sole(made) =
            request::submit(request, |_| self.access_now(access, &origin, function).map(Sole))?;
        Ok(made)
    }

    fn access_now(
        &self,
        access: Access,
        origin: &Origin,
        function: impl FnOnce(&mut Blob<'_>) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<Completion> {
        let machine = self.machine();
        let at = |e: Error| e.at(origin);
        let stream = match self.made_on().key.ty {
            StreamType::COMPUTE | StreamType::DEVICE2HOST | StreamType::PINNED_COMPUTE => {
                self.made_on().clone()
            }
            _ => machine.submitter(origin.clone()).compute_stream(self).map_err(at)?,
        };
        let tensor = self.resolved().map_err(at)?;
        let host = &machine.shared.tables.host;
        let callback = host.add_callback(Box::new(function));
        let emitted = machine.shared.emit(origin, |e| {
            e.open(stream.id)?;
            let Engine { builder, router, .. } = e;
            // The slot of a released tensor may be another's.
            let alive = builder.spec(tensor).is_ok();
            if alive && router.slot(tensor.id).is_some_and(|slot| !slot.on_host) {
                return Err(self.not_on_host());
            }
            builder
                .access_blob(router, stream.id, tensor, access, callback, None, origin)
                .map(Outcome::Done)
        });
        if emitted.is_err() {
            drop(host.take_callback(callback));
        }
        Ok(machine.completion_of(emitted?))
    }
}
