//! Lists of what a machine emits.

use millstream_instructions::{External, InstructionList, ListRecorder};
use millstream_types::{Error, Result};

use crate::api::handle::Tensor;
use crate::emission::Emission;

use super::Machine;

impl Machine {
    /// Begins a list of all that is emitted from now on. `externals` are the tensors that it
    /// starts from, by name. Everything submitted before is waited for, so that the list stands on
    /// its own.
    ///
    /// # Errors
    /// A tensor was released, or something submitted before has failed.
    #[track_caller]
    pub fn start_recording(&self, externals: &[(&str, &Tensor)]) -> Result<()> {
        self.synchronize()?;
        let mut emission = self.shared.lock()?;
        let mut recorder = ListRecorder::new();
        for (name, tensor) in externals {
            let made = self.owns(tensor)?;
            let spec = emission.builder.spec(made)?.clone();
            let bytes = emission.builder.storage_bytes(made)?;
            let device = emission.builder.device(made)?.clone();
            let arena = emission.builder.planner_mut().arena(&device);
            let name = (*name).to_owned();
            recorder.external(External { tensor: made.id, name, spec, bytes, arena });
        }
        emission.router.recorder = Some(recorder);
        Ok(())
    }

    /// Ends a list.
    ///
    /// # Errors
    /// None was begun, or a critical section is still open.
    pub fn finish_recording(&self) -> Result<InstructionList> {
        let mut emission = self.shared.lock()?;
        let Emission { builder, router, .. } = &mut *emission;
        // The recording goes on if it cannot end here.
        builder.all_sections_ended()?;
        let Some(mut recorder) = router.recorder.take() else {
            let message = "no recording was begun".to_owned();
            return Err(Error::Invalid { what: "list", message });
        };
        for decl in builder.streams() {
            recorder.stream(decl.clone());
        }
        for device in builder.planner().devices() {
            recorder.arena(device.clone());
        }
        recorder.ops(builder.ops().iter().map(|o| o.name()));
        Ok(recorder.finish())
    }
}
