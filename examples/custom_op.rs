//! A user-defined op with its schema and its kernel.

use anyhow::Result;
use millstream::kernels::TypedCall;
use millstream::ops::{ArgDoc, Def, Signature};
use millstream::{DType, Machine, MachineConfig, Tensor, TensorSpec};

/// The op `demo::scaled_square(x; a)`: a · x · x for every element.
pub(crate) const SCALED_SQUARE: Def = Def::new(
    "demo::scaled_square",
    "a * x * x",
    &[ArgDoc::new("x", "f32, any shape")],
    &[ArgDoc::new("a", "a number").float().or("1")],
    // Refuses invalid calls before anything runs.
    |call| {
        call.attrs.float("a")?;
        Ok(Signature::reads(1, TensorSpec::contiguous(DType::F32, call.inputs[0].shape())?))
    },
);

/// Computes the op. The operands of a kernel are the inputs, then the new results.
///
/// # Errors
/// None is expected.
pub(crate) fn scaled_square(call: &TypedCall<'_>) -> Result<()> {
    let a = call.attrs().float("a")?.unwrap_or(1.0) as f32;
    let (x, y) = (call.read::<f32>(0)?, call.write::<f32>(1)?);
    x.iter().enumerate().for_each(|(k, value)| y.set(k, a * value * value));
    Ok(())
}

/// Calls the op.
///
/// # Errors
/// None is expected.
pub(crate) fn call() -> Result<Vec<f32>> {
    let machine = Machine::new(MachineConfig::default().op(SCALED_SQUARE, scaled_square))?;
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    let y = machine.call("demo::scaled_square", &[&x]).attr("a", 0.5).run()?.remove(0);
    Ok(y.to_vec()?)
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    println!("0.5 * x * x of 1, 2, 3: {:?}", call()?);
    Ok(())
}
