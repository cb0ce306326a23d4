//! What rules are made of: dimensions of operands and of results that are split together.

use millstream_types::{Reduction, Sbp, TensorSpec, sbp};
use smallvec::SmallVec;

use super::{Local, Parts, Way, Whole};

pub(super) use millstream_types::sbp::P;

/// Returns the split of a dimension, or that every rank has all elements.
pub(super) fn split(dim: Option<usize>) -> Sbp {
    dim.map_or(sbp::B, sbp::S)
}

/// Returns the dimension of a tensor that `dim` of a shape of `rank` dimensions broadcasts from, if
/// it has that length.
pub(super) fn aligned(x: &TensorSpec, rank: usize, dim: usize, length: usize) -> Option<usize> {
    let own = (dim + x.shape().len()).checked_sub(rank)?;
    (x.shape()[own] == length).then_some(own)
}

impl Way {
    /// Returns the way with another condition on its parts.
    pub(super) fn parts(self, parts: Parts) -> Way {
        Way { parts, ..self }
    }

    /// Returns the way with other calls on its parts.
    pub(super) fn local(self, local: Local) -> Way {
        Way { local, ..self }
    }
}

impl Whole<'_> {
    /// Returns the way by which these dimensions of operands and of results are split.
    pub(super) fn along(
        &self,
        operand: impl Fn(usize) -> Option<usize>,
        result: impl Fn(usize) -> Option<usize>,
    ) -> Way {
        let operands = (0..self.inputs().len()).map(|k| split(operand(k)));
        Way::new(operands, (0..self.signature.outputs.len()).map(|k| split(result(k))))
    }

    /// Returns the ways that split one dimension of all operands of the first one's rank, and of
    /// all results; one for each dimension but the excluded ones.
    pub(super) fn along_all(&self, excluded: &[usize]) -> Vec<Way> {
        let rank = self.shape(0).len();
        let of = |k: usize, dim| (self.shape(k).len() == rank).then_some(dim);
        let dims = (0..rank).filter(|dim| !excluded.contains(dim));
        dims.map(|dim| self.along(|k| of(k, dim), |_| Some(dim))).collect()
    }

    /// Returns the way by which these operands and all results are partial, and the others whole.
    pub(super) fn partial(&self, reduction: Reduction, operands: &[usize]) -> Way {
        let reduced = Sbp::Partial(reduction);
        let of = |k| if operands.contains(&k) { reduced } else { sbp::B };
        let results = self.signature.outputs.iter().map(|_| reduced);
        Way::new((0..self.inputs().len()).map(of), results)
    }

    /// Returns the ways of a call that is linear in these operands together.
    pub(super) fn linear(&self, operands: &[usize]) -> Vec<Way> {
        vec![self.partial(Reduction::Sum, operands)]
    }

    /// Returns the ways of a call that moves the elements of these operands: it moves those of
    /// parts of each reduction alike.
    pub(super) fn moved(&self, operands: &[usize]) -> Vec<Way> {
        Reduction::ALL.map(|reduction| self.partial(reduction, operands)).into()
    }

    /// Returns the shardings of the given tensors among those that the op lists.
    pub(super) fn given(&self, listed: &[Sbp]) -> millstream_types::Result<SmallVec<[Sbp; 4]>> {
        let count = self.inputs().len();
        let positions = crate::args::input_positions(self.attrs(), listed.len(), count)?;
        let given = positions.iter().zip(listed).filter(|(position, _)| position.is_some());
        Ok(given.map(|(_, sbp)| *sbp).collect())
    }
}
