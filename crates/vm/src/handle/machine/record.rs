//! Recording of the emitted list.

use millstream_instructions::{InstructionList, ListRecorder};
use millstream_runtime::engine::Engine;
use millstream_runtime::scope::origin;
use millstream_types::{Error, Result};

use crate::handle::Tensor;

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
}
