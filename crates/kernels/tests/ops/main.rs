//! Every op with its CPU kernel, against references that go element by element.

mod casts;
mod collective;
mod elementwise;
mod in_place;
mod indices;
mod matmul;
mod networks;
mod properties;
mod reference;
mod selects;
mod sums;
mod support;
mod views;

use millstream_kernels::{KernelCtx, KernelRegistry};

/// Where the values made with PyTorch lie.
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference");

/// Runs an op's kernel.
fn run(kernels: &KernelRegistry, op: &str, ctx: &KernelCtx<'_>) -> anyhow::Result<()> {
    kernels.get("cpu", op).expect("a kernel").run(ctx)
}
