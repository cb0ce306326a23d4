//! Matrix products.

use millstream_types::Result;

use super::arith::scaled;
use super::{Derivative, I0, I1, I2, Rule, each};
use crate::formula::Expr;

pub(super) const RULES: &[Rule] = &[
    each("matmul", &[(I1, &[0]), (I0, &[1])], &[Some(left), Some(right)]).holomorphic(),
    each(
        "addmm",
        &[(I2, &[1]), (I1, &[2])],
        &[
            Some(|d| times(d, "beta", d.g())),
            Some(|d| times(d, "alpha", d.g().matmul(d.input(2).t()))),
            Some(|d| times(d, "alpha", d.input(1).t().matmul(d.g()))),
        ],
    )
    .holomorphic(),
    each(
        "baddbmm",
        &[(I2, &[1]), (I1, &[2])],
        &[
            Some(|d| times(d, "beta", d.g())),
            Some(|d| times(d, "alpha", d.g().matmul(d.input(2).transpose(1, 2)))),
            Some(|d| times(d, "alpha", d.input(1).transpose(1, 2).matmul(d.g()))),
        ],
    )
    .holomorphic(),
];

fn times<'a>(d: Derivative<'a>, factor: &str, x: Expr<'a>) -> Result<Expr<'a>> {
    Ok(scaled(x, d.number(factor, 1.0)?))
}

/// Returns the gradient as a matrix: a vector on a side has lost its dimension there.
fn matrix(d: Derivative<'_>) -> Result<Expr<'_>> {
    let mut g = d.g();
    if d.shape(1)?.len() == 1 {
        g = g.unsqueeze(-1);
    }
    if d.shape(0)?.len() == 1 {
        g = g.unsqueeze(-2);
    }
    Ok(g)
}

fn left(d: Derivative<'_>) -> Result<Expr<'_>> {
    let y = d.input(1);
    let y = if y.rank()? == 1 { y.unsqueeze(0) } else { y.transpose(-1, -2) };
    let product = matrix(d)?.matmul(y);
    // [..,1,k] for a vector, with broadcast leading dimensions.
    Ok(if d.shape(0)?.len() == 1 { product.select(-2, 0) } else { product })
}

fn right(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(0);
    let x = if x.rank()? == 1 { x.unsqueeze(1) } else { x.transpose(-1, -2) };
    let product = x.matmul(matrix(d)?);
    Ok(if d.shape(1)?.len() == 1 { product.select(-1, 0) } else { product })
}
