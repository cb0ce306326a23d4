//! The kernel of `frexp`: mantissas and exponents.

use anyhow::{Result, ensure};

use super::indexed::in_chunks;
use super::strided::{CHUNK, Sequence};
use super::{Kernel, Written};
use crate::context::KernelCtx;

/// The kernel, with the operands that it writes.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[(("frexp", frexp), Written::Last(2))];

/// `frexp(x)`. Every float of the other dtypes is an f64 of the same mantissa.
fn frexp(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, mantissa, exponent) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let agree = x.shape == mantissa.shape && x.shape == exponent.shape;
    ensure!(agree, "{x:?} to {mantissa:?}: schema and kernel disagree");
    // SAFETY: operands of the call; blocks of the outputs are disjoint.
    let (from, mantissas, exponents) =
        unsafe { (Sequence::new(x), Sequence::new(mantissa), Sequence::new(exponent)) };
    in_chunks(
        ctx,
        x.numel(),
        || ([0f64; CHUNK], [0i32; CHUNK]),
        |(values, powers), at, count| {
            from.load(at, &mut values[..count]);
            for (v, power) in values.iter_mut().zip(powers.iter_mut()) {
                (*v, *power) = libm::frexp(*v);
                if !v.is_finite() {
                    *power = 0;
                }
            }
            mantissas.store(at, &values[..count]);
            exponents.store(at, &powers[..count]);
        },
    );
    Ok(())
}
