//! Sums over all dimensions but the channels: the gradient of a bias.

use std::ffi::CString;

use anyhow::{Result, ensure};

use millstream_ep::cuda::NativeStream;
use millstream_types::Dims;

use super::strided::{StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use crate::context::RawTensor;

const CHANNEL_SUM: KernelTemplate = template!("channel_sum");

pub(super) fn sources() -> Vec<(String, CString)> {
    CHANNEL_SUM.typed_sources(super::SAMPLE_FLOATS)
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
    let (mut shape, mut strides) = (Dims::from_slice(x.shape), Dims::from_slice(x.strides));
    shape.swap(0, 1);
    strides.swap(0, 1);
    let along_channels =
        shape.iter().enumerate().map(|(k, _)| if k == 0 { out.strides[0] } else { 0 });
    let operands = [
        StridedOperand::with_strides(x, strides),
        StridedOperand::with_strides(out, along_channels),
    ];
    let args = StridedArgs::new(&shape, 1, &operands)?.integers(&[shape[0] as i64])?;
    // SAFETY: the kernel reads the first operand and writes the second one, as the caller promises.
    unsafe { CHANNEL_SUM.launch_blocks(native, x.dtype, shape[0] as u64, args) }
}
