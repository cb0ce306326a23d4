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

/// A choice that was made for a whole program: how a call takes its operands and returns its
/// results.
#[derive(Clone, Debug, PartialEq)]
pub struct Pinned {
    /// How the call takes each operand.
    pub operands: Vec<Sharding>,
    /// How it returns each result.
    pub results: Vec<Sharding>,
}

/// The ways to divide a call along all axes of a mesh, whatever its operands are held as.
pub(super) struct Divisions<'a> {
    mesh: &'a Mesh,
    ways: Vec<Way>,
    /// The dtype and shape of each operand.
    pub(super) operands: Vec<(DType, Dims)>,
    /// The dtype and shape of each result.
    pub(super) results: Vec<(DType, Dims)>,
    /// Which operands the call writes; they keep their sharding.
    pub(super) written: Vec<bool>,
}

/// One way to divide a call along all axes of a mesh.
pub(super) struct Division<'a> {
    pub(super) pinned: Pinned,
    /// The way along each axis; `None` where all ranks make the same call.
    ways: SmallVec<[Option<&'a Way>; 3]>,
}

impl<'a> Divisions<'a> {
    pub(super) fn of(
        op: &dyn Op,
        call: CallSpec<'_>,
        signature: &Signature,
        mesh: &'a Mesh,
    ) -> Divisions<'a> {
        let class = |spec: &TensorSpec| (spec.dtype, Dims::from_slice(spec.shape()));
        let results = signature.outputs.iter().map(|output| match output {
            OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => class(spec),
            OutputSpec::View { of, layout, dtype } => {
                let of = call.inputs[*of].dtype;
                (dtype.unwrap_or(of), Dims::from_slice(layout.shape()))
            }
            OutputSpec::Same(of) => class(&call.inputs[*of]),
        });
        Divisions {
            mesh,
            ways: op.sharding(Whole { call, signature }),
            operands: call.inputs.iter().map(class).collect(),
            results: results.collect(),
            written: signature.accesses.iter().map(|access| access.writes()).collect(),
        }
    }

    /// Returns the divisions that the op and the shapes allow: the way of each axis by its number,
    /// with that of whole tensors first, so that whole operands make whole results where nothing
    /// speaks for parts.
    pub(super) fn all(&self) -> impl Iterator<Item = Division<'_>> {
        let (axes, count) = (self.mesh.rank(), self.ways.len() + 1);
        (0..count.pow(axes as u32)).filter_map(move |number| {
            // The first axis is the most significant digit.
            let digit = |axis: usize| number / count.pow((axes - 1 - axis) as u32) % count;
            self.division((0..axes).map(|axis| Some(&self.ways[digit(axis).checked_sub(1)?])))
        })
    }

    fn division<'w>(&self, ways: impl Iterator<Item = Option<&'w Way>>) -> Option<Division<'w>> {
        let ways: SmallVec<[Option<&Way>; 3]> = ways.collect();
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
        let all = operands.iter().zip(&self.operands).chain(results.iter().zip(&self.results));
        for (sharding, (dtype, shape)) in all {
            fits(sharding, shape, &ways)?;
            sharding.check(*dtype, shape).ok()?;
        }
        Some(Division { pinned: Pinned { operands, results }, ways })
    }
}

/// The search for the cheapest division.
struct Search<'a> {
    divisions: &'a Divisions<'a>,
    operands: &'a [Operand<'a>],
    wanted: Option<&'a Sharding>,
    /// By operand, the cost of the paths so far; by the number of operands for the result.
    costs: Vec<FxHashMap<NdSbp, Option<u64>>>,
}

impl Choice {
    /// Returns the cheapest way to make a call on operands that the ranks of a mesh hold so: the
    /// one by which they receive the fewest bytes, then by which they change the fewest operands,
    /// then the call on whole tensors, then the first of the op's rule. An operand that the call
    /// writes keeps its sharding.
    /// `wanted` is the sharding of the first result, if the program requests one. A choice that is
    /// `pinned` is taken if the call can be made so.
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
        pinned: Option<&Pinned>,
    ) -> Result<Choice> {
        let divisions = Divisions::of(op, call, signature, mesh);
        let costs = vec![FxHashMap::default(); operands.len() + 1];
        let mut search = Search { divisions: &divisions, operands, wanted, costs };
        let is_pinned = |division: &Division<'_>| Some(&division.pinned) == pinned;
        if pinned.is_some()
            && let Some(division) = divisions.all().find(is_pinned)
            && let Some((received, _)) = search.cost(&division)
        {
            return Ok(Choice::made(division, received));
        }
        let mut best: Option<(u64, usize, Division<'_>)> = None;
        for division in divisions.all() {
            let Some((received, changed)) = search.cost(&division) else { continue };
            let is_better = best
                .as_ref()
                .is_none_or(|(least, fewest, _)| (received, changed) < (*least, *fewest));
            if is_better {
                best = Some((received, changed, division));
            }
        }
        match best {
            Some((received, _, division)) => Ok(Choice::made(division, received)),
            None => Err(search.refused(op.name())),
        }
    }

    fn made(division: Division<'_>, received: u64) -> Choice {
        let Division { pinned: Pinned { operands, results }, ways } = division;
        let ways = ways.into_iter().map(Option::<&Way>::cloned).collect();
        Choice { operands, results, ways, received }
    }
}

impl Search<'_> {
    /// Returns the bytes that all ranks receive for a division, and the number of operands that it
    /// changes; `None` if it changes one that the call writes.
    fn cost(&mut self, division: &Division<'_>) -> Option<(u64, usize)> {
        let (mut received, mut changed) = (0u64, 0);
        for (k, target) in division.pinned.operands.iter().enumerate() {
            let Operand { spec, sharding } = self.operands[k];
            if target == sharding {
                continue;
            }
            if self.divisions.written[k] {
                return None;
            }
            changed += 1;
            received = received.saturating_add(self.bytes(
                k,
                spec.shape(),
                sharding,
                target,
                spec.dtype,
            )?);
        }
        if let (Some(wanted), [result, ..]) = (self.wanted, &division.pinned.results[..])
            && wanted != result
        {
            let (dtype, shape) = self.divisions.results[0].clone();
            changed += 1;
            received = received.saturating_add(self.bytes(
                self.operands.len(),
                &shape,
                result,
                wanted,
                dtype,
            )?);
        }
        Some((received, changed))
    }

    /// Returns the bytes that a path moves, remembered by the sharding that differs.
    fn bytes(
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
        let cost = path(dtype, shape, from, to)
            .map(|path| path.received.saturating_mul(dtype.size() as u64));
        self.costs[slot].insert(key.sbp().into(), cost);
        cost
    }

    fn refused(&self, op: &str) -> Error {
        let held = self.operands.iter().zip(&self.divisions.written).enumerate();
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
