//! Samples of images at the points of a grid, and their gradients.
//!
//! `grid_sampler_2d(x, grid; interpolation_mode, padding_mode, align_corners)` reads an image at
//! points whose coordinates go from -1 to 1, the last dimension first; `grid_sampler_3d` a volume.
//! Modes of interpolation are 0 linear, 1 nearest, 2 cubic (images only); of padding 0 zeros,
//! 1 the border, 2 reflections.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html>.

use millstream_types::{Access, Result, TensorSpec};
use smallvec::SmallVec;

use crate::def::{Arity, Def, arg};
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
    Def {
        name,
        summary: "samples of x at the points of a grid",
        inputs: &[X, GRID],
        attrs: ATTRS,
        arity: Arity::Listed,
        rule,
    }
}

const fn gradient(name: &'static str, rule: fn(CallSpec<'_>) -> Result<Signature>) -> Def {
    Def {
        name,
        summary: "the gradients of samples: of x, and of the grid",
        inputs: &[GRAD, X, GRID],
        attrs: BACKWARD,
        arity: Arity::Listed,
        rule,
    }
}

pub(crate) const OPS: &[Def] = &[
    sampler("grid_sampler_2d", |call| samples(call, 2)),
    sampler("grid_sampler_3d", |call| samples(call, 3)),
    gradient("grid_sampler_2d_backward", |call| gradients(call, 2)),
    gradient("grid_sampler_3d_backward", |call| gradients(call, 3)),
];

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
