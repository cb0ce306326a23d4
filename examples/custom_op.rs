//! A user-defined op with its schema and its kernel: called on a machine, and executed from an
//! execution trace that PyTorch recorded of a program with the same op.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use millstream::kernels::{TypedCall, typed};
use millstream::ops::{ArgDoc, CallSpec, Op, Signature};
use millstream::{DType, Error, Machine, MachineConfig, Tensor, TensorSpec};
use millstream_runner::{RunOptions, RunReport};
use millstream_trace::{EtOptions, LoadOptions, load};

/// The name of the op in PyTorch's traces, with its namespace.
const NAME: &str = "demo::scaled_square";

/// The op `demo::scaled_square(x; a)`: a · x · x for every element.
struct ScaledSquare;

impl Op for ScaledSquare {
    fn name(&self) -> &str {
        NAME
    }

    fn summary(&self) -> &str {
        "a * x * x"
    }

    fn inputs(&self) -> &[ArgDoc] {
        const { &[ArgDoc::new("x", "f32, any shape")] }
    }

    // The names of PyTorch's schema `demo::scaled_square(Tensor x, float a) -> Tensor`.
    fn attrs(&self) -> &[ArgDoc] {
        const { &[ArgDoc::new("a", "a number").float().or("1")] }
    }

    // Refuses every invalid call before anything runs.
    fn signature(&self, call: CallSpec<'_>) -> millstream::Result<Signature> {
        let x = &call.inputs[0];
        if x.dtype != DType::F32 {
            let message = format!("expected f32, got {}", x.brief());
            return Err(Error::Op { op: NAME.to_owned(), message });
        }
        call.attrs.float("a")?;
        Ok(Signature::reads(1, TensorSpec::contiguous(DType::F32, x.shape())?))
    }
}

/// Computes the op. The operands of a kernel are the inputs, then the new results.
fn scaled_square(call: &TypedCall<'_>) -> Result<()> {
    let a = call.attrs().float("a")?.unwrap_or(1.0) as f32;
    let (x, y) = (call.read::<f32>(0)?, call.write::<f32>(1)?);
    for (k, value) in x.iter().enumerate() {
        y.set(k, a * value * value);
    }
    Ok(())
}

/// Calls the op on a machine.
///
/// # Errors
/// None is expected.
pub(crate) fn call() -> Result<Vec<f32>> {
    let mut config = MachineConfig::default();
    config.ops.register(Arc::new(ScaledSquare));
    config.kernels.register("cpu", NAME, Arc::new(typed(ScaledSquare, scaled_square)));
    let machine = Machine::new(config)?;
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    let y = machine.call(NAME, &[&x]).attr("a", 0.5).run()?.remove(0);
    Ok(y.to_vec()?)
}

/// Executes a recorded program that contains the op and compares its outputs with those of PyTorch.
///
/// # Errors
/// None is expected.
pub(crate) fn from_trace() -> Result<RunReport> {
    let mut ops = millstream::ops::standard();
    ops.register(Arc::new(ScaledSquare));
    let mut kernels = millstream::kernels::standard();
    kernels.register("cpu", NAME, Arc::new(typed(ScaledSquare, scaled_square)));

    // The import depends on the schema of the op, the run on its kernel.
    let et = EtOptions { ops: Arc::new(ops.clone()), ..EtOptions::default() };
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/custom_op/et.json");
    let program = load(trace, &LoadOptions { et, ..LoadOptions::default() })?;
    let options = RunOptions::default().machine(|config| config.ops(ops).kernels(kernels));
    Ok(millstream_runner::run(Arc::new(program), &options)?)
}

fn main() -> Result<()> {
    println!("0.5 * x * x of 1, 2, 3: {:?}", call()?);
    for output in from_trace()?.outputs {
        println!("{} is what PyTorch computed: {}", output.name, output.ok());
    }
    Ok(())
}
