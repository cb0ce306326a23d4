//! Every op against values made with PyTorch.

use anyhow::Result;
use millstream_kernels::{KernelCtx, standard};

fn run(op: &str, ctx: &KernelCtx<'_>) -> Result<()> {
    standard().get("cpu", op).expect("a kernel").run(ctx)
}

millstream_testing::reference_tests!(run);
