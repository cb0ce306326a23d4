//! Kernels of the ops in `millstream_ops::batch_norm`, by channel.

use anyhow::{Context, Result, ensure};
use millstream_ops::checks;

use super::Kernel;
use super::element::Element;
use super::memory::may_overlap;
use super::norm::{load_all, moments};
use super::optional_inputs::{operands, required};
use super::pairwise::pairwise_sum;
use super::real::{Real, reals};
use super::strided::{BLOCK, Sequence};
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

    /// Calls `f` with the channels of each task.
    fn for_each(&self, ctx: &KernelCtx<'_>, f: impl Fn(std::ops::Range<usize>) + Sync + Send) {
        let at_once = (BLOCK / self.of_channel().max(1)).max(1);
        let count = self.channels;
        ctx.for_each(count.div_ceil(at_once), |task| {
            f(task * at_once..count.min((task + 1) * at_once));
        });
    }

    fn load<T: Real>(&self, x: &Sequence, channel: usize, to: &mut [T]) {
        for (image, to) in to.chunks_mut(self.pixels.max(1)).enumerate() {
            x.load((image * self.channels + channel) * self.pixels, to);
        }
    }

    fn store<T: Real>(&self, x: &Sequence, channel: usize, from: &[T]) {
        for (image, from) in from.chunks(self.pixels.max(1)).enumerate() {
            x.store((image * self.channels + channel) * self.pixels, from);
        }
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
                [weight, bias, running_mean, running_var].map(|t| load_all::<T>(t)),
                [running_mean, running_var].map(|t| t.map(|t| Sequence::new(t))),
                Sequence::new(x),
                stored.map(|t| Sequence::new(t)),
            )
        };
        let [weight, bias, old_mean, old_variance] = parameters;
        let of = |v: &Option<Vec<T>>, channel: usize, other: T| {
            v.as_ref().map_or(other, |v| v[channel])
        };
        // SAFETY: without training, the call writes its outputs alone.
        let in_memory = if training { None } else { unsafe { x.slice::<T>() } };
        images.for_each(ctx, |channels| {
            let mut values = vec![T::ZERO; images.of_channel()];
            let mut spare = values.clone();
            for channel in channels {
                if training || in_memory.is_none() || out.direct::<T>().is_none() {
                    images.load(&x, channel, &mut values);
                }
                let mut mean = of(&old_mean, channel, 0.0);
                let mut variance = of(&old_variance, channel, 1.0);
                if training {
                    let (old_mean, old_variance) = (mean, variance);
                    (mean, variance) = moments(&values, &mut spare);
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
                let factor = rstd * weight;
                if !training && let (Some(x), Some(out)) = (in_memory, out.direct::<T>()) {
                    for image in 0..images.batch {
                        let at = (image * images.channels + channel) * images.pixels;
                        // SAFETY: outputs of the call, whose elements follow one another; each
                        // channel has its own part of them.
                        let out = unsafe {
                            std::slice::from_raw_parts_mut(out.add(at), images.pixels)
                        };
                        for (out, &v) in out.iter_mut().zip(&x[at..at + images.pixels]) {
                            *out = (v - mean) * factor + bias;
                        }
                    }
                    continue;
                }
                values.iter_mut().for_each(|v| *v = (*v - mean) * factor + bias);
                images.store(&out, channel, &values);
            }
        });
    });
    Ok(())
}

/// `native_batch_norm_backward(grad, x, weight?, running_mean?, running_var?, save_mean?,
/// save_invstd?; train, eps, output_mask)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let wanted = checks::mask(ctx.attrs(), 3)?;
    let ([grad, x, weight, running_mean, running_var, mean, rstd], results) =
        operands::<7>(ctx, wanted.iter().filter(|w| **w).count())?;
    let (grad, x) = (required(grad)?, required(x)?);
    let images = Images::new(&x)?;
    let train = ctx.attrs().bool("train")?.context("train: missing; this argument is required")?;
    ensure!(grad.shape == x.shape, "{grad:?}: schema and kernel disagree");
    let mut results = results.into_iter();
    let mut next = |wanted: bool| if wanted { results.next() } else { None };
    let outs = [next(wanted[0]), next(wanted[1]), next(wanted[2])];
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
                load_all::<T>(weight),
                load_all::<T>(Some(mean)).unwrap_or_default(),
                load_all::<T>(Some(deviation)).unwrap_or_default(),
                Sequence::new(grad),
                Sequence::new(x),
                outs.map(|t| t.map(|t| Sequence::new(t))),
            )
        };
        if !train {
            rstds.iter_mut().for_each(|v| *v = (*v + eps).sqrt().recip());
        }
        images.for_each(ctx, |channels| {
            let mut g = vec![T::ZERO; images.of_channel()];
            let (mut d, mut spare) = (g.clone(), g.clone());
            let count = g.len() as T;
            for channel in channels {
                let (mean, rstd) = (means[channel], rstds[channel]);
                images.load(&grad, channel, &mut g);
                images.load(&x, channel, &mut d);
                d.iter_mut().for_each(|d| *d -= mean);
                for ((s, &g), &d) in spare.iter_mut().zip(&g).zip(&d) {
                    *s = g * d;
                }
                let (sum, dot) = (pairwise_sum(&g), pairwise_sum(&spare));
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
                for (g, &d) in g.iter_mut().zip(&d) {
                    *g = (*g - of_g - d * of_d) * factor;
                }
                images.store(out, channel, &g);
            }
        });
    });
    Ok(())
}
