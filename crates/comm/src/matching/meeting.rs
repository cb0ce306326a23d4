//! The calls of one place.

use millstream_ops::collective::{Channel, ProcessGroup};

use crate::call::Slot;
use crate::error::CommError;

use super::{Event, Member, Notice};

/// A slot as all its ranks know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A collective of a group, by its number.
    Collective(ProcessGroup, u64),
    /// A barrier of all ranks.
    Barrier(u64),
    /// A message. The sender comes first.
    Message { from: usize, to: usize, tag: i64, number: u64 },
}

impl Place {
    /// Returns the place of a rank's slot.
    pub(crate) fn of(rank: usize, slot: &Slot) -> Place {
        let number = slot.number;
        match &slot.channel {
            Channel::Collectives(group) => Place::Collective(group.clone(), number),
            Channel::Barriers => Place::Barrier(number),
            Channel::Send { to, tag } => Place::Message { from: rank, to: *to, tag: *tag, number },
            Channel::Receive { from, tag } => {
                Place::Message { from: *from, to: rank, tag: *tag, number }
            }
        }
    }

    /// Returns the number of the program.
    pub(super) fn epoch(&self) -> u64 {
        match self {
            Place::Collective(_, number)
            | Place::Barrier(number)
            | Place::Message { number, .. } => number / Slot::EPOCH,
        }
    }

    /// Returns the position of a rank's call, if the rank belongs here.
    pub(super) fn position(&self, slot: &Slot, rank: usize) -> Option<usize> {
        match (self, &slot.channel) {
            (Place::Collective(group, _), _) => group.position(rank),
            (Place::Barrier(_), _) => Some(rank),
            (Place::Message { .. }, Channel::Send { .. }) => Some(0),
            (Place::Message { .. }, _) => Some(1),
        }
    }

    /// Returns the rank at a position.
    pub(super) fn rank_at(&self, position: usize) -> usize {
        match self {
            Place::Collective(group, _) => group.ranks()[position],
            Place::Barrier(_) => position,
            Place::Message { from, to, .. } => [*from, *to][position],
        }
    }
}

/// A rank's part of a meeting.
#[derive(Debug)]
pub(super) enum Arrival<P> {
    /// The rank has not got here.
    Absent,
    /// The rank's call.
    Here(Notice, P),
    /// The rank has skipped its call, or it has failed.
    Gone,
}

/// The calls of one place. The positions are those of the ranks of its [`Place`].
#[derive(Debug)]
pub(super) struct Meeting<P> {
    pub(super) arrivals: Vec<Arrival<P>>,
    /// Why the calls fail.
    failure: Option<CommError>,
}

impl<P> Meeting<P> {
    /// Returns a meeting that no rank has got to.
    pub(super) fn of(place: &Place, members: &[Member]) -> Meeting<P> {
        let ranks = match place {
            Place::Collective(group, _) => group.size(),
            Place::Barrier(_) => members.len(),
            // A message to oneself takes two calls, too.
            Place::Message { .. } => 2,
        };
        Meeting { arrivals: (0..ranks).map(|_| Arrival::Absent).collect(), failure: None }
    }

    /// Takes a rank's call.
    pub(super) fn arrive(
        &mut self,
        rank: usize,
        (place, slot): (&Place, &Slot),
        (notice, payload): (Notice, P),
        members: &mut [Member],
        events: &mut Vec<Event<P>>,
    ) {
        let Some(at) = place.position(slot, rank) else { return };
        if let Some(failure) = self.failure.clone() {
            self.arrivals[at] = Arrival::Gone;
            members[rank].fail(rank, &notice, payload, failure, events);
            return;
        }
        let other =
            self.arrivals.iter().enumerate().find_map(|(position, arrival)| match arrival {
                Arrival::Here(other, _) if other.differs(&notice) => {
                    Some((place.rank_at(position), &other.text))
                }
                _ => None,
            });
        // Nobody sends to a rank for an answer.
        let awaited = (0..self.arrivals.len()).filter(|&position| position != at);
        let left = awaited.filter(|_| !notice.is_send).find(|&position| {
            let is_absent = matches!(self.arrivals[position], Arrival::Absent);
            is_absent && members[place.rank_at(position)].has_left(place)
        });
        let error = match (other, left) {
            (Some((other, calls)), _) => {
                let text = &notice.text;
                let error = format!("rank {rank} calls {text}, and rank {other} calls {calls}");
                Some(CommError::new(error))
            }
            (None, Some(position)) => Some(has_ended(place, position, &notice)),
            (None, None) => None,
        };
        self.arrivals[at] = Arrival::Here(notice, payload);
        if let Some(error) = error {
            self.fail(place, &error, members, events);
        }
    }

    /// Notes that the rank at a position makes no call here.
    pub(super) fn skip(
        &mut self,
        at: usize,
        place: &Place,
        error: CommError,
        members: &mut [Member],
        events: &mut Vec<Event<P>>,
    ) {
        self.arrivals[at] = Arrival::Gone;
        self.fail(place, &error, members, events);
    }

    /// Notes that a rank makes no more calls. A message that it has sent stays.
    pub(super) fn leave(
        &mut self,
        rank: usize,
        place: &Place,
        members: &mut [Member],
        events: &mut Vec<Event<P>>,
    ) {
        for at in 0..self.arrivals.len() {
            if place.rank_at(at) != rank {
                continue;
            }
            match &self.arrivals[at] {
                Arrival::Gone => {}
                Arrival::Here(notice, _) if notice.is_send => {}
                Arrival::Here(notice, _) => {
                    let text = &notice.text;
                    let error = CommError::new(format!("rank {rank} has ended amid {text}"));
                    self.fail(place, &error, members, events);
                }
                Arrival::Absent => {
                    let waiting = self.arrivals.iter().find_map(|arrival| match arrival {
                        Arrival::Here(notice, _) => Some(has_ended(place, at, notice)),
                        _ => None,
                    });
                    // A rank that comes later finds that this one has left.
                    if let Some(error) = waiting {
                        self.arrivals[at] = Arrival::Gone;
                        self.fail(place, &error, members, events);
                    }
                }
            }
        }
    }

    /// Fails the calls of all ranks, now and later.
    pub(super) fn fail(
        &mut self,
        place: &Place,
        error: &CommError,
        members: &mut [Member],
        events: &mut Vec<Event<P>>,
    ) {
        self.failure.get_or_insert_with(|| error.clone());
        for (position, arrival) in self.arrivals.iter_mut().enumerate() {
            let rank = place.rank_at(position);
            let is_gone = matches!(arrival, Arrival::Here(..)) || members[rank].has_left(place);
            if is_gone
                && let Arrival::Here(notice, payload) = std::mem::replace(arrival, Arrival::Gone)
            {
                members[rank].fail(rank, &notice, payload, error.clone(), events);
            }
        }
    }

    /// Returns whether all ranks have got here.
    pub(super) fn is_complete(&self) -> bool {
        self.arrivals.iter().all(|arrival| matches!(arrival, Arrival::Here(..)))
    }

    /// Returns whether every rank's call has failed or was skipped.
    pub(super) fn is_over(&self) -> bool {
        self.arrivals.iter().all(|arrival| matches!(arrival, Arrival::Gone))
    }

    /// Ends a complete meeting.
    pub(super) fn complete(
        mut self,
        place: Place,
        members: &mut [Member],
        events: &mut Vec<Event<P>>,
    ) {
        if let Err(error) = self.check_pairs(&place) {
            self.fail(&place, &error, members, events);
            return;
        }
        let mut calls = Vec::with_capacity(self.arrivals.len());
        let mut meetings = Vec::new();
        for (position, arrival) in self.arrivals.into_iter().enumerate() {
            if let Arrival::Here(notice, payload) = arrival {
                let rank = place.rank_at(position);
                members[rank].resolve(&notice);
                if notice.is_meeting {
                    meetings.push(members[rank].next_meeting(place.epoch()));
                }
                calls.push((rank, payload));
            }
        }
        let meetings = (!meetings.is_empty()).then_some(meetings);
        events.push(Event::Matched { place, calls, meetings });
    }

    /// Checks the counts of an all-to-all between each two ranks.
    fn check_pairs(&self, place: &Place) -> Result<(), CommError> {
        let calls: Vec<&Notice> = self
            .arrivals
            .iter()
            .filter_map(|arrival| match arrival {
                Arrival::Here(notice, _) => Some(notice),
                _ => None,
            })
            .collect();
        for (from, sender) in calls.iter().enumerate() {
            for (to, receiver) in calls.iter().enumerate() {
                let (Some((sent, _)), Some((_, received))) = (&sender.pairs, &receiver.pairs)
                else {
                    continue;
                };
                if sender.description.is_none() || receiver.description.is_none() {
                    continue;
                }
                let (sent, received) = (sent.get(to), received.get(from));
                if sent != received {
                    let count = |of: Option<&usize>| of.copied().unwrap_or_default();
                    return Err(CommError::new(format!(
                        "rank {} gives {} element(s) to rank {} in {}, which expects {} in {}",
                        place.rank_at(from),
                        count(sent),
                        place.rank_at(to),
                        sender.text,
                        count(received),
                        receiver.text,
                    )));
                }
            }
        }
        Ok(())
    }
}

fn has_ended(place: &Place, position: usize, notice: &Notice) -> CommError {
    let rank = place.rank_at(position);
    CommError::new(match place {
        Place::Message { tag, .. } => {
            format!("rank {rank} has ended and sent nothing more of tag {tag}")
        }
        Place::Barrier(_) => format!("rank {rank} has ended and does not reach this barrier"),
        Place::Collective(..) => format!("rank {rank} has ended before {}", notice.text),
    })
}
