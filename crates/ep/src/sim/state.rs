//! The state of the simulated devices: streams with their queues, events, counts.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::account::Account;
use crate::device::{Notify, Ticket, Work, WorkResult};
use crate::sim::Completion;

pub(super) struct SimState {
    pub(super) completion: Completion,
    pub(super) devices: Vec<SimDeviceState>,
    /// The events of all devices: one device may wait for another's.
    pub(super) events: EventTable,
    /// The number of commands submitted to all devices: the next command's position in the order of
    /// issue.
    pub(super) issued: u64,
    /// The number of threads that wait for commands. Signalling is a system call, so it is left out
    /// when there are none.
    pub(super) waiting: usize,
}

pub(super) struct SimDeviceState {
    pub(super) lost: bool,
    pub(super) pumping: bool,
    /// The device's clock: the number of commands that it has completed.
    pub(super) clock: u64,
    /// By number. A stream keeps its number after it is dropped.
    pub(super) streams: Vec<SimStreamState>,
    pub(super) counts: SimCounts,
    pub(super) account: Arc<Account>,
}

/// The calls that a device has received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SimCounts {
    pub(super) works: u64,
    pub(super) records: u64,
    pub(super) waits: u64,
    pub(super) events_created: u64,
    pub(super) streams_created: u64,
}

pub(super) struct SimStreamState {
    pub(super) queue: VecDeque<Queued>,
    /// Completed and not yet collected.
    pub(super) done: VecDeque<(Ticket, WorkResult)>,
    pub(super) running: bool,
    /// None once the stream is dropped.
    pub(super) notify: Option<Notify>,
    /// The number of submitted commands: the last one's ticket.
    pub(super) tickets: Ticket,
}

impl SimStreamState {
    /// Whether the stream was dropped and all its commands have run.
    pub(super) fn is_over(&self) -> bool {
        self.notify.is_none() && self.queue.is_empty() && !self.running
    }
}

pub(super) struct Queued {
    pub(super) ticket: Ticket,
    pub(super) issue: u64,
    pub(super) action: Action,
}

/// The action of a command.
pub(super) enum Action {
    Work(Box<dyn Work>),
    Record(RecordId),
    Wait(RecordId),
}

/// One record of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordId {
    pub(super) event: usize,
    pub(super) number: u64,
}

/// The records of one event.
#[derive(Default)]
struct EventState {
    /// The number of submitted records.
    issued: u64,
    /// The records that have not completed.
    pending: Vec<u64>,
    /// When the last record completed, by the device's clock.
    completed: u64,
    /// The number of references: the event itself and the commands that name it.
    references: u64,
}

/// The states of all events, by index.
#[derive(Default)]
pub(super) struct EventTable {
    all: Vec<EventState>,
    free: Vec<usize>,
}

impl EventTable {
    /// Adds an event without a record.
    pub(super) fn create(&mut self) -> usize {
        let index = self.free.pop().unwrap_or(self.all.len());
        let fresh = EventState { references: 1, ..EventState::default() };
        match self.all.get_mut(index) {
            Some(free) => *free = fresh,
            None => self.all.push(fresh),
        }
        index
    }

    /// Returns whether the newest record of an event has completed.
    pub(super) fn is_newest_complete(&self, event: usize) -> bool {
        self.is_complete(RecordId { event, number: self.all[event].issued })
    }

    /// Returns whether a record has completed.
    pub(super) fn is_complete(&self, record: RecordId) -> bool {
        !self.all[record.event].pending.contains(&record.number)
    }

    /// Adds a record of `event`, now its newest, and returns the action.
    pub(super) fn record(&mut self, event: usize) -> Action {
        let state = &mut self.all[event];
        state.issued += 1;
        state.references += 1;
        state.pending.push(state.issued);
        Action::Record(RecordId { event, number: state.issued })
    }

    /// Returns the action of a wait for the newest record of `event`. None without a record.
    pub(super) fn wait(&mut self, event: usize) -> Option<Action> {
        let state = &mut self.all[event];
        if state.issued == 0 {
            return None;
        }
        state.references += 1;
        Some(Action::Wait(RecordId { event, number: state.issued }))
    }

    /// Returns when the last record of `event` completed, by the device's clock.
    pub(super) fn time_of(&self, event: usize) -> u64 {
        self.all[event].completed
    }

    /// Ends a command that has run or never will, at this time of its device's clock: waits for its
    /// record continue.
    pub(super) fn finish(&mut self, action: &Action, clock: u64) {
        match *action {
            Action::Record(record) => {
                self.all[record.event].pending.retain(|&pending| pending != record.number);
                self.all[record.event].completed = clock;
                self.release(record.event);
            }
            Action::Wait(record) => self.release(record.event),
            Action::Work(_) => {}
        }
    }

    /// Removes a reference to an event.
    pub(super) fn release(&mut self, event: usize) {
        let state = &mut self.all[event];
        state.references -= 1;
        if state.references == 0 {
            *state = EventState::default();
            self.free.push(event);
        }
    }
}

impl SimDeviceState {
    pub(super) fn new(memory_limit: u64) -> SimDeviceState {
        SimDeviceState {
            lost: false,
            pumping: false,
            clock: 0,
            streams: Vec::new(),
            counts: SimCounts::default(),
            account: Account::new(memory_limit),
        }
    }

    /// Returns whether the stream's head can run now.
    pub(super) fn is_runnable(&self, events: &EventTable, stream: &SimStreamState) -> bool {
        let ready = |command: &Queued| match command.action {
            Action::Wait(record) => events.is_complete(record),
            Action::Work(_) | Action::Record(_) => true,
        };
        !self.lost && !stream.running && stream.queue.front().is_some_and(ready)
    }

    /// Returns the stream with the earliest issued head among the runnable ones.
    pub(super) fn earliest_runnable(&self, events: &EventTable) -> Option<usize> {
        let heads = self.streams.iter().enumerate().filter(|(_, s)| self.is_runnable(events, s));
        heads.min_by_key(|(_, s)| s.queue.front().map(|c| c.issue)).map(|(k, _)| k)
    }

    /// Returns the notify functions of the streams that have commands left.
    pub(super) fn notifies_with_commands(&self) -> Vec<Notify> {
        let waiting = self.streams.iter().filter(|s| !s.queue.is_empty());
        waiting.filter_map(|s| s.notify.clone()).collect()
    }
}
