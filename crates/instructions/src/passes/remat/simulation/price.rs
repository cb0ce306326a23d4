//! The prices of evictions, and what they depend on. Values hold until the set of live buffers
//! changes; they are computed when they are asked for.

use super::{Mark, Run};
use crate::passes::remat::program::{Buffer, Writer};

/// The price of an eviction: the cost of computing the buffer again, divided by its bytes and by a
/// power of a time. The buffer of the least price is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes::remat) struct Rule {
    pub(in crate::passes::remat) cost: Cost,
    pub(in crate::passes::remat) distance: Distance,
    /// The power of the time. Only roots and squares: they are exact on every computer.
    pub(in crate::passes::remat) power: Power,
    /// Whether no more bytes count than are wanted.
    pub(in crate::passes::remat) fits: bool,
}

/// A power of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes::remat) enum Power {
    Half,
    One,
    Two,
}

impl Power {
    fn of(self, time: f64) -> f64 {
        match self {
            Power::Half => time.sqrt(),
            Power::One => time,
            Power::Two => time * time,
        }
    }
}

/// The cost of computing a buffer again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes::remat) enum Cost {
    /// With that of the evicted buffers which it is computed from.
    Inputs,
    /// With that of the evicted buffers computed from it, too: DTR's neighbours.
    Neighbours,
}

/// The time that an eviction frees memory for, by estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes::remat) enum Distance {
    /// The time since the last use: DTR's staleness.
    SinceUse,
    /// The time until the next use.
    UntilUse,
}

/// The factor of the price of a buffer that is to be kept: it is evicted after all others.
const LAST: f64 = 1e12;

/// A value that holds until the set of live buffers changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memo<T> {
    version: u64,
    value: T,
}

/// The steps that need a buffer, directly or to compute evicted buffers again: the first and the
/// last of those known. `None` if none does.
pub(super) type Need = Option<(usize, usize)>;

impl<'a> Run<'_, 'a> {
    /// Returns the price of evicting a buffer where so many bytes are wanted; none if it must stay.
    pub(super) fn price(&mut self, b: usize, wanted: u64) -> Option<f64> {
        let Some((first, _)) = self.need(b) else {
            // What nobody needs goes first; what evicted buffers might be computed from, later.
            return Some(if self.recipe(b).is_none() { -1.0 } else { -2.0 });
        };
        if !self.may_evict(b) {
            return None;
        }
        let cost = match self.rule.cost {
            Cost::Inputs => self.above(b),
            Cost::Neighbours => self.above(b) + self.below(b),
        };
        let time = match self.rule.distance {
            Distance::SinceUse => self.clock - self.touched[b],
            Distance::UntilUse => {
                self.runner.starts[first].saturating_sub(self.runner.starts[self.step])
            }
        };
        let bytes = self.buffer(b).bytes;
        let bytes = if self.rule.fits { bytes.min(wanted) } else { bytes };
        let gap = self.marks.gap(b, self.uses[b]);
        let is_kept = self.marks.all[gap] == Mark::Keep || first == self.step;
        let last = if is_kept { LAST } else { 1.0 };
        Some(last * cost as f64 / (bytes as f64 * self.rule.power.of((time + 1) as f64)))
    }

    /// Whether a buffer can be computed again whenever it is needed.
    pub(super) fn may_evict(&mut self, b: usize) -> bool {
        let Some((_, last)) = self.need(b) else { return true };
        self.deadline(b) >= last
    }

    /// Returns the writers of a buffer's content; none if they cannot be called again.
    fn recipe(&self, b: usize) -> Option<&'a [Writer]> {
        self.buffer(b).recipe(self.written[b])
    }

    fn buffer(&self, b: usize) -> &'a Buffer {
        &self.runner.program.buffers[b]
    }

    /// Returns the time of a buffer's own writers.
    fn own(&self, b: usize) -> u64 {
        let writers = self.recipe(b).unwrap_or_default();
        writers.iter().map(|w| self.runner.program.steps[w.step].time).sum()
    }

    /// Returns the evicted buffers that are computed from a buffer.
    fn evicted_child(&self, b: usize, at: usize) -> Option<usize> {
        let (child, number) = self.runner.children[b][at];
        let written = self.written[child];
        let first = self.buffer(child).writers[..written].last()?.first?;
        (!self.live[child] && (first..written).contains(&number)).then_some(child)
    }

    /// Returns the bytes of the largest buffer that is made to compute a buffer again.
    pub(super) fn largest(&mut self, b: usize) -> u64 {
        if self.largest[b].version == self.version {
            return self.largest[b].value;
        }
        let mut largest = self.buffer(b).bytes;
        for &input in self.recipe(b).unwrap_or_default().iter().flat_map(|w| &w.inputs) {
            if !self.live[input] {
                largest = largest.max(self.largest(input));
            }
        }
        self.largest[b] = Memo { version: self.version, value: largest };
        largest
    }

    pub(super) fn need(&mut self, b: usize) -> Need {
        if self.needs[b].version == self.version {
            return self.needs[b].value;
        }
        let own = self.buffer(b).uses.get(self.uses[b]).copied();
        let mut need = own.map(|step| (step, step));
        for at in 0..self.runner.children[b].len() {
            if let Some(child) = self.evicted_child(b, at)
                && let Some((first, last)) = self.need(child)
            {
                let (f, l) = need.unwrap_or((first, last));
                need = Some((f.min(first), l.max(last)));
            }
        }
        self.needs[b] = Memo { version: self.version, value: need };
        need
    }

    /// Returns the last step before which a buffer can be computed again, with all of its inputs
    /// that are not live.
    fn deadline(&mut self, b: usize) -> usize {
        if self.deadlines[b].version == self.version {
            return self.deadlines[b].value;
        }
        let recipe = self.recipe(b).unwrap_or_default();
        let mut deadline = recipe.last().map_or(0, |last| last.deadline);
        for &input in recipe.iter().flat_map(|writer| &writer.inputs) {
            if !self.live[input] {
                deadline = deadline.min(self.deadline(input));
            }
        }
        self.deadlines[b] = Memo { version: self.version, value: deadline };
        deadline
    }

    /// Returns the time to compute a buffer again, with its inputs that are not live.
    fn above(&mut self, b: usize) -> u64 {
        if self.above[b].version == self.version {
            return self.above[b].value;
        }
        let mut cost = self.own(b);
        for &input in self.recipe(b).unwrap_or_default().iter().flat_map(|w| &w.inputs) {
            if !self.live[input] {
                cost = cost.saturating_add(self.above(input));
            }
        }
        self.above[b] = Memo { version: self.version, value: cost };
        cost
    }

    /// Returns the time to compute the evicted buffers again that are computed from a buffer.
    fn below(&mut self, b: usize) -> u64 {
        if self.below[b].version == self.version {
            return self.below[b].value;
        }
        let mut cost: u64 = 0;
        for at in 0..self.runner.children[b].len() {
            if let Some(child) = self.evicted_child(b, at)
                && self.need(child).is_some()
            {
                cost = cost.saturating_add(self.own(child));
                cost = cost.saturating_add(self.below(child));
            }
        }
        self.below[b] = Memo { version: self.version, value: cost };
        cost
    }
}
