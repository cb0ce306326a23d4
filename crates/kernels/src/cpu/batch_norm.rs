//! Kernels of the ops in `millstream_ops::batch_norm`, by channel.

use anyhow::{Context, Result, ensure};

use super::Kernel;
use super::element::Element;
use super::indexed::in_ranges;
use super::memory::may_overlap;
use super::optional_inputs::{gradient_operands, operands, required};
use super::pairwise::{moments, sums_of};
use super::real::{Real, reals};
use super::strided::{Sequence, load_all};
use super::vectorised::vectorised;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] =
    &[("native_batch_norm", forward), ("native_batch_norm_backward", backward)];

/// The shape `[batch, channels, pixels]`.
struct Images {
    batch: usize,
    channels: usize,
    pixels: usize,
}

impl Images {
    fn new(x: &RawTensor<'_>) -> Result<Images> {
        let [batch, channels, ref pixels @ ..] = *x.shape else {
            anyhow::bail!("{x:?}: schema and kernel disagree");
        };
        Ok(Images { batch, channels, pixels: pixels.iter().product() })
    }

    /// Returns the number of elements of one channel.
    fn of_channel(&self) -> usize {
        self.batch * self.pixels
    }

    fn load<T: Real>(&self, x: &Sequence, channel: usize, to: &mut [T]) {
        for (image, to) in to.chunks_mut(self.pixels.max(1)).enumerate() {
            x.load(self.at(image, channel), to);
        }
    }

    /// Returns the number of the first element of a channel of an image.
    fn at(&self, image: usize, channel: usize) -> usize {
        (image * self.channels + channel) * self.pixels
    }
}

/// `native_batch_norm(x, weight?, bias?, running_mean?, running_var?; training, momentum, eps)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, weight, bias, running_mean, running_var], results) = operands::<5>(ctx, 3)?;
    let x = required(x)?;
    let images = Images::new(&x)?;
    let training =
        ctx.attrs().bool("training")?.context("training: missing; this argument is required")?;
    let saved = if training { images.channels } else { 0 };
    let agree = results[0].numel() == x.numel() && results[1].numel() == saved;
    ensure!(agree, "{x:?}: schema and kernel disagree");
    if let (true, Some(mean), Some(var)) = (training, &running_mean, &running_var) {
        let apart = [(mean, var), (mean, &x), (var, &x)].iter().all(|(a, b)| !may_overlap(a, b));
        ensure!(
            apart,
            "running_mean, running_var and x: expected tensors that share no memory; pass copies"
        );
    }
    reals!(x.dtype, T => {
        let eps = ctx.attrs().float("eps")?.unwrap_or(1e-5) as T;
        let momentum = ctx.attrs().float("momentum")?.unwrap_or(0.1) as T;
        // SAFETY: operands of the call; only its outputs and, in training, the running statistics
        // are written. The running statistics share no memory with each other or with x. Each
        // channel has its own part of them.
        let (parameters, running, x, [out, means, rstds]) = unsafe {
            let stored = [results[0], results[1], results[2]];
            (
                [weight, bias, running_mean, running_var].map(|t| t.map(load_all::<T>)),
                [running_mean, running_var].map(|t| t.map(|t| Sequence::new(t))),
                Sequence::new(x),
                stored.map(|t| Sequence::new(t)),
            )
        };
        let [weight, bias, old_mean, old_variance] = parameters;
        let of = |v: &Option<Vec<T>>, channel: usize, other: T| {
            v.as_ref().map_or(other, |v| v[channel])
        };
        in_ranges(ctx, images.channels, images.of_channel(), |channels| {
            let (mut values, mut buffer, mut result) = (Vec::new(), Vec::new(), Vec::new());
            for channel in channels {
                let mut mean = of(&old_mean, channel, 0.0);
                let mut variance = of(&old_variance, channel, 1.0);
                if training {
                    let (old_mean, old_variance) = (mean, variance);
                    values.resize(images.of_channel(), T::ZERO);
                    images.load(&x, channel, &mut values);
                    (mean, variance) = moments(&values);
                    let count = values.len() as T;
                    let corrected = variance * count / (count - 1.0);
                    let news = [(old_mean, mean), (old_variance, corrected)];
                    for (running, (old, new)) in running.iter().zip(news) {
                        if let Some(running) = running {
                            running.store(channel, &[momentum * new + (1.0 - momentum) * old]);
                        }
                    }
                }
                let rstd = (variance + eps).sqrt().recip();
                if training {
                    means.store(channel, &[mean]);
                    rstds.store(channel, &[rstd]);
                }
                let (weight, bias) = (of(&weight, channel, 1.0), of(&bias, channel, 0.0));
                let factors = (mean, rstd * weight, bias);
                for image in 0..images.batch {
                    let (at, pixels) = (images.at(image, channel), images.pixels);
                    // SAFETY: x is only read: the running statistics share no memory with it. Each
                    // channel has its own part of the output.
                    unsafe {
                        let x = match training {
                            true => &values[image * pixels..(image + 1) * pixels],
                            false => x.elements(at, pixels, &mut buffer),
                        };
                        out.compute(at, pixels, &mut result, |out| normalise(x, factors, out));
                    }
                }
            }
        });
    });
    Ok(())
}

/// `native_batch_norm_backward(grad, x, weight?, running_mean?, running_var?, save_mean?,
/// save_invstd?; train, eps, output_mask)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, x, weight, running_mean, running_var, mean, rstd], outs) =
        gradient_operands::<7>(ctx)?;
    let (grad, x) = (required(grad)?, required(x)?);
    let images = Images::new(&x)?;
    let train = ctx.attrs().bool("train")?.context("train: missing; this argument is required")?;
    ensure!(grad.shape == x.shape, "{grad:?}: schema and kernel disagree");
    let statistics = if train { [mean, rstd] } else { [running_mean, running_var] };
    let [mean, deviation] = [required(statistics[0])?, required(statistics[1])?];
    let agree = mean.numel() == images.channels && deviation.numel() == images.channels;
    ensure!(agree, "{mean:?}: schema and kernel disagree");
    reals!(x.dtype, T => {
        let eps = ctx.attrs().float("eps")?.unwrap_or(1e-5) as T;
        // SAFETY: operands of the call; only its outputs are written, and each channel
        // has its own part of them.
        let (weight, means, mut rstds, grad, x, [x_grad, weight_grad, bias_grad]) = unsafe {
            (
                weight.map(load_all::<T>),
                load_all::<T>(mean),
                load_all::<T>(deviation),
                Sequence::new(grad),
                Sequence::new(x),
                outs.map(|t| t.map(|t| Sequence::new(t))),
            )
        };
        if !train {
            rstds.iter_mut().for_each(|v| *v = (*v + eps).sqrt().recip());
        }
        in_ranges(ctx, images.channels, images.of_channel(), |channels| {
            let mut g = vec![T::ZERO; images.of_channel()];
            let (mut d, mut result) = (g.clone(), Vec::new());
            let count = g.len() as T;
            for channel in channels {
                let (mean, rstd) = (means[channel], rstds[channel]);
                images.load(&grad, channel, &mut g);
                images.load(&x, channel, &mut d);
                let (sum, dot) = sums(&g, &d, mean);
                if let Some(out) = &weight_grad {
                    out.store(channel, &[dot * rstd]);
                }
                if let Some(out) = &bias_grad {
                    out.store(channel, &[sum]);
                }
                let Some(out) = &x_grad else { continue };
                let factor = rstd * weight.as_ref().map_or(T::ONE, |w| w[channel]);
                let (of_g, of_d) = match train {
                    true => (sum / count, dot * rstd * rstd / count),
                    false => (0.0, 0.0),
                };
                for image in 0..images.batch {
                    let (at, pixels) = (images.at(image, channel), images.pixels);
                    let part = image * pixels..(image + 1) * pixels;
                    // SAFETY: each channel has its own part of the output.
                    unsafe {
                        out.compute(at, pixels, &mut result, |out| {
                            let (g, x) = (&g[part.clone()], &d[part]);
                            gradient(g, x, mean, (of_g, of_d, factor), out);
                        });
                    }
                }
            }
        });
    });
    Ok(())
}

vectorised! {
    /// Computes (x - mean) · factor + bias, for these three.
    fn normalise<T: Real>(x: &[T], factors: (T, T, T), out: &mut [T]) {
        let (mean, factor, bias) = factors;
        out.iter_mut().zip(x).for_each(|(out, &v)| *out = (v - mean) * factor + bias);
    }

    /// Returns the sums of g and of g · (x - mean).
    fn sums<T: Real>(g: &[T], x: &[T], mean: T) -> (T, T) {
        let [sum, dot] = sums_of([g, x], |[g, x]| [g, g * (x - mean)]);
        (sum, dot)
    }

    /// Computes (g - a - (x - mean) · b) · factor, for the factors (a, b, factor).
    fn gradient<T: Real>(g: &[T], x: &[T], mean: T, factors: (T, T, T), out: &mut [T]) {
        let (of_g, of_d, factor) = factors;
        for ((out, &g), &x) in out.iter_mut().zip(g).zip(x) {
            *out = (g - of_g - (x - mean) * of_d) * factor;
        }
    }
}
