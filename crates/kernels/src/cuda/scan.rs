//! Cumulative sums and products.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_types::{DType, Dims};

use super::copy::convert;
use super::native;
use super::strided::{StridedArgs, StridedOperand};
use super::template::KernelTemplate;
use crate::context::{KernelCtx, RawTensor};
use crate::data_movement::required_dim;

pub(super) const KERNELS: &[super::Kernel] =
    &[("cumsum", |ctx| scan(ctx, SUMS)), ("cumprod", |ctx| scan(ctx, PRODUCTS))];

macro_rules! scan {
    ($name:literal, $result:literal, $wide:literal, $start:literal, $combine:literal) => {
        KernelTemplate {
            name: $name,
            body: concat!(
                "#define RESULT ",
                $result,
                "\n#define WIDE ",
                $wide,
                "\n#define START ",
                $start,
                "\n#define COMBINE ",
                $combine,
                "\n",
                include_str!("scan.cu")
            ),
        }
    };
}

/// The kernels for floats, for integers, and for integers and truth values into i64. Integers wrap:
/// they are computed as unsigned ones.
const SUMS: [KernelTemplate; 3] = [
    scan!("cumsum", "E", "double", "0", "+"),
    scan!("cumsum", "E", "u64", "0", "+"),
    scan!("cumsum_wide", "long long", "u64", "0", "+"),
];
const PRODUCTS: [KernelTemplate; 3] = [
    scan!("cumprod", "E", "double", "1", "*"),
    scan!("cumprod", "E", "u64", "1", "*"),
    scan!("cumprod_wide", "long long", "u64", "1", "*"),
];

pub(super) fn sources() -> Vec<(String, CString)> {
    let integers = [DType::I64, DType::U8];
    let of = |[floats, whole, wide]: [KernelTemplate; 3]| {
        [
            floats.typed_sources(super::SAMPLE_FLOATS),
            whole.typed_sources(&integers),
            wide.typed_sources(&integers),
        ]
        .concat()
    };
    [of(SUMS), of(PRODUCTS)].concat()
}

/// `cumsum(x; dim, dtype)` and `cumprod`.
fn scan(ctx: &KernelCtx<'_>, [floats, whole, wide]: [KernelTemplate; 3]) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    let dim = required_dim(ctx, x.shape.len())?;
    let widened = out.dtype == DType::I64 && !x.dtype.is_float() && x.dtype != out.dtype;
    let from = if x.dtype == out.dtype || widened {
        x
    } else {
        // The scan then works in place: it reads each element just before it writes it.
        convert(ctx, x, out)?;
        out
    };
    if out.numel() == 0 {
        return Ok(());
    }
    let (length, [step, out_step]) = line(&out, dim, [&from, &out]);
    let shape = without(out.shape, dim);
    let operands = [from, out]
        .map(|tensor| StridedOperand::with_strides(tensor, without(tensor.strides, dim)));
    let args = StridedArgs::new(&shape, 0, &operands)?.integers(&[length, step, out_step])?;
    let kernel = match (out.dtype.is_float(), widened) {
        (true, _) => floats,
        (false, false) => whole,
        (false, true) => wide,
    };
    // SAFETY: the kernel writes the call's output, each line by one thread. It reads its input,
    // which shares no memory with the output or is the output itself.
    unsafe { kernel.launch_typed(native(ctx)?, from.dtype, args) }
}

/// Returns the length of a line along a dimension, and the strides of tensors along it.
pub(super) fn line<const N: usize>(
    x: &RawTensor<'_>,
    dim: usize,
    tensors: [&RawTensor<'_>; N],
) -> (i64, [i64; N]) {
    let length = x.shape.get(dim).copied().unwrap_or(1) as i64;
    (length, tensors.map(|tensor| tensor.strides.get(dim).copied().unwrap_or(1) as i64))
}

/// Returns lengths or strides without those of one dimension.
pub(super) fn without(of: &[usize], dim: usize) -> Dims {
    of.iter().enumerate().filter(|(k, _)| *k != dim).map(|(_, &v)| v).collect()
}
