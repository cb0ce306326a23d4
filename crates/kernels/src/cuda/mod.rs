//! Kernels for NVIDIA devices, of kind `cuda`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `copy` | copies of tensors without gaps, by the device's copy engines |

mod copy;

use std::sync::Arc;

use anyhow::Context;
use millstream_ep::cuda::Native;

use crate::context::KernelCtx;
use crate::registry::KernelRegistry;

pub use copy::copy_dense;

/// The kind under which these kernels are registered.
pub const KIND: &str = "cuda";

/// Adds all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    kernels.register(KIND, "copy", Arc::new(copy::copy));
}

/// The stream that a call is to launch on.
///
/// # Errors
/// The call runs on a device of another kind.
pub fn native<'a>(ctx: &KernelCtx<'a>) -> anyhow::Result<&'a Native> {
    ctx.native().downcast_ref().context("this is no stream of a CUDA device")
}
