//! The operands of ops with optional tensors.

use anyhow::{Context, Result};
use millstream_ops::args::input_positions;
use millstream_ops::checks;
use millstream_types::DType;

use super::memory::Temporary;
use crate::context::{KernelCtx, RawTensor};

/// Operands by their positions; none for absent ones.
type Tensors<'a, const N: usize> = [Option<RawTensor<'a>>; N];

/// Returns the inputs by their listed positions, and the `outputs` results that follow them.
///
/// # Errors
/// Fails if the number of operands does not match the schema.
pub(crate) fn operands<'a, const IN: usize>(
    ctx: &KernelCtx<'a>,
    outputs: usize,
) -> Result<(Tensors<'a, IN>, Vec<RawTensor<'a>>)> {
    let given = ctx.operands().checked_sub(outputs);
    let given = given.context("too few operands: schema and kernel disagree")?;
    let mut inputs = [None; IN];
    for (input, position) in inputs.iter_mut().zip(input_positions(ctx.attrs(), IN, given)?) {
        *input = position.map(|at| ctx.operand(at)).transpose()?;
    }
    let results = (given..ctx.operands()).map(|at| ctx.operand(at)).collect::<Result<_>>()?;
    Ok((inputs, results))
}

/// Returns the inputs of a gradient as [`operands`] does, and its three results: none for each that
/// the argument `output_mask` does not ask for.
///
/// # Errors
/// As for [`operands`].
pub(crate) fn gradient_operands<'a, const IN: usize>(
    ctx: &KernelCtx<'a>,
) -> Result<(Tensors<'a, IN>, Tensors<'a, 3>)> {
    let mask = checks::mask(ctx.attrs(), 3)?;
    let (inputs, results) = operands(ctx, mask.iter().filter(|wanted| **wanted).count())?;
    let mut results = results.into_iter();
    Ok((inputs, [0, 1, 2].map(|k| if mask[k] { results.next() } else { None })))
}

/// Returns a required operand.
///
/// # Errors
/// Fails if it is absent.
pub(crate) fn required<'a>(tensor: Option<RawTensor<'a>>) -> Result<RawTensor<'a>> {
    tensor.context("an operand is missing: schema and kernel disagree")
}

/// Returns a tensor without dimensions that holds 1, in place of an absent factor.
///
/// # Errors
/// Fails if memory is exhausted.
pub(crate) fn one() -> Result<Temporary> {
    let mut one = Temporary::new(DType::F64, &[])?;
    one.fill(1.0f64.to_bits());
    Ok(one)
}
