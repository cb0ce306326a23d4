//! Lowers ops whose arguments differ from those of Millstream's ops.

use millstream_ops::layouts;
use millstream_types::{AttrValue, Attrs};

use super::{Made, call, one_call, shape_of};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Refusal, Val};
use crate::et::value::{Arg, Recorded};

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
    let strides = layouts::preserved(&spec)?.strides().iter().map(|&s| s as i64).collect();
    let attrs = Attrs::new()
        .with("shape", shape_of(import, like))
        .with("value", 0i64)
        .with("dtype", spec.dtype)
        .with("strides", AttrValue::Ints(strides));
    let target = one_call(import, "full", &[], attrs)?;
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
