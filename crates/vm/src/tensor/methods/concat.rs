//! Methods of the ops under "Concatenation".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Ints, call};

impl Tensor {
    /// Returns the tensors concatenated along a dimension.
    ///
    /// - `tensors`: one or more, of equal shapes except along dim
    /// - `dim`: the dimension; default 0
    ///
    /// PyTorch: `aten::cat`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 2), &machine)?;
    /// let y = Tensor::from_slice(&[3.0f32, 4.0], (1, 2), &machine)?;
    /// let y = Tensor::cat(&[&x, &y], 1)?;
    /// assert_eq!(y.shape(), [1, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cat(tensors: &[&Tensor], dim: impl Int) -> Result<Tensor> {
        let mut given = call::Inputs::new();
        let mut attrs = Attrs::new();
        given.extend(tensors.iter().copied());
        attrs.set("dim", dim.to_int());
        call::one("cat", &given, attrs)
    }

    /// Returns the tensors concatenated along a new dimension.
    ///
    /// - `tensors`: one or more, of equal shapes
    /// - `dim`: the position of the new dimension in the result; default 0
    ///
    /// PyTorch: `aten::stack`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let y = Tensor::stack(&[&x, &y], 0)?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], dim: impl Int) -> Result<Tensor> {
        let mut given = call::Inputs::new();
        let mut attrs = Attrs::new();
        given.extend(tensors.iter().copied());
        attrs.set("dim", dim.to_int());
        call::one("stack", &given, attrs)
    }

    /// Returns x tiled along each dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `repeats`: the number of repetitions for each dimension; new dimensions come first
    ///
    /// PyTorch: `aten::repeat`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.repeat([2, 2])?;
    /// assert_eq!(y.shape(), [2, 4]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(&self, repeats: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("repeats", repeats.to_ints());
        call::one("repeat", &[self], attrs)
    }
}
