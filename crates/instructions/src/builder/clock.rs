//! Vector clocks (Fidge 1988, Mattern 1989): the points that are known to have completed.
//!
//! A [`Frontier`] names few streams and is small: it holds the uses of a storage or of an event. A
//! clock holds the knowledge of a stream. Each call reads it and each wait joins it, so the first
//! streams have slots of their own: no search, and a copy is a few moves.

use millstream_types::{Point, StreamId};

use crate::frontier::Frontier;

/// The number of streams with slots of their own: as many as fill a cache line.
const NEAR: usize = 8;

/// The points known to have completed: stream → highest sequence number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// The sequence numbers of the first streams.
    near: [u64; NEAR],
    /// The points of all other streams; none if nothing is known about them.
    far: Option<Box<Frontier>>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock::default()
    }

    /// Returns the highest sequence number known of `stream`; 0 if none is.
    #[inline]
    pub(super) fn get(&self, stream: StreamId) -> u64 {
        match self.near.get(stream.index()) {
            Some(&seq) => seq,
            None => self.far.as_ref().map_or(0, |far| far.get(stream)),
        }
    }

    /// Whether `point` is known.
    #[inline]
    pub(super) fn covers(&self, point: Point) -> bool {
        self.get(point.stream) >= point.seq
    }

    /// Adds `point`. Returns whether the clock has grown.
    pub(super) fn add(&mut self, point: Point) -> bool {
        if self.covers(point) {
            return false;
        }
        match self.near.get_mut(point.stream.index()) {
            Some(seq) => *seq = point.seq,
            None => return self.far.get_or_insert_default().add(point),
        }
        true
    }

    /// Returns the number of points that take memory.
    pub(super) fn far_points(&self) -> usize {
        self.far.as_ref().map_or(0, |far| far.len())
    }

    /// Returns the known points.
    pub(super) fn frontier(&self) -> Frontier {
        let near = (0..).zip(self.near).map(|(s, seq)| Point::new(StreamId(s), seq));
        near.chain(self.far.iter().flat_map(|far| far.iter())).collect()
    }

    /// Leaves out points that `other` covers, if they take memory.
    pub(super) fn prune(&mut self, other: &Clock) {
        let Some(far) = &mut self.far else { return };
        far.retain(|point| !other.covers(point));
        if far.is_empty() {
            self.far = None;
        }
    }

    /// Adds all points of `other`. Returns whether the clock has grown.
    pub(super) fn join(&mut self, other: &Clock) -> bool {
        let mut news = false;
        for (own, seq) in self.near.iter_mut().zip(other.near) {
            news |= *own < seq;
            *own = seq.max(*own);
        }
        if let Some(far) = &other.far {
            news |= self.far.get_or_insert_default().join(far);
        }
        news
    }
}

impl Clone for Clock {
    fn clone(&self) -> Clock {
        Clock { near: self.near, far: self.far.clone() }
    }

    fn clone_from(&mut self, other: &Clock) {
        self.near = other.near;
        // The allocation is kept.
        self.far.clone_from(&other.far);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points() -> impl Strategy<Value = Vec<Point>> {
        let point = (0u16..12, 0u64..20).prop_map(|(s, n)| Point::new(StreamId(s), n));
        proptest::collection::vec(point, 0..20)
    }

    fn clock(points: &[Point]) -> Clock {
        let mut clock = Clock::new();
        for point in points {
            clock.add(*point);
        }
        clock
    }

    proptest! {
        /// A clock agrees with a frontier of the same points.
        #[test]
        fn knows_what_a_frontier_knows(a in points(), b in points()) {
            let (mut joined, other) = (clock(&a), clock(&b));
            let mut model: Frontier = a.iter().copied().collect();
            let news = joined.join(&other);
            prop_assert_eq!(news, model.join(&b.iter().copied().collect()));
            for s in (0..12).map(StreamId) {
                prop_assert_eq!(joined.get(s), model.get(s));
            }
            prop_assert!(!joined.join(&other));
            // Equal knowledge is equal however it came.
            let all: Vec<Point> = b.iter().chain(&a).copied().collect();
            prop_assert_eq!(&joined, &clock(&all));
            let mut copy = other;
            copy.clone_from(&joined);
            prop_assert_eq!(copy, joined);
        }

        /// A clock without the points of another one covers, with that one, what it covered before.
        #[test]
        fn pruned_points_are_covered_by_the_other_clock(a in points(), b in points()) {
            let (mut pruned, other) = (clock(&a), clock(&b));
            pruned.prune(&other);
            for stream in (0..12).map(StreamId) {
                let kept = pruned.get(stream);
                let (before, covered) = (clock(&a).get(stream), other.get(stream));
                prop_assert_eq!(kept.max(covered), before.max(covered));
                let is_near = stream.index() < NEAR;
                prop_assert!(is_near || kept == 0 || kept > other.get(stream));
            }
        }
    }

    #[test]
    fn the_start_of_a_stream_is_always_known() {
        let mut clock = Clock::new();
        for stream in [StreamId(3), StreamId(99)] {
            assert!(clock.covers(Point::new(stream, 0)));
            assert!(!clock.covers(Point::new(stream, 1)));
            assert!(!clock.add(Point::new(stream, 0)));
        }
        assert_eq!(clock, Clock::new());
    }
}
