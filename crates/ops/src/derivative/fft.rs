//! Singular values, eigenvalues, the exponential of matrices.
//!
//! A gradient for vectors is meaningful only for a loss that does not depend on their signs or
//! phases, which are open. Formulas that divide by differences of eigenvalues or singular values
//! are infinite where those are equal.
//!
//! Source: M. Giles, "An extended collection of matrix derivative results for forward and reverse
//! mode algorithmic differentiation" (2008).

use millstream_types::{Attrs, Result};

use super::linalg::{columns, identity, rows, sizes};
use super::{Derivative, I0, O0, O1, O2, Rule, one};
use crate::args::choice;
use crate::formula::Expr;

pub(super) const RULES: &[Rule] = &[
    one("_linalg_svd", &[I0, O0, O1, O2], singular).complex(),
    one("_linalg_eigh", &[I0, O0, O1], symmetric_eigen).complex(),
    one("linalg_eig", &[I0, O0, O1], eigen).complex(),
    one("linalg_matrix_exp", &[I0], |d| {
        // The upper right part of the exponential of [[Aᴴ, g], [0, Aᴴ]].
        let (a, g) = (d.input(0).adjoint(), d.g());
        let (_, n) = sizes(&a.shape()?);
        let upper = d.calls.cat(&[a, g], -1);
        let lower = d.calls.cat(&[g.full_like(0i64)?, a], -1);
        let both = d.calls.cat(&[upper, lower], -2).op("linalg_matrix_exp", Attrs::new());
        Ok(columns(rows(both, 0, n), n, n))
    })
    .complex(),
];

/// Returns the identity matrix with as many columns as a tensor.
fn square(x: Expr<'_>) -> Result<Expr<'_>> {
    let shape = x.shape()?;
    let length = shape[shape.len() - 1];
    Ok(identity(x, length, length))
}

/// Returns the elements of a vector on the diagonal of a matrix.
fn diagonal(x: Expr<'_>) -> Result<Expr<'_>> {
    Ok(x.unsqueeze(-1) * square(x)?)
}

/// Returns the matrix without its diagonal.
fn off_diagonal(x: Expr<'_>) -> Expr<'_> {
    x.tril(-1) + x.triu(1)
}

/// Returns the matrix less its adjoint.
fn skew(x: Expr<'_>) -> Expr<'_> {
    x - x.adjoint()
}

/// Returns the numbers that differences of values divide: values of the column less values of the
/// row, and ones on the diagonal.
fn differences(values: Expr<'_>) -> Result<Expr<'_>> {
    Ok(values.unsqueeze(-2) - values.unsqueeze(-1) + square(values)?)
}

fn singular(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (m, n) = sizes(&d.shape(0)?);
    let k = m.min(n);
    let [u, s, vh] = match d.flag("compute_uv", true)? {
        true => [columns(d.output(0), 0, k), d.output(1), rows(d.output(2), 0, k)],
        false => d.calls.several("_linalg_svd", &[d.input(0)], Attrs::new()),
    };
    let given = |output: usize| {
        let has_elements = d.output_spec(output).is_ok_and(|spec| spec.numel() > 0);
        d.optional_gradient(output).filter(|_| has_elements)
    };
    let mut inner = diagonal(d.gradient(1).cast(u.dtype()))?;
    let e = differences(s * s)?;
    let (of_columns, of_rows) = (s.unsqueeze(-2), s.unsqueeze(-1));
    let mut beyond = None;
    if let Some(gu) = given(0) {
        let gu = columns(gu, 0, k);
        let skew = skew(u.adjoint().matmul(gu));
        inner = inner + off_diagonal(skew) / e * of_columns;
        if u.dtype().is_complex() {
            // The phases.
            inner = inner + skew.tril(0).triu(0) / (of_columns * 2);
        }
        if m > k {
            let scaled = gu / of_columns;
            beyond = Some((scaled - u.matmul(u.adjoint().matmul(scaled))).matmul(vh));
        }
    }
    if let Some(gvh) = given(2) {
        let gvh = rows(gvh, 0, k);
        let skew = skew(vh.matmul(gvh.adjoint()));
        inner = inner + off_diagonal(skew) / e * of_rows;
        if n > k {
            let scaled = gvh / of_rows;
            beyond = Some(u.matmul(scaled - scaled.matmul(vh.adjoint()).matmul(vh)));
        }
    }
    let within = u.matmul(inner).matmul(vh);
    Ok(beyond.map_or(within, |beyond| within + beyond))
}

fn symmetric_eigen(d: Derivative<'_>) -> Result<Expr<'_>> {
    let has_vectors = d.flag("compute_v", true)?;
    let [values, v] = match has_vectors {
        true => [d.output(0), d.output(1)],
        false => {
            let side = choice(d.attrs, "UPLO", &["L", "U", "l", "u"])?.unwrap_or("L");
            d.calls.several("_linalg_eigh", &[d.input(0)], Attrs::new().with("UPLO", side))
        }
    };
    let vh = v.adjoint();
    let mut inner = diagonal(d.gradient(0).cast(v.dtype()))?;
    if let Some(g) = d.optional_gradient(1).filter(|_| has_vectors) {
        inner = inner + skew(off_diagonal(vh.matmul(g))) * 0.5 / differences(values)?;
    }
    Ok(v.matmul(inner).matmul(vh))
}

/// The eigenvectors have length 1, so a part of their gradient that would change the length is
/// left out.
fn eigen(d: Derivative<'_>) -> Result<Expr<'_>> {
    let has_vectors = d.flag("compute_v", true)?;
    let [values, v] = match has_vectors {
        true => [d.output(0), d.output(1)],
        false => d.calls.several("linalg_eig", &[d.input(0)], Attrs::new()),
    };
    let vh = v.adjoint();
    let mut inner = diagonal(d.gradient(0))?;
    if let Some(g) = d.optional_gradient(1).filter(|_| has_vectors) {
        let projected = vh.matmul(g);
        let lengths = projected.op("view_as_real", Attrs::new()).select(-1, 0);
        let lengths = (lengths * square(lengths)?).sum(&[-2], false).unsqueeze(-2);
        let projected = projected - vh.matmul(v * lengths);
        let e = differences(values)?.conj();
        inner = inner + off_diagonal(projected) / e;
    }
    let [factors, pivots, _] = d.calls.several("linalg_lu_factor_ex", &[vh], Attrs::new());
    Ok(factors.apply("linalg_lu_solve", [pivots, inner.matmul(vh)]))
}
