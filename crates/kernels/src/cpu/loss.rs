//! Kernels of the ops in `millstream_ops::loss`: a function of each element, stored or summed
//! pairwise in blocks of a fixed size.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use millstream_ops::broadcast::broadcast;
use millstream_ops::loss::LossReduction;
use millstream_ops::reduce::SUM_PART;
use millstream_types::Dims;
use millstream_types::layout::numel;

use super::Kernel;
use super::element::Element;
use super::loops::Loop;
use super::memory::Workspace;
use super::optional_inputs::{one, operands, required};
use super::pairwise::{Sum, leaf_sum};
use super::real::{Real, reals};
use super::strided::{BLOCK, CHUNK, Sequence, StridedRow};
use super::traversal::Order;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("mse_loss", mse),
    ("mse_loss_backward", mse_backward),
    ("smooth_l1_loss", smooth_l1),
    ("smooth_l1_loss_backward", smooth_l1_backward),
    ("huber_loss", huber),
    ("huber_loss_backward", huber_backward),
    ("binary_cross_entropy", cross_entropy),
    ("binary_cross_entropy_backward", cross_entropy_backward),
    ("binary_cross_entropy_with_logits", with_logits),
];

/// Loads a chunk of each operand but the last, and computes `f` into the last buffer.
fn compute<'b, T: Real, const N: usize>(
    buffers: &'b mut [[T; CHUNK]; N],
    rows: &[StridedRow; N],
    at: usize,
    f: impl Fn([T; N]) -> T,
) -> &'b [T] {
    let count = CHUNK.min(rows[N - 1].len() - at);
    for (buffer, row) in buffers.iter_mut().zip(&rows[..N - 1]) {
        row.load(at, &mut buffer[..count]);
    }
    let Some((results, inputs)) = buffers.split_last_mut() else { return &[] };
    for (k, to) in results[..count].iter_mut().enumerate() {
        *to = f(std::array::from_fn(|i| inputs.get(i).map_or(T::ZERO, |input| input[k])));
    }
    &results[..count]
}

/// Computes `f` of the elements of all operands, broadcast, into the last one, the output. The last
/// element passed to `f` is undefined.
///
/// # Safety
/// All are operands of the call or memory that the caller owns; only the last is written.
unsafe fn each<T: Real, const N: usize>(
    ctx: &KernelCtx<'_>,
    all: [RawTensor<'_>; N],
    f: impl Fn([T; N]) -> T + Sync + Send,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let all = unsafe { Loop::new(all[N - 1].shape, all, Order::Any) }?;
    all.for_each(
        ctx,
        BLOCK,
        |_| [[T::ZERO; CHUNK]; N],
        |buffers, rows| {
            for at in (0..rows[N - 1].len()).step_by(CHUNK) {
                rows[N - 1].store(at, compute(buffers, rows, at, &f));
            }
        },
    );
    Ok(())
}

/// As [`each`], with the reduction that the call requests.
///
/// # Safety
/// The contract of [`each`] holds.
unsafe fn reduce<T: Real, const N: usize>(
    ctx: &KernelCtx<'_>,
    all: [RawTensor<'_>; N],
    f: impl Fn([T; N]) -> T + Sync + Send,
) -> Result<()> {
    let reduction = LossReduction::of(ctx.attrs())?;
    if reduction == LossReduction::None {
        // SAFETY: guaranteed by the caller.
        return unsafe { each(ctx, all, f) };
    }
    let mut shape = Dims::new();
    for input in &all[..N - 1] {
        shape = broadcast(&shape, input.shape)?;
    }
    let (out, count) = (all[N - 1], numel(&shape));
    ensure!(out.numel() == 1, "{out:?}: schema and kernel disagree");
    let words = Workspace::of(ctx).words(ctx, count.div_ceil(SUM_PART))?;
    // SAFETY: guaranteed by the caller; the loop does not access the output.
    let (all, out) = unsafe { (Loop::new(&shape, all, Order::RowMajor)?, Sequence::new(out)) };
    let init = |block| (block, Sum::<T>::new(), [[T::ZERO; CHUNK]; N]);
    all.for_each(ctx, SUM_PART, init, |(block, sum, buffers), rows| {
        for at in (0..rows[N - 1].len()).step_by(CHUNK) {
            sum.push(leaf_sum(compute(buffers, rows, at, &f)));
        }
        // The last row of the block stores the sum of all its rows.
        words[*block].store(sum.total().to_word(), Relaxed);
    });
    let mut total = Sum::<T>::new();
    words.iter().for_each(|w| total.push(T::from_word(w.load(Relaxed))));
    let divisor = if reduction == LossReduction::Mean { T::from_f64(count as f64) } else { T::ONE };
    out.store(0, &[total.total() / divisor]);
    Ok(())
}

/// Returns the divisor of a gradient: the number of losses if the op returns their mean, else 1.
fn divisor<T: Real>(ctx: &KernelCtx<'_>, x: &RawTensor<'_>) -> Result<T> {
    match LossReduction::of(ctx.attrs())? {
        LossReduction::Mean => Ok(T::from_f64(x.numel() as f64)),
        _ => Ok(T::ONE),
    }
}

fn number<T: Real>(ctx: &KernelCtx<'_>, name: &str) -> Result<T> {
    Ok(T::from_f64(ctx.attrs().float(name)?.unwrap_or(1.0)))
}

fn three<'a>(ctx: &KernelCtx<'a>) -> Result<[RawTensor<'a>; 3]> {
    Ok([ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?])
}

fn four<'a>(ctx: &KernelCtx<'a>) -> Result<[RawTensor<'a>; 4]> {
    Ok([ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?, ctx.operand(3)?])
}

/// `mse_loss(x, target; reduction)`.
fn mse(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = three(ctx)?;
    // SAFETY: operands of the call; the last is its output.
    reals!(all[2].dtype, T => unsafe {
        reduce::<T, 3>(ctx, all, |[x, t, _]| (x - t) * (x - t))
    })
}

/// `mse_loss_backward(grad, x, target; reduction)`.
fn mse_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = four(ctx)?;
    reals!(all[3].dtype, T => {
        let factor = T::from_f64(2.0) / divisor::<T>(ctx, &all[1])?;
        // SAFETY: as for `mse`.
        unsafe { each::<T, 4>(ctx, all, |[g, x, t, _]| factor * (x - t) * g) }
    })
}

/// `smooth_l1_loss(x, target; reduction, beta)`.
fn smooth_l1(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = three(ctx)?;
    reals!(all[2].dtype, T => {
        let (beta, half) = (number::<T>(ctx, "beta")?, T::from_f64(0.5));
        // SAFETY: as for `mse`.
        unsafe {
            reduce::<T, 3>(ctx, all, |[x, t, _]| {
                let d = (x - t).abs();
                if d < beta { half * d * d / beta } else { d - half * beta }
            })
        }
    })
}

/// `smooth_l1_loss_backward(grad, x, target; reduction, beta)`.
fn smooth_l1_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = four(ctx)?;
    reals!(all[3].dtype, T => {
        let (beta, divisor) = (number::<T>(ctx, "beta")?, divisor::<T>(ctx, &all[1])?);
        // SAFETY: as for `mse`.
        unsafe {
            each::<T, 4>(ctx, all, |[g, x, t, _]| {
                let (d, g) = (x - t, g / divisor);
                if d <= -beta { -g } else if d >= beta { g } else { d * g / beta }
            })
        }
    })
}

/// `huber_loss(x, target; reduction, delta)`.
fn huber(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = three(ctx)?;
    reals!(all[2].dtype, T => {
        let (delta, half) = (number::<T>(ctx, "delta")?, T::from_f64(0.5));
        // SAFETY: as for `mse`.
        unsafe {
            reduce::<T, 3>(ctx, all, |[x, t, _]| {
                let d = (x - t).abs();
                if d <= delta { half * d * d } else { delta * (d - half * delta) }
            })
        }
    })
}

/// `huber_loss_backward(grad, x, target; reduction, delta)`.
fn huber_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = four(ctx)?;
    reals!(all[3].dtype, T => {
        let (delta, divisor) = (number::<T>(ctx, "delta")?, divisor::<T>(ctx, &all[1])?);
        // SAFETY: as for `mse`.
        unsafe {
            each::<T, 4>(ctx, all, |[g, x, t, _]| {
                let (d, g) = (x - t, g / divisor);
                if d <= -delta { -g * delta } else if d >= delta { g * delta } else { d * g }
            })
        }
    })
}

/// `binary_cross_entropy(x, target, weight?; reduction)`.
fn cross_entropy(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, target, weight], results) = operands::<3>(ctx, 1)?;
    let mut one = one()?;
    let all = [required(x)?, required(target)?, weight.unwrap_or(one.tensor()), results[0]];
    let outside = AtomicBool::new(false);
    reals!(results[0].dtype, T => {
        let least = T::from_f64(-100.0);
        // SAFETY: as for `mse`.
        unsafe {
            reduce::<T, 4>(ctx, all, |[x, t, w, _]| {
                if !(T::ZERO..=T::ONE).contains(&x) {
                    outside.store(true, Relaxed);
                }
                let (yes, no) = (x.ln().greater(least), (-x).ln_1p().greater(least));
                ((t - T::ONE) * no - t * yes) * w
            })
        }?;
    });
    ensure!(!outside.into_inner(), "x: expected every element between 0 and 1");
    Ok(())
}

/// `binary_cross_entropy_backward(grad, x, target, weight?; reduction)`.
fn cross_entropy_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, x, target, weight], results) = operands::<4>(ctx, 1)?;
    let mut one = one()?;
    let (x, weight) = (required(x)?, weight.unwrap_or(one.tensor()));
    let all = [required(grad)?, x, required(target)?, weight, results[0]];
    reals!(x.dtype, T => {
        let (divisor, least) = (divisor::<T>(ctx, &x)?, T::from_f64(1e-12));
        // SAFETY: as for `mse`.
        unsafe {
            each::<T, 5>(ctx, all, |[g, x, t, w, _]| {
                g * (x - t) / ((T::ONE - x) * x).greater(least) * w / divisor
            })
        }
    })
}

/// `binary_cross_entropy_with_logits(x, target, weight?, pos_weight?; reduction)`.
fn with_logits(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, target, weight, positive], results) = operands::<4>(ctx, 1)?;
    let (mut weight_one, mut positive_one) = (one()?, one()?);
    let all = [
        required(x)?,
        required(target)?,
        weight.unwrap_or(weight_one.tensor()),
        positive.unwrap_or(positive_one.tensor()),
        results[0],
    ];
    reals!(results[0].dtype, T => {
        // SAFETY: as for `mse`.
        unsafe {
            reduce::<T, 5>(ctx, all, |[x, t, w, p, _]| {
                // -log sigmoid(x), without overflow.
                let log = (-x.abs()).exp().ln_1p() + (-x).greater(T::ZERO);
                ((T::ONE - t) * x + ((p - T::ONE) * t + T::ONE) * log) * w
            })
        }
    })
}
