//! Kernels of the ops in `millstream_ops::norm`, by row. The gradients of the parameters are summed
//! over the rows, by block of parameters.

use anyhow::{Context, Result, ensure};
use millstream_ops::checks;

use super::Kernel;
use super::element::Element;
use super::optional_inputs::{operands, required};
use super::pairwise::{Sum, pairwise_sum};
use super::real::{Real, reals};
use super::strided::{BLOCK, Sequence};
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("native_layer_norm", layer_norm),
    ("native_layer_norm_backward", layer_norm_backward),
    ("native_group_norm", group_norm),
    ("native_group_norm_backward", group_norm_backward),
];

/// The number of parameters whose gradients one task sums.
const PARAMETERS_PER_TASK: usize = 256;

/// The number of rows that are summed without pairing.
const ROWS_PER_LEAF: usize = 16;

/// The decomposition of a tensor into rows, in row-major order.
#[derive(Clone, Copy)]
struct Rows {
    count: usize,
    length: usize,
    /// The number of adjacent elements that share a parameter.
    repeat: usize,
    /// The number of rows after which the parameters repeat.
    groups: usize,
}

impl Rows {
    fn layers(ctx: &KernelCtx<'_>, x: &RawTensor<'_>) -> Result<Rows> {
        let shape = ctx
            .attrs()
            .ints("normalized_shape")?
            .context("normalized_shape: missing; this argument is required")?;
        let length: usize = shape.iter().map(|&d| d as usize).product();
        let kept = x.shape.len().checked_sub(shape.len());
        let kept = kept.context("normalized_shape: schema and kernel disagree")?;
        Ok(Rows { count: x.shape[..kept].iter().product(), length, repeat: 1, groups: 1 })
    }

    fn groups(ctx: &KernelCtx<'_>, x: &RawTensor<'_>) -> Result<Rows> {
        let groups =
            ctx.attrs().int("group")?.context("group: missing; this argument is required")?
                as usize;
        ensure!(x.shape.len() >= 2 && groups > 0, "{x:?}: schema and kernel disagree");
        let repeat = x.shape[2..].iter().product();
        Ok(Rows {
            count: x.shape[0] * groups,
            length: x.shape[1] / groups * repeat,
            repeat,
            groups,
        })
    }

    /// Returns the number of parameters of one row.
    fn parameters(&self) -> usize {
        self.length.checked_div(self.repeat).unwrap_or(0)
    }

    /// Expands the parameters of a row to its elements.
    fn expand<T: Real>(&self, row: usize, parameters: Option<&[T]>, to: &mut [T]) {
        let Some(parameters) = parameters else { return };
        let first = row % self.groups * self.parameters();
        let parameters = &parameters[first..first + self.parameters()];
        if self.repeat == 1 {
            to.copy_from_slice(parameters);
            return;
        }
        for (to, &v) in to.chunks_mut(self.repeat.max(1)).zip(parameters) {
            to.fill(v);
        }
    }

    /// Calls `f` with the rows of each task.
    fn for_each(&self, ctx: &KernelCtx<'_>, f: impl Fn(std::ops::Range<usize>) + Sync + Send) {
        let at_once = (BLOCK / self.length.max(1)).max(1);
        let count = self.count;
        ctx.for_each(count.div_ceil(at_once), |task| {
            f(task * at_once..count.min((task + 1) * at_once));
        });
    }
}

/// Loads all elements of an operand, if it is present.
///
/// # Safety
/// `tensor` is an operand of the call.
pub(super) unsafe fn load_all<T: Real>(tensor: Option<RawTensor<'_>>) -> Option<Vec<T>> {
    tensor.map(|tensor| {
        let mut values = vec![T::ZERO; tensor.numel()];
        // SAFETY: guaranteed by the caller.
        unsafe { Sequence::new(tensor) }.load(0, &mut values);
        values
    })
}

/// Returns the mean of some values and the mean of their squared distances from it.
pub(super) fn moments<T: Real>(values: &[T], spare: &mut [T]) -> (T, T) {
    let count = T::from_f64(values.len() as f64);
    let mean = pairwise_sum(values) / count;
    for (to, &v) in spare.iter_mut().zip(values) {
        *to = (v - mean) * (v - mean);
    }
    (mean, pairwise_sum(spare) / count)
}

/// `native_layer_norm(x, weight?, bias?; normalized_shape, eps)`.
fn layer_norm(ctx: &KernelCtx<'_>) -> Result<()> {
    forward(ctx, Rows::layers)
}

/// `native_group_norm(x, weight?, bias?; N, C, HxW, group, eps)`.
fn group_norm(ctx: &KernelCtx<'_>) -> Result<()> {
    forward(ctx, Rows::groups)
}

/// `native_layer_norm_backward(grad, x, mean, rstd, weight?, bias?; ..)`.
fn layer_norm_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let wanted = checks::mask(ctx.attrs(), 3)?;
    let ([grad, x, mean, rstd, weight, _], results) =
        operands::<6>(ctx, wanted.iter().filter(|w| **w).count())?;
    let given = [required(grad)?, required(x)?, required(mean)?, required(rstd)?];
    backward(ctx, Rows::layers(ctx, &given[1])?, given, weight, &wanted, results)
}

/// `native_group_norm_backward(grad, x, mean, rstd, weight?; ..)`.
fn group_norm_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let wanted = checks::mask(ctx.attrs(), 3)?;
    let ([grad, x, mean, rstd, weight], results) =
        operands::<5>(ctx, wanted.iter().filter(|w| **w).count())?;
    let given = [required(grad)?, required(x)?, required(mean)?, required(rstd)?];
    backward(ctx, Rows::groups(ctx, &given[1])?, given, weight, &wanted, results)
}

fn forward(
    ctx: &KernelCtx<'_>,
    cut: fn(&KernelCtx<'_>, &RawTensor<'_>) -> Result<Rows>,
) -> Result<()> {
    let ([x, weight, bias], results) = operands::<3>(ctx, 3)?;
    let x = required(x)?;
    let rows = cut(ctx, &x)?;
    let agree = results[0].numel() == x.numel() && rows.count * rows.length == x.numel();
    ensure!(agree && results[1].numel() == rows.count, "{x:?}: schema and kernel disagree");
    reals!(x.dtype, T => {
        let eps = ctx.attrs().float("eps")?.unwrap_or(1e-5) as T;
        // SAFETY: operands of the call; only its outputs are written, and each row has its own part
        // of them.
        let (weight, bias, x, [out, means, rstds]) = unsafe {
            let results = [results[0], results[1], results[2]].map(|t| Sequence::new(t));
            (load_all::<T>(weight), load_all::<T>(bias), Sequence::new(x), results)
        };
        rows.for_each(ctx, |range| {
            let mut row = vec![T::ZERO; rows.length];
            let mut spare = row.clone();
            let (mut weights, mut biases) = (vec![T::ONE; rows.length], row.clone());
            for number in range {
                x.load(number * rows.length, &mut row);
                let (mean, variance) = moments(&row, &mut spare);
                let rstd = (variance + eps).sqrt().recip();
                rows.expand(number, weight.as_deref(), &mut weights);
                rows.expand(number, bias.as_deref(), &mut biases);
                for ((v, &w), &b) in row.iter_mut().zip(&weights).zip(&biases) {
                    *v = (*v - mean) * rstd * w + b;
                }
                out.store(number * rows.length, &row);
                means.store(number, &[mean]);
                rstds.store(number, &[rstd]);
            }
        });
    });
    Ok(())
}

fn backward(
    ctx: &KernelCtx<'_>,
    rows: Rows,
    [grad, x, mean, rstd]: [RawTensor<'_>; 4],
    weight: Option<RawTensor<'_>>,
    wanted: &[bool],
    results: Vec<RawTensor<'_>>,
) -> Result<()> {
    let agree = grad.numel() == x.numel() && rows.count * rows.length == x.numel();
    ensure!(agree && mean.numel() == rows.count, "{x:?}: schema and kernel disagree");
    let mut results = results.into_iter();
    let mut next = |wanted: bool| if wanted { results.next() } else { None };
    let [x_grad, weight_grad, bias_grad] = [next(wanted[0]), next(wanted[1]), next(wanted[2])];
    reals!(x.dtype, T => {
        // SAFETY: operands of the call; only its outputs are written, and each row or block has its
        // own part of them.
        let (saved, weight, given, x_grad, sums) = unsafe {
            (
                [load_all::<T>(Some(mean)), load_all(Some(rstd))].map(Option::unwrap_or_default),
                load_all::<T>(weight),
                [Sequence::new(grad), Sequence::new(x)],
                x_grad.map(|t| Sequence::new(t)),
                [weight_grad, bias_grad].map(|t| t.map(|t| Sequence::new(t))),
            )
        };
        if let Some(x_grad) = &x_grad {
            x_gradient(ctx, rows, &given, &saved, weight.as_deref(), x_grad);
        }
        if sums.iter().any(Option::is_some) {
            parameter_gradients(ctx, rows, &given, &saved, &sums);
        }
    });
    Ok(())
}

/// Computes the gradient for x. For y = (x - mean) · rstd and g = grad · weight, it is rstd · (g -
/// mean of g - y · mean of g · y).
fn x_gradient<T: Real>(
    ctx: &KernelCtx<'_>,
    rows: Rows,
    [grad, x]: &[Sequence; 2],
    [means, rstds]: &[Vec<T>; 2],
    weight: Option<&[T]>,
    out: &Sequence,
) {
    rows.for_each(ctx, |range| {
        let buffer = vec![T::ZERO; rows.length];
        let (mut g, mut y, mut spare) = (buffer.clone(), buffer.clone(), buffer);
        let mut weights = vec![T::ONE; rows.length];
        let count = T::from_f64(rows.length as f64);
        for number in range {
            grad.load(number * rows.length, &mut g);
            x.load(number * rows.length, &mut y);
            rows.expand(number, weight, &mut weights);
            let (mean, rstd) = (means[number], rstds[number]);
            for (((g, y), s), &w) in g.iter_mut().zip(&mut y).zip(&mut spare).zip(&weights) {
                *g *= w;
                *y = (*y - mean) * rstd;
                *s = *g * *y;
            }
            let (of_g, of_gy) = (pairwise_sum(&g) / count, pairwise_sum(&spare) / count);
            for (g, &y) in g.iter_mut().zip(&y) {
                *g = rstd * (*g - of_g - y * of_gy);
            }
            out.store(number * rows.length, &g);
        }
    });
}

/// Computes the gradients for weight and bias: the sums of grad · (x - mean) · rstd and of grad.
fn parameter_gradients<T: Real>(
    ctx: &KernelCtx<'_>,
    rows: Rows,
    [grad, x]: &[Sequence; 2],
    [means, rstds]: &[Vec<T>; 2],
    outs: &[Option<Sequence>; 2],
) {
    let parameters = rows.parameters();
    let width = (PARAMETERS_PER_TASK / rows.repeat.max(1)).max(1).min(parameters.max(1));
    let blocks = parameters.div_ceil(width);
    ctx.for_each(rows.groups * blocks, |task| {
        let (group, first) = (task / blocks, task % blocks * width);
        let count = width.min(parameters - first);
        let mut g = vec![T::ZERO; count * rows.repeat];
        let mut y = g.clone();
        let mut sums: [Vec<Sum<T>>; 2] =
            std::array::from_fn(|_| (0..count).map(|_| Sum::new()).collect());
        let mut parts = [vec![T::ZERO; count], vec![T::ZERO; count]];
        let last = rows.count / rows.groups;
        for image in 0..last {
            let number = image * rows.groups + group;
            let at = number * rows.length + first * rows.repeat;
            grad.load(at, &mut g);
            x.load(at, &mut y);
            let (mean, rstd) = (means[number], rstds[number]);
            for (y, &g) in y.iter_mut().zip(&g) {
                *y = g * (*y - mean) * rstd;
            }
            for (part, values) in parts.iter_mut().zip([&y, &g]) {
                for (part, values) in part.iter_mut().zip(values.chunks(rows.repeat)) {
                    *part += if rows.repeat == 1 { values[0] } else { pairwise_sum(values) };
                }
            }
            if image % ROWS_PER_LEAF == ROWS_PER_LEAF - 1 || image + 1 == last {
                for (sums, part) in sums.iter_mut().zip(&mut parts) {
                    for (sum, part) in sums.iter_mut().zip(part) {
                        sum.push(std::mem::replace(part, T::ZERO));
                    }
                }
            }
        }
        for (out, sums) in outs.iter().zip(&sums) {
            if let Some(out) = out {
                let totals: Vec<T> = sums.iter().map(Sum::total).collect();
                out.store(group * parameters + first, &totals);
            }
        }
    });
}
