//! Offsets for buffers whose lifetimes are known: no two that may live at one time share bytes, and
//! all end as low as can be found.
//!
//! The problem is that of dynamic storage allocation with known requests, which is NP-hard (Garey &
//! Johnson, 1979, SR2). Most lists of instructions are easy: placed by size, their buffers need no
//! more than those that live at one time. Where they do need more, other orders are tried, and then
//! a search, which ends when it has reached a lower bound or used up its *nodes*. No time is
//! measured: offsets are a function of the buffers.
//!
//! ```
//! use millstream_instructions::passes::offsets::{Effort, Interval, plan};
//!
//! let buffer = |begin, end, bytes| Interval { begin, end, bytes };
//! // The second buffer may lie where the first and a part of the third do not.
//! let buffers = [buffer(0, 2, 100), buffer(1, 4, 50), buffer(2, 5, 80)];
//! let plan = plan(&buffers, Effort::Usual).expect("few buffers");
//! assert_eq!((plan.bytes, plan.bound), (150, 150));
//! assert_eq!(plan.offsets, [0, 100, 0]);
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `buffers` | buffers, their order, and their conflicts |
//! | `bound` | the bytes that they need at least |
//! | `portfolio` | orders in which they are placed one by one |
//! | `search` | the search for offsets below a limit |
//! | `exact` | limits and ranks for searches |

mod bound;
mod buffers;
mod exact;
mod portfolio;
mod search;
#[cfg(test)]
mod tests;

use std::fmt;

use bound::Sections;
use buffers::{Conflicts, Graph};
use exact::Best;
use portfolio::Portfolio;

pub(in crate::passes) use buffers::Buffers;
pub use buffers::Interval;
pub use portfolio::Order;

/// How long a search for offsets may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effort {
    /// No search: buffers are placed in some orders, and the best result is taken.
    Fast,
    /// At most 400,000 nodes, and fewer where there are more than 300 buffers: some seconds.
    #[default]
    Usual,
    /// Sixteen times as many: up to a minute.
    Exact,
}

millstream_types::names! { Effort, "effort": Fast "fast", Usual "usual", Exact "exact" }

impl Effort {
    /// Returns the most nodes of searches for this number of buffers.
    fn nodes(self, buffers: usize) -> u64 {
        const USUAL: u64 = 400_000;
        let usual = USUAL.min(300 * USUAL / buffers.max(1) as u64);
        match self {
            Effort::Fast => 0,
            Effort::Usual => usual,
            Effort::Exact => 16 * usual,
        }
    }
}

/// What found some offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solver {
    /// Placing buffers one by one in this order.
    Order(Order),
    /// The search.
    Search,
}

impl fmt::Display for Solver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Solver::Order(order) => order.name(),
            Solver::Search => "search",
        })
    }
}

/// Offsets of buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The offset of each buffer.
    pub offsets: Vec<u64>,
    /// The end of the highest one.
    pub bytes: u64,
    /// The bytes that no offsets go below: those of buffers that all live at one time, or what the
    /// search has proven.
    pub bound: u64,
    /// What found them.
    pub solver: Solver,
    /// The nodes of the search; 0 if there was none.
    pub nodes: u64,
}

/// The number of buffers, and of pairs in conflict, up to which there is a search.
const MOST_SEARCHED: (usize, u64) = (8192, 4 << 20);

/// Returns offsets of buffers in a sequence; none if so many of them live at one time that to place
/// them would take too long, or if their bytes exceed all numbers.
///
/// A buffer that is over before it begins shares no bytes with those that live where it begins.
pub fn plan(intervals: &[Interval], effort: Effort) -> Option<Offsets> {
    let has_bytes = |k: &u32| intervals[*k as usize].bytes > 0;
    let mut order: Vec<u32> = (0..intervals.len() as u32).filter(has_bytes).collect();
    order.sort_by_key(|&k| intervals[k as usize].begin);
    let sorted: Vec<Interval> = order.iter().map(|&k| intervals[k as usize]).collect();
    let planned = plan_buffers(&Buffers::of_sequence(&sorted), effort)?;
    Some(planned.renumbered(&order, intervals.len()))
}

/// Returns offsets of buffers in any order, all of which have bytes; or none, as [`plan`].
pub(in crate::passes) fn plan_buffers(buffers: &Buffers, effort: Effort) -> Option<Offsets> {
    if buffers.lanes.len() > 1
        && let Some((sequence, order)) = buffers.as_sequence()
    {
        return Some(plan_lanes(&sequence, effort)?.renumbered(&order, order.len()));
    }
    plan_lanes(buffers, effort)
}

fn plan_lanes(buffers: &Buffers, effort: Effort) -> Option<Offsets> {
    buffers.bytes.iter().try_fold(0u64, |all, &bytes| all.checked_add(bytes))?;
    let (conflicts, sections) = (Conflicts::of(buffers), Sections::of(buffers));
    let mut portfolio = Portfolio::of(buffers, &conflicts);
    let (placed, order) = portfolio.best(sections.most())?;
    let mut best = Best { placed, bound: sections.most(), nodes: 0, is_searched: false };
    if best.placed.bytes > best.bound && buffers.lanes.len() > 1 {
        best.bound = best.bound.max(bound::antichain(buffers).unwrap_or(0));
    }
    let is_small = buffers.len() <= MOST_SEARCHED.0 && portfolio.pairs <= MOST_SEARCHED.1;
    let nodes = effort.nodes(buffers.len());
    if best.placed.bytes > best.bound && is_small && nodes > 0 {
        exact::improve(buffers, &Graph::of(&conflicts), &sections, &mut best, nodes);
    }
    Some(Offsets {
        offsets: best.placed.offsets,
        bytes: best.placed.bytes,
        bound: best.bound,
        solver: if best.is_searched { Solver::Search } else { Solver::Order(order) },
        nodes: best.nodes,
    })
}

impl Offsets {
    /// Returns the offsets for `count` buffers of which `order` names those that these are for.
    fn renumbered(self, order: &[u32], count: usize) -> Offsets {
        let mut offsets = vec![0; count];
        for (&k, at) in order.iter().zip(&self.offsets) {
            offsets[k as usize] = *at;
        }
        Offsets { offsets, ..self }
    }
}
