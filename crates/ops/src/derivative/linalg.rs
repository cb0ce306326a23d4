//! Linear algebra: factorizations, and solutions by them.
//!
//! Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse
//! mode algorithmic differentiation" (2008); I. Murray, "Differentiation of the Cholesky
//! decomposition", arXiv:1602.07527 (2016).

use millstream_types::{Attrs, Error, Result};

use super::{Derivative, I0, I1, I2, O0, O1, Rule, each, joint, joint_by, one};
use crate::args::choice;
use crate::formula::{Expr, along};
use crate::linalg::has_vectors;

pub(super) const RULES: &[Rule] = &[
    one("linalg_cholesky_ex", &[O0], cholesky).complex(),
    one("linalg_inv_ex", &[O0], |d| {
        let inverse = d.output(0).adjoint();
        Ok(-inverse.matmul(d.g()).matmul(inverse))
    })
    .complex(),
    one("linalg_lu_factor_ex", &[O0, O1], lu_factors).complex(),
    each("lu_unpack", &[], &[Some(unpacked), None]).complex(),
    joint_by("linalg_lu_solve", &[(I0, &[0, 2]), (I1, &[0, 2]), (O0, &[0])], lu_solution).complex(),
    joint_by("linalg_solve_triangular", &[(I0, &[0, 1]), (O0, &[0])], triangular_solution)
        .complex(),
    one("linalg_qr", &[O0, O1], qr).complex(),
    joint("linalg_householder_product", &[I0, I1], |d| {
        let (packed, g) = (d.input(0), d.g());
        let (rows, columns) = sizes(&g.shape()?);
        let columns = identity(packed, rows, columns);
        let [packed, tau, _] = reflections([packed, d.input(1), columns], g, false)?;
        Ok(vec![Some(packed), Some(tau)])
    })
    .complex(),
    joint_by("ormqr", &[(I0, &[0, 1, 2]), (I1, &[0, 1, 2]), (I2, &[0, 1])], |d| {
        let (left, is_adjoint) = (d.flag("left", true)?, d.flag("transpose", false)?);
        // Only the gradients of the factors depend on the matrix itself.
        let other = if d.needs(0) || d.needs(1) { d.input(2) } else { d.zeros(2)? };
        // A product from the right is the adjoint of one from the left.
        let turned: fn(Expr<'_>) -> Expr<'_> = if left { |x| x } else { |x| x.adjoint() };
        let (other, g) = (turned(other), turned(d.g()));
        let all = [d.input(0), d.input(1), other];
        let [packed, tau, other] = reflections(all, g, is_adjoint == left)?;
        Ok(vec![Some(packed), Some(tau), Some(turned(other))])
    })
    .complex(),
    joint_by("linalg_lstsq", &[(I0, &[0, 1]), (I1, &[0]), (O0, &[0, 1])], least_squares).complex(),
];

/// Returns the numbers of rows and columns of matrices of a shape.
pub(super) fn sizes(shape: &[i64]) -> (i64, i64) {
    (shape[shape.len() - 2], shape[shape.len() - 1])
}

/// Returns the identity, of the dtype of a tensor.
pub(super) fn identity<'a>(like: Expr<'a>, rows: i64, columns: i64) -> Expr<'a> {
    like.calls.full(vec![rows, columns], 1i64, like.dtype()).tril(0).triu(0)
}

pub(super) fn rows(x: Expr<'_>, start: i64, length: i64) -> Expr<'_> {
    x.narrow(-2, start, length)
}

pub(super) fn columns(x: Expr<'_>, start: i64, length: i64) -> Expr<'_> {
    x.narrow(-1, start, length)
}

/// Returns matrices of one column as vectors.
fn squeezed(x: Expr<'_>) -> Expr<'_> {
    x.op("squeeze", Attrs::new().with("dim", vec![-1]))
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

    fn solve<'a>(self, a: Expr<'a>, b: Expr<'a>) -> Expr<'a> {
        let attrs = Attrs::new().with("upper", self.upper).with("left", self.left);
        a.with("linalg_solve_triangular", b, attrs.with("unitriangular", self.unit))
    }
}

/// With the lower triangle T of Lᴴ gL, and S the Hermitian matrix with half of it, the gradient is
/// L⁻ᴴ S L⁻¹.
fn cholesky(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (mut l, mut g) = (d.output(0), d.g());
    if d.flag("upper", false)? {
        (l, g) = (l.adjoint(), g.adjoint());
    }
    let lh = l.adjoint();
    let lower = lh.matmul(g).tril(0);
    let half = (lower + lower.tril(-1).adjoint()) * 0.5;
    Ok(LOWER.right().solve(l, UPPER.solve(lh, half)))
}

/// With k the lesser length, either L or U has parts beyond the first k rows or columns. For square
/// factors the gradient is P L⁻ᴴ (lower(Lᴴ gL) + upper(gU Uᴴ)) U⁻ᴴ, and the further parts follow
/// from A = P L U by blocks.
fn lu_factors(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (packed, g) = (d.output(0), d.g());
    let (m, n) = sizes(&packed.shape()?);
    let k = m.min(n);
    let [p, l, u] = d.calls.several("lu_unpack", &[packed, d.output(1)], Attrs::new());
    let (gl, gu) = (columns(g, 0, k).tril(-1), rows(g, 0, k).triu(0));
    let (l1, u1) = (rows(l, 0, k), columns(u, 0, k));
    let (l1h, u1h) = (l1.adjoint(), u1.adjoint());
    let mut lower = l1h.matmul(rows(gl, 0, k));
    let mut upper = columns(gu, 0, k).matmul(u1h);
    if n > k {
        let (u2, gu2) = (columns(u, k, n - k), columns(gu, k, n - k));
        lower = lower - gu2.matmul(u2.adjoint());
    }
    if m > k {
        let (l2, gl2) = (rows(l, k, m - k), rows(gl, k, m - k));
        upper = upper - l2.adjoint().matmul(gl2);
    }
    let inner = lower.tril(-1) + upper.triu(0);
    let inner = LOWER.right().solve(u1h, UPPER.unit().solve(l1h, inner));
    let whole = if n > k {
        d.calls.cat(&[inner, UPPER.unit().solve(l1h, columns(gu, k, n - k))], -1)
    } else if m > k {
        d.calls.cat(&[inner, LOWER.right().solve(u1h, rows(gl, k, m - k))], -2)
    } else {
        inner
    };
    Ok(p.matmul(whole))
}

/// The gradients of L and U, side by side in the packed form.
fn unpacked(d: Derivative<'_>) -> Result<Expr<'_>> {
    if !d.flag("unpack_data", true)? {
        return d.zeros(0);
    }
    let (l, u) = (d.gradient(1).tril(-1), d.gradient(2).triu(0));
    let (m, n) = sizes(&d.shape(0)?);
    Ok(if m > n { l + u.padded(vec![0, 0, 0, m - n]) } else { u + l.padded(vec![0, n - m]) })
}

/// The gradient of B is a solution with the adjoint of A; that of A is −gB Xᴴ, or for the other
/// side and the adjoint its counterpart, and those of L and U follow from A = P L U.
fn lu_solution(d: Derivative<'_>) -> Result<Vec<Option<Expr<'_>>>> {
    let (packed, pivots) = (d.input(0), d.input(1));
    let (left, is_adjoint) = (d.flag("left", true)?, d.flag("adjoint", false)?);
    let attrs = Attrs::new().with("left", left).with("adjoint", !is_adjoint);
    let gb = d.calls.one("linalg_lu_solve", &[packed, pivots, d.g()], attrs);
    if !d.needs(0) {
        return Ok(vec![None, None, Some(gb)]);
    }
    let x = d.output(0);
    let ga = match (left, is_adjoint) {
        (true, false) => gb.matmul(x.adjoint()),
        (true, true) => x.matmul(gb.adjoint()),
        (false, false) => x.adjoint().matmul(gb),
        (false, true) => gb.adjoint().matmul(x),
    };
    let [p, l, u] = d.calls.several("lu_unpack", &[packed, pivots], Attrs::new());
    let ga = p.transpose(-1, -2).matmul(-ga);
    let (gl, gu) = (ga.matmul(u.adjoint()), l.adjoint().matmul(ga));
    Ok(vec![Some(gl.tril(-1) + gu.triu(0)), None, Some(gb)])
}

fn triangular_solution(d: Derivative<'_>) -> Result<Vec<Option<Expr<'_>>>> {
    let (upper, left) = (d.flag("upper", false)?, d.flag("left", true)?);
    let unit = d.flag("unitriangular", false)?;
    let gb = Triangle { upper: !upper, left, unit }.solve(d.input(0).adjoint(), d.g());
    if !d.needs(0) {
        return Ok(vec![None, Some(gb)]);
    }
    let xh = d.output(0).adjoint();
    let ga = -if left { gb.matmul(xh) } else { xh.matmul(gb) };
    let unit = i64::from(unit);
    Ok(vec![Some(if upper { ga.triu(unit) } else { ga.tril(-unit) }), Some(gb)])
}

/// For as many columns as Q has, the gradient is (gQ + Q S) R⁻ᴴ, where S is Hermitian with the
/// upper triangle of gR Rᴴ − Qᴴ gQ. Further columns of A are Q times those of R.
fn qr(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (m, n) = sizes(&d.shape(0)?);
    let mode = choice(d.attrs, "mode", &["reduced", "complete", "r"])?.unwrap_or("reduced");
    if mode == "r" || mode == "complete" && m > n {
        let message = format!(
            "linalg_qr of {} has no derivative with the mode \"{mode}\", since Q is not determined \
             or not kept; use \"reduced\"",
            d.spec(0)?.brief()
        );
        return Err(Error::Invalid { what: "gradient", message });
    }
    let (q, r, mut gq, gr) = (d.output(0), d.output(1), d.gradient(0), d.gradient(1));
    let k = m.min(n);
    if n > k {
        let (r2, gr2) = (columns(r, k, n - k), columns(gr, k, n - k));
        gq = gq + q.matmul(r2).matmul(gr2.adjoint());
    }
    let (r1h, gr1) = (columns(r, 0, k).adjoint(), columns(gr, 0, k));
    let upper = (gr1.matmul(r1h) - q.adjoint().matmul(gq)).triu(0);
    let symmetric = upper + upper.triu(1).adjoint();
    // The diagonal of R is real.
    let imaginary = (upper - upper.adjoint()).tril(0).triu(0) * 0.5;
    let symmetric = symmetric - imaginary;
    let first = LOWER.right().solve(r1h, gq + q.matmul(symmetric));
    Ok(match n > k {
        true => d.calls.cat(&[first, q.matmul(columns(gr, k, n - k))], -1),
        false => first,
    })
}

/// Returns the gradients of packed factors, of their `tau`, and of the matrix to which the
/// reflections H = I − tau v vᴴ were applied, or their adjoints in the other order.
fn reflections<'a>(
    [packed, tau, matrix]: [Expr<'a>; 3],
    mut g: Expr<'a>,
    is_adjoint: bool,
) -> Result<[Expr<'a>; 3]> {
    let ((m, n), tau_shape) = (sizes(&packed.shape()?), tau.shape()?);
    let k = tau_shape[tau_shape.len() - 1];
    let vectors = columns(packed, 0, k).tril(-1) + identity(packed, m, k);
    let conj = |x: Expr<'a>| if is_adjoint { x.conj() } else { x };
    let part = |i: i64| {
        let (v, t) = (columns(vectors, i, 1), columns(tau, i, 1).unsqueeze(-1));
        let t = conj(t);
        [v.adjoint(), v, t]
    };
    let outermost_first: Vec<[Expr<'a>; 3]> =
        if is_adjoint { (0..k).rev().map(part).collect() } else { (0..k).map(part).collect() };
    let mut before = Vec::new();
    let mut applied = matrix;
    for &[vh, v, t] in outermost_first.iter().rev() {
        before.push(applied);
        applied = applied - v.matmul(vh.matmul(applied)) * t;
    }
    let mut found = Vec::new();
    for ([vh, v, t], w) in outermost_first.into_iter().zip(before.into_iter().rev()) {
        let after = g.matmul(w.adjoint().matmul(v));
        let other = w.matmul(g.adjoint().matmul(v));
        let gt = conj(squeezed(-vh.matmul(after)));
        let tc = t.conj();
        found.push((-(after * tc + other * t), gt));
        g = g - v.matmul(vh.matmul(g)) * tc;
    }
    if k == 0 {
        return Ok([packed.full_like(0i64)?, tau.full_like(0i64)?, g]);
    }
    if is_adjoint {
        found.reverse();
    }
    let (gv, gt): (Vec<Expr<'a>>, Vec<Expr<'a>>) = found.into_iter().unzip();
    let side_by_side = |each: &[Expr<'a>]| packed.calls.one("cat", each, along(-1));
    let gv = side_by_side(&gv).tril(-1);
    let gv = if n > k { gv.padded(vec![0, n - k]) } else { gv };
    Ok([gv, side_by_side(&gt), g])
}

/// The solution is A⁺ B for a matrix of full rank. At the solution the residuals depend on A and B
/// alone, not on the solution.
fn least_squares<'a>(d: Derivative<'a>) -> Result<Vec<Option<Expr<'a>>>> {
    let a = d.input(0);
    let (m, n) = sizes(&a.shape()?);
    let is_vector = has_vectors(d.spec(0)?.shape(), d.spec(1)?.shape());
    let column = |x: Expr<'a>| if is_vector { x.unsqueeze(-1) } else { x };
    let ah = a.adjoint();
    let [q, r] = d.calls.several("linalg_qr", &[if m >= n { a } else { ah }], Attrs::new());
    let pinv = match m >= n {
        true => UPPER.solve(r, q.adjoint()),
        false => LOWER.right().solve(r.adjoint(), q),
    };
    let pinvh = pinv.adjoint();
    let gx = column(d.gradient(0));
    let mut gb = pinvh.matmul(gx);
    let mut ga = None;
    if d.needs(0) {
        let gph = gx.matmul(column(d.input(1)).adjoint()).adjoint();
        ga = Some(match m <= n {
            true => {
                let k = gph.matmul(pinv);
                let kp = k.matmul(pinvh);
                let inner = pinvh.matmul(pinv).matmul(gph - k.matmul(a));
                inner + kp - pinv.matmul(k).adjoint() - a.matmul(pinv).matmul(kp)
            }
            false => {
                let k = pinv.matmul(gph);
                let pk = pinvh.matmul(k);
                let inner = (gph - a.matmul(k)).matmul(pinv).matmul(pinvh);
                inner + pk - k.matmul(pinv).adjoint() - pk.matmul(pinv).matmul(a)
            }
        });
    }
    if let Some(g) = d.optional_gradient(1).filter(|_| m > n)
        && g.numel()? > 0
    {
        let (x, b, g) = (column(d.output(0)), column(d.input(1)), column(g));
        let r = (a.matmul(x) - b) * g.unsqueeze(-2) * 2;
        gb = gb - r;
        let of_a = r.matmul(x.adjoint());
        ga = ga.map(|ga| ga + of_a);
    }
    Ok(vec![ga, Some(if is_vector { squeezed(gb) } else { gb })])
}
