//! Kernels of the ops in `millstream_ops::dropout`.

use anyhow::{Context, Result};

use super::Kernel;
use super::element::Element;
use super::indexed::in_chunks;
use super::random::{is_below, random_bits};
use super::random_numbers::Words;
use super::real::reals;
use super::strided::{CHUNK, Sequence};
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[("native_dropout", dropout)];

/// `native_dropout(x; p, train, seed, offset)`.
fn dropout(ctx: &KernelCtx<'_>) -> Result<()> {
    let last = ctx.operands() - 1;
    let (x, out, mask) = (ctx.operand(0)?, ctx.operand(last - 1)?, ctx.operand(last)?);
    let bits = random_bits(ctx, (last > 2).then_some(1))?;
    let p = ctx.attrs().float("p")?.context("p: missing; this argument is required")?;
    let dropped = if ctx.attrs().bool("train")?.unwrap_or(true) { p } else { 0.0 };
    let scale = if dropped < 1.0 { 1.0 / (1.0 - dropped) } else { 0.0 };
    let count = x.numel();
    let words = Words::of(ctx, x.shape, bits)?;
    // SAFETY: operands of the call; the last two are its outputs, blocks of which are disjoint.
    let (from, to, kept) = unsafe { (Sequence::new(x), Sequence::new(out), Sequence::new(mask)) };
    reals!(out.dtype, T => {
        in_chunks(ctx, count, || [[T::ZERO; CHUNK]; 2], |[values, keeps], at, part| {
            from.load(at, &mut values[..part]);
            words.for_each(at, part, |k, word| {
                keeps[k] = T::from(u8::from(is_below(word, 1.0 - dropped)));
            });
            for (v, &keep) in values[..part].iter_mut().zip(keeps.iter()) {
                *v = *v * keep * scale as T;
            }
            to.store(at, &values[..part]);
            kept.store(at, &keeps[..part]);
        });
    });
    Ok(())
}
