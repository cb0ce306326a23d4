//! Kernels of the ops in `millstream_ops::random`.

use anyhow::{Context, Result};
use millstream_ops::random::{OFFSET, SEED};
use millstream_types::DType;

use super::Kernel;
use super::element::{Bool, Element};
use super::indexed::in_chunks;
use super::philox::{RandomBits, fraction, long_words};
use super::random_numbers::{Numbers, Words};
use super::strided::{CHUNK, Sequence};
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("uniform", |ctx| uniform(ctx, false)),
    ("uniform_", |ctx| uniform(ctx, true)),
    ("normal", |ctx| normal(ctx, false)),
    ("normal_", |ctx| normal(ctx, true)),
    ("exponential", |ctx| exponential(ctx, false)),
    ("exponential_", |ctx| exponential(ctx, true)),
    ("randint", |ctx| integers(ctx, false)),
    ("randint_", |ctx| integers(ctx, true)),
    ("bernoulli", bernoulli),
    ("bernoulli_", bernoulli_in_place),
];

/// Returns the target, and the random bits of a call.
fn target<'a>(ctx: &KernelCtx<'a>, in_place: bool) -> Result<(RawTensor<'a>, RandomBits)> {
    let last = ctx.operands() - 1;
    let (out, tensor) = match in_place {
        true => (ctx.operand(0)?, (last > 0).then_some(last)),
        false => (ctx.operand(last)?, (last > 0).then_some(0)),
    };
    Ok((out, random_bits(ctx, tensor)?))
}

/// Returns the random bits of a call, whose offset may be the operand at a position.
pub(super) fn random_bits(ctx: &KernelCtx<'_>, offset: Option<usize>) -> Result<RandomBits> {
    let number = |name| anyhow::Ok(ctx.attrs().int(name)?.unwrap_or(0) as u64);
    let offset = match offset {
        None => number(OFFSET)?,
        Some(at) => {
            let mut value = [0i64];
            // SAFETY: an operand of the call, which is only read.
            unsafe { Sequence::new(ctx.operand(at)?) }.load(0, &mut value);
            value[0] as u64
        }
    };
    Ok(RandomBits { seed: number(SEED)?, offset })
}

/// Sets the elements of a tensor, `N` from each block of random bits.
fn fill<T: Element, const N: usize>(
    ctx: &KernelCtx<'_>,
    out: RawTensor<'_>,
    bits: RandomBits,
    sample: impl Fn([u32; 4]) -> [T; N] + Sync + Send,
) -> Result<()> {
    let count = out.numel();
    if let Some(part) = Numbers::of(ctx, out.shape)? {
        // SAFETY: as below.
        let out = unsafe { Sequence::new(out) };
        in_chunks(
            ctx,
            count,
            || [T::ZERO; CHUNK],
            |buffer, at, length| {
                let values = &mut buffer[..length];
                part.blocks::<N>(at, length, |block, run, within| {
                    values[run].copy_from_slice(&sample(bits.words(block))[within]);
                });
                out.store(at, values);
            },
        );
        return Ok(());
    }
    // SAFETY: the tensor that the call writes; blocks of it are disjoint.
    let out = unsafe { Sequence::new(out) };
    in_chunks(
        ctx,
        count,
        || [T::ZERO; CHUNK],
        |buffer, at, length| {
            for (k, values) in buffer.chunks_exact_mut(N).enumerate() {
                values.copy_from_slice(&sample(bits.words((at / N + k) as u64)));
            }
            out.store(at, &buffer[..length]);
        },
    );
    Ok(())
}

/// Returns the number of bits of a dtype's precision, if below 32.
fn digits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F32 => Some(24),
        DType::F16 => Some(11),
        DType::BF16 => Some(8),
        _ => None,
    }
}

/// `uniform(; shape, from, to, dtype)` and `uniform_`.
fn uniform(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (out, bits) = target(ctx, in_place)?;
    let from = ctx.attrs().float("from")?.unwrap_or(0.0);
    let range = ctx.attrs().float("to")?.unwrap_or(1.0) - from;
    match digits(out.dtype) {
        Some(digits) => {
            let step = 1.0 / f64::from(1u32 << digits);
            fill(ctx, out, bits, |words| {
                words.map(|w| from + f64::from(w >> (32 - digits)) * step * range)
            })
        }
        None => fill(ctx, out, bits, |words| long_words(words).map(|x| from + fraction(x) * range)),
    }
}

/// `normal(; shape, mean, std, dtype)` and `normal_`.
fn normal(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (out, bits) = target(ctx, in_place)?;
    let mean = ctx.attrs().float("mean")?.unwrap_or(0.0);
    let std = ctx.attrs().float("std")?.unwrap_or(1.0);
    fill(ctx, out, bits, |words| {
        let [u, v] = long_words(words).map(fraction);
        let radius = (-2.0 * libm::log(1.0 - u)).sqrt();
        let (sin, cos) = libm::sincos(std::f64::consts::TAU * v);
        [cos, sin].map(|part| mean + radius * part * std)
    })
}

/// `exponential(; shape, lambd, dtype)` and `exponential_`.
fn exponential(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (out, bits) = target(ctx, in_place)?;
    let rate = ctx.attrs().float("lambd")?.unwrap_or(1.0);
    fill(ctx, out, bits, |words| long_words(words).map(|x| -libm::log(1.0 - fraction(x)) / rate))
}

/// `randint(; shape, low, high, dtype)` and `randint_`.
fn integers(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (out, bits) = target(ctx, in_place)?;
    let low = ctx.attrs().int("low")?.unwrap_or(0);
    let high = ctx.attrs().int("high")?.context("high: missing; this argument is required")?;
    let range = (high.wrapping_sub(low) as u64).max(1);
    fill(ctx, out, bits, |words| long_words(words).map(|x| low.wrapping_add((x % range) as i64)))
}

/// Returns whether a word is below a probability.
#[inline(always)]
pub(super) fn is_below(word: u32, p: f64) -> bool {
    f64::from(word) * (1.0 / (1u64 << 32) as f64) < p
}

/// Sets each element to 1 with a probability, else to 0.
fn draw(ctx: &KernelCtx<'_>, out: RawTensor<'_>, bits: RandomBits, p: f64) -> Result<()> {
    fill(ctx, out, bits, |words| words.map(|w| Bool::new(is_below(w, p))))
}

/// `bernoulli_(x; p)`.
fn bernoulli_in_place(ctx: &KernelCtx<'_>) -> Result<()> {
    let (out, bits) = target(ctx, true)?;
    draw(ctx, out, bits, ctx.attrs().float("p")?.unwrap_or(0.5))
}

/// `bernoulli(x; p)`.
fn bernoulli(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(ctx.operands() - 1)?);
    let bits = random_bits(ctx, (ctx.operands() > 2).then_some(1))?;
    if let Some(p) = ctx.attrs().float("p")? {
        return draw(ctx, out, bits, p);
    }
    let count = out.numel();
    let words = Words::of(ctx, out.shape, bits)?;
    // SAFETY: the call's operand and output; blocks of the output are disjoint.
    let (x, out) = unsafe { (Sequence::new(x), Sequence::new(out)) };
    let buffers = || ([0.0f64; CHUNK], [Bool::new(false); CHUNK]);
    in_chunks(ctx, count, buffers, |(shares, drawn), at, part| {
        x.load(at, &mut shares[..part]);
        words.for_each(at, part, |k, word| drawn[k] = Bool::new(is_below(word, shares[k])));
        out.store(at, &drawn[..part]);
    });
    Ok(())
}
