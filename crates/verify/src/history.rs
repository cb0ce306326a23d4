//! What had passed once a stream had passed a place, for as long as a wait may ask.

use millstream_instructions::{Id, InstructionList, Role};
use millstream_types::Point;

use crate::clock::Clock;

#[derive(Debug)]
struct State {
    /// From this place on, until the next state.
    from: u64,
    /// What has passed then, without the place itself. Nothing once all waits for it are behind.
    passed: Option<Clock>,
    /// How many waits are still to ask; known once there is a next state.
    asked: u64,
}

/// The knowledge of a stream, place by place. Only what waits of the list ask for is kept, and that
/// only until they have.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The places that waits name, in order, and how many of them are still to come.
    named: Vec<(u64, u64)>,
    states: Vec<State>,
}

impl History {
    /// An empty history for each stream of a list.
    pub(crate) fn of(list: &InstructionList) -> Vec<History> {
        let mut named = vec![Vec::new(); list.streams.len()];
        let mut name = |point: Point| {
            if let Some(places) = named.get_mut(point.stream.index()) {
                places.push(point.seq);
            }
        };
        for instruction in &list.instructions {
            instruction.body.visit_ids(&mut |id, role| {
                if let (Id::Point(point), Role::Awaits) = (id, role) {
                    name(point);
                }
            });
        }
        named.into_iter().map(History::new).collect()
    }

    fn new(mut places: Vec<u64>) -> History {
        places.sort_unstable();
        let mut named: Vec<(u64, u64)> = Vec::new();
        for place in places {
            match named.last_mut() {
                Some((last, count)) if *last == place => *count += 1,
                _ => named.push((place, 1)),
            }
        }
        History { named, states: Vec::new() }
    }

    /// From this place on, `passed` has passed.
    pub(crate) fn note(&mut self, from: u64, passed: &Clock) {
        let new = State { from, passed: Some(passed.clone()), asked: 0 };
        let Some(last) = self.states.last_mut() else {
            self.states.push(new);
            return;
        };
        if last.passed.as_ref().is_some_and(|known| known.is(passed)) {
            return;
        }
        let first = self.named.partition_point(|&(place, _)| place < last.from);
        let until = self.named[first..].iter().take_while(|&&(place, _)| place < from);
        last.asked = until.map(|&(_, count)| count).sum();
        match last.asked {
            0 => *last = new,
            _ => self.states.push(new),
        }
    }

    /// What has passed once this place has, if anything is known of it. A wait asks once.
    pub(crate) fn ask(&mut self, place: u64) -> Option<Clock> {
        if let Ok(at) = self.named.binary_search_by_key(&place, |&(place, _)| place) {
            self.named[at].1 = self.named[at].1.saturating_sub(1);
        }
        let at = self.states.partition_point(|s| s.from <= place).checked_sub(1)?;
        let is_last = at + 1 == self.states.len();
        let state = &mut self.states[at];
        if is_last {
            return state.passed.clone();
        }
        state.asked = state.asked.saturating_sub(1);
        if state.asked == 0 { state.passed.take() } else { state.passed.clone() }
    }
}
