//! Copies of tensors.

use millstream_runtime::scope::origin;
use millstream_types::{Origin, Result};

use crate::handle::lowering::Submitter;
use crate::handle::machine::Machine;

use super::request::{self, Request, Verb};
use super::{Stream, Tensor};

impl Machine {
    /// Returns the submitter of the calls that `origin` asks for.
    pub(crate) const fn submitter(&self, origin: Origin) -> Submitter<'_> {
        Submitter { machine: self, section: None, origin }
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
            self.machine().submitter(origin.clone()).copy_to(self, stream)
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
            self.machine().submitter(origin.clone()).copy_into(self, target).map(Some)
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
