//! What a test sees of the simulated devices, and how it steers them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{DeviceId, Error, Result};

use crate::device::Ticket;
use crate::sim::Completion;
use crate::sim::simulation::Simulation;
use crate::sim::state::{Action, State};

/// Sees and steers all devices of a [`SimBackend`](crate::sim::SimBackend), from any thread.
#[derive(Clone)]
pub struct SimControl {
    simulation: Arc<Simulation>,
}

/// A stream by its device's index and its number there, counted from 0 in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SimStreamId {
    /// The device's index.
    pub device: u32,
    /// The stream's number on the device.
    pub stream: u32,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Runs work.
    Work,
    /// Records an event.
    Record,
    /// Waits for a record.
    Wait,
}

/// A command that has not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its number on its stream.
    pub ticket: Ticket,
    /// What it does.
    pub kind: CommandKind,
    /// Whether it could run now: it is its stream's head, and what it waits for has completed.
    pub runnable: bool,
}

/// A stream and its commands, the head first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// The stream.
    pub id: SimStreamId,
    /// What has not run.
    pub commands: Vec<Command>,
}

/// What was asked of a device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimStats {
    /// Works handed over.
    pub works: u64,
    /// Records handed over.
    pub records: u64,
    /// Waits handed over.
    pub waits: u64,
    /// Events created.
    pub events_created: u64,
    /// Streams created.
    pub streams_created: u64,
    /// Bytes of memory in use now.
    pub bytes_in_use: u64,
    /// The most bytes that were ever in use at once.
    pub bytes_peak: u64,
}

impl SimControl {
    pub(super) fn new(simulation: Arc<Simulation>) -> SimControl {
        SimControl { simulation }
    }

    /// Every stream ever created, by device and number, with what has not run.
    pub fn streams(&self) -> Vec<StreamView> {
        let state = self.simulation.lock();
        let mut views = Vec::new();
        for (d, device) in state.devices.iter().enumerate() {
            for (s, stream) in device.streams.iter().enumerate() {
                let head = device.runnable(&state.marks, stream);
                let commands = stream.queue.iter().enumerate().map(|(k, queued)| Command {
                    ticket: queued.ticket,
                    kind: CommandKind::of(&queued.action),
                    runnable: k == 0 && head,
                });
                let id = SimStreamId { device: d as u32, stream: s as u32 };
                views.push(StreamView { id, commands: commands.collect() });
            }
        }
        views
    }

    /// Appends the streams whose head could run now, each with the head's ticket and kind.
    pub fn runnable(&self, into: &mut Vec<(SimStreamId, Ticket, CommandKind)>) {
        let state = self.simulation.lock();
        for (d, device) in state.devices.iter().enumerate() {
            for (s, stream) in device.streams.iter().enumerate() {
                if let Some(head) =
                    stream.queue.front().filter(|_| device.runnable(&state.marks, stream))
                {
                    let id = SimStreamId { device: d as u32, stream: s as u32 };
                    into.push((id, head.ticket, CommandKind::of(&head.action)));
                }
            }
        }
    }

    /// Runs the head of `stream` on this thread; false if there is none, if it waits, or if
    /// another thread is running a command of the stream.
    ///
    /// # Errors
    /// There is no such stream, or its device is lost.
    pub fn step(&self, stream: SimStreamId) -> Result<bool> {
        let (device, number) = (stream.device as usize, stream.stream as usize);
        let streams = self.device(stream.device, |state| state.devices[device].streams.len())?;
        if number >= streams {
            let message = format!("{stream}: the device has {streams} streams");
            return Err(Error::Invalid { what: "stream", message });
        }
        self.simulation.step(device, number)
    }

    /// Runs every command that can run, each device's earliest issued first, and those that become
    /// able to, until nothing can move; how many ran.
    pub fn run_all(&self) -> u64 {
        let devices = self.simulation.lock().devices.len();
        let mut ran = 0;
        loop {
            // A device may become able to go on by what a later one has done.
            let round: u64 = (0..devices).map(|device| self.simulation.pump(device)).sum();
            ran += round;
            if round == 0 {
                return ran;
            }
        }
    }

    /// Changes when commands complete. Streams with commands are notified if they can complete by
    /// polling from now on.
    pub fn switch(&self, completion: Completion) {
        self.simulation.switch(completion);
    }

    /// Loses a device: what is queued on it never runs, and every later call to it fails.
    ///
    /// # Errors
    /// There is no such device.
    pub fn lose(&self, device: u32) -> Result<()> {
        self.device(device, |_| ())?;
        self.simulation.lose(device as usize);
        Ok(())
    }

    /// Blocks until `count` commands have been handed over to all devices together.
    ///
    /// # Errors
    /// [`Error::Timeout`] after `timeout`.
    pub fn wait_for_commands(&self, count: u64, timeout: Duration) -> Result<()> {
        if self.simulation.wait_until(timeout, |state| state.issued >= count) {
            return Ok(());
        }
        let had = self.simulation.lock().issued;
        Err(Error::Timeout { what: format!("{count} commands; {had} were handed over") })
    }

    /// Blocks until `count` commands have been handed over to `stream`, which may not exist yet.
    ///
    /// # Errors
    /// [`Error::Timeout`] after `timeout`, or there is no such device.
    pub fn wait_for_commands_on(
        &self,
        stream: SimStreamId,
        count: u64,
        timeout: Duration,
    ) -> Result<()> {
        self.device(stream.device, |_| ())?;
        let handed_over = |state: &State| {
            let streams = &state.devices[stream.device as usize].streams;
            streams.get(stream.stream as usize).map_or(0, |s| s.tickets)
        };
        if self.simulation.wait_until(timeout, |state| handed_over(state) >= count) {
            return Ok(());
        }
        let had = handed_over(&self.simulation.lock());
        Err(Error::Timeout {
            what: format!("{count} commands on {stream}; {had} were handed over"),
        })
    }

    /// What was asked of a device so far.
    ///
    /// # Errors
    /// There is no such device.
    pub fn stats(&self, device: u32) -> Result<SimStats> {
        self.device(device, |state| {
            let device = &state.devices[device as usize];
            SimStats {
                works: device.counts.works,
                records: device.counts.records,
                waits: device.counts.waits,
                events_created: device.counts.events_created,
                streams_created: device.counts.streams_created,
                bytes_in_use: device.account.in_use(),
                bytes_peak: device.account.peak(),
            }
        })
    }

    fn device<T>(&self, device: u32, look: impl FnOnce(&State) -> T) -> Result<T> {
        let state = self.simulation.lock();
        if (device as usize) < state.devices.len() {
            return Ok(look(&state));
        }
        let message = format!("there are {} simulated devices", state.devices.len());
        Err(Error::Device { device: DeviceId::sim(device), message })
    }
}

impl CommandKind {
    fn of(action: &Action) -> CommandKind {
        match action {
            Action::Work(_) => CommandKind::Work,
            Action::Record(_) => CommandKind::Record,
            Action::Wait(_) => CommandKind::Wait,
        }
    }
}

impl fmt::Display for CommandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommandKind::Work => "work",
            CommandKind::Record => "record",
            CommandKind::Wait => "wait",
        })
    }
}

impl fmt::Display for SimStreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} of sim:{}", self.stream, self.device)
    }
}

impl fmt::Debug for SimControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimControl").field(&self.streams()).finish()
    }
}
