//! Kernels for devices that compute on the host, of kind `cpu`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `element` | dtypes as Rust types, conversions |
//! | `number`, `compute`, `real` | arithmetic on elements, on the types they are computed in |
//! | `walk` | the order in which strided tensors are walked |
//! | `strided`, `lines` | loads and stores; loops over operands |
//! | `elementwise` | the loops of elementwise ops |
//! | `picked` | operands read and written at places by tables |
//! | `memory`, `optional` | the workspace, heap temporaries, overlap; operands left out |
//! | `copy` | copy, cast, fill, reshape |
//! | `arith`, `pointwise`, `compare`, `blend` | elementwise ops |
//! | `join` | copies and fills for the ops that do nothing else |
//! | `create`, `index`, `select`, `order`, `selection`, `shift` | making, joining, picking, sorting |
//! | `product`, `columns` | products of slices, windows of images |
//! | `pairwise` | values joined pairwise |
//! | `reduction`, `reduce`, `extremum`, `scan` | reductions, running sums |
//! | `matmul`, `linear`, `conv`, `attention` | products |
//! | `collective` | operations of all ranks |
//! | `pool`, `norm`, `batch_norm`, `softmax`, `loss`, `nll`, `embed`, `random` | the rest of neural networks |

use std::sync::Arc;

use crate::communicator::{Communicator, SingleRank};
use crate::context::KernelCtx;
use crate::data_movement;
use crate::registry::KernelRegistry;

mod arith;
mod attention;
mod batch_norm;
mod blend;
mod collective;
mod columns;
mod compare;
mod compute;
mod conv;
mod copy;
mod create;
pub(crate) mod element;
pub(crate) mod elementwise;
mod embed;
mod extremum;
mod index;
mod join;
mod linear;
mod lines;
mod loss;
mod matmul;
pub(crate) mod memory;
mod nll;
mod norm;
mod number;
pub(crate) mod optional;
mod order;
mod pairwise;
mod picked;
mod pointwise;
mod pool;
mod product;
mod random;
mod real;
mod reduce;
mod reduction;
mod scan;
mod select;
mod selection;
mod shift;
mod softmax;
pub(crate) mod strided;
mod walk;

/// The kind under which these kernels are registered.
pub const KIND: &str = "cpu";

/// An op's name and its kernel.
type Kernel = (&'static str, fn(&KernelCtx<'_>) -> anyhow::Result<()>);

const FAMILIES: &[&[Kernel]] = &[
    create::KERNELS,
    copy::KERNELS,
    arith::EXTREMES,
    pointwise::NEW,
    pointwise::GRADIENTS,
    pointwise::CHOICES,
    compare::KERNELS,
    blend::NEW,
    reduce::KERNELS,
    extremum::KERNELS,
    scan::KERNELS,
    matmul::KERNELS,
    linear::KERNELS,
    conv::KERNELS,
    pool::KERNELS,
    norm::KERNELS,
    batch_norm::KERNELS,
    softmax::KERNELS,
    loss::KERNELS,
    nll::KERNELS,
    embed::KERNELS,
    attention::KERNELS,
    random::KERNELS,
    index::KERNELS,
    select::KERNELS,
    order::KERNELS,
    shift::KERNELS,
];

/// Kernels that work in place as well, under the name with a `_` after it.
const TWINS: &[&[Kernel]] =
    &[arith::KERNELS, pointwise::KERNELS, pointwise::GELU, compare::LOGIC, blend::KERNELS];

/// Adds all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    for (op, kernel) in data_movement::KERNELS {
        let kernel = move |ctx: &KernelCtx<'_>| kernel(ctx, &join::COPY_PRIMITIVES);
        kernels.register(KIND, op, Arc::new(kernel));
    }
    for (op, kernel) in FAMILIES.iter().copied().flatten() {
        kernels.register(KIND, op, Arc::new(*kernel));
    }
    for (op, kernel) in TWINS.iter().copied().flatten() {
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
