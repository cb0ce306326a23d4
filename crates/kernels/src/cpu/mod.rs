//! Kernels of the device kind `cpu`: devices that compute on the host.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `element`, `half_float` | dtypes as Rust types, conversions |
//! | `number`, `compute`, `real` | arithmetic in the types of computations |
//! | `vector_math` | exponential, logarithm and their like, vectorised |
//! | `vectorised` | functions compiled for more than one instruction set |
//! | `special` | functions that std lacks |
//! | `traversal` | the order in which loops visit strided tensors |
//! | `conversion` | conversions of dense elements |
//! | `strided`, `loops`, `lines` | loads and stores; loops over operands, over lines |
//! | `indexed` | operands accessed at irregular offsets |
//! | `call_layouts`, `host_kernel` | the layouts that a kernel was prepared for; prepared calls |
//! | `memory`, `optional_inputs` | workspace, heap temporaries, overlap; optional operands |
//! | `function` | functions of elements, compiled into loops |
//! | `elementwise` | elementwise calls, bound to functions |
//! | `row_plan`, `elementwise_kernel` | their loops over operands |
//! | `elementwise_tiles` | their loops over transposed operands |
//! | `arith`, `pointwise`, `compare`, `ternary` | elementwise ops |
//! | `complex`, `complex_functions` | elementwise ops on complex numbers |
//! | `special_functions` | Bessel and gamma functions, orthogonal polynomials |
//! | `fused`, `multi_tensor` | programs of elementwise calls, and on lists of tensors |
//! | `closure` | the refusal of functions that a run does not have |
//! | `create`, `copy`, `transpose` | creation, copies, conversions; copies in tiles |
//! | `copy_primitives` | the copies and fills of ops that do nothing else |
//! | `index`, `masked_select`, `rearrange` | gather, scatter, selection, rearrangement |
//! | `sort`, `partial_sort` | sorting, top-k |
//! | `counting`, `unique` | sorted search, histograms, distinct elements |
//! | `pairwise`, `reduction`, `partial` | pairwise combination, the loops of reductions |
//! | `reduce`, `extremum`, `scan` | reductions, cumulative ops |
//! | `slice_matmul`, `im2col` | products of slices, windows of images |
//! | `matmul`, `linear`, `conv`, `attention` | matrix products and ops built on them |
//! | `winograd` | convolutions with weights of 3 × 3, with fewer multiplications |
//! | `direct` | convolutions of groups of few channels, without products of matrices |
//! | `fft` | discrete Fourier transforms |
//! | `linalg` | factorizations and solutions of matrices |
//! | `pooling`, `norm`, `batch_norm`, `softmax` | layers of neural networks |
//! | `loss`, `nll`, `embedding`, `dropout` | losses, table lookup, dropout |
//! | `grid`, `boxes`, `segments`, `ctc` | samples of images, segments, the loss of alignments |
//! | `collective` | collectives of all ranks |

use std::sync::Arc;

use millstream_ops::fused::FUSED;
use millstream_ops::multi_tensor::MULTI_TENSOR;

use crate::context::KernelCtx;
use crate::data_movement;
use crate::registry::KernelRegistry;

use elementwise::{Bind, ElementwiseOp};
use elementwise_kernel::ElementwiseKernel;
use fused::FusedKernel;
use host_kernel::HostKernel;
use multi_tensor::MultiTensorKernel;

mod arith;
mod attention;
mod batch_norm;
mod boxes;
pub(crate) mod call_layouts;
mod closure;
pub(crate) mod collective;
mod compare;
mod complex;
mod complex_functions;
mod compute;
mod conv;
mod conv_integer;
mod conversion;
mod copy;
mod copy_primitives;
mod counting;
mod create;
mod ctc;
mod direct;
mod dropout;
pub(crate) mod element;
pub(crate) mod elementwise;
mod elementwise_kernel;
mod elementwise_tiles;
mod embedding;
mod extremum;
mod fft;
mod frexp;
mod function;
mod fused;
mod grid;
mod half_float;
mod host_kernel;
mod im2col;
pub(crate) mod index;
mod indexed;
mod lanes;
mod linalg;
mod linear;
mod lines;
mod loops;
pub(crate) mod loss;
mod masked_select;
mod matmul;
pub(crate) mod memory;
pub(crate) mod multi_tensor;
mod nll;
mod norm;
mod number;
pub(crate) mod optional_inputs;
mod pairwise;
mod partial;
mod partial_sort;
mod philox;
mod pointwise;
mod pooling;
mod random;
mod random_numbers;
mod real;
mod rearrange;
mod reduce;
mod reduction;
mod row_plan;
mod scan;
mod segments;
mod series;
mod slice_matmul;
mod softmax;
mod sort;
mod special;
mod special_functions;
pub(crate) mod strided;
mod ternary;
mod transpose;
mod traversal;
mod unique;
pub(crate) mod unsigned;
mod vector_math;
mod vectorised;
mod winograd;

/// The device kind of these kernels.
pub const KIND: &str = "cpu";

/// The name of an op and its kernel.
type Kernel = (&'static str, fn(&KernelCtx<'_>) -> anyhow::Result<()>);

const FAMILIES: &[&[Kernel]] = &[
    closure::KERNELS,
    create::KERNELS,
    copy::KERNELS,
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
    random::KERNELS,
    dropout::KERNELS,
    index::KERNELS,
    masked_select::KERNELS,
    sort::KERNELS,
    rearrange::KERNELS,
];

/// Elementwise ops without an in-place form.
const NEW: &[&[ElementwiseOp]] = &[
    arith::EXTREMES,
    arith::NUMBERS,
    complex::NEW,
    pointwise::NEW,
    pointwise::GRADIENTS,
    pointwise::CHOICES,
    special_functions::OF_ONE,
    special_functions::OF_TWO,
    special_functions::CHOICES,
    compare::KERNELS,
    ternary::NEW,
];

/// Elementwise ops with an in-place form, whose name ends in `_`.
const WITH_IN_PLACE: &[&[ElementwiseOp]] = &[
    arith::KERNELS,
    arith::ANGLES,
    pointwise::KERNELS,
    pointwise::GELU,
    compare::LOGIC,
    ternary::KERNELS,
];

/// Returns the function that binds the calls of an elementwise op that returns a new tensor.
fn bind_of(op: &str) -> Option<Bind> {
    let mut ops = NEW.iter().chain(WITH_IN_PLACE).copied().flatten();
    ops.find(|(name, _)| *name == op).map(|(_, bind)| *bind)
}

/// The kernels that the host runs for every device, with the operands that they write.
const ON_HOST: &[&[(Kernel, Written)]] = &[
    counting::KERNELS,
    boxes::KERNELS,
    ctc::KERNELS,
    fft::KERNELS,
    frexp::KERNELS,
    grid::KERNELS,
    linalg::KERNELS,
    reduce::ON_HOST,
    scan::ON_HOST,
    segments::KERNELS,
    unique::KERNELS,
];

/// The elementwise ops that the host computes for every device.
#[cfg(feature = "cuda")]
const ELEMENTWISE_ON_HOST: &[&[ElementwiseOp]] = &[
    arith::NUMBERS,
    complex::NEW,
    special_functions::OF_ONE,
    special_functions::OF_TWO,
    special_functions::CHOICES,
];

/// The operands that a kernel writes.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(feature = "cuda"),
    expect(dead_code, reason = "devices with memory of their own ask for it")
)]
pub(crate) enum Written {
    /// This number of operands at the end.
    Last(usize),
    /// Those after this number of inputs.
    After(usize),
    /// The first.
    First,
}

/// Returns the operands that the kernel of an op writes, which is none of [`ON_HOST`].
#[cfg(feature = "cuda")]
pub(crate) fn written_by(op: &str) -> Written {
    match op {
        "fill" => Written::First,
        "masked_select" | "nonzero" => Written::Last(2),
        _ if op.ends_with('_') => Written::First,
        _ => Written::Last(1),
    }
}

/// Returns the kernels that devices with memory of their own run on copies: the op, the kernel, and
/// the operands that it writes.
#[cfg(feature = "cuda")]
pub(crate) fn on_host() -> Vec<(&'static str, Arc<dyn crate::registry::Kernel>, Written)> {
    let elementwise = ELEMENTWISE_ON_HOST.iter().copied().flatten();
    let elementwise = elementwise.map(|&(op, bind)| {
        let kernel: Arc<dyn crate::registry::Kernel> = Arc::new(ElementwiseKernel::new(op, bind));
        (op, kernel, Written::Last(1))
    });
    let others = ON_HOST.iter().copied().flatten();
    let others = others.map(|&((op, kernel), written)| {
        let kernel: Arc<dyn crate::registry::Kernel> = Arc::new(kernel);
        (op, kernel, written)
    });
    elementwise.chain(others).collect()
}

/// Registers all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    for (op, kernel) in data_movement::KERNELS {
        let kernel = move |ctx: &KernelCtx<'_>| kernel(ctx, &copy_primitives::COPY_PRIMITIVES);
        kernels.register(KIND, op, Arc::new(HostKernel(kernel)));
    }
    for (op, kernel) in FAMILIES.iter().copied().flatten() {
        kernels.register(KIND, op, Arc::new(HostKernel(*kernel)));
    }
    for ((op, kernel), _) in ON_HOST.iter().copied().flatten() {
        kernels.register(KIND, op, Arc::new(HostKernel(*kernel)));
    }
    for (op, bind) in NEW.iter().chain(WITH_IN_PLACE).copied().flatten() {
        kernels.register(KIND, op, Arc::new(ElementwiseKernel::new(op, *bind)));
    }
    for (op, bind) in WITH_IN_PLACE.iter().copied().flatten() {
        let kernel = ElementwiseKernel::new(op, *bind);
        kernels.register(KIND, &format!("{op}_"), Arc::new(kernel));
    }
    copy::register(kernels);
    kernels.register(KIND, FUSED, Arc::new(FusedKernel));
    kernels.register(KIND, MULTI_TENSOR, Arc::new(MultiTensorKernel::default()));
    collective::register(kernels);
}
