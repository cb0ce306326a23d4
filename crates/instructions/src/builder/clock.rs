//! What is known to have passed on all streams: a vector clock (Fidge 1988, Mattern 1989).
//!
//! A [`Frontier`] names few streams and is small: a use, a death. A clock is what a stream knows, is
//! asked about at each call and joined at each wait: the first streams have places of their own there,
//! so that nothing is searched for and a copy is a few moves.

use millstream_types::{Point, StreamId};

use crate::frontier::Frontier;

/// How many streams have places of their own: as many as fill a cache line.
const NEAR: usize = 8;

/// What has passed: stream → highest sequence number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// Of the first streams.
    near: [u64; NEAR],
    /// Of all others; none if nothing is known of them.
    far: Option<Box<Frontier>>,
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock::default()
    }

    /// The highest sequence number of `stream` known; 0 if none is.
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

    /// Adds `point`. Returns whether that was news.
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

    /// Adds all that `other` knows. Returns whether any of it was news.
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
        // What was allocated is kept.
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
        /// It says what a frontier of the same points says.
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
