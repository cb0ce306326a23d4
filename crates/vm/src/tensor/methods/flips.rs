//! Methods of the ops under "Flips, rolls, triangles, padding".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_ops::args::Scalar;
use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Dims, Int, Ints, call};

/// Options of [`Tensor::constant_pad_nd_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
/// let y = x.constant_pad_nd_with([1, 2], options::ConstantPadNd::default().value(9))?;
/// assert_eq!(y.to_vec::<f32>()?, [9.0, 1.0, 2.0, 9.0, 9.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConstantPadNd {
    attrs: Attrs,
}

impl ConstantPadNd {
    /// Sets `value`: the value; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.constant_pad_nd_with([1, 2], options::ConstantPadNd::default().value(9))?;
    /// assert_eq!(y.to_vec::<f32>()?, [9.0, 1.0, 2.0, 9.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn value(mut self, value: impl Into<Scalar>) -> ConstantPadNd {
        self.attrs.set("value", call::number(value));
        self
    }
}

impl Tensor {
    /// Returns x with the order of elements reversed along dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dims`: the dimensions
    ///
    /// PyTorch: `aten::flip`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.flip(0)?.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn flip(&self, dims: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dims", dims.to_ints());
        call::one("flip", &[self], attrs)
    }

    /// Returns x with elements shifted along dimensions, from the end back to the start.
    ///
    /// - `x`, this tensor: any shape
    /// - `shifts`: the shift for each dimension
    /// - `dims`: the dimensions, or `..`
    ///
    /// PyTorch: `aten::roll`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.roll(1, 0)?.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn roll(&self, shifts: impl Ints, dims: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("shifts", shifts.to_ints());
        if let Some(dims) = dims.to_dims() {
            attrs.set("dims", dims);
        }
        call::one("roll", &[self], attrs)
    }

    /// Returns the upper triangles of matrices: zero below a diagonal.
    ///
    /// - `x`, this tensor: two or more dimensions
    /// - `diagonal`: the offset from the main diagonal, negative below it; default 0
    ///
    /// PyTorch: `aten::triu`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.triu(0)?.to_vec::<f32>()?, [1.0, 2.0, 0.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn triu(&self, diagonal: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("diagonal", diagonal.to_int());
        call::one("triu", &[self], attrs)
    }

    /// Returns the lower triangles of matrices: zero above a diagonal.
    ///
    /// - `x`, this tensor: two or more dimensions
    /// - `diagonal`: the offset from the main diagonal, negative below it; default 0
    ///
    /// PyTorch: `aten::tril`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.tril(0)?.to_vec::<f32>()?, [1.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn tril(&self, diagonal: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("diagonal", diagonal.to_int());
        call::one("tril", &[self], attrs)
    }

    /// Sets the elements below a diagonal of matrices to zero, in place.
    ///
    /// - `x`, this tensor: two or more dimensions, without overlapping elements; changed in place
    /// - `diagonal`: the offset from the main diagonal, negative below it; default 0
    ///
    /// PyTorch: `aten::triu_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.triu_(0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 0.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn triu_(&self, diagonal: impl Int) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("diagonal", diagonal.to_int());
        call::changed("triu_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements above a diagonal of matrices to zero, in place.
    ///
    /// - `x`, this tensor: two or more dimensions, without overlapping elements; changed in place
    /// - `diagonal`: the offset from the main diagonal, negative below it; default 0
    ///
    /// PyTorch: `aten::tril_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.tril_(0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn tril_(&self, diagonal: impl Int) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("diagonal", diagonal.to_int());
        call::changed("tril_", &[self], attrs)?;
        Ok(self)
    }

    /// Returns x padded with a value before and after its last dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `pad`: the numbers of elements before and after, in pairs from the last dimension on;
    ///   negative numbers remove elements
    ///
    /// PyTorch: `aten::constant_pad_nd`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(x.constant_pad_nd([1, 2])?.to_vec::<f32>()?, [0.0, 1.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn constant_pad_nd(&self, pad: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("pad", pad.to_ints());
        call::one("constant_pad_nd", &[self], attrs)
    }

    /// Returns x padded with a value before and after its last dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `pad`: the numbers of elements before and after, in pairs from the last dimension on;
    ///   negative numbers remove elements
    /// - `options`: [`struct@ConstantPadNd`], which has defaults
    ///
    /// PyTorch: `aten::constant_pad_nd`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.constant_pad_nd_with([1, 2], options::ConstantPadNd::default().value(9))?;
    /// assert_eq!(y.to_vec::<f32>()?, [9.0, 1.0, 2.0, 9.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn constant_pad_nd_with(&self, pad: impl Ints, options: ConstantPadNd) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("pad", pad.to_ints());
        call::one("constant_pad_nd", &[self], attrs)
    }
}
