//! Tensors from nothing: fills and ranges.
//!
//! | op | result |
//! |---|---|
//! | `full(; shape, value, dtype, strides)` | a new tensor, every element of which is the value |
//! | `arange(; start=0, end, step=1, dtype)` | start, start + step, ..., as long as it is before the end |
//! | `scrub(; bytes)` | none: fills that many bytes of scratch memory with ones, for machines that check memory |
//!
//! Without `dtype`, whole numbers give i64, others f32, and truth values bool. The `strides` of
//! `full` are those of a tensor without gaps; row-major order unless given.
//!
//! Source: <https://docs.pytorch.org/docs/stable/torch.html#creation-ops>.

use millstream_types::{DType, Layout, Result, TensorSpec};

use crate::args::{Scalar, required};
use crate::def::{Arity, Def, arg};
use crate::elementwise::refuse;
use crate::layouts::is_dense;
use crate::schema::{CallSpec, Signature};

pub(crate) const OPS: &[Def] = &[FULL, ARANGE, SCRUB];

const FULL: Def = Def {
    name: "full",
    summary: "a new tensor, every element of which is a value",
    inputs: &[],
    attrs: &[
        arg("shape", "the lengths of the dimensions"),
        arg("value", "a number that the dtype can hold"),
        arg("dtype", "the dtype; the value's own unless given"),
        arg("strides", "the strides of a tensor without gaps; row-major unless given"),
    ],
    arity: Arity::Listed,
    rule: |call| {
        let shape = lengths(call, "shape")?;
        let shape = required("shape", shape)?;
        let value = required("value", Scalar::of(call.attrs, "value")?)?;
        let dtype = call.attrs.dtype("dtype")?.unwrap_or(match value {
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
            Scalar::Bool(_) => DType::Bool,
        });
        if !value.fits(dtype) {
            return refuse("value", format!("{dtype} cannot hold {value}"));
        }
        let layout = match lengths(call, "strides")? {
            None => Layout::contiguous(&shape)?,
            Some(strides) if strides.len() != shape.len() => {
                let message = format!("{strides:?}: expected {} strides", shape.len());
                return refuse("strides", message);
            }
            Some(strides) => {
                let layout = Layout::strided(&shape, &strides, 0)?;
                if !is_dense(&layout) {
                    let message = format!("{strides:?} for {shape:?} leave gaps or overlap");
                    return refuse("strides", message);
                }
                layout
            }
        };
        Ok(Signature::reads(0, TensorSpec::new(dtype, layout)?))
    },
};

/// A list of lengths or strides.
fn lengths(call: CallSpec<'_>, name: &'static str) -> Result<Option<Vec<usize>>> {
    let Some(given) = call.attrs.ints(name)? else { return Ok(None) };
    match given.iter().map(|&v| usize::try_from(v)).collect() {
        Ok(lengths) => Ok(Some(lengths)),
        Err(_) => refuse(name, format!("{given:?}: expected numbers of 0 or more")),
    }
}

/// What a machine that checks memory does with blocks that nobody has: whoever reads them all the
/// same gets numbers that no program means.
const SCRUB: Def = Def {
    name: "scrub",
    summary: "no result; all bits of its scratch memory are set: every float there is NaN",
    inputs: &[],
    attrs: &[arg("bytes", "how much scratch memory; none unless given")],
    arity: Arity::Listed,
    rule: |call| {
        let bytes = call.attrs.int("bytes")?.unwrap_or(0);
        match usize::try_from(bytes) {
            Ok(workspace) => Ok(Signature {
                accesses: Default::default(),
                outputs: Default::default(),
                workspace,
            }),
            Err(_) => refuse("bytes", format!("{bytes}: expected a number of 0 or more")),
        }
    },
};

const ARANGE: Def = Def {
    name: "arange",
    summary: "the numbers from start to before end, step apart",
    inputs: &[],
    attrs: &[
        arg("start", "the first number; 0 unless given"),
        arg("end", "where it ends; not among the numbers"),
        arg("step", "from one number to the next; 1 unless given"),
        arg("dtype", "the dtype; i64 for whole numbers, else f32, unless given"),
    ],
    arity: Arity::Listed,
    rule: arange,
};

fn arange(call: CallSpec<'_>) -> Result<Signature> {
    let number = |name: &str, default: Option<i64>| -> Result<Scalar> {
        match Scalar::of(call.attrs, name)?.or(default.map(Scalar::Int)) {
            Some(Scalar::Bool(v)) => {
                refuse("argument", format!("{name}: expected a number, got {v}"))
            }
            Some(Scalar::Float(v)) if !v.is_finite() => {
                refuse("argument", format!("{name}: expected a finite number, got {v:?}"))
            }
            given => required(name, given),
        }
    };
    let (start, end) = (number("start", Some(0))?, number("end", None)?);
    let step = number("step", Some(1))?;
    let whole = [start, end, step].iter().all(|v| matches!(v, Scalar::Int(_)));
    let dtype = call.attrs.dtype("dtype")?;
    let dtype = dtype.unwrap_or(if whole { DType::I64 } else { DType::F32 });
    if dtype == DType::Bool || (dtype.is_int() && !whole) {
        let message =
            format!("{dtype} from {start} to {end} by {step}: expected a dtype of floats");
        return refuse("dtype", message);
    }
    let length = match (start, end, step) {
        (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) => {
            let (apart, step) = (i128::from(end) - i128::from(start), i128::from(step));
            // Towards the end, rounded up.
            match step {
                0 => None,
                _ if apart.signum() * step.signum() < 0 => None,
                _ => usize::try_from((apart.abs() + step.abs() - 1) / step.abs()).ok(),
            }
        }
        _ => {
            let float = |v| match v {
                Scalar::Int(v) => v as f64,
                Scalar::Float(v) => v,
                Scalar::Bool(_) => 0.0,
            };
            let length = ((float(end) - float(start)) / float(step)).ceil();
            // Sizes beyond 2^53 are beyond every memory.
            (0.0..9e15).contains(&length).then_some(length as usize)
        }
    };
    match length {
        Some(length) => Ok(Signature::reads(0, TensorSpec::contiguous(dtype, &[length])?)),
        None => {
            let message = format!("no range leads from {start} to {end} by {step}");
            refuse("argument", message)
        }
    }
}
