//! The ways of reductions of segments, fractional pooling and the loss of alignments.

use millstream_types::{Result, Sbp, sbp};

use super::{Rules, Way, Whole};
use crate::args::required;

const S0: Sbp = sbp::S(0);
const S1: Sbp = sbp::S(1);

pub(super) const RULES: Rules = &[
    ("segment_reduce", |whole| segments(whole, 1)),
    ("segment_reduce_backward", |whole| segments(whole, 3)),
    ("fractional_max_pool", |whole| {
        let pooled = required("output_size", whole.attrs().ints("output_size")?)?.len();
        let outer = whole.shape(0).len() - pooled;
        let planes = &whole.shape(0)[..outer];
        let fits = whole.shape(1).starts_with(planes);
        let dims = (0..outer).filter(|_| fits);
        Ok(dims.map(|dim| whole.along(|_| Some(dim), |_| Some(dim))).collect())
    }),
    ("_ctc_loss", |whole| alignments(whole, 1, &[S1, S0, S0, S0], &[S0, S0])),
    ("_ctc_loss_backward", |whole| alignments(whole, 2, &[S0, S1, S0, S0, S0, S0], &[S1])),
];

/// The dimensions before the segments, which the lengths have, too, and those after them.
fn segments(whole: Whole<'_>, lengths: usize) -> Result<Vec<Way>> {
    let axis = whole.shape(lengths).len() - 1;
    let dims = (0..whole.shape(0).len()).filter(|dim| *dim != axis);
    let of = |k: usize, dim: usize| (k != lengths || dim < axis).then_some(dim);
    Ok(dims.map(|dim| whole.along(|k| of(k, dim), |_| Some(dim))).collect())
}

/// The sequences, unless the labels of all are in one dimension.
fn alignments(
    whole: Whole<'_>,
    targets: usize,
    operands: &[Sbp],
    results: &[Sbp],
) -> Result<Vec<Way>> {
    if whole.shape(targets).len() != 2 {
        return Ok(Vec::new());
    }
    Ok(vec![Way::new(operands.iter().copied(), results.iter().copied())])
}
