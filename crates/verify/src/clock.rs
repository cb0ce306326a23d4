//! Vector clocks that share what they have in common.
//!
//! A clock says, for each stream, up to which sequence number its instructions are known to happen
//! before something (Fidge 1988, Mattern 1989). The checker keeps one for every place where a
//! stream learned something, so clocks are trees whose unchanged branches are shared (path
//! copying: Driscoll, Sarnak, Sleator, Tarjan, "Making data structures persistent", 1989). A join
//! passes over shared branches, and sixteen streams fit in one leaf.

use std::sync::Arc;

use millstream_types::{Point, StreamId};

const BITS: u32 = 4;
const FANOUT: usize = 1 << BITS;

type Branch = Option<Arc<Node>>;

#[derive(Clone, Debug)]
enum Node {
    Leaf([u64; FANOUT]),
    Inner([Branch; FANOUT]),
}

/// What is known to happen before something: stream → highest sequence number.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    root: Branch,
    levels: u32,
}

impl Clock {
    /// Knows nothing, of this many streams.
    pub(crate) fn new(streams: usize) -> Clock {
        let mut levels = 1;
        while streams > 1 << (BITS * levels) {
            levels += 1;
        }
        Clock { root: None, levels }
    }

    /// The highest sequence number of `stream` known; 0 if none is.
    pub(crate) fn get(&self, stream: StreamId) -> u64 {
        let mut branch = &self.root;
        for level in (0..self.levels).rev() {
            let slot = (stream.index() >> (BITS * level)) % FANOUT;
            match branch.as_deref() {
                None => return 0,
                Some(Node::Leaf(seqs)) => return seqs[slot],
                Some(Node::Inner(branches)) => branch = &branches[slot],
            }
        }
        0
    }

    /// Whether `point` is known to have passed.
    pub(crate) fn covers(&self, point: Point) -> bool {
        point.seq == 0 || self.get(point.stream) >= point.seq
    }

    /// Adds `point`.
    pub(crate) fn raise(&mut self, point: Point) {
        if self.covers(point) {
            return;
        }
        let mut branch = &mut self.root;
        for level in (0..self.levels).rev() {
            let empty = || match level {
                0 => Node::Leaf([0; FANOUT]),
                _ => Node::Inner(std::array::from_fn(|_| None)),
            };
            let slot = (point.stream.index() >> (BITS * level)) % FANOUT;
            match Arc::make_mut(branch.get_or_insert_with(|| Arc::new(empty()))) {
                Node::Leaf(seqs) => {
                    seqs[slot] = point.seq;
                    return;
                }
                Node::Inner(branches) => branch = &mut branches[slot],
            }
        }
    }

    /// Adds all that `other` knows.
    pub(crate) fn join(&mut self, other: &Clock) {
        self.root = joined(&self.root, &other.root);
    }

    /// Whether the two are one and the same value in memory, so that they know the same.
    pub(crate) fn is(&self, other: &Clock) -> bool {
        same(&self.root, &other.root)
    }
}

fn same(a: &Branch, b: &Branch) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// The least upper bound, which is `a` or `b` itself where one knows all that the other does.
fn joined(a: &Branch, b: &Branch) -> Branch {
    let (Some(x), Some(y)) = (a, b) else { return a.clone().or_else(|| b.clone()) };
    if Arc::ptr_eq(x, y) {
        return a.clone();
    }
    match (&**x, &**y) {
        (Node::Leaf(p), Node::Leaf(q)) => {
            let most: [u64; FANOUT] = std::array::from_fn(|k| p[k].max(q[k]));
            if most == *p {
                a.clone()
            } else if most == *q {
                b.clone()
            } else {
                Some(Arc::new(Node::Leaf(most)))
            }
        }
        (Node::Inner(p), Node::Inner(q)) => {
            let most: [Branch; FANOUT] = std::array::from_fn(|k| joined(&p[k], &q[k]));
            if most.iter().zip(p).all(|(m, old)| same(m, old)) {
                a.clone()
            } else if most.iter().zip(q).all(|(m, old)| same(m, old)) {
                b.clone()
            } else {
                Some(Arc::new(Node::Inner(most)))
            }
        }
        // All clocks of a list have the same number of levels.
        _ => a.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAMS: usize = 300;

    fn points() -> impl Strategy<Value = Vec<Point>> {
        let stream = prop_oneof![0..20u16, 0..STREAMS as u16];
        let point = (stream, 0..9u64).prop_map(|(s, n)| Point::new(StreamId(s), n));
        proptest::collection::vec(point, 0..30)
    }

    fn clock(points: &[Point]) -> Clock {
        let mut clock = Clock::new(STREAMS);
        for &point in points {
            clock.raise(point);
        }
        clock
    }

    proptest! {
        #[test]
        fn a_clock_is_a_map_of_maxima(a in points(), b in points()) {
            let (x, y) = (clock(&a), clock(&b));
            let mut both = x.clone();
            both.join(&y);
            let most = |points: &[Point], s| {
                points.iter().filter(|p| p.stream == s).map(|p| p.seq).max().unwrap_or(0)
            };
            for s in (0..STREAMS as u16).map(StreamId) {
                prop_assert_eq!(x.get(s), most(&a, s));
                prop_assert_eq!(both.get(s), most(&a, s).max(most(&b, s)));
            }
            let mut again = both.clone();
            again.join(&x);
            again.join(&y);
            prop_assert!(again.is(&both), "a join without news shares all");
        }
    }

    #[test]
    fn levels_fit_the_streams() {
        for (streams, levels) in [(0, 1), (1, 1), (16, 1), (17, 2), (256, 2), (257, 3), (65536, 4)]
        {
            let mut clock = Clock::new(streams);
            assert_eq!(clock.levels, levels, "{streams}");
            if streams > 0 {
                let last = Point::new(StreamId((streams - 1) as u16), 3);
                clock.raise(last);
                assert!(clock.covers(last) && (streams == 1 || clock.get(StreamId(0)) == 0));
            }
        }
    }
}
