//! The kernels of `masked_select` and `nonzero`. `masked_select` counts the mask block by block,
//! then each block writes after the elements of the blocks before it.

use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use millstream_ops::broadcast::broadcast;
use millstream_ops::masked_select::SELECT_BLOCK;
use millstream_types::DType;
use millstream_types::layout::numel;

use super::Kernel;
use super::element::{Bool, Element, dispatch};
use super::loops::Loop;
use super::memory::{Workspace, expect_dtype};
use super::strided::{CHUNK, Sequence};
use super::traversal::Order;
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[("masked_select", masked_select), ("nonzero", nonzero)];

/// `nonzero(x)`.
fn nonzero(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out, count) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    expect_dtype(&out, DType::I64)?;
    expect_dtype(&count, DType::I64)?;
    let (all, rank) = (x.numel(), x.shape.len());
    ensure!(*out.shape == [all, rank], "{x:?} to {out:?}: schema and kernel disagree");
    // SAFETY: operands of the call, the first only read; everything runs on this thread.
    let (elements, rows, count) =
        unsafe { (Sequence::new(x), Sequence::new(out), Sequence::new(count)) };
    let mut found = 0;
    let (mut buffer, mut index) = ([Bool::ZERO; CHUNK], vec![0i64; rank]);
    for at in (0..all).step_by(CHUNK) {
        let buffer = &mut buffer[..CHUNK.min(all - at)];
        elements.load(at, buffer);
        for (k, _) in buffer.iter().enumerate().filter(|(_, v)| v.get()) {
            let mut rest = at + k;
            for (position, &length) in index.iter_mut().zip(x.shape).rev() {
                *position = (rest % length) as i64;
                rest /= length;
            }
            rows.store(found * rank, &index);
            found += 1;
        }
    }
    count.store(0, &[found as i64]);
    Ok(())
}

/// `masked_select(x, mask)`.
fn masked_select(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, mask) = (ctx.operand(0)?, ctx.operand(1)?);
    let (out, count) = (ctx.operand(2)?, ctx.operand(3)?);
    expect_dtype(&mask, DType::Bool)?;
    expect_dtype(&count, DType::I64)?;
    expect_dtype(&out, x.dtype)?;
    let shape = broadcast(x.shape, mask.shape)?;
    let bound = numel(&shape);
    let agree = out.numel() >= bound && count.numel() == 1;
    ensure!(agree, "{out:?} for {shape:?}: schema and kernel disagree");

    let words = Workspace::of(ctx).words(ctx, bound.div_ceil(SELECT_BLOCK))?;
    // SAFETY: operands of the call, only read here.
    let both = unsafe { Loop::new(&shape, [x, mask], Order::RowMajor) }?;
    let tally = |block| (block, [Bool::ZERO; CHUNK]);
    both.for_each(ctx, SELECT_BLOCK, tally, |(block, flags), [_, mask]| {
        let mut taken = 0;
        for at in (0..mask.len()).step_by(CHUNK) {
            let flags = &mut flags[..CHUNK.min(mask.len() - at)];
            mask.load(at, flags);
            taken += flags.iter().filter(|f| f.get()).count() as u64;
        }
        words[*block].fetch_add(taken, Relaxed);
    });
    let mut total = 0;
    for word in words {
        total += word.swap(total, Relaxed);
    }

    // SAFETY: outputs of the call. The counts give each block a range of its own.
    let (to, count) = unsafe { (Sequence::new(out), Sequence::new(count)) };
    dispatch!(out.dtype, T => {
        let init = |block: usize| {
            (words[block].load(Relaxed) as usize, [T::ZERO; CHUNK], [Bool::ZERO; CHUNK])
        };
        both.for_each(ctx, SELECT_BLOCK, init, |(next, values, flags), [x, mask]| {
            for at in (0..x.len()).step_by(CHUNK) {
                let part = CHUNK.min(x.len() - at);
                let (values, flags) = (&mut values[..part], &mut flags[..part]);
                x.load(at, values);
                mask.load(at, flags);
                let mut kept = 0;
                for k in 0..part {
                    if flags[k].get() {
                        values[kept] = values[k];
                        kept += 1;
                    }
                }
                to.store(*next, &values[..kept]);
                *next += kept;
            }
        });
    });
    count.store(0, &[total as i64]);
    Ok(())
}
