//! A user-defined op in an execution trace that PyTorch recorded of a program with the same op.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use millstream::kernels::typed;
use millstream_runner::{RunOptions, RunReport};
use millstream_trace::{EtOptions, LoadOptions, load};

#[path = "custom_op.rs"]
#[allow(dead_code, reason = "an example is a program of its own")]
pub(crate) mod custom_op;

use custom_op::{SCALED_SQUARE, scaled_square};

/// Executes the recorded program and compares its outputs with those of PyTorch. The schema of the
/// op is PyTorch's `demo::scaled_square(Tensor x, float a) -> Tensor`.
///
/// # Errors
/// None is expected.
pub(crate) fn from_trace() -> Result<RunReport> {
    let mut ops = millstream::ops::standard();
    ops.register(Arc::new(SCALED_SQUARE));
    let mut kernels = millstream::kernels::standard();
    let kernel = typed(SCALED_SQUARE, scaled_square);
    kernels.register("cpu", SCALED_SQUARE.name, Arc::new(kernel));

    // The import depends on the schema of the op, the run on its kernel.
    let et = EtOptions { ops: Arc::new(ops.clone()), ..EtOptions::default() };
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/custom_op/et.json");
    let program = load(trace, &LoadOptions { et, ..LoadOptions::default() })?;
    let options = RunOptions::default().machine(|config| config.ops(ops).kernels(kernels));
    Ok(millstream_runner::run(Arc::new(program), &options)?)
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    for output in from_trace()?.outputs {
        println!("{} is what PyTorch computed: {}", output.name, output.ok());
    }
    Ok(())
}
