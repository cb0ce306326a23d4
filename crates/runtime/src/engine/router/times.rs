//! Recording of times: what the engine does for it.

use std::sync::Arc;

use millstream_types::Point;

use crate::profile::recording::{LaunchedTape, Recording};
use crate::tapes::run::Run;
use crate::thread_ctx::task::Task;

use super::Router;

/// The engine's part in a recording of times.
pub struct TimesRecorder {
    pub(crate) recording: Arc<Recording>,
    /// When each instruction of the recorded list was emitted, as readings of the clock.
    pub issued: Vec<u64>,
    /// Without a recorded list: when each instruction with a point was emitted.
    pub points: Vec<(Point, u64)>,
    pub has_list: bool,
}

impl TimesRecorder {
    /// Notes that an instruction is emitted.
    #[inline]
    pub(super) fn issued(&mut self) {
        self.issued.push(self.recording.clock.raw());
    }

    /// Notes that an instruction is given to its worker.
    #[inline]
    pub(super) fn submitted(&mut self, at: Point) {
        if !self.has_list {
            self.points.push((at, self.recording.clock.raw()));
        }
    }

    /// Notes the tapes of a launch.
    pub(super) fn launch(&self, run: &Run) {
        let tapes = run.tapes.iter().zip(&run.program.tapes).map(|(playing, tape)| LaunchedTape {
            stream: playing.stream.id(),
            base: playing.base,
            worker: tape.on_host.map(|_| playing.stream.worker()),
            sources: tape.sources.clone(),
        });
        self.recording.launch(run.at, tapes.collect());
    }
}

impl Router {
    /// Begins a recording of times on all streams that exist; later ones join it when they open.
    pub fn start_times(&mut self, recording: &Arc<Recording>) {
        self.tell_streams(&Some(recording.clone()));
        self.times = Some(TimesRecorder {
            recording: recording.clone(),
            issued: Vec::new(),
            points: Vec::new(),
            has_list: self.recorder.is_some(),
        });
    }

    /// Ends the recording of times: once their tasks have run, all streams have given it their
    /// samples.
    pub fn finish_times(&mut self) -> Option<TimesRecorder> {
        let times = self.times.take()?;
        self.tell_streams(&None);
        Some(times)
    }

    fn tell_streams(&mut self, recording: &Option<Arc<Recording>>) {
        let streams: Vec<_> = self.open_streams().chain(self.tapes.all.iter().copied()).collect();
        for stream in streams {
            self.push(stream, Task::RecordTimes(stream.id(), recording.clone()));
        }
    }
}
