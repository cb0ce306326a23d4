//! Tensors in and out: what docs/rust.md shows first.

use millstream::options::{Conv2d, Sum};
use millstream::{DType, Generator, Machine, MachineConfig, NEW, REST, Result, Tensor};

/// Returns what the page shows.
///
/// # Errors
/// None is expected.
pub(crate) fn run() -> Result<Vec<String>> {
    let mut shown = Vec::new();
    let machine = Machine::new(MachineConfig::default())?;

    // Make.
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    let random = Generator::new(7);
    let w = Tensor::randn((3, 2), &random, &machine)?;
    let steps = Tensor::arange(0..5, &machine)?;

    // Compute.
    let y = (x.matmul(&w)? * 2.0)?.relu()?;
    let share = (&x / x.sum_with(1, Sum::default().keepdim(true)))?;
    let (greatest, at) = x.max(1)?;
    let image = Tensor::ones((1, 1, 4, 4), DType::F32, &machine)?;
    let kernel = Tensor::full((1, 1, 3, 3), 0.5, &machine)?;
    let edges = image.conv2d(&kernel, Conv2d::default().padding(1))?;

    // Select.
    let corner = x.i((0, ..2))?;
    let last = x.i((REST, -1))?;
    let row = steps.i((NEW, 1..4))?;

    // Read.
    let sum: f32 = x.sum(..)?.item()?;
    let elements: Vec<f32> = corner.to_vec()?;
    shown.push(format!("{share}"));
    shown.push(format!("{greatest} {at}"));
    shown.push(format!("{}", edges.i((0, 0))?));
    shown.push(format!("{last} {row} {sum} {elements:?}"));
    shown.push(format!("{:?} {:?}", y.shape(), y.dtype()));
    Ok(shown)
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    run()?.iter().for_each(|line| println!("{line}"));
    Ok(())
}
