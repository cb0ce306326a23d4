//! Lowers ops that fill a new tensor by a rule to several ops.

use millstream_types::{AttrValue, Attrs, DType};

use super::functions::cast;
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;
use crate::number::Number;

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
        "logspace" => logspace(import, given, out)?,
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

/// A bound of `linspace`: a number, or a tensor without dimensions.
#[derive(Clone, Copy)]
enum Bound {
    Number(f64),
    Tensor(Val),
}

fn bound(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    name: &str,
    dtype: DType,
) -> Lowered<Bound> {
    Ok(match given.get(name) {
        Some((_, Arg::Tensor(_))) => {
            let val = given.tensor(import, name)?;
            Bound::Tensor(cast(import, val, dtype)?)
        }
        _ => Bound::Number(number(given, name)?),
    })
}

/// Calls an op whose second operand is a bound.
fn with_bound(import: &mut Import<'_>, op: &str, x: Val, bound: Bound) -> Lowered<Val> {
    match bound {
        Bound::Number(v) => one_call(import, op, &[x], Attrs::new().with("other", v)),
        Bound::Tensor(val) => one_call(import, op, &[x, val], Attrs::new()),
    }
}

/// Lowers `linspace`. As in PyTorch, the first half counts from the start and the second from the
/// end, integers in f64.
fn linspace(import: &mut Import<'_>, given: &NodeArgs<'_>, out: Option<DType>) -> Lowered<Val> {
    let dtype = given.dtype("dtype")?.or(out).unwrap_or(DType::F32);
    let made = spaced(import, given, computed(dtype))?;
    cast(import, made, dtype)
}

/// Lowers `logspace`: powers of a base.
fn logspace(import: &mut Import<'_>, given: &NodeArgs<'_>, out: Option<DType>) -> Lowered<Val> {
    let dtype = given.dtype("dtype")?.or(out).unwrap_or(DType::F32);
    let exponents = spaced(import, given, computed(dtype))?;
    let base = match given.scalar("base")? {
        None => 10.0,
        Some(_) => number(given, "base")?,
    };
    let base = import.number(Number::Float(base), computed(dtype))?;
    let made = one_call(import, "pow", &[base, exponents], Attrs::new())?;
    cast(import, made, dtype)
}

/// Returns the dtype in which numbers of a dtype are spaced.
fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        _ => DType::F64,
    }
}

/// Returns numbers at equal distances.
fn spaced(import: &mut Import<'_>, given: &NodeArgs<'_>, dtype: DType) -> Lowered<Val> {
    let (start, end) = (bound(import, given, "start", dtype)?, bound(import, given, "end", dtype)?);
    let steps = length(given, "steps")?.unwrap_or(100);
    let with = |name: &'static str, value: f64| Attrs::new().with(name, value);
    let step = match (start, end) {
        _ if steps < 2 => Bound::Number(0.0),
        (Bound::Number(start), Bound::Number(end)) if dtype == DType::F32 => {
            Bound::Number(f64::from((end as f32 - start as f32) / (steps - 1) as f32))
        }
        (Bound::Number(start), Bound::Number(end)) => {
            Bound::Number((end - start) / (steps - 1) as f64)
        }
        (start, end) => {
            let end = match end {
                Bound::Number(v) => import.number(Number::Float(v), dtype)?,
                Bound::Tensor(val) => val,
            };
            let whole = with_bound(import, "sub", end, start)?;
            Bound::Tensor(one_call(import, "div", &[whole], with("other", (steps - 1) as f64))?)
        }
    };
    let count = Attrs::new().with("end", steps).with("dtype", dtype);
    let index = one_call(import, "arange", &[], count)?;
    let up = with_bound(import, "mul", index, step)?;
    let up = with_bound(import, "add", up, start)?;
    let rest = one_call(import, "sub", &[index], with("other", (steps - 1) as f64))?;
    let down = with_bound(import, "mul", rest, step)?;
    let down = with_bound(import, "add", down, end)?;
    let first = one_call(import, "lt", &[index], with("other", (steps / 2).max(1) as f64))?;
    one_call(import, "where", &[first, up, down], Attrs::new())
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
