//! Lowers ops that several of Millstream's ops compute together.
//!
//! Every function returns new tensors. For an op in place, the caller copies the result to the
//! operand that PyTorch changes.

use millstream_types::{AttrValue, Attrs};

use super::reduced::reduced_scatter;
use super::{Made, call, one_call, same};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Val};
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
        "scatter" if given.get("reduce").is_some() => reduced_scatter(import, given)?,
        "scatter_reduce" => reduced_scatter(import, given)?,
        "log_sigmoid_backward" => {
            let (grad, x) = (given.tensor(import, "grad_output")?, given.tensor(import, "self")?);
            one_call(import, name, &[grad, x], Attrs::new())?
        }
        "norm" => return norm(import, given, results).map(Some),
        "round" if given.get("decimals").is_some() => {
            return same(import, "round_decimals", given, results).map(Some);
        }
        "softmax" | "log_softmax" => softmax(import, name, given)?,
        "addmm" | "baddbmm" if has_whole_factors(given) => {
            integer_product(import, name, given, results)?
        }
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
