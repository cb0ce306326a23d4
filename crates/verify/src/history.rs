//! The knowledge of a stream at earlier points, kept as long as a wait may name them.

use millstream_instructions::{Id, InstructionList, Role};
use millstream_types::Point;

use crate::clock::Clock;

#[derive(Debug)]
struct State {
    /// The first sequence number of the state, which lasts until the next state.
    from: u64,
    /// The points that have passed then, without the state's own. None once no later wait names it.
    passed: Option<Clock>,
    /// The number of later waits that name the state; valid once there is a next state.
    asked: u64,
}

/// The knowledge of a stream at each of its points. The history keeps the states that later waits
/// of the list name.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The sequence numbers that waits name, in order, each with the number of later waits.
    named: Vec<(u64, u64)>,
    states: Vec<State>,
}

impl History {
    /// Returns an empty history for each stream of a list.
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

    /// Adds a state that begins at `from`.
    pub(crate) fn note(&mut self, from: u64, passed: &Clock) {
        let new = State { from, passed: Some(passed.clone()), asked: 0 };
        let Some(last) = self.states.last_mut() else {
            self.states.push(new);
            return;
        };
        if last.passed.as_ref().is_some_and(|known| known.ptr_eq(passed)) {
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

    /// Returns the state at `place`, if there is one. Each wait calls this once for each of its
    /// points.
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
