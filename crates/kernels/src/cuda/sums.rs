//! Sums over images and places for each channel: the gradient of a bias.

use std::ffi::CString;

use anyhow::{Result, ensure};

use millstream_ep::cuda::Native;
use millstream_types::DType;
use millstream_types::layout::contiguous_strides;

use super::call::Call;
use super::{Unsupported, launch, source};
use crate::context::RawTensor;

/// The threads of a block, each with every so many-th element.
const THREADS: usize = 256;

fn name(dtype: DType) -> String {
    format!("ms_channel_sums__{}", dtype.name())
}

/// A block for each element of the result, operand 1, adds up the last dimensions of operand 0. Its first
/// dimension is the result's.
fn summing(dtype: DType) -> Result<CString> {
    if !dtype.is_float() {
        return Err(Unsupported::of(dtype.name()));
    }
    let (element, computed) = (source::element(dtype), source::element(source::computed(dtype)));
    let name = name(dtype);
    let body = format!(
        r#"typedef {element} E;
typedef {computed} T;
extern "C" __global__ void {name}(const Call call) {{
    __shared__ T sums[{THREADS}];
    u64 length = call.count / gridDim.x;
    T sum = 0;
    for (u64 index = threadIdx.x; index < length; index += {THREADS}) {{
        u64 at[2];
        place(call, blockIdx.x * length + index, at);
        const E* from = (const E*)call.operand[0].data + at[0];
        sum += load(from);
    }}
    sums[threadIdx.x] = sum;
    // The same order every time.
    for (unsigned half = {THREADS} / 2; half > 0; half /= 2) {{
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }}
    if (threadIdx.x == 0) {{
        E* to = (E*)call.operand[1].data + blockIdx.x * (u64)call.integers[0];
        store(to, sums[0]);
    }}
}}
"#
    );
    source::with_prelude(&body)
}

/// Every source there is, by name.
pub(super) fn sources() -> Vec<(String, CString)> {
    let all = DType::ALL.into_iter();
    all.filter_map(|dtype| Some((name(dtype), summing(dtype).ok()?))).collect()
}

/// The sums of `[n,c,..]` over all dimensions but the second.
///
/// # Errors
/// Shapes that do not fit, or the driver's.
///
/// # Safety
/// Both are operands of the call, and `out` is its output.
pub(super) unsafe fn channels(native: &Native, x: RawTensor<'_>, out: RawTensor<'_>) -> Result<()> {
    ensure!(out.shape == &x.shape[1..2] && out.dtype == x.dtype, "{out:?}: another shape");
    if x.numel() == 0 {
        let bytes = out.numel() * out.dtype.size();
        // SAFETY: the caller's promise; a new result of one dimension lies without gaps.
        return unsafe { native.fill(out.data, 0, bytes) };
    }
    let (mut shape, mut strides) = (x.shape.to_vec(), x.strides.to_vec());
    shape.swap(0, 1);
    strides.swap(0, 1);
    let walked = RawTensor { shape: &shape, strides: &strides, ..x };
    // The second operand only says what is walked.
    let over = contiguous_strides(&shape)?;
    let mut call = Call::new(&[walked, RawTensor { strides: &over, ..walked }], &[])?;
    let place = super::call::Place::of(&out);
    call.operand[1].place = place;
    call.integers[0] = out.strides[0] as i64;
    let (name, dtype) = (name(x.dtype), x.dtype);
    // SAFETY: the kernel reads the first operand and writes the second, for which the caller answers.
    unsafe { launch::blocks(native, &name, || summing(dtype), out.shape[0] as u32, call) }
}
