//! Composite linear algebra: determinants, solutions and inverses that factorizations give.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::create::identity;
use super::{Args, Composite, op, several, table};
use crate::formula::Expr;

table! {
    several("_linalg_det", "the determinant, packed LU factors and pivots", A, &[], 3, |args| {
        let [packed, pivots, parity, diagonal] = for_determinant(args)?;
        Ok(vec![product(diagonal) * parity, packed, pivots])
    });
    several("_linalg_slogdet",
        "the sign and the logarithm of the determinant, packed LU factors and pivots", A, &[], 4,
        |args| {
            let [packed, pivots, parity, diagonal] = for_determinant(args)?;
            let sign = product(diagonal.sign()) * parity;
            Ok(vec![sign, diagonal.abs().log().sum(&[-1], false), packed, pivots])
        });
    several("_linalg_solve_ex", "the solution X of A X = B, packed LU factors, pivots and infos",
        AB, SOLVE, 4, solution);
    several("linalg_lu", "the permutation, the lower and the upper factor", A, PIVOT, 3, |args| {
        let [packed, pivots, _] = factors(LU, args.tensor("A"));
        Ok(args.calls.call("lu_unpack", &[packed, pivots], Attrs::new()))
    });
    op("cholesky_solve", "the solution X of A X = x, given the factor of A", FACTOR_LAST,
        UPPER, |args| solve_by_cholesky(args, args.tensor("factor"), args.tensor("x")));
    op("cholesky_inverse", "the inverse of A, given its factor", FACTOR, UPPER, |args| {
        let factor = args.tensor("x");
        let length = factor.shape()?.last().copied().unwrap_or(0);
        solve_by_cholesky(args, factor, identity(args.calls, [length; 2], factor.dtype()))
    });
    several("triangular_solve", "the solution X of A X = x, and a copy of A", XA, TRIANGULAR, 2,
        triangular);
    op("linalg_pinv", "the pseudo-inverse", PINV, HERMITIAN, pseudo_inverse).optional_from(1);
    op("linalg_matrix_sqrth", "the square root of a symmetric matrix", MATRIX, &[], |args| {
        let [values, vectors] = factors(EIGEN, args.tensor("x"));
        Ok(recomposed(vectors, values.clamp_min(0).sqrt(), vectors))
    });
    several("linalg_polar", "the unitary and the positive factor of the polar decomposition", A,
        &[], 2, |args| {
            let [left, values, right] = factors(SINGULAR, args.tensor("A"));
            let unitary = left.matmul(right);
            let right = adjoint(right);
            Ok(vec![unitary, recomposed(right, values, right)])
        });
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

/// The op that returns packed LU factors, pivots and infos.
const LU: &str = "linalg_lu_factor_ex";
/// The op that returns left singular vectors, singular values and the adjoint of the right ones.
const SINGULAR: &str = "_linalg_svd";
/// The op that returns eigenvalues and eigenvectors.
const EIGEN: &str = "_linalg_eigh";

/// Returns the results of one of these ops.
fn factors<'a, const N: usize>(op: &str, a: Expr<'a>) -> [Expr<'a>; N] {
    a.calls.several(op, &[a], Attrs::new())
}

fn transposed(x: Expr<'_>) -> Expr<'_> {
    x.transpose(-2, -1)
}

/// Returns the adjoint: of real matrices, the transpose.
fn adjoint(x: Expr<'_>) -> Expr<'_> {
    let turned = transposed(x);
    match turned.dtype().is_complex() {
        true => turned.op("conj_physical", Attrs::new()),
        false => turned,
    }
}

/// Returns `left` times the diagonal matrix of `values` times the adjoint of `right`.
fn recomposed<'a>(left: Expr<'a>, values: Expr<'a>, right: Expr<'a>) -> Expr<'a> {
    (left * values.unsqueeze(-2)).matmul(adjoint(right))
}

/// Returns the sign of the permutation of pivots: 1 or -1, as integers.
fn parity(pivots: Expr<'_>) -> Result<Expr<'_>> {
    let count = pivots.shape()?.last().copied().unwrap_or(0);
    let own = Attrs::new().with("start", 1).with("end", count + 1).with("dtype", DType::I32);
    let moved = pivots.ne(pivots.calls.one("arange", &[], own));
    Ok(moved.sum(&[-1], false).with("remainder", 2, Attrs::new()) * -2 + 1)
}

/// Returns the product along the last dimension.
fn product(x: Expr<'_>) -> Expr<'_> {
    x.op("prod", Attrs::new().with("dim", vec![-1]))
}

/// Returns packed LU factors, their pivots, the parity of the pivots, and the diagonal of the
/// factors. They are the factors that PyTorch computes for determinants, and that their gradients
/// read: those of the transpose, if a real matrix is contiguous.
fn for_determinant(args: Args<'_>) -> Result<[Expr<'_>; 4]> {
    let a = args.tensor("A");
    let turned = a.spec()?.layout.is_contiguous() && !a.dtype().is_complex();
    let [packed, pivots, _] = factors(LU, if turned { transposed(a) } else { a });
    let parity = parity(pivots)?;
    let diagonal = packed.op("diagonal", Attrs::new().with("dim1", -2).with("dim2", -1));
    Ok([packed, pivots, parity, diagonal])
}

fn solution(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let [a, b] = args.tensors(["A", "B"]);
    let [packed, pivots, info] = factors(LU, a);
    let vectors = crate::linalg::has_vectors(a.spec()?.shape(), b.spec()?.shape());
    let b = if vectors { b.unsqueeze(-1) } else { b };
    let attrs = Attrs::new().with("left", args.flag("left", true)?);
    let x = args.calls.one("linalg_lu_solve", &[packed, pivots, b], attrs);
    let x = if vectors { x.squeeze(-1).op("clone", Attrs::new()) } else { x };
    Ok(vec![x, packed, pivots, info])
}

fn solve_by_cholesky<'a>(args: Args<'a>, l: Expr<'a>, b: Expr<'a>) -> Result<Expr<'a>> {
    let turned = adjoint(l);
    let (lower, upper) = if args.flag("upper", false)? { (turned, l) } else { (l, turned) };
    let attrs = |upper: bool| Attrs::new().with("upper", upper);
    let x = lower.with("linalg_solve_triangular", b, attrs(false));
    Ok(upper.with("linalg_solve_triangular", x, attrs(true)))
}

fn triangular(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let [b, a] = args.tensors(["x", "A"]);
    let (upper, turned) = (args.flag("upper", true)?, args.flag("transpose", false)?);
    let triangle = if turned { transposed(a) } else { a };
    let unit = args.flag("unitriangular", false)?;
    let attrs = Attrs::new().with("upper", upper != turned).with("unitriangular", unit);
    let x = triangle.with("linalg_solve_triangular", b, attrs);
    let mut size = x.shape()?;
    let batch = size.len() - 2;
    size[batch..].fill(a.shape()?.last().copied().unwrap_or(0));
    Ok(vec![x, a.expand(&size).op("clone", Attrs::new())])
}

/// Returns the bound below which values count as zero.
fn bound<'a>(args: Args<'a>, a: Expr<'a>, most: Expr<'a>) -> Result<Expr<'a>> {
    let spec = a.spec()?;
    let longest = spec.shape().iter().rev().take(2).copied().max().unwrap_or(0) as f64;
    let epsilon =
        if spec.dtype.part() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let default = epsilon * longest;
    let absolute = args.optional("atol");
    let relative = match (args.optional("rtol"), absolute) {
        (Some(rtol), _) => most * rtol.unsqueeze(-1),
        (None, None) => most * default,
        (None, Some(atol)) => {
            let given = atol.unsqueeze(-1).gt(0.0);
            let rest = most * default;
            given.choose(rest * 0.0, rest)
        }
    };
    Ok(match absolute {
        None => relative,
        Some(atol) => relative.maximum(atol.unsqueeze(-1)),
    })
}

fn pseudo_inverse(args: Args<'_>) -> Result<Expr<'_>> {
    let a = args.tensor("x");
    if a.numel()? == 0 {
        return Ok(transposed(a).op("clone", Attrs::new()));
    }
    let (left, values, right) = match args.flag("hermitian", false)? {
        true => {
            let [values, vectors] = factors(EIGEN, a);
            (vectors, values, vectors)
        }
        false => {
            let [left, values, right] = factors(SINGULAR, a);
            (left, values, adjoint(right))
        }
    };
    let sizes = values.abs();
    let most = sizes.op("amax", Attrs::new().with("dim", vec![-1]).with("keepdim", true));
    let none = sizes.gt(bound(args, a, most)?).logical_not();
    let shares = values.reciprocal().filled(none, 0).cast(a.dtype());
    Ok(recomposed(right, shares, left))
}

/// Multiplies the operands, rolled along the dimension.
fn cross<'a>(args: Args<'a>) -> Result<Expr<'a>> {
    let [x, y] = args.tensors(["x", "y"]);
    let dim = args.int("dim")?.unwrap_or(-1);
    let rolled = |of: Expr<'a>, by: i64| {
        of.op("roll", Attrs::new().with("shifts", vec![by]).with("dims", vec![dim]))
    };
    Ok(rolled(x, -1) * rolled(y, -2) - rolled(x, -2) * rolled(y, -1))
}
