//! Reductions and scans.

use millstream_types::{Attrs, DType, Result};

use super::{Derivative, I0, O0, O1, Rule, one};
use crate::args::dimension;
use crate::formula::{Expr, along, ints};
use crate::reduce::reduced;

pub(super) const RULES: &[Rule] = &[
    one("sum", &[], |d| spread(d, d.g())).complex(),
    one("mean", &[], |d| spread(d, d.g() / count(d)?)).complex(),
    one("var", &[I0], |d| Ok(deviations(d)? * spread(d, d.g())?)).complex(),
    one("std", &[I0, O0], |d| {
        let g = d.g() / (d.output(0) * 2);
        // Without deviation the slope is 0 / 0, which counts as 0.
        let g = d.output(0).eq(0).choose(0, g);
        Ok(deviations(d)? * spread(d, g)?)
    })
    .complex(),
    one("amax", &[I0, O0], extreme),
    one("amin", &[I0, O0], extreme),
    one("max", &[I0, O0, O1], picked),
    one("min", &[I0, O0, O1], picked),
    one("logsumexp", &[I0, O0], |d| {
        let share = (d.input(0) - kept(d, d.output(0))?).exp();
        Ok(kept(d, d.g())? * share)
    })
    .holomorphic(),
    one("prod", &[I0], prod).holomorphic(),
    one("linalg_vector_norm", &[I0, O0], norm).complex(),
    one("cumprod", &[I0, O0], cumprod).holomorphic(),
    one("cummax", &[O1], |d| returned(d, d.int("dim", 0)?)),
    one("cummin", &[O1], |d| returned(d, d.int("dim", 0)?)),
    one("logcumsumexp", &[I0, O0], logcumsumexp).holomorphic(),
    one("mode", &[O1], |d| at_index(d, d.int("dim", -1)?)),
    one("cumsum", &[], |d| Ok(sums_from(d.g(), d.int("dim", 0)?))).complex(),
];

/// Returns the dimensions that the call has reduced.
fn dims(d: Derivative<'_>) -> Result<Vec<i64>> {
    Ok(ints(&reduced(d.attrs, d.shape(0)?.len())?))
}

/// Returns how many elements each result was made of.
fn count(d: Derivative<'_>) -> Result<f64> {
    let shape = d.shape(0)?;
    Ok(dims(d)?.iter().map(|&dim| shape[dim as usize]).product::<i64>() as f64)
}

/// Returns a tensor of the result's shape with the reduced dimensions of length 1.
fn kept<'a>(d: Derivative<'a>, result: Expr<'a>) -> Result<Expr<'a>> {
    let mut shape = d.shape(0)?;
    dims(d)?.iter().for_each(|&dim| shape[dim as usize] = 1);
    Ok(result.reshape(&shape))
}

/// Repeats a tensor of the result's shape over the reduced dimensions.
fn spread<'a>(d: Derivative<'a>, result: Expr<'a>) -> Result<Expr<'a>> {
    Ok(kept(d, result)?.expand(&d.shape(0)?))
}

/// Returns 2 (x − mean) / (n − correction).
fn deviations(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(0);
    let mean = if x.rank()? == 0 { x } else { x.means(&dims(d)?) };
    let divisor = count(d)? - d.number("correction", 1.0)?;
    Ok((x - mean) * (2.0 / divisor))
}

/// Returns how many elements a mask of numbers has along the reduced dimensions, which stay.
fn ties<'a>(d: Derivative<'a>, mask: Expr<'a>) -> Result<Expr<'a>> {
    Ok(if mask.rank()? == 0 { mask } else { mask.sum(&dims(d)?, true) })
}

/// Returns the gradient shared by all elements that are the extremum.
fn extreme(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(0);
    let mask = x.eq(kept(d, d.output(0))?).cast(x.dtype());
    let ties = ties(d, mask)?;
    Ok(kept(d, d.g())? / ties * mask)
}

/// Returns the gradient at the index of the extremum, or shared by ties if all are reduced.
fn picked(d: Derivative<'_>) -> Result<Expr<'_>> {
    match d.attrs.int("dim")? {
        Some(dim) => at_index(d, dim),
        None => extreme(d),
    }
}

/// Returns the gradient at the index, which is result 1, in a reduced dimension.
fn at_index(d: Derivative<'_>, dim: i64) -> Result<Expr<'_>> {
    let (mut g, mut index) = (d.g(), d.output(1));
    if d.shape(0)?.is_empty() {
        return Ok(g);
    }
    if !d.flag("keepdim", false)? {
        (g, index) = (g.unsqueeze(dim), index.unsqueeze(dim));
    }
    Ok(d.zeros(0)?.scatter_add(dim, index, g))
}

/// Returns the gradient at the places along a dimension that the elements came from: result 1.
pub(super) fn returned(d: Derivative<'_>, dim: i64) -> Result<Expr<'_>> {
    if d.shape(0)?.is_empty() {
        return Ok(d.g());
    }
    Ok(d.zeros(0)?.scatter_add(dim, d.output(1), d.g()))
}

/// The product of the others: with zeros among the elements a quotient would not do, so it is the
/// product of the cumulative products from both sides.
fn prod<'a>(d: Derivative<'a>) -> Result<Expr<'a>> {
    let (x, dims, shape) = (d.input(0), dims(d)?, d.shape(0)?);
    if shape.is_empty() {
        return Ok(d.g());
    }
    let others: Vec<i64> = (0..shape.len() as i64).filter(|k| !dims.contains(k)).collect();
    let order = [&others[..], &dims].concat();
    let moved = x.permute(order.clone());
    let n = dims.iter().map(|&k| shape[k as usize]).product();
    let lengths: Vec<i64> = others.iter().map(|&k| shape[k as usize]).chain([n]).collect();
    let flat = moved.reshape(&lengths);
    // There may be no element.
    let upto = |x: Expr<'a>, end: i64| {
        x.op("slice", along(others.len() as i64).with("start", 0).with("end", end))
    };
    let first = upto(flat.full_like(1)?, 1);
    let products = |x: Expr<'a>| d.calls.cat(&[first, upto(x, n - 1)], -1).cumprod(-1);
    let before = products(flat);
    let after = products(flat.flip(&[-1])).flip(&[-1]);
    let slope = (before * after).reshape(&moved.shape()?);
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &dim)| back[dim as usize] = at as i64);
    Ok(spread(d, d.g())? * slope.permute(back))
}

/// Returns the sums of the elements from each one on.
fn sums_from(x: Expr<'_>, dim: i64) -> Expr<'_> {
    x.flip(&[dim]).cumsum(dim).flip(&[dim])
}

/// The gradient at i is the sum over j ≥ i of gⱼ e^(xᵢ − yⱼ), whose exponents are at most 0.
/// Positive and negative gradients are added apart, as logarithms, so that no exponential
/// overflows. To be differentiated again, the exponentials are computed each by itself.
fn logcumsumexp<'a>(d: Derivative<'a>) -> Result<Expr<'a>> {
    let shape = d.shape(0)?;
    if shape.is_empty() {
        return Ok(d.g());
    }
    let dim = d.int("dim", 0)?;
    let (g, x, y) = (d.g(), d.input(0), d.output(0));
    if d.is_noted {
        let last = |x: Expr<'a>| x.transpose(dim, -1);
        let n = shape[dimension(dim, shape.len())?];
        let before = d.calls.full(vec![n, n], 1, x.dtype()).tril(-1).eq(1);
        let exponents = last(x).unsqueeze(-1) - last(y).unsqueeze(-2);
        let shares = exponents.filled(before, f64::NEG_INFINITY).exp();
        let sums = shares.matmul(last(g).unsqueeze(-1));
        return Ok(last(sums.op("squeeze", Attrs::new().with("dim", vec![-1]))));
    }
    let summed = |logs: Expr<'a>| {
        let logs = (logs - y).flip(&[dim]).op("logcumsumexp", along(dim)).flip(&[dim]);
        (logs + x).exp()
    };
    if x.dtype().is_complex() {
        return Ok(summed(g.log()));
    }
    let sums = |g: Expr<'a>| {
        let is_positive = g.gt(0);
        let logs = is_positive.choose(g, 1).log();
        summed(is_positive.choose(logs, f64::NEG_INFINITY))
    };
    Ok(sums(g) - sums(-g))
}

/// Before the first zero of a row, the slope is a quotient; at the zero, the products without it;
/// behind it, nothing.
fn cumprod(d: Derivative<'_>) -> Result<Expr<'_>> {
    let dim = d.int("dim", 0)?;
    let (g, x) = (d.g().cast(d.spec(0)?.dtype), d.input(0));
    let is_zero = x.eq(0);
    let zeros = is_zero.cast(DType::I64).cumsum(dim);
    let is_first = is_zero.logical_and(zeros.eq(1));
    let quotient = sums_from(g * d.output(0), dim) / x.filled(is_zero, 1);
    let products = x.filled(is_first, 1).cumprod(dim);
    let at_zero = sums_from(g * products, dim);
    Ok(zeros.eq(0).choose(quotient, is_first.choose(at_zero, 0)))
}

fn norm(d: Derivative<'_>) -> Result<Expr<'_>> {
    let p = d.number("ord", 2.0)?;
    let (x, norm, g) = (d.input(0), kept(d, d.output(0))?, kept(d, d.g())?);
    if p == 0.0 {
        return d.zeros(0);
    }
    if p == 1.0 {
        return Ok(x.sign() * g);
    }
    if p.is_infinite() {
        let mask = x.abs().eq(norm).cast(x.dtype());
        let ties = ties(d, mask)?;
        return Ok(x.sign() * mask * (g / ties));
    }
    let slope = match p == 2.0 {
        true => x / norm,
        false => x.sign() * x.abs().pow(p - 1.0) / norm.pow(p - 1.0),
    };
    Ok(norm.eq(0).choose(0, slope * g))
}
