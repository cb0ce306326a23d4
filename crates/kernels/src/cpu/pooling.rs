//! Kernels of the ops in `millstream_ops::pooling`, by image.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use millstream_ops::pooling::{Windows, windows};

use super::Kernel;
use super::compute::Compute;
use super::element::Element;
use super::element::compute;
use super::indexed::in_ranges;
use super::real::reals;
use super::strided::Sequence;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("max_pool2d_with_indices", max),
    ("max_pool2d_with_indices_backward", max_backward),
    ("avg_pool2d", |ctx| forward(ctx, false)),
    ("avg_pool2d_backward", |ctx| backward(ctx, false)),
    ("_adaptive_avg_pool2d", |ctx| forward(ctx, true)),
    ("_adaptive_avg_pool2d_backward", |ctx| backward(ctx, true)),
];

/// Returns the number of pixels of one image.
fn pixels(tensor: &RawTensor<'_>) -> Result<usize> {
    let rank = tensor.shape.len();
    ensure!(rank >= 3, "{tensor:?}: schema and kernel disagree");
    Ok(tensor.shape[rank - 2..].iter().product())
}

/// Calls `f` with the images of each task; `work` is the number of elements accessed per image.
fn for_images(
    ctx: &KernelCtx<'_>,
    x: &RawTensor<'_>,
    work: usize,
    f: impl Fn(Range<usize>) + Sync + Send,
) {
    let images: usize = x.shape[..x.shape.len() - 2].iter().product();
    in_ranges(ctx, images, work, f);
}

/// `max_pool2d_with_indices(x; ..)`.
fn max(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out, indices) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let windows = windows(ctx.attrs(), x.shape)?;
    let (in_pixels, out_pixels) = (pixels(&x)?, pixels(&out)?);
    ensure!(
        out_pixels == windows[0].count * windows[1].count,
        "{out:?}: schema and kernel disagree"
    );
    // SAFETY: operands of the call; only its outputs are written, and each image has its own part
    // of them.
    let (from, out, indices) =
        unsafe { (Sequence::new(x), Sequence::new(out), Sequence::new(indices)) };
    compute!(x.dtype, T => {
        for_images(ctx, &x, in_pixels + out_pixels, |images| {
            let mut image = vec![T::ZERO; in_pixels];
            let mut greatest = vec![T::ZERO; out_pixels];
            let mut at = vec![0i64; out_pixels];
            for number in images {
                from.load(number * in_pixels, &mut image);
                maxima(&windows, &image, &mut greatest, &mut at);
                out.store(number * out_pixels, &greatest);
                indices.store(number * out_pixels, &at);
            }
        });
    });
    Ok(())
}

/// Returns the range of window `number` along one dimension inside the image, and its step.
fn window(w: &Windows, number: usize) -> (Range<usize>, usize) {
    let from = number * w.stride;
    // The first element of the window outside of the padding.
    let skipped = w.padding.saturating_sub(from).div_ceil(w.dilation);
    let end = from + (w.kernel - 1) * w.dilation + 1;
    let end = end.saturating_sub(w.padding).min(w.length);
    (from + skipped * w.dilation - w.padding..end, w.dilation)
}

fn maxima<T: Compute>(
    [down, across]: &[Windows; 2],
    image: &[T],
    greatest: &mut [T],
    at: &mut [i64],
) {
    let width = across.length;
    let columns: Vec<_> = (0..across.count).map(|k| window(across, k)).collect();
    let outs = greatest.chunks_exact_mut(across.count).zip(at.chunks_exact_mut(across.count));
    for (number, (greatest, at)) in outs.enumerate() {
        let (rows, step) = window(down, number);
        for ((columns, step_across), (greatest, at)) in
            columns.iter().zip(greatest.iter_mut().zip(at))
        {
            (*greatest, *at) = (T::LEAST, (rows.start * width + columns.start) as i64);
            // Not `step_by`, which divides at the start of every window.
            let mut row = rows.start;
            while row < rows.end {
                let mut column = columns.start;
                while column < columns.end {
                    let v = image[row * width + column];
                    if v > *greatest || v.unordered() {
                        (*greatest, *at) = (v, (row * width + column) as i64);
                    }
                    column += step_across;
                }
                row += step;
            }
        }
    }
}

/// `max_pool2d_with_indices_backward(grad, x, indices; ..)`.
fn max_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, indices, out) = (ctx.operand(0)?, ctx.operand(2)?, ctx.operand(3)?);
    let (in_pixels, out_pixels) = (pixels(&out)?, pixels(&grad)?);
    ensure!(indices.shape == grad.shape, "{indices:?}: schema and kernel disagree");
    let wrong = AtomicU64::new(u64::MAX);
    // SAFETY: an operand of the call.
    let indices = unsafe { Sequence::new(indices) };
    reals!(grad.dtype, T => {
        // SAFETY: operands of the call; only its output is written, and each image
        // has its own part of it.
        let (from, to) = unsafe { (Sequence::new(grad), Sequence::new(out)) };
        for_images(ctx, &out, in_pixels + out_pixels, |images| {
            let mut image = vec![T::ZERO; in_pixels];
            let mut grads = vec![T::ZERO; out_pixels];
            let mut at = vec![0i64; out_pixels];
            for number in images {
                from.load(number * out_pixels, &mut grads);
                indices.load(number * out_pixels, &mut at);
                image.fill(T::ZERO);
                for (k, (&at, &g)) in at.iter().zip(&grads).enumerate() {
                    match usize::try_from(at).ok().and_then(|at| image.get_mut(at)) {
                        Some(to) => *to += g,
                        None => {
                            wrong.fetch_min((number * out_pixels + k) as u64, Relaxed);
                        }
                    }
                }
                to.store(number * in_pixels, &image);
            }
        });
    });
    let wrong = wrong.into_inner();
    if wrong != u64::MAX {
        let mut at = [0i64];
        indices.load(wrong as usize, &mut at);
        anyhow::bail!("indices: {} at {wrong}: expected 0 to {}", at[0], in_pixels - 1);
    }
    Ok(())
}

/// The range of a window inside the image, and its length including the padding.
type Part = (Range<usize>, usize);

/// The windows and divisors of means, along both dimensions.
struct Means {
    parts: [Vec<Part>; 2],
    width: usize,
    /// Whether the divisor includes the padding.
    padded: bool,
    divisor: Option<i64>,
}

impl Means {
    fn windows(ctx: &KernelCtx<'_>, x: &RawTensor<'_>) -> Result<Means> {
        let windows = windows(ctx.attrs(), x.shape)?;
        let part = |w: &Windows, number: usize| {
            let from = number * w.stride;
            let to = (from + w.kernel).min(w.length + 2 * w.padding);
            let inside = |at: usize| at.saturating_sub(w.padding).min(w.length);
            (inside(from)..inside(to), to - from)
        };
        let parts = windows.map(|w| (0..w.count).map(|k| part(&w, k)).collect());
        Ok(Means {
            parts,
            width: windows[1].length,
            padded: ctx.attrs().bool("count_include_pad")?.unwrap_or(true),
            divisor: ctx.attrs().int("divisor_override")?,
        })
    }

    /// Returns adaptive windows, which cover the input evenly.
    fn adaptive(input: &RawTensor<'_>, output: &RawTensor<'_>) -> Means {
        let last = |t: &RawTensor<'_>| [t.shape[t.shape.len() - 2], t.shape[t.shape.len() - 1]];
        let (input, output) = (last(input), last(output));
        let part = |length: usize, count: usize, k: usize| {
            // u128 holds the product of any two lengths.
            let at = |k: usize| (k as u128) * (length as u128);
            let from = (at(k) / count as u128) as usize;
            let to = at(k + 1).div_ceil(count as u128) as usize;
            (from..to, to - from)
        };
        let parts = [0, 1].map(|k| (0..output[k]).map(|n| part(input[k], output[k], n)).collect());
        Means { parts, width: input[1], padded: false, divisor: None }
    }

    fn divisor(&self, (rows, height): &Part, (columns, width): &Part) -> f64 {
        match (self.divisor, self.padded) {
            (Some(divisor), _) => divisor as f64,
            (None, true) => (height * width) as f64,
            (None, false) => (rows.len() * columns.len()) as f64,
        }
    }

    /// Calls `f` with the number, rows, columns and divisor of every window.
    fn each(&self, mut f: impl FnMut(usize, &Range<usize>, &Range<usize>, f64)) {
        let mut number = 0;
        for down in &self.parts[0] {
            for across in &self.parts[1] {
                f(number, &down.0, &across.0, self.divisor(down, across));
                number += 1;
            }
        }
    }

    fn forward(&self, ctx: &KernelCtx<'_>, x: RawTensor<'_>, out: RawTensor<'_>) -> Result<()> {
        if x.dtype.is_int() {
            // Means of integers are truncated.
            return self.means(ctx, x, out, |sum: i64, divisor| {
                sum.checked_div(divisor as i64).unwrap_or(0)
            });
        }
        reals!(x.dtype, T => self.means(ctx, x, out, |sum: T, divisor| sum / divisor as T))
    }

    fn means<T: Compute>(
        &self,
        ctx: &KernelCtx<'_>,
        x: RawTensor<'_>,
        out: RawTensor<'_>,
        divide: impl Fn(T, f64) -> T + Sync + Send,
    ) -> Result<()> {
        let (in_pixels, out_pixels) = (pixels(&x)?, pixels(&out)?);
        ensure!(x.dtype == out.dtype, "{out:?}: schema and kernel disagree");
        // SAFETY: operands of the call; only its output is written, and each image has its own part
        // of it.
        let (from, to) = unsafe { (Sequence::new(x), Sequence::new(out)) };
        for_images(ctx, &x, in_pixels + out_pixels, |images| {
            let mut image = vec![T::ZERO; in_pixels];
            let mut means = vec![T::ZERO; out_pixels];
            for number in images {
                from.load(number * in_pixels, &mut image);
                self.each(|window, rows, columns, divisor| {
                    let mut sum = T::ZERO;
                    for row in rows.clone() {
                        let row = &image[row * self.width..(row + 1) * self.width];
                        sum =
                            sum.plus(row[columns.clone()].iter().fold(T::ZERO, |s, &v| s.plus(v)));
                    }
                    // A window that lies in the padding alone has a mean of 0.
                    let empty = rows.is_empty() || columns.is_empty();
                    means[window] = if empty { T::ZERO } else { divide(sum, divisor) };
                });
                to.store(number * out_pixels, &means);
            }
        });
        Ok(())
    }

    fn backward(&self, ctx: &KernelCtx<'_>, grad: RawTensor<'_>, out: RawTensor<'_>) -> Result<()> {
        let (in_pixels, out_pixels) = (pixels(&out)?, pixels(&grad)?);
        ensure!(grad.dtype == out.dtype, "{out:?}: schema and kernel disagree");
        reals!(grad.dtype, T => {
            // SAFETY: as in `means`.
            let (from, to) = unsafe { (Sequence::new(grad), Sequence::new(out)) };
            for_images(ctx, &out, in_pixels + out_pixels, |images| {
                let mut image = vec![T::ZERO; in_pixels];
                let mut grads = vec![T::ZERO; out_pixels];
                for number in images {
                    from.load(number * out_pixels, &mut grads);
                    image.fill(T::ZERO);
                    self.each(|window, rows, columns, divisor| {
                        let part = grads[window] / divisor as T;
                        for row in rows.clone() {
                            let row = &mut image[row * self.width..(row + 1) * self.width];
                            row[columns.clone()].iter_mut().for_each(|v| *v += part);
                        }
                    });
                    to.store(number * in_pixels, &image);
                }
            });
        });
        Ok(())
    }
}

/// Returns the windows of a call, from images to results.
fn means(
    ctx: &KernelCtx<'_>,
    adaptive: bool,
    images: &RawTensor<'_>,
    results: &RawTensor<'_>,
) -> Result<Means> {
    match adaptive {
        true => Ok(Means::adaptive(images, results)),
        false => Means::windows(ctx, images),
    }
}

/// `avg_pool2d(x; ..)` and `_adaptive_avg_pool2d(x; output_size)`.
fn forward(ctx: &KernelCtx<'_>, adaptive: bool) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    means(ctx, adaptive, &x, &out)?.forward(ctx, x, out)
}

/// `avg_pool2d_backward(grad, x; ..)` and `_adaptive_avg_pool2d_backward(grad, x)`.
fn backward(ctx: &KernelCtx<'_>, adaptive: bool) -> Result<()> {
    let (grad, out) = (ctx.operand(0)?, ctx.operand(2)?);
    means(ctx, adaptive, &out, &grad)?.backward(ctx, grad, out)
}
