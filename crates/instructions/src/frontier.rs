//! Frontiers: sparse vector clocks.
//!
//! A frontier gives, for each stream, the sequence number up to which that stream's instructions
//! are known to happen before something. It is a vector clock (Fidge 1988, Mattern 1989) without
//! the components that are zero.

use std::fmt;

use smallvec::SmallVec;

use millstream_types::{Point, StreamId};

/// The points known to happen before something: stream → highest sequence number.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Frontier {
    // Sorted by stream, no sequence number 0.
    points: SmallVec<[Point; 2]>,
}

/// The number of entries up to which a scan beats a binary search. Most frontiers have fewer.
const FEW: usize = 8;

impl Frontier {
    /// Returns the empty frontier.
    pub fn new() -> Frontier {
        Frontier::default()
    }

    /// Returns the frontier of one point.
    pub fn of(point: Point) -> Frontier {
        let len = usize::from(point.seq != 0);
        Frontier { points: SmallVec::from_buf_and_len([point; 2], len) }
    }

    /// Returns the highest sequence number known of `stream`; 0 if none is.
    pub fn get(&self, stream: StreamId) -> u64 {
        if self.points.len() <= FEW {
            return self.points.iter().find(|p| p.stream == stream).map_or(0, |p| p.seq);
        }
        match self.points.binary_search_by_key(&stream, |p| p.stream) {
            Ok(at) => self.points[at].seq,
            Err(_) => 0,
        }
    }

    /// Whether `point` is known.
    pub fn covers(&self, point: Point) -> bool {
        point.seq == 0 || self.get(point.stream) >= point.seq
    }

    /// Adds `point`. Returns whether the frontier has grown.
    pub fn add(&mut self, point: Point) -> bool {
        if point.seq == 0 {
            return false;
        }
        if self.points.len() <= FEW
            && let Some(own) = self.points.iter_mut().find(|p| p.stream == point.stream)
        {
            let news = own.seq < point.seq;
            own.seq = own.seq.max(point.seq);
            return news;
        }
        match self.points.binary_search_by_key(&point.stream, |p| p.stream) {
            Ok(at) if self.points[at].seq >= point.seq => false,
            Ok(at) => {
                self.points[at].seq = point.seq;
                true
            }
            Err(at) => {
                self.points.insert(at, point);
                true
            }
        }
    }

    /// Adds all points of `other`. Returns whether the frontier has grown.
    pub fn join(&mut self, other: &Frontier) -> bool {
        let mut news = false;
        // Streams that wait for one another soon know points of the same streams.
        let mut pairs = self.points.iter().zip(&other.points);
        if self.points.len() == other.points.len() && pairs.all(|(a, b)| a.stream == b.stream) {
            for (own, point) in self.points.iter_mut().zip(&other.points) {
                news |= own.seq < point.seq;
                own.seq = own.seq.max(point.seq);
            }
            return news;
        }
        if other.points.len() <= FEW {
            return other.points.iter().fold(false, |news, point| self.add(*point) | news);
        }
        let most = self.points.len() + other.points.len();
        let own = std::mem::replace(&mut self.points, SmallVec::with_capacity(most));
        let mut rest = &own[..];
        for point in &other.points {
            let at = rest.iter().position(|p| p.stream >= point.stream).unwrap_or(rest.len());
            self.points.extend_from_slice(&rest[..at]);
            let known = rest.get(at).filter(|p| p.stream == point.stream);
            rest = &rest[at + usize::from(known.is_some())..];
            let known = known.map_or(0, |p| p.seq);
            news |= known < point.seq;
            self.points.push(Point::new(point.stream, known.max(point.seq)));
        }
        self.points.extend_from_slice(rest);
        news
    }

    /// Keeps the points for which `keep` holds.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Point) -> bool) {
        self.points.retain(|point| keep(*point));
        self.points.shrink_to_fit();
    }

    /// Returns the points, by stream.
    pub fn iter(&self) -> impl Iterator<Item = Point> + '_ {
        self.points.iter().copied()
    }

    /// Returns the number of points.
    pub(crate) fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether the frontier has no point.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}

impl Clone for Frontier {
    fn clone(&self) -> Frontier {
        // Points are plain values, which are copied as one piece of memory.
        match self.points[..] {
            [point] => Frontier::of(point),
            ref points => Frontier { points: SmallVec::from_slice(points) },
        }
    }

    fn clone_from(&mut self, other: &Frontier) {
        self.points.clear();
        self.points.extend_from_slice(&other.points);
    }
}

impl FromIterator<Point> for Frontier {
    fn from_iter<T: IntoIterator<Item = Point>>(points: T) -> Frontier {
        let mut made = Frontier::new();
        for point in points {
            made.add(point);
        }
        made
    }
}

impl fmt::Display for Frontier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (k, p) in self.points.iter().enumerate() {
            write!(f, "{}{p}", if k == 0 { "" } else { " " })?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(stream: u16, seq: u64) -> Point {
        Point::new(StreamId(stream), seq)
    }

    fn frontiers() -> impl Strategy<Value = Frontier> {
        proptest::collection::vec((0u16..24, 0u64..20), 0..40)
            .prop_map(|v| v.into_iter().map(|(s, n)| point(s, n)).collect())
    }

    proptest! {
        #[test]
        fn join_is_the_least_upper_bound(a in frontiers(), b in frontiers(), c in frontiers()) {
            let join = |x: &Frontier, y: &Frontier| { let mut j = x.clone(); j.join(y); j };
            for s in 0..24 {
                let s = StreamId(s);
                prop_assert_eq!(join(&a, &b).get(s), a.get(s).max(b.get(s)));
            }
            prop_assert_eq!(join(&a, &b), join(&b, &a));
            prop_assert_eq!(join(&join(&a, &b), &c), join(&a, &join(&b, &c)));
            prop_assert!(!join(&a, &b).join(&a));
        }
    }

    #[test]
    fn the_start_of_a_stream_is_always_known() {
        assert!(Frontier::new().covers(point(3, 0)));
        assert!(!Frontier::new().covers(point(3, 1)));
        assert!(!Frontier::new().add(point(3, 0)));
    }
}
