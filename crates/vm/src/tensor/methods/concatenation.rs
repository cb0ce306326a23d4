//! Methods of the ops under "Concatenation".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Int, Ints, call};

impl Tensor {
    /// Returns the tensors concatenated along a dimension.
    ///
    /// - `tensors`: one or more, of equal shapes except along dim
    /// - `dim`: the dimension; default 0
    ///
    /// PyTorch: `aten::cat`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn repeat(&self, repeats: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("repeats", repeats.to_ints());
        call::one("repeat", &[self], attrs)
    }
}
