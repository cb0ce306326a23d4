//! Copies of tensors.

use anyhow::{Result, bail};

use millstream_types::layout::contiguous_strides;

use super::native;
use crate::context::{KernelCtx, RawTensor};

/// `copy`, between any two memories.
pub(super) fn copy(ctx: &KernelCtx<'_>) -> Result<()> {
    if copy_dense(ctx)? {
        return Ok(());
    }
    let (from, to) = (ctx.operand(0)?, ctx.operand(1)?);
    bail!("from {from:?} to {to:?}: tensors with gaps cannot be copied on this device yet")
}

/// Copies the call's first operand into its second if both lie without gaps, in row-major order and
/// with elements of one type. Returns whether it did.
///
/// # Errors
/// The driver's.
pub fn copy_dense(ctx: &KernelCtx<'_>) -> Result<bool> {
    let (from, to) = (ctx.operand(0)?, ctx.operand(1)?);
    if from.dtype != to.dtype || from.shape != to.shape || !is_dense(&from)? || !is_dense(&to)? {
        return Ok(false);
    }
    let bytes = from.numel() * from.dtype.size();
    // SAFETY: the context's maker promises both operands, and their order against all other uses
    // lasts until the stream has run the copy. Operands that are the same memory are left alone;
    // others of equal size without gaps overlap in no program that the builder or the checker takes.
    unsafe { native(ctx)?.copy(to.data, from.data, bytes)? };
    Ok(true)
}

/// Whether the elements lie one behind the other.
fn is_dense(tensor: &RawTensor<'_>) -> Result<bool> {
    let dense = contiguous_strides(tensor.shape)?;
    let same = |(k, &length): (usize, &usize)| length == 1 || tensor.strides[k] == dense[k];
    Ok(tensor.shape.contains(&0) || tensor.shape.iter().enumerate().all(same))
}
