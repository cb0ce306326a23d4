//! Observation and control of the simulated devices, for tests and the simulated driver.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{DeviceId, Error, Result};

use crate::device::Ticket;
use crate::sim::Completion;
use crate::sim::simulation::Simulation;
use crate::sim::state::{Action, SimState};

/// A handle that observes and controls all devices of a [`SimBackend`](crate::sim::SimBackend),
/// from any thread.
#[derive(Clone)]
pub struct SimControl {
    simulation: Arc<Simulation>,
}

/// The id of a simulated stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SimStreamId {
    /// The device's index.
    pub device: u32,
    /// The stream's number on the device, counted from 0 in the order of creation.
    pub stream: u32,
}

/// The kind of a command.
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
    /// The command's number on its stream.
    pub ticket: Ticket,
    /// The command's kind.
    pub kind: CommandKind,
    /// Whether the command can run now: it is its stream's head, and the record that it waits for
    /// has completed.
    pub runnable: bool,
}

/// A stream with the commands that have not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// The stream.
    pub id: SimStreamId,
    /// The commands that have not run, the head first.
    pub commands: Vec<Command>,
}

/// The calls that a device has received, and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimStats {
    /// The number of submitted works.
    pub works: u64,
    /// The number of submitted records.
    pub records: u64,
    /// The number of submitted waits.
    pub waits: u64,
    /// The number of created events.
    pub events_created: u64,
    /// The number of created streams.
    pub streams_created: u64,
    /// The bytes of memory in use now.
    pub bytes_in_use: u64,
    /// The maximum of `bytes_in_use` so far.
    pub bytes_peak: u64,
}

impl SimControl {
    pub(super) fn new(simulation: Arc<Simulation>) -> SimControl {
        SimControl { simulation }
    }

    /// Returns all streams, by device and number, with the commands that have not run.
    pub fn streams(&self) -> Vec<StreamView> {
        let state = self.simulation.lock();
        let mut views = Vec::new();
        for (d, device) in state.devices.iter().enumerate() {
            for (s, stream) in device.streams.iter().enumerate() {
                let head_runnable = device.is_runnable(&state.events, stream);
                let commands = stream.queue.iter().enumerate().map(|(k, queued)| Command {
                    ticket: queued.ticket,
                    kind: CommandKind::of(&queued.action),
                    runnable: k == 0 && head_runnable,
                });
                let id = SimStreamId { device: d as u32, stream: s as u32 };
                views.push(StreamView { id, commands: commands.collect() });
            }
        }
        views
    }

    /// Appends the streams with a runnable head to `out`, each with the head's ticket and kind.
    pub fn collect_runnable(&self, out: &mut Vec<(SimStreamId, Ticket, CommandKind)>) {
        let state = self.simulation.lock();
        for (d, device) in state.devices.iter().enumerate() {
            for (s, stream) in device.streams.iter().enumerate() {
                if let Some(head) =
                    stream.queue.front().filter(|_| device.is_runnable(&state.events, stream))
                {
                    let id = SimStreamId { device: d as u32, stream: s as u32 };
                    out.push((id, head.ticket, CommandKind::of(&head.action)));
                }
            }
        }
    }

    /// Runs the head of `stream` on this thread. Returns false if there is no head, if it must
    /// wait, or if another thread is running a command of the stream.
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

    /// Runs commands, each device's earliest issued first, until none is runnable. Returns their
    /// number.
    pub fn run_all(&self) -> u64 {
        let devices = self.simulation.lock().devices.len();
        let mut ran = 0;
        loop {
            // A command of a later device can make a stream of an earlier one runnable.
            let round: u64 = (0..devices).map(|device| self.simulation.pump(device)).sum();
            ran += round;
            if round == 0 {
                return ran;
            }
        }
    }

    /// Changes when commands complete. A switch to issue order notifies the streams with commands,
    /// since polling runs them from now on.
    pub fn switch(&self, completion: Completion) {
        self.simulation.switch(completion);
    }

    /// Marks a device as lost: the commands queued on it never run, and every later call fails.
    ///
    /// # Errors
    /// There is no such device.
    pub fn lose(&self, device: u32) -> Result<()> {
        self.device(device, |_| ())?;
        self.simulation.lose(device as usize);
        Ok(())
    }

    /// Blocks until `count` commands have been submitted to all devices together.
    ///
    /// # Errors
    /// [`Error::Timeout`] after `timeout`.
    pub fn wait_for_commands(&self, count: u64, timeout: Duration) -> Result<()> {
        if self.simulation.wait_until(timeout, |state| state.issued >= count) {
            return Ok(());
        }
        let had = self.simulation.lock().issued;
        Err(Error::Timeout { what: format!("{count} commands; {had} were submitted") })
    }

    /// Blocks until `count` commands have been submitted to `stream`, which may not exist yet.
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
        let submitted = |state: &SimState| {
            let streams = &state.devices[stream.device as usize].streams;
            streams.get(stream.stream as usize).map_or(0, |s| s.tickets)
        };
        if self.simulation.wait_until(timeout, |state| submitted(state) >= count) {
            return Ok(());
        }
        let had = submitted(&self.simulation.lock());
        Err(Error::Timeout { what: format!("{count} commands on {stream}; {had} were submitted") })
    }

    /// Returns the calls that a device has received, and its memory.
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

    /// Calls `read` with the state, under the lock, if `device` exists.
    fn device<T>(&self, device: u32, read: impl FnOnce(&SimState) -> T) -> Result<T> {
        let state = self.simulation.lock();
        if (device as usize) < state.devices.len() {
            return Ok(read(&state));
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
