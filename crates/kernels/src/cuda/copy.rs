//! Copies and casts: by the device's copy engines if tensors are dense, else by a kernel.

use anyhow::Result;

use millstream_ep::cuda::NativeStream;
use millstream_types::DType;
use millstream_types::layout::contiguous_strides;

use super::overlap::OverlapCopies;
use super::source::{Elementwise, computed};
use super::{Unsupported, create, elementwise, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::elementwise::Input;
use crate::cpu::memory::{bits, is_same};
use crate::data_movement::CopyPrimitives;

/// The primitives of [`data_movement`](crate::data_movement) on this kind of device.
pub(super) const COPY_PRIMITIVES: CopyPrimitives =
    CopyPrimitives { copy: convert, fill: create::fill };

pub(super) const KERNELS: &[super::Kernel] = &[
    ("copy", copy),
    ("clone", copy),
    ("cast", copy),
    ("copy_", copy_in_place),
    ("reshape", reshape),
];

/// `copy` and `clone` between any two memories that the device can access, and `cast`.
fn copy(ctx: &KernelCtx<'_>) -> Result<()> {
    if copy_dense(ctx)? {
        return Ok(());
    }
    convert(ctx, ctx.operand(0)?, ctx.operand(1)?)
}

/// `copy_(x, src)`.
fn copy_in_place(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, src) = (ctx.operand(0)?, ctx.operand(1)?);
    if is_same(&x, &src) {
        return Ok(());
    }
    convert(ctx, src, x)
}

/// `reshape(x; shape)`: copies the elements in row-major order to the dense result.
fn reshape(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    if !is_dense(&out)? {
        return Err(Unsupported::of("reshape to a result that is not dense"));
    }
    let strides = contiguous_strides(x.shape)?;
    convert(ctx, x, RawTensor { shape: x.shape, strides: &strides, ..out })
}

/// Broadcasts `from` to `to` and converts its elements. Copies bits if both have the same dtype.
///
/// # Errors
/// [`Unsupported`], or an error of the compiler or the driver.
pub(super) fn convert(ctx: &KernelCtx<'_>, from: RawTensor<'_>, to: RawTensor<'_>) -> Result<()> {
    // The address of a tensor without elements is one of no memory.
    if to.numel() == 0 {
        return Ok(());
    }
    let native = native(ctx)?;
    if !native.can_access(from.data)? || !native.can_access(to.data)? {
        return Err(Unsupported::of(
            "a tensor that is not dense, in memory that kernels of the device cannot access",
        ));
    }
    let overlap = OverlapCopies::new(native, to);
    // SAFETY: `KernelCtx::new` promises valid operands.
    unsafe { strided(native, overlap.resolve(from)?, to) }
}

/// Converts as [`convert`] does, in memory that the device can access.
///
/// # Errors
/// As for [`convert`].
///
/// # Safety
/// The elements of both are valid until the copy has run, which is ordered against all other uses
/// of them. No two indices of `to` address the same element, and `to` shares no memory with `from`.
pub(super) unsafe fn strided(
    native: &NativeStream,
    from: RawTensor<'_>,
    to: RawTensor<'_>,
) -> Result<()> {
    let (from, to) = match from.dtype == to.dtype {
        true => (bits(&from), bits(&to)),
        false => (from, to),
    };
    let kernel = cast_kernel(from.dtype, to.dtype)?;
    // SAFETY: the caller's promise.
    unsafe { elementwise::run_on(native, kernel, &[Input::Tensor(from)], to, &[]) }
}

/// Returns the kernel of a cast, without the dtypes of its inputs.
///
/// # Errors
/// None: the op is in the table.
pub(super) fn cast_kernel(from: DType, to: DType) -> Result<Elementwise<'static>> {
    elementwise::plain("cast", from, to, computed(from))
}

/// Copies the call's first operand to its second if both are dense, row-major, and of one dtype.
/// Returns whether it did.
///
/// # Errors
/// An error of the driver.
pub fn copy_dense(ctx: &KernelCtx<'_>) -> Result<bool> {
    let (from, to) = (ctx.operand(0)?, ctx.operand(1)?);
    if from.dtype != to.dtype || from.shape != to.shape || !is_dense(&from)? || !is_dense(&to)? {
        return Ok(false);
    }
    let bytes = from.numel() * from.dtype.size();
    // SAFETY: `KernelCtx::new` promises that both operands are valid, and ordered against all other
    // uses until the stream has run the copy. The second one is the call's output. It is disjoint
    // from the first, or the same elements, which the copy does not change.
    unsafe { native(ctx)?.copy(to.data, from.data, bytes)? };
    Ok(true)
}

/// Returns whether the elements are contiguous and row-major.
pub(super) fn is_dense(tensor: &RawTensor<'_>) -> Result<bool> {
    let dense = contiguous_strides(tensor.shape)?;
    let same = |(k, &length): (usize, &usize)| length == 1 || tensor.strides[k] == dense[k];
    Ok(tensor.shape.contains(&0) || tensor.shape.iter().enumerate().all(same))
}

/// Returns sources of casts from every dtype that is not complex.
pub(super) fn sources() -> Vec<(String, std::ffi::CString)> {
    let mut all = Vec::new();
    let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|d| !d.is_complex()).collect();
    for (k, &from) in dtypes.iter().enumerate() {
        // To itself and to two others: all pairs would be a hundred sources of the same parts.
        for by in [0, 1, 4] {
            let to = dtypes[(k + by) % dtypes.len()];
            let Ok(kernel) = cast_kernel(from, to) else { continue };
            let kernel = Elementwise { inputs: vec![Some(from)], ..kernel };
            if let Ok(source) = kernel.source() {
                all.push((kernel.name(), source));
            }
        }
    }
    all
}
