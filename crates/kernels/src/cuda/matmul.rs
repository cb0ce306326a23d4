//! Kernels of the ops of `millstream_ops::matmul` and `millstream_ops::linear`: floats by cuBLAS,
//! integers by a kernel of our own. A bias is copied to the result first, and the product added to
//! it.

use std::ffi::CString;

use anyhow::{Result, ensure};

use millstream_ep::cuda::NativeStream;
use millstream_ops::args::Scalar;
use millstream_ops::matmul::Product;
use millstream_types::{DType, Dims};

use super::gemm::multiply;
use super::strided::{StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use super::{Unsupported, copy, native};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] =
    &[("matmul", matmul), ("addmm", add_product), ("baddbmm", add_product)];

/// `matmul(x, y)`.
fn matmul(ctx: &KernelCtx<'_>) -> Result<()> {
    let all = [ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?];
    let native = native(ctx)?;
    // SAFETY: `KernelCtx::new` promises valid operands; the last one is the call's output.
    unsafe { multiply(native, &mut native.scratch(), all, 1.0, 0.0) }
}

/// `addmm(bias, x, y; beta, alpha)` and `baddbmm`. With beta 0 the bias is not read.
fn add_product(ctx: &KernelCtx<'_>) -> Result<()> {
    let bias = ctx.operand(0)?;
    let all = [ctx.operand(1)?, ctx.operand(2)?, ctx.operand(3)?];
    let number =
        |name| Ok::<_, anyhow::Error>(Scalar::of(ctx.attrs(), name)?.unwrap_or(Scalar::Int(1)));
    let factors = [number("alpha")?, number("beta")?];
    if !all[0].dtype.is_float() {
        let integers = factors.map(|factor| match factor {
            Scalar::Int(v) => v,
            Scalar::Float(v) => v as i64,
            Scalar::Bool(v) => v.into(),
        });
        // SAFETY: `KernelCtx::new` promises valid operands; the last one is the call's output.
        return unsafe { multiply_integers(native(ctx)?, all, integers, bias) };
    }
    let [alpha, beta] = factors.map(|factor| match factor {
        Scalar::Int(v) => v as f64,
        Scalar::Float(v) => v,
        Scalar::Bool(v) => f64::from(v),
    });
    let native = native(ctx)?;
    if beta != 0.0 {
        // SAFETY: `KernelCtx::new` promises valid operands; the second one is the call's output.
        // The schema has checked that the bias broadcasts to it.
        unsafe { copy::strided(native, bias, all[2])? };
    }
    // SAFETY: as above.
    unsafe { multiply(native, &mut native.scratch(), all, alpha, beta) }
}

const PRODUCT: KernelTemplate = template!("matmul");

pub(super) fn sources() -> Vec<(String, CString)> {
    PRODUCT.typed_sources(&[DType::I64, DType::I32, DType::U8, DType::U64])
}

/// Launches `out = alpha · x y + beta · bias` for integers, which wrap. The bias may be `out`.
///
/// # Errors
/// Shapes that do not fit, or an error of the compiler or the driver.
///
/// # Safety
/// The tensors are valid until the product has run, which is ordered against all other uses of
/// them. No two indices of `out` address the same element, and it shares none with `x` or `y`.
pub(super) unsafe fn multiply_integers(
    native: &NativeStream,
    [x, y, out]: [RawTensor<'_>; 3],
    [alpha, beta]: [i64; 2],
    bias: RawTensor<'_>,
) -> Result<()> {
    let dtype = x.dtype;
    if !dtype.is_int() {
        return Err(Unsupported::of(dtype.name()));
    }
    ensure!(y.dtype == dtype && out.dtype == dtype, "{y:?}: schema and kernel disagree");
    let length = Product::new(x.shape, y.shape)?.k;
    let (rows, columns) = (x.shape.len() > 1, y.shape.len() > 1);
    // The kernel iterates over the dimensions of the result. x has its own without the last one,
    // and one for the columns; y has one for the rows in place of the inner one.
    let (mut x_shape, mut x_strides) = (Dims::from_slice(x.shape), Dims::from_slice(x.strides));
    let (mut y_shape, mut y_strides) = (Dims::from_slice(y.shape), Dims::from_slice(y.strides));
    let inner = y_shape.len() - if columns { 2 } else { 1 };
    let mut steps = [0; 2];
    for (to, from) in steps.iter_mut().zip([x_strides.pop(), y_strides.get(inner).copied()]) {
        *to = from.unwrap_or_default() as i64;
    }
    x_shape.pop();
    if columns {
        x_shape.push(1);
        x_strides.push(0);
    }
    (y_shape[inner], y_strides[inner]) = (1, 0);
    if !rows || !columns {
        y_shape.remove(inner);
        y_strides.remove(inner);
    }
    let view = |of: RawTensor<'_>, shape: &[usize], strides: &[usize]| {
        StridedOperand::broadcast(RawTensor { shape, strides, ..of }, out.shape).strides
    };
    let operands = [
        StridedOperand::with_strides(x, view(x, &x_shape, &x_strides)),
        StridedOperand::with_strides(y, view(y, &y_shape, &y_strides)),
        StridedOperand::broadcast(bias, out.shape),
        StridedOperand::new(out),
    ];
    let integers = [alpha, beta, steps[0], steps[1], length as i64];
    let args = StridedArgs::new(out.shape, 0, &operands)?.integers(&integers)?;
    // SAFETY: the kernel accesses only the operands, as the caller promises. A thread reads its
    // element of the bias before it writes the same one of the result.
    unsafe { PRODUCT.launch_typed(native, dtype, args) }
}
