//! Random numbers, and dropout.

use std::ffi::CString;

use anyhow::{Context, Result};
use millstream_ops::random::{OFFSET, Part, SEED, part};
use millstream_types::{AttrValue, DType, ScalarUse};

use super::native;
use super::strided::{StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] = &[
    ("uniform", |ctx| fill(ctx, UNIFORM, false)),
    ("uniform_", |ctx| fill(ctx, UNIFORM, true)),
    ("normal", |ctx| fill(ctx, NORMAL, false)),
    ("normal_", |ctx| fill(ctx, NORMAL, true)),
    ("exponential", |ctx| fill(ctx, EXPONENTIAL, false)),
    ("exponential_", |ctx| fill(ctx, EXPONENTIAL, true)),
    ("randint", |ctx| fill(ctx, INTEGERS, false)),
    ("randint_", |ctx| fill(ctx, INTEGERS, true)),
    ("bernoulli", |ctx| fill(ctx, BERNOULLI, false)),
    ("bernoulli_", |ctx| fill(ctx, BERNOULLI, true)),
    ("native_dropout", dropout),
];

// The numbers of the distributions in the kernel.
const UNIFORM: i64 = 0;
const NORMAL: i64 = 1;
const EXPONENTIAL: i64 = 2;
const INTEGERS: i64 = 3;
const BERNOULLI: i64 = 4;
const BY_ELEMENTS: i64 = 5;

const FILL: KernelTemplate = KernelTemplate {
    name: "random",
    body: concat!(
        "enum { UNIFORM, NORMAL, EXPONENTIAL, INTEGERS, BERNOULLI, BY_ELEMENTS };\n",
        include_str!("philox.cu"),
        include_str!("random.cu")
    ),
};
const DROPOUT: KernelTemplate = template!("dropout", "philox.cu");

pub(super) fn sources() -> Vec<(String, CString)> {
    [FILL.typed_sources(super::SAMPLE_DTYPES), DROPOUT.typed_sources(super::SAMPLE_FLOATS)].concat()
}

/// The seed or the offset of a call: a constant, plus an element if there is one.
struct Number<'a> {
    constant: i64,
    element: Option<RawTensor<'a>>,
}

impl<'a> Number<'a> {
    /// Returns the argument `name`, or the element of a tensor. In a captured graph, a number that
    /// each launch gives is one of the graph's words.
    fn of(ctx: &KernelCtx<'a>, name: &str, tensor: Option<RawTensor<'a>>) -> Result<Number<'a>> {
        if let (Some(AttrValue::Scalar(ScalarUse { scalar, plus })), Some(words)) =
            (ctx.attrs().get(name), ctx.graph_words())
        {
            let data = std::ptr::without_provenance_mut(words + scalar.index() * size_of::<i64>());
            let word = RawTensor { data, dtype: DType::I64, shape: &[], strides: &[] };
            return Ok(Number { constant: *plus, element: Some(word) });
        }
        Ok(Number { constant: ctx.attrs().int(name)?.unwrap_or(0), element: tensor })
    }

    /// Returns the number as an operand of an iteration space, which is `other` for a constant.
    fn operand(&self, other: RawTensor<'a>, rank: usize) -> StridedOperand<'a> {
        StridedOperand::fixed(self.element.unwrap_or(other), rank)
    }

    /// Returns the number as integers of the argument block: the constant, and whether there is an
    /// element.
    fn integers(&self) -> [i64; 2] {
        [self.constant, i64::from(self.element.is_some())]
    }
}

/// Returns the operand whose strides number the elements of a part, if the call draws one. `other`
/// is not accessed through it.
fn numbers<'a>(part: &Option<Part>, other: RawTensor<'a>) -> Option<StridedOperand<'a>> {
    part.as_ref().map(|part| StridedOperand::with_strides(other, part.steps.iter().copied()))
}

/// Returns the integers of the argument block: the number of a part's first element, and whether
/// the call draws a part.
fn first(part: &Option<Part>) -> [i64; 2] {
    [part.as_ref().map_or(0, |part| part.first as i64), i64::from(part.is_some())]
}

/// Fills the call's output, or its first operand, with random numbers.
fn fill(ctx: &KernelCtx<'_>, kind: i64, in_place: bool) -> Result<()> {
    let last = ctx.operands() - 1;
    let out = ctx.operand(if in_place { 0 } else { last })?;
    let given = kind == BERNOULLI && !in_place;
    let offset = match in_place {
        true => (last > 0).then_some(last),
        false => (last > usize::from(given)).then_some(usize::from(given)),
    };
    let offset = offset.map(|at| ctx.operand(at)).transpose()?;
    let float = |name, default| anyhow::Ok(ctx.attrs().float(name)?.unwrap_or(default));
    let int = |name, default| anyhow::Ok(ctx.attrs().int(name)?.unwrap_or(default));
    let (mut kind, mut shares, mut scalars, mut integers) = (kind, out, [0.0; 2], [0, 1]);
    match kind {
        UNIFORM => scalars = [float("from", 0.0)?, float("to", 1.0)?],
        NORMAL => scalars = [float("mean", 0.0)?, float("std", 1.0)?],
        EXPONENTIAL => scalars[0] = float("lambd", 1.0)?,
        INTEGERS => {
            let high =
                ctx.attrs().int("high")?.context("high: missing; this argument is required")?;
            let low = int("low", 0)?;
            // Unsigned: the difference may exceed i64.
            integers = [low, (high.wrapping_sub(low) as u64).max(1) as i64];
        }
        _ => match ctx.attrs().float("p")? {
            Some(p) => scalars[0] = p,
            None if in_place => scalars[0] = 0.5,
            None => (kind, shares) = (BY_ELEMENTS, ctx.operand(0)?),
        },
    }
    let digits = match out.dtype {
        DType::F32 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 0,
    };
    let (seed, offset) = (Number::of(ctx, SEED, None)?, Number::of(ctx, OFFSET, offset)?);
    let rank = out.shape.len();
    let part = part(ctx.attrs(), out.shape)?;
    let operands = [
        StridedOperand::new(out),
        StridedOperand::new(shares),
        seed.operand(out, rank),
        offset.operand(out, rank),
    ];
    let operands: Vec<_> = operands.into_iter().chain(numbers(&part, out)).collect();
    let integers = [&[kind, digits][..], &integers].concat();
    let args = StridedArgs::new(out.shape, 0, &operands)?
        .integers(&[&seed.integers(), &offset.integers(), &first(&part), &integers[..]].concat())?
        .scalars(&scalars);
    // SAFETY: the kernel writes the tensor that the call writes, each element by one thread, and
    // reads the other operands.
    unsafe { FILL.launch_typed(native(ctx)?, out.dtype, args) }
}

/// `native_dropout(x; p, train, seed, offset)`.
fn dropout(ctx: &KernelCtx<'_>) -> Result<()> {
    let last = ctx.operands() - 1;
    let (x, out, mask) = (ctx.operand(0)?, ctx.operand(last - 1)?, ctx.operand(last)?);
    if x.numel() == 0 {
        return Ok(());
    }
    let offset: Option<RawTensor<'_>> = (last > 2).then(|| ctx.operand(1)).transpose()?;
    let p = ctx.attrs().float("p")?.context("p: missing; this argument is required")?;
    let dropped = if ctx.attrs().bool("train")?.unwrap_or(true) { p } else { 0.0 };
    let scale = if dropped < 1.0 { 1.0 / (1.0 - dropped) } else { 0.0 };
    let (seed, offset) = (Number::of(ctx, SEED, None)?, Number::of(ctx, OFFSET, offset)?);
    let rank = out.shape.len();
    let operands = [
        StridedOperand::new(x),
        StridedOperand::new(out),
        StridedOperand::new(mask),
        seed.operand(mask, rank),
        offset.operand(mask, rank),
    ];
    let part = part(ctx.attrs(), out.shape)?;
    let operands: Vec<_> = operands.into_iter().chain(numbers(&part, mask)).collect();
    let args = StridedArgs::new(out.shape, 0, &operands)?
        .integers(&[seed.integers(), offset.integers(), first(&part)].concat())?
        .scalars(&[1.0 - dropped, scale]);
    // SAFETY: the kernel writes the call's outputs, each element by one thread, and reads its
    // inputs.
    unsafe { DROPOUT.launch_typed(native(ctx)?, x.dtype, args) }
}
