//! Which calls of which ranks belong together: the table that matches calls by their places.
//!
//! It knows calls by their [`Notice`] alone. What else a backend keeps for a call, such as its
//! buffers, goes with the call as its payload.
//!
//! | module | holds |
//! |---|---|
//! | `meeting` | the calls of one place |
//! | `deadlock` | ranks that wait for one another |

mod deadlock;
mod meeting;

use std::collections::HashMap;

use millstream_ops::collective::Channel;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Collective, Slot};
use crate::error::CommError;
use crate::numbers::Numbers;

use meeting::Meeting;

pub(crate) use meeting::Place;

/// A call, as far as other ranks have to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// In what the calls of a place must be equal; none if they are not compared.
    description: Option<String>,
    /// The call and its place in the program, for errors.
    text: String,
    /// Whether it gives a message, and so waits for nobody.
    is_send: bool,
    /// Whether the ranks only meet.
    is_meeting: bool,
    /// How many elements an all-to-all gives to each rank, and gets from each.
    pairs: Option<(Vec<usize>, Vec<usize>)>,
}

impl Notice {
    /// Returns the notice of a call, which is to be compared with the other ranks' or not.
    pub(crate) fn of(call: &Call, compared: bool) -> Notice {
        Notice {
            description: compared.then(|| call.description()),
            text: call.to_string(),
            is_send: matches!(call.collective, Collective::Send),
            is_meeting: matches!(call.collective, Collective::Meeting(_)),
            pairs: match &call.collective {
                Collective::AllToAll { sent, received } => Some((sent.clone(), received.clone())),
                Collective::Meeting(meeting) => meeting.pairs.clone(),
                _ => None,
            },
        }
    }
}

impl Notice {
    /// Returns whether two calls of a place are different, if both are compared. The data of both
    /// is moved in the same way in any case.
    fn differs(&self, other: &Notice) -> bool {
        if self.is_meeting != other.is_meeting {
            return true;
        }
        let both = self.description.as_ref().zip(other.description.as_ref());
        both.is_some_and(|(own, other)| own != other)
    }
}

/// What a change of the table has decided.
#[derive(Debug)]
pub(crate) enum Event<P> {
    /// A call fails.
    Failed {
        /// The rank that made it.
        rank: usize,
        payload: P,
        error: CommError,
    },
    /// All calls of a place are there, and equal: each with its rank, in the order of the place.
    Matched {
        place: Place,
        calls: Vec<(usize, P)>,
        /// If the ranks only meet: for each the number of the meeting among its own.
        meetings: Option<Vec<u64>>,
    },
}

/// The calls that have not been matched.
#[derive(Debug)]
pub(crate) struct Matching<P> {
    meetings: HashMap<Place, Meeting<P>>,
    members: Vec<Member>,
    aborted: Option<CommError>,
}

/// What the table knows of a rank.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// The newest program whose calls it makes no more, counted from 0.
    left: Option<u64>,
    /// The calls that it has started or skipped, by program.
    made: HashMap<(Channel, u64), Numbers>,
    /// How many of its calls wait for other ranks.
    pending: usize,
    /// How many of its calls have waited, and wait no more.
    resolved: u64,
    /// How many of its calls were meetings that have come about, by program.
    meetings: HashMap<u64, u64>,
    /// Whether nothing can run on it before one of its calls is resolved.
    is_stalled: bool,
}

impl<P> Matching<P> {
    /// Returns the table of a program of so many ranks.
    pub(crate) fn new(ranks: usize) -> Matching<P> {
        let members = (0..ranks).map(|_| Member::default()).collect();
        Matching { meetings: HashMap::new(), members, aborted: None }
    }

    pub(crate) fn member(&self, rank: usize) -> &Member {
        &self.members[rank]
    }

    pub(crate) fn aborted(&self) -> Option<&CommError> {
        self.aborted.as_ref()
    }

    /// Returns whether all ranks have left.
    pub(crate) fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.left == Some(u64::MAX))
    }

    /// Notes that a rank makes a call.
    pub(crate) fn start(
        &mut self,
        rank: usize,
        slot: &Slot,
        notice: Notice,
        payload: P,
        events: &mut Vec<Event<P>>,
    ) {
        let Matching { meetings, members, aborted } = self;
        let member = &mut members[rank];
        member.is_stalled = false;
        member.pending += usize::from(!notice.is_send);
        let is_new = member.note(slot);
        let place = Place::of(rank, slot);
        let text = &notice.text;
        let error = match aborted {
            Some(error) => Some(error.clone()),
            None if !is_new => Some(CommError::new(format!("{text} was started before"))),
            None if place.position(slot, rank).is_none() => {
                Some(CommError::new(format!("{text}: rank {rank} does not belong to the group")))
            }
            None => None,
        };
        if let Some(error) = error {
            member.fail(rank, &notice, payload, error, events);
            return;
        }
        let meeting = meetings.entry(place.clone()).or_insert_with(|| Meeting::of(&place, members));
        meeting.arrive(rank, (&place, slot), (notice, payload), members, events);
        if meeting.is_complete() {
            if let Some(meeting) = meetings.remove(&place) {
                meeting.complete(place, members, events);
            }
        } else if meeting.is_over() {
            meetings.remove(&place);
        }
    }

    /// Notes that a rank does not make a call. Does nothing if it has made it.
    pub(crate) fn skip(
        &mut self,
        rank: usize,
        slot: &Slot,
        error: CommError,
        events: &mut Vec<Event<P>>,
    ) {
        let Matching { meetings, members, .. } = self;
        let place = Place::of(rank, slot);
        let Some(at) = place.position(slot, rank) else { return };
        if !members[rank].note(slot) {
            return;
        }
        let meeting = meetings.entry(place.clone()).or_insert_with(|| Meeting::of(&place, members));
        meeting.skip(at, &place, error, members, events);
        if meeting.is_over() {
            meetings.remove(&place);
        }
    }

    /// Notes that a rank makes no more calls of a program, and of those before: the calls that wait
    /// for it fail, as do its own.
    pub(crate) fn leave(&mut self, rank: usize, epoch: u64, events: &mut Vec<Event<P>>) {
        let Matching { meetings, members, .. } = self;
        members[rank].left = Some(epoch);
        members[rank].made.retain(|(_, program), _| *program > epoch);
        members[rank].meetings.retain(|program, _| *program > epoch);
        meetings.retain(|place, meeting| {
            if place.epoch() <= epoch {
                meeting.leave(rank, place, members, events);
            }
            !meeting.is_over()
        });
    }

    /// Fails all calls, now and later.
    pub(crate) fn abort(&mut self, error: CommError, events: &mut Vec<Event<P>>) {
        let Matching { meetings, members, aborted } = self;
        aborted.get_or_insert_with(|| error.clone());
        for (place, mut meeting) in meetings.drain() {
            meeting.fail(&place, &error, members, events);
        }
    }

    /// Notes that nothing can run on a rank before one of its calls is resolved, which was seen
    /// after so many had been. Fails the calls of ranks that wait for one another.
    pub(crate) fn report_stall(&mut self, rank: usize, resolved: u64, events: &mut Vec<Event<P>>) {
        if self.members[rank].resolved == resolved {
            self.members[rank].is_stalled = true;
            self.resolve_deadlock(events);
        }
    }
}

impl Member {
    /// Returns how many of the rank's calls wait for other ranks.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns how many of the rank's calls have waited, and wait no more.
    pub(crate) fn resolved(&self) -> u64 {
        self.resolved
    }

    /// Returns whether the rank makes no more calls of a place.
    fn has_left(&self, place: &Place) -> bool {
        self.left.is_some_and(|epoch| place.epoch() <= epoch)
    }

    /// Returns the number of the rank's next meeting in a program.
    fn next_meeting(&mut self, epoch: u64) -> u64 {
        let next = self.meetings.entry(epoch).or_default();
        *next += 1;
        *next - 1
    }

    /// Notes that the rank has started or skipped a call. Returns false if it had before.
    fn note(&mut self, slot: &Slot) -> bool {
        let (epoch, number) = (slot.number / Slot::EPOCH, slot.number % Slot::EPOCH);
        self.made.entry((slot.channel.clone(), epoch)).or_default().insert(number)
    }

    /// Counts a call that waits no more. A send never has.
    fn resolve(&mut self, notice: &Notice) {
        if !notice.is_send {
            self.pending -= 1;
            self.resolved += 1;
            self.is_stalled = false;
        }
    }

    fn fail<P>(
        &mut self,
        rank: usize,
        notice: &Notice,
        payload: P,
        error: CommError,
        events: &mut Vec<Event<P>>,
    ) {
        self.resolve(notice);
        events.push(Event::Failed { rank, payload, error });
    }
}
