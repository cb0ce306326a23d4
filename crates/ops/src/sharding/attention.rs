//! The ways of attention and its gradient: by batch, by head, by query.

use millstream_types::{Result, Sbp, sbp};

use super::axes::{P, aligned, split};
use super::{Parts, Rules, Way, Whole};
use crate::args::input_positions;

const B: Sbp = sbp::B;

pub(super) const RULES: Rules = &[
    ("_scaled_dot_product_flash_attention_for_cpu", forward),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", backward),
];

/// Returns how the mask, which is listed at a position, is held where a dimension of the scores is
/// split.
fn mask(whole: &Whole<'_>, at: usize, dim: usize, length: usize) -> Result<Sbp> {
    let given = input_positions(whole.attrs(), at + 1, whole.inputs().len())?[at];
    let own = given.and_then(|at| aligned(&whole.inputs()[at], 4, dim, length));
    Ok(split(own))
}

/// Returns the dimensions of q that may be split, whether k and v have them, too, and what the
/// parts must be. Where several heads of q share one of k, parts are of one length.
fn dims(whole: &Whole<'_>, q: usize) -> Result<Vec<(usize, bool, Parts)>> {
    let shares = whole.shape(q)[1] != whole.shape(q + 1)[1];
    let heads = if shares { Parts::Equal } else { Parts::NotEmpty };
    let mut dims = vec![(0, true, Parts::Any), (1, true, heads)];
    if !whole.attrs().bool("is_causal")?.unwrap_or(false) {
        dims.push((2, false, Parts::NotEmpty));
    }
    Ok(dims)
}

fn forward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let way = |(dim, both, parts): (usize, bool, Parts)| {
        let q = sbp::S(dim);
        let k = if both { q } else { B };
        let mask = mask(&whole, 3, dim, whole.shape(0)[dim])?;
        Ok(Way::new(whole.given(&[q, k, k, mask])?, [q, q]).parts(parts))
    };
    dims(&whole, 0)?.into_iter().map(way).collect()
}

/// Queries that are split give the parts of the gradients of keys and values.
fn backward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let way = |(dim, both, parts): (usize, bool, Parts)| {
        let q = sbp::S(dim);
        let (k, k_grad) = if both { (q, q) } else { (B, P) };
        let mask = mask(&whole, 6, dim, whole.shape(1)[dim])?;
        let operands = whole.given(&[q, q, k, k, q, q, mask])?;
        Ok(Way::new(operands, [q, k_grad, k_grad]).parts(parts))
    };
    let linear = whole.given(&[P, B, B, B, B, B, B])?;
    let linear = Way::new(linear, [P; 3]);
    dims(&whole, 1)?.into_iter().map(way).chain([Ok(linear)]).collect()
}
