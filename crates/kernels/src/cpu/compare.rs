//! Kernels of comparisons, logic and bitwise ops.

use anyhow::{Result, ensure};
use millstream_types::DType;

use super::compute::Compute;
use super::element::{Element, compute};
use super::elementwise::{Bound, Call, CallArgs, ElementwiseOp};
use super::function::{one, two};

/// Defines a kernel that compares two elements in their common dtype by their order.
macro_rules! order {
    ($numbers:expr, $t:ident => $f:expr) => {
        |args| {
            let call = Call::of(args, $numbers)?;
            let common = call.common()?;
            if common == DType::U64 {
                // Computed by its bits, in i64.
                type $t = u64;
                let f = |x: i64, y: i64| i64::from($f(&x.cast_unsigned(), &y.cast_unsigned()));
                return call.bind(common, two(f));
            }
            comparison!($numbers, $t => $f)(args)
        }
    };
}

/// Defines a kernel that compares two elements in their common dtype.
macro_rules! comparison {
    ($numbers:expr, $t:ident => $f:expr) => {
        |args| {
            let call = Call::of(args, $numbers)?;
            let common = call.common()?;
            let call = call.rounded(common);
            compute!(common, $t => call.bind(common, two::<$t>(|x, y| $t::from_bool($f(&x, &y)))))
        }
    };
}

const PAIR: [&str; 2] = ["", "other"];

pub(crate) const KERNELS: &[ElementwiseOp] = &[
    ("eq", comparison!(PAIR, T => T::eq)),
    ("ne", comparison!(PAIR, T => T::ne)),
    ("lt", order!(PAIR, T => T::lt)),
    ("le", order!(PAIR, T => T::le)),
    ("gt", order!(PAIR, T => T::gt)),
    ("ge", order!(PAIR, T => T::ge)),
    ("__lshift__", |args| bits(args, shifted_up)),
    ("__rshift__", |args| bits(args, |x, y, _| x >> u64::try_from(y).map_or(63, |y| y.min(63)))),
];

pub(crate) const LOGIC: &[ElementwiseOp] = &[
    ("logical_and", comparison!([""; 2], T => |x: &T, y: &T| *x != T::ZERO && *y != T::ZERO)),
    ("logical_or", comparison!([""; 2], T => |x: &T, y: &T| *x != T::ZERO || *y != T::ZERO)),
    ("logical_not", logical_not),
    ("bitwise_and", |args| bits(args, |x, y, _| x & y)),
    ("bitwise_or", |args| bits(args, |x, y, _| x | y)),
    ("bitwise_xor", |args| bits(args, |x, y, _| x ^ y)),
    ("bitwise_not", bitwise_not),
];

/// Binds a function of two integers and of their number of bits.
fn bits(
    args: &CallArgs<'_>,
    f: impl Fn(i64, i64, u32) -> i64 + Copy + Send + Sync + 'static,
) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common()?;
    ensure!(!common.is_float(), "{common}: schema and kernel disagree");
    let width = common.size() as u32 * 8;
    call.bind(common, two(move |x, y| f(x, y, width)))
}

fn shifted_up(x: i64, y: i64, width: u32) -> i64 {
    match u32::try_from(y) {
        Ok(places) if places < width => x << places,
        _ => 0,
    }
}

fn logical_not(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let common = call.common()?;
    compute!(common, T => call.bind(common, one(|x: T| T::from_bool(x == T::ZERO))))
}

fn bitwise_not(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    match call.common()? {
        DType::Bool => logical_not(args),
        common => call.bind(common, one(|x: i64| !x)),
    }
}
