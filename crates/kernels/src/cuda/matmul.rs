//! Kernels of the ops of `millstream_ops::matmul` and `millstream_ops::linear`: floats by cuBLAS,
//! integers by a kernel of our own. A bias is copied to the result first, and the product added to
//! it.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, ensure};

use millstream_ep::cuda::NativeStream;
use millstream_ops::args::Scalar;
use millstream_ops::matmul::Product;
use millstream_types::{DType, Dims};

use super::args::{ElementwiseArgs, MemoryRange};
use super::gemm::multiply;
use super::{KIND, Unsupported, copy, launch, native, source as code};
use crate::context::{KernelCtx, RawTensor};
use crate::registry::KernelRegistry;

pub(super) fn register(kernels: &mut KernelRegistry) {
    kernels.register(KIND, "matmul", Arc::new(matmul));
    for op in ["addmm", "baddbmm"] {
        kernels.register(KIND, op, Arc::new(add_product));
    }
}

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

fn name(dtype: DType) -> String {
    format!("ms_matmul__{}", dtype.name())
}

/// Returns the source of the product of integers. Each thread sums one element in unsigned words,
/// whose wrapping agrees with the wrapping of all narrower integers.
fn source(dtype: DType) -> Result<CString> {
    if !dtype.is_int() {
        return Err(Unsupported::of(dtype.name()));
    }
    let (name, element) = (name(dtype), code::element(dtype));
    let body = format!(
        r#"typedef {element} E;
extern "C" __global__ void {name}(const ElementwiseArgs args) {{
    u64 alpha = (u64)args.integers[0], beta = (u64)args.integers[1];
    u64 x_step = (u64)args.integers[2], y_step = (u64)args.integers[3];
    u64 length = (u64)args.scalars[0];
    u64 step = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (u64 index = first; index < args.count; index += step) {{
        u64 at[4];
        offsets(args, index, at);
        const E* x = (const E*)args.operand[0].data + at[0];
        const E* y = (const E*)args.operand[1].data + at[1];
        u64 sum = 0;
        for (u64 k = 0; k < length; ++k)
            sum += (u64)load(x + k * x_step) * (u64)load(y + k * y_step);
        sum *= alpha;
        const E* bias = (const E*)args.operand[2].data + at[2];
        E* out = (E*)args.operand[3].data + at[3];
        if (beta != 0) sum += beta * (u64)load(bias);
        store(out, (i64)sum);
    }}
}}
"#
    );
    code::with_prelude(&body)
}

/// Returns all sources with their names.
pub(super) fn sources() -> Vec<(String, CString)> {
    DType::REAL.into_iter().filter_map(|dtype| Some((name(dtype), source(dtype).ok()?))).collect()
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
    let operands = [
        RawTensor { shape: &x_shape, strides: &x_strides, ..x },
        RawTensor { shape: &y_shape, strides: &y_strides, ..y },
        bias,
        out,
    ];
    let mut args = ElementwiseArgs::new(&operands, &[length as f64])?;
    args.integers[..4].copy_from_slice(&[alpha, beta, steps[0], steps[1]]);
    (args.operand[0].memory, args.operand[1].memory) = (MemoryRange::of(&x), MemoryRange::of(&y));
    // SAFETY: the kernel accesses only the operands, as the caller promises. A thread reads its
    // element of the bias before it writes the same one of the result.
    unsafe { launch::launch_elementwise(native, &name(dtype), || source(dtype), args) }
}
