//! The ways of matrix products: rows, columns, batches; over a split contraction the parts of a
//! sum.

use millstream_types::{Result, sbp};

use super::axes::{P, aligned, split};
use super::{Rules, Way, Whole};
use crate::matmul::Product;

pub(super) const RULES: Rules =
    &[("matmul", |whole| product(whole, 0)), ("addmm", biased), ("baddbmm", biased)];

/// The product of the operand at `left` and the next one.
fn product(whole: Whole<'_>, left: usize) -> Result<Vec<Way>> {
    let [x, y] = [&whole.inputs()[left], &whole.inputs()[left + 1]];
    let [x_rank, y_rank] = [x.shape().len(), y.shape().len()];
    let of = Product::new(x.shape(), y.shape())?;
    let batch = of.batch.len();
    let result = whole.result_shape();
    let bias = |dim: usize| (0..left).map(move |k| (k, dim));
    // The ways by which a dimension of the result is split, with these of the factors.
    let along = |a: Option<usize>, b: Option<usize>, dim: usize| {
        let factors = [split(a), split(b)];
        let bias = bias(dim)
            .map(|(k, dim)| split(aligned(&whole.inputs()[k], result.len(), dim, result[dim])));
        Way::new(bias.chain(factors), [sbp::S(dim)])
    };
    let mut ways = Vec::new();
    for (dim, &length) in of.batch.iter().enumerate() {
        let own = |rank: usize, shape: &[usize]| {
            let own = (dim + rank.saturating_sub(2)).checked_sub(batch)?;
            (rank > 2 && shape[own] == length).then_some(own)
        };
        ways.push(along(own(x_rank, x.shape()), own(y_rank, y.shape()), dim));
    }
    if x_rank > 1 {
        ways.push(along(Some(x_rank - 2), None, batch));
    }
    if y_rank > 1 {
        ways.push(along(None, Some(y_rank - 1), batch + usize::from(x_rank > 1)));
    }
    let contraction = [sbp::S(x_rank - 1), sbp::S(y_rank.saturating_sub(2))];
    let biases = |partial| (0..left).map(move |_| partial);
    ways.push(Way::new(biases(P).chain(contraction), [P]));
    ways.push(Way::new(biases(P).chain([P, sbp::B]), [P]));
    ways.push(Way::new(biases(P).chain([sbp::B, P]), [P]));
    Ok(ways)
}

fn biased(whole: Whole<'_>) -> Result<Vec<Way>> {
    product(whole, 1)
}
