//! Lowers ops that fill a new tensor by a rule to several ops.

use millstream_types::{AttrValue, Attrs, DType};

use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// Lowers an op; `None` if it is none of these. `out`
/// is the dtype of the tensor that the result is written to.
pub(super) fn generated(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    out: Option<DType>,
) -> Lowered<Option<Made>> {
    let made = match name {
        "linspace" => linspace(import, given, out)?,
        "eye" => eye(import, given, out)?,
        "tril_indices" | "triu_indices" => triangle_indices(import, name, given)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

fn number(given: &NodeArgs<'_>, name: &str) -> Lowered<f64> {
    if let Some((_, Arg::Tensor(_))) = given.get(name) {
        return Err(unsupported(format!("'{name}' that is a tensor is not supported")));
    }
    match given.scalar(name)? {
        Some(AttrValue::Int(v)) => Ok(v as f64),
        Some(AttrValue::Float(v)) => Ok(v),
        Some(AttrValue::Bool(v)) => Ok(f64::from(u8::from(v))),
        _ => Err(unsupported(format!("'{name}' that is no number"))),
    }
}

fn length(given: &NodeArgs<'_>, name: &str) -> Lowered<Option<i64>> {
    match given.int(name)? {
        Some(v) if v < 0 => Err(Refusal::Wrong(format!("'{name}': expected 0 or more, got {v}"))),
        other => Ok(other),
    }
}

/// Lowers `linspace`. As in PyTorch, the first half counts from the start and the second from the
/// end, integers in f64.
fn linspace(import: &mut Import<'_>, given: &NodeArgs<'_>, out: Option<DType>) -> Lowered<Val> {
    let (start, end) = (number(given, "start")?, number(given, "end")?);
    let steps = length(given, "steps")?.unwrap_or(100);
    let dtype = given.dtype("dtype")?.or(out).unwrap_or(DType::F32);
    let computed = match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        _ => DType::F64,
    };
    let step = match steps {
        0 | 1 => 0.0,
        _ if computed == DType::F32 => f64::from((end as f32 - start as f32) / (steps - 1) as f32),
        _ => (end - start) / (steps - 1) as f64,
    };
    let with = |name: &'static str, value: f64| Attrs::new().with(name, value);
    let count = Attrs::new().with("end", steps).with("dtype", computed);
    let index = one_call(import, "arange", &[], count)?;
    let up = one_call(import, "mul", &[index], with("other", step))?;
    let up = one_call(import, "add", &[up], with("other", start))?;
    let rest = one_call(import, "sub", &[index], with("other", (steps - 1) as f64))?;
    let down = one_call(import, "mul", &[rest], with("other", step))?;
    let down = one_call(import, "add", &[down], with("other", end))?;
    let first = one_call(import, "lt", &[index], with("other", (steps / 2).max(1) as f64))?;
    let made = one_call(import, "where", &[first, up, down], Attrs::new())?;
    match dtype == computed {
        true => Ok(made),
        false => one_call(import, "cast", &[made], Attrs::new().with("dtype", dtype)),
    }
}

fn eye(import: &mut Import<'_>, given: &NodeArgs<'_>, out: Option<DType>) -> Lowered<Val> {
    let rows = length(given, "n")?.unwrap_or(0);
    let columns = length(given, "m")?.unwrap_or(rows);
    let dtype = given.dtype("dtype")?.or(out).unwrap_or(DType::F32);
    let zeros =
        Attrs::new().with("shape", vec![rows, columns]).with("value", 0i64).with("dtype", dtype);
    let zeros = one_call(import, "full", &[], zeros)?;
    let diagonal = one_call(import, "diagonal", &[zeros], Attrs::new())?;
    import.call("fill", &[diagonal], Attrs::new().with("value", 1i64))?;
    Ok(zeros)
}

/// Lowers the indices of a triangle: those of the elements that are not 0 in a triangle of ones.
fn triangle_indices(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (rows, columns) = (length(given, "row")?.unwrap_or(0), length(given, "col")?.unwrap_or(0));
    let dtype = given.dtype("dtype")?.unwrap_or(DType::I64);
    let ones = Attrs::new()
        .with("shape", vec![rows, columns])
        .with("value", true)
        .with("dtype", DType::Bool);
    let ones = one_call(import, "full", &[], ones)?;
    let offset = Attrs::new().with("diagonal", given.int("offset")?.unwrap_or(0));
    let op = name.strip_suffix("_indices").unwrap_or(name);
    let triangle = one_call(import, op, &[ones], offset)?;
    import.transpose_bounded_shape();
    let at = one_call(import, "nonzero", &[triangle], Attrs::new())?;
    let at = one_call(import, "t", &[at], Attrs::new())?;
    let attrs = Attrs::new().with("memory_format", "contiguous");
    match dtype {
        DType::I64 => one_call(import, "clone", &[at], attrs),
        _ => one_call(import, "cast", &[at], attrs.with("dtype", dtype)),
    }
}
