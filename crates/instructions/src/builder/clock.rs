//! Vector clocks (Fidge 1988, Mattern 1989): the points that are known to have completed.
//!
//! A [`Frontier`] names few streams and is small: it holds the uses of a storage or of an event. A
//! clock holds the knowledge of a stream. Each call reads it and each wait joins it, so the first
//! streams have slots of their own: no search, and a copy is a few moves.

use std::sync::Arc;

use millstream_types::{Point, StreamId};

use crate::frontier::Frontier;

/// The number of streams with slots of their own: as many as fill a cache line.
const NEAR: usize = 8;

/// The points known to have completed: stream → highest sequence number.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// The sequence numbers of the first streams.
    near: [u64; NEAR],
    /// The points of all other streams; none if nothing is known about them. A copy shares them.
    far: Option<Arc<Far>>,
}

/// The number of points from which on the recent ones join the base.
const RECENT: usize = 64;

/// The points of many streams. Most clocks are another one and a few points more, so those that
/// come from one another share a base.
#[derive(Clone, Debug, Default)]
struct Far {
    base: Arc<Frontier>,
    /// Points that the base does not cover.
    recent: Frontier,
}

impl Far {
    fn get(&self, stream: StreamId) -> u64 {
        match self.recent.get(stream) {
            0 => self.base.get(stream),
            seq => seq,
        }
    }

    /// Adds a point that is not known yet.
    fn add(&mut self, point: Point) {
        self.recent.add(point);
        if self.recent.len() >= RECENT {
            *self = Far::from(self.all());
        }
    }

    fn join(&mut self, other: &Far) -> bool {
        let mut all = self.all();
        let mut news = !Arc::ptr_eq(&self.base, &other.base) && all.join(&other.base);
        news |= all.join(&other.recent);
        if news {
            *self = Far::from(all);
        }
        news
    }

    /// Returns all points.
    fn all(&self) -> Frontier {
        let mut all = (*self.base).clone();
        all.join(&self.recent);
        all
    }
}

impl From<Frontier> for Far {
    fn from(all: Frontier) -> Far {
        Far { base: Arc::new(all), recent: Frontier::new() }
    }
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
            None => Arc::make_mut(self.far.get_or_insert_default()).add(point),
        }
        true
    }

    /// Returns the number of points that take memory.
    pub(super) fn far_points(&self) -> usize {
        self.far.as_ref().map_or(0, |far| far.base.len() + far.recent.len())
    }

    /// Returns the known points.
    pub(super) fn frontier(&self) -> Frontier {
        let near = (0..).zip(self.near).map(|(s, seq)| Point::new(StreamId(s), seq));
        let mut all: Frontier = near.collect();
        if let Some(far) = &self.far {
            all.join(&far.base);
            all.join(&far.recent);
        }
        all
    }

    /// Leaves out points that `other` covers, if they take memory.
    pub(super) fn prune(&mut self, other: &Clock) {
        let Some(far) = &self.far else { return };
        let mut all = far.all();
        all.retain(|point| !other.covers(point));
        self.far = (!all.is_empty()).then(|| Arc::new(Far::from(all)));
    }

    /// Adds all points of `other`. Returns whether the clock has grown.
    pub(super) fn join(&mut self, other: &Clock) -> bool {
        let mut news = false;
        for (own, seq) in self.near.iter_mut().zip(other.near) {
            news |= *own < seq;
            *own = seq.max(*own);
        }
        match (&mut self.far, &other.far) {
            (_, None) => {}
            (Some(own), Some(far)) if Arc::ptr_eq(own, far) => {}
            (Some(own), Some(far)) => news |= Arc::make_mut(own).join(far),
            (own, far) => {
                own.clone_from(far);
                news = true;
            }
        }
        news
    }
}

impl PartialEq for Clock {
    fn eq(&self, other: &Clock) -> bool {
        self.frontier() == other.frontier()
    }
}

impl Eq for Clock {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points() -> impl Strategy<Value = Vec<Point>> {
        let point = (0u16..120, 0u64..20).prop_map(|(s, n)| Point::new(StreamId(s), n));
        proptest::collection::vec(point, 0..250)
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
            for s in (0..120).map(StreamId) {
                prop_assert_eq!(joined.get(s), model.get(s));
            }
            prop_assert!(!joined.join(&other));
            // Equal knowledge is equal however it came.
            let all: Vec<Point> = b.iter().chain(&a).copied().collect();
            prop_assert_eq!(&joined, &clock(&all));
            // A copy shares points, and does not change with the clock.
            let copy = joined.clone();
            for s in (0..120).map(StreamId) {
                joined.add(Point::new(s, 99));
            }
            prop_assert_eq!(copy.frontier(), model);
            prop_assert!(!joined.join(&copy));
        }

        /// A clock without the points of another one covers, with that one, what it covered before.
        #[test]
        fn pruned_points_are_covered_by_the_other_clock(a in points(), b in points()) {
            let (mut pruned, other) = (clock(&a), clock(&b));
            pruned.prune(&other);
            for stream in (0..120).map(StreamId) {
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
