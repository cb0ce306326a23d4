//! Creation: fills and ranges.
//!
//! | op | result |
//! |---|---|
//! | `full(; shape, value, dtype, strides)` | a new tensor with every element set to the value |
//! | `arange(; start=0, end, step=1, dtype)` | start, start + step, … up to but excluding end |
//! | `scrub(; bytes)` | none: sets all bits of its workspace |
//!
//! The default dtype is i64 for integers, f32 for other numbers and bool for booleans. The
//! `strides` of `full` are those of a dense tensor; row-major by default.
//!
//! Source: <https://docs.pytorch.org/docs/stable/torch.html#creation-ops>.

use millstream_types::{DType, Layout, Result, TensorSpec};

use crate::args::{Scalar, required};
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::layouts::is_dense;
use crate::schema::{CallSpec, Signature};

pub(crate) const OPS: &[Def] = &[FULL, ARANGE, SCRUB];

const FULL: Def = Def::new(
    "full",
    "a new tensor with every element set to a value",
    &[],
    &[
        arg("shape", "the lengths of the dimensions").ints(),
        arg("value", "a number that the dtype can hold").number(),
        arg("dtype", "the dtype").dtype().or("that of the value"),
        arg("strides", "the strides of the dense result").ints().or("row-major"),
    ],
    |call| {
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
                let message = format!("expected {} strides, got {strides:?}", shape.len());
                return refuse("strides", message);
            }
            Some(strides) => {
                let layout = Layout::strided(&shape, &strides, 0)?;
                if !is_dense(&layout) {
                    let message = format!("expected dense strides for {shape:?}, got {strides:?}");
                    return refuse("strides", message);
                }
                layout
            }
        };
        Ok(Signature::reads(0, TensorSpec::new(dtype, layout)?))
    },
)
.complex()
.unsigned();

/// Returns a list of lengths or strides.
pub(crate) fn lengths(call: CallSpec<'_>, name: &'static str) -> Result<Option<Vec<usize>>> {
    let Some(given) = call.attrs.ints(name)? else { return Ok(None) };
    match given.iter().map(|&v| usize::try_from(v)).collect() {
        Ok(lengths) => Ok(Some(lengths)),
        Err(_) => refuse(name, format!("expected numbers of 0 or more, got {given:?}")),
    }
}

/// Machines that check memory run `scrub` on free blocks: a program that reads them gets NaN.
const SCRUB: Def = Def::new(
    "scrub",
    "no result; sets all bits of its workspace, so that every float there is NaN",
    &[],
    &[arg("bytes", "the size of the workspace").int().or("0")],
    |call| {
        let bytes = call.attrs.int("bytes")?.unwrap_or(0);
        match usize::try_from(bytes) {
            Ok(workspace) => Ok(Signature {
                accesses: Default::default(),
                outputs: Default::default(),
                workspace,
            }),
            Err(_) => refuse("bytes", format!("expected a number of 0 or more, got {bytes}")),
        }
    },
);

const ARANGE: Def = Def::new(
    "arange",
    "the numbers from start up to but excluding end, in steps of step",
    &[],
    &[
        arg("start", "the first number").number().or("0"),
        arg("end", "the end, which is excluded").number(),
        arg("step", "the difference between consecutive numbers").number().or("1"),
        arg("dtype", "the dtype").dtype().or("i64 for whole numbers, else f32"),
    ],
    arange,
)
.unsigned();

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
            format!("expected a dtype that holds {start} to {end} by {step}, got {dtype}");
        return refuse("dtype", message);
    }
    let length = match (start, end, step) {
        (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) => {
            let (apart, step) = (i128::from(end) - i128::from(start), i128::from(step));
            // Rounds up.
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
            // Lengths beyond 2^53 exceed every memory.
            (0.0..9e15).contains(&length).then_some(length as usize)
        }
    };
    match length {
        Some(length) => Ok(Signature::reads(0, TensorSpec::contiguous(dtype, &[length])?)),
        None => {
            let message = format!("expected a step that leads from {start} to {end}, got {step}");
            refuse("argument", message)
        }
    }
}
