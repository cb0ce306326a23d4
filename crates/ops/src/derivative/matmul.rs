//! Matrix products.

use millstream_types::Result;

use super::{Derivative, I0, I1, I2, Rule, each};
use crate::handle::Tensor;

pub(super) const RULES: &[Rule] = &[
    each("matmul", &[(I1, &[0]), (I0, &[1])], &[Some(left), Some(right)]),
    each(
        "addmm",
        &[(I2, &[1]), (I1, &[2])],
        &[
            Some(|d| times(d.g()?, d.number("beta", 1.0)?)),
            Some(|d| times(d.g()?.matmul(&d.input(2)?.t()?)?, d.number("alpha", 1.0)?)),
            Some(|d| times(d.input(1)?.t()?.matmul(&d.g()?)?, d.number("alpha", 1.0)?)),
        ],
    ),
    each(
        "baddbmm",
        &[(I2, &[1]), (I1, &[2])],
        &[
            Some(|d| times(d.g()?, d.number("beta", 1.0)?)),
            Some(|d| {
                let product = d.g()?.matmul(&d.input(2)?.transpose(1, 2)?)?;
                times(product, d.number("alpha", 1.0)?)
            }),
            Some(|d| {
                let product = d.input(1)?.transpose(1, 2)?.matmul(&d.g()?)?;
                times(product, d.number("alpha", 1.0)?)
            }),
        ],
    ),
];

fn times(gradient: Tensor, factor: f64) -> Result<Tensor> {
    if factor == 1.0 { Ok(gradient) } else { gradient.mul(factor) }
}

/// Returns the gradient as a matrix: a vector on a side has lost its dimension there.
fn matrix(d: &Derivative<'_>) -> Result<Tensor> {
    let mut g = d.g()?;
    if d.shape(1)?.len() == 1 {
        g = g.unsqueeze(-1)?;
    }
    if d.shape(0)?.len() == 1 {
        g = g.unsqueeze(-2)?;
    }
    Ok(g)
}

fn left(d: &Derivative<'_>) -> Result<Tensor> {
    let y = d.input(1)?;
    let y = if y.rank() == 1 { y.unsqueeze(0)? } else { y.transpose(-1, -2)? };
    let product = matrix(d)?.matmul(&y)?;
    match d.shape(0)?.len() {
        // [..,1,k], with broadcast leading dimensions.
        1 => product.select(-2, 0),
        _ => Ok(product),
    }
}

fn right(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    let x = if x.rank() == 1 { x.unsqueeze(1)? } else { x.transpose(-1, -2)? };
    let product = x.matmul(&matrix(d)?)?;
    match d.shape(1)?.len() {
        1 => product.select(-1, 0),
        _ => Ok(product),
    }
}
