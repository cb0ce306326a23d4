//! Recording of the emitted list, and tensors of machines that only check.

use millstream_instructions::{InstructionList, ListRecorder};
use millstream_runtime::driver::DriverKind;
use millstream_runtime::engine::{Engine, MadeTensor};
use millstream_runtime::scope::origin::{self, at_caller};
use millstream_types::{
    DeviceId, Error, Origin, Result, StreamId, StreamKey, StreamType, TensorSpec,
};

use crate::handle::{Stream, Tensor};

use super::Machine;

impl Machine {
    /// Begins a recording of all instructions emitted from now on. `externals` are the tensors that
    /// the list starts from, by name. Waits for all earlier instructions, so that the list is
    /// complete by itself.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// machine.start_recording(&[("x", &x)])?;
    /// let y = x.relu()?;
    /// let list = machine.finish_recording()?;
    /// assert_eq!(list.externals[0].name, "x");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A recording is under way, a tensor was released, or an earlier instruction has failed.
    #[track_caller]
    pub fn start_recording(&self, externals: &[(&str, &Tensor)]) -> Result<()> {
        self.synchronize()?;
        let mut engine = self.shared.lock()?;
        if engine.router.recorder.is_some() {
            let message = "a recording is under way; finish it first".to_owned();
            return Err(Error::Invalid { what: "list", message }.at(&origin::caller()));
        }
        let mut recorder = ListRecorder::new();
        for (name, tensor) in externals {
            let made = self.owns(tensor)?;
            recorder.external(engine.builder.external(name, made)?);
        }
        for (external, storage) in engine.builder.externals() {
            recorder.earlier(external, storage);
        }
        engine.router.recorder = Some(recorder);
        Ok(())
    }

    /// Ends the recording and returns its list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// machine.start_recording(&[("x", &x)])?;
    /// drop(x.relu()?);
    /// println!("{}", millstream_instructions::text::print_list(&machine.finish_recording()?));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// No recording is under way, or a critical section is still open.
    pub fn finish_recording(&self) -> Result<InstructionList> {
        let mut engine = self.shared.lock()?;
        let Engine { builder, router, .. } = &mut *engine;
        // A recording that cannot end here goes on.
        builder.all_sections_ended()?;
        let Some(recorder) = router.recorder.take() else {
            let message = "no recording was begun".to_owned();
            return Err(Error::Invalid { what: "list", message });
        };
        Ok(builder.finish_list(recorder))
    }

    /// Makes a tensor without elements, in a storage of `bytes` bytes, on a machine that only
    /// checks ([`DriverKind::Check`]). A list that is being recorded has it as an external of this
    /// name.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, TensorSpec};
    /// let machine = Machine::new(MachineConfig::default().driver(DriverKind::Check))?;
    /// machine.start_recording(&[])?;
    /// let spec = TensorSpec::contiguous(DType::F32, &[2, 3])?;
    /// let x = machine.declare("x", spec, 24, &DeviceId::cpu(0))?;
    /// assert!(x.matmul(&x).is_err()); // they do not fit
    /// x.relu()?;
    /// assert_eq!(machine.finish_recording()?.externals[0].name, "x");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, the storage is too small for the layout, or the machine runs its
    /// calls.
    #[track_caller]
    pub fn declare(
        &self,
        name: &str,
        spec: TensorSpec,
        bytes: u64,
        device: &DeviceId,
    ) -> Result<Tensor> {
        at_caller(self.declare_at(name, spec, bytes, device))
    }

    fn declare_at(
        &self,
        name: &str,
        spec: TensorSpec,
        bytes: u64,
        device: &DeviceId,
    ) -> Result<Tensor> {
        if self.shared.driver != DriverKind::Check {
            let message = "this machine runs its calls, so its tensors have elements; upload them";
            return Err(Error::Invalid { what: "tensor", message: message.to_owned() });
        }
        self.policies().devices().probe(device)?;
        let mut engine = self.shared.lock()?;
        let Engine { builder, router, .. } = &mut *engine;
        let made = builder.import(router, spec, bytes, device)?;
        if let Some(recorder) = &mut router.recorder {
            recorder.external(builder.external(name, made)?);
        }
        Ok(self.unplaced(engine.made(made)?))
    }

    /// Returns the handle of a tensor of no stream: calls on it choose theirs by its device.
    pub(crate) fn unplaced(&self, made: MadeTensor) -> Tensor {
        let key = StreamKey::new(DeviceId::cpu(0), StreamType::BARRIER, 0);
        let stream = Stream { machine: self.clone(), id: StreamId(u16::MAX), key, lease: None };
        self.tensor(made, &stream, &Origin::Unknown)
    }

    /// Returns what `read` finds in the list that is being recorded, if one is.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// machine.start_recording(&[("x", &x)])?;
    /// drop(x.relu()?);
    /// let emitted = machine.recorded(|recorder| recorder.list().instructions.len())?;
    /// assert!(emitted > Some(0));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn recorded<T>(&self, read: impl FnOnce(&ListRecorder) -> T) -> Result<Option<T>> {
        Ok(self.shared.lock()?.router.recorder.as_ref().map(read))
    }

    /// Refuses what only a run tells, on a machine that only checks: elements, or the size of a
    /// result of an op.
    ///
    /// # Errors
    /// It is such a machine.
    pub(crate) fn known(&self, op: Option<&str>) -> Result<()> {
        match self.shared.driver {
            DriverKind::Check => Err(Error::NotRun { op: op.map(str::to_owned) }),
            _ => Ok(()),
        }
    }
}
