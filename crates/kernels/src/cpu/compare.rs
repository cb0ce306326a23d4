//! Kernels of comparisons, logic and bitwise ops.

use anyhow::{Result, ensure};
use millstream_types::DType;

use super::Kernel;
use super::compute::Compute;
use super::element::{Element, compute};
use super::elementwise::{Call, one, two};
use crate::context::KernelCtx;

/// Defines a kernel that compares two elements in their common dtype.
macro_rules! comparison {
    ($numbers:expr, $t:ident => $f:expr) => {
        |ctx| {
            let call = Call::of(ctx, $numbers)?;
            let common = call.common();
            let call = call.rounded(common);
            compute!(common, $t => call.run(common, &two::<$t>(|x, y| $t::from_bool($f(&x, &y)))))
        }
    };
}

const PAIR: [&str; 2] = ["", "other"];

pub(crate) const KERNELS: &[Kernel] = &[
    ("eq", comparison!(PAIR, T => T::eq)),
    ("ne", comparison!(PAIR, T => T::ne)),
    ("lt", comparison!(PAIR, T => T::lt)),
    ("le", comparison!(PAIR, T => T::le)),
    ("gt", comparison!(PAIR, T => T::gt)),
    ("ge", comparison!(PAIR, T => T::ge)),
    ("__lshift__", |ctx| bits(ctx, shifted_up)),
    ("__rshift__", |ctx| bits(ctx, |x, y, _| x >> u64::try_from(y).map_or(63, |y| y.min(63)))),
];

pub(crate) const LOGIC: &[Kernel] = &[
    ("logical_and", comparison!([""; 2], T => |x: &T, y: &T| *x != T::ZERO && *y != T::ZERO)),
    ("logical_or", comparison!([""; 2], T => |x: &T, y: &T| *x != T::ZERO || *y != T::ZERO)),
    ("logical_not", logical_not),
    ("bitwise_and", |ctx| bits(ctx, |x, y, _| x & y)),
    ("bitwise_or", |ctx| bits(ctx, |x, y, _| x | y)),
    ("bitwise_xor", |ctx| bits(ctx, |x, y, _| x ^ y)),
    ("bitwise_not", bitwise_not),
];

/// Runs a function of two integers and of their number of bits.
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
    compute!(common, T => call.run(common, &one(|x: T| T::from_bool(x == T::ZERO))))
}

fn bitwise_not(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, [""])?;
    match call.common() {
        DType::Bool => logical_not(ctx),
        common => call.run(common, &one(|x: i64| !x)),
    }
}
