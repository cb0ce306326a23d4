//! Kernels of the device kind `cpu`: devices that compute on the host.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `element` | dtypes as Rust types, conversions |
//! | `number`, `compute`, `real` | arithmetic in the types of computations |
//! | `traversal` | the order in which loops visit strided tensors |
//! | `strided`, `lines` | loads and stores; loops over operands |
//! | `indexed` | operands accessed at irregular offsets |
//! | `memory`, `optional_inputs` | workspace, heap temporaries, overlap; optional operands |
//! | `elementwise` | the loops of elementwise ops |
//! | `arith`, `pointwise`, `compare`, `ternary` | elementwise ops |
//! | `create`, `copy` | creation, copies, conversions |
//! | `copy_primitives` | the copies and fills of ops that do nothing else |
//! | `index`, `masked_select`, `rearrange` | gather, scatter, selection, rearrangement |
//! | `sort`, `partial_sort` | sorting, top-k |
//! | `pairwise`, `reduction` | pairwise combination, the loops of reductions |
//! | `reduce`, `extremum`, `scan` | reductions, cumulative ops |
//! | `slice_matmul`, `im2col` | products of slices, windows of images |
//! | `matmul`, `linear`, `conv`, `attention` | matrix products and ops built on them |
//! | `pooling`, `norm`, `batch_norm`, `softmax` | layers of neural networks |
//! | `loss`, `nll`, `embedding`, `dropout` | losses, table lookup, dropout |
//! | `collective` | collectives of all ranks |

use std::sync::Arc;

use crate::communicator::{Communicator, SingleRank};
use crate::context::KernelCtx;
use crate::data_movement;
use crate::registry::KernelRegistry;

mod arith;
mod attention;
mod batch_norm;
mod collective;
mod compare;
mod compute;
mod conv;
mod conv_integer;
mod copy;
mod copy_primitives;
mod create;
mod dropout;
pub(crate) mod element;
pub(crate) mod elementwise;
mod embedding;
mod extremum;
mod im2col;
pub(crate) mod index;
mod indexed;
mod linear;
mod lines;
mod loss;
mod masked_select;
mod matmul;
pub(crate) mod memory;
mod nll;
mod norm;
mod number;
pub(crate) mod optional_inputs;
mod pairwise;
mod partial_sort;
mod pointwise;
mod pooling;
mod real;
mod rearrange;
mod reduce;
mod reduction;
mod scan;
mod slice_matmul;
mod softmax;
mod sort;
pub(crate) mod strided;
mod ternary;
mod traversal;

/// The device kind of these kernels.
pub const KIND: &str = "cpu";

/// The name of an op and its kernel.
type Kernel = (&'static str, fn(&KernelCtx<'_>) -> anyhow::Result<()>);

const FAMILIES: &[&[Kernel]] = &[
    create::KERNELS,
    copy::KERNELS,
    arith::EXTREMES,
    pointwise::NEW,
    pointwise::GRADIENTS,
    pointwise::CHOICES,
    compare::KERNELS,
    ternary::NEW,
    reduce::KERNELS,
    extremum::KERNELS,
    scan::KERNELS,
    matmul::KERNELS,
    linear::KERNELS,
    conv::KERNELS,
    pooling::KERNELS,
    norm::KERNELS,
    batch_norm::KERNELS,
    softmax::KERNELS,
    loss::KERNELS,
    nll::KERNELS,
    embedding::KERNELS,
    attention::KERNELS,
    dropout::KERNELS,
    index::KERNELS,
    masked_select::KERNELS,
    sort::KERNELS,
    rearrange::KERNELS,
];

/// Kernels that are also registered for the in-place op, whose name ends in `_`.
const WITH_IN_PLACE: &[&[Kernel]] =
    &[arith::KERNELS, pointwise::KERNELS, pointwise::GELU, compare::LOGIC, ternary::KERNELS];

/// Registers all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    for (op, kernel) in data_movement::KERNELS {
        let kernel = move |ctx: &KernelCtx<'_>| kernel(ctx, &copy_primitives::COPY_PRIMITIVES);
        kernels.register(KIND, op, Arc::new(kernel));
    }
    for (op, kernel) in FAMILIES.iter().copied().flatten() {
        kernels.register(KIND, op, Arc::new(*kernel));
    }
    for (op, kernel) in WITH_IN_PLACE.iter().copied().flatten() {
        kernels.register(KIND, op, Arc::new(*kernel));
        kernels.register(KIND, &format!("{op}_"), Arc::new(*kernel));
    }
    let single: Arc<dyn Communicator> = Arc::new(SingleRank);
    register_communicator(kernels, &single);
}

/// Adds the kernels of collectives over this communicator. They replace those of a program of one
/// rank.
pub fn register_communicator(kernels: &mut KernelRegistry, communicator: &Arc<dyn Communicator>) {
    collective::register(kernels, communicator);
}
