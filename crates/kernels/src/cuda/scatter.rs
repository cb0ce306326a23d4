//! Writes by index: `scatter`, `scatter_add`, `index_add`, `index_put`, and
//! `embedding_dense_backward`.
//!
//! If several indices address one element, their values are applied in the order of the host's
//! kernels, without atomics: one thread writes each element. So results are the same in every run,
//! and equal to the host's.

use std::ffi::CString;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use millstream_ops::args::Scalar;
use millstream_types::{DType, Dims};

use super::copy::COPY_PRIMITIVES;
use super::create::fill;
use super::gather::{
    Index, check_indices, index_along, index_info, index_of_rows, out_of_range, plan_indices,
    strides_beside,
};
use super::native;
use super::overlap::OverlapCopies;
use super::scatter_reduce::with_wide_sums;
use super::strided::{FailureFlag, StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::element::{Carrier, Element, dispatch, from_scalar};
use crate::cpu::index::{has_wide_sums, is_scatter_add};
use crate::cpu::memory::at_least_1d;
use crate::cpu::unsigned::scalar_for;
use crate::data_movement::{changed, required_dim};

pub(super) const KERNELS: &[super::Kernel] = &[
    ("scatter", |ctx| scatter(ctx, false, Combine::Set)),
    ("scatter_", |ctx| scatter(ctx, true, Combine::Set)),
    ("scatter_add", |ctx| scatter(ctx, false, Combine::Add(Scalar::Int(1)))),
    ("scatter_add_", |ctx| scatter(ctx, true, Combine::Add(Scalar::Int(1)))),
    ("scatter_reduce", super::scatter_reduce::scatter_reduce),
    ("index_add", |ctx| index_add(ctx, false)),
    ("index_add_", |ctx| index_add(ctx, true)),
    ("embedding_dense_backward", embedding_backward),
];

macro_rules! scatter_kernel {
    ($name:literal, $($combine:literal)*) => {
        KernelTemplate {
            name: $name,
            body: concat!("#define COMBINE ", $($combine,)* "\n", include_str!("scatter.cu")),
        }
    };
}

const SET: KernelTemplate = scatter_kernel!("scatter", "DATA(E, 0)[to] = DATA(const E, 1)[from]");
const SET_SCALAR: KernelTemplate =
    scatter_kernel!("scatter_scalar", "(void)from; DATA(E, 0)[to] = (E)(u64)args.integers[4]");
const ADD: KernelTemplate = scatter_kernel!(
    "scatter_add",
    "store(DATA(E, 0) + to, (T)scaled_sum( \\\n\
     args, (T)load(DATA(const E, 0) + to), (T)load(DATA(const E, 1) + from)))"
);
macro_rules! reduce_kernel {
    ($name:literal, $function:literal) => {
        scatter_kernel!(
            $name,
            "store(DATA(E, 0) + to, (T)" $function "( \\\n\
             (T)load(DATA(const E, 0) + to), (T)load(DATA(const E, 1) + from)))"
        )
    };
}

const PRODUCT: KernelTemplate = reduce_kernel!("scatter_prod", "product");
const GREATEST: KernelTemplate = reduce_kernel!("scatter_amax", "greatest");
const LEAST: KernelTemplate = reduce_kernel!("scatter_amin", "least");
const EMBEDDING_BACKWARD: KernelTemplate = template!("embedding_backward");

pub(super) fn sources() -> Vec<(String, CString)> {
    let typed = [ADD, PRODUCT, GREATEST, LEAST];
    let typed = typed.iter().flat_map(|template| template.typed_sources(super::SAMPLE_DTYPES));
    [
        SET.sized_sources(),
        SET_SCALAR.sized_sources(),
        typed.collect(),
        EMBEDDING_BACKWARD.typed_sources(super::SAMPLE_FLOATS),
    ]
    .concat()
}

/// The maximal number of threads of a line. Each of them reads all indices of the line.
const MAX_THREADS_PER_LINE: usize = 32;
/// The number of threads of all lines together beyond which more do not help.
const ENOUGH_THREADS: usize = 4096;

/// The operation on an element and a value.
#[derive(Clone, Copy)]
pub(super) enum Combine {
    /// Replace the element by the value.
    Set,
    /// Add the value times this factor.
    Add(Scalar),
    /// Replace the element by its product with the value.
    Multiply,
    /// Replace the element by the greater of both; NaN if either is NaN.
    Greatest,
    /// Replace the element by the lesser of both; NaN if either is NaN.
    Least,
}

/// The values: a tensor in the iteration space, or the bits of one value.
pub(super) enum Values<'a> {
    Tensor(StridedOperand<'a>),
    Scalar(u64),
}

/// A scatter over the iteration space `shape`. `strides` are the strides of x, 0 along indexed
/// dimensions; the indices vary along the dimensions `indexed`. Indices and values share no memory
/// with x.
pub(super) struct Scatter<'a> {
    pub(super) x: RawTensor<'a>,
    pub(super) shape: Dims,
    pub(super) strides: Dims,
    pub(super) indexed: Range<usize>,
    pub(super) indices: Vec<Index<'a>>,
    pub(super) allow_negative: bool,
}

impl<'a> Scatter<'a> {
    /// Applies the values to the elements of x.
    pub(super) fn run(
        self,
        ctx: &KernelCtx<'_>,
        values: Values<'a>,
        combine: Combine,
    ) -> Result<()> {
        let Scatter { x, shape, strides, indexed, indices, allow_negative } = self;
        let length: usize = shape[indexed.clone()].iter().product();
        let order: Dims =
            (0..indexed.start).chain(indexed.end..shape.len()).chain(indexed.clone()).collect();
        let split = order.len() - indexed.len();
        let lines: usize = order[..split].iter().map(|&k| shape[k]).product();
        if lines * length == 0 {
            return check_indices(ctx, x, indices, &shape, allow_negative);
        }
        let native = native(ctx)?;
        let failure = FailureFlag::new(native, out_of_range(&x, &indices, allow_negative))?;
        let targets = indices.iter().fold(1usize, |n, i| n.saturating_mul(x.shape[i.dim]));
        let threads = (ENOUGH_THREADS / lines).clamp(1, MAX_THREADS_PER_LINE).min(targets.max(1));
        let value = match (&values, combine) {
            (Values::Scalar(bits), _) => *bits as i64,
            (_, Combine::Add(alpha)) if !x.dtype.is_float() => integer_factor(alpha, x.dtype),
            _ => 0,
        };
        let integers =
            [indices.len(), usize::from(allow_negative), threads, length].map(|v| v as i64);
        let integers = integers.into_iter().chain([value]).chain(index_info(&x, &indices));
        let integers: Vec<i64> = integers.collect();
        let rank = shape.len();
        let (is_tensor, value_operand) = match values {
            Values::Tensor(values) => (true, values),
            Values::Scalar(_) => (false, StridedOperand::fixed(x, rank)),
        };
        let mut operands =
            vec![StridedOperand::with_strides(x, strides), value_operand, failure.operand(rank)];
        operands.extend(indices.into_iter().map(|index| index.operand));
        let operands: Vec<StridedOperand<'_>> =
            operands.into_iter().map(|operand| operand.permuted(&order)).collect();
        let shape: Dims = order.iter().map(|&k| shape[k]).collect();
        let mut args = StridedArgs::new(&shape, split, &operands)?.integers(&integers)?;
        args.count = (lines * threads) as u64;
        // SAFETY: the kernel writes elements of x where indices are in range. No two positions of x
        // address the same element, and one thread writes each. It reads the other operands, which
        // share no memory with x.
        unsafe {
            match (combine, is_tensor) {
                (Combine::Set, true) => SET.launch_sized(native, x.dtype, args),
                (Combine::Set, false) => SET_SCALAR.launch_sized(native, x.dtype, args),
                (Combine::Add(alpha), _) => {
                    let alpha = from_scalar::<f64>(alpha);
                    ADD.launch_typed(native, x.dtype, args.scalars(&[alpha]))
                }
                (Combine::Multiply, _) => PRODUCT.launch_typed(native, x.dtype, args),
                (Combine::Greatest, _) => GREATEST.launch_typed(native, x.dtype, args),
                (Combine::Least, _) => LEAST.launch_typed(native, x.dtype, args),
            }
        }
    }
}

/// Converts a factor to a dtype, as an integer.
fn integer_factor(factor: Scalar, dtype: DType) -> i64 {
    dispatch!(dtype, T => from_scalar::<T>(factor).carry().convert::<i64>())
}

/// `scatter(x, index, src; dim)`, `scatter_add`, and both in place.
fn scatter(ctx: &KernelCtx<'_>, in_place: bool, combine: Combine) -> Result<()> {
    let (x, count) = changed(ctx, in_place, &COPY_PRIMITIVES)?;
    if ctx.operand(1)?.numel() == 0 {
        return Ok(());
    }
    let index = ctx.operand(1)?;
    if matches!(combine, Combine::Add(_)) && has_wide_sums(x.dtype) {
        return with_wide_sums(ctx, x, ctx.operand(2)?, |sums, src| {
            scatter_into(ctx, sums, index, Source::Tensor(src), combine)
        });
    }
    let source = match count {
        3 => Source::Tensor(ctx.operand(2)?),
        _ => {
            let value = Scalar::of(ctx.attrs(), "value")?;
            let value = value.context("neither src nor value is given")?;
            Source::Bits(
                dispatch!(x.dtype, T => from_scalar::<T>(scalar_for(value, x.dtype)).to_word()),
            )
        }
    };
    scatter_into(ctx, x, index, source, combine)
}

/// The values of a scatter: a tensor, or the bits of one value.
pub(super) enum Source<'a> {
    Tensor(RawTensor<'a>),
    Bits(u64),
}

/// Combines the elements of `x` at the index with the values.
pub(super) fn scatter_into(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    index: RawTensor<'_>,
    source: Source<'_>,
    combine: Combine,
) -> Result<()> {
    let overlap = OverlapCopies::new(native(ctx)?, x);
    // SAFETY: `KernelCtx::new` promises valid operands, here and below.
    let index = unsafe { overlap.resolve(index)? };
    let (x, index) = (at_least_1d(&x), at_least_1d(&index));
    let rank = x.shape.len();
    ensure!(index.shape.len() == rank, "{index:?} into {x:?}: schema and kernel disagree");
    let dim = required_dim(ctx, rank)?;
    let values = match source {
        Source::Tensor(src) => {
            // SAFETY: as above.
            let src = at_least_1d(&unsafe { overlap.resolve(src)? });
            ensure!(src.dtype == x.dtype, "{src:?} into {x:?}: schema and kernel disagree");
            Values::Tensor(StridedOperand::new(src))
        }
        Source::Bits(bits) => Values::Scalar(bits),
    };
    let scatter = Scatter {
        shape: Dims::from_slice(index.shape),
        strides: strides_beside(&x, dim),
        indexed: dim..dim + 1,
        indices: vec![Index { dim, dtype: index.dtype, operand: StridedOperand::new(index) }],
        allow_negative: false,
        x,
    };
    scatter.run(ctx, values, combine)
}

/// `index_add(x, index, source; dim, alpha)`, and in place.
fn index_add(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (x, _) = changed(ctx, in_place, &COPY_PRIMITIVES)?;
    let (index, source) = (ctx.operand(1)?, ctx.operand(2)?);
    if has_wide_sums(x.dtype) && is_scatter_add(ctx, &x)? && source.numel() > 0 {
        return with_wide_sums(ctx, x, source, |sums, source| {
            index_add_into(ctx, sums, index, source)
        });
    }
    index_add_into(ctx, x, index, source)
}

/// Adds alpha · source to the indexed slices of `x`.
fn index_add_into(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    index: RawTensor<'_>,
    source: RawTensor<'_>,
) -> Result<()> {
    let overlap = OverlapCopies::new(native(ctx)?, x);
    // SAFETY: `KernelCtx::new` promises valid operands.
    let (index, source) = unsafe { (overlap.resolve(index)?, overlap.resolve(source)?) };
    let (x, source) = (at_least_1d(&x), at_least_1d(&source));
    let agree = x.dtype == source.dtype && x.shape.len() == source.shape.len();
    ensure!(agree, "{source:?} to {x:?}: schema and kernel disagree");
    let dim = required_dim(ctx, x.shape.len())?;
    let scatter = Scatter {
        shape: Dims::from_slice(source.shape),
        strides: strides_beside(&x, dim),
        indexed: dim..dim + 1,
        indices: vec![index_along(x.shape.len(), dim, index)],
        allow_negative: false,
        x,
    };
    let alpha = Scalar::of(ctx.attrs(), "alpha")?.unwrap_or(Scalar::Int(1));
    scatter.run(ctx, Values::Tensor(StridedOperand::new(source)), Combine::Add(alpha))
}

/// `index_put(x, values, indices...; absent, accumulate)` for integer indices. `x` is the written
/// tensor; the indices are the operands from the third one to before `end`.
pub(super) fn index_put(ctx: &KernelCtx<'_>, op: &str, x: RawTensor<'_>, end: usize) -> Result<()> {
    let overlap = OverlapCopies::new(native(ctx)?, x);
    // SAFETY: `KernelCtx::new` promises valid operands.
    let resolve = |k| unsafe { overlap.resolve(ctx.operand(k)?) };
    let values = resolve(1)?;
    ensure!(x.dtype == values.dtype, "{values:?} into {x:?}: schema and kernel disagree");
    let indices = (2..end).map(resolve).collect::<Result<Vec<_>>>()?;
    let planned = plan_indices(ctx, op, &x, indices)?;
    let step = StridedOperand::broadcast(values, &planned.shape);
    let combine = match ctx.attrs().bool("accumulate")?.unwrap_or(false) {
        true => Combine::Add(Scalar::Int(1)),
        false => Combine::Set,
    };
    let scatter = Scatter {
        x,
        shape: planned.shape,
        strides: planned.strides,
        indexed: planned.indexed,
        indices: planned.indices,
        allow_negative: true,
    };
    scatter.run(ctx, Values::Tensor(step), combine)
}

/// `embedding_dense_backward(grad, indices; num_weights, padding_idx, scale_grad_by_freq)`.
fn embedding_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, indices, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let &[rows, columns] = out.shape else {
        anyhow::bail!("{out:?}: schema and kernel disagree");
    };
    let (rank, lookups) = (indices.shape.len(), indices.numel());
    let agree = grad.shape.len() == rank + 1 && grad.shape[..rank] == *indices.shape;
    ensure!(agree, "{grad:?}: schema and kernel disagree");
    fill(ctx, out, Scalar::Int(0))?;
    if lookups * columns == 0 {
        let shape: Dims = indices.shape.iter().copied().chain([columns]).collect();
        let index = index_of_rows(indices);
        return check_indices(ctx, out, vec![index], &shape, false);
    }
    let native = native(ctx)?;
    let error =
        anyhow::anyhow!("indices: an index is out of range: expected 0 to {}", rows as i64 - 1);
    let failure = FailureFlag::new(native, error)?;
    let padding = ctx.attrs().int("padding_idx")?.unwrap_or(-1);
    let scale = ctx.attrs().bool("scale_grad_by_freq")?.unwrap_or(false);
    let [row_stride, column_stride] = [out.strides[0], out.strides[1]].map(|stride| stride as i64);
    let bytes = indices.dtype.size() as i64;
    let integers = [
        lookups as i64,
        columns as i64,
        bytes,
        rows as i64,
        row_stride,
        column_stride,
        padding,
        i64::from(scale),
    ];
    let operands = [
        StridedOperand::new(grad),
        StridedOperand::fixed(out, rank + 1),
        failure.operand(rank + 1),
        StridedOperand::with_strides(indices, indices.strides.iter().copied().chain([0])),
    ];
    let args = StridedArgs::new(grad.shape, rank, &operands)?.integers(&integers)?;
    // SAFETY: the kernel writes elements of the call's output, each by one thread, and reads the
    // other operands.
    unsafe { EMBEDDING_BACKWARD.launch_typed(native, grad.dtype, args) }
}
