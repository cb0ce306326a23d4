//! Lowers ops that several of Millstream's ops compute together.
//!
//! Every function returns new tensors. For an op in place, the caller copies the result to the
//! operand that PyTorch changes.

use millstream_types::{AttrValue, Attrs, DType};

use super::complex::{is_complex, scaled};
use super::pools::ints;
use super::random::rrelu_backward;
use super::reduced::{reduced_indices, reduced_scatter};
use super::special::{index_fill, index_slices};
use super::{Made, call, one_call, same};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Refusal, Val};
use crate::et::value::{Arg, Recorded};

/// Lowers an op, named without the `_` of its form in place; `None` if it is not composed.
pub(super) fn composed(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let is_tensor = |name: &str| matches!(given.get(name), Some((_, Arg::Tensor(_))));
    let made = match name {
        "clamp" | "clamp_min" | "clamp_max" if is_tensor("min") || is_tensor("max") => {
            clamp(import, given)?
        }
        "round" if given.get("decimals").is_some() => round(import, given)?,
        "scatter" if given.get("reduce").is_some() => reduced_scatter(import, given)?,
        "scatter_reduce" => reduced_scatter(import, given)?,
        "index_reduce" => reduced_indices(import, given)?,
        "log_sigmoid_forward" => return log_sigmoid(import, given).map(Some),
        "log_sigmoid_backward" => {
            let (grad, x) = (given.tensor(import, "grad_output")?, given.tensor(import, "self")?);
            one_call(import, name, &[grad, x], Attrs::new())?
        }
        "norm" => return norm(import, given, results).map(Some),
        "var_mean" | "std_mean" => return moments(import, name, given, results).map(Some),
        "aminmax" => return extrema(import, given).map(Some),
        "nansum" => nansum(import, given)?,
        "fmax" | "fmin" => extremum_of_numbers(import, name, given)?,
        "logical_xor" => logical_xor(import, given)?,
        "trace" => {
            let x = given.tensor(import, "self")?;
            let diagonal = one_call(import, "diagonal", &[x], Attrs::new())?;
            one_call(import, "sum", &[diagonal], Attrs::new())?
        }
        "threshold" => threshold(import, given)?,
        "hardtanh_backward" => hardtanh_backward(import, given)?,
        "rrelu_with_noise_backward" => rrelu_backward(import, given)?,
        "diag_embed" => diag_embed(import, given)?,
        "index_copy" => index_copy(import, given)?,
        "index_fill" => {
            let x = given.tensor(import, "self")?;
            let copy = one_call(import, "clone", &[x], Attrs::new())?;
            return index_fill(import, copy, given).map(Some);
        }
        "take" => {
            let (x, index) = (given.tensor(import, "self")?, given.tensor(import, "index")?);
            let flat = reshaped(import, x, &[-1])?;
            one_call(import, "index", &[flat, index], Attrs::new())?
        }
        "softmax" | "log_softmax" => softmax(import, name, given)?,
        "_safe_softmax" => safe_softmax(import, given)?,
        "addmm" | "baddbmm" if has_whole_factors(given) => {
            integer_product(import, name, given, results)?
        }
        "addmv" => addmv(import, given)?,
        "addbmm" => addbmm(import, given)?,
        "linalg_cross" => cross(import, given)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

/// Returns a tensor's elements in row-major order in another shape.
pub(super) fn reshaped(import: &mut Import<'_>, x: Val, shape: &[i64]) -> Lowered<Val> {
    one_call(import, "reshape", &[x], Attrs::new().with("shape", shape.to_vec()))
}

/// Returns the dimension that a number which may be negative stands for.
pub(super) fn positive(dim: i64, rank: usize) -> i64 {
    if dim < 0 { dim + rank.max(1) as i64 } else { dim }
}

/// Lowers a clamp whose bounds are tensors.
fn clamp(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let mut x = given.tensor(import, "self")?;
    for (name, op) in [("min", "maximum"), ("max", "minimum")] {
        if given.get(name).is_some() {
            let bound = given.tensor(import, name)?;
            x = one_call(import, op, &[x, bound], Attrs::new())?;
        }
    }
    Ok(x)
}

/// Lowers `round` to decimals. As in PyTorch, 16-bit floats are computed in f32.
fn round(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let decimals = given.int("decimals")?.unwrap_or(0);
    if decimals == 0 {
        return one_call(import, "round", &[x], Attrs::new());
    }
    let dtype = import.spec(x).dtype;
    let narrow = matches!(dtype, DType::F16 | DType::BF16);
    let cast = |import: &mut Import<'_>, x, dtype| {
        one_call(import, "cast", &[x], Attrs::new().with("dtype", dtype))
    };
    let wide = if narrow { cast(import, x, DType::F32)? } else { x };
    let exponent = i32::try_from(decimals.unsigned_abs()).unwrap_or(i32::MAX);
    let power = Attrs::new().with("other", 10f64.powi(exponent));
    let (before, after) = if decimals > 0 { ("mul", "div") } else { ("div", "mul") };
    let scaled = one_call(import, before, &[wide], power.clone())?;
    let rounded = one_call(import, "round", &[scaled], Attrs::new())?;
    let result = one_call(import, after, &[rounded], power)?;
    if narrow { cast(import, result, dtype) } else { Ok(result) }
}

/// Lowers `log_sigmoid_forward`, whose second result only the gradient of PyTorch's kernel reads.
fn log_sigmoid(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let x = given.tensor(import, "self")?;
    let result = one_call(import, "log_sigmoid", &[x], Attrs::new())?;
    let mut buffer = x;
    for op in ["abs", "neg", "exp"] {
        buffer = one_call(import, op, &[buffer], Attrs::new())?;
    }
    Ok(vec![Some(result), Some(buffer)])
}

/// Lowers `norm`, of all overloads.
fn norm(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let op = "linalg_vector_norm";
    let mut converted = args::convert(import, op, given, &["p"], results)?;
    if let Some(order) = given.scalar("p")? {
        converted.attrs.set("ord", order);
    }
    call(import, op, converted)
}

/// Lowers `var_mean` and `std_mean`.
fn moments(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let (spread, _) = name.split_once('_').unwrap_or((name, ""));
    let mut made = same(import, spread, given, results)?;
    let converted = args::convert(import, "mean", given, &["correction", "unbiased"], results)?;
    made.extend(call(import, "mean", converted)?);
    Ok(made)
}

/// Lowers `aminmax`.
fn extrema(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let x = given.tensor(import, "self")?;
    let mut attrs = Attrs::new();
    if let Some(dim) = given.int("dim")? {
        attrs.set("dim", vec![dim]);
    }
    if let Some(AttrValue::Bool(keepdim)) = given.scalar("keepdim")? {
        attrs.set("keepdim", keepdim);
    }
    let least = one_call(import, "amin", &[x], attrs.clone())?;
    let most = one_call(import, "amax", &[x], attrs)?;
    Ok(vec![Some(least), Some(most)])
}

/// Lowers `nansum`: the sum of the elements that are numbers.
fn nansum(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let nan = one_call(import, "isnan", &[x], Attrs::new())?;
    let value = Attrs::new().with("value", 0i64);
    let numbers = one_call(import, "masked_fill", &[x, nan], value)?;
    let mut attrs = Attrs::new();
    if let Some(dims) = given.ints("dim")? {
        attrs.set("dim", dims);
    }
    if let Some(keepdim) = given.scalar("keepdim")? {
        attrs.set("keepdim", keepdim);
    }
    if let Some(dtype) = given.dtype("dtype")? {
        attrs.set("dtype", dtype);
    }
    one_call(import, "sum", &[numbers], attrs)
}

/// Lowers `fmax` and `fmin`: the extremum, or the one that is a number.
fn extremum_of_numbers(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, y) = (given.tensor(import, "self")?, given.tensor(import, "other")?);
    let op = if name == "fmax" { "maximum" } else { "minimum" };
    let extremum = one_call(import, op, &[x, y], Attrs::new())?;
    let no_x = one_call(import, "isnan", &[x], Attrs::new())?;
    let no_y = one_call(import, "isnan", &[y], Attrs::new())?;
    let without_y = one_call(import, "where", &[no_y, x, extremum], Attrs::new())?;
    one_call(import, "where", &[no_x, y, without_y], Attrs::new())
}

fn logical_xor(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let zero = Attrs::new().with("other", 0i64);
    let x = given.tensor(import, "self")?;
    let x = one_call(import, "ne", &[x], zero.clone())?;
    let y = given.tensor(import, "other")?;
    let y = one_call(import, "ne", &[y], zero)?;
    one_call(import, "ne", &[x, y], Attrs::new())
}

/// Lowers `threshold`: x where it is greater than the threshold, or NaN; else the value.
fn threshold(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let number = |name: &str| -> Lowered<AttrValue> {
        given.scalar(name)?.ok_or_else(|| Refusal::Wrong(format!("'{name}': expected a number")))
    };
    let below = Attrs::new().with("other", number("threshold")?);
    let below = one_call(import, "le", &[x], below)?;
    one_call(import, "masked_fill", &[x, below], Attrs::new().with("value", number("value")?))
}

/// Lowers the gradient of `hardtanh`, which is 0 at the bounds and beyond.
fn hardtanh_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (grad, x) = (given.tensor(import, "grad_output")?, given.tensor(import, "self")?);
    let mut outside = Vec::new();
    for (name, op) in [("min_val", "le"), ("max_val", "ge")] {
        let bound = given
            .scalar(name)?
            .ok_or_else(|| Refusal::Wrong(format!("'{name}': expected a number")))?;
        outside.push(one_call(import, op, &[x], Attrs::new().with("other", bound))?);
    }
    let outside = one_call(import, "logical_or", &outside, Attrs::new())?;
    one_call(import, "masked_fill", &[grad, outside], Attrs::new().with("value", 0i64))
}

/// Lowers `diag_embed`: zeros whose diagonals have the elements.
fn diag_embed(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let spec = import.spec(x).clone();
    let rank = spec.shape().len() + 1;
    let offset = given.int("offset")?.unwrap_or(0);
    let dim1 = positive(given.int("dim1")?.unwrap_or(-2), rank);
    let dim2 = positive(given.int("dim2")?.unwrap_or(-1), rank);
    let mut shape = ints(spec.shape());
    let Some(length) = shape.pop() else {
        return Err(Refusal::Wrong("expected one or more dimensions".to_owned()));
    };
    let length = length + offset.abs();
    for dim in [dim1.min(dim2), dim1.max(dim2)] {
        let at = usize::try_from(dim).ok().filter(|at| *at <= shape.len());
        let at = at.ok_or_else(|| Refusal::Wrong(format!("no dimension {dim}")))?;
        shape.insert(at, length);
    }
    let zeros = Attrs::new().with("shape", shape).with("value", 0i64).with("dtype", spec.dtype);
    let zeros = one_call(import, "full", &[], zeros)?;
    let at = Attrs::new().with("offset", offset).with("dim1", dim1).with("dim2", dim2);
    let diagonal = one_call(import, "diagonal", &[zeros], at)?;
    import.call("copy_", &[diagonal, x], Attrs::new())?;
    Ok(zeros)
}

fn index_copy(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, index) = (given.tensor(import, "self")?, given.tensor(import, "index")?);
    let source = given.tensor(import, "source")?;
    let copy = one_call(import, "clone", &[x], Attrs::new())?;
    index_slices(import, copy, given.int("dim")?.unwrap_or(0), index, source)?;
    Ok(copy)
}

/// Returns the operand `self`, converted if the node has a dtype.
fn converted_self(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    match given.dtype("dtype")? {
        Some(dtype) if dtype != import.spec(x).dtype => {
            one_call(import, "cast", &[x], Attrs::new().with("dtype", dtype))
        }
        _ => Ok(x),
    }
}

fn softmax(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = converted_self(import, given)?;
    let dim = given.int("dim")?.unwrap_or(-1);
    let attrs = Attrs::new().with("dim", dim).with("half_to_float", false);
    one_call(import, &format!("_{name}"), &[x], attrs)
}

/// Lowers `_safe_softmax`: rows of minus infinity give 0.
fn safe_softmax(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = converted_self(import, given)?;
    let masked = one_call(import, "eq", &[x], Attrs::new().with("other", f64::NEG_INFINITY))?;
    let dim = given.int("dim")?.unwrap_or(-1);
    let rows = Attrs::new().with("dim", vec![dim]).with("keepdim", true);
    let rows = one_call(import, "all", &[masked], rows)?;
    let y = softmax(import, "softmax", given)?;
    one_call(import, "masked_fill", &[y, rows], Attrs::new().with("value", 0i64))
}

/// Returns whether this is a product of integers with a factor that is a fraction.
pub(super) fn has_whole_factors(given: &NodeArgs<'_>) -> bool {
    let is_rounded = match given.get("self") {
        Some((_, Arg::Tensor(tensor))) => tensor.dtype.is_inexact(),
        _ => false,
    };
    let mut fraction = false;
    for name in ["beta", "alpha"] {
        fraction |= matches!(given.get(name), Some((_, Arg::Float(_))));
    }
    let is_product = matches!(given.signature.base(), "addmm" | "baddbmm" | "addmm_" | "baddbmm_");
    is_product && fraction && !is_rounded
}

/// Returns the factors of a product that is added to a bias. As in PyTorch, those of integers are
/// truncated.
fn factors(import: &Import<'_>, given: &NodeArgs<'_>, bias: Val) -> Lowered<Attrs> {
    let whole = !import.spec(bias).dtype.is_inexact();
    let mut attrs = Attrs::new();
    for name in ["beta", "alpha"] {
        match given.scalar(name)? {
            Some(AttrValue::Float(v)) if whole => attrs.set(name, v as i64),
            Some(factor) => attrs.set(name, factor),
            None => {}
        }
    }
    Ok(attrs)
}

/// Adds the product of two matrices to a bias, with the node's factors, which may be complex.
fn added_product(import: &mut Import<'_>, given: &NodeArgs<'_>, of: [Val; 3]) -> Lowered<Val> {
    let [bias, x, y] = of;
    if is_complex(given, "alpha") || is_complex(given, "beta") {
        let (bias, x) = (scaled(import, given, "beta", bias)?, scaled(import, given, "alpha", x)?);
        return one_call(import, "addmm", &[bias, x, y], Attrs::new());
    }
    let factors = factors(import, given, bias)?;
    one_call(import, "addmm", &[bias, x, y], factors)
}

/// Lowers `addmm` and `baddbmm` of integers.
fn integer_product(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Val> {
    let mut converted = args::convert(import, name, given, &["beta", "alpha"], results)?;
    let bias = given.tensor(import, "self")?;
    converted.attrs = factors(import, given, bias)?;
    one_call(import, name, &converted.inputs, converted.attrs)
}

fn addmv(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let last = || Attrs::new().with("dim", -1i64);
    let mut bias = given.tensor(import, "self")?;
    if !import.spec(bias).shape().is_empty() {
        bias = one_call(import, "unsqueeze", &[bias], last())?;
    }
    let (matrix, vector) = (given.tensor(import, "mat")?, given.tensor(import, "vec")?);
    let column = one_call(import, "unsqueeze", &[vector], last())?;
    let product = added_product(import, given, [bias, matrix, column])?;
    one_call(import, "squeeze", &[product], last())
}

/// Lowers `addbmm`: the sum of the products of a batch is one product of longer rows.
fn addbmm(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (bias, x) = (given.tensor(import, "self")?, given.tensor(import, "batch1")?);
    let y = given.tensor(import, "batch2")?;
    let (&[batch, rows, inner], &[_, _, columns]) =
        (import.spec(x).shape(), import.spec(y).shape())
    else {
        return Err(Refusal::Wrong("expected two batches of matrices".to_owned()));
    };
    let long = (batch * inner) as i64;
    let x = one_call(import, "permute", &[x], Attrs::new().with("dims", vec![1i64, 0, 2]))?;
    let x = reshaped(import, x, &[rows as i64, long])?;
    let y = reshaped(import, y, &[long, columns as i64])?;
    added_product(import, given, [bias, x, y])
}

/// Lowers `linalg_cross` with the operands rolled along the dimension.
fn cross(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, y) = (given.tensor(import, "self")?, given.tensor(import, "other")?);
    let dim = given.int("dim")?.unwrap_or(-1);
    let product = |import: &mut Import<'_>, by_x: i64, by_y: i64| {
        let mut rolled = Vec::new();
        for (of, by) in [(x, by_x), (y, by_y)] {
            let attrs = Attrs::new().with("shifts", vec![by]).with("dims", vec![dim]);
            rolled.push(one_call(import, "roll", &[of], attrs)?);
        }
        one_call(import, "mul", &rolled, Attrs::new())
    };
    let (first, second) = (product(import, -1, -2)?, product(import, -2, -1)?);
    one_call(import, "sub", &[first, second], Attrs::new())
}
