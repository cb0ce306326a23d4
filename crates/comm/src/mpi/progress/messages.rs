//! The messages between the threads of the processes: sent, received and handled.

use crate::buffer::Buffer;
use crate::error::CommError;
use crate::matching::{Event, Place};
use crate::mpi::control::{Control, Data, brief, buffer, decode, encode, nothing};
use crate::mpi::library::{Operation, WORLD};
use crate::mpi::small::{self, Posted};

use super::Progress;

impl Progress {
    /// Sends a message to a rank, perhaps this one.
    pub(super) fn tell(&mut self, to: usize, control: Control) {
        match to == self.rank {
            true => self.own.push_back(control),
            false => self.send(to, control),
        }
    }

    fn send(&mut self, to: usize, mut control: Control) {
        let sent = encode(&mut control).and_then(|message| {
            self.library.start(WORLD, &Operation::Send { to }, message, nothing()?)
        });
        match sent {
            Ok(sent) => self.outgoing.push(sent),
            Err(error) => self.fail(&error),
        }
    }

    /// Passes messages on. Returns whether there were any.
    pub(super) fn communicate(&mut self) -> Result<bool, CommError> {
        let mut moved = false;
        while let Some(control) = self.own.pop_front() {
            self.handle(control)?;
            moved = true;
        }
        let mut on_their_way = Vec::new();
        for mut message in std::mem::take(&mut self.outgoing) {
            match message.test()? {
                Some(_) => moved = true,
                None => on_their_way.push(message),
            }
        }
        self.outgoing.append(&mut on_their_way);
        while self.ranks > 1 {
            let mut incoming = match self.incoming.take() {
                Some(incoming) => incoming,
                None if self.is_over => break,
                None => {
                    let operation = Operation::Receive { from: None };
                    let into = self.spare.take().map_or_else(buffer, Ok)?;
                    self.library.start(WORLD, &operation, nothing()?, into)?
                }
            };
            match incoming.test()? {
                Some(message) => {
                    drop(incoming);
                    let control = decode(&message)?;
                    self.spare = Some(message);
                    self.handle(control)?;
                }
                None => {
                    self.incoming = Some(incoming);
                    break;
                }
            }
            moved = true;
        }
        Ok(moved)
    }

    fn handle(&mut self, control: Control) -> Result<(), CommError> {
        let mut events = Vec::new();
        let program = self.ranks;
        match (control, &mut self.matching) {
            (Control::Start { rank, slot, call, notice, given }, Some(matching)) => {
                matching.start(rank, &slot.slot(program)?, notice, (call, given), &mut events);
            }
            (Control::Skip { rank, slot, error }, Some(matching)) => {
                let error = CommError::new(error);
                matching.skip(rank, &slot.slot(program)?, error, &mut events);
            }
            (Control::Stall { rank, resolved }, Some(matching)) => {
                matching.report_stall(rank, resolved, &mut events);
            }
            (Control::Leave { rank, epoch }, Some(matching)) => {
                matching.leave(rank, epoch, &mut events);
                if matching.is_over() {
                    self.is_over = true;
                    (1..program).for_each(|to| self.tell(to, Control::Over));
                    // The receipt that is under way ends by a message as well.
                    if self.incoming.is_some() {
                        self.send(self.rank, Control::Over);
                    }
                }
            }
            (Control::Abort { error }, Some(matching)) => {
                matching.abort(CommError::new(&error), &mut events);
                for to in 0..program {
                    self.tell(to, Control::Aborted { error: error.clone() });
                }
            }
            // What is under way elsewhere than in calls of this library ends by this.
            (Control::Aborted { error }, _) => {
                // The first cause stays.
                let _ = self.counters.failure.set(CommError::new(error));
            }
            (Control::Matched { call }, _) => self.exchange(call)?,
            (Control::Results { call, received: Data(received) }, _) => {
                if let Some((_, completer)) = self.waiting.remove(&call) {
                    self.complete(completer, Ok(received));
                }
            }
            (Control::Failed { call, error }, _) => {
                if let Some((_, completer)) = self.waiting.remove(&call) {
                    self.complete(completer, Err(CommError::new(error)));
                }
            }
            (Control::Over, _) => self.is_over = true,
            (Control::Heartbeat { rank }, _) => self.presence.note(rank),
            (Control::Lost { error }, _) => return Err(CommError::new(error)),
            (other, None) => {
                return Err(CommError::new(format!("rank 0 alone matches calls: {other:?}")));
            }
        }
        for event in events {
            match event {
                Event::Failed { rank, payload: (call, _), error } => {
                    self.tell(rank, Control::Failed { call, error: brief(&error) });
                }
                Event::Matched { calls, meetings: Some(numbers), .. } => {
                    for ((rank, (call, _)), number) in calls.into_iter().zip(numbers) {
                        let received = Data(vec![Buffer::of_number(number)?]);
                        self.tell(rank, Control::Results { call, received });
                    }
                }
                Event::Matched { place, calls, .. } => self.decide(&place, &calls),
            }
        }
        Ok(())
    }

    /// Gives the ranks of a matched call its results, or tells them to exchange its data.
    fn decide(&mut self, place: &Place, calls: &[(usize, Posted)]) {
        let own = |number: u64| self.waiting.get(&number).map(|(call, _)| call);
        let results = small::results(place, calls, own);
        for (position, (rank, (call, _))) in calls.iter().enumerate() {
            let call = *call;
            let control = match &results {
                None => Control::Matched { call },
                Some(Ok(results)) => {
                    let received = results.get(position).cloned().unwrap_or_default();
                    Control::Results { call, received: Data(received) }
                }
                Some(Err(error)) => Control::Failed { call, error: brief(error) },
            };
            self.tell(*rank, control);
        }
    }
}
