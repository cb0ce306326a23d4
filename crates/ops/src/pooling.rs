//! Pooling and its gradients.
//!
//! | op | results |
//! |---|---|
//! | `max_pool2d_with_indices(x; …)` | the maximum of each window, and its index |
//! | `max_pool2d_with_indices_backward(grad, x, indices; …)` | the gradient |
//! | `avg_pool2d(x; …)` | the mean of each window |
//! | `avg_pool2d_backward(grad, x; …)` | the gradient |
//! | `_adaptive_avg_pool2d(x; output_size)` | the means of output_size windows that cover x |
//! | `_adaptive_avg_pool2d_backward(grad, x)` | the gradient |
//!
//! x is `[n,c,h,w]` or `[c,h,w]`, of floats; for `max_pool2d_with_indices` and `avg_pool2d` also of
//! integers, whose means are truncated. Sizes are one number or two. The stride defaults to
//! the kernel size, padding to 0, dilation to 1. With `ceil_mode`, a window must begin inside of x
//! and may end outside. Indices number the pixels of an image row by row. NaN is greater than any
//! number. Means are divided by the number of elements, including the padding if
//! `count_include_pad` (the default), or by `divisor_override`. Results keep the memory format.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html>.

use millstream_types::{Attrs, DType, Dims, Error, Result, TensorSpec};

use crate::args::required;
use crate::checks;
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

/// The greatest kernel size, stride, padding or dilation.
const MOST: i64 = i32::MAX as i64;

/// The windows of a pooling along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The length of the input.
    pub length: usize,
    /// The number of windows.
    pub count: usize,
    /// The number of elements in a window.
    pub kernel: usize,
    /// The step between windows.
    pub stride: usize,
    /// The number of padded elements before the input.
    pub padding: usize,
    /// The step between elements of a window.
    pub dilation: usize,
}

/// Returns the windows along both spatial dimensions of a tensor of `shape`.
///
/// # Errors
/// Fails if shapes or arguments do not match.
pub fn windows(attrs: &Attrs, shape: &[usize]) -> Result<[Windows; 2]> {
    let lengths = spatial_lengths(shape)?;
    let kernel = required("kernel_size", pair(attrs, "kernel_size", 1)?)?;
    let stride = pair(attrs, "stride", 1)?.unwrap_or(kernel);
    let padding = pair(attrs, "padding", 0)?.unwrap_or([0; 2]);
    let dilation = pair(attrs, "dilation", 1)?.unwrap_or([1; 2]);
    let ceil = attrs.bool("ceil_mode")?.unwrap_or(false);
    let mut windows = [0, 1].map(|k| Windows {
        length: lengths[k],
        count: 0,
        kernel: kernel[k],
        stride: stride[k],
        padding: padding[k],
        dilation: dilation[k],
    });
    for w in &mut windows {
        let reach = (w.kernel as i128 - 1) * w.dilation as i128 + 1;
        if w.padding as i128 > reach / 2 {
            let message =
                format!("padding: expected at most half the window size, got {}", w.padding);
            return Err(Error::Invalid { what: "argument", message });
        }
        let (stride, end) = (w.stride as i128, w.length as i128 + w.padding as i128);
        let room = end + w.padding as i128 - reach + if ceil { stride - 1 } else { 0 };
        let mut count = if room < 0 { 0 } else { room / stride + 1 };
        // The last window must begin inside.
        if ceil && (count - 1) * stride >= end {
            count -= 1;
        }
        w.count = usize::try_from(count).unwrap_or(0);
        if w.count == 0 {
            let message =
                format!("no room for a window of {kernel:?} in {shape:?}; use a smaller one");
            return Err(Error::Invalid { what: "shape", message });
        }
    }
    Ok(windows)
}

/// Returns the two spatial lengths.
fn spatial_lengths(shape: &[usize]) -> Result<[usize; 2]> {
    match *shape {
        [_, h, w] | [_, _, h, w] if h > 0 && w > 0 => Ok([h, w]),
        _ => Err(Error::Invalid {
            what: "shape",
            message: format!("expected [n,c,h,w] or [c,h,w] with h and w above 0, got {shape:?}"),
        }),
    }
}

/// Returns an argument of one number or two; an empty list counts as absent.
fn pair(attrs: &Attrs, name: &str, least: i64) -> Result<Option<[usize; 2]>> {
    let Some(given) = attrs.ints(name)?.filter(|given| !given.is_empty()) else { return Ok(None) };
    let (a, b) = match given[..] {
        [a] => (a, a),
        [a, b] => (a, b),
        _ => (-1, -1),
    };
    if [a, b].iter().all(|v| (least..=MOST).contains(v)) {
        return Ok(Some([a as usize, b as usize]));
    }
    let message = format!("{name}: expected one or two numbers of {least} or more, got {given:?}");
    Err(Error::Invalid { what: "argument", message })
}

const X: ArgDoc = arg("x", "[n,c,h,w] or [c,h,w]");
const GRAD: ArgDoc = arg("grad", "the gradient of the result");
const KERNEL: ArgDoc = arg("kernel_size", "the size of a window: one number or two").ints();
const STRIDE: ArgDoc = arg("stride", "the step between windows").ints().or("kernel_size");
const PADDING: ArgDoc = arg("padding", "elements added on both sides").ints().or("0");
const DILATION: ArgDoc = arg("dilation", "the step between elements of a window").ints().or("1");
const CEIL: ArgDoc = arg("ceil_mode", "whether windows may end outside of x").flag().or("false");
const COUNT: ArgDoc = arg("count_include_pad", "whether means count the padding").flag().or("true");
const DIVISOR: ArgDoc =
    arg("divisor_override", "the divisor of the sums").int().or("the number of elements");
const MAX: &[ArgDoc] = &[KERNEL, STRIDE, PADDING, DILATION, CEIL];
const AVG: &[ArgDoc] = &[KERNEL, STRIDE, PADDING, CEIL, COUNT, DIVISOR];

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "max_pool2d_with_indices",
        "the maximum of each window, and its index",
        &[X],
        MAX,
        |call| {
            let x = &call.inputs[0];
            checks::numbers("max_pool2d_with_indices", x)?;
            let shape = pooled(x, windows(call.attrs, x.shape())?.map(|w| w.count));
            let mut signature = Signature::reads(1, result(x, x.dtype, &shape)?);
            signature.outputs.push(OutputSpec::Fresh(result(x, DType::I64, &shape)?));
            Ok(signature)
        },
    ),
    Def::new(
        "max_pool2d_with_indices_backward",
        "the gradient of max_pool2d_with_indices",
        &[GRAD, X, arg("indices", "the indices, as returned by the op")],
        MAX,
        |call| {
            let op = "max_pool2d_with_indices_backward";
            let x = &call.inputs[1];
            let shape = pooled(x, windows(call.attrs, x.shape())?.map(|w| w.count));
            checks::dtype_and_shape(op, "indices", Some(&call.inputs[2]), DType::I64, &shape)?;
            backward(op, call, &shape)
        },
    ),
    Def::new("avg_pool2d", "the mean of each window", &[X], AVG, |call| {
        let x = &call.inputs[0];
        checks::numbers("avg_pool2d", x)?;
        average("avg_pool2d", call.attrs)?;
        let shape = pooled(x, windows(call.attrs, x.shape())?.map(|w| w.count));
        Ok(Signature::reads(1, result(x, x.dtype, &shape)?))
    }),
    Def::new("avg_pool2d_backward", "the gradient of avg_pool2d", &[GRAD, X], AVG, |call| {
        let x = &call.inputs[1];
        average("avg_pool2d_backward", call.attrs)?;
        let shape = pooled(x, windows(call.attrs, x.shape())?.map(|w| w.count));
        backward("avg_pool2d_backward", call, &shape)
    }),
    Def::new(
        "_adaptive_avg_pool2d",
        "the means of output_size windows that cover x",
        &[X],
        &[arg("output_size", "the number of windows: one number or two").ints()],
        |call| {
            let x = &call.inputs[0];
            checks::floats("_adaptive_avg_pool2d", x)?;
            spatial_lengths(x.shape())?;
            let size = required("output_size", pair(call.attrs, "output_size", 0)?)?;
            Ok(Signature::reads(1, result(x, x.dtype, &pooled(x, size))?))
        },
    ),
    Def::new(
        "_adaptive_avg_pool2d_backward",
        "the gradient of _adaptive_avg_pool2d",
        &[GRAD, X],
        &[],
        |call| {
            let (grad, x) = (&call.inputs[0], &call.inputs[1]);
            let size = spatial_lengths(grad.shape())?;
            spatial_lengths(x.shape())?;
            backward("_adaptive_avg_pool2d_backward", call, &pooled(x, size))
        },
    ),
];

/// Returns the shape of x with other spatial lengths.
fn pooled(x: &TensorSpec, size: [usize; 2]) -> Dims {
    let mut shape = Dims::from_slice(x.shape());
    let rank = shape.len();
    shape[rank - 2..].copy_from_slice(&size);
    shape
}

fn result(x: &TensorSpec, dtype: DType, shape: &[usize]) -> Result<TensorSpec> {
    TensorSpec::new(dtype, layouts::suggested(x, shape)?)
}

fn average(op: &str, attrs: &Attrs) -> Result<()> {
    attrs.bool("count_include_pad")?;
    match attrs.int("divisor_override")? {
        Some(0) => Err(refused(op, "divisor_override: expected a number other than 0, got 0")),
        _ => Ok(()),
    }
}

fn backward(op: &str, call: CallSpec<'_>, shape: &[usize]) -> Result<Signature> {
    let (grad, x) = (&call.inputs[0], &call.inputs[1]);
    checks::floats(op, x)?;
    checks::dtype_and_shape(op, "grad", Some(grad), x.dtype, shape)?;
    Ok(Signature::reads(call.inputs.len(), result(x, x.dtype, x.shape())?))
}
