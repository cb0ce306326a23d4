//! Kernels for NVIDIA devices, of kind `cuda`.
//!
//! Our own are written in CUDA C ([`sources`]) and compiled when they are first used. What a kernel
//! cannot do is [`Unsupported`], an error that says so. **None of them has run on a real device
//! yet**: they are compiled for several architectures, and compared with the host's kernels on the
//! stand-in, which compiles them for the host.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `call` | the one argument of our kernels |
//! | `source` | their CUDA C |
//! | `launch` | compilation and launch |
//! | `cache` | compiled kernels on disk |
//! | `functions`, `elementwise` | functions of elements |
//! | `copy`, `create` | copies and casts; tensors from numbers |
//! | `rows` | what kernels that go over rows are given |
//! | `reduce`, `softmax`, `norm` | reductions, softmax, normalisation |
//! | `matrices`, `matmul` | matrix products by cuBLAS |
//! | `windows`, `conv` | windows of images as columns, convolutions |
//! | `weights`, `attention` | attention |
//! | `sums` | sums for each channel |

mod attention;
mod cache;
pub mod call;
mod conv;
mod copy;
mod create;
mod elementwise;
mod functions;
mod launch;
mod norm;
mod reduce;
mod rows;
mod softmax;
mod matmul;
mod matrices;
mod source;
mod sums;
mod weights;
mod windows;

use std::ffi::CString;
use std::fmt;

use anyhow::Context;
use millstream_ep::cuda::Native;

use crate::context::KernelCtx;
use crate::registry::KernelRegistry;

pub use copy::copy_dense;

/// The kind under which these kernels are registered.
pub const KIND: &str = "cuda";

/// The error of a kernel that is asked for what it cannot do on this kind of device yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

impl Unsupported {
    fn of(what: &str) -> anyhow::Error {
        Unsupported(what.to_owned()).into()
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel for this kind of device does not serve this yet: {}", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// Adds all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    copy::register(kernels);
    create::register(kernels);
    elementwise::register(kernels);
    reduce::register(kernels);
    softmax::register(kernels);
    norm::register(kernels);
    matmul::register(kernels);
    conv::register(kernels);
    attention::register(kernels);
}

/// Every kernel's source, by the kernel's name.
pub fn sources() -> Vec<(String, CString)> {
    let families = [
        elementwise::sources(),
        copy::sources(),
        reduce::sources(),
        softmax::sources(),
        norm::sources(),
        matmul::sources(),
        windows::sources(),
        sums::sources(),
        weights::sources(),
    ];
    families.concat()
}

/// The stream that a call is to launch on.
///
/// # Errors
/// The call runs on a device of another kind.
pub fn native<'a>(ctx: &KernelCtx<'a>) -> anyhow::Result<&'a Native> {
    ctx.native().downcast_ref().context("this is no stream of a CUDA device")
}
