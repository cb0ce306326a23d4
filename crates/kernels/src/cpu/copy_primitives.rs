//! The copies and fills on the host that the ops of [`data_movement`](crate::data_movement) are
//! built from.

use anyhow::Result;
use millstream_ops::args::Scalar;

use super::copy::{convert, set};
use crate::context::{KernelCtx, RawTensor};
use crate::data_movement::CopyPrimitives;

pub(crate) const COPY_PRIMITIVES: CopyPrimitives = CopyPrimitives { copy, fill };

fn copy(ctx: &KernelCtx<'_>, from: RawTensor<'_>, to: RawTensor<'_>) -> Result<()> {
    // SAFETY: views of operands of the call; the second is part of its output and does not overlap
    // the first.
    unsafe { convert(ctx, from, to) }
}

fn fill(ctx: &KernelCtx<'_>, x: RawTensor<'_>, value: Scalar) -> Result<()> {
    // SAFETY: a view of the call's output.
    unsafe { set(ctx, x, value) }
}
