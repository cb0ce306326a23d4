//! Lowers the ops that create tensors, which have many names in PyTorch.

use millstream_ops::layouts;
use millstream_types::{AttrValue, Attrs, DType};

use super::{Made, out_params};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val};
use crate::et::value::Recorded;

/// Lowers a creation op to `full`.
pub(super) fn create(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>) -> Lowered<Made> {
    let like = base.ends_with("_like") || base.starts_with("new_");
    let of = match like {
        true => Some(given.tensor(import, "self")?),
        false => None,
    };
    let of = of.map(|val| import.spec(val).clone());
    let value = match base {
        "ones" | "new_ones" | "ones_like" => AttrValue::Int(1),
        "full" | "new_full" | "full_like" => given
            .scalar("fill_value")?
            .ok_or_else(|| Refusal::Wrong("'fill_value': expected a number".to_owned()))?,
        "scalar_tensor" => {
            given.scalar("s")?.ok_or_else(|| Refusal::Wrong("'s': expected a number".to_owned()))?
        }
        _ => AttrValue::Int(0),
    };
    let default = match (&of, &value, base) {
        (Some(of), ..) => of.dtype,
        (None, AttrValue::Bool(_), "full") => DType::Bool,
        (None, AttrValue::Int(_), "full") => DType::I64,
        _ => DType::F32,
    };
    let dtype = given.dtype("dtype")?.unwrap_or(default);
    let shape: Vec<i64> = match (given.ints("size")?, &of) {
        (Some(size), _) => size,
        (None, Some(of)) => of.shape().iter().map(|&d| d as i64).collect(),
        (None, None) => Vec::new(),
    };
    let lengths: Option<Vec<usize>> = shape.iter().map(|&d| usize::try_from(d).ok()).collect();
    let lengths = lengths.ok_or_else(|| Refusal::Wrong(format!("impossible shape {shape:?}")))?;
    let strides = match (given.ints("stride")?, given.memory_format("memory_format")?, &of) {
        (Some(strides), ..) => Some(strides),
        (None, Some("channels_last"), _) => {
            layouts::channels_last(&lengths).map(|s| s.iter().map(|&s| s as i64).collect())
        }
        (None, None | Some("preserve"), Some(of)) if base.ends_with("_like") => {
            let kept = layouts::preserved(of).map_err(|e| Refusal::Wrong(e.to_string()))?;
            Some(kept.strides().iter().map(|&s| s as i64).collect())
        }
        _ => None,
    };
    let mut attrs = Attrs::new();
    attrs.set("shape", shape);
    attrs.set("value", value);
    attrs.set("dtype", dtype);
    if let Some(strides) = strides {
        attrs.set("strides", strides);
    }
    let made = import.call("full", &[], attrs)?;
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers `arange`, with and without `out`.
pub(super) fn arange(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut attrs = Attrs::new();
    let mut whole = true;
    for name in ["start", "end", "step"] {
        if let Some(value) = given.scalar(name)? {
            whole &= matches!(value, AttrValue::Int(_));
            attrs.set(name, value);
        }
    }
    let default = if whole { DType::I64 } else { DType::F32 };
    let outs = out_params(given);
    if outs.is_empty() {
        attrs.set("dtype", given.dtype("dtype")?.unwrap_or(default));
        let made = import.call("arange", &[], attrs)?;
        return Ok(made.into_iter().map(Some).collect());
    }
    let target = given.tensor(import, "out")?;
    attrs.set("dtype", import.spec(target).dtype);
    let made = import.call("arange", &[], attrs)?;
    let target_shape = import.spec(target).shape();
    let fits = results.iter().flatten().next().is_some_and(|r| &*r.shape == target_shape);
    if !fits {
        return Ok(made.into_iter().map(Some).collect());
    }
    let inputs: Vec<Val> = [target].into_iter().chain(made).collect();
    import.call("copy_", &inputs, Attrs::new())?;
    Ok(vec![Some(target)])
}
