//! The simulated devices behind one lock, and the steps that change them.
//!
//! # Rules
//! 1. One lock holds everything, marks of events included. Neither work nor a notify function is
//!    called, and no work is dropped, while it is held.
//! 2. A stream's head leaves the queue in [`Simulation::begin`] and its result is stored in
//!    [`Simulation::finish`]; between the two the stream is `running` and its next command stays where it
//!    is. So a stream completes its commands in order, whoever runs them.
//! 3. A device is `pumping` while one thread runs its commands in the order of issue. The flag is
//!    cleared in the same critical section that finds nothing left to run, so a command handed over
//!    earlier is run by that thread, and one handed over later by its own poll.
//! 4. A lost device keeps no command. What ran while it was lost has no result. Streams of other
//!    devices that wait for one of its records go on.
//! 5. Where devices wait for one another's records, a stream can become able to run by what another
//!    device does. In the order of issue it runs at its next poll, so its owner is notified.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millstream_types::{DeviceId, Error, Result};

use crate::account::Account;
use crate::device::{Notify, Ticket, WorkResult};
use crate::run::run_caught;
use crate::sim::state::{Action, DeviceState, Marks, Queued, State, StreamState};
use crate::sim::{Completion, SimConfig};

/// All devices of a backend.
pub(super) struct Simulation {
    state: Mutex<State>,
    /// Signalled when a command is handed over.
    handed_over: Condvar,
    /// Whether devices wait for one another's events.
    pub(super) direct_waits: bool,
}

fn call_all(notifies: Vec<Notify>) {
    notifies.iter().for_each(|notify| notify());
}

impl Simulation {
    pub(super) fn new(config: &SimConfig) -> Arc<Simulation> {
        let devices = (0..config.devices).map(|_| DeviceState::new(config.memory_limit));
        let completion = config.completion;
        let (devices, marks) = (devices.collect(), Marks::default());
        let state = State { completion, devices, marks, issued: 0, waiting: 0 };
        let direct_waits = config.direct_waits;
        Arc::new(Simulation { state: Mutex::new(state), handed_over: Condvar::new(), direct_waits })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // By rule 1 nothing that can panic on a caller's behalf runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks, and looks up a device that is not lost. `device` exists.
    fn with_device<T>(
        &self,
        device: usize,
        change: impl FnOnce(&mut DeviceState) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let found = &mut state.devices[device];
        if found.lost { Err(lost(device)) } else { change(found) }
    }

    /// Whether the device still answers.
    pub(super) fn check(&self, device: usize) -> Result<()> {
        self.with_device(device, |_| Ok(()))
    }

    /// The device's memory account.
    pub(super) fn account(&self, device: usize) -> Arc<Account> {
        self.lock().devices[device].account.clone()
    }

    pub(super) fn create_stream(&self, device: usize, notify: Notify) -> Result<usize> {
        self.with_device(device, |found| {
            found.counts.streams_created += 1;
            found.streams.push(StreamState {
                queue: VecDeque::new(),
                done: VecDeque::new(),
                running: false,
                notify: Some(notify),
                tickets: 0,
            });
            Ok(found.streams.len() - 1)
        })
    }

    /// The stream is dropped: its commands stay, its results go.
    pub(super) fn close_stream(&self, device: usize, stream: usize) {
        let (notify, done) = {
            let mut state = self.lock();
            let closed = &mut state.devices[device].streams[stream];
            (closed.notify.take(), std::mem::take(&mut closed.done))
        };
        drop((notify, done));
    }

    pub(super) fn create_mark(&self, device: usize) -> Result<usize> {
        let mut state = self.lock();
        let found = &mut state.devices[device];
        if found.lost {
            return Err(lost(device));
        }
        found.counts.events_created += 1;
        Ok(state.marks.create())
    }

    pub(super) fn drop_mark(&self, mark: usize) {
        self.lock().marks.release(mark);
    }

    /// Whether the newest record of an event of the device's has completed.
    pub(super) fn query(&self, device: usize, mark: usize) -> Result<bool> {
        self.pump_in_issue_order(device)?;
        let state = self.lock();
        match state.devices[device].lost {
            true => Err(lost(device)),
            false => Ok(state.marks.complete(mark)),
        }
    }

    /// Queues a command that `make` builds from the events' marks.
    pub(super) fn hand_over(
        &self,
        device: usize,
        stream: usize,
        make: impl FnOnce(&mut Marks) -> Result<Action>,
    ) -> Result<Ticket> {
        let mut locked = self.lock();
        let state = &mut *locked;
        let issue = state.issued;
        let found = &mut state.devices[device];
        if found.lost {
            return Err(lost(device));
        }
        let action = make(&mut state.marks)?;
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
            self.handed_over.notify_all();
        }
        Ok(ticket)
    }

    /// Moves the completed commands of a stream to the end of `into`, after having run what may
    /// run in the order of issue.
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

    /// Runs every command that can run, the earliest issued first, and says how many. If another
    /// thread is at it, that thread does it.
    pub(super) fn pump(&self, device: usize) -> u64 {
        let mut state = self.lock();
        if std::mem::replace(&mut state.devices[device].pumping, true) {
            return 0;
        }
        drop(state);
        let mut pumping = Pumping { simulation: self, device, ended: false };
        let mut ran = 0;
        loop {
            let mut state = self.lock();
            let Some(stream) = state.devices[device].earliest(&state.marks) else {
                state.devices[device].pumping = false;
                pumping.ended = true;
                return ran;
            };
            let command = Simulation::begin(&mut state.devices[device], stream);
            drop(state);
            self.finish(device, stream, command);
            ran += 1;
        }
    }

    /// Runs the head of a stream if it can run now.
    pub(super) fn step(&self, device: usize, stream: usize) -> Result<bool> {
        let mut locked = self.lock();
        let State { devices, marks, .. } = &mut *locked;
        let found = &mut devices[device];
        if found.lost {
            return Err(lost(device));
        }
        if !found.runnable(marks, &found.streams[stream]) {
            return Ok(false);
        }
        let command = Simulation::begin(found, stream);
        drop(locked);
        self.finish(device, stream, command);
        let state = self.lock();
        // In the order of issue a stream that this command held up runs at its next poll, so its
        // owner must hear that polling is worth while. A pump sees to that by itself.
        if state.completion == Completion::IssueOrder {
            let notifies = state.devices[device].waiting_notifies();
            drop(state);
            call_all(notifies);
        }
        Ok(true)
    }

    /// Takes the head of a stream to run it.
    fn begin(device: &mut DeviceState, stream: usize) -> Queued {
        let state = &mut device.streams[stream];
        state.running = true;
        state.queue.pop_front().expect("a runnable stream has a head")
    }

    /// Runs a command taken by [`Simulation::begin`] and stores its result.
    fn finish(&self, device: usize, stream: usize, command: Queued) {
        let (order, result) = match command.action {
            // Host kernels launch nothing, so there is no native stream to hand them. The work is
            // dropped here, without the lock.
            Action::Work(mut work) => (None, run_caught(&mut *work, &())),
            order => (Some(order), Ok(())),
        };
        let mut locked = self.lock();
        let state = &mut *locked;
        let found = &mut state.devices[device];
        let stream = &mut found.streams[stream];
        stream.running = false;
        let notify = stream.notify.clone();
        if !found.lost && notify.is_some() {
            stream.done.push_back((command.ticket, result));
        }
        let mut others = Vec::new();
        if let Some(order) = order {
            state.marks.end(&order);
            others = self.others(state, device);
        }
        drop(locked);
        call_all(others);
        if let Some(notify) = notify {
            notify();
        }
    }

    /// The notify functions of the streams of other devices than this that may be able to run by
    /// what it has done.
    fn others(&self, state: &State, device: usize) -> Vec<Notify> {
        if !self.direct_waits || state.completion == Completion::ByHand {
            return Vec::new();
        }
        let others = state.devices.iter().enumerate().filter(|(k, _)| *k != device);
        others.flat_map(|(_, other)| other.waiting_notifies()).collect()
    }

    /// Changes when commands complete.
    pub(super) fn switch(&self, completion: Completion) {
        let mut state = self.lock();
        state.completion = completion;
        let mut notifies = Vec::new();
        if completion == Completion::IssueOrder {
            notifies.extend(state.devices.iter().flat_map(DeviceState::waiting_notifies));
        }
        drop(state);
        // What is queued now runs at the next poll, which nobody makes unless told.
        call_all(notifies);
    }

    /// Loses a device with all that is queued on it.
    pub(super) fn lose(&self, device: usize) {
        let mut locked = self.lock();
        let state = &mut *locked;
        let found = &mut state.devices[device];
        found.lost = true;
        let mut dropped = Vec::new();
        let mut results = Vec::new();
        let mut notifies = Vec::new();
        for stream in &mut found.streams {
            dropped.extend(stream.queue.drain(..));
            results.extend(stream.done.drain(..));
            notifies.extend(stream.notify.clone());
        }
        for command in &dropped {
            state.marks.end(&command.action);
        }
        notifies.extend(self.others(state, device));
        drop(locked);
        drop((dropped, results));
        call_all(notifies);
    }

    /// Blocks until `enough` holds, at most for `timeout`; whether it came to hold.
    pub(super) fn wait_until(&self, timeout: Duration, enough: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        loop {
            if enough(&state) {
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
            let woken = self.handed_over.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }
}

/// Ends a pump whose notify function panicked, so that the device is not stuck for good.
struct Pumping<'a> {
    simulation: &'a Simulation,
    device: usize,
    ended: bool,
}

impl Drop for Pumping<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.simulation.lock().devices[self.device].pumping = false;
        }
    }
}

/// The error of every call to a lost device.
pub(super) fn lost(device: usize) -> Error {
    Error::Device { device: DeviceId::sim(device as u32), message: "is lost".to_owned() }
}
