//! Convolutions and their gradients.
//!
//! | op | results |
//! |---|---|
//! | `convolution(x, weight, bias?; …)` | the convolution |
//! | `convolution_backward(grad, x, weight; …)` | gradients for x, weight, bias |
//!
//! x is `[n,c,..]` with one to three spatial dimensions. A weight is `[out,c/groups,..]`, or
//! `[c,out/groups,..]` for a transposed convolution. Stride, padding, dilation and output padding
//! are one number or one for each spatial dimension; the defaults are 1, 0, 1 and 0. All tensors
//! have one dtype: floats, of which f16 and bf16 are computed in f32 and rounded once, or, except
//! for gradients, integers, which wrap. `output_mask` selects the gradients to return. Results are
//! channels-last if x or weight is.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html>.

use millstream_types::{Attrs, DType, Dims, Result, TensorSpec};

use crate::checks;
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, Signature};

/// The number of spatial dimensions of every computation. Fewer are filled up in front with
/// dimensions of length 1.
pub const SPATIAL_DIMS: usize = 3;

/// The greatest stride, padding, dilation or output padding.
const MOST: i64 = i32::MAX as i64;

/// A convolution from an image to a feature map. A transposed convolution goes from the map to the
/// image: it is computed as the gradient of the other direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// The number of images.
    pub batch: usize,
    /// The number of groups of channels, each convolved separately.
    pub groups: usize,
    /// The channels in one group of the image.
    pub image_channels: usize,
    /// The channels in one group of the map.
    pub map_channels: usize,
    /// The spatial lengths of the image.
    pub image: [usize; SPATIAL_DIMS],
    /// The spatial lengths of the map.
    pub map: [usize; SPATIAL_DIMS],
    /// The spatial lengths of the weight.
    pub kernel: [usize; SPATIAL_DIMS],
    /// The steps in the image between neighbouring elements of the map.
    pub stride: [usize; SPATIAL_DIMS],
    /// The numbers of padded elements before the image.
    pub padding: [usize; SPATIAL_DIMS],
    /// The steps in the image between neighbouring elements of the weight.
    pub dilation: [usize; SPATIAL_DIMS],
    /// Whether the op's input is the map instead of the image.
    pub transposed: bool,
}

impl Conv {
    /// Returns the number of positions of the kernel.
    pub fn kernel_size(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Returns the number of positions of the image.
    pub fn image_size(&self) -> usize {
        self.image.iter().product()
    }

    /// Returns the number of positions of the map.
    pub fn map_size(&self) -> usize {
        self.map.iter().product()
    }

    /// Returns whether each position of the map reads only the same position of the image.
    pub fn is_pointwise(&self) -> bool {
        self.kernel.iter().chain(&self.stride).all(|&v| v == 1)
            && self.padding.iter().all(|&v| v == 0)
    }

    /// Returns the convolution of tensors of these shapes.
    ///
    /// # Errors
    /// Fails if shapes or arguments do not match.
    pub fn new(attrs: &Attrs, x: &[usize], weight: &[usize]) -> Result<Conv> {
        let bad = |message: String| refused("convolution", message);
        let rank = x.len().wrapping_sub(2);
        if !(1..=SPATIAL_DIMS).contains(&rank) || weight.len() != x.len() {
            let expected = "expected x and weight of the same three to five dimensions";
            return Err(bad(format!("{expected}, got {x:?} and {weight:?}")));
        }
        if x[1..].contains(&0) || weight.contains(&0) {
            return Err(bad(format!(
                "expected no dimension of length 0 but the batch, got {x:?} and {weight:?}"
            )));
        }
        let transposed = attrs.bool("transposed")?.unwrap_or(false);
        let groups = match attrs.int("groups")?.unwrap_or(1) {
            groups @ 1..=MOST => groups as usize,
            other => return Err(bad(format!("groups: expected 1 or more, got {other}"))),
        };
        // Dimension 0 of the weight holds the channels of the map.
        let given = if transposed { weight[0] } else { weight[1].saturating_mul(groups) };
        if given != x[1] || !weight[0].is_multiple_of(groups) {
            return Err(bad(format!(
                "the channels of {x:?} in {groups} group(s) do not match the weight {weight:?}"
            )));
        }
        let list =
            |name: &str, least: i64, fill: usize| spatial_numbers(attrs, name, rank, least, fill);
        let (stride, dilation) = (list("stride", 1, 1)?, list("dilation", 1, 1)?);
        let (padding, extra) = (list("padding", 0, 0)?, list("output_padding", 0, 0)?);
        let mut conv = Conv {
            batch: x[0],
            groups,
            image_channels: weight[1],
            map_channels: weight[0] / groups,
            image: [1; SPATIAL_DIMS],
            map: [1; SPATIAL_DIMS],
            kernel: [1; SPATIAL_DIMS],
            stride,
            padding,
            dilation,
            transposed,
        };
        let skipped = SPATIAL_DIMS - rank;
        for k in skipped..SPATIAL_DIMS {
            let (given, kernel) = (x[2 + k - skipped], weight[2 + k - skipped]);
            conv.kernel[k] = kernel;
            let reach = dilation[k] as i128 * (kernel as i128 - 1) + 1;
            let (length, padding) = (given as i128, 2 * padding[k] as i128);
            let result = match transposed {
                false if length + padding < reach => 0,
                false => (length + padding - reach) / stride[k] as i128 + 1,
                true => (length - 1) * stride[k] as i128 - padding + reach + extra[k] as i128,
            };
            let result = usize::try_from(result).ok().filter(|&r| r > 0);
            let Some(result) = result else {
                return Err(bad(format!(
                    "no elements in the result of {x:?} with a weight {weight:?}; change padding"
                )));
            };
            if transposed && extra[k] >= stride[k].max(dilation[k]) {
                let message =
                    "output_padding: expected less than the larger of stride and dilation";
                return Err(bad(format!("{message}, got {}", extra[k])));
            }
            (conv.image[k], conv.map[k]) =
                if transposed { (result, given) } else { (given, result) };
        }
        Ok(conv)
    }

    /// Returns the number of channels of the op's result.
    pub fn channels(&self) -> usize {
        self.groups * if self.transposed { self.image_channels } else { self.map_channels }
    }

    /// Returns the shape of the op's result, for `rank` spatial dimensions.
    fn result(&self, rank: usize) -> Dims {
        let lengths = if self.transposed { self.image } else { self.map };
        let mut shape = Dims::from_slice(&[self.batch, self.channels()]);
        shape.extend_from_slice(&lengths[SPATIAL_DIMS - rank..]);
        shape
    }
}

/// Returns an argument with a number for each spatial dimension, filled up in front.
fn spatial_numbers(
    attrs: &Attrs,
    name: &str,
    rank: usize,
    least: i64,
    fill: usize,
) -> Result<[usize; SPATIAL_DIMS]> {
    let mut result = [fill; SPATIAL_DIMS];
    let Some(given) = attrs.ints(name)? else { return Ok(result) };
    let valid = given.iter().all(|v| (least..=MOST).contains(v));
    if !valid || (given.len() != rank && given.len() != 1) {
        let expected = format!("expected one or {rank} numbers from {least} to {MOST}");
        return Err(refused("convolution", format!("{name}: {expected}, got {given:?}")));
    }
    for (k, to) in result[SPATIAL_DIMS - rank..].iter_mut().enumerate() {
        *to = given[if given.len() == 1 { 0 } else { k }] as usize;
    }
    Ok(result)
}

const STRIDE: ArgDoc = arg("stride", "step between windows").ints().or("1");
const PADDING: ArgDoc = arg("padding", "zeros added on both sides").ints().or("0");
const DILATION: ArgDoc = arg("dilation", "step between elements of a window").ints().or("1");
const TRANSPOSED: ArgDoc =
    arg("transposed", "compute the transposed convolution").flag().or("false");
const EXTRA: ArgDoc =
    arg("output_padding", "extra elements at the end of a transposed convolution's result")
        .ints()
        .or("0");
const GROUPS: ArgDoc = arg("groups", "number of groups of channels").int().or("1");
const X: ArgDoc = arg("x", "[n,c,..]");
const WEIGHT: ArgDoc = arg("weight", "[out,c/groups,..], transposed [c,out/groups,..]");

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "convolution",
        "the convolution of x with a weight",
        &[X, WEIGHT, arg("bias", "[out]: added to each channel; default 0")],
        &[STRIDE, PADDING, DILATION, TRANSPOSED, EXTRA, GROUPS],
        forward,
    )
    .optional(2),
    Def::new(
        "convolution_backward",
        "the gradients of convolution",
        &[arg("grad", "the gradient of the result"), X, WEIGHT],
        &[
            arg("bias_sizes", "the shape of the bias").ints().optional(),
            STRIDE,
            PADDING,
            DILATION,
            TRANSPOSED,
            EXTRA,
            GROUPS,
            arg(
                "output_mask",
                "three flags, 0 or 1: which gradients to compute, of x, weight and bias",
            )
            .ints()
            .optional(),
        ],
        backward,
    ),
];

/// Returns a result of `shape`, channels-last if `x` or `weight` is.
fn spec(shape: &[usize], x: &TensorSpec, weight: &TensorSpec) -> Result<TensorSpec> {
    // With three spatial dimensions, PyTorch keeps the format only for the dtypes of its CPU
    // library.
    let kept = shape.len() == 4 || matches!(x.dtype, DType::F32 | DType::BF16);
    let by = [x, weight].into_iter().find(|t| layouts::suggests_channels_last(&t.layout));
    match by.filter(|_| kept) {
        Some(by) => TensorSpec::new(x.dtype, layouts::suggested(by, shape)?),
        None => TensorSpec::contiguous(x.dtype, shape),
    }
}

/// The alignment in bytes of the weight in the workspace. The workspace is larger by this amount,
/// since it may begin at any address.
pub const WORKSPACE_ALIGN: usize = 64;

/// Returns the workspace for the weight in the dtype of the computation.
fn workspace(weight: &TensorSpec) -> usize {
    // At most twice the bytes of a valid tensor.
    weight.numel().saturating_mul(weight.dtype.size().max(4)).saturating_add(WORKSPACE_ALIGN)
}

fn check(op: &str, call: CallSpec<'_>, x: &TensorSpec, weight: &TensorSpec) -> Result<Conv> {
    checks::dtype(op, "weight", weight, x.dtype)?;
    Conv::new(call.attrs, x.shape(), weight.shape())
}

fn forward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "convolution";
    let listed = checks::listed_inputs(call, 3)?;
    let [Some(x), Some(weight), bias] = listed[..] else {
        return Err(refused(op, "expected x and weight"));
    };
    checks::numbers(op, x)?;
    let conv = check(op, call, x, weight)?;
    checks::dtype_and_shape(op, "bias", bias, x.dtype, &[conv.channels()])?;
    let output = spec(&conv.result(x.layout.rank() - 2), x, weight)?;
    Ok(Signature { workspace: workspace(weight), ..Signature::reads(call.inputs.len(), output) })
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "convolution_backward";
    let (grad, x, weight) = (&call.inputs[0], &call.inputs[1], &call.inputs[2]);
    checks::floats(op, x)?;
    let conv = check(op, call, x, weight)?;
    checks::dtype_and_shape(op, "grad", Some(grad), x.dtype, &conv.result(x.layout.rank() - 2))?;
    match call.attrs.ints("bias_sizes")? {
        Some(sizes) if sizes != [conv.channels() as i64] && sizes != [0] => {
            let expected = [conv.channels()];
            let message = format!("bias_sizes: expected {expected:?}, got {sizes:?}");
            return Err(refused(op, message));
        }
        _ => {}
    }
    let results = [
        spec(x.shape(), x, weight)?,
        spec(weight.shape(), x, weight)?,
        TensorSpec::contiguous(x.dtype, &[conv.channels()])?,
    ];
    let signature = checks::masked_outputs(call, results, &checks::mask(call.attrs, 3)?);
    Ok(Signature { workspace: workspace(weight), ..signature })
}
