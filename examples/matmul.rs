//! A matrix product, the smallest program.

use millstream::{Machine, MachineConfig, Result, Tensor};

/// Returns the product of two random matrices.
///
/// # Errors
/// None is expected.
pub(crate) fn product() -> Result<Tensor> {
    let machine = Machine::new(MachineConfig::default())?;
    let a = Tensor::randn((2, 3), 1u64, &machine)?;
    let b = Tensor::randn((3, 4), 2u64, &machine)?;
    a.matmul(&b)
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    println!("{}", product()?);
    Ok(())
}
