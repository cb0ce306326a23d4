//! Lowers linear algebra: determinants, solutions and inverses that factorizations give.

use millstream_types::{AttrValue, Attrs, DType};

use super::complex::conjugate;
use super::functions::{apply, by, cast};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// Lowers an op; `None` if it is none of these.
pub(super) fn linear_algebra(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    let made = match name {
        "_linalg_det" => determinant(import, given)?,
        "_linalg_slogdet" => log_determinant(import, given)?,
        "_linalg_solve_ex" => solution(import, given)?,
        "linalg_lu" => {
            let a = given.tensor(import, "A")?;
            let [packed, pivots, _] = factors(import, a)?;
            import.call("lu_unpack", &[packed, pivots], Attrs::new())?
        }
        "cholesky_solve" => {
            let (b, l) = (given.tensor(import, "self")?, given.tensor(import, "input2")?);
            vec![solve_by_cholesky(import, l, b, flag(given, "upper", false)?)?]
        }
        "cholesky_inverse" => {
            let l = given.tensor(import, "self")?;
            let shape = import.spec(l).shape().to_vec();
            let identity = identity(import, shape.last().copied().unwrap_or(0), l)?;
            vec![solve_by_cholesky(import, l, identity, flag(given, "upper", false)?)?]
        }
        "triangular_solve" => triangular(import, given)?,
        "linalg_pinv" => vec![pseudo_inverse(import, given)?],
        "linalg_matrix_sqrth" => {
            let a = given.tensor(import, "self")?;
            let [values, vectors] = eigen(import, a)?;
            let least = Attrs::new().with("min", 0i64);
            let values = one_call(import, "clamp_min", &[values], least)?;
            let roots = apply(import, "sqrt", &[values])?;
            vec![recomposed(import, vectors, roots, vectors)?]
        }
        "linalg_polar" => {
            let a = given.tensor(import, "A")?;
            let [left, values, right] = singular(import, a)?;
            let unitary = apply(import, "matmul", &[left, right])?;
            let right = adjoint(import, right)?;
            vec![unitary, recomposed(import, right, values, right)?]
        }
        _ => return Ok(None),
    };
    Ok(Some(made.into_iter().map(Some).collect()))
}

fn flag(given: &NodeArgs<'_>, name: &str, default: bool) -> Lowered<bool> {
    match given.scalar(name)? {
        None => Ok(default),
        Some(AttrValue::Bool(v)) => Ok(v),
        Some(_) => Err(Refusal::Wrong(format!("'{name}': expected true or false"))),
    }
}

/// Calls an op with as many results as the array has.
fn results<const N: usize>(
    import: &mut Import<'_>,
    op: &str,
    inputs: &[Val],
    attrs: Attrs,
) -> Lowered<[Val; N]> {
    let made = import.call(op, inputs, attrs)?;
    made.try_into().map_err(|_| unsupported(format!("'{op}' with other results")))
}

fn transposed(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    one_call(import, "transpose", &[x], Attrs::new().with("dim0", -2i64).with("dim1", -1i64))
}

/// Returns the adjoint: of real matrices, the transpose.
fn adjoint(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    let transposed = transposed(import, x)?;
    conjugate(import, transposed)
}

fn unsqueezed(import: &mut Import<'_>, x: Val, dim: i64) -> Lowered<Val> {
    one_call(import, "unsqueeze", &[x], Attrs::new().with("dim", dim))
}

/// Returns packed LU factors, pivots and infos.
fn factors(import: &mut Import<'_>, a: Val) -> Lowered<[Val; 3]> {
    results(import, "linalg_lu_factor_ex", &[a], Attrs::new())
}

/// Returns the factors that PyTorch computes for determinants, and that their gradients read: those
/// of the transpose, if a matrix is contiguous.
fn factors_for_determinant(import: &mut Import<'_>, a: Val) -> Lowered<[Val; 3]> {
    let turned = import.spec(a).layout.is_contiguous();
    let a = if turned { transposed(import, a)? } else { a };
    factors(import, a)
}

fn singular(import: &mut Import<'_>, a: Val) -> Lowered<[Val; 3]> {
    results(import, "_linalg_svd", &[a], Attrs::new())
}

fn eigen(import: &mut Import<'_>, a: Val) -> Lowered<[Val; 2]> {
    results(import, "_linalg_eigh", &[a], Attrs::new())
}

fn identity(import: &mut Import<'_>, length: usize, like: Val) -> Lowered<Val> {
    let dtype = import.spec(like).dtype;
    let attrs = Attrs::new().with("shape", vec![length as i64; 2]).with("value", 0i64);
    let whole = one_call(import, "full", &[], attrs.with("dtype", dtype))?;
    let diagonal = one_call(import, "diagonal", &[whole], Attrs::new())?;
    import.call("fill", &[diagonal], Attrs::new().with("value", 1i64))?;
    Ok(whole)
}

/// Returns `left` times the diagonal matrix of `values` times the adjoint of `right`.
fn recomposed(import: &mut Import<'_>, left: Val, values: Val, right: Val) -> Lowered<Val> {
    let values = unsqueezed(import, values, -2)?;
    let scaled = apply(import, "mul", &[left, values])?;
    let right = adjoint(import, right)?;
    apply(import, "matmul", &[scaled, right])
}

/// Returns the sign of the permutation of pivots: 1 or -1, as integers.
fn parity(import: &mut Import<'_>, pivots: Val) -> Lowered<Val> {
    let count = import.spec(pivots).shape().last().copied().unwrap_or(0) as i64;
    let own = Attrs::new().with("start", 1i64).with("end", count + 1).with("dtype", DType::I32);
    let own = one_call(import, "arange", &[], own)?;
    let moved = apply(import, "ne", &[pivots, own])?;
    let count = one_call(import, "sum", &[moved], Attrs::new().with("dim", vec![-1i64]))?;
    let odd = one_call(import, "remainder", &[count], Attrs::new().with("other", 2i64))?;
    let twice = one_call(import, "mul", &[odd], Attrs::new().with("other", -2i64))?;
    one_call(import, "add", &[twice], Attrs::new().with("other", 1i64))
}

fn diagonal(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    let attrs = Attrs::new().with("dim1", -2i64).with("dim2", -1i64);
    one_call(import, "diagonal", &[x], attrs)
}

/// Reduces the last dimension.
fn along_last(import: &mut Import<'_>, op: &str, x: Val) -> Lowered<Val> {
    one_call(import, op, &[x], Attrs::new().with("dim", vec![-1i64]))
}

fn determinant(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Vec<Val>> {
    let a = given.tensor(import, "A")?;
    let [packed, pivots, _] = factors_for_determinant(import, a)?;
    let sign = parity(import, pivots)?;
    let diagonal = diagonal(import, packed)?;
    let product = along_last(import, "prod", diagonal)?;
    Ok(vec![apply(import, "mul", &[product, sign])?, packed, pivots])
}

fn log_determinant(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Vec<Val>> {
    let a = given.tensor(import, "A")?;
    let [packed, pivots, _] = factors_for_determinant(import, a)?;
    let parity = parity(import, pivots)?;
    let diagonal = diagonal(import, packed)?;
    let signs = apply(import, "sign", &[diagonal])?;
    let sign = along_last(import, "prod", signs)?;
    let sign = apply(import, "mul", &[sign, parity])?;
    let sizes = apply(import, "abs", &[diagonal])?;
    let logs = apply(import, "log", &[sizes])?;
    Ok(vec![sign, along_last(import, "sum", logs)?, packed, pivots])
}

fn solution(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Vec<Val>> {
    let (a, b) = (given.tensor(import, "A")?, given.tensor(import, "B")?);
    let [packed, pivots, info] = factors(import, a)?;
    let vectors =
        millstream_ops::linalg::has_vectors(import.spec(a).shape(), import.spec(b).shape());
    let b = if vectors { unsqueezed(import, b, -1)? } else { b };
    let attrs = Attrs::new().with("left", flag(given, "left", true)?);
    let mut x = one_call(import, "linalg_lu_solve", &[packed, pivots, b], attrs)?;
    if vectors {
        x = one_call(import, "squeeze", &[x], Attrs::new().with("dim", -1i64))?;
        x = one_call(import, "clone", &[x], Attrs::new())?;
    }
    Ok(vec![x, packed, pivots, info])
}

fn solve_by_cholesky(import: &mut Import<'_>, l: Val, b: Val, upper: bool) -> Lowered<Val> {
    let turned = adjoint(import, l)?;
    let (lower, upper) = if upper { (turned, l) } else { (l, turned) };
    let attrs = |upper: bool| Attrs::new().with("upper", upper);
    let x = one_call(import, "linalg_solve_triangular", &[lower, b], attrs(false))?;
    one_call(import, "linalg_solve_triangular", &[upper, x], attrs(true))
}

fn triangular(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Vec<Val>> {
    let (b, a) = (given.tensor(import, "self")?, given.tensor(import, "A")?);
    let (mut upper, turned) = (flag(given, "upper", true)?, flag(given, "transpose", false)?);
    let mut triangle = a;
    if turned {
        triangle = transposed(import, a)?;
        upper = !upper;
    }
    let unit = flag(given, "unitriangular", false)?;
    let attrs = Attrs::new().with("upper", upper).with("unitriangular", unit);
    let x = one_call(import, "linalg_solve_triangular", &[triangle, b], attrs)?;
    let batch = import.spec(x).shape().len() - 2;
    let size: Vec<i64> = import.spec(x).shape()[..batch].iter().map(|&d| d as i64).collect();
    let rows = import.spec(a).shape().last().copied().unwrap_or(0) as i64;
    let size = size.into_iter().chain([rows, rows]).collect::<Vec<i64>>();
    let copy = one_call(import, "expand", &[a], Attrs::new().with("size", size))?;
    Ok(vec![x, one_call(import, "clone", &[copy], Attrs::new())?])
}

/// Returns the bound below which values count as zero.
fn bound(import: &mut Import<'_>, given: &NodeArgs<'_>, a: Val, most: Val) -> Lowered<Val> {
    let spec = import.spec(a);
    let longest = spec.shape().iter().rev().take(2).copied().max().unwrap_or(0) as f64;
    let epsilon =
        if spec.dtype.part() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let is_given = |name: &str| matches!(given.get(name), Some((_, Arg::Tensor(_))));
    let absolute = match is_given("atol") {
        true => Some(given.tensor(import, "atol")?),
        false => None,
    };
    let default = epsilon * longest;
    let relative = match (is_given("rtol"), absolute) {
        (true, _) => {
            let rtol = given.tensor(import, "rtol")?;
            let rtol = unsqueezed(import, rtol, -1)?;
            apply(import, "mul", &[most, rtol])?
        }
        (false, None) => by(import, "mul", most, default)?,
        (false, Some(atol)) => {
            let atol = unsqueezed(import, atol, -1)?;
            let given = by(import, "gt", atol, 0.0)?;
            let rest = by(import, "mul", most, default)?;
            let zero = by(import, "mul", rest, 0.0)?;
            apply(import, "where", &[given, zero, rest])?
        }
    };
    match absolute {
        None => Ok(relative),
        Some(atol) => {
            let atol = unsqueezed(import, atol, -1)?;
            apply(import, "maximum", &[relative, atol])
        }
    }
}

fn pseudo_inverse(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let a = given.tensor(import, "self")?;
    let dtype = import.spec(a).dtype;
    if import.spec(a).numel() == 0 {
        let turned = transposed(import, a)?;
        return one_call(import, "clone", &[turned], Attrs::new());
    }
    let (left, values, right) = match flag(given, "hermitian", false)? {
        true => {
            let [values, vectors] = eigen(import, a)?;
            (vectors, values, vectors)
        }
        false => {
            let [left, values, right] = singular(import, a)?;
            (left, values, adjoint(import, right)?)
        }
    };
    let sizes = apply(import, "abs", &[values])?;
    let last = Attrs::new().with("dim", vec![-1i64]).with("keepdim", true);
    let most = one_call(import, "amax", &[sizes], last)?;
    let bound = bound(import, given, a, most)?;
    let counts = apply(import, "gt", &[sizes, bound])?;
    let none = apply(import, "logical_not", &[counts])?;
    let shares = apply(import, "reciprocal", &[values])?;
    let shares =
        one_call(import, "masked_fill", &[shares, none], Attrs::new().with("value", 0i64))?;
    let shares = cast(import, shares, dtype)?;
    recomposed(import, right, shares, left)
}
