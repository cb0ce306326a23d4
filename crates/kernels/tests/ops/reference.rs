//! Every op against values made with PyTorch, run as any call and by its prepared form.

use anyhow::Result;
use millstream_kernels::KernelCtx;
use millstream_testing::kernels::run_and_compare_prepared;

fn run(op: &str, ctx: &KernelCtx<'_>) -> Result<()> {
    run_and_compare_prepared(op, ctx)
}

millstream_testing::reference_tests!(run);
