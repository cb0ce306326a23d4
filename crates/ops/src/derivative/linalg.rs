//! Linear algebra: factorizations, and solutions by them.
//!
//! Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse
//! mode algorithmic differentiation" (2008); I. Murray, "Differentiation of the Cholesky
//! decomposition", arXiv:1602.07527 (2016).

use millstream_types::{AttrValue, Error, Result};

use super::{Derivative, I0, I1, I2, O0, O1, Rule, adjoint, conj, each, joint, one};
use crate::handle::Tensor;
use crate::tensor::options;

pub(super) const RULES: &[Rule] = &[
    one("linalg_cholesky_ex", &[(O0, &[0])], &[Some(cholesky)]),
    one(
        "linalg_inv_ex",
        &[(O0, &[0])],
        &[Some(|d| {
            let inverse = adjoint(&d.output(0)?)?;
            inverse.matmul(&d.g()?)?.matmul(&inverse)?.neg()
        })],
    ),
    one("linalg_lu_factor_ex", &[(O0, &[0]), (O1, &[0])], &[Some(lu_factors)]),
    each("lu_unpack", &[], &[Some(unpacked), None]),
    joint("linalg_lu_solve", &[(I0, &[0, 2]), (I1, &[0, 2]), (O0, &[0])], lu_solution),
    joint("linalg_solve_triangular", &[(I0, &[0, 1]), (O0, &[0])], triangular_solution),
    one("linalg_qr", &[(O0, &[0]), (O1, &[0])], &[Some(qr)]),
    joint("linalg_householder_product", &[(I0, &[0, 1]), (I1, &[0, 1])], |d| {
        let (packed, tau, g) = (d.input(0)?, d.input(1)?, d.g()?);
        let (rows, columns) = sizes(&g);
        let columns = identity(&packed, rows, columns)?;
        let (packed, tau, _) = reflections(&packed, &tau, &columns, &g, false)?;
        Ok(vec![Some(packed), Some(tau)])
    }),
    joint("ormqr", &[(I0, &[0, 1, 2]), (I1, &[0, 1, 2]), (I2, &[0, 1])], |d| {
        let (packed, tau, g) = (d.input(0)?, d.input(1)?, d.g()?);
        let (left, is_adjoint) = (flag(d, "left", true)?, flag(d, "transpose", false)?);
        // Only the gradients of the factors depend on the matrix itself.
        let other = if d.needs(0) || d.needs(1) { d.input(2)? } else { d.zeros(2)? };
        let (packed, tau, other) = match left {
            true => reflections(&packed, &tau, &other, &g, is_adjoint)?,
            false => {
                let (other, g) = (adjoint(&other)?, adjoint(&g)?);
                let (packed, tau, other) = reflections(&packed, &tau, &other, &g, !is_adjoint)?;
                (packed, tau, adjoint(&other)?)
            }
        };
        Ok(vec![Some(packed), Some(tau), Some(other)])
    }),
    joint("linalg_lstsq", &[(I0, &[0, 1]), (I1, &[0]), (O0, &[0, 1])], least_squares),
];

pub(super) fn flag(d: &Derivative<'_>, name: &str, default: bool) -> Result<bool> {
    Ok(d.attrs().bool(name)?.unwrap_or(default))
}

/// Returns the numbers of rows and columns.
pub(super) fn sizes(x: &Tensor) -> (usize, usize) {
    let rank = x.rank();
    (x.shape()[rank - 2], x.shape()[rank - 1])
}

/// Returns the identity, of the dtype of a tensor and beside it.
pub(super) fn identity(beside: &Tensor, rows: usize, columns: usize) -> Result<Tensor> {
    Tensor::ones((rows, columns), beside.dtype(), beside)?.tril(0)?.triu(0)
}

pub(super) fn rows(x: &Tensor, start: usize, length: usize) -> Result<Tensor> {
    x.narrow(-2, start, length)
}

pub(super) fn columns(x: &Tensor, start: usize, length: usize) -> Result<Tensor> {
    x.narrow(-1, start, length)
}

/// Which triangle of a matrix is meant, and where it stands.
#[derive(Clone, Copy)]
struct Triangle {
    upper: bool,
    left: bool,
    unit: bool,
}

const UPPER: Triangle = Triangle { upper: true, left: true, unit: false };
const LOWER: Triangle = Triangle { upper: false, left: true, unit: false };

impl Triangle {
    /// Returns the triangle on the right of the unknown matrix.
    const fn right(self) -> Triangle {
        Triangle { left: false, ..self }
    }

    const fn unit(self) -> Triangle {
        Triangle { unit: true, ..self }
    }

    fn solve(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let options = options::LinalgSolveTriangular::default();
        let options = options.upper(self.upper).left(self.left).unitriangular(self.unit);
        a.linalg_solve_triangular_with(b, options)
    }
}

/// With the lower triangle T of Lᴴ gL, and S the Hermitian matrix with half of it, the gradient is
/// L⁻ᴴ S L⁻¹.
fn cholesky(d: &Derivative<'_>) -> Result<Tensor> {
    let (mut l, mut g) = (d.output(0)?, d.g()?);
    if flag(d, "upper", false)? {
        (l, g) = (adjoint(&l)?, adjoint(&g)?);
    }
    let lh = adjoint(&l)?;
    let lower = lh.matmul(&g)?.tril(0)?;
    let half = lower.add(&adjoint(&lower.tril(-1)?)?)?.mul(0.5)?;
    LOWER.right().solve(&l, &UPPER.solve(&lh, &half)?)
}

/// With k the lesser length, either L or U has parts beyond the first k rows or columns. For square
/// factors the gradient is P L⁻ᴴ (lower(Lᴴ gL) + upper(gU Uᴴ)) U⁻ᴴ, and the further parts follow
/// from A = P L U by blocks.
fn lu_factors(d: &Derivative<'_>) -> Result<Tensor> {
    let (packed, g) = (d.output(0)?, d.g()?);
    let (m, n) = sizes(&packed);
    let k = m.min(n);
    let (p, l, u) = packed.lu_unpack(&d.output(1)?)?;
    let (gl, gu) = (columns(&g, 0, k)?.tril(-1)?, rows(&g, 0, k)?.triu(0)?);
    let (l1, u1) = (rows(&l, 0, k)?, columns(&u, 0, k)?);
    let (l1h, u1h) = (adjoint(&l1)?, adjoint(&u1)?);
    let mut lower = l1h.matmul(&rows(&gl, 0, k)?)?;
    let mut upper = columns(&gu, 0, k)?.matmul(&u1h)?;
    if n > k {
        let (u2, gu2) = (columns(&u, k, n - k)?, columns(&gu, k, n - k)?);
        lower = lower.sub(&gu2.matmul(&adjoint(&u2)?)?)?;
    }
    if m > k {
        let (l2, gl2) = (rows(&l, k, m - k)?, rows(&gl, k, m - k)?);
        upper = upper.sub(&adjoint(&l2)?.matmul(&gl2)?)?;
    }
    let inner = lower.tril(-1)?.add(&upper.triu(0)?)?;
    let inner = LOWER.right().solve(&u1h, &UPPER.unit().solve(&l1h, &inner)?)?;
    let whole = if n > k {
        let beyond = UPPER.unit().solve(&l1h, &columns(&gu, k, n - k)?)?;
        Tensor::cat(&[&inner, &beyond], -1)?
    } else if m > k {
        let beyond = LOWER.right().solve(&u1h, &rows(&gl, k, m - k)?)?;
        Tensor::cat(&[&inner, &beyond], -2)?
    } else {
        inner
    };
    p.matmul(&whole)
}

/// The gradients of L and U, side by side in the packed form.
fn unpacked(d: &Derivative<'_>) -> Result<Tensor> {
    if !flag(d, "unpack_data", true)? {
        return d.zeros(0);
    }
    let (l, u) = (d.gradient(1)?.tril(-1)?, d.gradient(2)?.triu(0)?);
    let rank = d.shape(0)?.len();
    let (m, n) = (d.shape(0)?[rank - 2], d.shape(0)?[rank - 1]);
    match m > n {
        true => l.add(&u.constant_pad_nd([0, 0, 0, m - n])?),
        false => u.add(&l.constant_pad_nd([0, n - m])?),
    }
}

/// The gradient of B is a solution with the adjoint of A; that of A is −gB Xᴴ, or for the other
/// side and the adjoint its counterpart, and those of L and U follow from A = P L U.
fn lu_solution(d: &Derivative<'_>) -> Result<Vec<Option<Tensor>>> {
    let (packed, pivots) = (d.input(0)?, d.input(1)?);
    let (left, is_adjoint) = (flag(d, "left", true)?, flag(d, "adjoint", false)?);
    let options = options::LinalgLuSolve::default().left(left).adjoint(!is_adjoint);
    let gb = packed.linalg_lu_solve_with(&pivots, &d.g()?, options)?;
    if !d.needs(0) {
        return Ok(vec![None, None, Some(gb)]);
    }
    let x = d.output(0)?;
    let ga = match (left, is_adjoint) {
        (true, false) => gb.matmul(&adjoint(&x)?)?,
        (true, true) => x.matmul(&adjoint(&gb)?)?,
        (false, false) => adjoint(&x)?.matmul(&gb)?,
        (false, true) => adjoint(&gb)?.matmul(&x)?,
    };
    let (p, l, u) = packed.lu_unpack(&pivots)?;
    let ga = p.transpose(-1, -2)?.matmul(&ga.neg()?)?;
    let (gl, gu) = (ga.matmul(&adjoint(&u)?)?, adjoint(&l)?.matmul(&ga)?);
    Ok(vec![Some(gl.tril(-1)?.add(&gu.triu(0)?)?), None, Some(gb)])
}

fn triangular_solution(d: &Derivative<'_>) -> Result<Vec<Option<Tensor>>> {
    let a = d.input(0)?;
    let (upper, left) = (flag(d, "upper", false)?, flag(d, "left", true)?);
    let unit = flag(d, "unitriangular", false)?;
    let gb = Triangle { upper: !upper, left, unit }.solve(&adjoint(&a)?, &d.g()?)?;
    if !d.needs(0) {
        return Ok(vec![None, Some(gb)]);
    }
    let xh = adjoint(&d.output(0)?)?;
    let ga = if left { gb.matmul(&xh)? } else { xh.matmul(&gb)? }.neg()?;
    let ga = match upper {
        true => ga.triu(i64::from(unit))?,
        false => ga.tril(-i64::from(unit))?,
    };
    Ok(vec![Some(ga), Some(gb)])
}

/// For as many columns as Q has, the gradient is (gQ + Q S) R⁻ᴴ, where S is Hermitian with the
/// upper triangle of gR Rᴴ − Qᴴ gQ. Further columns of A are Q times those of R.
fn qr(d: &Derivative<'_>) -> Result<Tensor> {
    let rank = d.shape(0)?.len();
    let (m, n) = (d.shape(0)?[rank - 2], d.shape(0)?[rank - 1]);
    let mode = match d.attrs().get("mode") {
        Some(AttrValue::Str(mode)) => mode.as_str(),
        _ => "reduced",
    };
    if mode == "r" || mode == "complete" && m > n {
        let message = format!(
            "linalg_qr of {} has no derivative with the mode \"{mode}\", since Q is not determined \
             or not kept; use \"reduced\"",
            d.spec(0)?.brief()
        );
        return Err(Error::Invalid { what: "gradient", message });
    }
    let (q, r, mut gq, gr) = (d.output(0)?, d.output(1)?, d.gradient(0)?, d.gradient(1)?);
    let k = m.min(n);
    if n > k {
        let (r2, gr2) = (columns(&r, k, n - k)?, columns(&gr, k, n - k)?);
        gq = gq.add(&q.matmul(&r2)?.matmul(&adjoint(&gr2)?)?)?;
    }
    let (r1h, gr1) = (adjoint(&columns(&r, 0, k)?)?, columns(&gr, 0, k)?);
    let upper = gr1.matmul(&r1h)?.sub(&adjoint(&q)?.matmul(&gq)?)?.triu(0)?;
    let symmetric = upper.add(&adjoint(&upper.triu(1)?)?)?;
    // The diagonal of R is real.
    let imaginary = upper.sub(&adjoint(&upper)?)?.tril(0)?.triu(0)?.mul(0.5)?;
    let symmetric = symmetric.sub(&imaginary)?;
    let first = LOWER.right().solve(&r1h, &gq.add(&q.matmul(&symmetric)?)?)?;
    match n > k {
        true => Tensor::cat(&[&first, &q.matmul(&columns(&gr, k, n - k)?)?], -1),
        false => Ok(first),
    }
}

/// Returns the gradients of packed factors, of their `tau`, and of the matrix to which the
/// reflections H = I − tau v vᴴ were applied, or their adjoints in the other order.
fn reflections(
    packed: &Tensor,
    tau: &Tensor,
    matrix: &Tensor,
    g: &Tensor,
    is_adjoint: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (m, n) = sizes(packed);
    let k = tau.shape()[tau.rank() - 1];
    let vectors = columns(packed, 0, k)?.tril(-1)?.add(&identity(packed, m, k)?)?;
    let outermost_first: Vec<usize> =
        if is_adjoint { (0..k).rev().collect() } else { (0..k).collect() };
    let parts: Vec<(Tensor, Tensor, Tensor)> = outermost_first
        .iter()
        .map(|&i| {
            let (v, t) = (columns(&vectors, i, 1)?, columns(tau, i, 1)?.unsqueeze(-1)?);
            let t = if is_adjoint { conj(&t)? } else { t };
            Ok((adjoint(&v)?, v, t))
        })
        .collect::<Result<_>>()?;
    let mut before = Vec::with_capacity(k);
    let mut applied = matrix.clone();
    for (vh, v, t) in parts.iter().rev() {
        before.push(applied.clone());
        applied = applied.sub(&v.matmul(&vh.matmul(&applied)?)?.mul(t)?)?;
    }
    let mut g = g.clone();
    let mut found: Vec<Option<(Tensor, Tensor)>> = vec![None; k];
    for (&i, (vh, v, t)) in outermost_first.iter().zip(&parts) {
        let Some(w) = before.pop() else { break };
        let after = g.matmul(&adjoint(&w)?.matmul(v)?)?;
        let other = w.matmul(&adjoint(&g)?.matmul(v)?)?;
        let gt = vh.matmul(&after)?.neg()?.squeeze(-1)?;
        let gt = if is_adjoint { conj(&gt)? } else { gt };
        let tc = conj(t)?;
        let gv = after.mul(&tc)?.add(&other.mul(t)?)?.neg()?;
        found[i] = Some((gv, gt));
        g = g.sub(&v.matmul(&vh.matmul(&g)?)?.mul(&tc)?)?;
    }
    let (gv, gt): (Vec<Tensor>, Vec<Tensor>) = found.into_iter().flatten().unzip();
    if k == 0 {
        return Ok((packed.zeros_like()?, tau.zeros_like()?, g));
    }
    let gv = Tensor::cat(&gv.iter().collect::<Vec<_>>(), -1)?.tril(-1)?;
    let gv = if n > k { gv.constant_pad_nd([0, n - k])? } else { gv };
    Ok((gv, Tensor::cat(&gt.iter().collect::<Vec<_>>(), -1)?, g))
}

/// The solution is A⁺ B for a matrix of full rank. At the solution the residuals depend on A and B
/// alone, not on the solution.
fn least_squares(d: &Derivative<'_>) -> Result<Vec<Option<Tensor>>> {
    let a = d.input(0)?;
    let (m, n) = sizes(&a);
    let is_vector = millstream_ops::linalg::has_vectors(d.shape(0)?, d.shape(1)?);
    let column = |x: Tensor| if is_vector { x.unsqueeze(-1) } else { Ok(x) };
    let ah = adjoint(&a)?;
    let pinv = match m >= n {
        true => {
            let (q, r) = a.linalg_qr()?;
            UPPER.solve(&r, &adjoint(&q)?)?
        }
        false => {
            let (q, r) = ah.linalg_qr()?;
            LOWER.right().solve(&adjoint(&r)?, &q)?
        }
    };
    let pinvh = adjoint(&pinv)?;
    let gx = column(d.gradient(0)?)?;
    let mut gb = pinvh.matmul(&gx)?;
    let mut ga = None;
    if d.needs(0) {
        let gph = adjoint(&gx.matmul(&adjoint(&column(d.input(1)?)?)?)?)?;
        ga = Some(match m <= n {
            true => {
                let k = gph.matmul(&pinv)?;
                let kp = k.matmul(&pinvh)?;
                let inner = pinvh.matmul(&pinv)?.matmul(&gph.sub(&k.matmul(&a)?)?)?;
                let whole = inner.add(&kp)?.sub(&adjoint(&pinv.matmul(&k)?)?)?;
                whole.sub(&a.matmul(&pinv)?.matmul(&kp)?)?
            }
            false => {
                let k = pinv.matmul(&gph)?;
                let pk = pinvh.matmul(&k)?;
                let inner = gph.sub(&a.matmul(&k)?)?.matmul(&pinv)?.matmul(&pinvh)?;
                let whole = inner.add(&pk)?.sub(&adjoint(&k.matmul(&pinv)?)?)?;
                whole.sub(&pk.matmul(&pinv)?.matmul(&a)?)?
            }
        });
    }
    let residuals = d.gradients.get(1).and_then(Option::as_ref).filter(|g| m > n && g.numel() > 0);
    if let Some(g) = residuals {
        let (x, b) = (column(d.output(0)?)?, column(d.input(1)?)?);
        let g = if is_vector { g.unsqueeze(-1)? } else { g.clone() };
        let r = a.matmul(&x)?.sub(&b)?.mul(&g.unsqueeze(-2)?)?.mul(2)?;
        gb = gb.sub(&r)?;
        let of_a = r.matmul(&adjoint(&x)?)?;
        ga = ga.map(|ga| ga.add(&of_a)).transpose()?;
    }
    let gb = if is_vector { gb.squeeze(-1)? } else { gb };
    Ok(vec![ga, Some(gb)])
}
