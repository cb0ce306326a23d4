//! Kernels of reductions of segments, and of fractional pooling.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::choice;

use super::strided::{Sequence, load_all, store_all};
use super::{Kernel, Written};
use crate::context::{KernelCtx, RawTensor};

/// The kernels, with the operands that they write.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[
    (("segment_reduce", reduce), Written::Last(1)),
    (("segment_reduce_backward", backward), Written::Last(1)),
    (("fractional_max_pool", pool), Written::Last(2)),
];

/// The segments of a call.
struct Segments {
    mode: String,
    initial: Option<f64>,
    lengths: Vec<i64>,
    /// The number of lists of lengths, and of segments of each.
    outer: usize,
    count: usize,
    /// The length of the dimension, and the elements behind it.
    length: usize,
    inner: usize,
}

impl Segments {
    fn of(ctx: &KernelCtx<'_>, data: RawTensor<'_>, lengths: RawTensor<'_>) -> Result<Segments> {
        let mode = choice(ctx.attrs(), "reduce", &["sum", "mean", "max", "min", "prod"])?;
        let mode = mode.context("reduce: missing")?.to_owned();
        let axis = ctx.attrs().int("axis")?.unwrap_or(0) as usize;
        ensure!(axis < data.shape.len() && axis + 1 == lengths.shape.len(), "schemas disagree");
        let segments = Segments {
            mode,
            initial: ctx.attrs().float("initial")?,
            lengths: load_all(lengths),
            outer: data.shape[..axis].iter().product(),
            count: lengths.shape[axis],
            length: data.shape[axis],
            inner: data.shape[axis + 1..].iter().product(),
        };
        for list in segments.lengths.chunks(segments.count.max(1)) {
            let sum: i64 = list.iter().sum();
            let fits = list.iter().all(|&l| l >= 0) && sum <= segments.length as i64;
            ensure!(fits, "lengths: expected at most {} in all, got {list:?}", segments.length);
        }
        Ok(segments)
    }

    /// Calls `f` with each segment's number among the results, and the elements' numbers.
    fn visit(&self, mut f: impl FnMut(usize, &[usize])) {
        for outer in 0..self.outer {
            let mut start = 0;
            for segment in 0..self.count {
                let length = self.lengths[outer * self.count + segment] as usize;
                for inner in 0..self.inner {
                    let number = (outer * self.count + segment) * self.inner + inner;
                    let at = |k| (outer * self.length + k) * self.inner + inner;
                    let elements: Vec<usize> = (start..start + length).map(at).collect();
                    f(number, &elements);
                }
                start += length;
            }
        }
    }
}

/// `segment_reduce(data, lengths; reduce, axis, initial)`.
fn reduce(ctx: &KernelCtx<'_>) -> Result<()> {
    let (data, out) = (ctx.operand(0)?, ctx.operand(2)?);
    let segments = Segments::of(ctx, data, ctx.operand(1)?)?;
    let values: Vec<f64> = load_all(data);
    let mut made = vec![0f64; out.numel()];
    let start = segments.initial.unwrap_or(match segments.mode.as_str() {
        "max" => f64::NEG_INFINITY,
        "min" => f64::INFINITY,
        "prod" => 1.0,
        _ => 0.0,
    });
    segments.visit(|number, elements| {
        let mut total = start;
        for v in elements.iter().map(|&at| values[at]) {
            total = match segments.mode.as_str() {
                "max" if v > total || v.is_nan() => v,
                "min" if v < total || v.is_nan() => v,
                "max" | "min" => total,
                "prod" => total * v,
                _ => total + v,
            };
        }
        if segments.mode == "mean" {
            match elements.len() {
                0 if segments.initial.is_none() => total = f64::NAN,
                0 => {}
                count => total /= count as f64,
            }
        }
        made[number] = total;
    });
    store_all(out, &made)
}

/// `segment_reduce_backward(grad, out, data, lengths; …)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (data, made) = (ctx.operand(2)?, ctx.operand(4)?);
    let segments = Segments::of(ctx, data, ctx.operand(3)?)?;
    let (grads, results): (Vec<f64>, Vec<f64>) =
        (load_all(ctx.operand(0)?), load_all(ctx.operand(1)?));
    let values: Vec<f64> = load_all(data);
    let mut slopes = vec![0f64; values.len()];
    let start = segments.initial.unwrap_or(1.0);
    segments.visit(|number, elements| {
        let (grad, result) = (grads[number], results[number]);
        match segments.mode.as_str() {
            "max" | "min" => {
                let hits = |at: &&usize| values[**at].is_nan() || values[**at] == result;
                let count = elements.iter().filter(hits).count() as f64;
                for &at in elements.iter().filter(hits) {
                    slopes[at] = grad / count;
                }
            }
            "prod" => {
                for (k, &at) in elements.iter().enumerate() {
                    let others = elements.iter().enumerate().filter(|(j, _)| *j != k);
                    slopes[at] = grad * others.fold(start, |p, (_, &at)| p * values[at]);
                }
            }
            "mean" => elements.iter().for_each(|&at| slopes[at] = grad / elements.len() as f64),
            _ => elements.iter().for_each(|&at| slopes[at] = grad),
        }
    });
    store_all(made, &slopes)
}

/// Returns the starts of windows along a dimension, computed in f32 unless the sample is f64.
fn starts(sample: f64, length: usize, count: usize, size: usize, wide: bool) -> Vec<usize> {
    let last = length - size;
    let start = |k: usize| {
        if k + 1 == count {
            return last;
        }
        match wide {
            true => {
                let alpha = last as f64 / (count - 1) as f64;
                ((k as f64 + sample) * alpha) as usize - (sample * alpha) as usize
            }
            false => {
                let (sample, alpha) = (sample as f32, last as f32 / (count - 1) as f32);
                ((k as f32 + sample) * alpha) as usize - (sample * alpha) as usize
            }
        }
    };
    (0..count).map(start).collect()
}

/// `fractional_max_pool(x, samples; kernel_size, output_size)`. As in PyTorch, the samples of an
/// image are those of its dimensions in reverse order, and those of a volume in order.
fn pool(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, samples) = (ctx.operand(0)?, ctx.operand(1)?);
    let (out, indices) = (ctx.operand(2)?, ctx.operand(3)?);
    let kernel = ctx.attrs().ints("kernel_size")?.context("kernel_size: missing")?;
    let dims = kernel.len();
    let outer = x.shape.len() - dims;
    let (lengths, counts) = (x.shape[outer..].to_vec(), out.shape[outer..].to_vec());
    let elements: usize = lengths.iter().product();
    let results: usize = counts.iter().product();
    let planes: usize = x.shape[..outer].iter().product();
    let drawn: Vec<f64> = load_all(samples);
    let wide = x.dtype == millstream_types::DType::F64;
    // SAFETY: operands of the call; each plane of the outputs is stored by one thread.
    let (from, to, at) = unsafe { (Sequence::new(x), Sequence::new(out), Sequence::new(indices)) };
    ctx.for_each(planes, |plane| {
        let mut image = vec![0f64; elements];
        from.load(plane * elements, &mut image);
        let windows: Vec<Vec<usize>> = (0..dims)
            .map(|k| {
                let sample = drawn[plane * dims + if dims == 2 { 1 - k } else { k }];
                starts(sample, lengths[k], counts[k], kernel[k] as usize, wide)
            })
            .collect();
        let (mut values, mut positions) = (vec![0f64; results], vec![0i64; results]);
        let volume: usize = kernel.iter().map(|&k| k as usize).product();
        for result in 0..results {
            let (mut rest, mut first) = (result, vec![0; dims]);
            for k in (0..dims).rev() {
                first[k] = windows[k][rest % counts[k]];
                rest /= counts[k];
            }
            let (mut best, mut position) = (f64::NEG_INFINITY, 0);
            for number in 0..volume {
                let (mut rest, mut within) = (number, vec![0; dims]);
                for k in (0..dims).rev() {
                    within[k] = rest % kernel[k] as usize;
                    rest /= kernel[k] as usize;
                }
                let offset = (0..dims).fold(0, |o, k| o * lengths[k] + first[k] + within[k]);
                if number == 0 || image[offset] > best || image[offset].is_nan() {
                    (best, position) = (image[offset], offset as i64);
                }
            }
            (values[result], positions[result]) = (best, position);
        }
        to.store(plane * results, &values);
        at.store(plane * results, &positions);
    });
    Ok(())
}
