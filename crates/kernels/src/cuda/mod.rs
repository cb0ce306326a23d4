//! Kernels for NVIDIA devices, of kind `cuda`.
//!
//! Our own kernels are written in CUDA C ([`sources`]) and compiled at their first use. A call that
//! a kernel cannot execute fails with [`Unsupported`]. Tests compile them for several
//! architectures, and compare their results with PyTorch's values on the stand-in, which compiles
//! them for the host; `gpu-check` makes the same comparison on a device.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`args`] | the argument block of a kernel, and of elementwise ones |
//! | `source`, `functions` | CUDA C: the prelude, elementwise kernels, functions of elements |
//! | `launch`, `cache` | compilation and launches; compiled kernels on disk |
//! | `plan` | what a call launches, chosen once |
//! | `strided`, `template` | kernels whose operands have own strides: argument block, sources |
//! | `row_reduction` | kernels over the rows of a tensor: argument block, assignment of threads |
//! | `overlap` | copies of operands that overlap the written tensor |
//! | `elementwise`, `fused` | elementwise ops; programs of them |
//! | `multi_tensor` | such programs over lists of tensors |
//! | `copy`, `create` | copies and casts; tensors from numbers |
//! | `reduce`, `softmax`, `norm` | reductions, softmax, normalisation |
//! | `gemm`, `matmul` | matrix products by cuBLAS |
//! | `im2col`, `conv` | windows of images as columns, convolutions |
//! | `attention` | attention |
//! | `channel_sum` | sums over all dimensions but the channels |
//! | `gather`, `scatter`, `masked_select` | reads and writes by index, by mask |
//! | `rearrange`, `scan`, `sort` | `flip`, `roll` and triangles; cumulative sums; sorting |
//! | `pooling`, `loss`, `nll` | pooling, losses |
//! | `random` | random numbers, dropout |
//! | `collective` | collectives of all ranks, by NCCL |
//! | `on_host` | ops that the host computes, on copies |

pub mod args;
mod attention;
mod cache;
mod channel_sum;
mod collective;
mod conv;
mod copy;
mod create;
mod elementwise;
mod functions;
mod fused;
mod gather;
mod gemm;
mod im2col;
mod launch;
mod loss;
mod masked_select;
mod matmul;
mod multi_tensor;
mod nll;
mod norm;
mod on_host;
mod overlap;
mod plan;
mod pooling;
mod random;
mod rearrange;
mod reduce;
mod row_reduction;
mod scan;
mod scatter;
mod scatter_reduce;
mod softmax;
mod sort;
mod source;
mod strided;
mod template;

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use millstream_ep::cuda::NativeStream;
use millstream_types::DType;

use crate::context::KernelCtx;
use crate::data_movement;
use crate::registry::KernelRegistry;

pub use copy::copy_dense;
pub use elementwise::elementwise_ops;
pub use launch::{Compiled, compiled};
pub use on_host::host_ops;

/// The kind under which these kernels are registered.
pub const KIND: &str = "cuda";

/// The error of a call that no kernel of this kind of device can execute yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

impl Unsupported {
    fn of(what: &str) -> anyhow::Error {
        Unsupported(what.to_owned()).into()
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not yet supported by the kernels of this kind of device: {}", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// An op's name and its kernel.
type Kernel = (&'static str, fn(&KernelCtx<'_>) -> anyhow::Result<()>);

/// The dtypes in [`sources`]: each type that kernels compute in, and some that they convert.
const SAMPLE_DTYPES: &[DType] =
    &[DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8, DType::Bool];

/// The float dtypes in [`sources`].
const SAMPLE_FLOATS: &[DType] = &[DType::F64, DType::F16];

const FAMILIES: &[&[Kernel]] = &[
    attention::KERNELS,
    conv::KERNELS,
    copy::KERNELS,
    create::KERNELS,
    fused::KERNELS,
    gather::KERNELS,
    masked_select::KERNELS,
    matmul::KERNELS,
    multi_tensor::KERNELS,
    nll::KERNELS,
    pooling::KERNELS,
    random::KERNELS,
    rearrange::KERNELS,
    scan::KERNELS,
    scatter::KERNELS,
    sort::KERNELS,
];

/// Registers all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    let mut launching = KernelRegistry::new();
    register_launching(&mut launching);
    plan::register(&launching, kernels);
    collective::register(kernels);
    on_host::register(kernels);
    on_host::register_complex(kernels);
}

/// Registers the kernels that the device computes.
fn register_launching(kernels: &mut KernelRegistry) {
    for (op, kernel) in FAMILIES.iter().copied().flatten() {
        kernels.register(KIND, op, Arc::new(*kernel));
    }
    for (op, kernel) in data_movement::KERNELS {
        let kernel = move |ctx: &KernelCtx<'_>| kernel(ctx, &copy::COPY_PRIMITIVES);
        kernels.register(KIND, op, Arc::new(kernel));
    }
    loss::register(kernels);
    elementwise::register(kernels);
    reduce::register(kernels);
    softmax::register(kernels);
    norm::register(kernels);
}

/// Returns the name and the source of every kernel, for a few dtypes each.
pub fn sources() -> Vec<(String, CString)> {
    let families = [
        attention::sources(),
        channel_sum::sources(),
        copy::sources(),
        elementwise::sources(),
        fused::sources(),
        gather::sources(),
        im2col::sources(),
        loss::sources(),
        masked_select::sources(),
        matmul::sources(),
        multi_tensor::sources(),
        nll::sources(),
        norm::sources(),
        pooling::sources(),
        random::sources(),
        rearrange::sources(),
        reduce::sources(),
        scan::sources(),
        scatter::sources(),
        softmax::sources(),
        sort::sources(),
    ];
    families.concat()
}

/// Returns the native stream of a call.
///
/// # Errors
/// The call runs on a device of another kind.
pub fn native<'a>(ctx: &KernelCtx<'a>) -> anyhow::Result<&'a NativeStream> {
    ctx.native().downcast_ref().context("the call's stream is not a CUDA stream")
}
