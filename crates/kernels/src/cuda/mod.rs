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
//! | `apart` | operands that share memory with what a call changes |
//! | `walk` | the argument of kernels whose operands go their own ways, and the texts they are made of |
//! | `moved`, `shift` | elements in another place |
//! | `pick`, `put`, `masks` | elements that indices and masks name |
//! | `scan`, `order` | running sums, sorting |
//! | `pool`, `loss`, `nll` | of neural networks |

mod apart;
mod attention;
mod cache;
pub mod call;
mod conv;
mod copy;
mod create;
mod elementwise;
mod functions;
mod launch;
mod loss;
mod masks;
mod matmul;
mod matrices;
mod moved;
mod nll;
mod norm;
mod order;
mod pick;
mod pool;
mod put;
mod reduce;
mod rows;
mod scan;
mod shift;
mod softmax;
mod source;
mod sums;
mod walk;
mod weights;
mod windows;

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use millstream_ep::cuda::Native;
use millstream_types::DType;

use crate::context::KernelCtx;
use crate::parts;
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

/// An op's name and its kernel.
type Kernel = (&'static str, fn(&KernelCtx<'_>) -> anyhow::Result<()>);

/// Dtypes of which sources are given: each type that is computed in, and elements that are converted.
const SOME: &[DType] = &[DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8, DType::Bool];

/// Those of floats.
const SOME_FLOATS: &[DType] = &[DType::F64, DType::F16];

const FAMILIES: &[&[Kernel]] = &[
    masks::KERNELS,
    nll::KERNELS,
    order::KERNELS,
    pick::KERNELS,
    pool::KERNELS,
    put::KERNELS,
    scan::KERNELS,
    shift::KERNELS,
];

/// Adds all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    for (op, kernel) in FAMILIES.iter().copied().flatten() {
        kernels.register(KIND, op, Arc::new(*kernel));
    }
    for (op, kernel) in parts::KERNELS {
        let kernel = move |ctx: &KernelCtx<'_>| kernel(ctx, &moved::HANDS);
        kernels.register(KIND, op, Arc::new(kernel));
    }
    loss::register(kernels);
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

/// Every kernel's source, by the kernel's name, in a few dtypes each.
pub fn sources() -> Vec<(String, CString)> {
    let families = [
        copy::sources(),
        elementwise::sources(),
        loss::sources(),
        masks::sources(),
        matmul::sources(),
        nll::sources(),
        norm::sources(),
        order::sources(),
        pick::sources(),
        pool::sources(),
        put::sources(),
        reduce::sources(),
        scan::sources(),
        shift::sources(),
        softmax::sources(),
        sums::sources(),
        weights::sources(),
        windows::sources(),
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
