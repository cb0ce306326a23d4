//! What the simulated devices hold: streams with their queues, marks of events, counts.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::account::Account;
use crate::device::{Notify, Ticket, Work, WorkResult};
use crate::sim::Completion;

pub(super) struct State {
    pub(super) completion: Completion,
    pub(super) devices: Vec<DeviceState>,
    /// Of the events of all devices, which may wait for one another's.
    pub(super) marks: Marks,
    /// Commands handed over to any device: the next one's place in the order of issue.
    pub(super) issued: u64,
    /// How many threads wait for commands. To signal them is a call of the system's.
    pub(super) waiting: usize,
}

pub(super) struct DeviceState {
    pub(super) lost: bool,
    pub(super) pumping: bool,
    /// By number. A stream keeps its number after it is dropped.
    pub(super) streams: Vec<StreamState>,
    pub(super) counts: Counts,
    pub(super) account: Arc<Account>,
}

/// What was asked of a device so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) works: u64,
    pub(super) records: u64,
    pub(super) waits: u64,
    pub(super) events_created: u64,
    pub(super) streams_created: u64,
}

pub(super) struct StreamState {
    pub(super) queue: VecDeque<Queued>,
    /// Completed, not yet reported.
    pub(super) done: VecDeque<(Ticket, WorkResult)>,
    pub(super) running: bool,
    /// None once the stream is dropped.
    pub(super) notify: Option<Notify>,
    /// Commands handed over so far; the last one's ticket.
    pub(super) tickets: Ticket,
}

pub(super) struct Queued {
    pub(super) ticket: Ticket,
    pub(super) issue: u64,
    pub(super) action: Action,
}

/// What a command does.
pub(super) enum Action {
    Work(Box<dyn Work>),
    Record(Generation),
    Wait(Generation),
}

/// One record of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) mark: usize,
    pub(super) number: u64,
}

/// An event's records.
#[derive(Default)]
struct Mark {
    /// How many were handed over.
    issued: u64,
    /// Those that have not completed.
    pending: Vec<u64>,
    /// The event and the commands that name it.
    holders: u64,
}

/// The marks of all events, by number.
#[derive(Default)]
pub(super) struct Marks {
    all: Vec<Mark>,
    free: Vec<usize>,
}

impl Marks {
    /// A mark that was never recorded.
    pub(super) fn create(&mut self) -> usize {
        let number = self.free.pop().unwrap_or(self.all.len());
        let fresh = Mark { holders: 1, ..Mark::default() };
        match self.all.get_mut(number) {
            Some(free) => *free = fresh,
            None => self.all.push(fresh),
        }
        number
    }

    /// Whether the newest record has completed.
    pub(super) fn complete(&self, mark: usize) -> bool {
        self.has(Generation { mark, number: self.all[mark].issued })
    }

    /// Whether a record has completed.
    pub(super) fn has(&self, record: Generation) -> bool {
        !self.all[record.mark].pending.contains(&record.number)
    }

    /// The action of a record of `mark`, its newest from now on.
    pub(super) fn record(&mut self, mark: usize) -> Action {
        let state = &mut self.all[mark];
        state.issued += 1;
        state.holders += 1;
        state.pending.push(state.issued);
        Action::Record(Generation { mark, number: state.issued })
    }

    /// The action of a wait for the newest record of `mark`; none if there never was one.
    pub(super) fn wait(&mut self, mark: usize) -> Option<Action> {
        let state = &mut self.all[mark];
        if state.issued == 0 {
            return None;
        }
        state.holders += 1;
        Some(Action::Wait(Generation { mark, number: state.issued }))
    }

    /// A command has run, or never will: nobody waits for its record any more.
    pub(super) fn end(&mut self, action: &Action) {
        match *action {
            Action::Record(record) => {
                self.all[record.mark].pending.retain(|&pending| pending != record.number);
                self.release(record.mark);
            }
            Action::Wait(record) => self.release(record.mark),
            Action::Work(_) => {}
        }
    }

    /// One who named a mark is gone.
    pub(super) fn release(&mut self, mark: usize) {
        let state = &mut self.all[mark];
        state.holders -= 1;
        if state.holders == 0 {
            *state = Mark::default();
            self.free.push(mark);
        }
    }
}

impl DeviceState {
    pub(super) fn new(memory_limit: u64) -> DeviceState {
        DeviceState {
            lost: false,
            pumping: false,
            streams: Vec::new(),
            counts: Counts::default(),
            account: Account::new(memory_limit),
        }
    }

    /// Whether the stream's head could run now.
    pub(super) fn runnable(&self, marks: &Marks, stream: &StreamState) -> bool {
        let met = |command: &Queued| match command.action {
            Action::Wait(record) => marks.has(record),
            Action::Work(_) | Action::Record(_) => true,
        };
        !self.lost && !stream.running && stream.queue.front().is_some_and(met)
    }

    /// The stream whose head was issued first among those that could run now.
    pub(super) fn earliest(&self, marks: &Marks) -> Option<usize> {
        let heads = self.streams.iter().enumerate().filter(|(_, s)| self.runnable(marks, s));
        heads.min_by_key(|(_, s)| s.queue.front().map(|c| c.issue)).map(|(k, _)| k)
    }

    /// The notify functions of the streams that have commands left.
    pub(super) fn waiting_notifies(&self) -> Vec<Notify> {
        let waiting = self.streams.iter().filter(|s| !s.queue.is_empty());
        waiting.filter_map(|s| s.notify.clone()).collect()
    }
}
