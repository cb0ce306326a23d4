//! The copies and fills on the host that the ops of [`parts`](crate::parts) are built from.

use anyhow::Result;
use millstream_ops::args::Scalar;

use super::copy::{convert, set};
use crate::context::{KernelCtx, RawTensor};
use crate::parts::Hands;

pub(crate) const HANDS: Hands = Hands { copy, set: fill };

fn copy(ctx: &KernelCtx<'_>, from: RawTensor<'_>, to: RawTensor<'_>) -> Result<()> {
    // SAFETY: views of operands of the call; the second is part of its output and does not overlap
    // the first.
    unsafe { convert(ctx, from, to) }
}

fn fill(ctx: &KernelCtx<'_>, x: RawTensor<'_>, value: Scalar) -> Result<()> {
    // SAFETY: a view of the call's output.
    unsafe { set(ctx, x, value) }
}
