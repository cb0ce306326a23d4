//! Kernels of the ops of `millstream_ops::matmul` and `millstream_ops::linear`: floats by cuBLAS, whole
//! numbers by a kernel of our own. A bias is put where the result goes, and the product added to it.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, ensure};

use millstream_ops::args::Scalar;
use millstream_ops::matmul::Product;
use millstream_types::{DType, Dims};

use super::call::{Call, Place};
use super::matrices::multiply;
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
    if !all[0].dtype.is_float() {
        return integers(ctx, all, [1, 0], all[2]);
    }
    let native = native(ctx)?;
    // SAFETY: the context's maker answers for the operands; the last is the call's output.
    unsafe { multiply(native, &mut native.scratch(), all, 1.0, 0.0) }
}

/// `addmm(bias, x, y; beta, alpha)` and `baddbmm`. A bias times zero is not looked at.
fn add_product(ctx: &KernelCtx<'_>) -> Result<()> {
    let bias = ctx.operand(0)?;
    let all = [ctx.operand(1)?, ctx.operand(2)?, ctx.operand(3)?];
    let number =
        |name| Ok::<_, anyhow::Error>(Scalar::of(ctx.attrs(), name)?.unwrap_or(Scalar::Int(1)));
    let factors = [number("alpha")?, number("beta")?];
    if !all[0].dtype.is_float() {
        let whole = factors.map(|factor| match factor {
            Scalar::Int(v) => v,
            Scalar::Float(v) => v as i64,
            Scalar::Bool(v) => v.into(),
        });
        return integers(ctx, all, whole, bias);
    }
    let [alpha, beta] = factors.map(|factor| match factor {
        Scalar::Int(v) => v as f64,
        Scalar::Float(v) => v,
        Scalar::Bool(v) => f64::from(v),
    });
    let native = native(ctx)?;
    if beta != 0.0 {
        // SAFETY: the context's maker answers for the operands; the second is the call's output. The
        // schema has checked that the bias broadcasts to it.
        unsafe { copy::strided(native, bias, all[2])? };
    }
    // SAFETY: as above.
    unsafe { multiply(native, &mut native.scratch(), all, alpha, beta) }
}

fn name(dtype: DType) -> String {
    format!("ms_product__{}", dtype.name())
}

/// A product of integers: each thread adds up one element, in unsigned words, which wrap as all
/// narrower integers do.
fn source(dtype: DType) -> Result<CString> {
    if !dtype.is_int() {
        return Err(Unsupported::of(dtype.name()));
    }
    let (name, element) = (name(dtype), code::element(dtype));
    let body = format!(
        r#"typedef {element} E;
extern "C" __global__ void {name}(const Call call) {{
    u64 alpha = (u64)call.integers[0], beta = (u64)call.integers[1];
    u64 x_step = (u64)call.integers[2], y_step = (u64)call.integers[3], length = (u64)call.numbers[0];
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x; index < call.count; index += step) {{
        u64 at[4];
        place(call, index, at);
        const E* x = (const E*)call.operand[0].data + at[0];
        const E* y = (const E*)call.operand[1].data + at[1];
        u64 sum = 0;
        for (u64 k = 0; k < length; ++k) sum += (u64)load(x + k * x_step) * (u64)load(y + k * y_step);
        sum *= alpha;
        const E* bias = (const E*)call.operand[2].data + at[2];
        E* out = (E*)call.operand[3].data + at[3];
        if (beta != 0) sum += beta * (u64)load(bias);
        store(out, (i64)sum);
    }}
}}
"#
    );
    code::with_prelude(&body)
}

/// Every source there is, by name.
pub(super) fn sources() -> Vec<(String, CString)> {
    DType::ALL.into_iter().filter_map(|dtype| Some((name(dtype), source(dtype).ok()?))).collect()
}

/// `out = alpha · x y + beta · bias`, of integers, which wrap.
fn integers(
    ctx: &KernelCtx<'_>,
    [x, y, out]: [RawTensor<'_>; 3],
    [alpha, beta]: [i64; 2],
    bias: RawTensor<'_>,
) -> Result<()> {
    let dtype = x.dtype;
    ensure!(y.dtype == dtype && out.dtype == dtype, "{y:?}: schema and kernel disagree");
    let length = Product::new(x.shape, y.shape)?.k;
    let (rows, columns) = (x.shape.len() > 1, y.shape.len() > 1);
    // What is walked are the result's dimensions: those of x without its last, one for the columns, and
    // those of y with one for the rows in place of the one that is added up.
    let (mut x_shape, mut x_strides) = (Dims::from_slice(x.shape), Dims::from_slice(x.strides));
    let (mut y_shape, mut y_strides) = (Dims::from_slice(y.shape), Dims::from_slice(y.strides));
    let summed = y_shape.len() - if columns { 2 } else { 1 };
    let mut steps = [0; 2];
    for (to, from) in steps.iter_mut().zip([x_strides.pop(), y_strides.get(summed).copied()]) {
        *to = from.unwrap_or_default() as i64;
    }
    x_shape.pop();
    if columns {
        x_shape.push(1);
        x_strides.push(0);
    }
    (y_shape[summed], y_strides[summed]) = (1, 0);
    if !rows || !columns {
        y_shape.remove(summed);
        y_strides.remove(summed);
    }
    let walked = [
        RawTensor { shape: &x_shape, strides: &x_strides, ..x },
        RawTensor { shape: &y_shape, strides: &y_strides, ..y },
        bias,
        out,
    ];
    let mut call = Call::new(&walked, &[length as f64])?;
    call.integers[..4].copy_from_slice(&[alpha, beta, steps[0], steps[1]]);
    (call.operand[0].place, call.operand[1].place) = (Place::of(&x), Place::of(&y));
    // SAFETY: the kernel touches elements of the operands alone, for which the context's maker answers.
    // The last is the call's output; no other is it, but for a bias that then is not read.
    unsafe { launch::launch(native(ctx)?, &name(dtype), || source(dtype), call) }
}
