//! Lowers the ops that create tensors, which have many names in PyTorch.

use millstream_ops::layouts;
use millstream_types::{AttrValue, Attrs, DType, Layout};

use super::{Made, Node, ints};
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// Returns whether an op fills a new tensor with one number, or leaves it as it is.
pub(super) fn is_creation(base: &str) -> bool {
    let kind = base.trim_start_matches("new_").trim_end_matches("_strided");
    let kind = kind.trim_end_matches("_like");
    ["zeros", "empty", "ones", "full", "scalar_tensor", "_efficientzerotensor"].contains(&kind)
}

/// Lowers a creation op to `full`.
pub(super) fn create(node: &mut Node<'_, '_>, base: &str) -> Lowered<Made> {
    let is_alike = base.ends_with("_like") || base.starts_with("new_");
    let of = is_alike.then(|| node.tensor("self")).transpose()?;
    let of = of.map(|val| node.import.spec(val).clone());
    let name = if base == "scalar_tensor" { "s" } else { "fill_value" };
    let complex = match node.given.get(name) {
        Some((at, Arg::Opaque)) => Some(node.import.complex_constant(at)?),
        _ => None,
    };
    let value = match node.given.scalar(name) {
        Ok(Some(value)) if complex.is_none() => value,
        _ => AttrValue::Int(i64::from(base.contains("ones"))),
    };
    let default = match (&of, &value, node.given.signature.base()) {
        (Some(of), ..) => of.dtype,
        (None, ..) if complex.is_some() => DType::C64,
        (None, AttrValue::Bool(_), "full") => DType::Bool,
        (None, AttrValue::Int(_), "full" | "randint") => DType::I64,
        _ => DType::F32,
    };
    let dtype = node.given.dtype("dtype")?.or(node.out).unwrap_or(default);
    let shape: Vec<i64> = match (node.given.ints("size")?, &of) {
        (Some(size), _) => size,
        (None, Some(of)) => ints(of.shape()),
        (None, None) => Vec::new(),
    };
    let lengths: Option<Vec<usize>> = shape.iter().map(|&d| usize::try_from(d).ok()).collect();
    let lengths = lengths.ok_or_else(|| Refusal::Wrong(format!("impossible shape {shape:?}")))?;
    let format = node.given.memory_format("memory_format")?;
    let strides = match (node.given.ints("stride")?, format, &of) {
        (Some(strides), ..) => Some(strides),
        (None, Some("channels_last"), _) => layouts::channels_last(&lengths).map(|s| ints(&s)),
        (None, None | Some("preserve"), Some(of)) if base.ends_with("_like") => {
            Some(ints(layouts::preserved(of)?.strides()))
        }
        _ => None,
    };
    let attrs = Attrs::new().with("value", value).with("dtype", dtype);
    let made = match strides {
        None => node.import.one("full", &[], attrs.with("shape", shape))?,
        Some(strides) => strided(node.import, [shape, strides], attrs)?,
    };
    if let Some(value) = complex {
        node.import.call("copy_", &[made, value], Attrs::new())?;
    }
    if base.contains("empty") {
        node.import.leave_unknown(made);
    }
    Ok(vec![Some(made)])
}

/// Lowers `resize_` and `resize_as_` of a tensor without elements to a new tensor, which the
/// address then stands for. Other tensors keep elements, and may not get more of them.
pub(super) fn resize(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let x = node.tensor("self")?;
    let size = match node.given.get("the_template") {
        Some(_) => {
            let template = node.tensor("the_template")?;
            node.import.shape_of(template)
        }
        None => node.given.ints("size")?.unwrap_or_default(),
    };
    let spec = node.import.spec(x).clone();
    if ints(spec.shape()) == size {
        return Ok(vec![Some(x)]);
    }
    let count = size.iter().product::<i64>();
    if spec.numel() > 0 && usize::try_from(count).is_ok_and(|count| count <= spec.numel()) {
        let mut strides = vec![1i64; size.len()];
        for k in (1..size.len()).rev() {
            strides[k - 1] = strides[k] * size[k].max(1);
        }
        let attrs = Attrs::new().with("size", size).with("stride", strides);
        return Ok(vec![Some(node.import.one("as_strided", &[x], attrs)?)]);
    }
    if spec.numel() > 0 {
        return Err(unsupported(format!("a resize of {} to {size:?}", spec.brief())));
    }
    let made = node.import.full(size, 0i64, spec.dtype)?;
    node.import.leave_unknown(made);
    Ok(vec![Some(made)])
}

/// Lowers a creation op with strides. A tensor with gaps is a view of a dense one.
fn strided(import: &mut Import<'_>, dims: [Vec<i64>; 2], attrs: Attrs) -> Lowered<Val> {
    let [shape, strides] = dims;
    let dims = |list: &[i64]| list.iter().map(|&v| usize::try_from(v).ok()).collect();
    let (lengths, steps): (Option<Vec<usize>>, Option<Vec<usize>>) = (dims(&shape), dims(&strides));
    let layout = lengths.zip(steps).map(|(shape, strides)| Layout::strided(&shape, &strides, 0));
    let layout = layout.ok_or_else(|| {
        Refusal::Wrong(format!("impossible shape {shape:?} or strides {strides:?}"))
    })??;
    if layout.covers(layout.numel()) {
        let attrs = attrs.with("shape", shape).with("strides", strides);
        return import.one("full", &[], attrs);
    }
    let whole = attrs.with("shape", vec![layout.span() as i64]);
    let whole = import.one("full", &[], whole)?;
    let view = Attrs::new().with("size", shape).with("stride", strides);
    import.one("as_strided", &[whole], view)
}

/// Lowers `arange`.
pub(super) fn arange(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let mut attrs = Attrs::new();
    let mut bounds = Vec::new();
    for name in ["start", "end", "step"] {
        let value = node.given.scalar(name)?;
        if let Some(value) = value.clone() {
            attrs.set(name, value);
        }
        bounds.push(value);
    }
    let whole = bounds.iter().flatten().all(|value| matches!(value, AttrValue::Int(_)));
    let default = if whole { DType::I64 } else { DType::F32 };
    let dtype = node.given.dtype("dtype")?.or(node.out).unwrap_or(default);
    if !whole && dtype.is_int() {
        attrs = truncated(&bounds)?;
    }
    attrs.set("dtype", dtype);
    Ok(vec![Some(node.import.one("arange", &[], attrs)?)])
}

/// Lowers an op that fills a new tensor by a rule; `None` if it is none of these.
pub(super) fn generated(node: &mut Node<'_, '_>, name: &str) -> Lowered<Option<Made>> {
    let by_rule = ["linspace", "logspace", "eye", "tril_indices", "triu_indices"];
    if !by_rule.contains(&name) && !name.ends_with("_window") {
        return Ok(None);
    }
    let mut converted = node.convert(name, &[])?;
    if let (None, Some(dtype)) = (converted.attrs.get("dtype"), node.out) {
        converted.attrs.set("dtype", dtype);
    }
    if name.ends_with("_indices") {
        node.import.transpose_bounded_shape();
    }
    node.import.made(name, converted).map(Some)
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
