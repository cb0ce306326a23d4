//! Orders in which buffers are placed one after another, each into a gap between the placed ones
//! that it may not share bytes with.
//!
//! By size and the smallest gap: Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
//! Inference", 2020, section 5.2, as in TensorFlow Lite's `greedy_by_size`. The others are the
//! orders that Sekiyama et al., "Profile-guided memory optimization for deep neural networks",
//! 2018, and MiniMalloc's authors compare: by the time that a buffer lives, by the bytes that it is
//! in conflict with, and in the order of the beginnings.

use std::cmp::Reverse;

use super::buffers::{Buffers, Conflicts};

/// An order of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The largest first.
    Size,
    /// Those with the most bytes in conflict first.
    Conflicts,
    /// Those in conflict with most others first: in a sequence, those that live longest.
    Duration,
    /// In the order of their beginnings.
    Begin,
}

millstream_types::names! {
    Order: Size "size", Conflicts "conflicts", Duration "duration", Begin "begin"
}

impl Order {
    /// Returns the buffers in this order.
    fn sorted(self, buffers: &Buffers, weights: &[Weight]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..buffers.len() as u32).collect();
        match self {
            Order::Size => order.sort_by_key(|&k| Reverse(buffers.bytes[k as usize])),
            Order::Conflicts => order.sort_by_key(|&k| Reverse(weights[k as usize].bytes)),
            Order::Duration => order.sort_by_key(|&k| Reverse(weights[k as usize].count)),
            Order::Begin => {}
        }
        order
    }
}

/// The conflicts of a buffer: how many, and the bytes of all together.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    count: u32,
    bytes: u64,
}

/// Offsets, and the end of the highest buffer.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) offsets: Vec<u64>,
    pub(super) bytes: u64,
}

/// The number of conflicts that are examined for few buffers, and for each one of many. Buffers of
/// which nearly all live at once have the square of their number, and little to share.
const MOST_EXAMINED: (u64, u64) = (32 << 20, 64);

/// The orders, and what they have cost so far.
#[derive(Debug)]
pub(super) struct Portfolio<'a> {
    buffers: &'a Buffers,
    conflicts: &'a Conflicts<'a>,
    /// The number of conflicts that may still be examined.
    left: u64,
    /// The number of conflicts of all buffers; each is counted twice.
    pub(super) pairs: u64,
}

impl<'a> Portfolio<'a> {
    pub(super) fn of(buffers: &'a Buffers, conflicts: &'a Conflicts<'a>) -> Portfolio<'a> {
        let left = MOST_EXAMINED.0.max(MOST_EXAMINED.1 * buffers.len() as u64);
        Portfolio { buffers, conflicts, left, pairs: 0 }
    }

    /// Returns the best offsets of all orders, up to the first that reaches `bound`; none if there
    /// are too many conflicts. Orders after the first are left out where there are many.
    pub(super) fn best(&mut self, bound: u64) -> Option<(Placed, Order)> {
        let (mut best, mut order) =
            (self.place(Order::Size.sorted(self.buffers, &[]))?, Order::Size);
        if best.bytes <= bound || self.left < self.pairs {
            return Some((best, order));
        }
        let weights = self.weights();
        for other in [Order::Conflicts, Order::Duration, Order::Begin] {
            if best.bytes <= bound {
                break;
            }
            if let Some(placed) = self.place(other.sorted(self.buffers, &weights))
                && placed.bytes < best.bytes
            {
                (best, order) = (placed, other);
            }
        }
        Some((best, order))
    }

    fn weights(&mut self) -> Vec<Weight> {
        self.left = self.left.saturating_sub(self.pairs);
        let mut weights = vec![Weight::default(); self.buffers.len()];
        for (k, weight) in weights.iter_mut().enumerate() {
            self.conflicts.each(k, |other| {
                weight.count += 1;
                weight.bytes += self.buffers.bytes[other];
            });
        }
        weights
    }

    /// Places buffers in an order; none if there are too many conflicts.
    fn place(&mut self, order: Vec<u32>) -> Option<Placed> {
        const OPEN: u64 = u64::MAX;
        let bytes = &self.buffers.bytes;
        let mut offsets = vec![OPEN; bytes.len()];
        // The placed buffers that one is in conflict with: where each lies, and its end.
        let mut found: Vec<(u64, u64)> = Vec::new();
        let (mut highest, mut pairs) = (0, 0);
        for k in order {
            let (k, want) = (k as usize, bytes[k as usize]);
            found.clear();
            self.conflicts.each(k, |other| {
                pairs += 1;
                if offsets[other] != OPEN {
                    found.push((offsets[other], offsets[other] + bytes[other]));
                }
            });
            if pairs > self.left {
                self.left = 0;
                return None;
            }
            found.sort_unstable();
            let (mut end, mut best) = (0, None::<(u64, u64)>);
            for &(at, to) in &found {
                if at > end && at - end >= want && best.is_none_or(|(gap, _)| at - end < gap) {
                    best = Some((at - end, end));
                }
                end = end.max(to);
            }
            offsets[k] = best.map_or(end, |(_, at)| at);
            highest = highest.max(offsets[k] + want);
        }
        self.left -= pairs;
        self.pairs = pairs;
        Some(Placed { offsets, bytes: highest })
    }
}
