//! Sums over all dimensions but the channels: the gradient of a bias.

use std::ffi::CString;

use anyhow::{Result, ensure};

use millstream_ep::cuda::NativeStream;
use millstream_types::DType;
use millstream_types::layout::contiguous_strides;

use super::args::{ElementwiseArgs, MemoryRange};
use super::{Unsupported, launch, source};
use crate::context::RawTensor;

/// The threads of a block. Thread k adds the elements k, k + THREADS, k + 2 · THREADS, ….
const THREADS: usize = 256;

fn name(dtype: DType) -> String {
    format!("ms_channel_sum__{}", dtype.name())
}

/// Returns the source of the kernel. A block for each element of the result, operand 1, sums the
/// last dimensions of operand 0. Its first dimension is that of the result.
fn source_of(dtype: DType) -> Result<CString> {
    if !dtype.is_float() {
        return Err(Unsupported::of(dtype.name()));
    }
    let (element, computed) = (source::element(dtype), source::element(source::computed(dtype)));
    let name = name(dtype);
    let body = format!(
        r#"typedef {element} E;
typedef {computed} T;
extern "C" __global__ void {name}(const ElementwiseArgs args) {{
    __shared__ T sums[{THREADS}];
    u64 length = args.count / gridDim.x;
    T sum = 0;
    for (u64 index = threadIdx.x; index < length; index += {THREADS}) {{
        u64 at[2];
        offsets(args, blockIdx.x * length + index, at);
        const E* from = (const E*)args.operand[0].data + at[0];
        sum += load(from);
    }}
    sums[threadIdx.x] = sum;
    // The order of the additions is fixed.
    for (unsigned half = {THREADS} / 2; half > 0; half /= 2) {{
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }}
    if (threadIdx.x == 0) {{
        E* to = (E*)args.operand[1].data + blockIdx.x * (u64)args.integers[0];
        store(to, sums[0]);
    }}
}}
"#
    );
    source::with_prelude(&body)
}

/// Returns all sources with their names.
pub(super) fn sources() -> Vec<(String, CString)> {
    let all = DType::REAL.into_iter();
    all.filter_map(|dtype| Some((name(dtype), source_of(dtype).ok()?))).collect()
}

/// Sums `[n,c,..]` over all dimensions but the second.
///
/// # Errors
/// Shapes that do not fit, or an error of the driver.
///
/// # Safety
/// Both are operands of the call, and `out` is its output.
pub(super) unsafe fn channel_sum(
    native: &NativeStream,
    x: RawTensor<'_>,
    out: RawTensor<'_>,
) -> Result<()> {
    ensure!(
        out.shape == &x.shape[1..2] && out.dtype == x.dtype,
        "{out:?}: schema and kernel disagree"
    );
    if x.numel() == 0 {
        let bytes = out.numel() * out.dtype.size();
        // SAFETY: the caller's promise; a new result of one dimension is dense.
        return unsafe { native.fill(out.data, 0, bytes) };
    }
    let (mut shape, mut strides) = (x.shape.to_vec(), x.strides.to_vec());
    shape.swap(0, 1);
    strides.swap(0, 1);
    let transposed = RawTensor { shape: &shape, strides: &strides, ..x };
    // The second operand only defines the iteration space; its memory is replaced below.
    let dense = contiguous_strides(&shape)?;
    let mut args =
        ElementwiseArgs::new(&[transposed, RawTensor { strides: &dense, ..transposed }], &[])?;
    let memory = MemoryRange::of(&out);
    args.operand[1].memory = memory;
    args.integers[0] = out.strides[0] as i64;
    let (name, dtype) = (name(x.dtype), x.dtype);
    // SAFETY: the kernel reads the first operand and writes the second one, as the caller promises.
    unsafe { launch::launch_blocks(native, &name, || source_of(dtype), out.shape[0] as u32, args) }
}
