//! Recording of the times of a run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{Error, Result};

use crate::api::handle::Tensor;
use crate::profile::RunTimes;
use crate::profile::recording::Recording;

use super::{DriverKind, Machine};

/// How long the end of a recording waits for streams that still run something.
const PATIENCE: Duration = Duration::from_secs(10);

/// A recording of times under way. It ends with [`Profiling::finish`]; dropped before, it is
/// discarded.
#[must_use = "a recording that is dropped is discarded"]
pub struct Profiling {
    machine: Machine,
    recording: Arc<Recording>,
    is_finished: bool,
}

/// A range of the program on the timeline, which ends when this is dropped.
#[must_use = "the range ends when this is dropped"]
#[derive(Debug)]
pub struct RangeGuard(Option<(Arc<Recording>, String, u64)>);

impl Drop for RangeGuard {
    fn drop(&mut self) {
        if let Some((recording, name, begin)) = self.0.take() {
            recording.range(name, begin);
        }
    }
}

impl Machine {
    /// Begins to record the times of all instructions emitted from now on, together with their
    /// list, as [`Machine::start_recording`] does. `externals` are the tensors that the list starts
    /// from, by name.
    ///
    /// # Errors
    /// As [`Machine::start_recording`], or the machine is simulated: then nothing takes time.
    #[track_caller]
    pub fn profile(&self, externals: &[(&str, &Tensor)]) -> Result<Profiling> {
        if self.shared.driver == DriverKind::Simulated {
            let message = "a simulated run takes no time; predict it from a cost model".to_owned();
            return Err(Error::Invalid { what: "profile", message });
        }
        self.start_recording(externals)?;
        let recording = Arc::new(Recording::start());
        self.shared.lock()?.router.start_times(&recording);
        self.shared.recording.set(Some(recording.clone()));
        Ok(Profiling { machine: self.of_handle(), recording, is_finished: false })
    }

    /// Begins a range of the program on the timeline: it ends when the guard is dropped. Without a
    /// recording under way it does nothing.
    pub fn range(&self, name: impl Into<String>) -> RangeGuard {
        RangeGuard(self.shared.recording.get().map(|recording| {
            let begin = recording.clock.now();
            (recording, name.into(), begin)
        }))
    }
}

impl Profiling {
    /// Ends the recording, and returns the times. Waits for all instructions; their failures are
    /// part of the result.
    ///
    /// # Errors
    /// As [`Machine::finish_recording`]; or an instruction cannot complete.
    pub fn finish(mut self) -> Result<RunTimes> {
        match self.machine.synchronize() {
            Err(error) if error.failure().is_none() => return Err(error),
            _ => {}
        }
        self.is_finished = true;
        let shared = self.machine.shared.clone();
        shared.recording.set(None);
        let list = self.machine.finish_recording();
        let mut emission = shared.lock()?;
        let times = emission.router.finish_times();
        // The inline driver runs the streams' last tasks here.
        shared.leave(emission);
        let _ = self.machine.settle();
        shared.tables.backlog.wait(0, PATIENCE);
        let issued = times.map_or_else(Vec::new, |times| times.issued);
        Ok(self.recording.times(list?, &issued))
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        self.machine.shared.recording.set(None);
        if let Ok(mut emission) = self.machine.shared.lock() {
            emission.router.recorder = None;
            emission.router.finish_times();
            self.machine.shared.leave(emission);
        }
    }
}

impl fmt::Debug for Profiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiling").field("machine", &self.machine).finish_non_exhaustive()
    }
}
