//! Running sums and products.

use std::ffi::CString;

use anyhow::{Context, Result, ensure};
use millstream_ops::args::dimension;
use millstream_types::{DType, Dims};

use super::copy::convert;
use super::native;
use super::walk::{Step, Text, Walk};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] =
    &[("cumsum", |ctx| scan(ctx, SUMS)), ("cumprod", |ctx| scan(ctx, PRODUCTS))];

macro_rules! scan {
    ($name:literal, $result:literal, $wide:literal, $start:literal, $join:literal) => {
        Text {
            name: $name,
            text: concat!(
                "#define RESULT ",
                $result,
                "\n#define WIDE ",
                $wide,
                "\n#define START ",
                $start,
                "\n#define JOIN ",
                $join,
                "\n",
                include_str!("scan.cu")
            ),
        }
    };
}

/// Of floats, of integers, and of integers and truth values into i64. Integers wrap, as those without a
/// sign do.
const SUMS: [Text; 3] = [
    scan!("cumsum", "E", "double", "0", "+"),
    scan!("cumsum", "E", "u64", "0", "+"),
    scan!("cumsum_wide", "long long", "u64", "0", "+"),
];
const PRODUCTS: [Text; 3] = [
    scan!("cumprod", "E", "double", "1", "*"),
    scan!("cumprod", "E", "u64", "1", "*"),
    scan!("cumprod_wide", "long long", "u64", "1", "*"),
];

pub(super) fn sources() -> Vec<(String, CString)> {
    let whole = [DType::I64, DType::U8];
    let of = |[of_floats, of_whole, wide]: [Text; 3]| {
        [of_floats.typed(super::SOME_FLOATS), of_whole.typed(&whole), wide.typed(&whole)].concat()
    };
    [of(SUMS), of(PRODUCTS)].concat()
}

/// `cumsum(x; dim, dtype)` and `cumprod`.
fn scan(ctx: &KernelCtx<'_>, [floats, whole, wide]: [Text; 3]) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    let dim = ctx.attrs().int("dim")?.context("dim: expected, and not given")?;
    let dim = dimension(dim, x.shape.len())?;
    let widened = out.dtype == DType::I64 && !x.dtype.is_float() && x.dtype != out.dtype;
    let from = if x.dtype == out.dtype || widened {
        x
    } else {
        // Each element of the output is then read just before it is written.
        convert(ctx, x, out)?;
        out
    };
    if out.numel() == 0 {
        return Ok(());
    }
    let (length, [step, out_step]) = along(&out, dim, [&from, &out]);
    let shape = without(out.shape, dim);
    let steps = [from, out].map(|tensor| Step::by(tensor, without(tensor.strides, dim)));
    let walk = Walk::new(&shape, 0, &steps)?.integers(&[length, step, out_step])?;
    let text = match (out.dtype.is_float(), widened) {
        (true, _) => floats,
        (false, false) => whole,
        (false, true) => wide,
    };
    // SAFETY: the kernel writes the elements of the call's output, each line by one thread, and reads
    // those of its input, which are others or the same that the thread is about to write.
    unsafe { text.of_dtype(native(ctx)?, from.dtype, walk) }
}

/// The length of a line along a dimension, and the strides of tensors along it.
pub(super) fn along<const N: usize>(
    x: &RawTensor<'_>,
    dim: usize,
    tensors: [&RawTensor<'_>; N],
) -> (i64, [i64; N]) {
    let length = x.shape.get(dim).copied().unwrap_or(1) as i64;
    (length, tensors.map(|tensor| tensor.strides.get(dim).copied().unwrap_or(1) as i64))
}

/// Lengths or strides but for those of one dimension.
pub(super) fn without(of: &[usize], dim: usize) -> Dims {
    of.iter().enumerate().filter(|(k, _)| *k != dim).map(|(_, &v)| v).collect()
}
