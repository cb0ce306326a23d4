//! Copies of tensors: by the device's copy engines where they lie without gaps, else by a kernel.

use std::ffi::CString;

use anyhow::Result;

use millstream_types::layout::contiguous_strides;

use super::call::Call;
use super::{Unsupported, launch, native, source};
use crate::context::{KernelCtx, RawTensor};

/// The sizes of elements in bytes.
const SIZES: [usize; 4] = [1, 2, 4, 8];

/// `copy` and `clone`, between any two memories that the device reaches, and `cast` to the dtype
/// that is there already.
pub(super) fn copy(ctx: &KernelCtx<'_>) -> Result<()> {
    if copy_dense(ctx)? {
        return Ok(());
    }
    let (from, to) = (ctx.operand(0)?, ctx.operand(1)?);
    if from.dtype != to.dtype {
        return Err(Unsupported::of("a cast"));
    }
    let native = native(ctx)?;
    if !native.reaches(from.data)? || !native.reaches(to.data)? {
        return Err(Unsupported::of("a tensor with gaps in host memory that is not pinned"));
    }
    let bytes = from.dtype.size();
    let call = Call::new(&[from, to], &[])?;
    // SAFETY: the kernel touches the elements of the operands alone, for which the context's maker
    // answers. The second is the call's output, which names no element twice.
    unsafe { launch::launch(native, &name(bytes), || source::copy(&name(bytes), bytes), call) }
}

fn name(bytes: usize) -> String {
    format!("ms_copy__{bytes}")
}

/// Every source there is, by name.
pub(super) fn sources() -> Vec<(String, CString)> {
    let of = |bytes| Some((name(bytes), source::copy(&name(bytes), bytes).ok()?));
    SIZES.into_iter().filter_map(of).collect()
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
    // lasts until the stream has run the copy. The second is the call's output and not the first,
    // or both are the same elements, which are then left alone.
    unsafe { native(ctx)?.copy(to.data, from.data, bytes)? };
    Ok(true)
}

/// Whether the elements lie one behind the other.
fn is_dense(tensor: &RawTensor<'_>) -> Result<bool> {
    let dense = contiguous_strides(tensor.shape)?;
    let same = |(k, &length): (usize, &usize)| length == 1 || tensor.strides[k] == dense[k];
    Ok(tensor.shape.contains(&0) || tensor.shape.iter().enumerate().all(same))
}
