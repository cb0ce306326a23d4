//! Samples of images at the points of a grid and within boxes, and their gradients; the boxes that
//! no better one covers.
//!
//! `grid_sampler_2d(x, grid; interpolation_mode, padding_mode, align_corners)` reads an image at
//! points whose coordinates go from -1 to 1, the last dimension first; `grid_sampler_3d` a volume.
//! Modes of interpolation are 0 linear, 1 nearest, 2 cubic (images only); of padding 0 zeros,
//! 1 the border, 2 reflections.
//!
//! `roi_align(x, rois; spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)`
//! divides each box, a row of `rois` (the image's number, then two corners, each with the last
//! dimension first), into cells, whose results are the means of samples. `nms_mask(boxes;
//! iou_threshold)` keeps a box unless a kept one before it covers more than that share of their
//! union.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html>,
//! <https://docs.pytorch.org/vision/stable/ops.html>.

use millstream_types::{Access, DType, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::required;
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: ArgDoc = arg("x", "[n,c,..]; floats");
const GRID: ArgDoc = arg("grid", "[n,..,d] of d coordinates; x's dtype");
const GRAD: ArgDoc = arg("grad", "the gradient of the samples");
const ATTRS: &[ArgDoc] = &[
    arg("interpolation_mode", "0 linear, 1 nearest, 2 cubic").int().or("0"),
    arg("padding_mode", "0 zeros, 1 the border, 2 reflections").int().or("0"),
    arg("align_corners", "whether -1 and 1 are centres of elements").flag().or("false"),
];
const BACKWARD: &[ArgDoc] = &[
    ATTRS[0],
    ATTRS[1],
    ATTRS[2],
    arg("output_mask", "which gradients to return; default both").ints().optional(),
];

const fn sampler(name: &'static str, rule: fn(CallSpec<'_>) -> Result<Signature>) -> Def {
    Def::new(name, "samples of x at the points of a grid", &[X, GRID], ATTRS, rule)
}

const fn gradient(name: &'static str, rule: fn(CallSpec<'_>) -> Result<Signature>) -> Def {
    Def::new(
        name,
        "the gradients of samples: of x, and of the grid",
        &[GRAD, X, GRID],
        BACKWARD,
        rule,
    )
}

const IMAGE_CELLS: &[ArgDoc] = &[
    CELLS[0],
    CELLS[1],
    CELLS[2],
    CELLS[3],
    CELLS[4],
    arg("batch_size", "the number of images").int(),
    arg("channels", "of an image").int(),
    arg("height", "of an image").int(),
    arg("width", "of an image").int(),
];

pub(crate) const OPS: &[Def] = &[
    sampler("grid_sampler_2d", |call| samples(call, 2)),
    sampler("grid_sampler_3d", |call| samples(call, 3)),
    gradient("grid_sampler_2d_backward", |call| gradients(call, 2)),
    gradient("grid_sampler_3d_backward", |call| gradients(call, 3)),
    Def::new(
        "roi_align",
        "the means of samples in the cells of boxes",
        &[arg("x", "[n,c,h,w]; f32 or f64"), ROIS],
        CELLS,
        |call| {
            let x = &call.inputs[0];
            let (boxes, [height, width]) = cells(call, x)?;
            let shape = [boxes, x.shape()[1], height, width];
            Ok(Signature::reads(2, TensorSpec::contiguous(x.dtype, &shape)?))
        },
    ),
    Def::new(
        "_roi_align_backward",
        "the gradient of `roi_align`",
        &[GRAD, ROIS],
        IMAGE_CELLS,
        |call| {
            let grad = &call.inputs[0];
            let (boxes, [height, width]) = cells(call, grad)?;
            let shape = ["batch_size", "channels", "height", "width"].map(|of| length(call, of));
            let [n, c, h, w] = shape;
            let shape = [n?, c?, h?, w?];
            if grad.shape() != [boxes, shape[1], height, width] {
                return refuse("shape", format!("{} is no gradient of {shape:?}", grad.brief()));
            }
            Ok(Signature::reads(2, TensorSpec::contiguous(grad.dtype, &shape)?))
        },
    ),
    Def::new(
        "nms_mask",
        "which boxes no kept one before covers",
        &[arg("boxes", "[n,4], of two corners; f32 or f64")],
        &[arg("iou_threshold", "the greatest share of the union").float()],
        |call| {
            let boxes = &call.inputs[0];
            let &[count, 4] = boxes.shape() else {
                return refuse("shape", format!("expected boxes [n,4], got {}", boxes.brief()));
            };
            is_full_float(boxes)?;
            required("iou_threshold", call.attrs.float("iou_threshold")?)?;
            Ok(Signature::reads(1, TensorSpec::contiguous(DType::Bool, &[count])?))
        },
    ),
];

const ROIS: ArgDoc = arg("rois", "[k,5]: an image's number, and the corners of a box; x's dtype");
const CELLS: &[ArgDoc] = &[
    arg("spatial_scale", "the factor of the corners").float(),
    arg("pooled_height", "the cells of a column").int(),
    arg("pooled_width", "the cells of a row").int(),
    arg("sampling_ratio", "the samples along a side of a cell; 0 or less: one for each element")
        .int(),
    arg("aligned", "whether positions are those of the elements' centres").flag(),
];

fn is_full_float(x: &TensorSpec) -> Result<()> {
    match x.dtype {
        DType::F32 | DType::F64 => Ok(()),
        _ => refuse("dtype", format!("expected f32 or f64, got {}", x.brief())),
    }
}

fn length(call: CallSpec<'_>, name: &str) -> Result<usize> {
    let length = required(name, call.attrs.int(name)?)?;
    match usize::try_from(length) {
        Ok(length) => Ok(length),
        Err(_) => refuse("argument", format!("{name}: expected 0 or more, got {length}")),
    }
}

/// Checks the operands of means in boxes; returns the numbers of boxes and of their cells.
fn cells(call: CallSpec<'_>, x: &TensorSpec) -> Result<(usize, [usize; 2])> {
    let rois = &call.inputs[1];
    is_full_float(x)?;
    let (&[boxes, 5], 4, true) = (rois.shape(), x.shape().len(), x.dtype == rois.dtype) else {
        let message = format!("{} does not fit {}: expected [k,5]", rois.brief(), x.brief());
        return refuse("shape", message);
    };
    required("spatial_scale", call.attrs.float("spatial_scale")?)?;
    required("sampling_ratio", call.attrs.int("sampling_ratio")?)?;
    required("aligned", call.attrs.bool("aligned")?)?;
    Ok((boxes, [length(call, "pooled_height")?, length(call, "pooled_width")?]))
}

/// Checks image, grid and modes; returns the shape of the samples.
fn check(call: CallSpec<'_>, x: &TensorSpec, grid: &TensorSpec, dims: usize) -> Result<Vec<usize>> {
    let (shape, points) = (x.shape(), grid.shape());
    let fits = shape.len() == dims + 2
        && points.len() == dims + 2
        && points[0] == shape[0]
        && points[dims + 1] == dims
        && x.dtype == grid.dtype
        && x.dtype.is_float();
    if !fits || shape[2..].contains(&0) {
        let message = format!("{} does not fit {}", grid.brief(), x.brief());
        return refuse("shape", message);
    }
    let mode = call.attrs.int("interpolation_mode")?.unwrap_or(0);
    let padding = call.attrs.int("padding_mode")?.unwrap_or(0);
    call.attrs.bool("align_corners")?;
    if !(0..=4 - dims as i64).contains(&mode) || !(0..3).contains(&padding) {
        return refuse("argument", format!("a mode is out of range: {mode}, {padding}"));
    }
    Ok([&shape[..2], &points[1..=dims]].concat())
}

fn samples(call: CallSpec<'_>, dims: usize) -> Result<Signature> {
    let (x, grid) = (&call.inputs[0], &call.inputs[1]);
    let shape = check(call, x, grid, dims)?;
    Ok(Signature::reads(2, TensorSpec::contiguous(x.dtype, &shape)?))
}

fn gradients(call: CallSpec<'_>, dims: usize) -> Result<Signature> {
    let (grad, x, grid) = (&call.inputs[0], &call.inputs[1], &call.inputs[2]);
    let shape = check(call, x, grid, dims)?;
    if grad.shape() != shape {
        return refuse("shape", format!("expected a gradient {shape:?}, got {}", grad.brief()));
    }
    let mask = call.attrs.ints("output_mask")?.unwrap_or_else(|| vec![1, 1]);
    let mut outputs = SmallVec::new();
    for (k, of) in [x, grid].into_iter().enumerate() {
        if mask.get(k).is_some_and(|&m| m != 0) {
            outputs.push(OutputSpec::Fresh(TensorSpec::contiguous(of.dtype, of.shape())?));
        }
    }
    Ok(Signature { accesses: SmallVec::from_elem(Access::Read, 3), outputs, workspace: 0 })
}
