//! Copies, conversions and fills.
//!
//! | op | result |
//! |---|---|
//! | `copy(x; strides)` | a new dense tensor with the same elements, bit for bit |
//! | `clone(x; memory_format="preserve")` | the same elements in the layout of x |
//! | `cast(x; dtype, memory_format="preserve")` | a new dense tensor of another dtype |
//! | `copy_(x, src)` | x becomes src, broadcast and converted |
//! | `fill(x; value)` | every element of x becomes the value |
//!
//! Conversions from float to integer round towards zero and saturate at the range of the integer;
//! NaN becomes 0 (PyTorch leaves both undefined). Integers converted to narrower integers keep the
//! low bits. Conversion to bool is "nonzero". Conversion to f16 and bf16 goes through f32, as in
//! PyTorch.

use smallvec::SmallVec;

use millstream_types::{Access, AttrValue, DType, Dims, Layout, Result, TensorSpec};

use crate::args::{Scalar, required};
use crate::broadcast::broadcast;
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] = &[COPY, CLONE, CAST, COPY_, FILL];

const MEMORY_FORMAT: ArgDoc = arg(
    "memory_format",
    "the result's layout: \"preserve\" (that of x if it is dense), \
     \"contiguous\" or \"channels_last\"",
)
.text()
.or("\"preserve\"");

const COPY: Def = Def::new(
    "copy",
    "a new dense tensor with the same elements; also copies between devices",
    &[arg("x", "any shape")],
    &[arg("strides", "the strides of the dense result").ints().or("row-major")],
    |call| {
        let x = &call.inputs[0];
        let Some(given) = call.attrs.ints("strides")? else {
            return Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?));
        };
        let strides: Option<Dims> = given.iter().map(|&s| usize::try_from(s).ok()).collect();
        let layout = strides.and_then(|strides| Layout::strided(x.shape(), &strides, 0).ok());
        match layout.filter(layouts::is_dense) {
            Some(layout) => Ok(Signature::reads(1, TensorSpec::new(x.dtype, layout)?)),
            None => {
                let message =
                    format!("strides: expected those of a dense {}, got {given:?}", x.brief());
                Err(refused("copy", message))
            }
        }
    },
)
.complex()
.unsigned();

const CLONE: Def = Def::new(
    "clone",
    "a new tensor with the same elements, in the same layout if that is dense",
    &[arg("x", "any shape")],
    &[MEMORY_FORMAT],
    |call| converted("clone", call, call.inputs[0].dtype),
)
.complex()
.unsigned();

pub(crate) const CAST: Def = Def::new(
    "cast",
    "the elements converted to another dtype; floats saturate at the range of \
              integers, NaN becomes 0",
    &[arg("x", "any shape")],
    &[arg("dtype", "the dtype to convert to").dtype(), MEMORY_FORMAT],
    |call| converted("cast", call, required("dtype", call.attrs.dtype("dtype")?)?),
)
.complex()
.unsigned();

/// Returns the signature of a conversion to `dtype` in the layout that `memory_format` requests.
fn converted(op: &str, call: CallSpec<'_>, dtype: DType) -> Result<Signature> {
    let x = &call.inputs[0];
    let layout = match call.attrs.get("memory_format") {
        None => layouts::preserved(x)?,
        Some(AttrValue::Str(format)) => match format.as_str() {
            "preserve" => layouts::preserved(x)?,
            "contiguous" => Layout::contiguous(x.shape())?,
            "channels_last" if x.layout.rank() == 4 => {
                let strides = layouts::channels_last(x.shape());
                Layout::strided(x.shape(), &required("strides", strides)?, 0)?
            }
            "channels_last" => {
                let message = format!("channels_last: expected 4 dimensions, got {}", x.brief());
                return Err(refused(op, message));
            }
            other => {
                return Err(refused(
                    op,
                    format!(
                        "memory_format: expected preserve, contiguous, channels_last, got '{other}'"
                    ),
                ));
            }
        },
        Some(other) => {
            return Err(refused(op, format!("memory_format: expected a name, got {other}")));
        }
    };
    Ok(Signature::reads(1, TensorSpec::new(dtype, layout)?))
}

pub(crate) const COPY_: Def = Def::new(
    "copy_",
    "sets x to the elements of src, converted as by cast; src is read in full \
              before x is written",
    &[
        arg("x", "any shape, without overlapping elements; overwritten"),
        arg("src", "a shape that broadcasts to x's; any dtype; may share memory with x"),
    ],
    &[arg("non_blocking", "ignored: every call is asynchronous").flag().ignored()],
    |call| {
        let (x, src) = (&call.inputs[0], &call.inputs[1]);
        call.attrs.bool("non_blocking")?;
        if broadcast(x.shape(), src.shape())?.as_slice() != x.shape() {
            let message = format!("{} does not broadcast to {}", src.brief(), x.brief());
            return Err(refused("copy_", message));
        }
        if x.layout.may_overlap_itself() {
            let message = format!(
                "{x} has overlapping elements and cannot be copied to; copy to a tensor without"
            );
            return Err(refused("copy_", message));
        }
        Ok(Signature {
            accesses: SmallVec::from_iter([Access::Write, Access::Read]),
            outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
            workspace: 0,
        })
    },
)
.complex()
.unsigned();

const FILL: Def = Def::new(
    "fill",
    "sets every element of x to a value, in place",
    &[arg("x", "any shape; overwritten")],
    &[arg("value", "a number that x's dtype can hold").number().patchable()],
    |call| {
        let x = &call.inputs[0];
        let value = required("value", Scalar::of(call.attrs, "value")?)?;
        if !value.fits(x.dtype) {
            return Err(refused("fill", format!("{} cannot hold {value}", x.dtype)));
        }
        Ok(Signature {
            accesses: SmallVec::from_iter([Access::Write]),
            outputs: SmallVec::from_iter([OutputSpec::Same(0)]),
            workspace: 0,
        })
    },
)
.complex()
.unsigned();
