//! Kernels of the ops in `millstream_ops::norm`, by row. The gradients of the parameters are summed
//! over the rows, by block of parameters.
//!
//! Long because layers and groups share their rows.

use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};

use super::Kernel;
use super::indexed::in_ranges;
use super::optional_inputs::{gradient_operands, operands, required};
use super::pairwise::{PairwiseRows, Sum, add_rows, sum_of, sums_of};
use super::real::{Real, reals};
use super::strided::{Sequence, load_all};
use super::vectorised::vectorised;
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

    /// Returns the parameters of a row.
    fn of_row<'a, T>(&self, row: usize, parameters: Option<&'a [T]>) -> Option<&'a [T]> {
        let first = row % self.groups * self.parameters();
        parameters.map(|all| &all[first..first + self.parameters()])
    }
}

/// The parameters of a row that is normalised.
struct Affine<'a, T> {
    weight: Option<&'a [T]>,
    bias: Option<&'a [T]>,
    /// The number of adjacent elements that share a parameter.
    repeat: usize,
}

vectorised! {
    /// Normalises a row; returns its mean and the reciprocal of its deviation.
    fn normalise<T: Real>(x: &[T], affine: &Affine<'_, T>, eps: T, out: &mut [T]) -> (T, T) {
        let count = T::from_f64(x.len() as f64);
        let mean = sum_of([x], |[v]| v) / count;
        let variance = sum_of([x], |[v]| (v - mean) * (v - mean)) / count;
        let rstd = T::ONE / (variance + eps).sqrt();
        if let (Some(weight), Some(bias), 1) = (affine.weight, affine.bias, affine.repeat) {
            for (((out, &v), &w), &b) in out.iter_mut().zip(x).zip(weight).zip(bias) {
                *out = (v - mean) * rstd * w + b;
            }
            return (mean, rstd);
        }
        let repeat = affine.repeat.max(1);
        for (at, (out, x)) in out.chunks_mut(repeat).zip(x.chunks(repeat)).enumerate() {
            let w = affine.weight.map_or(T::ONE, |all| all[at]);
            let b = affine.bias.map_or(T::ZERO, |all| all[at]);
            for (out, &v) in out.iter_mut().zip(x) {
                *out = (v - mean) * rstd * w + b;
            }
        }
        (mean, rstd)
    }

    /// Computes the gradient for a row x. For y = (x - mean) · rstd and g = grad · weight, it is
    /// rstd · (g - mean of g - y · mean of g · y).
    fn gradient_of_row<T: Real>(
        grad: &[T],
        x: &[T],
        weight: &[T],
        moments: (T, T),
        out: &mut [T],
    ) {
        let (mean, rstd) = moments;
        let count = T::from_f64(x.len() as f64);
        let [of_g, of_gy] = sums_of([grad, weight, x], |[g, w, x]| {
            [g * w, g * w * ((x - mean) * rstd)]
        });
        let (of_g, of_gy) = (of_g / count, of_gy / count);
        for (((out, &g), &w), &x) in out.iter_mut().zip(grad).zip(weight).zip(x) {
            *out = rstd * (g * w - of_g - (x - mean) * rstd * of_gy);
        }
    }

    /// Adds grad · (x - mean) · rstd to the first sums and grad to the second.
    fn add_gradients<T: Real>(
        grad: &[T],
        x: &[T],
        moments: (T, T),
        of_weight: &mut [T],
        of_bias: &mut [T],
    ) {
        let (mean, rstd) = moments;
        let sums = of_weight.iter_mut().zip(of_bias);
        for (((of_weight, of_bias), &g), &x) in sums.zip(grad).zip(x) {
            *of_weight += g * (x - mean) * rstd;
            *of_bias += g;
        }
    }

    /// Returns the sums of grad · (x - mean) · rstd and of grad.
    fn gradient_sums<T: Real>(grad: &[T], x: &[T], moments: (T, T)) -> [T; 2] {
        let (mean, rstd) = moments;
        sums_of([grad, x], |[g, x]| [g * (x - mean) * rstd, g])
    }

    /// Computes the gradient of `gradient_of_row` from its two means, where all elements have one
    /// weight.
    fn gradient_of_part<T: Real>(
        grad: &[T],
        x: &[T],
        weight: T,
        moments: (T, T),
        means: (T, T),
        out: &mut [T],
    ) {
        let ((mean, rstd), (of_g, of_gy)) = (moments, means);
        for ((out, &g), &x) in out.iter_mut().zip(grad).zip(x) {
            *out = rstd * (g * weight - of_g - (x - mean) * rstd * of_gy);
        }
    }
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
    let ([grad, x, mean, rstd, weight, _], outs) = gradient_operands::<6>(ctx)?;
    let given = [required(grad)?, required(x)?, required(mean)?, required(rstd)?];
    backward(ctx, Rows::layers(ctx, &given[1])?, given, weight, outs)
}

/// `native_group_norm_backward(grad, x, mean, rstd, weight?; ..)`.
fn group_norm_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, x, mean, rstd, weight], outs) = gradient_operands::<5>(ctx)?;
    let given = [required(grad)?, required(x)?, required(mean)?, required(rstd)?];
    backward(ctx, Rows::groups(ctx, &given[1])?, given, weight, outs)
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
            (weight.map(load_all::<T>), bias.map(load_all::<T>), Sequence::new(x), results)
        };
        in_ranges(ctx, rows.count, rows.length, |range| {
            let (mut buffer, mut result) = (Vec::new(), Vec::new());
            for number in range {
                let affine = Affine {
                    weight: rows.of_row(number, weight.as_deref()),
                    bias: rows.of_row(number, bias.as_deref()),
                    repeat: rows.repeat,
                };
                let (at, length) = (number * rows.length, rows.length);
                // SAFETY: the input is only read, and this task alone computes the row.
                let (mean, rstd) = unsafe {
                    let row = x.elements(at, length, &mut buffer);
                    out.compute(at, length, &mut result, |out| normalise(row, &affine, eps, out))
                };
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
    [x_grad, weight_grad, bias_grad]: [Option<RawTensor<'_>>; 3],
) -> Result<()> {
    let agree = grad.numel() == x.numel() && rows.count * rows.length == x.numel();
    ensure!(agree && mean.numel() == rows.count, "{x:?}: schema and kernel disagree");
    reals!(x.dtype, T => {
        // SAFETY: operands of the call; only its outputs are written, and each row or block has its
        // own part of them.
        let (saved, weight, given, x_grad, sums) = unsafe {
            (
                [load_all::<T>(mean), load_all::<T>(rstd)],
                weight.map(load_all::<T>),
                [Sequence::new(grad), Sequence::new(x)],
                x_grad.map(|t| Sequence::new(t)),
                [weight_grad, bias_grad].map(|t| t.map(|t| Sequence::new(t))),
            )
        };
        if rows.repeat > 1 {
            shared_gradients(ctx, rows, &given, &saved, weight.as_deref(), x_grad.as_ref(), &sums);
            return Ok(());
        }
        if let Some(x_grad) = &x_grad {
            x_gradient(ctx, rows, &given, &saved, weight.as_deref(), x_grad);
        }
        if sums.iter().any(Option::is_some) {
            parameter_gradients(ctx, rows, &given, &saved, &sums);
        }
    });
    Ok(())
}

/// Computes the gradient for x, by row.
fn x_gradient<T: Real>(
    ctx: &KernelCtx<'_>,
    rows: Rows,
    [grad, x]: &[Sequence; 2],
    [means, rstds]: &[Vec<T>; 2],
    weight: Option<&[T]>,
    out: &Sequence,
) {
    in_ranges(ctx, rows.count, rows.length, |range| {
        let [mut g, mut y, mut result] = [const { Vec::new() }; 3];
        let ones = if weight.is_none() { vec![T::ONE; rows.length] } else { Vec::new() };
        for number in range {
            let weights = rows.of_row(number, weight).unwrap_or(&ones);
            let (at, length) = (number * rows.length, rows.length);
            let moments = (means[number], rstds[number]);
            // SAFETY: the inputs are only read, and this task alone computes the row.
            unsafe {
                let grad = grad.elements(at, length, &mut g);
                let x = x.elements(at, length, &mut y);
                out.compute(at, length, &mut result, |out| {
                    gradient_of_row(grad, x, weights, moments, out);
                });
            }
        }
    });
}

/// Computes all gradients where adjacent elements share a parameter: those of a row need only its
/// sums for each parameter, and so do the parameters.
fn shared_gradients<T: Real>(
    ctx: &KernelCtx<'_>,
    rows: Rows,
    [grad, x]: &[Sequence; 2],
    [means, rstds]: &[Vec<T>; 2],
    weight: Option<&[T]>,
    x_grad: Option<&Sequence>,
    outs: &[Option<Sequence>; 2],
) {
    let (length, repeat, count) = (rows.length, rows.repeat, T::from_f64(rows.length as f64));
    let sums: Vec<OnceLock<Vec<[T; 2]>>> = (0..rows.count).map(|_| OnceLock::new()).collect();
    in_ranges(ctx, rows.count, rows.length, |range| {
        let [mut g, mut y, mut result] = [const { Vec::new() }; 3];
        for number in range {
            let at = number * length;
            // SAFETY: the inputs are only read.
            let (grad, x) =
                unsafe { (grad.elements(at, length, &mut g), x.elements(at, length, &mut y)) };
            let (moments, weights) = ((means[number], rstds[number]), rows.of_row(number, weight));
            let weight_of = |k: usize| weights.map_or(T::ONE, |all| all[k]);
            let parts = || grad.chunks(repeat).zip(x.chunks(repeat)).enumerate();
            let sums = sums[number].get_or_init(|| {
                parts().map(|(_, (grad, x))| gradient_sums(grad, x, moments)).collect()
            });
            let Some(x_grad) = x_grad else { continue };
            let (mut of_g, mut of_gy) = (Sum::new(), Sum::new());
            for (k, &[gy, g]) in sums.iter().enumerate() {
                of_g.push(g * weight_of(k));
                of_gy.push(gy * weight_of(k));
            }
            let of_row = (of_g.total() / count, of_gy.total() / count);
            // SAFETY: this task alone computes the row.
            unsafe {
                x_grad.compute(at, length, &mut result, |out| {
                    for ((k, (grad, x)), out) in parts().zip(out.chunks_mut(repeat)) {
                        gradient_of_part(grad, x, weight_of(k), moments, of_row, out);
                    }
                });
            }
        }
    });
    let parameters = rows.parameters();
    ctx.for_each(rows.groups, |group| {
        let images: Vec<&Vec<[T; 2]>> =
            sums.iter().skip(group).step_by(rows.groups).filter_map(OnceLock::get).collect();
        for parameter in 0..parameters {
            for (which, out) in outs.iter().enumerate() {
                let Some(out) = out else { continue };
                let mut total = Sum::new();
                for images in images.chunks(ROWS_PER_LEAF) {
                    let mut leaf = T::ZERO;
                    images.iter().for_each(|sums| leaf += sums[parameter][which]);
                    total.push(leaf);
                }
                out.store(group * parameters + parameter, &[total.total()]);
            }
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
        let [mut g, mut y] = [const { Vec::new() }; 2];
        let zeros = || vec![T::ZERO; count];
        let mut sums = [PairwiseRows::new(), PairwiseRows::new()];
        let mut parts = [zeros(), zeros()];
        let last = rows.count / rows.groups;
        for image in 0..last {
            let number = image * rows.groups + group;
            let at = number * rows.length + first * rows.repeat;
            // SAFETY: the inputs are only read.
            let (grad, x) = unsafe {
                let length = count * rows.repeat;
                (grad.elements(at, length, &mut g), x.elements(at, length, &mut y))
            };
            let moments = (means[number], rstds[number]);
            let [of_weight, of_bias] = &mut parts;
            add_gradients(grad, x, moments, of_weight, of_bias);
            if image % ROWS_PER_LEAF == ROWS_PER_LEAF - 1 || image + 1 == last {
                for (sums, part) in sums.iter_mut().zip(&mut parts) {
                    sums.push(std::mem::replace(part, zeros()), add_rows);
                }
            }
        }
        for (out, sums) in outs.iter().zip(sums) {
            if let Some(out) = out {
                let totals = sums.total(add_rows).unwrap_or_else(zeros);
                out.store(group * parameters + first, &totals);
            }
        }
    });
}
