//! Recording of the times of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_instructions::InstructionList;
use millstream_instructions::builder::InferenceStats;
use millstream_runtime::driver::DriverKind;
use millstream_runtime::engine::router::TimesRecorder;
use millstream_runtime::profile::RunTimes;
use millstream_runtime::profile::recording::{Place, Recording};
use millstream_types::{Error, Point, Result, StreamKey};

use crate::handle::Tensor;

use super::Machine;
use super::handoff::handoff;

/// How long the end of a recording waits for streams that still run something.
const PATIENCE: Duration = Duration::from_secs(10);

/// A recording of times under way. It ends with [`Profiling::finish`]; dropped before, it is
/// discarded.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let recording = machine.profile(&[])?;
/// let y = Tensor::full(2, -1.5, &machine)?.relu()?;
/// let times = recording.finish()?; // waits for all instructions
/// assert_eq!(times.issued.len(), times.list.instructions.len());
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "a recording that is dropped is discarded"]
pub struct Profiling {
    machine: Machine,
    recording: Arc<Recording>,
    /// The counts of the inference cache when the recording began.
    inference: BTreeMap<String, InferenceStats>,
    is_finished: bool,
}

/// A range of the program on the timeline, which ends when this is dropped.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let recording = machine.profile(&[])?;
/// {
///     let _range = machine.range("first step");
///     Tensor::full(2, -1.5, &machine)?.relu()?;
/// }
/// assert_eq!(recording.finish()?.ranges[0].name, "first step");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "the range ends when this is dropped"]
#[derive(Debug)]
pub struct RangeGuard {
    recorded: Option<(Arc<Recording>, String, u64)>,
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        if let Some((recording, name, begin)) = self.recorded.take() {
            recording.range(name, begin);
        }
    }
}

impl Machine {
    /// Begins to record the times of all instructions emitted from now on, together with their
    /// list, as [`Machine::start_recording`] does. `externals` are the tensors that the list starts
    /// from, by name.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let recording = machine.profile(&[])?;
    /// let y = Tensor::full(2, -1.5, &machine)?.relu()?;
    /// let times = recording.finish()?; // waits for all instructions
    /// assert_eq!(times.issued.len(), times.list.instructions.len());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Machine::start_recording`], or the machine is simulated: then nothing takes time.
    #[track_caller]
    pub fn profile(&self, externals: &[(&str, &Tensor)]) -> Result<Profiling> {
        self.start_recording(externals)?;
        self.start_times()
    }

    /// Begins to record the times of all instructions emitted from now on, without their list: for
    /// programs whose list is known, as that of a dry run is. It costs less than
    /// [`Machine::profile`]; [`Profiling::finish_with`] ends it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let program = |m: &Machine| Tensor::full(2, -1.5, m)?.relu().map(drop);
    /// let other = Machine::new(MachineConfig::default())?;
    /// let recording = other.profile(&[])?;
    /// program(&other)?;
    /// let list = recording.finish()?.list;
    ///
    /// let recording = machine.profile_times()?; // of a program whose list is known
    /// program(&machine)?;
    /// assert!(recording.finish_with(list)?.is_some());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A recording is under way, an earlier instruction has failed, or the machine is simulated.
    #[track_caller]
    pub fn profile_times(&self) -> Result<Profiling> {
        self.synchronize()?;
        if self.shared.lock()?.router.recorder.is_some() {
            let message = "a recording is under way; finish it first".to_owned();
            return Err(Error::Invalid { what: "profile", message });
        }
        self.start_times()
    }

    fn start_times(&self) -> Result<Profiling> {
        if self.shared.driver == DriverKind::Simulated {
            let message = "a simulated run takes no time; predict it from a cost model".to_owned();
            return Err(Error::Invalid { what: "profile", message });
        }
        let recording = Arc::new(Recording::start());
        let mut engine = self.shared.lock()?;
        engine.router.start_times(&recording);
        let inference = engine.builder.inference_stats_of_ops();
        drop(engine);
        self.shared.recording.set(Some(recording.clone()));
        Ok(Profiling { machine: self.clone(), recording, inference, is_finished: false })
    }

    /// Begins a range of the program on the timeline: it ends when the guard is dropped. Without a
    /// recording under way it does nothing; with the feature `tracing` it is a span of the crate of
    /// that name as well.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let recording = machine.profile(&[])?;
    /// {
    ///     let _range = machine.range("first step");
    ///     Tensor::full(2, -1.5, &machine)?.relu()?;
    /// }
    /// assert_eq!(recording.finish()?.ranges[0].name, "first step");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn range(&self, name: impl AsRef<str>) -> RangeGuard {
        let name = name.as_ref();
        let recorded = self.shared.recording.get().map(|recording| {
            let begin = recording.clock.now();
            (recording, name.to_owned(), begin)
        });
        RangeGuard {
            recorded,
            #[cfg(feature = "tracing")]
            _span: tracing::info_span!("range", name).entered(),
        }
    }
}

impl Profiling {
    /// Ends the recording, and returns the times. Waits for all instructions; their failures are
    /// part of the result.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let recording = machine.profile(&[])?;
    /// let y = Tensor::full(2, -1.5, &machine)?.relu()?;
    /// let times = recording.finish()?; // waits for all instructions
    /// assert_eq!(times.issued.len(), times.list.instructions.len());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Machine::finish_recording`]; or an instruction cannot complete.
    pub fn finish(mut self) -> Result<RunTimes> {
        let list = |machine: &Machine| machine.finish_recording();
        Ok(self.end(list)?.map(|times| self.with_handoff(times)).unwrap_or_default())
    }

    /// Ends the recording of [`Machine::profile_times`], and returns the times of a list. Returns
    /// none if the machine has emitted other instructions than those of the list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let program = |m: &Machine| Tensor::full(2, -1.5, m)?.relu().map(drop);
    /// let other = Machine::new(MachineConfig::default())?;
    /// let recording = other.profile(&[])?;
    /// program(&other)?;
    /// let list = recording.finish()?.list;
    ///
    /// let recording = machine.profile_times()?; // of a program whose list is known
    /// program(&machine)?;
    /// assert!(recording.finish_with(list)?.is_some());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Profiling::finish`].
    pub fn finish_with(mut self, list: InstructionList) -> Result<Option<RunTimes>> {
        Ok(self.end(|_| Ok(list))?.map(|times| self.with_handoff(times)))
    }

    /// Adds what waits between workers cost, which a run on one worker does not tell.
    fn with_handoff(&self, times: RunTimes) -> RunTimes {
        let shared = &self.machine.shared;
        let has_workers = shared.driver == DriverKind::Threaded && shared.host_workers > 1;
        RunTimes { handoff: if has_workers { handoff() } else { None }, ..times }
    }

    pub(super) fn end(
        &mut self,
        list: impl FnOnce(&Machine) -> Result<InstructionList>,
    ) -> Result<Option<RunTimes>> {
        // The list ends before the wait below, which is not the program's.
        let list = list(&self.machine)?;
        match self.machine.synchronize() {
            Err(error) if error.failure().is_none() => return Err(error),
            _ => {}
        }
        self.is_finished = true;
        let shared = self.machine.shared.clone();
        shared.recording.set(None);
        let mut engine = shared.lock()?;
        let times = engine.router.finish_times();
        let opened: Vec<_> =
            (engine.router.open_streams()).map(|stream| (stream.id(), stream.worker())).collect();
        let mut inference = engine.builder.inference_stats_of_ops();
        for (op, earlier) in &self.inference {
            inference.entry(op.clone()).and_modify(|stats| *stats = stats.since(*earlier));
        }
        inference.retain(|_, stats| *stats != InferenceStats::default());
        // The inline driver runs the streams' last tasks here.
        shared.leave(engine);
        let _ = self.machine.settle();
        shared.tables.backlog.wait(0, PATIENCE);
        let Some(TimesRecorder { issued, points, has_list, .. }) = times else { return Ok(None) };
        let workers = (&opened[..], shared.host_workers);
        let is_inline = shared.driver == DriverKind::Inline;
        if has_list {
            let places: Vec<Place> = (0..list.streams.len()).map(Place::same).collect();
            let times = self.recording.times(list, &issued, &places, workers);
            return Ok(Some(RunTimes { inference, is_inline, ..times }));
        }
        let keys: Vec<StreamKey> =
            shared.lock()?.builder.streams().map(|decl| decl.key.clone()).collect();
        let Some((issued, places)) = matched(&list, &keys, &points) else { return Ok(None) };
        let times = self.recording.times(list, &issued, &places, workers);
        Ok(Some(RunTimes { inference, is_inline, ..times }))
    }
}

/// Matches the points that were emitted with those of a list, whose streams may have other numbers
/// and whose sequence numbers begin at the list's first instruction. Returns when each instruction
/// was emitted, and where the streams of the list are on the machine. An instruction without a
/// point was emitted right before the next one. Returns none if the list is another one.
fn matched(
    list: &InstructionList,
    keys: &[StreamKey],
    points: &[(Point, u64)],
) -> Option<(Vec<u64>, Vec<Place>)> {
    let mut by_stream: Vec<Vec<(u64, u64)>> = vec![Vec::new(); keys.len()];
    for (at, raw) in points {
        by_stream.get_mut(at.stream.index())?.push((at.seq, *raw));
    }
    let mut left: usize = points.len();
    let mut places: Vec<Place> = Vec::with_capacity(list.streams.len());
    for decl in &list.streams {
        let stream = keys.iter().position(|key| *key == decl.key);
        places.push(stream.map_or(Place::none(), Place::same));
    }
    let mut next = vec![0; list.streams.len()];
    let mut issued = vec![0; list.instructions.len()];
    for (index, instruction) in list.instructions.iter().enumerate() {
        let own = instruction.body.at();
        for at in instruction.body.second_point().into_iter().chain(own) {
            let place = places.get_mut(at.stream.index())?;
            let emitted = by_stream.get(place.stream.index())?;
            let &(seq, raw) = emitted.get(next[at.stream.index()])?;
            let offset = seq.checked_sub(at.seq)?;
            if next[at.stream.index()] == 0 {
                place.offset = offset;
            }
            if offset != place.offset {
                return None;
            }
            next[at.stream.index()] += 1;
            left = left.checked_sub(1)?;
            issued[index] = raw;
        }
    }
    let mut last = points.last().map_or(0, |(_, raw)| *raw);
    for (instruction, issued) in list.instructions.iter().zip(&mut issued).rev() {
        match instruction.body.at() {
            Some(_) => last = *issued,
            None => *issued = last,
        }
    }
    (left == 0).then_some((issued, places))
}

impl Drop for Profiling {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        self.machine.shared.recording.set(None);
        if let Ok(mut engine) = self.machine.shared.lock() {
            engine.router.recorder = None;
            engine.router.finish_times();
            self.machine.shared.leave(engine);
        }
    }
}

impl fmt::Debug for Profiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiling").field("machine", &self.machine).finish_non_exhaustive()
    }
}
