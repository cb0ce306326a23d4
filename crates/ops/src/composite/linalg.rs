//! Composite linear algebra: determinants, solutions and inverses that factorizations give.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, several, table};

table! {
    several("_linalg_det", "the determinant, packed LU factors and pivots", A, &[], 3, determinant);
    several("_linalg_slogdet",
        "the sign and the logarithm of the determinant, packed LU factors and pivots", A, &[], 4,
        log_determinant);
    several("_linalg_solve_ex", "the solution X of A X = B, packed LU factors, pivots and infos",
        AB, SOLVE, 4, solution);
    several("linalg_lu", "the permutation, the lower and the upper factor", A, PIVOT, 3, lu);
    op("cholesky_solve", "the solution X of A X = x, given the factor of A", FACTOR_LAST, UPPER,
        |calls, given| {
        let (b, l) = (given.tensor("x")?, given.tensor("factor")?);
        solve_by_cholesky(calls, l, b, given.flag("upper", false)?)
    });
    op("cholesky_inverse", "the inverse of A, given its factor", FACTOR, UPPER,
        inverse_by_cholesky);
    several("triangular_solve", "the solution X of A X = x, and a copy of A", XA, TRIANGULAR, 2,
        triangular);
    op("linalg_pinv", "the pseudo-inverse", PINV, HERMITIAN, pseudo_inverse).optional_from(1);
    op("linalg_matrix_sqrth", "the square root of a symmetric matrix", MATRIX, &[], root);
    several("linalg_polar", "the unitary and the positive factor of the polar decomposition", A,
        &[], 2, polar);
    op("linalg_cross", "the cross products of vectors", XY, DIM, cross);
}

const A: &[ArgDoc] = &[arg("A", "[...,n,n]")];
const AB: &[ArgDoc] = &[arg("A", "[...,n,n]"), arg("B", "[...,n,k] or [...,n]")];
const SOLVE: &[ArgDoc] = &[
    arg("left", "whether A stands on the left").flag().or("true"),
    arg("check_errors", "").flag().ignored(),
];
const PIVOT: &[ArgDoc] = &[arg("pivot", "").flag().ignored()];
const UPPER: &[ArgDoc] =
    &[arg("upper", "whether the factor is upper triangular").flag().or("false")];
const FACTOR_LAST: &[ArgDoc] = &[arg("x", "[...,n,k]"), arg("factor", "[...,n,n]")];
const FACTOR: &[ArgDoc] = &[arg("x", "the factor, [...,n,n]")];
const XA: &[ArgDoc] = &[arg("x", "[...,n,k]"), arg("A", "[...,n,n]")];
const TRIANGULAR: &[ArgDoc] = &[
    arg("upper", "whether A is upper triangular").flag().or("true"),
    arg("transpose", "whether A is transposed first").flag().or("false"),
    arg("unitriangular", "whether the diagonal counts as 1").flag().or("false"),
];
const PINV: &[ArgDoc] = &[
    arg("x", "[...,n,m]"),
    arg("atol", "the least value that counts"),
    arg("rtol", "the same, relative to the greatest"),
];
const HERMITIAN: &[ArgDoc] = &[arg("hermitian", "whether x is symmetric").flag().or("false")];
const MATRIX: &[ArgDoc] = &[arg("x", "[...,n,n]")];
const XY: &[ArgDoc] =
    &[arg("x", "length 3 along the dimension"), arg("y", "a shape that broadcasts with x")];
const DIM: &[ArgDoc] = &[arg("dim", "the dimension of the vectors").int().or("-1")];

fn transposed(calls: &mut Calls<'_>, x: Symbol) -> Result<Symbol> {
    calls.transpose(x, -2, -1)
}

/// Returns the adjoint: of real matrices, the transpose.
fn adjoint(calls: &mut Calls<'_>, x: Symbol) -> Result<Symbol> {
    let turned = transposed(calls, x)?;
    match calls.dtype(turned).is_complex() {
        true => calls.apply("conj_physical", &[turned]),
        false => Ok(turned),
    }
}

/// Returns packed LU factors, pivots and infos.
fn factors(calls: &mut Calls<'_>, a: Symbol) -> Result<[Symbol; 3]> {
    calls.several("linalg_lu_factor_ex", &[a], Attrs::new())
}

/// Returns the factors that PyTorch computes for determinants, and that their gradients read: those
/// of the transpose, if a real matrix is contiguous.
fn factors_for_determinant(calls: &mut Calls<'_>, a: Symbol) -> Result<[Symbol; 3]> {
    let turned = calls.spec(a).layout.is_contiguous() && !calls.dtype(a).is_complex();
    let a = if turned { transposed(calls, a)? } else { a };
    factors(calls, a)
}

fn singular(calls: &mut Calls<'_>, a: Symbol) -> Result<[Symbol; 3]> {
    calls.several("_linalg_svd", &[a], Attrs::new())
}

fn eigen(calls: &mut Calls<'_>, a: Symbol) -> Result<[Symbol; 2]> {
    calls.several("_linalg_eigh", &[a], Attrs::new())
}

fn identity(calls: &mut Calls<'_>, length: usize, like: Symbol) -> Result<Symbol> {
    let dtype = calls.dtype(like);
    let attrs = Attrs::new().with("shape", vec![length as i64; 2]).with("value", 0i64);
    let whole = calls.one("full", &[], attrs.with("dtype", dtype))?;
    let diagonal = calls.apply("diagonal", &[whole])?;
    calls.call("fill", &[diagonal], Attrs::new().with("value", 1i64))?;
    Ok(whole)
}

/// Returns `left` times the diagonal matrix of `values` times the adjoint of `right`.
fn recomposed(
    calls: &mut Calls<'_>,
    left: Symbol,
    values: Symbol,
    right: Symbol,
) -> Result<Symbol> {
    let values = calls.unsqueeze(values, -2)?;
    let scaled = calls.apply("mul", &[left, values])?;
    let right = adjoint(calls, right)?;
    calls.apply("matmul", &[scaled, right])
}

/// Returns the sign of the permutation of pivots: 1 or -1, as integers.
fn parity(calls: &mut Calls<'_>, pivots: Symbol) -> Result<Symbol> {
    let count = calls.spec(pivots).shape().last().copied().unwrap_or(0) as i64;
    let own = Attrs::new().with("start", 1i64).with("end", count + 1).with("dtype", DType::I32);
    let own = calls.one("arange", &[], own)?;
    let moved = calls.apply("ne", &[pivots, own])?;
    let count = calls.one("sum", &[moved], Attrs::new().with("dim", vec![-1i64]))?;
    let odd = calls.by("remainder", count, 2i64)?;
    let twice = calls.by("mul", odd, -2i64)?;
    calls.by("add", twice, 1i64)
}

fn diagonal(calls: &mut Calls<'_>, x: Symbol) -> Result<Symbol> {
    let attrs = Attrs::new().with("dim1", -2i64).with("dim2", -1i64);
    calls.one("diagonal", &[x], attrs)
}

/// Reduces the last dimension.
fn along_last(calls: &mut Calls<'_>, op: &str, x: Symbol) -> Result<Symbol> {
    calls.one(op, &[x], Attrs::new().with("dim", vec![-1i64]))
}

fn determinant(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let a = given.tensor("A")?;
    let [packed, pivots, _] = factors_for_determinant(calls, a)?;
    let sign = parity(calls, pivots)?;
    let diagonal = diagonal(calls, packed)?;
    let product = along_last(calls, "prod", diagonal)?;
    Ok(vec![calls.apply("mul", &[product, sign])?, packed, pivots])
}

fn log_determinant(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let a = given.tensor("A")?;
    let [packed, pivots, _] = factors_for_determinant(calls, a)?;
    let parity = parity(calls, pivots)?;
    let diagonal = diagonal(calls, packed)?;
    let signs = calls.apply("sign", &[diagonal])?;
    let sign = along_last(calls, "prod", signs)?;
    let sign = calls.apply("mul", &[sign, parity])?;
    let sizes = calls.apply("abs", &[diagonal])?;
    let logs = calls.apply("log", &[sizes])?;
    Ok(vec![sign, along_last(calls, "sum", logs)?, packed, pivots])
}

fn solution(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let (a, b) = (given.tensor("A")?, given.tensor("B")?);
    let [packed, pivots, info] = factors(calls, a)?;
    let vectors = crate::linalg::has_vectors(calls.spec(a).shape(), calls.spec(b).shape());
    let b = if vectors { calls.unsqueeze(b, -1)? } else { b };
    let attrs = Attrs::new().with("left", given.flag("left", true)?);
    let mut x = calls.one("linalg_lu_solve", &[packed, pivots, b], attrs)?;
    if vectors {
        x = calls.one("squeeze", &[x], along(-1))?;
        x = calls.apply("clone", &[x])?;
    }
    Ok(vec![x, packed, pivots, info])
}

fn lu(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let [packed, pivots, _] = factors(calls, given.tensor("A")?)?;
    calls.call("lu_unpack", &[packed, pivots], Attrs::new())
}

fn solve_by_cholesky(calls: &mut Calls<'_>, l: Symbol, b: Symbol, upper: bool) -> Result<Symbol> {
    let turned = adjoint(calls, l)?;
    let (lower, upper) = if upper { (turned, l) } else { (l, turned) };
    let attrs = |upper: bool| Attrs::new().with("upper", upper);
    let x = calls.one("linalg_solve_triangular", &[lower, b], attrs(false))?;
    calls.one("linalg_solve_triangular", &[upper, x], attrs(true))
}

fn inverse_by_cholesky(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let l = given.tensor("x")?;
    let length = calls.shape(l).last().copied().unwrap_or(0);
    let identity = identity(calls, length as usize, l)?;
    solve_by_cholesky(calls, l, identity, given.flag("upper", false)?)
}

fn triangular(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let (b, a) = (given.tensor("x")?, given.tensor("A")?);
    let (mut upper, turned) = (given.flag("upper", true)?, given.flag("transpose", false)?);
    let mut triangle = a;
    if turned {
        triangle = transposed(calls, a)?;
        upper = !upper;
    }
    let unit = given.flag("unitriangular", false)?;
    let attrs = Attrs::new().with("upper", upper).with("unitriangular", unit);
    let x = calls.one("linalg_solve_triangular", &[triangle, b], attrs)?;
    let batch = calls.rank(x) - 2;
    let size: Vec<i64> = calls.spec(x).shape()[..batch].iter().map(|&d| d as i64).collect();
    let rows = calls.spec(a).shape().last().copied().unwrap_or(0) as i64;
    let size = size.into_iter().chain([rows, rows]).collect::<Vec<i64>>();
    let copy = calls.one("expand", &[a], Attrs::new().with("size", size))?;
    Ok(vec![x, calls.apply("clone", &[copy])?])
}

/// Returns the bound below which values count as zero.
fn bound(calls: &mut Calls<'_>, given: &Given<'_>, a: Symbol, most: Symbol) -> Result<Symbol> {
    let spec = calls.spec(a);
    let longest = spec.shape().iter().rev().take(2).copied().max().unwrap_or(0) as f64;
    let epsilon =
        if spec.dtype.part() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let absolute = given.optional("atol");
    let default = epsilon * longest;
    let relative = match (given.optional("rtol"), absolute) {
        (Some(rtol), _) => {
            let rtol = calls.unsqueeze(rtol, -1)?;
            calls.apply("mul", &[most, rtol])?
        }
        (None, None) => calls.by("mul", most, default)?,
        (None, Some(atol)) => {
            let atol = calls.unsqueeze(atol, -1)?;
            let given = calls.by("gt", atol, 0.0)?;
            let rest = calls.by("mul", most, default)?;
            let zero = calls.by("mul", rest, 0.0)?;
            calls.apply("where", &[given, zero, rest])?
        }
    };
    match absolute {
        None => Ok(relative),
        Some(atol) => {
            let atol = calls.unsqueeze(atol, -1)?;
            calls.apply("maximum", &[relative, atol])
        }
    }
}

fn pseudo_inverse(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let a = given.tensor("x")?;
    let dtype = calls.dtype(a);
    if calls.spec(a).numel() == 0 {
        let turned = transposed(calls, a)?;
        return calls.apply("clone", &[turned]);
    }
    let (left, values, right) = match given.flag("hermitian", false)? {
        true => {
            let [values, vectors] = eigen(calls, a)?;
            (vectors, values, vectors)
        }
        false => {
            let [left, values, right] = singular(calls, a)?;
            (left, values, adjoint(calls, right)?)
        }
    };
    let sizes = calls.apply("abs", &[values])?;
    let last = Attrs::new().with("dim", vec![-1i64]).with("keepdim", true);
    let most = calls.one("amax", &[sizes], last)?;
    let bound = bound(calls, given, a, most)?;
    let counts = calls.apply("gt", &[sizes, bound])?;
    let none = calls.apply("logical_not", &[counts])?;
    let shares = calls.apply("reciprocal", &[values])?;
    let shares = calls.filled(shares, none, 0i64)?;
    let shares = calls.cast(shares, dtype)?;
    recomposed(calls, right, shares, left)
}

fn root(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let [values, vectors] = eigen(calls, given.tensor("x")?)?;
    let values = calls.one("clamp_min", &[values], Attrs::new().with("min", 0i64))?;
    let roots = calls.apply("sqrt", &[values])?;
    recomposed(calls, vectors, roots, vectors)
}

fn polar(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let [left, values, right] = singular(calls, given.tensor("A")?)?;
    let unitary = calls.apply("matmul", &[left, right])?;
    let right = adjoint(calls, right)?;
    Ok(vec![unitary, recomposed(calls, right, values, right)?])
}

/// Multiplies the operands, rolled along the dimension.
fn cross(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, y) = (given.tensor("x")?, given.tensor("y")?);
    let dim = given.int("dim")?.unwrap_or(-1);
    let product = |calls: &mut Calls<'_>, by_x: i64, by_y: i64| {
        let mut rolled = Vec::new();
        for (of, by) in [(x, by_x), (y, by_y)] {
            let attrs = Attrs::new().with("shifts", vec![by]).with("dims", vec![dim]);
            rolled.push(calls.one("roll", &[of], attrs)?);
        }
        calls.apply("mul", &rolled)
    };
    let (first, second) = (product(calls, -1, -2)?, product(calls, -2, -1)?);
    calls.apply("sub", &[first, second])
}
