//! The order of side effects.

use millstream_types::{Point, Result, StreamId, StreamMode};
use rustc_hash::FxHashMap;

use crate::frontier::Frontier;
use crate::passes::rebuild::plan::Step;
use crate::passes::rebuild::{Emitter, Rebuilt};
use crate::table::Body;

/// For each instruction with a side effect, by index, those that it came after in the old list.
/// For each observation of the host, those that it was behind.
pub(in crate::passes) type SideEffectOrder = FxHashMap<usize, Vec<usize>>;

/// An instruction with a side effect, or an observation of the host, emitted again.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    /// The index of the old one.
    pub(super) index: usize,
    /// The point of a side effect.
    pub(super) at: Option<Point>,
    /// The points that it comes after.
    pub(super) knows: Frontier,
    /// The last point of its own stream, if that is a pool, that a fence is behind.
    pub(super) fenced: u64,
}

impl Rebuilt {
    /// Returns the order of the side effects, if the list was rebuilt unchanged.
    pub(super) fn order(&self) -> SideEffectOrder {
        let mut on: FxHashMap<StreamId, Vec<(u64, usize)>> = FxHashMap::default();
        let mut order = SideEffectOrder::default();
        for &Passed { index, at, ref knows, fenced } in &self.side_effects {
            let mut earlier: Vec<usize> = Vec::new();
            for point in knows.iter() {
                let Some(before) = on.get(&point.stream) else { continue };
                let known = &before[..before.partition_point(|(seq, _)| *seq <= point.seq)];
                let decl = &self.list.streams[point.stream.index()];
                match decl.mode {
                    // The last one comes after the others.
                    StreamMode::InOrder => earlier.extend(known.last().map(|(_, k)| *k)),
                    // Those behind a fence stay behind it.
                    StreamMode::Pool => {
                        let is_own = at.is_some_and(|at| at.stream == point.stream);
                        let fenced = if is_own { fenced } else { 0 };
                        let open = known.iter().filter(|(seq, _)| *seq > fenced);
                        earlier.extend(open.map(|(_, k)| *k));
                    }
                }
            }
            earlier.sort_unstable();
            order.insert(index, earlier);
            if let Some(at) = at {
                on.entry(at.stream).or_default().push((at.seq, index));
            }
        }
        order
    }
}

impl Emitter<'_> {
    /// Returns the points that the plan and the order of side effects have a step wait for.
    pub(super) fn points_before(&self, step: &Step<'_>) -> Vec<Point> {
        let side_effects = self.plan.side_effects.get(&step.index).map_or(&[][..], Vec::as_slice);
        let before = step.after.iter().chain(side_effects);
        before.filter_map(|k| self.points.get(k).copied()).collect()
    }

    /// Returns the points that the instruction at `at` comes after. The waits before it begin at
    /// the instruction `first`.
    pub(super) fn knowledge(
        &mut self,
        step: &Step<'_>,
        at: Point,
        first: usize,
    ) -> Result<Frontier> {
        if self.plan.streams[at.stream.index()].mode == StreamMode::InOrder {
            return Ok(self.builder.passed_with(at));
        }
        // On a pool: the fences, its own waits, and those of instructions that share an operand.
        let mut knows = self.builder.clock_of(at.stream)?;
        knows.join(&self.bound.remove(&at.stream).unwrap_or_default());
        for instruction in &self.sink.instructions[first..] {
            if let Body::StreamWaitEvent { at: wait, until, .. } = &instruction.body
                && wait.stream == at.stream
            {
                knows.join(&self.builder.passed_with(*until));
            }
        }
        knows.join(&self.edges(step, at.stream));
        for operand in step.body.operands() {
            let storage = self.facts.storage_of(operand.tensor);
            let shared = self.in_pools.entry((storage, at.stream)).or_default();
            shared[usize::from(!operand.access.writes())].join(&knows);
        }
        Ok(knows)
    }

    /// Returns the points that a step comes after on a pool because it shares operands with earlier
    /// instructions of the pool.
    pub(super) fn edges(&self, step: &Step<'_>, pool: StreamId) -> Frontier {
        let mut knows = Frontier::new();
        for operand in step.body.operands() {
            let storage = self.facts.storage_of(operand.tensor);
            if let Some([writers, readers]) = self.in_pools.get(&(storage, pool)) {
                knows.join(writers);
                if operand.access.writes() {
                    knows.join(readers);
                }
            }
        }
        knows
    }
}
