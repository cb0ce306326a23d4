//! What the threads of a machine share while they record.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::thread::ThreadId;

use millstream_instructions::InstructionList;
use millstream_types::{Point, StreamId};

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};

use super::clock::Clock;
use super::samples::Sample;
use super::times::{
    InstructionTimes, LaunchTimes, Outcome, Pause, Range, RunTimes, StepTimes, StreamTimes,
    TapeTimes,
};

/// What a step of a tape is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSource {
    /// The index of the instruction in the executable's list.
    pub instruction: u32,
    /// If that launches another executable: the index of the instruction in that one's list.
    pub inner: Option<u32>,
    /// For a wait, the tape and the number of its steps that have to complete.
    pub awaits: Option<(u16, u32)>,
}

/// A tape of a launch: the stream that runs it, and its last sequence number before the first step.
#[derive(Clone, Debug)]
pub(crate) struct LaunchedTape {
    pub(crate) stream: StreamId,
    pub(crate) base: u64,
    /// The worker; none if a device runs the steps by itself.
    pub(crate) worker: Option<usize>,
    pub(crate) sources: Arc<[StepSource]>,
}

/// Where a stream of a list is on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub stream: StreamId,
    /// How much higher its sequence numbers are on the machine.
    pub offset: u64,
}

impl Place {
    /// Returns the place of a stream that has the same number and sequence numbers.
    pub fn same(stream: usize) -> Place {
        Place { stream: StreamId(stream as u16), offset: 0 }
    }

    /// Returns the place of a stream that the machine does not have.
    pub const fn none() -> Place {
        Place { stream: StreamId(u16::MAX), offset: 0 }
    }
}

/// Device times of commands, in nanoseconds of the recording's clock.
pub(crate) type DeviceTime = (u64, [u64; 2]);

/// The content so far. Streams give their buffers at the end, so the lock is taken rarely.
#[derive(Debug, Default)]
struct Content {
    samples: HashMap<StreamId, Vec<Sample>>,
    outcomes: HashMap<StreamId, Vec<(u64, Outcome)>>,
    device: HashMap<StreamId, Vec<DeviceTime>>,
    launches: Vec<(Point, Vec<LaunchedTape>)>,
    ranges: Vec<Range>,
    threads: HashMap<ThreadId, u32>,
    pauses: Vec<Pause>,
}

/// A recording.
#[derive(Debug)]
pub struct Recording {
    pub clock: Clock,
    content: Mutex<Content>,
}

impl Recording {
    pub fn start() -> Recording {
        Recording { clock: Clock::start(), content: Mutex::default() }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the buffer of a stream.
    pub(crate) fn take(
        &self,
        stream: StreamId,
        samples: Vec<Sample>,
        outcomes: Vec<(u64, Outcome)>,
    ) {
        let mut content = self.content();
        content.samples.entry(stream).or_default().extend(samples);
        content.outcomes.entry(stream).or_default().extend(outcomes);
    }

    /// Takes times that a device has measured.
    pub(crate) fn take_device(&self, stream: StreamId, times: Vec<DeviceTime>) {
        self.content().device.entry(stream).or_default().extend(times);
    }

    /// Notes the tapes of a launch.
    pub(crate) fn launch(&self, at: Point, tapes: Vec<LaunchedTape>) {
        self.content().launches.push((at, tapes));
    }

    /// Notes a range of the calling thread, which ends now.
    pub fn range(&self, name: String, begin: u64) {
        let end = self.clock.now();
        let mut content = self.content();
        let next = content.threads.len() as u32;
        let thread = *content.threads.entry(std::thread::current().id()).or_insert(next);
        content.ranges.push(Range { name, thread, begin, end });
    }

    /// Notes that a thread of the program waited until now.
    fn pause(&self, reason: &'static str, until: Option<Point>, begin: u64) {
        let end = self.clock.now();
        self.content().pauses.push(Pause { reason, until, begin, end });
    }

    /// Returns the times so far. `issued` are readings of the clock; `places` are those of the
    /// streams of the list, `workers` those of the machine's streams.
    pub fn times(
        &self,
        list: InstructionList,
        issued: &[u64],
        places: &[Place],
        (workers, host_workers): (&[(StreamId, usize)], usize),
    ) -> RunTimes {
        let total = self.clock.now();
        let mut content = std::mem::take(&mut *self.content());
        let issued = issued.iter().map(|&raw| self.clock.ns(raw)).collect();
        let streams = list.streams.iter().zip(places).map(|(decl, place)| {
            let id = place.stream;
            let by_device = content.device.get(&id).is_some_and(|times| !times.is_empty());
            let mut instructions = self.of_stream(id, &mut content);
            instructions.retain_mut(|one| {
                let own = one.seq.checked_sub(place.offset);
                one.seq = own.unwrap_or(0);
                own.is_some()
            });
            let worker = workers.iter().find(|(of, _)| *of == id).map(|(_, worker)| *worker);
            StreamTimes { key: decl.key.clone(), instructions, by_device, worker }
        });
        let streams: Vec<StreamTimes> = streams.collect();
        // The point of the list that is a point of the machine.
        let in_list = |at: Point| {
            let own = places.iter().position(|place| place.stream == at.stream)?;
            let seq = at.seq.checked_sub(places[own].offset)?;
            Some(Point::new(StreamId(own as u16), seq))
        };
        let launches = std::mem::take(&mut content.launches).into_iter();
        let launches = launches.filter_map(|(at, tapes)| Some((in_list(at)?, tapes))).collect();
        let mut launches = self.launches(launches, &mut content, &list);
        for launch in &mut launches {
            let of = &streams[launch.at.stream.index()].instructions;
            let own = of.binary_search_by_key(&launch.at.seq, |times| times.seq);
            // A worker may look at a tape before the launch has begun.
            let begun = own.map_or(0, |own| of[own].start);
            for step in &mut launch.steps {
                step.ready = step.ready.max(begun).min(step.end);
                step.start = step.start.max(step.ready);
            }
        }
        let Content { mut ranges, mut pauses, .. } = content;
        ranges.sort_by_key(|range| (range.begin, std::cmp::Reverse(range.end)));
        pauses.sort_by_key(|pause| (pause.begin, std::cmp::Reverse(pause.end)));
        for pause in &mut pauses {
            pause.until = pause.until.and_then(in_list);
        }
        let began = self.clock.began();
        RunTimes {
            list,
            issued,
            streams,
            launches,
            ranges,
            pauses,
            total,
            began,
            host_workers,
            is_inline: false,
            handoff: None,
            inference: BTreeMap::new(),
        }
    }

    /// Takes the times of a stream out of the content.
    fn of_stream(&self, id: StreamId, content: &mut Content) -> Vec<InstructionTimes> {
        let device = content.device.remove(&id).unwrap_or_default();
        let outcomes = content.outcomes.remove(&id).unwrap_or_default();
        let samples = content.samples.remove(&id).unwrap_or_default();
        self.instructions(samples, &outcomes, &device)
    }

    fn instructions(
        &self,
        mut samples: Vec<Sample>,
        outcomes: &[(u64, Outcome)],
        device: &[DeviceTime],
    ) -> Vec<InstructionTimes> {
        samples.sort_by_key(|sample| sample.seq);
        samples.dedup_by_key(|sample| sample.seq);
        let outcomes: HashMap<u64, Outcome> = outcomes.iter().copied().collect();
        let device: HashMap<u64, [u64; 2]> = device.iter().copied().collect();
        let mut before = 0;
        let one = |sample: Sample| {
            let (ready, end) = (self.clock.ns(sample.ready), self.clock.ns(sample.end));
            let launched =
                if sample.launched == 0 { ready } else { self.clock.ns(sample.launched) };
            let outcome = outcomes.get(&sample.seq).copied().unwrap_or_default();
            // An instruction on a device begins behind the one before it.
            let begun = if sample.launched == 0 { ready } else { launched.max(before).min(end) };
            // The device's times of the one before it may lie behind the host's of this one, by the
            // error of their anchor.
            let not_before = if device.is_empty() { 0 } else { before };
            let by_host = [begun.max(not_before), end.max(not_before)];
            let [start, end] = device.get(&sample.seq).copied().unwrap_or(by_host);
            before = end;
            InstructionTimes { seq: sample.seq, ready, start, end, outcome }
        };
        let mut all: Vec<InstructionTimes> = samples.into_iter().map(one).collect();
        // The worker learns late of what the device has not measured.
        let mut next = u64::MAX;
        for one in all.iter_mut().rev().filter(|_| !device.is_empty()) {
            if device.contains_key(&one.seq) {
                next = next.min(one.start);
            } else {
                one.end = one.end.min(next);
                one.start = one.start.min(one.end);
                one.ready = one.ready.min(one.end);
            }
        }
        all
    }

    fn launches(
        &self,
        launches: Vec<(Point, Vec<LaunchedTape>)>,
        content: &mut Content,
        list: &InstructionList,
    ) -> Vec<LaunchTimes> {
        use millstream_instructions::Body;
        let executables: HashMap<Point, _> = list
            .instructions
            .iter()
            .filter_map(|instruction| match &instruction.body {
                Body::LazyJobLauncher { at, list, .. } => Some((*at, *list)),
                _ => None,
            })
            .collect();
        let launched: HashSet<StreamId> =
            launches.iter().flat_map(|(_, tapes)| tapes).map(|tape| tape.stream).collect();
        let times: HashMap<StreamId, Vec<InstructionTimes>> =
            launched.into_iter().map(|stream| (stream, self.of_stream(stream, content))).collect();
        let one = |(at, tapes): (Point, Vec<LaunchedTape>)| {
            let executable = *executables.get(&at)?;
            let mut steps = Vec::new();
            let mut positions = HashMap::new();
            let mut awaited = Vec::new();
            for (number, tape) in (0..).zip(&tapes) {
                let all = times.get(&tape.stream).map_or(&[][..], |all| all);
                let from = all.partition_point(|times| times.seq <= tape.base);
                for own in &all[from..] {
                    let step = (own.seq - tape.base) as usize;
                    let Some(source) = tape.sources.get(step - 1) else { break };
                    positions.insert((number, step as u32), steps.len() as u32);
                    awaited.push(source.awaits);
                    steps.push(StepTimes {
                        instruction: source.instruction,
                        inner: source.inner,
                        tape: number,
                        waits: source.awaits.is_some(),
                        until: None,
                        ready: own.ready,
                        start: own.start,
                        end: own.end,
                        outcome: own.outcome,
                    });
                }
            }
            for (step, awaited) in steps.iter_mut().zip(awaited) {
                step.until = awaited.and_then(|until| positions.get(&until).copied());
            }
            let tapes =
                tapes.iter().map(|tape| TapeTimes { stream: tape.stream, worker: tape.worker });
            Some(LaunchTimes { at, executable, tapes: tapes.collect(), steps })
        };
        launches.into_iter().filter_map(one).collect()
    }
}

/// The recording of a machine that is under way, for the threads of the program.
#[derive(Debug, Default)]
pub struct ActiveRecording {
    /// Whether there is one. A hint: the lock decides.
    is_active: AtomicBool,
    recording: Mutex<Option<Arc<Recording>>>,
}

impl ActiveRecording {
    /// Replaces the recording.
    pub fn set(&self, recording: Option<Arc<Recording>>) {
        let mut own = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_active.store(recording.is_some(), Ordering::Relaxed);
        *own = recording;
    }

    /// Returns the recording, if there is one.
    #[inline]
    pub fn get(&self) -> Option<Arc<Recording>> {
        if !self.is_active.load(Ordering::Relaxed) {
            return None;
        }
        self.recording.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `wait`, in which the thread waits for this reason, and perhaps for a point.
    #[inline]
    pub(crate) fn pause<T>(
        &self,
        reason: &'static str,
        until: Option<Point>,
        wait: impl FnOnce() -> T,
    ) -> T {
        let Some(recording) = self.get() else { return wait() };
        let begin = recording.clock.now();
        let waited = wait();
        recording.pause(reason, until, begin);
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_measures_lies_between_what_the_device_measures() {
        let recording = Recording::start();
        let sample = |seq| {
            let now = recording.clock.raw();
            Sample { seq, ready: now, launched: 0, end: now }
        };
        let samples: Vec<Sample> = (1..=4).map(sample).collect();
        let late = recording.clock.now() + 1_000;
        let device = [(1, [late, late + 20]), (3, [late + 50, late + 60])];
        let times = recording.instructions(samples, &[], &device);
        let spans: Vec<_> = times.iter().map(|one| [one.start - late, one.end - late]).collect();
        assert_eq!(spans, [[0, 20], [20, 20], [50, 60], [60, 60]]);
        let early = [(1, [0, 1]), (3, [2, 3])];
        let samples = (1..=3).map(sample).collect();
        let times = recording.instructions(samples, &[], &early);
        assert_eq!([times[1].start, times[1].end], [2, 2]);
    }
}
