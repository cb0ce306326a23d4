//! Convolutions and their gradients.
//!
//! | op | results |
//! |---|---|
//! | `convolution(x, weight, bias?; stride, padding, dilation, transposed, output_padding, groups)` | the convolution |
//! | `convolution_backward(grad, x, weight; bias_sizes, .., groups, output_mask)` | gradients for x, weight, bias |
//!
//! x is `[n,c,..]` with one to three dimensions of places. A weight is `[out,c/groups,..]`, and
//! transposed `[c,out/groups,..]`. Stride, padding, dilation and output padding are one number or
//! one for each dimension of places: 1, 0, 1 and 0 unless given. Floats of one dtype; f16 and bf16
//! are computed in f32 and rounded once. Of the gradients those are results that `output_mask` asks
//! for. Results are channels-last if x or weight is.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html>.

use millstream_types::{Attrs, DType, Dims, Result, TensorSpec};

use crate::def::{Arity, Def, arg, refused};
use crate::expect;
use crate::layouts;
use crate::matmul::WORKSPACE_ALIGN;
use crate::schema::{ArgDoc, CallSpec, Signature};

/// The dimensions of places that everything is computed with; fewer are filled up in front with
/// dimensions of length 1.
pub const PLACES: usize = 3;

/// The largest stride, padding, dilation or output padding.
const MOST: i64 = i32::MAX as i64;

/// A convolution from an image to a map. A transposed one goes from the map to the image: it is
/// computed as the gradient of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// How many images.
    pub batch: usize,
    /// Parts that channels are cut into, each convolved by itself.
    pub groups: usize,
    /// Channels of one group of the image.
    pub image_channels: usize,
    /// Channels of one group of the map.
    pub map_channels: usize,
    /// Places of the image.
    pub image: [usize; PLACES],
    /// Places of the map.
    pub map: [usize; PLACES],
    /// Places of the weight.
    pub kernel: [usize; PLACES],
    /// Places of the image from one of the map to the next.
    pub stride: [usize; PLACES],
    /// Places before the image begins.
    pub padding: [usize; PLACES],
    /// Places of the image from one of the weight to the next.
    pub dilation: [usize; PLACES],
    /// Whether the map is what is given.
    pub transposed: bool,
}

impl Conv {
    /// The convolution of tensors of these shapes.
    ///
    /// # Errors
    /// Shapes or arguments that do not fit.
    pub fn new(attrs: &Attrs, x: &[usize], weight: &[usize]) -> Result<Conv> {
        let bad = |message: String| refused("convolution", message);
        let rank = x.len().wrapping_sub(2);
        if !(1..=PLACES).contains(&rank) || weight.len() != x.len() {
            let expected = "expected three to five dimensions, the same number for both";
            return Err(bad(format!("{expected}: got {x:?} and {weight:?}")));
        }
        if x[1..].contains(&0) || weight.contains(&0) {
            return Err(bad(format!("expected channels and places, got {x:?} and {weight:?}")));
        }
        let transposed = attrs.bool("transposed")?.unwrap_or(false);
        let groups = match attrs.int("groups")?.unwrap_or(1) {
            groups @ 1..=MOST => groups as usize,
            other => return Err(bad(format!("groups: expected 1 or more, got {other}"))),
        };
        // Of the weight, dimension 0 has the channels of the map.
        let given = if transposed { weight[0] } else { weight[1].saturating_mul(groups) };
        if given != x[1] || !weight[0].is_multiple_of(groups) {
            return Err(bad(format!("{groups} group(s) of {x:?} do not go with {weight:?}")));
        }
        let list = |name: &str, least: i64, fill: usize| places(attrs, name, rank, least, fill);
        let (stride, dilation) = (list("stride", 1, 1)?, list("dilation", 1, 1)?);
        let (padding, extra) = (list("padding", 0, 0)?, list("output_padding", 0, 0)?);
        let mut conv = Conv {
            batch: x[0],
            groups,
            image_channels: weight[1],
            map_channels: weight[0] / groups,
            image: [1; PLACES],
            map: [1; PLACES],
            kernel: [1; PLACES],
            stride,
            padding,
            dilation,
            transposed,
        };
        let skipped = PLACES - rank;
        for k in skipped..PLACES {
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
                return Err(bad(format!("nothing is left of {x:?} with a weight {weight:?}")));
            };
            if transposed && extra[k] >= stride[k].max(dilation[k]) {
                let message = "output_padding: expected less than the stride or the dilation";
                return Err(bad(format!("{message}, got {}", extra[k])));
            }
            (conv.image[k], conv.map[k]) =
                if transposed { (result, given) } else { (given, result) };
        }
        Ok(conv)
    }

    /// The number of channels of the op's result.
    pub fn channels(&self) -> usize {
        self.groups * if self.transposed { self.image_channels } else { self.map_channels }
    }

    /// The shape of the op's result, for `rank` dimensions of places.
    fn result(&self, rank: usize) -> Dims {
        let places = if self.transposed { self.image } else { self.map };
        let mut shape = Dims::from_slice(&[self.batch, self.channels()]);
        shape.extend_from_slice(&places[PLACES - rank..]);
        shape
    }
}

/// An argument with a number for each dimension of places, those in front filled up.
fn places(
    attrs: &Attrs,
    name: &str,
    rank: usize,
    least: i64,
    fill: usize,
) -> Result<[usize; PLACES]> {
    let mut result = [fill; PLACES];
    let Some(given) = attrs.ints(name)? else { return Ok(result) };
    let valid = given.iter().all(|v| (least..=MOST).contains(v));
    if !valid || (given.len() != rank && given.len() != 1) {
        let expected = format!("expected one or {rank} numbers from {least} to {MOST}");
        return Err(refused("convolution", format!("{name}: {expected}, got {given:?}")));
    }
    for (k, to) in result[PLACES - rank..].iter_mut().enumerate() {
        *to = given[if given.len() == 1 { 0 } else { k }] as usize;
    }
    Ok(result)
}

const STRIDE: ArgDoc = arg("stride", "places from one window to the next; 1 unless given");
const PADDING: ArgDoc = arg("padding", "zeros on both sides; 0 unless given");
const DILATION: ArgDoc =
    arg("dilation", "places from one element of the weight to the next; 1 unless given");
const TRANSPOSED: ArgDoc =
    arg("transposed", "whether windows are added up instead of read; false unless given");
const EXTRA: ArgDoc =
    arg("output_padding", "places more at the end of a transposed one's result; 0 unless given");
const GROUPS: ArgDoc = arg("groups", "parts that the channels are cut into; 1 unless given");
const X: ArgDoc = arg("x", "[n,c,..]");
const WEIGHT: ArgDoc = arg("weight", "[out,c/groups,..], transposed [c,out/groups,..]");

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "convolution",
        summary: "the sums of the products of a weight with windows of x",
        inputs: &[X, WEIGHT, arg("bias", "[out]: added at the end; 0 unless given")],
        attrs: &[STRIDE, PADDING, DILATION, TRANSPOSED, EXTRA, GROUPS],
        arity: Arity::Optional(2),
        rule: forward,
    },
    Def {
        name: "convolution_backward",
        summary: "the gradient of convolution",
        inputs: &[arg("grad", "the gradient of the result"), X, WEIGHT],
        attrs: &[
            arg("bias_sizes", "the shape of the bias"),
            STRIDE,
            PADDING,
            DILATION,
            TRANSPOSED,
            EXTRA,
            GROUPS,
            arg("output_mask", "three of 0 and 1: the gradients asked for, x, weight and bias"),
        ],
        arity: Arity::Listed,
        rule: backward,
    },
];

/// A result of `shape`, channels-last if one of the two is.
fn spec(shape: &[usize], x: &TensorSpec, weight: &TensorSpec) -> Result<TensorSpec> {
    // Three dimensions of places keep their format only where PyTorch's library for them is used.
    let kept = shape.len() == 4 || matches!(x.dtype, DType::F32 | DType::BF16);
    let by = [x, weight].into_iter().find(|t| layouts::suggests_channels_last(&t.layout));
    match by.filter(|_| kept) {
        Some(by) => TensorSpec::new(x.dtype, layouts::suggested(by, shape)?),
        None => TensorSpec::contiguous(x.dtype, shape),
    }
}

/// The weight in the type that is computed in.
fn workspace(weight: &TensorSpec) -> usize {
    // No more than twice the bytes of a valid tensor.
    weight.numel().saturating_mul(weight.dtype.size().max(4)).saturating_add(WORKSPACE_ALIGN)
}

fn check(op: &str, call: CallSpec<'_>, x: &TensorSpec, weight: &TensorSpec) -> Result<Conv> {
    expect::floats(op, x)?;
    expect::dtype(op, "weight", weight, x.dtype)?;
    Conv::new(call.attrs, x.shape(), weight.shape())
}

fn forward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "convolution";
    let listed = expect::listed(call, 3)?;
    let [Some(x), Some(weight), bias] = listed[..] else {
        return Err(refused(op, "expected x and weight"));
    };
    let conv = check(op, call, x, weight)?;
    expect::like(op, "bias", bias, x.dtype, &[conv.channels()])?;
    let output = spec(&conv.result(x.layout.rank() - 2), x, weight)?;
    Ok(Signature { workspace: workspace(weight), ..Signature::reads(call.inputs.len(), output) })
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "convolution_backward";
    let (grad, x, weight) = (&call.inputs[0], &call.inputs[1], &call.inputs[2]);
    let conv = check(op, call, x, weight)?;
    expect::like(op, "grad", Some(grad), x.dtype, &conv.result(x.layout.rank() - 2))?;
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
    let signature = expect::masked(call, results, &expect::mask(call.attrs, 3)?);
    Ok(Signature { workspace: workspace(weight), ..signature })
}
