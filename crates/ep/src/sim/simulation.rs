//! The simulated devices behind one lock, and the steps that change them.
//!
//! # Rules
//! 1. One lock protects all state, events included. While it is held, no work and no notify
//!    function is called, and no work is dropped.
//! 2. A stream's head leaves the queue in [`Simulation::begin`], and its result is stored in
//!    [`Simulation::finish`]. Between the two the stream is `running`, and its next command stays
//!    queued. A stream therefore completes its commands in order, whichever threads run them.
//! 3. A device is `pumping` while one thread runs its commands in the order of issue. The flag is
//!    cleared in the same critical section that finds no runnable command. So that thread runs the
//!    commands submitted before, and their own poll runs the ones submitted later.
//! 4. A lost device has no commands. A command that was running at the loss has no result. Streams
//!    of other devices that wait for one of its records continue.
//! 5. If devices wait for one another's records, a command of one device can make a stream of
//!    another runnable. In issue order that stream runs at its next poll, so its owner is notified.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millstream_types::{DeviceId, Error, Result, catch_panic};

use crate::account::Account;
use crate::device::{Notify, Ticket, WorkResult};
use crate::sim::state::{Action, EventTable, Queued, SimDeviceState, SimState, SimStreamState};
use crate::sim::{Completion, SimConfig};

/// All devices of a backend.
pub(super) struct Simulation {
    state: Mutex<SimState>,
    /// Signalled when a command is submitted.
    submitted: Condvar,
    /// Whether devices wait for one another's events.
    pub(super) direct_waits: bool,
}

fn call_all(notifies: Vec<Notify>) {
    notifies.iter().for_each(|notify| notify());
}

impl Simulation {
    pub(super) fn new(config: &SimConfig) -> Arc<Simulation> {
        let devices = (0..config.devices).map(|_| SimDeviceState::new(config.memory_limit));
        let completion = config.completion;
        let (devices, events) = (devices.collect(), EventTable::default());
        let state = SimState { completion, devices, events, issued: 0, waiting: 0 };
        let direct_waits = config.direct_waits;
        Arc::new(Simulation { state: Mutex::new(state), submitted: Condvar::new(), direct_waits })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SimState> {
        // By rule 1 no code of a caller, which could panic, runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `change` with a device, under the lock. `device` must exist.
    ///
    /// # Errors
    /// The device is lost.
    fn with_device<T>(
        &self,
        device: usize,
        change: impl FnOnce(&mut SimDeviceState) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let found = &mut state.devices[device];
        if found.lost { Err(lost(device)) } else { change(found) }
    }

    /// Returns an error if the device is lost.
    pub(super) fn check(&self, device: usize) -> Result<()> {
        self.with_device(device, |_| Ok(()))
    }

    /// Returns the device's memory account.
    pub(super) fn account(&self, device: usize) -> Arc<Account> {
        self.lock().devices[device].account.clone()
    }

    pub(super) fn create_stream(&self, device: usize, notify: Notify) -> Result<usize> {
        self.with_device(device, |found| {
            found.counts.streams_created += 1;
            let new = SimStreamState {
                queue: VecDeque::new(),
                done: VecDeque::new(),
                running: false,
                notify: Some(notify),
                tickets: 0,
            };
            // A closed stream whose commands have run gives its place to the new one. Nothing
            // names its tickets: events hold records.
            match found.streams.iter().position(SimStreamState::is_over) {
                Some(closed) => {
                    found.streams[closed] = new;
                    Ok(closed)
                }
                None => {
                    found.streams.push(new);
                    Ok(found.streams.len() - 1)
                }
            }
        })
    }

    /// Closes a dropped stream: its commands stay, its results are discarded.
    pub(super) fn close_stream(&self, device: usize, stream: usize) {
        let (notify, done) = {
            let mut state = self.lock();
            let closed = &mut state.devices[device].streams[stream];
            (closed.notify.take(), std::mem::take(&mut closed.done))
        };
        drop((notify, done));
    }

    pub(super) fn create_event(&self, device: usize) -> Result<usize> {
        let mut state = self.lock();
        let found = &mut state.devices[device];
        if found.lost {
            return Err(lost(device));
        }
        found.counts.events_created += 1;
        Ok(state.events.create())
    }

    pub(super) fn release_event(&self, event: usize) {
        self.lock().events.release(event);
    }

    /// Returns when the last record of an event completed, by its device's clock.
    pub(super) fn time_of(&self, event: usize) -> u64 {
        self.lock().events.time_of(event)
    }

    /// Returns whether the newest record of an event has completed. `device` is the event's.
    pub(super) fn query(&self, device: usize, event: usize) -> Result<bool> {
        self.pump_in_issue_order(device)?;
        let state = self.lock();
        match state.devices[device].lost {
            true => Err(lost(device)),
            false => Ok(state.events.is_newest_complete(event)),
        }
    }

    /// Queues the command that `make` builds, which may add a record to the event table.
    pub(super) fn enqueue(
        &self,
        device: usize,
        stream: usize,
        make: impl FnOnce(&mut EventTable) -> Result<Action>,
    ) -> Result<Ticket> {
        let mut locked = self.lock();
        let state = &mut *locked;
        let issue = state.issued;
        let found = &mut state.devices[device];
        if found.lost {
            return Err(lost(device));
        }
        let action = make(&mut state.events)?;
        match action {
            Action::Work(_) => found.counts.works += 1,
            Action::Record(_) => found.counts.records += 1,
            Action::Wait(_) => found.counts.waits += 1,
        }
        let queue = &mut found.streams[stream];
        queue.tickets += 1;
        let ticket = queue.tickets;
        queue.queue.push_back(Queued { ticket, issue, action });
        state.issued += 1;
        let waited_for = state.waiting > 0;
        drop(locked);
        if waited_for {
            self.submitted.notify_all();
        }
        Ok(ticket)
    }

    /// Moves the completed commands of a stream to the end of `into`. In issue order, runs the
    /// device's runnable commands first.
    pub(super) fn collect(
        &self,
        device: usize,
        stream: usize,
        into: &mut VecDeque<(Ticket, WorkResult)>,
    ) -> Result<()> {
        let collected = self.pump_in_issue_order(device).and_then(|()| {
            self.with_device(device, |found| {
                into.append(&mut found.streams[stream].done);
                Ok(())
            })
        });
        // The layers above free memory once they know of a loss. A command that runs still uses it,
        // and `finish` notifies the stream's owner when it ends.
        collected.or_else(|lost| match self.lock().devices[device].streams[stream].running {
            true => Ok(()),
            false => Err(lost),
        })
    }

    fn pump_in_issue_order(&self, device: usize) -> Result<()> {
        self.check(device)?;
        if self.lock().completion == Completion::IssueOrder {
            self.pump(device);
        }
        Ok(())
    }

    /// Runs every runnable command, the earliest issued first, and returns their number. Zero if
    /// another thread is already pumping the device: that thread runs them.
    pub(super) fn pump(&self, device: usize) -> u64 {
        let mut state = self.lock();
        if std::mem::replace(&mut state.devices[device].pumping, true) {
            return 0;
        }
        drop(state);
        let mut guard = PumpGuard { simulation: self, device, ended: false };
        let mut ran = 0;
        loop {
            let mut state = self.lock();
            let Some(stream) = state.devices[device].earliest_runnable(&state.events) else {
                state.devices[device].pumping = false;
                guard.ended = true;
                return ran;
            };
            let command = Simulation::begin(&mut state.devices[device], stream);
            drop(state);
            self.finish(device, stream, command);
            ran += 1;
        }
    }

    /// Runs the head of a stream if it is runnable. Returns whether it was.
    pub(super) fn step(&self, device: usize, stream: usize) -> Result<bool> {
        let mut locked = self.lock();
        let SimState { devices, events, .. } = &mut *locked;
        let found = &mut devices[device];
        if found.lost {
            return Err(lost(device));
        }
        if !found.is_runnable(events, &found.streams[stream]) {
            return Ok(false);
        }
        let command = Simulation::begin(found, stream);
        drop(locked);
        self.finish(device, stream, command);
        let state = self.lock();
        // In issue order, a stream that this command has made runnable runs at its next poll, so
        // its owner is notified. `pump` needs no such notification: it runs the stream itself.
        if state.completion == Completion::IssueOrder {
            let notifies = state.devices[device].notifies_with_commands();
            drop(state);
            call_all(notifies);
        }
        Ok(true)
    }

    /// Takes the head of a stream in order to run it.
    fn begin(device: &mut SimDeviceState, stream: usize) -> Queued {
        let state = &mut device.streams[stream];
        state.running = true;
        state.queue.pop_front().expect("a runnable stream has a head")
    }

    /// Runs a command taken by [`Simulation::begin`] and stores its result.
    fn finish(&self, device: usize, stream: usize, command: Queued) {
        let (order, result) = match command.action {
            // Host kernels launch nothing, so they get no native stream. The work is dropped here,
            // outside the lock.
            Action::Work(mut work) => (None, catch_panic(|| work.run(&()))),
            order => (Some(order), Ok(())),
        };
        let mut locked = self.lock();
        let state = &mut *locked;
        let found = &mut state.devices[device];
        found.clock += 1;
        let clock = found.clock;
        let stream = &mut found.streams[stream];
        stream.running = false;
        let notify = stream.notify.clone();
        if !found.lost && notify.is_some() {
            stream.done.push_back((command.ticket, result));
        }
        let mut notifies = Vec::new();
        if let Some(order) = order {
            state.events.finish(&order, clock);
            notifies = self.notifies_of_others(state, device);
        }
        drop(locked);
        call_all(notifies);
        if let Some(notify) = notify {
            notify();
        }
    }

    /// Returns the notify functions of the streams that a command of `device` may have made
    /// runnable on other devices.
    fn notifies_of_others(&self, state: &SimState, device: usize) -> Vec<Notify> {
        if !self.direct_waits || state.completion == Completion::ByHand {
            return Vec::new();
        }
        let others = state.devices.iter().enumerate().filter(|(k, _)| *k != device);
        others.flat_map(|(_, other)| other.notifies_with_commands()).collect()
    }

    /// Changes when commands complete.
    pub(super) fn switch(&self, completion: Completion) {
        let mut state = self.lock();
        state.completion = completion;
        let mut notifies = Vec::new();
        if completion == Completion::IssueOrder {
            notifies.extend(state.devices.iter().flat_map(SimDeviceState::notifies_with_commands));
        }
        drop(state);
        // Queued commands run at the next poll, and a parked owner polls only when notified.
        call_all(notifies);
    }

    /// Marks a device as lost and drops all commands queued on it.
    pub(super) fn lose(&self, device: usize) {
        let mut locked = self.lock();
        let state = &mut *locked;
        let found = &mut state.devices[device];
        found.lost = true;
        let clock = found.clock;
        let mut dropped = Vec::new();
        let mut results = Vec::new();
        let mut notifies = Vec::new();
        for stream in &mut found.streams {
            dropped.extend(stream.queue.drain(..));
            results.extend(stream.done.drain(..));
            notifies.extend(stream.notify.clone());
        }
        for command in &dropped {
            state.events.finish(&command.action, clock);
        }
        notifies.extend(self.notifies_of_others(state, device));
        drop(locked);
        drop((dropped, results));
        call_all(notifies);
    }

    /// Blocks until `reached` returns true, at most for `timeout`. Returns whether it did.
    pub(super) fn wait_until(
        &self,
        timeout: Duration,
        reached: impl Fn(&SimState) -> bool,
    ) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        loop {
            if reached(&state) {
                return true;
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return false;
            }
            state.waiting += 1;
            let woken = self.submitted.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }
}

/// Clears `pumping` if a notify function panics, so that the device can be pumped again.
struct PumpGuard<'a> {
    simulation: &'a Simulation,
    device: usize,
    ended: bool,
}

impl Drop for PumpGuard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.simulation.lock().devices[self.device].pumping = false;
        }
    }
}

/// Returns the error of every call to a lost device.
pub(super) fn lost(device: usize) -> Error {
    Error::Device { device: DeviceId::sim(device as u32), message: "is lost".to_owned() }
}
