//! Lowers ops whose arguments differ from those of Millstream's ops.

use millstream_ops::layouts;
use millstream_types::{AttrValue, Attrs};

use super::{Made, call, one_call};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::{Arg, Recorded};
use crate::number::Number;

/// Lowers `_to_copy` to `cast` or `clone`.
pub(super) fn to_copy(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
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

/// Reads the operands of a question whose answer is no tensor.
pub(super) fn read_both(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    for name in ["self", "other"] {
        let val = given.tensor(import, name)?;
        import.read(val)?;
    }
    Ok(Vec::new())
}

/// Lowers `fill_` and `zero_`.
pub(super) fn fill(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let target = given.tensor(import, "self")?;
    fill_target(import, given, target)
}

/// Lowers `fill` and `zero`, which leave their operand as it is and return a new tensor of its
/// layout.
pub(super) fn filled(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let like = given.tensor(import, "self")?;
    let spec = import.spec(like).clone();
    let ints = |dims: &[usize]| dims.iter().map(|&d| d as i64).collect::<Vec<i64>>();
    let layout = layouts::preserved(&spec)?;
    let attrs = Attrs::new()
        .with("shape", ints(spec.shape()))
        .with("value", 0i64)
        .with("dtype", spec.dtype)
        .with("strides", ints(layout.strides()));
    let made = import.call("full", &[], attrs)?;
    let target = made.first().copied();
    let target = target.ok_or_else(|| unsupported("full returns no tensor"))?;
    match given.signature.base() {
        "zero" => Ok(vec![Some(target)]),
        _ => fill_target(import, given, target),
    }
}

/// Sets every element of a tensor to the node's argument `value`, or to 0 without one.
fn fill_target(import: &mut Import<'_>, given: &NodeArgs<'_>, target: Val) -> Lowered<Made> {
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
        Some((at, Arg::Opaque)) => {
            let value = import.complex_constant(at)?;
            import.call("copy_", &[target, value], Attrs::new())?;
            return Ok(vec![Some(target)]);
        }
        Some(_) => given
            .scalar("value")?
            .ok_or_else(|| Refusal::Wrong("'value': expected a number".to_owned()))?,
    };
    import.call("fill", &[target], Attrs::new().with("value", value))?;
    Ok(vec![Some(target)])
}

/// Lowers `index_put`. Millstream's op takes the values before the indices, because the number of
/// indices varies.
pub(super) fn index_put(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let base = given.signature.base();
    let op = if base == "index_put" { "index_put" } else { "index_put_" };
    let mut converted = args::convert(import, op, given, &["values"], results)?;
    let values = given.tensor(import, "values")?;
    converted.inputs.insert(1.min(converted.inputs.len()), values);
    call(import, op, converted)
}

/// Returns a number among the arguments.
fn number(given: &NodeArgs<'_>, name: &str) -> Lowered<Number> {
    Ok(match given.scalar(name)? {
        Some(AttrValue::Int(v)) => Number::Int(v.into()),
        Some(AttrValue::Float(v)) => Number::Float(v),
        Some(AttrValue::Bool(v)) => Number::Bool(v),
        _ => return Err(Refusal::Wrong(format!("'{name}': expected a number"))),
    })
}

/// Returns a number among the arguments as a tensor with the dtype of the result.
fn scalar(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    name: &str,
    results: &[Option<Recorded>],
) -> Lowered<Val> {
    let number = number(given, name)?;
    let dtype = args::number_dtype(number, &given.args, results);
    import.number(number, dtype)
}

/// Lowers `rsub`, which is `other - alpha * self`.
pub(super) fn reversed_sub(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
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

/// Lowers `floor_divide` to `div`.
pub(super) fn floor_divide(
    import: &mut Import<'_>,
    base: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let op = if base.ends_with('_') { "div_" } else { "div" };
    let mut converted = args::convert(import, op, given, &[], results)?;
    converted.attrs.set("rounding_mode", "floor");
    call(import, op, converted)
}

/// Lowers an op whose first operand is a number.
pub(super) fn scalar_first(
    import: &mut Import<'_>,
    op: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let first = scalar(import, given, "self", results)?;
    let name = if op == "pow" { "exponent" } else { "other" };
    let second = given.tensor(import, name)?;
    let made = import.call(op, &[first, second], Attrs::new())?;
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers a library's convolution, named by `base`, to `convolution` with the attributes that the
/// library's op lacks, and the sum and activation that it adds.
pub(super) fn library_convolution(
    import: &mut Import<'_>,
    base: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Made> {
    let mut converted = args::convert(import, "convolution", given, &["z", "alpha"], &[])?;
    converted.attrs.set("transposed", base.ends_with("_transpose"));
    if given.get("output_padding").is_none() {
        let dims = converted.inputs.get(1).map_or(0, |w| import.spec(*w).shape().len());
        converted.attrs.set("output_padding", vec![0i64; dims.saturating_sub(2)]);
    }
    let mut made = one_call(import, "convolution", &converted.inputs, converted.attrs)?;
    if given.get("z").is_some() {
        let alpha = given.scalar("alpha")?.unwrap_or(AttrValue::Int(1));
        let added = given.tensor(import, "z")?;
        made = one_call(import, "add", &[made, added], Attrs::new().with("alpha", alpha))?;
    }
    if base.ends_with("relu") {
        made = one_call(import, "relu", &[made], Attrs::new())?;
    }
    Ok(vec![Some(made)])
}

/// Lowers `bincount`. The number of bins, which depends on data, is that of the recording; a
/// number beyond it fails the call.
pub(super) fn bincount(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut converted = args::convert(import, "bincount", given, &[], results)?;
    let result = results.first().and_then(Option::as_ref);
    let bins = result.and_then(|result| result.shape.first().copied());
    let bins = bins.ok_or_else(|| Refusal::Wrong("expected one result".to_owned()))?;
    converted.attrs.set("bins", bins as i64);
    call(import, "bincount", converted)
}
