//! Kernels of `copy`, `clone`, `cast`, `copy_`, `fill`, and of a `reshape` that is not a view.

use std::mem::MaybeUninit;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use millstream_ops::args::Scalar;
use millstream_types::{Attrs, DType, Dims};

use super::call_layouts::{CallLayouts, unlocated};
use super::element::{Element, dispatch, from_scalar};
use super::indexed::in_chunks;
use super::loops::LoopPlan;
use super::memory::{Extent, Temporary, byte_count, is_same, may_overlap, overlaps_itself};
use super::strided::{Address, BLOCK, CHUNK, Sequence, StridedRow};
use super::transpose::TiledCopy;
use super::traversal::Order;
use super::unsigned::scalar_for;
use super::{KIND, Kernel};
use crate::context::{KernelCtx, RawTensor, Threads};
use crate::prepared::{KernelSpec, PreparedKernel};
use crate::registry::{self, KernelRegistry};

pub(crate) const KERNELS: &[Kernel] = &[("reshape", reshape)];

/// Registers the kernels that have a prepared form.
pub(crate) fn register(kernels: &mut KernelRegistry) {
    for op in ["copy", "clone", "cast"] {
        kernels.register(KIND, op, Arc::new(Copying { from: 0, to: 1 }));
    }
    kernels.register(KIND, "copy_", Arc::new(Copying { from: 1, to: 0 }));
    for op in ["fill", "full"] {
        kernels.register(KIND, op, Arc::new(Filling));
    }
}

/// A copy between operands with known layouts. Elements of equal dtypes are copied bit for bit.
struct CopyPlan {
    both: LoopPlan<2>,
    /// The dtype of the buffer of a row.
    dtype: DType,
    /// Boxed, because few copies have one.
    tiled: Option<Box<TiledCopy>>,
}

impl CopyPlan {
    /// # Errors
    /// Fails if `from` does not broadcast to `to`.
    fn new(from: &RawTensor<'_>, to: &RawTensor<'_>) -> Result<CopyPlan> {
        let both = LoopPlan::new(to.shape, &[*from, *to], Order::Any)?;
        let tiled = match from.dtype == to.dtype {
            true => TiledCopy::new(both.traversal(), to.dtype.size()).map(Box::new),
            false => None,
        };
        Ok(CopyPlan { both, dtype: buffer_dtype(from.dtype, to.dtype), tiled })
    }

    /// # Safety
    /// As for [`convert`], of operands at these addresses.
    unsafe fn run(&self, from: *mut u8, to: *mut u8, threads: Option<&Threads>) {
        let data = [Address(from), Address(to)];
        if let Some(tiled) = &self.tiled {
            // SAFETY: guaranteed by the caller; operands of different steps are not the same.
            return unsafe { tiled.run(self.dtype, data, threads) };
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            dispatch!(self.dtype, T => {
                let buffer = |_| MaybeUninit::<[T; CHUNK]>::uninit();
                self.both.for_each_at(data, threads, BLOCK, buffer, |buffer, [from, to]| {
                    copy_row::<T>(from, to, buffer);
                });
            });
        }
    }
}

/// Returns the dtype in which [`copy_row`] holds elements between two rows: that of the result, or
/// where a float is converted to u16, u32 or u64, which only stores know, that of the float.
fn buffer_dtype(from: DType, to: DType) -> DType {
    if to.is_wide_unsigned() && from.is_inexact() { from } else { to }
}

/// Copies a row to another through elements of the type `T`.
///
/// # Safety
/// The rows are of equal length, and the same elements or apart.
unsafe fn copy_row<T: Element>(
    from: &StridedRow,
    to: &StridedRow,
    buffer: &mut MaybeUninit<[T; CHUNK]>,
) {
    let count = to.len();
    // SAFETY: dense rows have `count` elements in memory; the buffer has room for `CHUNK`, and
    // those that are stored were loaded.
    unsafe {
        if let Some(to) = to.dense::<T>() {
            return from.load_to(0, to, count);
        }
        if let Some(from) = from.dense::<T>() {
            return to.store_from(0, from, count);
        }
        let buffer = buffer.as_mut_ptr().cast::<T>();
        for at in (0..count).step_by(CHUNK) {
            let n = CHUNK.min(count - at);
            from.load_to(at, buffer, n);
            to.store_from(at, buffer, n);
        }
    }
}

/// Converts the elements of one row to another. Elements of equal dtypes are copied bit for bit.
///
/// # Safety
/// The rows are of equal length, and the same elements or apart.
pub(crate) unsafe fn convert_row(from: &StridedRow, to: &StridedRow) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        dispatch!(buffer_dtype(from.dtype(), to.dtype()), T => {
            copy_row::<T>(from, to, &mut MaybeUninit::uninit());
        });
    }
}

/// Converts every element of `from`, broadcast, into `to`. Elements of equal dtypes are copied bit
/// for bit.
///
/// # Safety
/// Both are operands of the call or memory that it alone uses, valid and aligned. `to` does not
/// overlap itself, and is `from` itself or does not overlap `from`.
pub(crate) unsafe fn convert(
    ctx: &KernelCtx<'_>,
    from: RawTensor<'_>,
    to: RawTensor<'_>,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { CopyPlan::new(&from, &to)?.run(from.data, to.data, ctx.threads()) };
    Ok(())
}

/// The kernel of `copy(x)`, `clone(x)`, `cast(x; dtype)` and `copy_(x, src)`: the dtype of the
/// written operand decides the conversion, and src is read in full before x is written.
#[derive(Clone, Copy)]
struct Copying {
    /// The positions of the operands.
    from: usize,
    to: usize,
}

impl registry::Kernel for Copying {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let (from, to) = (ctx.operand(self.from)?, ctx.operand(self.to)?);
        if is_same(&to, &from) {
            return Ok(());
        }
        let mut copy = copy_if_overlapping(ctx, &to, &from)?;
        let from = copy.as_mut().map_or(from, Temporary::tensor);
        // SAFETY: the written operand does not overlap itself, as the schema checks; the other does
        // not overlap it, or is memory that the copy owns.
        unsafe { convert(ctx, from, to) }
    }

    fn prepare(&self, call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        let (from, to) = (call.operands.get(self.from)?, call.operands.get(self.to)?);
        let (from, to) = (unlocated(from), unlocated(to));
        let plan = CopyPlan::new(&from, &to).ok()?;
        let (extent, bytes) = (Extent::of(&from, &to), byte_count(&to));
        Some(Arc::new(PreparedCopy {
            kernel: *self,
            plan,
            extent,
            bytes,
            call: CallLayouts::of(call),
        }))
    }
}

struct PreparedCopy {
    kernel: Copying,
    plan: CopyPlan,
    /// The extent of the read operand, and the bytes of the written one.
    extent: Extent,
    bytes: usize,
    call: CallLayouts,
}

impl PreparedKernel for PreparedCopy {
    unsafe fn run(&self, operands: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        self.call.check(operands)?;
        let (from, to) = (operands[self.kernel.from], operands[self.kernel.to]);
        // SAFETY: guaranteed by the caller; the operands are the same or apart in the first case.
        unsafe {
            if self.extent.clashes(from, to, self.bytes) {
                return self.call.run(&self.kernel, operands, threads);
            }
            self.plan.run(from, to, threads);
        }
        Ok(())
    }
}

/// `reshape(x; shape)`: the same elements in row-major order.
fn reshape(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let count = out.numel();
    let agree = x.numel() == count && x.dtype == out.dtype;
    ensure!(agree, "{x:?} to {out:?}: schema and kernel disagree");
    // SAFETY: operands of the call; the second is its output, and blocks of it are disjoint.
    let (x, out_elements) = unsafe { (Sequence::new(x), Sequence::new(out)) };
    dispatch!(out.dtype, T => {
        in_chunks(ctx, count, || [<T as Element>::ZERO; CHUNK], |buffer, at, part| {
            x.load(at, &mut buffer[..part]);
            out_elements.store(at, &buffer[..part]);
        });
    });
    Ok(())
}

/// Returns a copy of `source` if it overlaps `target`, which the caller writes while it reads
/// `source`.
pub(crate) fn copy_if_overlapping(
    ctx: &KernelCtx<'_>,
    target: &RawTensor<'_>,
    source: &RawTensor<'_>,
) -> Result<Option<Temporary>> {
    if !may_overlap(target, source) {
        return Ok(None);
    }
    let mut copy = Temporary::new(source.dtype, source.shape)?;
    // SAFETY: an operand of the call, only read here, and memory that the copy owns.
    unsafe { convert(ctx, *source, copy.tensor()) }?;
    Ok(Some(copy))
}

/// The kernel of `fill(x; value)`, and of `full`, whose only operand is its output.
#[derive(Clone, Copy)]
struct Filling;

fn fill_value(attrs: &Attrs) -> Result<Scalar> {
    Scalar::of(attrs, "value")?.context("value: missing; this argument is required")
}

impl registry::Kernel for Filling {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        // SAFETY: the only operand of the call.
        unsafe { set(ctx, ctx.operand(0)?, fill_value(ctx.attrs())?) }
    }

    fn prepare(&self, call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        let [x] = call.operands else { return None };
        let plan = FillPlan::new(&unlocated(x), fill_value(call.attrs).ok()?).ok()?;
        Some(Arc::new(plan))
    }
}

/// A fill of an operand with a known layout.
struct FillPlan {
    all: LoopPlan<1>,
    block: usize,
    dtype: DType,
    value: Scalar,
}

impl FillPlan {
    fn new(x: &RawTensor<'_>, value: Scalar) -> Result<FillPlan> {
        // Several indices may name one element of x; all of them store the same value. Dimensions
        // of stride 0 are reduced to one element, so that no two threads write it.
        let lengths = x.shape.iter().zip(x.strides);
        let shape: Dims = lengths.map(|(&d, &s)| if s == 0 { d.min(1) } else { d }).collect();
        let x = RawTensor { shape: &shape, ..*x };
        // Where x overlaps itself it is filled on one thread.
        let block = if overlaps_itself(&x) { usize::MAX } else { BLOCK };
        let all = LoopPlan::new(&shape, &[x], Order::Any)?;
        Ok(FillPlan { all, block, dtype: x.dtype, value: scalar_for(value, x.dtype) })
    }
}

impl PreparedKernel for FillPlan {
    unsafe fn run(&self, operands: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        let &[x] = operands else { bail!("expected one operand, got {}", operands.len()) };
        // SAFETY: guaranteed by the caller; threads write disjoint elements.
        unsafe {
            dispatch!(self.dtype, T => {
                let value = from_scalar::<T>(self.value);
                self.all.for_each_at([Address(x)], threads, self.block, |_| (), |(), [x]| {
                    x.fill(value);
                });
            });
        }
        Ok(())
    }
}

/// Sets every element of `x` to a value.
///
/// # Safety
/// `x` is an operand of the call or memory that it alone uses, valid and aligned.
pub(crate) unsafe fn set(ctx: &KernelCtx<'_>, x: RawTensor<'_>, value: Scalar) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { FillPlan::new(&x, value)?.run(&[x.data], ctx.threads()) }
}
