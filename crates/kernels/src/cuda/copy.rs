//! Copies and casts: by the device's copy engines where tensors lie without gaps, else by a kernel.

use std::sync::Arc;

use anyhow::Result;

use millstream_ep::cuda::Native;
use millstream_types::DType;
use millstream_types::layout::contiguous_strides;

use super::apart::Apart;
use super::source::{Elementwise, computed};
use super::{KIND, Unsupported, elementwise, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::elementwise::Input;
use crate::cpu::memory::{bits, is_same};
use crate::registry::KernelRegistry;

/// Adds the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for op in ["copy", "clone", "cast"] {
        kernels.register(KIND, op, Arc::new(copy));
    }
    kernels.register(KIND, "copy_", Arc::new(copy_in_place));
    kernels.register(KIND, "reshape", Arc::new(reshape));
}

/// `copy` and `clone`, between any two memories that the device reaches, and `cast`.
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

/// `reshape(x; shape)`: the same elements in row-major order, in which the result lies.
fn reshape(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    if !is_dense(&out)? {
        return Err(Unsupported::of("a result of reshape with gaps"));
    }
    let strides = contiguous_strides(x.shape)?;
    convert(ctx, x, RawTensor { shape: x.shape, strides: &strides, ..out })
}

/// Converts every element of `from`, broadcast, into `to`; elements of one dtype are copied bit for bit.
///
/// # Errors
/// [`Unsupported`], the compiler's, or the driver's.
pub(super) fn convert(ctx: &KernelCtx<'_>, from: RawTensor<'_>, to: RawTensor<'_>) -> Result<()> {
    let native = native(ctx)?;
    if !native.can_access(from.data)? || !native.can_access(to.data)? {
        return Err(Unsupported::of(
            "a tensor with gaps in memory that kernels of the device do not reach",
        ));
    }
    let apart = Apart::from(native, to);
    // SAFETY: the context's maker answers for the operands.
    unsafe { strided(native, apart.of(from)?, to) }
}

/// As [`convert`], of memory that the device reaches.
///
/// # Errors
/// As for [`convert`].
///
/// # Safety
/// The elements of both are valid until the copy has run, which is ordered against all other uses of
/// them. `to` names no element twice and shares no memory with `from`.
pub(super) unsafe fn strided(
    native: &Native,
    from: RawTensor<'_>,
    to: RawTensor<'_>,
) -> Result<()> {
    let (from, to) = match from.dtype == to.dtype {
        true => (bits(&from), bits(&to)),
        false => (from, to),
    };
    let function = elementwise::function("cast")?;
    let kernel = Elementwise {
        op: "cast",
        variant: "",
        inputs: Vec::new(),
        common: from.dtype,
        rounded: false,
        out: to.dtype,
        computed: computed(from.dtype),
        function: function.texts[0].1,
        wide: false,
    };
    // SAFETY: the caller's promise.
    unsafe { elementwise::run_on(native, kernel, &[Input::Tensor(from)], to, &[]) }
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
pub(super) fn is_dense(tensor: &RawTensor<'_>) -> Result<bool> {
    let dense = contiguous_strides(tensor.shape)?;
    let same = |(k, &length): (usize, &usize)| length == 1 || tensor.strides[k] == dense[k];
    Ok(tensor.shape.contains(&0) || tensor.shape.iter().enumerate().all(same))
}

/// Every dtype from and to the others.
pub(super) fn sources() -> Vec<(String, std::ffi::CString)> {
    let mut all = Vec::new();
    let Ok(function) = elementwise::function("cast") else { return all };
    for (k, from) in DType::ALL.into_iter().enumerate() {
        // Each as it is, and two others: all pairs would be a hundred of the same parts.
        for by in [0, 1, 4] {
            let to = DType::ALL[(k + by) % DType::ALL.len()];
            let kernel = Elementwise {
                op: "cast",
                variant: "",
                inputs: vec![Some(from)],
                common: from,
                rounded: false,
                out: to,
                computed: computed(from),
                function: function.texts[0].1,
                wide: false,
            };
            if let Ok(source) = kernel.source() {
                all.push((kernel.name(), source));
            }
        }
    }
    all
}
