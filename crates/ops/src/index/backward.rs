//! Gradients of views: zeros, except where the view reads.

use millstream_types::{Dims, Layout, Result, TensorSpec};

use crate::args::{dimension, required};
use crate::def::{Def, arg, refused};
use crate::schema::{ArgDoc, CallSpec, Signature};
use crate::views::{diagonal, select, slice};

const GRAD: &[ArgDoc] = &[arg("grad", "the gradient of the view")];
const SIZES: ArgDoc = arg("input_sizes", "the shape of the viewed tensor").ints();

pub(super) const SELECT_BACKWARD: Def = Def::new(
    "select_backward",
    "zeros of the viewed tensor's shape, with grad where select reads",
    GRAD,
    &[SIZES, arg("dim", "as for select").int(), arg("index", "as for select").int()],
    |call| {
        zeros("select_backward", call, |whole| {
            let dim = dim("select_backward", call, whole)?;
            select("select_backward", whole, dim, required("index", call.attrs.int("index")?)?)
        })
    },
)
.complex();

pub(super) const SLICE_BACKWARD: Def = Def::new(
    "slice_backward",
    "zeros of the viewed tensor's shape, with grad where slice reads",
    GRAD,
    &[
        SIZES,
        arg("dim", "as for slice").int(),
        arg("start", "as for slice").int().optional(),
        arg("end", "as for slice").int().optional(),
        arg("step", "as for slice").int().optional(),
    ],
    |call| {
        zeros("slice_backward", call, |whole| {
            let dim = dim("slice_backward", call, whole)?;
            let bounds = (call.attrs.int("start")?, call.attrs.int("end")?);
            let step = call.attrs.int("step")?.unwrap_or(1);
            slice("slice_backward", whole, dim, bounds, step)
        })
    },
)
.complex();

pub(super) const DIAGONAL_BACKWARD: Def = Def::new(
    "diagonal_backward",
    "zeros of the viewed tensor's shape, with grad where diagonal reads",
    GRAD,
    &[
        SIZES,
        arg("offset", "as for diagonal").int().optional(),
        arg("dim1", "as for diagonal").int().optional(),
        arg("dim2", "as for diagonal").int().optional(),
    ],
    |call| {
        zeros("diagonal_backward", call, |whole| {
            let offset = call.attrs.int("offset")?.unwrap_or(0);
            let dim1 = call.attrs.int("dim1")?.unwrap_or(0);
            let dim2 = call.attrs.int("dim2")?.unwrap_or(1);
            diagonal("diagonal_backward", whole, offset, dim1, dim2)
        })
    },
)
.complex();

fn dim(op: &str, call: CallSpec<'_>, whole: &Layout) -> Result<usize> {
    if whole.rank() == 0 {
        return Err(refused(op, "input_sizes: expected one or more lengths, got none"));
    }
    dimension(required("dim", call.attrs.int("dim")?)?, whole.rank())
}

fn zeros(
    op: &str,
    call: CallSpec<'_>,
    view: impl FnOnce(&Layout) -> Result<Layout>,
) -> Result<Signature> {
    let grad = &call.inputs[0];
    let sizes = required("input_sizes", call.attrs.ints("input_sizes")?)?;
    let shape: Option<Dims> = sizes.iter().map(|&n| usize::try_from(n).ok()).collect();
    let Some(shape) = shape else {
        let message = format!("input_sizes: expected lengths of 0 or more, got {sizes:?}");
        return Err(refused(op, message));
    };
    let whole = TensorSpec::contiguous(grad.dtype, &shape)?;
    let seen = view(&whole.layout)?;
    if seen.shape() != grad.shape() {
        let message = format!("expected a gradient of {:?}, got {}", seen.shape(), grad.brief());
        return Err(refused(op, message));
    }
    Ok(Signature::reads(1, whole))
}
