//! Lowers the ops that create tensors, which have many names in PyTorch.

use millstream_ops::layouts;
use millstream_types::{AttrValue, Attrs, DType, Layout};

use super::{Made, call, one_call};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// Returns whether an op fills a new tensor with one number, or leaves it as it is.
pub(super) fn is_creation(base: &str) -> bool {
    let kind = base.trim_start_matches("new_").trim_end_matches("_strided");
    let kind = kind.trim_end_matches("_like");
    ["zeros", "empty", "ones", "full", "scalar_tensor", "_efficientzerotensor"].contains(&kind)
}

/// Lowers a creation op to `full`. `out` is the dtype of the tensor that the result is written to.
pub(super) fn create(
    import: &mut Import<'_>,
    base: &str,
    given: &NodeArgs<'_>,
    out: Option<DType>,
) -> Lowered<Made> {
    let of = match base.ends_with("_like") || base.starts_with("new_") {
        true => Some(given.tensor(import, "self")?),
        false => None,
    };
    let of = of.map(|val| import.spec(val).clone());
    let name = if base == "scalar_tensor" { "s" } else { "fill_value" };
    let complex = match given.get(name) {
        Some((at, Arg::Opaque)) => Some(import.complex_constant(at)?),
        _ => None,
    };
    let value = match given.scalar(name) {
        Ok(Some(value)) if complex.is_none() => value,
        _ => AttrValue::Int(i64::from(base.contains("ones"))),
    };
    let default = match (&of, &value, given.signature.base()) {
        (Some(of), ..) => of.dtype,
        (None, ..) if complex.is_some() => DType::C64,
        (None, AttrValue::Bool(_), "full") => DType::Bool,
        (None, AttrValue::Int(_), "full" | "randint") => DType::I64,
        _ => DType::F32,
    };
    let dtype = given.dtype("dtype")?.or(out).unwrap_or(default);
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
            let kept = layouts::preserved(of)?;
            Some(kept.strides().iter().map(|&s| s as i64).collect())
        }
        _ => None,
    };
    let attrs = Attrs::new().with("value", value).with("dtype", dtype);
    let made = match strides {
        None => one_call(import, "full", &[], attrs.with("shape", shape))?,
        Some(strides) => with_strides(import, shape, strides, attrs)?,
    };
    if let Some(value) = complex {
        import.call("copy_", &[made, value], Attrs::new())?;
    }
    if base.contains("empty") {
        import.leave_unknown(made);
    }
    Ok(vec![Some(made)])
}

/// Lowers `resize_` and `resize_as_` of a tensor without elements to a new tensor, which the
/// address then stands for. Other tensors keep elements, and may not get more of them.
pub(super) fn resize(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let x = given.tensor(import, "self")?;
    let size = match given.get("the_template") {
        Some(_) => {
            let template = given.tensor(import, "the_template")?;
            import.spec(template).shape().iter().map(|&d| d as i64).collect()
        }
        None => given.ints("size")?.unwrap_or_default(),
    };
    let spec = import.spec(x).clone();
    if spec.shape().iter().map(|&d| d as i64).eq(size.iter().copied()) {
        return Ok(vec![Some(x)]);
    }
    let count = size.iter().product::<i64>();
    if spec.numel() > 0 && usize::try_from(count).is_ok_and(|count| count <= spec.numel()) {
        let mut strides = vec![1i64; size.len()];
        for k in (1..size.len()).rev() {
            strides[k - 1] = strides[k] * size[k].max(1);
        }
        let attrs = Attrs::new().with("size", size).with("stride", strides);
        return Ok(vec![Some(one_call(import, "as_strided", &[x], attrs)?)]);
    }
    if spec.numel() > 0 {
        return Err(unsupported(format!("a resize of {} to {size:?}", spec.brief())));
    }
    let attrs = Attrs::new().with("shape", size).with("value", 0i64).with("dtype", spec.dtype);
    let made = one_call(import, "full", &[], attrs)?;
    import.leave_unknown(made);
    Ok(vec![Some(made)])
}

/// Lowers a creation op with strides. A tensor with gaps is a view of a dense one.
fn with_strides(
    import: &mut Import<'_>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    attrs: Attrs,
) -> Lowered<Val> {
    let dims = |list: &[i64]| list.iter().map(|&v| usize::try_from(v).ok()).collect();
    let (lengths, steps): (Option<Vec<usize>>, Option<Vec<usize>>) = (dims(&shape), dims(&strides));
    let layout = lengths.zip(steps).map(|(shape, strides)| Layout::strided(&shape, &strides, 0));
    let layout = layout.ok_or_else(|| {
        Refusal::Wrong(format!("impossible shape {shape:?} or strides {strides:?}"))
    })??;
    if layout.covers(layout.numel()) {
        let attrs = attrs.with("shape", shape).with("strides", strides);
        return one_call(import, "full", &[], attrs);
    }
    let whole = attrs.with("shape", vec![layout.span() as i64]);
    let whole = one_call(import, "full", &[], whole)?;
    let view = Attrs::new().with("size", shape).with("stride", strides);
    one_call(import, "as_strided", &[whole], view)
}

/// Lowers `arange`. `out` is the dtype of the tensor that the result is written to.
pub(super) fn arange(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    out: Option<DType>,
) -> Lowered<Made> {
    let mut attrs = Attrs::new();
    let mut bounds = Vec::new();
    for name in ["start", "end", "step"] {
        let value = given.scalar(name)?;
        if let Some(value) = value.clone() {
            attrs.set(name, value);
        }
        bounds.push(value);
    }
    let whole = bounds.iter().flatten().all(|value| matches!(value, AttrValue::Int(_)));
    let default = if whole { DType::I64 } else { DType::F32 };
    let dtype = given.dtype("dtype")?.or(out).unwrap_or(default);
    if !whole && dtype.is_int() {
        attrs = truncated(&bounds)?;
    }
    attrs.set("dtype", dtype);
    let made = import.call("arange", &[], attrs)?;
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers an op that fills a new tensor by a rule; `None` if it is none of these. `out` is the
/// dtype of the tensor that the result is written to.
pub(super) fn generated(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    out: Option<DType>,
) -> Lowered<Option<Made>> {
    let by_rule = ["linspace", "logspace", "eye", "tril_indices", "triu_indices"];
    if !by_rule.contains(&name) && !name.ends_with("_window") {
        return Ok(None);
    }
    let mut converted = args::convert(import, name, given, &[], &[])?;
    if let (None, Some(dtype)) = (converted.attrs.get("dtype"), out) {
        converted.attrs.set("dtype", dtype);
    }
    if name.ends_with("_indices") {
        import.transpose_bounded_shape();
    }
    call(import, name, converted).map(Some)
}

/// Returns the arguments of an `arange` of integers with fractional bounds. As in PyTorch, the
/// fractions determine the number of elements, and then start and step are truncated.
fn truncated(bounds: &[Option<AttrValue>]) -> Lowered<Attrs> {
    let number = |k: usize, default: f64| match bounds.get(k) {
        Some(Some(AttrValue::Int(v))) => *v as f64,
        Some(Some(AttrValue::Float(v))) => *v,
        _ => default,
    };
    let (start, end, step) = (number(0, 0.0), number(1, 0.0), number(2, 1.0));
    let count = ((end - start) / step).ceil();
    let (start, step) = (start.trunc(), step.trunc());
    let wrong = || Refusal::Wrong(format!("arange from {start} to {end} by {step}: impossible"));
    if step == 0.0 || !count.is_finite() || count < 0.0 || count.max(end.abs()) > 2f64.powi(52) {
        return Err(wrong());
    }
    Ok(Attrs::new()
        .with("start", start as i64)
        .with("end", (start + count * step) as i64)
        .with("step", step as i64))
}
