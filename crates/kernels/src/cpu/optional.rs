//! Operands of ops of which some tensors may be left out.

use anyhow::{Context, Result};
use millstream_ops::args::present;
use millstream_types::DType;

use super::memory::Temporary;
use crate::context::{KernelCtx, RawTensor};

/// The inputs by where they are listed, and the `outputs` results that follow them.
///
/// # Errors
/// Other numbers of operands than the op's schema answers for.
pub(crate) fn operands<'a, const IN: usize>(
    ctx: &KernelCtx<'a>,
    outputs: usize,
) -> Result<([Option<RawTensor<'a>>; IN], Vec<RawTensor<'a>>)> {
    let given = ctx.operands().checked_sub(outputs);
    let given = given.context("too few operands: schema and kernel disagree")?;
    let mut inputs = [None; IN];
    for (input, place) in inputs.iter_mut().zip(present(ctx.attrs(), IN, given)?) {
        *input = place.map(|at| ctx.operand(at)).transpose()?;
    }
    let results = (given..ctx.operands()).map(|at| ctx.operand(at)).collect::<Result<_>>()?;
    Ok((inputs, results))
}

/// An operand that is always there.
///
/// # Errors
/// It is not.
pub(crate) fn required<'a>(tensor: Option<RawTensor<'a>>) -> Result<RawTensor<'a>> {
    tensor.context("an operand is missing: schema and kernel disagree")
}

/// A tensor of no dimensions that holds 1, to stand for a factor that is left out.
///
/// # Errors
/// There is not enough memory.
pub(crate) fn one() -> Result<Temporary> {
    let mut one = Temporary::new(DType::F64, &[])?;
    one.fill(1.0f64.to_bits());
    Ok(one)
}
