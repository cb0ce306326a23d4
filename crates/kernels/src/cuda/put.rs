//! Values put at indices, or added there: `scatter`, `scatter_add`, `index_add`, `index_put`, and
//! `embedding_dense_backward`.
//!
//! Where indices name an element more than once, the order of the host's is kept, without atomics:
//! one thread sees to an element. So results are the same in every run, and the host's.

use std::ffi::CString;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use millstream_ops::args::Scalar;
use millstream_types::{DType, Dims};

use super::apart::Apart;
use super::copy::convert;
use super::create::set;
use super::pick::{Index, along, dim, named, outside, raised, told};
use super::walk::{Failed, Step, Text, Walk};
use super::{Unsupported, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::element::{Carrier, Element, dispatch, from_scalar};

pub(super) const KERNELS: &[super::Kernel] = &[
    ("scatter", |ctx| scatter(ctx, false, Join::Set)),
    ("scatter_", |ctx| scatter(ctx, true, Join::Set)),
    ("scatter_add", |ctx| scatter(ctx, false, Join::Add(Scalar::Int(1)))),
    ("scatter_add_", |ctx| scatter(ctx, true, Join::Add(Scalar::Int(1)))),
    ("index_add", |ctx| index_add(ctx, false)),
    ("index_add_", |ctx| index_add(ctx, true)),
    ("embedding_dense_backward", table),
];

macro_rules! put {
    ($name:literal, $join:literal) => {
        Text { name: $name, text: concat!("#define JOIN ", $join, "\n", include_str!("put.cu")) }
    };
}

const SET: Text = put!("put", "DATA(E, 0)[to] = DATA(const E, 1)[from]");
const SET_ONE: Text = put!("put_one", "(void)from; DATA(E, 0)[to] = (E)(u64)walk.integers[4]");
const ADD: Text = put!(
    "put_add",
    "store(DATA(E, 0) + to, (T)joined(walk, (T)load(DATA(const E, 0) + to), (T)load(DATA(const E, 1) + from)))"
);
const TABLE: Text = Text { name: "table", text: include_str!("table.cu") };

pub(super) fn sources() -> Vec<(String, CString)> {
    let added = ADD.typed(super::SOME);
    [SET.sized(), SET_ONE.sized(), added, TABLE.typed(super::SOME_FLOATS)].concat()
}

/// Threads of a line, and of all lines together, beyond which more do not help.
const MOST_OF_LINE: usize = 32;
const ENOUGH: usize = 4096;

/// What becomes of an element and a value.
#[derive(Clone, Copy)]
pub(super) enum Join {
    /// The value.
    Set,
    /// The element and the value times this.
    Add(Scalar),
}

/// Values that move along the dimensions of `shape`, or one value's bits.
pub(super) enum Values<'a> {
    Tensor(Step<'a>),
    One(u64),
}

/// Puts the values at the indices: `strides` are x's along the dimensions of `shape`, zero where it
/// is indexed, which is along the dimensions `indexed`. Indices and values lie apart from x.
pub(super) struct Put<'a> {
    pub(super) x: RawTensor<'a>,
    pub(super) shape: Dims,
    pub(super) strides: Dims,
    pub(super) indexed: Range<usize>,
    pub(super) indices: Vec<Index<'a>>,
    pub(super) from_end: bool,
}

impl<'a> Put<'a> {
    pub(super) fn run(self, ctx: &KernelCtx<'_>, values: Values<'a>, join: Join) -> Result<()> {
        let Put { x, shape, strides, indexed, indices, from_end } = self;
        let length: usize = shape[indexed.clone()].iter().product();
        let order: Dims =
            (0..indexed.start).chain(indexed.end..shape.len()).chain(indexed.clone()).collect();
        let split = order.len() - indexed.len();
        let lines: usize = order[..split].iter().map(|&k| shape[k]).product();
        if lines * length == 0 {
            return match indices.iter().all(|index| index.step.numel() == 0) {
                true => Ok(()),
                false => Err(Unsupported::of("indices of no elements")),
            };
        }
        let native = native(ctx)?;
        let failed = Failed::with(native, outside(&x, &indices, from_end))?;
        let names = indices.iter().fold(1usize, |n, i| n.saturating_mul(x.shape[i.dim]));
        let parts = (ENOUGH / lines).clamp(1, MOST_OF_LINE).min(names.max(1));
        let value = match (&values, join) {
            (Values::One(bits), _) => *bits as i64,
            (_, Join::Add(alpha)) if !x.dtype.is_float() => whole(alpha, x.dtype),
            _ => 0,
        };
        let integers = [indices.len(), usize::from(from_end), parts, length].map(|v| v as i64);
        let integers = integers.into_iter().chain([value]).chain(told(&x, &indices));
        let integers: Vec<i64> = integers.collect();
        let rank = shape.len();
        let (given, step) = match values {
            Values::Tensor(step) => (true, step),
            Values::One(_) => (false, Step::still(x, rank)),
        };
        let mut steps = vec![Step::by(x, strides), step, failed.step(rank)];
        steps.extend(indices.into_iter().map(|index| index.step));
        let steps: Vec<Step<'_>> = steps.into_iter().map(|step| step.in_order(&order)).collect();
        let shape: Dims = order.iter().map(|&k| shape[k]).collect();
        let mut walk = Walk::new(&shape, split, &steps)?.integers(&integers)?;
        walk.count = (lines * parts) as u64;
        // SAFETY: the kernel writes elements of the first operand of the call, which names none
        // twice, where indices are in range, each by one thread; and reads those of the others, which
        // share no memory with it.
        unsafe {
            match (join, given) {
                (Join::Set, true) => SET.of_size(native, x.dtype, walk),
                (Join::Set, false) => SET_ONE.of_size(native, x.dtype, walk),
                (Join::Add(alpha), _) => {
                    let alpha = from_scalar::<f64>(alpha);
                    ADD.of_dtype(native, x.dtype, walk.numbers(&[alpha]))
                }
            }
        }
    }
}

/// A factor as the integers of a dtype take it.
fn whole(factor: Scalar, dtype: DType) -> i64 {
    dispatch!(dtype, T => from_scalar::<T>(factor).carry().convert::<i64>())
}

/// `scatter(x, index, src; dim)`, `scatter_add`, and both in place.
fn scatter(ctx: &KernelCtx<'_>, in_place: bool, join: Join) -> Result<()> {
    let count = ctx.operands() - usize::from(!in_place);
    let x = match in_place {
        true => ctx.operand(0)?,
        false => {
            let out = ctx.operand(count)?;
            convert(ctx, ctx.operand(0)?, out)?;
            out
        }
    };
    if ctx.operand(1)?.numel() == 0 {
        return Ok(());
    }
    let apart = Apart::from(native(ctx)?, x);
    // SAFETY: the context's maker answers for the operands, here and below.
    let index = unsafe { apart.of(ctx.operand(1)?)? };
    let (x, index) = (raised(&x), raised(&index));
    let rank = x.shape.len();
    ensure!(index.shape.len() == rank, "{index:?} into {x:?}: schema and kernel disagree");
    let dim = dim(ctx, rank)?;
    let values = match count {
        3 => {
            // SAFETY: as above.
            let src = raised(&unsafe { apart.of(ctx.operand(2)?)? });
            ensure!(src.dtype == x.dtype, "{src:?} into {x:?}: schema and kernel disagree");
            Values::Tensor(Step::own(src))
        }
        _ => {
            let value = Scalar::of(ctx.attrs(), "value")?;
            let value = value.context("neither src nor value is given")?;
            Values::One(dispatch!(x.dtype, T => from_scalar::<T>(value).to_word()))
        }
    };
    let strides = x.strides.iter().enumerate().map(|(k, &s)| if k == dim { 0 } else { s });
    let put = Put {
        shape: Dims::from_slice(index.shape),
        strides: strides.collect(),
        indexed: dim..dim + 1,
        indices: vec![Index { dim, dtype: index.dtype, step: Step::own(index) }],
        from_end: false,
        x,
    };
    put.run(ctx, values, join)
}

/// `index_add(x, index, source; dim, alpha)`, and in place.
fn index_add(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let x = match in_place {
        true => ctx.operand(0)?,
        false => {
            let out = ctx.operand(3)?;
            convert(ctx, ctx.operand(0)?, out)?;
            out
        }
    };
    let apart = Apart::from(native(ctx)?, x);
    // SAFETY: the context's maker answers for the operands.
    let (index, source) = unsafe { (apart.of(ctx.operand(1)?)?, apart.of(ctx.operand(2)?)?) };
    let (x, source) = (raised(&x), raised(&source));
    let agree = x.dtype == source.dtype && x.shape.len() == source.shape.len();
    ensure!(agree, "{source:?} to {x:?}: schema and kernel disagree");
    let dim = dim(ctx, x.shape.len())?;
    let strides = x.strides.iter().enumerate().map(|(k, &s)| if k == dim { 0 } else { s });
    let put = Put {
        shape: Dims::from_slice(source.shape),
        strides: strides.collect(),
        indexed: dim..dim + 1,
        indices: vec![along(x.shape.len(), dim, index)],
        from_end: false,
        x,
    };
    let alpha = Scalar::of(ctx.attrs(), "alpha")?.unwrap_or(Scalar::Int(1));
    put.run(ctx, Values::Tensor(Step::own(source)), Join::Add(alpha))
}

/// `index_put(x, values, indices...; absent, accumulate)` of indices that are no mask; `x` is what is
/// changed, and the indices are the operands from the third on and before `end`.
pub(super) fn index_put(ctx: &KernelCtx<'_>, op: &str, x: RawTensor<'_>, end: usize) -> Result<()> {
    let apart = Apart::from(native(ctx)?, x);
    // SAFETY: the context's maker answers for the operands.
    let lies_apart = |k| unsafe { apart.of(ctx.operand(k)?) };
    let values = lies_apart(1)?;
    ensure!(x.dtype == values.dtype, "{values:?} into {x:?}: schema and kernel disagree");
    let indices = (2..end).map(lies_apart).collect::<Result<Vec<_>>>()?;
    let named = named(ctx, op, &x, indices)?;
    let step = Step::broadcast(values, &named.shape);
    let join = match ctx.attrs().bool("accumulate")?.unwrap_or(false) {
        true => Join::Add(Scalar::Int(1)),
        false => Join::Set,
    };
    let put = Put {
        x,
        shape: named.shape,
        strides: named.strides,
        indexed: named.at,
        indices: named.indices,
        from_end: true,
    };
    put.run(ctx, Values::Tensor(step), join)
}

/// `embedding_dense_backward(grad, indices; num_weights, padding_idx, scale_grad_by_freq)`.
fn table(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, indices, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let &[rows, columns] = out.shape else {
        anyhow::bail!("{out:?}: schema and kernel disagree");
    };
    let (rank, places) = (indices.shape.len(), indices.numel());
    let agree = grad.shape.len() == rank + 1 && grad.shape[..rank] == *indices.shape;
    ensure!(agree, "{grad:?}: schema and kernel disagree");
    set(ctx, out, Scalar::Int(0))?;
    if places * columns == 0 {
        return match places {
            0 => Ok(()),
            _ => Err(Unsupported::of("indices of no elements")),
        };
    }
    let native = native(ctx)?;
    let error = anyhow::anyhow!("indices: one is out of range: expected 0 to {}", rows as i64 - 1);
    let failed = Failed::with(native, error)?;
    let padding = ctx.attrs().int("padding_idx")?.unwrap_or(-1);
    let scale = ctx.attrs().bool("scale_grad_by_freq")?.unwrap_or(false);
    let [down, across] = [out.strides[0], out.strides[1]].map(|stride| stride as i64);
    let bytes = indices.dtype.size() as i64;
    let integers = [
        places as i64,
        columns as i64,
        bytes,
        rows as i64,
        down,
        across,
        padding,
        i64::from(scale),
    ];
    let steps = [
        Step::own(grad),
        Step::still(out, rank + 1),
        failed.step(rank + 1),
        Step::by(indices, indices.strides.iter().copied().chain([0])),
    ];
    let walk = Walk::new(grad.shape, rank, &steps)?.integers(&integers)?;
    // SAFETY: the kernel writes elements of the call's output, each by one thread, and reads those of
    // the others.
    unsafe { TABLE.of_dtype(native, grad.dtype, walk) }
}
