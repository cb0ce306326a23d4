//! The plan of a pass: what it decides about a list.

use std::borrow::Cow;
use std::sync::Arc;

use millstream_types::{Result, StreamId, StreamMode};
use rustc_hash::FxHashSet;

use crate::list::StreamDecl;
use crate::passes::facts::Facts;
use crate::passes::rebuild::order::SideEffectOrder;
use crate::passes::rebuild::rebuild;
use crate::table::{Body, Instruction};
use crate::text::OpNames;

/// The old waits of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes) enum Waits {
    /// Each is emitted at its place, unless it is known there. Nothing of the order is lost; on a
    /// pool a wait may be there twice, for the program and for the data.
    Replayed,
    /// Each is requested again.
    Kept,
    /// Only the order of side effects is.
    Needed,
}

/// The placements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes) enum Memory {
    /// The old ones.
    Kept,
    /// New ones, found together.
    Planned,
}

/// The places at which tensors begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::passes) enum Lifetimes {
    /// Those of the steps that begin and release them.
    Kept,
    /// Right before the first use and right after the last. Tensors without a use are left out.
    Tight,
}

/// An instruction to be emitted.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::passes) struct Step<'a> {
    /// The index of the old instruction, whose origin it has.
    pub(in crate::passes) index: usize,
    /// Its kind and operands, with the old ids.
    pub(in crate::passes) body: Cow<'a, Body>,
    /// Its new stream, if it is not the one that [`Plan::stream_of`] gives.
    pub(in crate::passes) on: Option<StreamId>,
    /// Old instructions that it waits for besides.
    pub(in crate::passes) after: Vec<usize>,
}

/// The new list, as far as a pass decides it.
#[derive(Clone, Debug)]
pub(in crate::passes) struct Plan<'a> {
    /// The streams.
    pub(in crate::passes) streams: Vec<StreamDecl>,
    /// The new id of each old stream.
    pub(in crate::passes) stream_of: Vec<StreamId>,
    /// The ops.
    pub(in crate::passes) ops: OpNames,
    /// The instructions, in their order.
    pub(in crate::passes) steps: Vec<Step<'a>>,
    pub(in crate::passes) waits: Waits,
    pub(in crate::passes) memory: Memory,
    pub(in crate::passes) lifetimes: Lifetimes,
    /// Whether instructions have changed their streams or their order within them. Waits are not
    /// kept then.
    pub(in crate::passes) reordered: bool,
    /// Whether all waits are by the host, so that each names the very point that it is for.
    pub(in crate::passes) by_host: bool,
    /// Old instructions behind which an event is recorded, for the waits that find none newer.
    pub(in crate::passes) records: FxHashSet<usize>,
    /// For each instruction with a side effect, by index, the earlier side effects that it comes
    /// after.
    pub(in crate::passes) side_effects: Arc<SideEffectOrder>,
}

impl<'a> Plan<'a> {
    /// Returns the plan that changes nothing, with the order of side effects.
    ///
    /// # Errors
    /// The list is not one that the checker accepts.
    pub(in crate::passes) fn unchanged(facts: &Facts<'a>) -> Result<Plan<'a>> {
        let list = facts.list;
        let step = |(index, i): (usize, &'a Instruction)| Step {
            index,
            body: Cow::Borrowed(&i.body),
            on: None,
            after: Vec::new(),
        };
        let mut plan = Plan {
            streams: list.streams.clone(),
            stream_of: (0..list.streams.len()).map(|s| StreamId(s as u16)).collect(),
            ops: list.ops.clone(),
            steps: list.instructions.iter().enumerate().map(step).collect(),
            waits: Waits::Replayed,
            // Memory adds nothing to an order that the list's own waits express.
            memory: Memory::Planned,
            lifetimes: Lifetimes::Kept,
            reordered: false,
            by_host: false,
            records: FxHashSet::default(),
            side_effects: Arc::default(),
        };
        let side_effects =
            list.instructions.iter().filter(|i| facts.has_side_effect(&i.body)).count();
        if side_effects > 1 {
            plan.side_effects = Arc::new(rebuild(facts, &plan)?.order());
        }
        (plan.waits, plan.memory) = (Waits::Kept, Memory::Kept);
        Ok(plan)
    }

    /// Whether two side effects on one pool are in an order. A pool cannot wait for itself, so only
    /// the old waits, through other streams and to calls that share operands, can express it. A
    /// pass that removes or moves calls leaves such a list as it is.
    pub(in crate::passes) fn orders_within_pools(&self, facts: &Facts<'_>) -> bool {
        let pool_of = |index: usize| {
            let old = Facts::stream_of(&facts.list.instructions[index].body)?;
            let new = self.stream_of[old.index()];
            (self.streams[new.index()].mode == StreamMode::Pool).then_some(new)
        };
        self.side_effects.iter().any(|(&later, earlier)| {
            let pool = pool_of(later);
            pool.is_some() && earlier.iter().any(|&e| pool_of(e) == pool)
        })
    }
}
