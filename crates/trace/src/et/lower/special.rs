//! Ops whose arguments are not those of ours.

use millstream_types::{AttrValue, Attrs};

use super::{Made, call};
use crate::et::args::{self, Given, Taken};
use crate::et::import::{Import, Lowered, Refusal, Val};
use crate::et::value::{Arg, Recorded};
use crate::number::Number;

pub(super) fn to_copy(import: &mut Import<'_>, given: &Given<'_>) -> Lowered<Made> {
    let val = given.tensor(import, "self")?;
    let mut attrs = Attrs::new();
    if let Some(format) = given.memory_format("memory_format")? {
        attrs.set("memory_format", format);
    }
    let op = match given.dtype("dtype")? {
        Some(dtype) => {
            attrs.set("dtype", dtype);
            "cast"
        }
        None => "clone",
    };
    let made = import.call(op, &[val], attrs)?;
    Ok(made.into_iter().map(Some).collect())
}

pub(super) fn fill(import: &mut Import<'_>, given: &Given<'_>) -> Lowered<Made> {
    let target = given.tensor(import, "self")?;
    let value = match given.get("value") {
        None => AttrValue::Int(0),
        Some((at, Arg::Tensor(tensor))) => {
            if !import.has_const(at) && !import.is_lost_number(tensor) {
                let value = import.resolve(tensor, at)?;
                import.call("copy_", &[target, value], Attrs::new())?;
                return Ok(vec![Some(target)]);
            }
            args::number_attr(import.lost_number(at)?)?
        }
        Some(_) => given
            .scalar("value")?
            .ok_or_else(|| Refusal::Wrong("'value': expected a number".to_owned()))?,
    };
    import.call("fill", &[target], Attrs::new().with("value", value))?;
    Ok(vec![Some(target)])
}

/// Ours takes the values before the indices, of which there may be any number.
pub(super) fn index_put(
    import: &mut Import<'_>,
    given: &Given<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let base = given.signature.base();
    let op = if base == "index_put" { "index_put" } else { "index_put_" };
    let mut taken = args::take(import, op, given, &["values"], results)?;
    let values = given.tensor(import, "values")?;
    taken.inputs.insert(1.min(taken.inputs.len()), values);
    call(import, op, taken)
}

/// Every element that an index picks becomes the value.
pub(super) fn index_fill(
    import: &mut Import<'_>,
    given: &Given<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let (target, index) = (given.tensor(import, "self")?, given.tensor(import, "index")?);
    let rank = import.spec(target).shape().len() as i64;
    let dim = given.int("dim")?.unwrap_or(0);
    let dim = if dim < 0 { dim + rank } else { dim };
    let value = match given.get("value") {
        Some((at, Arg::Tensor(tensor))) => import.resolve(tensor, at)?,
        _ => scalar(import, given, "value", results)?,
    };
    let mut attrs = Attrs::new();
    if dim > 0 {
        attrs.set("absent", (0..dim).collect::<Vec<i64>>());
    }
    let made = import.call("index_put_", &[target, value, index], attrs)?;
    Ok(made.into_iter().map(Some).collect())
}

/// A number of the arguments as a tensor, of the dtype of the result.
fn scalar(
    import: &mut Import<'_>,
    given: &Given<'_>,
    name: &str,
    results: &[Option<Recorded>],
) -> Lowered<Val> {
    let number = match given.scalar(name)? {
        Some(AttrValue::Int(v)) => Number::Int(v.into()),
        Some(AttrValue::Float(v)) => Number::Float(v),
        Some(AttrValue::Bool(v)) => Number::Bool(v),
        _ => return Err(Refusal::Wrong(format!("'{name}': expected a number"))),
    };
    let dtype = args::number_dtype(number, &given.args, results);
    import.number(number, dtype)
}

/// `other - alpha * self`.
pub(super) fn reversed_sub(
    import: &mut Import<'_>,
    given: &Given<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let other = match given.get("other") {
        Some((_, Arg::Tensor(_))) => given.tensor(import, "other")?,
        _ => scalar(import, given, "other", results)?,
    };
    let mut attrs = Attrs::new();
    if let Some(alpha) = given.scalar("alpha")? {
        attrs.set("alpha", alpha);
    }
    let of = given.tensor(import, "self")?;
    let made = import.call("sub", &[other, of], attrs)?;
    Ok(made.into_iter().map(Some).collect())
}

pub(super) fn floor_divide(
    import: &mut Import<'_>,
    base: &str,
    given: &Given<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let op = if base.ends_with('_') { "div_" } else { "div" };
    let mut taken = args::take(import, op, given, &[], results)?;
    taken.attrs.set("rounding_mode", "floor");
    call(import, op, taken)
}

/// An op of a number and a tensor.
pub(super) fn scalar_first(import: &mut Import<'_>, op: &str, given: &Given<'_>) -> Lowered<Made> {
    let first = scalar(import, given, "self", &[])?;
    let name = if op == "pow" { "exponent" } else { "other" };
    let second = given.tensor(import, name)?;
    let made = import.call(op, &[first, second], Attrs::new())?;
    Ok(made.into_iter().map(Some).collect())
}

/// cuDNN's batch norm: PyTorch's under other names, and a fourth result that only cuDNN can read.
pub(super) fn cudnn_batch_norm(
    import: &mut Import<'_>,
    given: &Given<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let without = ["exponential_average_factor", "epsilon"];
    let op = "native_batch_norm";
    let mut taken = args::take(import, op, given, &without, results)?;
    for (theirs, ours) in [("exponential_average_factor", "momentum"), ("epsilon", "eps")] {
        if let Some(value) = given.scalar(theirs)? {
            taken.attrs.set(ours, value);
        }
    }
    let mut made = call(import, op, taken)?;
    if let Some(Some(reserve)) = results.get(3) {
        let shape: Vec<i64> = reserve.shape.iter().map(|&d| d as i64).collect();
        let mut attrs = Attrs::new();
        attrs.set("shape", shape);
        attrs.set("value", 0i64);
        attrs.set("dtype", reserve.dtype);
        made.extend(import.call("full", &[], attrs)?.into_iter().map(Some));
    }
    Ok(made)
}

pub(super) fn cudnn_batch_norm_backward(
    import: &mut Import<'_>,
    given: &Given<'_>,
) -> Lowered<Made> {
    let mut taken = Taken::default();
    let mut absent = Vec::new();
    let order =
        ["grad_output", "input", "weight", "running_mean", "running_var", "save_mean", "save_var"];
    for (k, name) in order.into_iter().enumerate() {
        match given.get(name) {
            None | Some((_, Arg::Undefined)) => absent.push(k as i64),
            Some(_) => taken.inputs.push(given.tensor(import, name)?),
        }
    }
    if !absent.is_empty() {
        taken.attrs.set("absent", absent);
    }
    taken.attrs.set("train", true);
    if let Some(eps) = given.scalar("epsilon")? {
        taken.attrs.set("eps", eps);
    }
    taken.attrs.set("output_mask", vec![1i64, 1, 1]);
    call(import, "native_batch_norm_backward", taken)
}

/// A convolution of one library's, without what only others need.
pub(super) fn plain_convolution(import: &mut Import<'_>, given: &Given<'_>) -> Lowered<Made> {
    let mut taken = args::take(import, "convolution", given, &[], &[])?;
    taken.attrs.set("transposed", false);
    let places = taken.inputs.get(1).map_or(0, |w| import.spec(*w).shape().len()).saturating_sub(2);
    taken.attrs.set("output_padding", vec![0i64; places]);
    call(import, "convolution", taken)
}
