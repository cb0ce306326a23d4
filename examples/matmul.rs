//! A matrix product, the smallest program.

use millstream::{Machine, MachineConfig, Result, Tensor};

pub(crate) fn main() -> Result<()> {
    let machine = Machine::new(MachineConfig::default())?;
    let a = Tensor::randn((2, 3), 1, &machine)?;
    let b = Tensor::randn((3, 4), 2, &machine)?;
    println!("{}", a.matmul(&b)?);
    Ok(())
}
