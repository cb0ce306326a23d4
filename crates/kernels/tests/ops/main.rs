//! Every op with its CPU kernel, against references that compute element by element.

mod collective;
mod copy;
mod elementwise;
mod in_place;
mod index;
mod masked_select;
mod matmul;
mod networks;
mod properties;
mod reduce;
mod reference;
mod support;
mod views;

use millstream_kernels::{KernelCtx, KernelRegistry};

/// The folder of the values made with PyTorch.
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference");

/// Runs the kernel of an op.
fn run(kernels: &KernelRegistry, op: &str, ctx: &KernelCtx<'_>) -> anyhow::Result<()> {
    kernels.get("cpu", op).expect("a kernel").run(ctx)
}
