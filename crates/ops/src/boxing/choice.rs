//! How a call is divided among the ranks, so that its operands move the fewest bytes.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{DType, Dims, Error, Mesh, NdSbp, Result, Sbp, Sharding, TensorSpec};

use crate::schema::{CallSpec, Op, OutputSpec, Signature};
use crate::sharding::{Parts, Way, Whole};

use super::path::path;

/// An operand of a call, as the ranks hold it.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The spec of the whole tensor.
    pub spec: &'a TensorSpec,
    /// How the ranks hold it.
    pub sharding: &'a Sharding,
}

/// How a call is divided among the ranks of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// How the call takes each operand.
    pub operands: Vec<Sharding>,
    /// How it returns each result.
    pub results: Vec<Sharding>,
    /// The way along each axis; `None` where all ranks make the same call.
    pub ways: Vec<Option<Way>>,
    /// The bytes that all ranks receive for the operands, and for the result if one was wanted.
    pub received: u64,
}

/// The search over candidates: the way of each axis by its number, with that of whole tensors
/// first, so that whole operands make whole results where nothing speaks for parts.
struct Search<'a> {
    mesh: &'a Mesh,
    operands: &'a [Operand<'a>],
    ways: Vec<Way>,
    /// The dtype and shape of each result.
    results: Vec<(DType, Dims)>,
    written: Vec<bool>,
    wanted: Option<&'a Sharding>,
    /// By operand, the cost of the paths so far; by the number of operands for the result.
    costs: Vec<FxHashMap<NdSbp, Option<u64>>>,
}

impl Choice {
    /// Returns the cheapest way to make a call on operands that the ranks of a mesh hold so: the
    /// one by which they receive the fewest bytes, then by which they change the fewest operands,
    /// then the call on whole tensors, then the first of the op's rule. An operand that the call
    /// writes keeps its sharding.
    /// `wanted` is the sharding of the first result, if the program requests one.
    ///
    /// # Errors
    /// The call writes an operand that is held in a way that the op cannot write.
    pub fn of(
        op: &dyn Op,
        call: CallSpec<'_>,
        signature: &Signature,
        mesh: &Mesh,
        operands: &[Operand<'_>],
        wanted: Option<&Sharding>,
    ) -> Result<Choice> {
        let ways = op.sharding(Whole { call, signature });
        let results = signature.outputs.iter().map(|output| match output {
            OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => {
                (spec.dtype, Dims::from_slice(spec.shape()))
            }
            OutputSpec::View { of, layout, dtype } => {
                let of = call.inputs[*of].dtype;
                (dtype.unwrap_or(of), Dims::from_slice(layout.shape()))
            }
            OutputSpec::Same(of) => {
                (call.inputs[*of].dtype, Dims::from_slice(call.inputs[*of].shape()))
            }
        });
        let mut search = Search {
            mesh,
            operands,
            ways,
            results: results.collect(),
            written: signature.accesses.iter().map(|access| access.writes()).collect(),
            wanted,
            costs: vec![FxHashMap::default(); operands.len() + 1],
        };
        let mut best: Option<(u64, usize, Choice)> = None;
        let count = search.ways.len() + 1;
        for number in 0..count.pow(mesh.rank() as u32) {
            // The first axis is the most significant digit.
            let digit = |axis: usize| number / count.pow((mesh.rank() - 1 - axis) as u32) % count;
            let picked: SmallVec<[usize; 3]> = (0..mesh.rank()).map(digit).collect();
            let Some((received, changed, choice)) = search.candidate(&picked) else { continue };
            let is_better = best
                .as_ref()
                .is_none_or(|(least, fewest, _)| (received, changed) < (*least, *fewest));
            if is_better {
                best = Some((received, changed, choice));
            }
        }
        best.map(|(.., choice)| choice).ok_or_else(|| search.refused(op.name()))
    }
}

impl Search<'_> {
    /// Returns the cost of a candidate and the number of operands that it changes.
    fn candidate(&mut self, picked: &[usize]) -> Option<(u64, usize, Choice)> {
        let all = std::mem::take(&mut self.ways);
        let found =
            self.candidate_of(picked.iter().map(|k| k.checked_sub(1).map(|k| &all[k])).collect());
        self.ways = all;
        found
    }

    fn candidate_of(&mut self, ways: Vec<Option<&Way>>) -> Option<(u64, usize, Choice)> {
        let held = |of: &dyn Fn(&Way) -> Option<Sbp>| -> Option<Sharding> {
            let sbp: Option<NdSbp> =
                ways.iter().map(|way| way.map_or(Some(Sbp::Broadcast), of)).collect();
            Sharding::new(self.mesh, sbp?).ok()
        };
        let operands: Option<Vec<Sharding>> =
            (0..self.operands.len()).map(|k| held(&|way| way.operands.get(k).copied())).collect();
        let results: Option<Vec<Sharding>> =
            (0..self.results.len()).map(|k| held(&|way| way.results.get(k).copied())).collect();
        let (operands, results) = (operands?, results?);
        let shapes = self.operands.iter().map(|operand| operand.spec.shape());
        let of_results = self.results.iter().map(|(_, shape)| &shape[..]);
        for (sharding, shape) in operands.iter().zip(shapes).chain(results.iter().zip(of_results)) {
            fits(sharding, shape, &ways)?;
        }
        let dtypes = self.operands.iter().map(|operand| (operand.spec.dtype, operand.spec.shape()));
        let of_results = self.results.iter().map(|(dtype, shape)| (*dtype, &shape[..]));
        let all = operands.iter().zip(dtypes).chain(results.iter().zip(of_results));
        for (sharding, (dtype, shape)) in all {
            sharding.check(dtype, shape).ok()?;
        }
        let (mut received, mut changed) = (0, 0);
        for (k, target) in operands.iter().enumerate() {
            let Operand { spec, sharding } = self.operands[k];
            if target == sharding {
                continue;
            }
            if self.written[k] {
                return None;
            }
            changed += 1;
            received += self.cost(k, spec.shape(), sharding, target, spec.dtype)?;
        }
        if let (Some(wanted), [result, ..]) = (self.wanted, &results[..])
            && wanted != result
        {
            let (dtype, shape) = self.results[0].clone();
            changed += 1;
            received += self.cost(self.operands.len(), &shape, result, wanted, dtype)?;
        }
        let ways = ways.into_iter().map(Option::<&Way>::cloned).collect();
        Some((received, changed, Choice { operands, results, ways, received }))
    }

    /// Returns the bytes that a path moves, remembered by the sharding that differs.
    fn cost(
        &mut self,
        slot: usize,
        shape: &[usize],
        from: &Sharding,
        to: &Sharding,
        dtype: DType,
    ) -> Option<u64> {
        let key = if slot < self.operands.len() { to } else { from };
        if let Some(known) = self.costs[slot].get(key.sbp()) {
            return *known;
        }
        let cost = path(dtype, shape, from, to).map(|path| path.received * dtype.size() as u64);
        self.costs[slot].insert(key.sbp().into(), cost);
        cost
    }

    fn refused(&self, op: &str) -> Error {
        let held = self.operands.iter().zip(&self.written).enumerate();
        let held = held.filter(|(_, (_, is_written))| **is_written).map(|(k, (operand, _))| {
            format!("operand {k}, {}, held as {}", operand.spec.brief(), operand.sharding)
        });
        let message = format!(
            "it cannot change {} in place; redistribute it to B first, or call the op that returns \
             a new tensor",
            held.collect::<Vec<_>>().join(" and ")
        );
        Error::Op { op: op.to_owned(), message }
    }
}

/// Returns nothing unless the parts of a tensor are as its ways require.
fn fits(sharding: &Sharding, shape: &[usize], ways: &[Option<&Way>]) -> Option<()> {
    for (sbp, way) in sharding.sbp().iter().zip(ways) {
        let (Some(dim), Some(way)) = (sbp.dim(), way) else { continue };
        let length = *shape.get(dim)?;
        let axes = sharding.sbp().iter().zip(sharding.mesh().shape());
        let parts: usize =
            axes.filter(|(other, _)| **other == *sbp).map(|(_, ranks)| *ranks).product();
        let is_fit = match way.parts {
            Parts::Any => true,
            Parts::NotEmpty => length >= parts,
            Parts::Equal => length.is_multiple_of(parts),
            Parts::Groups(groups) => groups.is_multiple_of(parts),
        };
        if !is_fit {
            return None;
        }
    }
    Some(())
}
