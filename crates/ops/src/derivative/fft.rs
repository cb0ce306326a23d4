//! Singular values, eigenvalues, the exponential of matrices.
//!
//! A gradient for vectors is meaningful only for a loss that does not depend on their signs or
//! phases, which are open. Formulas that divide by differences of eigenvalues or singular values
//! are infinite where those are equal.
//!
//! Source: M. Giles, "An extended collection of matrix derivative results for forward and reverse
//! mode algorithmic differentiation" (2008).

use millstream_types::{AttrValue, Result};

use super::linalg::{columns, flag, identity, rows, sizes};
use super::{Derivative, I0, O0, O1, O2, Rule, adjoint, conj, one};
use crate::handle::Tensor;
use crate::tensor::options;

pub(super) const RULES: &[Rule] = &[
    one("_linalg_svd", &[(I0, &[0]), (O0, &[0]), (O1, &[0]), (O2, &[0])], &[Some(singular)]),
    one("_linalg_eigh", &[(I0, &[0]), (O0, &[0]), (O1, &[0])], &[Some(symmetric_eigen)]),
    one("linalg_eig", &[(I0, &[0]), (O0, &[0]), (O1, &[0])], &[Some(eigen)]),
    one("linalg_matrix_exp", &[(I0, &[0])], &[Some(exponential)]),
];

/// Returns the elements of a vector on the diagonal of a matrix.
fn diagonal(x: &Tensor) -> Result<Tensor> {
    let length = x.shape()[x.rank() - 1];
    x.unsqueeze(-1)?.mul(&identity(x, length, length)?)
}

/// Returns the matrix without its diagonal.
fn off_diagonal(x: &Tensor) -> Result<Tensor> {
    x.tril(-1)?.add(&x.triu(1)?)
}

/// Returns the numbers that differences of values divide: values of the column less values of the
/// row, and ones on the diagonal.
fn differences(values: &Tensor) -> Result<Tensor> {
    let count = values.shape()[values.rank() - 1];
    let differences = values.unsqueeze(-2)?.sub(&values.unsqueeze(-1)?)?;
    differences.add(&identity(values, count, count)?)
}

fn singular(d: &Derivative<'_>) -> Result<Tensor> {
    let rank = d.shape(0)?.len();
    let (m, n) = (d.shape(0)?[rank - 2], d.shape(0)?[rank - 1]);
    let k = m.min(n);
    let (u, s, vh) = match flag(d, "compute_uv", true)? {
        true => (columns(&d.output(0)?, 0, k)?, d.output(1)?, rows(&d.output(2)?, 0, k)?),
        false => d.input(0)?.linalg_svd()?,
    };
    let has = |output: usize| d.gradients.get(output).is_some_and(Option::is_some);
    let is_given =
        |output: usize| has(output) && d.output_spec(output).is_ok_and(|o| o.numel() > 0);
    let mut inner = diagonal(&d.gradient(1)?.cast(u.dtype())?)?;
    let e = differences(&s.mul(&s)?)?;
    let (of_columns, of_rows) = (s.unsqueeze(-2)?, s.unsqueeze(-1)?);
    let mut beyond = None;
    if is_given(0) {
        let gu = columns(&d.gradient(0)?, 0, k)?;
        let projected = adjoint(&u)?.matmul(&gu)?;
        let skew = projected.sub(&adjoint(&projected)?)?;
        inner = inner.add(&off_diagonal(&skew)?.div(&e)?.mul(&of_columns)?)?;
        if u.dtype().is_complex() {
            let phases = skew.tril(0)?.triu(0)?.div(&of_columns.mul(2)?)?;
            inner = inner.add(&phases)?;
        }
        if m > k {
            let scaled = gu.div(&of_columns)?;
            beyond = Some(scaled.sub(&u.matmul(&adjoint(&u)?.matmul(&scaled)?)?)?.matmul(&vh)?);
        }
    }
    if is_given(2) {
        let gvh = rows(&d.gradient(2)?, 0, k)?;
        let projected = vh.matmul(&adjoint(&gvh)?)?;
        let skew = projected.sub(&adjoint(&projected)?)?;
        inner = inner.add(&off_diagonal(&skew)?.div(&e)?.mul(&of_rows)?)?;
        if n > k {
            let scaled = gvh.div(&of_rows)?;
            let rest = scaled.sub(&scaled.matmul(&adjoint(&vh)?)?.matmul(&vh)?)?;
            beyond = Some(u.matmul(&rest)?);
        }
    }
    let within = u.matmul(&inner)?.matmul(&vh)?;
    match beyond {
        Some(beyond) => within.add(&beyond),
        None => Ok(within),
    }
}

fn symmetric_eigen(d: &Derivative<'_>) -> Result<Tensor> {
    let has_vectors = flag(d, "compute_v", true)?;
    let (values, v) = match has_vectors {
        true => (d.output(0)?, d.output(1)?),
        false => {
            let side = match d.attrs().get("UPLO") {
                Some(AttrValue::Str(side)) => side.as_str(),
                _ => "L",
            };
            d.input(0)?.linalg_eigh_with(options::LinalgEigh::default().uplo(side))?
        }
    };
    let vh = adjoint(&v)?;
    let mut inner = diagonal(&d.gradient(0)?.cast(v.dtype())?)?;
    if has_vectors && d.gradients.get(1).is_some_and(Option::is_some) {
        let projected = off_diagonal(&vh.matmul(&d.gradient(1)?)?)?;
        let skew = projected.sub(&adjoint(&projected)?)?.mul(0.5)?;
        inner = inner.add(&skew.div(&differences(&values)?)?)?;
    }
    v.matmul(&inner)?.matmul(&vh)
}

/// The eigenvectors have length 1, so a part of their gradient that would change the length is
/// left out.
fn eigen(d: &Derivative<'_>) -> Result<Tensor> {
    let has_vectors = flag(d, "compute_v", true)?;
    let (values, v) = match has_vectors {
        true => (d.output(0)?, d.output(1)?),
        false => d.input(0)?.linalg_eig()?,
    };
    let vh = adjoint(&v)?;
    let mut inner = diagonal(&d.gradient(0)?)?;
    if has_vectors && d.gradients.get(1).is_some_and(Option::is_some) {
        let projected = vh.matmul(&d.gradient(1)?)?;
        let n = sizes(&v).1;
        let lengths = projected.view_as_real()?.select(-1, 0)?;
        let lengths = lengths.mul(&identity(&lengths, n, n)?)?.sum(-2)?.unsqueeze(-2)?;
        let projected = projected.sub(&vh.matmul(&v.mul(&lengths)?)?)?;
        let e = conj(&differences(&values)?)?;
        inner = inner.add(&off_diagonal(&projected)?.div(&e)?)?;
    }
    let (factors, pivots, _) = vh.linalg_lu_factor_ex()?;
    factors.linalg_lu_solve(&pivots, &inner.matmul(&vh)?)
}

/// The upper right part of the exponential of [[Aᴴ, g], [0, Aᴴ]].
fn exponential(d: &Derivative<'_>) -> Result<Tensor> {
    let (a, g) = (adjoint(&d.input(0)?)?, d.g()?);
    let n = sizes(&a).1;
    let upper = Tensor::cat(&[&a, &g], -1)?;
    let lower = Tensor::cat(&[&g.zeros_like()?, &a], -1)?;
    let both = Tensor::cat(&[&upper, &lower], -2)?.linalg_matrix_exp()?;
    columns(&rows(&both, 0, n)?, n, n)
}
