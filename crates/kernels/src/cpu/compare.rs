//! Kernels of comparisons, and of logic on truth values and bits.

use anyhow::{Result, ensure};
use millstream_types::DType;

use super::Kernel;
use super::compute::Compute;
use super::element::{Element, compute};
use super::elementwise::{Call, one, two};
use crate::context::KernelCtx;

/// A kernel that asks something of two elements, in their common dtype.
macro_rules! asked {
    ($numbers:expr, $t:ident => $f:expr) => {
        |ctx| {
            let call = Call::of(ctx, $numbers)?;
            let common = call.common();
            let call = call.rounded(common);
            compute!(common, $t => call.run(common, &two::<$t>(|x, y| $t::truth($f(&x, &y)))))
        }
    };
}

const PAIR: [&str; 2] = ["", "other"];

pub(crate) const KERNELS: &[Kernel] = &[
    ("eq", asked!(PAIR, T => T::eq)),
    ("ne", asked!(PAIR, T => T::ne)),
    ("lt", asked!(PAIR, T => T::lt)),
    ("le", asked!(PAIR, T => T::le)),
    ("gt", asked!(PAIR, T => T::gt)),
    ("ge", asked!(PAIR, T => T::ge)),
    ("__lshift__", |ctx| bits(ctx, shifted_up)),
    ("__rshift__", |ctx| bits(ctx, |x, y, _| x >> u64::try_from(y).map_or(63, |y| y.min(63)))),
];

pub(crate) const LOGIC: &[Kernel] = &[
    ("logical_and", asked!([""; 2], T => |x: &T, y: &T| *x != T::ZERO && *y != T::ZERO)),
    ("logical_or", asked!([""; 2], T => |x: &T, y: &T| *x != T::ZERO || *y != T::ZERO)),
    ("logical_not", logical_not),
    ("bitwise_and", |ctx| bits(ctx, |x, y, _| x & y)),
    ("bitwise_or", |ctx| bits(ctx, |x, y, _| x | y)),
    ("bitwise_xor", |ctx| bits(ctx, |x, y, _| x ^ y)),
    ("bitwise_not", bitwise_not),
];

/// A function of two integers and of the number of bits that they have.
fn bits(ctx: &KernelCtx<'_>, f: impl Fn(i64, i64, u32) -> i64 + Sync) -> Result<()> {
    let call = Call::of(ctx, PAIR)?;
    let common = call.common();
    ensure!(!common.is_float(), "{common}: schema and kernel disagree");
    let width = common.size() as u32 * 8;
    call.run(common, &two(|x, y| f(x, y, width)))
}

fn shifted_up(x: i64, y: i64, width: u32) -> i64 {
    match u32::try_from(y) {
        Ok(places) if places < width => x << places,
        _ => 0,
    }
}

fn logical_not(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, [""])?;
    let common = call.common();
    compute!(common, T => call.run(common, &one(|x: T| T::truth(x == T::ZERO))))
}

fn bitwise_not(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, [""])?;
    match call.common() {
        DType::Bool => logical_not(ctx),
        common => call.run(common, &one(|x: i64| !x)),
    }
}
