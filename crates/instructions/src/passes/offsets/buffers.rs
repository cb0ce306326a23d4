//! Buffers with a partial order: which of them are over before which others begin.

/// A buffer in a sequence, to be given an offset.
///
/// It lives from `begin` to `end`, half open; two buffers whose times overlap share no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The time at which it begins.
    pub begin: u64,
    /// The time at which it is over.
    pub end: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Buffers to be given offsets, in the order of their beginnings. All have bytes.
///
/// Buffers begin on *lanes*, one behind another. The buffers of a lane that begin after a certain
/// other buffer is over are all from a certain position on: what is over stays over. So one number
/// for each buffer and lane holds the whole order.
#[derive(Clone, Debug)]
pub(in crate::passes) struct Buffers {
    pub(super) bytes: Vec<u64>,
    /// For each buffer its lane, and its position there.
    pub(super) place: Vec<(u32, u32)>,
    /// The buffers of each lane.
    pub(super) lanes: Vec<Vec<u32>>,
    /// For each buffer and lane, the first position of the lane that comes after the buffer.
    pub(super) after: Vec<u32>,
}

impl Buffers {
    /// Returns buffers from the bytes and the lane of each. `after` returns the first position of a
    /// lane, given by its buffers, that comes after a buffer.
    pub(in crate::passes) fn new(
        of: &[(u64, usize)],
        lanes: usize,
        mut after: impl FnMut(usize, &[u32]) -> usize,
    ) -> Buffers {
        let mut members = vec![Vec::new(); lanes];
        let mut place = Vec::with_capacity(of.len());
        for (k, &(_, lane)) in (0..).zip(of) {
            place.push((lane as u32, members[lane].len() as u32));
            members[lane].push(k);
        }
        let pairs = (0..of.len()).flat_map(|k| members.iter().map(move |lane| (k, lane)));
        let after = pairs.map(|(k, lane)| after(k, lane) as u32).collect();
        let bytes = of.iter().map(|(bytes, _)| *bytes).collect();
        Buffers { bytes, place, lanes: members, after }
    }

    /// Returns the buffers of a sequence, which are in the order of their beginnings.
    pub(super) fn of_sequence(intervals: &[Interval]) -> Buffers {
        let of: Vec<(u64, usize)> = intervals.iter().map(|i| (i.bytes, 0)).collect();
        Buffers::new(&of, 1, |k, _| {
            let Interval { begin, end, .. } = intervals[k];
            // A buffer without a time lives nowhere, and after itself.
            intervals.partition_point(|later| later.begin < end.max(begin)).max(k + 1)
        })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the first position of a lane that comes after a buffer.
    pub(super) fn after(&self, k: usize, lane: usize) -> usize {
        self.after[k * self.lanes.len() + lane] as usize
    }

    /// Returns the first buffer that comes after another one, by number; the number of buffers if
    /// none does. Those that live at a time by these ends are all in conflict.
    pub(super) fn first_after(&self, k: usize) -> usize {
        let lanes = self.lanes.iter().enumerate();
        let first = lanes.filter_map(|(l, lane)| lane.get(self.after(k, l)).copied());
        first.min().map_or(self.len(), |b| b as usize)
    }

    /// Returns the buffers as those of one lane, with the old number of each, if the order is one
    /// of intervals: what comes after one buffer comes after another one, or the reverse.
    pub(super) fn as_sequence(&self) -> Option<(Buffers, Vec<u32>)> {
        let lanes = self.lanes.len();
        let after = |k: u32| &self.after[k as usize * lanes..][..lanes];
        let mut ends: Vec<u32> = (0..self.len() as u32).collect();
        ends.sort_by_key(|&k| (after(k).iter().map(|p| u64::from(*p)).sum::<u64>(), k));
        let is_chain =
            ends.windows(2).all(|w| after(w[0]).iter().zip(after(w[1])).all(|(a, b)| a <= b));
        if !is_chain {
            return None;
        }
        // The number of buffers that are over where one begins.
        let over = |k: u32| {
            let (lane, position) = self.place[k as usize];
            ends.partition_point(|&e| after(e)[lane as usize] <= position)
        };
        let over: Vec<usize> = (0..self.len() as u32).map(over).collect();
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_by_key(|&k| (over[k as usize], k));
        let mut rank = vec![0; self.len()];
        ends.iter().enumerate().for_each(|(r, &k)| rank[k as usize] = r);
        let of: Vec<(u64, usize)> = order.iter().map(|&k| (self.bytes[k as usize], 0)).collect();
        let sequence = Buffers::new(&of, 1, |k, _| {
            let ended = rank[order[k] as usize];
            order.partition_point(|&b| over[b as usize] <= ended)
        });
        Some((sequence, order))
    }
}

/// The largest number in each range of a lane, as a binary tree: the children of node `n` are nodes
/// `2n` and `2n + 1`.
#[derive(Debug)]
struct Tree {
    most: Vec<u32>,
    leaves: usize,
}

impl Tree {
    fn of(values: impl ExactSizeIterator<Item = u32>) -> Tree {
        let leaves = values.len().next_power_of_two();
        let mut most = vec![0; 2 * leaves];
        values.enumerate().for_each(|(k, value)| most[leaves + k] = value);
        (1..leaves).rev().for_each(|n| most[n] = most[2 * n].max(most[2 * n + 1]));
        Tree { most, leaves }
    }

    /// Calls `found` with the first `count` positions whose numbers exceed `limit`.
    fn each(&self, count: usize, limit: u32, found: &mut impl FnMut(usize)) {
        self.within(1, 0, self.leaves, count, limit, found);
    }

    fn within(
        &self,
        node: usize,
        first: usize,
        width: usize,
        count: usize,
        limit: u32,
        found: &mut impl FnMut(usize),
    ) {
        if first >= count || self.most[node] <= limit {
            return;
        }
        if width == 1 {
            return found(first);
        }
        self.within(2 * node, first, width / 2, count, limit, found);
        self.within(2 * node + 1, first + width / 2, width / 2, count, limit, found);
    }
}

/// The pairs of buffers that may not share bytes, found from sorted tables.
#[derive(Debug)]
pub(super) struct Conflicts<'a> {
    buffers: &'a Buffers,
    /// For each lane and lane of the later buffer, what comes after the buffers of the former.
    trees: Vec<Tree>,
}

impl<'a> Conflicts<'a> {
    pub(super) fn of(buffers: &'a Buffers) -> Conflicts<'a> {
        let lanes = buffers.lanes.len();
        let pairs = buffers.lanes.iter().flat_map(|lane| (0..lanes).map(move |l| (lane, l)));
        let tree = |(lane, l): (&Vec<u32>, usize)| {
            Tree::of(lane.iter().map(|&k| buffers.after(k as usize, l) as u32))
        };
        Conflicts { buffers, trees: pairs.map(tree).collect() }
    }

    /// Calls `found` with each buffer that may not share bytes with `k`.
    pub(super) fn each(&self, k: usize, mut found: impl FnMut(usize)) {
        let (own, position) = self.buffers.place[k];
        let lanes = self.buffers.lanes.len();
        for (l, lane) in self.buffers.lanes.iter().enumerate() {
            // Those before `k` is over, and not over before it.
            let until = self.buffers.after(k, l);
            let tree = &self.trees[l * lanes + own as usize];
            if l == own as usize {
                tree.each(position as usize, position, &mut |p| found(lane[p] as usize));
                lane[position as usize + 1..until].iter().for_each(|b| found(*b as usize));
            } else {
                tree.each(until, position, &mut |p| found(lane[p] as usize));
            }
        }
    }
}

/// The conflicts of all buffers, as lists.
#[derive(Debug)]
pub(super) struct Graph {
    starts: Vec<usize>,
    all: Vec<u32>,
}

impl Graph {
    pub(super) fn of(conflicts: &Conflicts<'_>) -> Graph {
        let mut graph = Graph { starts: vec![0], all: Vec::new() };
        for k in 0..conflicts.buffers.len() {
            conflicts.each(k, |other| graph.all.push(other as u32));
            graph.starts.push(graph.all.len());
        }
        graph
    }

    /// Returns the buffers that may not share bytes with `k`.
    pub(super) fn of_buffer(&self, k: usize) -> &[u32] {
        &self.all[self.starts[k]..self.starts[k + 1]]
    }
}
