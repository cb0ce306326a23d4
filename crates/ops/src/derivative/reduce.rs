//! Reductions and scans.

use millstream_types::{Dims, Result};

use super::{Derivative, I0, O0, O1, Rule, one};
use crate::handle::Tensor;
use crate::tensor::{Index, REST};

pub(super) const RULES: &[Rule] = &[
    one("sum", &[], &[Some(|d| spread(d, &d.g()?))]),
    one(
        "mean",
        &[],
        &[Some(|d| {
            let count = count(d)?;
            spread(d, &d.g()?.div(count)?)
        })],
    ),
    one("var", &[(I0, &[0])], &[Some(|d| deviations(d)?.mul(&spread(d, &d.g()?)?))]),
    one(
        "std",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let g = d.g()?.div(&d.output(0)?.mul(2)?)?;
            // Without deviation the slope is 0 / 0, which counts as 0.
            let g = d.output(0)?.eq(0)?.where_cond(0, &g)?;
            deviations(d)?.mul(&spread(d, &g)?)
        })],
    ),
    one("amax", &[(I0, &[0]), (O0, &[0])], &[Some(extreme)]),
    one("amin", &[(I0, &[0]), (O0, &[0])], &[Some(extreme)]),
    one("max", &[(I0, &[0]), (O0, &[0]), (O1, &[0])], &[Some(picked)]),
    one("min", &[(I0, &[0]), (O0, &[0]), (O1, &[0])], &[Some(picked)]),
    one(
        "logsumexp",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let share = d.input(0)?.sub(&kept(d, &d.output(0)?)?)?.exp()?;
            kept(d, &d.g()?)?.mul(&share)
        })],
    ),
    one("prod", &[(I0, &[0])], &[Some(prod)]),
    one("linalg_vector_norm", &[(I0, &[0]), (O0, &[0])], &[Some(norm)]),
    one("cumprod", &[(I0, &[0]), (O0, &[0])], &[Some(cumprod)]),
    one("cummax", &[(O1, &[0])], &[Some(cumulative_extreme)]),
    one("cummin", &[(O1, &[0])], &[Some(cumulative_extreme)]),
    one("logcumsumexp", &[(I0, &[0]), (O0, &[0])], &[Some(logcumsumexp)]),
    one("mode", &[(O1, &[0])], &[Some(|d| at_index(d, d.attrs().int("dim")?.unwrap_or(-1)))]),
    one(
        "cumsum",
        &[],
        &[Some(|d| {
            let dim = d.attrs().int("dim")?.unwrap_or(0);
            d.g()?.flip(dim)?.cumsum(dim)?.flip(dim)
        })],
    ),
];

/// Returns the dimensions that the call has reduced.
fn dims(d: &Derivative<'_>) -> Result<Dims> {
    millstream_ops::reduce::reduced(d.attrs(), d.shape(0)?.len())
}

/// Returns how many elements each result was made of.
fn count(d: &Derivative<'_>) -> Result<f64> {
    let shape = d.shape(0)?;
    Ok(dims(d)?.iter().map(|&dim| shape.get(dim).copied().unwrap_or(1)).product::<usize>() as f64)
}

/// Returns a tensor of the result's shape with the reduced dimensions of length 1.
fn kept(d: &Derivative<'_>, result: &Tensor) -> Result<Tensor> {
    let dims = dims(d)?;
    let shape = d.shape(0)?.iter().enumerate();
    let shape: Vec<usize> =
        shape.map(|(k, &length)| if dims.contains(&k) { 1 } else { length }).collect();
    result.reshape(shape)
}

/// Repeats a tensor of the result's shape over the reduced dimensions.
fn spread(d: &Derivative<'_>, result: &Tensor) -> Result<Tensor> {
    kept(d, result)?.expand(d.shape(0)?)
}

/// Returns 2 (x − mean) / (n − correction).
fn deviations(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    let dims: Vec<usize> = dims(d)?.to_vec();
    let rank_of_one = x.rank() == 0;
    let mean = match rank_of_one {
        true => x.clone(),
        false => x.mean_with(dims, crate::tensor::options::Mean::default().keepdim(true))?,
    };
    let divisor = count(d)? - d.number("correction", 1.0)?;
    x.sub(&mean)?.mul(2.0 / divisor)
}

/// Returns the gradient shared by all elements that are the extremum.
fn extreme(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    let mask = x.eq(&kept(d, &d.output(0)?)?)?.cast(x.dtype())?;
    let dims: Vec<usize> = dims(d)?.to_vec();
    let keep = crate::tensor::options::Sum::default().keepdim(true);
    let ties = if x.rank() == 0 { mask.clone() } else { mask.sum_with(dims, keep)? };
    kept(d, &d.g()?)?.div(&ties)?.mul(&mask)
}

/// Returns the gradient at the index of the extremum, or shared by ties if all are reduced.
fn picked(d: &Derivative<'_>) -> Result<Tensor> {
    match d.attrs().int("dim")? {
        Some(dim) => at_index(d, dim),
        None => extreme(d),
    }
}

/// Returns the gradient at the index, which is result 1, in a reduced dimension.
fn at_index(d: &Derivative<'_>, dim: i64) -> Result<Tensor> {
    let (g, index) = (d.g()?, d.output(1)?);
    if d.shape(0)?.is_empty() {
        return Ok(g);
    }
    let (g, index) = match d.attrs().bool("keepdim")?.unwrap_or(false) {
        true => (g, index),
        false => (g.unsqueeze(dim)?, index.unsqueeze(dim)?),
    };
    d.zeros(0)?.scatter_add(&index, &g, dim)
}

/// The product of the others: with zeros among the elements a quotient would not do, so it is the
/// product of the cumulative products from both sides.
fn prod(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    let dims = dims(d)?;
    let rank = x.rank();
    if rank == 0 {
        return d.g();
    }
    let others: Vec<usize> = (0..rank).filter(|k| !dims.contains(k)).collect();
    let order: Vec<usize> = others.iter().chain(dims.iter()).copied().collect();
    let moved = x.permute(&order)?;
    let lengths: Vec<usize> = others.iter().map(|&k| x.shape()[k]).collect();
    let n: usize = dims.iter().map(|&k| x.shape()[k]).product();
    let flat = moved.reshape([lengths.clone(), vec![n]].concat())?;
    // There may be no element.
    let upto = |end: i64| (REST, Index::Clamped(Some(0), Some(end)));
    let first = flat.ones_like()?.i(upto(1))?;
    let before = Tensor::cat(&[&first, &flat.i(upto(n as i64 - 1))?], -1)?;
    let before = before.cumprod(-1)?;
    let turned = flat.flip(-1)?;
    let after = Tensor::cat(&[&first, &turned.i(upto(n as i64 - 1))?], -1)?;
    let after = after.cumprod(-1)?.flip(-1)?;
    let slope = before.mul(&after)?.reshape(moved.shape())?;
    let mut back = vec![0usize; rank];
    order.iter().enumerate().for_each(|(at, &dim)| back[dim] = at);
    spread(d, &d.g()?)?.mul(&slope.permute(back)?)
}

/// Returns the sums of the elements from each one on.
fn sums_from(x: &Tensor, dim: i64) -> Result<Tensor> {
    x.flip(dim)?.cumsum(dim)?.flip(dim)
}

/// Each result is the element at its index.
fn cumulative_extreme(d: &Derivative<'_>) -> Result<Tensor> {
    if d.shape(0)?.is_empty() {
        return d.g();
    }
    let dim = d.attrs().int("dim")?.unwrap_or(0);
    d.zeros(0)?.scatter_add(&d.output(1)?, &d.g()?, dim)
}

/// The gradient at i is the sum over j ≥ i of gⱼ e^(xᵢ − yⱼ), whose exponents are at most 0.
/// Positive and negative gradients are added apart, as logarithms, so that no exponential
/// overflows. To be differentiated again, the exponentials are computed each by itself.
fn logcumsumexp(d: &Derivative<'_>) -> Result<Tensor> {
    if d.shape(0)?.is_empty() {
        return d.g();
    }
    let dim = d.attrs().int("dim")?.unwrap_or(0);
    let (g, x, y) = (d.g()?, d.input(0)?, d.output(0)?);
    if d.is_noted() {
        let last = |x: &Tensor| x.transpose(dim, -1);
        let n = d.shape(0)?[millstream_ops::args::dimension(dim, x.rank())?];
        let before = Tensor::ones((n, n), x.dtype(), &x)?.tril(-1)?.eq(1)?;
        let exponents = last(&x)?.unsqueeze(-1)?.sub(&last(&y)?.unsqueeze(-2)?)?;
        let shares = exponents.masked_fill(&before, f64::NEG_INFINITY)?.exp()?;
        return last(&shares.matmul(&last(&g)?.unsqueeze(-1)?)?.squeeze(-1)?);
    }
    let summed =
        |logs: &Tensor| logs.sub(&y)?.flip(dim)?.logcumsumexp(dim)?.flip(dim)?.add(&x)?.exp();
    if x.dtype().is_complex() {
        return summed(&g.log()?);
    }
    let sums = |g: &Tensor| {
        let is_positive = g.gt(0)?;
        let logs = is_positive.where_cond(g, 1)?.log()?;
        summed(&is_positive.where_cond(&logs, f64::NEG_INFINITY)?)
    };
    sums(&g)?.sub(&sums(&g.neg()?)?)
}

/// Before the first zero of a row, the slope is a quotient; at the zero, the products without it;
/// behind it, nothing.
fn cumprod(d: &Derivative<'_>) -> Result<Tensor> {
    let dim = d.attrs().int("dim")?.unwrap_or(0);
    let (g, x) = (d.g()?.cast(d.spec(0)?.dtype)?, d.input(0)?);
    let is_zero = x.eq(0)?;
    let zeros = is_zero.cast(millstream_types::DType::I64)?.cumsum(dim)?;
    let is_first = is_zero.logical_and(&zeros.eq(1)?)?;
    let quotient = sums_from(&g.mul(&d.output(0)?)?, dim)?.div(&x.masked_fill(&is_zero, 1)?)?;
    let products = x.masked_fill(&is_first, 1)?.cumprod(dim)?;
    let at_zero = sums_from(&g.mul(&products)?, dim)?;
    zeros.eq(0)?.where_cond(&quotient, &is_first.where_cond(&at_zero, 0)?)
}

fn norm(d: &Derivative<'_>) -> Result<Tensor> {
    let p = d.number("ord", 2.0)?;
    let (x, norm, g) = (d.input(0)?, kept(d, &d.output(0)?)?, kept(d, &d.g()?)?);
    if p == 0.0 {
        return d.zeros(0);
    }
    if p == 1.0 {
        return x.sign()?.mul(&g);
    }
    if p.is_infinite() {
        let mask = x.abs()?.eq(&norm)?.cast(x.dtype())?;
        let dims: Vec<usize> = dims(d)?.to_vec();
        let keep = crate::tensor::options::Sum::default().keepdim(true);
        let ties = if x.rank() == 0 { mask.clone() } else { mask.sum_with(dims, keep)? };
        return x.sign()?.mul(&mask)?.mul(&g.div(&ties)?);
    }
    let slope = match p == 2.0 {
        true => x.div(&norm)?,
        false => x.sign()?.mul(&x.abs()?.pow(p - 1.0)?)?.div(&norm.pow(p - 1.0)?)?,
    };
    norm.eq(0)?.where_cond(0, &slope.mul(&g)?)
}
