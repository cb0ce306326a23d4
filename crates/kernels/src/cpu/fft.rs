//! Kernels of the discrete Fourier transforms, by `rustfft`, in f64 and rounded once.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use millstream_ops::args::dimension;
use num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use super::strided::Sequence;
use super::{Kernel, Written};
use crate::context::{KernelCtx, RawTensor};

/// The kernels, with the operands that they write.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[
    (("_fft_c2c", between_complex), Written::Last(1)),
    (("_fft_r2c", from_real), Written::Last(1)),
    (("_fft_c2r", to_real), Written::Last(1)),
];

/// The number of elements of a task.
const TASK: usize = 1 << 14;

type C = Complex<f64>;

/// Elements in row-major order.
struct Block {
    shape: Vec<usize>,
    elements: Vec<C>,
}

impl Block {
    fn load(x: RawTensor<'_>) -> Block {
        let mut elements = vec![C::new(0.0, 0.0); x.numel()];
        // SAFETY: an operand of the call, only read here.
        unsafe { Sequence::new(x) }.load(0, &mut elements);
        Block { shape: x.shape.to_vec(), elements }
    }

    fn store(&self, out: RawTensor<'_>) -> Result<()> {
        ensure!(out.shape == self.shape, "{out:?}: schema and kernel disagree");
        // SAFETY: the output of the call, which this thread alone writes.
        unsafe { Sequence::new(out) }.store(0, &self.elements);
        Ok(())
    }

    /// Returns the number of elements between neighbours along a dimension.
    fn step(&self, dim: usize) -> usize {
        self.shape[dim + 1..].iter().product()
    }

    /// Transforms all lines along a dimension, in place.
    fn transform(&mut self, ctx: &KernelCtx<'_>, dim: usize, fft: &Arc<dyn Fft<f64>>) {
        let (length, step) = (self.shape[dim], self.step(dim));
        if length < 2 || self.elements.is_empty() {
            return;
        }
        // A group of lines that lie in one run of elements.
        let run = length * step;
        let groups = (TASK / run).max(1) * run;
        let parts: Vec<Mutex<&mut [C]>> =
            self.elements.chunks_mut(groups).map(Mutex::new).collect();
        ctx.for_each(parts.len(), |part| {
            let mut part = parts[part].lock().unwrap_or_else(PoisonError::into_inner);
            let mut scratch = vec![C::new(0.0, 0.0); fft.get_inplace_scratch_len()];
            let mut lines = vec![C::new(0.0, 0.0); if step == 1 { 0 } else { run }];
            for run in part.chunks_mut(run) {
                if step == 1 {
                    fft.process_with_scratch(run, &mut scratch);
                    continue;
                }
                for (at, &v) in run.iter().enumerate() {
                    lines[at % step * length + at / step] = v;
                }
                fft.process_with_scratch(&mut lines, &mut scratch);
                for (at, v) in run.iter_mut().enumerate() {
                    *v = lines[at % step * length + at / step];
                }
            }
        });
    }

    /// Returns the elements at these positions along a dimension: the position of each in this
    /// block, and whether the conjugate is meant.
    fn picked(&self, dim: usize, positions: &[(usize, bool)]) -> Block {
        let (length, step) = (self.shape[dim], self.step(dim));
        let mut shape = self.shape.clone();
        shape[dim] = positions.len();
        let mut elements = Vec::with_capacity(shape.iter().product());
        for run in self.elements.chunks(length * step.max(1)) {
            for &(position, conjugate) in positions {
                let line = &run[position * step..(position + 1) * step];
                elements.extend(line.iter().map(|v| if conjugate { v.conj() } else { *v }));
            }
        }
        Block { shape, elements }
    }

    fn scale(&mut self, factor: f64) {
        if factor != 1.0 {
            self.elements.iter_mut().for_each(|v| *v *= factor);
        }
    }
}

/// Returns the transformed dimensions.
fn dims(ctx: &KernelCtx<'_>, rank: usize) -> Result<Vec<usize>> {
    let given = ctx.attrs().ints("dim")?.context("dim: missing; this argument is required")?;
    given.iter().map(|&dim| Ok(dimension(dim, rank)?)).collect()
}

/// Returns the factor of the result for these transformed lengths.
fn factor(ctx: &KernelCtx<'_>, lengths: impl Iterator<Item = usize>) -> Result<f64> {
    let count: f64 = lengths.map(|length| length as f64).product();
    Ok(match ctx.attrs().int("normalization")?.unwrap_or(0) {
        1 => 1.0 / count.sqrt(),
        2 => 1.0 / count,
        _ => 1.0,
    })
}

fn plan(planner: &mut FftPlanner<f64>, length: usize, forward: bool) -> Arc<dyn Fft<f64>> {
    match forward {
        true => planner.plan_fft_forward(length),
        false => planner.plan_fft_inverse(length),
    }
}

/// `_fft_c2c(x; dim, normalization, forward)`.
fn between_complex(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let forward = ctx.attrs().bool("forward")?.unwrap_or(true);
    let mut block = Block::load(x);
    let mut planner = FftPlanner::new();
    let dims = dims(ctx, x.shape.len())?;
    for &dim in &dims {
        block.transform(ctx, dim, &plan(&mut planner, x.shape[dim], forward));
    }
    block.scale(factor(ctx, dims.iter().map(|&dim| x.shape[dim]))?);
    block.store(out)
}

/// `_fft_r2c(x; dim, normalization, onesided)`.
fn from_real(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let mut block = Block::load(x);
    let mut planner = FftPlanner::new();
    let dims = dims(ctx, x.shape.len())?;
    let last = *dims.last().context("dim: expected a dimension")?;
    block.transform(ctx, last, &plan(&mut planner, x.shape[last], true));
    let kept: Vec<_> = (0..out.shape[last]).map(|k| (k, false)).collect();
    let mut block = block.picked(last, &kept);
    for &dim in &dims[..dims.len() - 1] {
        block.transform(ctx, dim, &plan(&mut planner, x.shape[dim], true));
    }
    block.scale(factor(ctx, dims.iter().map(|&dim| x.shape[dim]))?);
    block.store(out)
}

/// `_fft_c2r(x; dim, normalization, last_dim_size)`.
fn to_real(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let mut block = Block::load(x);
    let mut planner = FftPlanner::new();
    let dims = dims(ctx, x.shape.len())?;
    let last = *dims.last().context("dim: expected a dimension")?;
    for &dim in &dims[..dims.len() - 1] {
        block.transform(ctx, dim, &plan(&mut planner, x.shape[dim], false));
    }
    // The second half of the spectrum of a real signal mirrors the first.
    let length = out.shape[last];
    let mirrored: Vec<_> = (0..length)
        .map(|k| if k <= length / 2 { (k, false) } else { (length - k, true) })
        .collect();
    let mut block = block.picked(last, &mirrored);
    block.transform(ctx, last, &plan(&mut planner, length, false));
    block.scale(factor(ctx, dims.iter().map(|&dim| out.shape[dim]))?);
    block.store(out)
}
