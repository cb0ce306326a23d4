//! Ranks that wait for one another.
//!
//! A stalled rank goes on if any of its requests completes. A request completes once all ranks that
//! it waits for have got to it, which takes all of them to go on. So of the stalled ranks those can
//! go on that have a request of which no awaited rank is stuck; what remains is stuck for good.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::error::CommError;

use super::meeting::{Arrival, Place};
use super::{Event, Matching};

/// A request of a stalled rank.
struct Waiting {
    rank: usize,
    place: Place,
    call: String,
    awaited: Vec<usize>,
}

impl<P> Matching<P> {
    /// Fails the requests of all ranks that wait for one another.
    pub(super) fn resolve_deadlock(&mut self, events: &mut Vec<Event<P>>) {
        let members = self.members.iter().enumerate();
        let mut stuck: BTreeSet<usize> =
            members.filter(|(_, m)| m.is_stalled).map(|(rank, _)| rank).collect();
        let waiting = self.waiting(&stuck);
        loop {
            let can_go_on = |rank: &usize| {
                let mut own = waiting.iter().filter(|waiting| waiting.rank == *rank);
                own.any(|waiting| !waiting.awaited.iter().any(|awaited| stuck.contains(awaited)))
            };
            let Some(rank) = stuck.iter().copied().find(can_go_on) else { break };
            stuck.remove(&rank);
        }
        let of_stuck: Vec<&Waiting> = waiting.iter().filter(|w| stuck.contains(&w.rank)).collect();
        if of_stuck.is_empty() {
            return;
        }
        let mut message = String::from("the ranks wait for one another: ");
        for (k, Waiting { rank, call, awaited, .. }) in of_stuck.iter().enumerate() {
            let ranks: Vec<String> = awaited.iter().map(|rank| format!("rank {rank}")).collect();
            let comma = if k == 0 { "" } else { "; " };
            // Writing to a string does not fail.
            let _ = write!(message, "{comma}rank {rank} for {} in {call}", ranks.join(", "));
        }
        for rank in stuck.iter().filter(|rank| of_stuck.iter().all(|w| w.rank != **rank)) {
            let _ = write!(message, "; rank {rank} waits too, in no call");
        }
        let error = CommError::new(message);
        let places: Vec<Place> = of_stuck.iter().map(|waiting| waiting.place.clone()).collect();
        let Matching { meetings, members, .. } = self;
        for place in places {
            if let Some(meeting) = meetings.get_mut(&place) {
                meeting.fail(&place, &error, members, events);
            }
        }
        meetings.retain(|_, meeting| !meeting.is_over());
    }

    /// Returns the requests of these ranks, in the order of the ranks.
    fn waiting(&self, ranks: &BTreeSet<usize>) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        for (place, meeting) in &self.meetings {
            let absent = || {
                let all = meeting.arrivals.iter().enumerate();
                let absent = all.filter(|(_, arrival)| matches!(arrival, Arrival::Absent));
                absent.map(|(position, _)| place.rank_at(position)).collect()
            };
            for (position, arrival) in meeting.arrivals.iter().enumerate() {
                let rank = place.rank_at(position);
                if let Arrival::Here(notice, _) = arrival
                    && !notice.is_send
                    && ranks.contains(&rank)
                {
                    let (place, call) = (place.clone(), notice.text.clone());
                    waiting.push(Waiting { rank, place, call, awaited: absent() });
                }
            }
        }
        waiting.sort_by(|a, b| (a.rank, &a.call).cmp(&(b.rank, &b.call)));
        waiting
    }
}
