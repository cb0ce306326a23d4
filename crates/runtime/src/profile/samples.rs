//! The times of one stream's instructions, in its worker.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use millstream_ep::{HostClock, Ticket};
use millstream_types::StreamId;

use crate::sync::points::Milestone;

use super::recording::{DeviceTime, Recording};
use super::times::Outcome;

/// The times of one instruction, as readings of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) seq: u64,
    /// When the worker first tried to run it. What it then waits for blocks the stream.
    pub(crate) ready: u64,
    /// When it was given to the device; 0 if it completed at once.
    pub(crate) launched: u64,
    pub(crate) end: u64,
}

/// The buffer of a stream. It gives its content to the recording when it is dropped.
#[derive(Debug)]
pub(crate) struct StreamSamples {
    recording: Arc<Recording>,
    stream: StreamId,
    /// When the instruction at the head was first tried; 0 before.
    ready: u64,
    /// The instructions on the device.
    in_flight: VecDeque<Sample>,
    /// The outcome of the instruction that completes next, if it is not the usual one.
    outcome: Outcome,
    taken: Vec<Sample>,
    outcomes: Vec<(u64, Outcome)>,
    /// The commands of instructions on the device.
    tickets: HashMap<Ticket, u64>,
    /// The times of instructions that the device has measured.
    device: Vec<DeviceTime>,
}

/// The first capacity: some pages.
const CAPACITY: usize = 1024;

impl StreamSamples {
    pub(crate) fn new(recording: Arc<Recording>, stream: StreamId) -> StreamSamples {
        StreamSamples {
            recording,
            stream,
            ready: 0,
            in_flight: VecDeque::new(),
            outcome: Outcome::Completed,
            taken: Vec::with_capacity(CAPACITY),
            outcomes: Vec::new(),
            tickets: HashMap::new(),
            device: Vec::new(),
        }
    }

    /// Returns the clock of the recording, for a device that measures times itself.
    pub(crate) fn clock(&self) -> HostClock {
        let recording = self.recording.clone();
        Arc::new(move || recording.clock.now())
    }

    /// Notes the command of an instruction on its device.
    pub(crate) fn command(&mut self, seq: u64, ticket: Ticket) {
        self.tickets.insert(ticket, seq);
    }

    /// Notes the times of a command that its device has measured.
    pub(crate) fn device_time(&mut self, ticket: Ticket, times: [u64; 2]) {
        self.device.extend(self.tickets.remove(&ticket).map(|seq| (seq, times)));
    }

    /// Notes that the worker tries to run the instruction at the stream's head.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if self.ready == 0 {
            self.ready = self.recording.clock.raw();
        }
    }

    /// Forgets the beginning: the task was no instruction.
    pub(crate) fn skip(&mut self) {
        self.ready = 0;
    }

    /// Notes the outcome of the instruction that completes next.
    pub(crate) fn outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// Notes that an instruction has reached a milestone.
    #[inline]
    pub(crate) fn reached(&mut self, seq: u64, milestone: Milestone) {
        let now = self.recording.clock.raw();
        let ready = match std::mem::take(&mut self.ready) {
            0 => now,
            ready => ready,
        };
        match milestone {
            Milestone::Completed if self.in_flight.is_empty() => {
                self.push(Sample { seq, ready, launched: 0, end: now });
            }
            Milestone::Completed => {
                // The next instruction may have been tried already.
                self.ready = if ready == now { 0 } else { ready };
                let front = self.in_flight.pop_front();
                let sample = front.unwrap_or(Sample { seq, ready, launched: 0, end: now });
                self.push(Sample { seq, end: now, ..sample });
            }
            Milestone::Launched => {
                self.in_flight.push_back(Sample { seq, ready, launched: now, end: 0 });
            }
        }
    }

    /// Notes that a step that began at the last [`StreamSamples::begin`] has completed.
    #[inline]
    pub(crate) fn step(&mut self, seq: u64) {
        let end = self.recording.clock.raw();
        let ready = std::mem::take(&mut self.ready);
        self.push(Sample { seq, ready, launched: 0, end });
    }

    #[inline]
    fn push(&mut self, sample: Sample) {
        if self.outcome != Outcome::Completed {
            self.outcomes.push((sample.seq, std::mem::take(&mut self.outcome)));
        }
        self.taken.push(sample);
    }

    /// Gives the recording what the stream has so far.
    pub(crate) fn deliver(&mut self) {
        let (taken, outcomes) =
            (std::mem::take(&mut self.taken), std::mem::take(&mut self.outcomes));
        if !taken.is_empty() {
            self.recording.take(self.stream, taken, outcomes);
        }
        if !self.device.is_empty() {
            self.recording.take_device(self.stream, std::mem::take(&mut self.device));
        }
    }
}

impl Drop for StreamSamples {
    fn drop(&mut self) {
        self.deliver();
    }
}
