//! Methods of the ops under "Fused elementwise programs".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::call;

impl Tensor {
    /// Returns the last result of a program of elementwise calls, as if they were made one by one.
    ///
    /// - `inputs`: the tensors that the program reads, at most 8
    /// - `program`: the steps, as in "tanh(%0);mul(#0,%1);add(#1,%2|alpha=2)"
    ///
    /// The op `fused`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// let z = Tensor::fused(&[&x, &y], "neg(%0);mul(#0,%1)")?; // -x, and that times y
    /// assert_eq!(z.to_vec::<f32>()?, [-3.0, -10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fused(inputs: &[&Tensor], program: &str) -> Result<Tensor> {
        let mut given = call::Inputs::new();
        let mut attrs = Attrs::new();
        given.extend(inputs.iter().copied());
        attrs.set("program", program);
        call::one("fused", &given, attrs)
    }
}
