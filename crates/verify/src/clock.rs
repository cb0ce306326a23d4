//! Persistent vector clocks.
//!
//! A clock maps each stream to the highest sequence number whose instructions are known to happen
//! before some instruction (Fidge 1988, Mattern 1989). The checker keeps a clock for every point at
//! which a stream's knowledge grows. Clocks are therefore trees that share unchanged branches (path
//! copying: Driscoll, Sarnak, Sleator, Tarjan, "Making data structures persistent", 1989). A join
//! skips shared branches. Sixteen streams fit in one leaf.
//!
//! If the walk determines which waits are needed, an entry also holds the number that would be
//! known without each wait that the entry depends on. Such a clock represents the clocks of all
//! lists that lack one wait.

use std::rc::Rc;

use millstream_types::{Point, StreamId};
use rustc_hash::FxHashSet;

const BITS: u32 = 4;
const FANOUT: usize = 1 << BITS;

/// The maximum number of waits that an entry is attributed to. Beyond it, the oldest are dropped.
const MAX_ATTRIBUTIONS: usize = 32;

type Branch = Option<Rc<Node>>;

/// The knowledge of a stream in the list without one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Without {
    /// The wait's index in the list.
    pub(crate) wait: usize,
    /// The highest sequence number known without it.
    pub(crate) seq: u64,
}

/// The knowledge of one stream.
#[derive(Clone, Debug, Default)]
struct Entry {
    seq: u64,
    /// The waits whose removal lowers `seq`, by index. Every path from `seq` to this clock leads
    /// through each of them, so their number is at most about the number of streams.
    without: Option<Rc<Vec<Without>>>,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf([Entry; FANOUT]),
    Inner([Branch; FANOUT]),
}

/// The highest sequence number of each stream that is known to happen before an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    root: Branch,
    levels: u32,
}

impl Clock {
    /// Returns an empty clock for this many streams.
    pub(crate) fn new(streams: usize) -> Clock {
        let mut levels = 1;
        while streams > 1 << (BITS * levels) {
            levels += 1;
        }
        Clock { root: None, levels }
    }

    fn entry(&self, stream: StreamId) -> Option<&Entry> {
        let mut branch = &self.root;
        for level in (0..self.levels).rev() {
            let slot = (stream.index() >> (BITS * level)) % FANOUT;
            match branch.as_deref()? {
                Node::Leaf(entries) => return Some(&entries[slot]),
                Node::Inner(branches) => branch = &branches[slot],
            }
        }
        None
    }

    /// Returns the highest known sequence number of `stream`, or 0.
    pub(crate) fn get(&self, stream: StreamId) -> u64 {
        self.entry(stream).map_or(0, |e| e.seq)
    }

    /// Returns whether the clock covers `point`.
    pub(crate) fn covers(&self, point: Point) -> bool {
        point.seq == 0 || self.get(point.stream) >= point.seq
    }

    /// Returns the waits whose removal lowers the entry of `stream`.
    pub(crate) fn without(&self, stream: StreamId) -> &[Without] {
        self.entry(stream).and_then(|e| e.without.as_deref()).map_or(&[], Vec::as_slice)
    }

    /// Raises the entry of the point's stream to at least `point`.
    pub(crate) fn raise(&mut self, point: Point) {
        if self.covers(point) && self.without(point.stream).is_empty() {
            return;
        }
        let mut branch = &mut self.root;
        for level in (0..self.levels).rev() {
            let empty = || match level {
                0 => Node::Leaf(Default::default()),
                _ => Node::Inner(Default::default()),
            };
            let slot = (point.stream.index() >> (BITS * level)) % FANOUT;
            match Rc::make_mut(branch.get_or_insert_with(|| Rc::new(empty()))) {
                Node::Leaf(entries) => {
                    let known = Entry { seq: point.seq, without: None };
                    match join_entries(&entries[slot], &known) {
                        Joined::Left | Joined::Both => {}
                        Joined::Right => entries[slot] = known,
                        Joined::New(entry) => entries[slot] = entry,
                    }
                    return;
                }
                Node::Inner(branches) => branch = &mut branches[slot],
            }
        }
    }

    /// Replaces the clock by its least upper bound with `other`.
    pub(crate) fn join(&mut self, other: &Clock) {
        self.root = join_branches(&self.root, &other.root);
    }

    /// Attributes the entries that exceed those of `before` to `wait`, the newest wait of the list
    /// so far. Returns whether any entry does. Adds to `lost` each wait that an entry drops because
    /// it has [`MAX_ATTRIBUTIONS`] already: the clocks no longer show what depends on that wait.
    pub(crate) fn attribute(
        &mut self,
        before: &Clock,
        wait: usize,
        lost: &mut FxHashSet<usize>,
    ) -> bool {
        attribute(&mut self.root, &before.root, wait, lost)
    }

    /// Returns whether both clocks share one root, and so are equal.
    pub(crate) fn ptr_eq(&self, other: &Clock) -> bool {
        same(&self.root, &other.root)
    }
}

fn same(a: &Branch, b: &Branch) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}

impl Entry {
    /// Returns the number that is known without `wait`.
    fn seq_without(&self, wait: usize) -> u64 {
        let list = self.without.as_deref().map_or(&[][..], Vec::as_slice);
        list.iter().find(|w| w.wait == wait).map_or(self.seq, |w| w.seq)
    }
}

/// The least upper bound of two entries: one of them, both, or a new entry.
enum Joined {
    Left,
    Right,
    Both,
    New(Entry),
}

/// Returns the least upper bound of two entries, with and without each wait.
fn join_entries(a: &Entry, b: &Entry) -> Joined {
    if a.seq < b.seq {
        return match join_entries(b, a) {
            Joined::Left => Joined::Right,
            Joined::Right => Joined::Left,
            other => other,
        };
    }
    let (x, y) = match (&a.without, &b.without) {
        (None, None) if a.seq == b.seq => return Joined::Both,
        (None, _) => return Joined::Left,
        (Some(_), None) if a.seq == b.seq => return Joined::Right,
        (Some(x), y) => (x, y),
    };
    if a.seq == b.seq && y.as_ref().is_some_and(|y| Rc::ptr_eq(x, y)) {
        return Joined::Both;
    }
    let most = |w: &Without| Without { wait: w.wait, seq: w.seq.max(b.seq_without(w.wait)) };
    if a.seq > b.seq && x.iter().all(|w| most(w) == *w) {
        return Joined::Left;
    }
    let without: Vec<Without> = x.iter().map(most).filter(|w| w.seq < a.seq).collect();
    if without == **x {
        return if y.as_deref() == Some(&without) { Joined::Both } else { Joined::Left };
    }
    if a.seq == b.seq && y.as_deref() == Some(&without) {
        return Joined::Right;
    }
    let without = (!without.is_empty()).then(|| Rc::new(without));
    Joined::New(Entry { seq: a.seq, without })
}

/// Returns the least upper bound of two branches: `a` or `b` itself where one dominates the other.
fn join_branches(a: &Branch, b: &Branch) -> Branch {
    let (Some(x), Some(y)) = (a, b) else { return a.clone().or_else(|| b.clone()) };
    if Rc::ptr_eq(x, y) {
        return a.clone();
    }
    match (&**x, &**y) {
        (Node::Leaf(p), Node::Leaf(q)) => {
            let (mut left, mut right) = (true, true);
            let most: [Joined; FANOUT] = std::array::from_fn(|k| {
                let most = join_entries(&p[k], &q[k]);
                left &= matches!(most, Joined::Left | Joined::Both);
                right &= matches!(most, Joined::Right | Joined::Both);
                most
            });
            if left {
                return a.clone();
            } else if right {
                return b.clone();
            }
            let mut entries: [Entry; FANOUT] = Default::default();
            for (k, most) in most.into_iter().enumerate() {
                entries[k] = match most {
                    Joined::Left | Joined::Both => p[k].clone(),
                    Joined::Right => q[k].clone(),
                    Joined::New(entry) => entry,
                };
            }
            Some(Rc::new(Node::Leaf(entries)))
        }
        (Node::Inner(p), Node::Inner(q)) => {
            let most: [Branch; FANOUT] = std::array::from_fn(|k| join_branches(&p[k], &q[k]));
            if most.iter().zip(p).all(|(m, old)| same(m, old)) {
                a.clone()
            } else if most.iter().zip(q).all(|(m, old)| same(m, old)) {
                b.clone()
            } else {
                Some(Rc::new(Node::Inner(most)))
            }
        }
        // All clocks of a list have the same number of levels.
        _ => a.clone(),
    }
}

fn attribute(now: &mut Branch, before: &Branch, wait: usize, lost: &mut FxHashSet<usize>) -> bool {
    if same(now, before) {
        return false;
    }
    let Some(node) = now else { return false };
    match Rc::make_mut(node) {
        Node::Leaf(entries) => {
            let mut changed = false;
            for (k, entry) in entries.iter_mut().enumerate() {
                let old = match before.as_deref() {
                    Some(Node::Leaf(old)) => old[k].seq,
                    _ => 0,
                };
                if entry.seq > old {
                    changed = true;
                    let list = entry.without.get_or_insert_with(Rc::default);
                    let list = Rc::make_mut(list);
                    if list.len() == MAX_ATTRIBUTIONS {
                        lost.insert(list.remove(0).wait);
                    }
                    list.push(Without { wait, seq: old });
                }
            }
            changed
        }
        Node::Inner(branches) => {
            let mut changed = false;
            for (k, branch) in branches.iter_mut().enumerate() {
                let old = match before.as_deref() {
                    Some(Node::Inner(old)) => old[k].clone(),
                    _ => None,
                };
                changed |= attribute(branch, &old, wait, lost);
            }
            changed
        }
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
            prop_assert!(again.ptr_eq(&both), "a join that adds nothing shares all branches");
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
