//! What the simulated devices hold: streams with their queues, marks of events, counts.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::account::Account;
use crate::device::{Notify, Ticket, Work, WorkResult};
use crate::sim::Completion;

pub(super) struct State {
    pub(super) completion: Completion,
    pub(super) devices: Vec<DeviceState>,
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
    pub(super) marks: Vec<Mark>,
    pub(super) free_marks: Vec<usize>,
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
pub(super) struct Mark {
    /// How many were handed over.
    pub(super) issued: u64,
    /// Those that have not completed.
    pub(super) pending: Vec<u64>,
    /// The event and the commands that name it.
    pub(super) holders: u64,
}

impl Mark {
    pub(super) fn complete(&self, number: u64) -> bool {
        !self.pending.contains(&number)
    }
}

impl DeviceState {
    pub(super) fn new(memory_limit: u64) -> DeviceState {
        DeviceState {
            lost: false,
            pumping: false,
            streams: Vec::new(),
            marks: Vec::new(),
            free_marks: Vec::new(),
            counts: Counts::default(),
            account: Account::new(memory_limit),
        }
    }

    /// Whether the stream's head could run now.
    pub(super) fn runnable(&self, stream: &StreamState) -> bool {
        !self.lost && !stream.running && stream.queue.front().is_some_and(|c| self.met(&c.action))
    }

    fn met(&self, action: &Action) -> bool {
        match action {
            Action::Wait(record) => self.marks[record.mark].complete(record.number),
            Action::Work(_) | Action::Record(_) => true,
        }
    }

    /// The stream whose head was issued first among those that could run now.
    pub(super) fn earliest(&self) -> Option<usize> {
        let heads = self.streams.iter().enumerate().filter(|(_, s)| self.runnable(s));
        heads.min_by_key(|(_, s)| s.queue.front().map(|c| c.issue)).map(|(k, _)| k)
    }

    /// The action of a record of `mark`, its newest from now on.
    pub(super) fn record(&mut self, mark: usize) -> Action {
        let state = &mut self.marks[mark];
        state.issued += 1;
        state.holders += 1;
        state.pending.push(state.issued);
        Action::Record(Generation { mark, number: state.issued })
    }

    /// The action of a wait for the newest record of `mark`; none if there never was one.
    pub(super) fn wait(&mut self, mark: usize) -> Option<Action> {
        let state = &mut self.marks[mark];
        if state.issued == 0 {
            return None;
        }
        state.holders += 1;
        Some(Action::Wait(Generation { mark, number: state.issued }))
    }

    pub(super) fn release_mark(&mut self, mark: usize) {
        let state = &mut self.marks[mark];
        state.holders -= 1;
        if state.holders == 0 {
            *state = Mark::default();
            self.free_marks.push(mark);
        }
    }

    /// The notify functions of the streams that have commands left.
    pub(super) fn waiting_notifies(&self) -> Vec<Notify> {
        let waiting = self.streams.iter().filter(|s| !s.queue.is_empty());
        waiting.filter_map(|s| s.notify.clone()).collect()
    }
}
