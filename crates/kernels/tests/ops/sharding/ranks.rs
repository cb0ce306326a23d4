//! The calls that ranks make on their parts.

use std::collections::BTreeMap;
use std::ops::Range;

use millstream_ops::sharding::{Divisor, Local, Way, local_attrs, local_op};
use millstream_testing::kernels::Num::{self, Int};
use millstream_testing::kernels::reference::Call;
use millstream_testing::kernels::{Tensor, call, signature};
use millstream_types::{Access, Attrs, Coordinates, Mesh, Reduction, Sharding};

use super::parts::{Whole, assembled, cut, decomposed, dense, quotient, reduced};

/// The results of a call, and the operands after it.
pub(super) struct Outcome {
    pub(super) results: Vec<Tensor>,
    pub(super) operands: Vec<Tensor>,
}

/// What the ranks have together.
pub(super) struct Assembled {
    pub(super) results: Vec<Whole>,
    /// The operands that the call changed.
    pub(super) operands: Vec<Option<Whole>>,
    /// Whether operands were partial or results were divided, so that all results are rounded.
    pub(super) is_rounded: bool,
}

pub(super) fn run_whole(of: &Call) -> Result<Outcome, String> {
    run(&of.op, of.inputs.iter().map(dense).collect(), &of.attrs)
}

fn run(op: &str, operands: Vec<Tensor>, attrs: &Attrs) -> Result<Outcome, String> {
    let given: Vec<&Tensor> = operands.iter().collect();
    let results = call(op, &given, attrs)?.iter().map(dense).collect();
    Ok(Outcome { results, operands })
}

/// A call divided among the ranks of a mesh.
pub(super) struct Divided<'a> {
    pub(super) call: &'a Call,
    pub(super) mesh: &'a Mesh,
    pub(super) ways: &'a [&'a Way],
    pub(super) operands: &'a [Sharding],
    pub(super) results: &'a [Sharding],
}

impl Divided<'_> {
    fn places(&self) -> Vec<Coordinates> {
        (0..self.mesh.ranks().len()).map(|at| self.mesh.coordinates_at(at)).collect()
    }

    /// Returns a rank's part of an operand.
    fn operand(&self, k: usize, at: &Coordinates) -> Tensor {
        let (x, sharding) = (&self.call.inputs[k], &self.operands[k]);
        let partial = |axis: &usize| sharding.sbp()[*axis].reduction();
        let axes: Vec<usize> =
            (0..self.mesh.rank()).filter(|axis| partial(axis).is_some()).collect();
        let fold = |of: &dyn Fn(usize) -> usize| {
            axes.iter().fold((1, 0), |(count, own), axis| {
                let length = self.mesh.shape()[*axis];
                (count * length, own * length + of(*axis))
            })
        };
        let (count, own) = fold(&|axis| at[axis]);
        let held = match axes.first().and_then(partial) {
            Some(by) => decomposed(x, by, count, 3 * k + 1).swap_remove(own),
            None => dense(x),
        };
        cut(&held, &sharding.part(x.shape(), at))
    }

    /// Makes a rank's calls.
    fn local(&self, whole: &Outcome, at: &Coordinates) -> Result<Outcome, String> {
        let locals: Vec<&Local> = self.ways.iter().map(|way| &way.local).collect();
        let (part, shape) = match (self.results.first(), whole.results.first()) {
            (Some(sharding), Some(result)) => (sharding.part(result.shape(), at), result.shape()),
            _ => Default::default(),
        };
        let others = |local: &&&Local| {
            matches!(
                local,
                Local::Args(_) | Local::Groups(..) | Local::Op { .. } | Local::MeanOf { .. }
            )
        };
        let mut others = locals.iter().filter(others);
        if let (Some(a), Some(b)) = (others.next(), others.next()) {
            assert_eq!(a, b, "{}: ways do not combine", self.call.op);
        }
        let attrs = local_attrs(&locals, &self.call.attrs, &part, shape);
        let op = local_op(&locals, &self.call.op);
        let mut operands: Vec<Tensor> =
            (0..self.call.inputs.len()).map(|k| self.operand(k, at)).collect();
        let rows = locals.iter().find_map(|local| match local {
            Local::Rows { indices, table } => Some((*indices, *table)),
            _ => None,
        });
        let Some((indices, table)) = rows else { return run(op, operands, &attrs) };
        // Other ranks' rows count as zeros.
        let own = self.operands[table].part(self.call.inputs[table].shape(), at)[0].clone();
        let within = |v: &Num| matches!(v, Int(v) if own.contains(&(*v as usize)));
        let numbers = operands[indices].values();
        let local = numbers.iter().map(|v| match v {
            Int(v) if within(&Int(*v)) => Int(*v - own.start as i128),
            _ => Int(0),
        });
        let x = &operands[indices];
        let local: Vec<Num> = local.collect();
        operands[indices] = match local.is_empty() {
            true => dense(x),
            false => Tensor::dense(x.spec.dtype, x.shape(), &local),
        };
        let outcome = run(op, operands, &attrs)?;
        let result = &outcome.results[0];
        let width = result.shape().last().copied().unwrap_or(1).max(1);
        for (k, index) in millstream_testing::kernels::indices(result.shape()).enumerate() {
            if !within(&numbers[k / width]) {
                result.set(&index, millstream_testing::kernels::rounded(Int(0), result.spec.dtype));
            }
        }
        Ok(outcome)
    }

    /// Assembles what all ranks have of a tensor of this shape.
    fn gathered(
        &self,
        sharding: &Sharding,
        shape: &[usize],
        of: &[(Coordinates, &Tensor)],
    ) -> Result<Whole, String> {
        let mut parts: BTreeMap<Vec<(usize, usize)>, Vec<Tensor>> = BTreeMap::new();
        let mut whole_ranks: BTreeMap<Vec<usize>, Tensor> = BTreeMap::new();
        let mut by = Reduction::Sum;
        for (at, tensor) in of {
            let ranges = sharding.part(shape, at);
            let expected: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
            if tensor.shape() != expected {
                return Err(format!("{at:?} has {}, expected {expected:?}", tensor.spec.brief()));
            }
            // Ranks along axes on which all have all elements have the same.
            let copies = |axis: &usize| {
                *axis < at.len() && { sharding.sbp()[*axis] != millstream_types::Sbp::Broadcast }
            };
            let key: Vec<usize> =
                (0..at.len()).map(|axis| if copies(&axis) { at[axis] } else { 0 }).collect();
            match whole_ranks.get(&key) {
                Some(other) if other.bytes() == tensor.bytes() => continue,
                Some(_) => return Err(format!("{at:?} has another copy than other ranks")),
                None => whole_ranks.insert(key, (*tensor).clone()),
            };
            by = sharding.sbp().iter().find_map(|sbp| sbp.reduction()).unwrap_or(by);
            let place = ranges.iter().map(|range| (range.start, range.end)).collect();
            parts.entry(place).or_default().push(dense(tensor));
        }
        let ranges = |place: Vec<(usize, usize)>| -> Vec<Range<usize>> {
            place.into_iter().map(|(start, end)| start..end).collect()
        };
        let parts: Vec<_> =
            parts.into_iter().map(|(place, of)| (ranges(place), reduced(&of, by))).collect();
        Ok(assembled(shape, parts))
    }

    /// Makes the calls of all ranks and assembles their results.
    pub(super) fn run(&self, whole: &Outcome) -> Result<Assembled, String> {
        let places = self.places();
        let outcomes = places.iter().map(|at| {
            self.local(whole, at).map_err(|why| format!("at {at:?}: {why} ({:?})", self.ways))
        });
        let outcomes: Vec<Outcome> = outcomes.collect::<Result<_, _>>()?;
        let at =
            |of: &dyn Fn(&Outcome) -> Tensor| -> Vec<Tensor> { outcomes.iter().map(of).collect() };
        let gather = |sharding: &Sharding, shape: &[usize], tensors: Vec<Tensor>| {
            let all: Vec<_> = places.iter().cloned().zip(&tensors).collect();
            self.gathered(sharding, shape, &all)
        };
        let mut results = Vec::new();
        for (k, expected) in whole.results.iter().enumerate() {
            let tensors = at(&|outcome| outcome.results[k].clone());
            results.push(gather(&self.results[k], expected.shape(), tensors)?);
        }
        let given: Vec<&Tensor> = self.call.inputs.iter().collect();
        let accesses = signature(&self.call.op, &given, &self.call.attrs)?.accesses;
        let mut operands = Vec::new();
        for (k, expected) in whole.operands.iter().enumerate() {
            let tensors = at(&|outcome| outcome.operands[k].clone());
            operands.push(match accesses[k] {
                Access::Read => None,
                _ => Some(gather(&self.operands[k], expected.shape(), tensors)?),
            });
        }
        let mean = self.ways.iter().find_map(|way| match &way.local {
            Local::MeanOf { count, .. } => Some(count),
            _ => None,
        });
        if let Some(count) = mean {
            let count = match count {
                Divisor::Count(count) => *count,
                Divisor::Result(of) => match results[*of].tensor.get(&[]) {
                    Num::Float(count) => count,
                    Int(count) => count as f64,
                },
            };
            results[0] = quotient(&results[0], count);
        }
        let is_partial =
            self.operands.iter().any(|s| s.sbp().iter().any(|s| s.reduction().is_some()));
        Ok(Assembled { results, operands, is_rounded: mean.is_some() || is_partial })
    }
}
