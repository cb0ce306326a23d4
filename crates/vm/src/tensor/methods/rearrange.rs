//! Methods of the ops under "Flips, rolls, triangles, padding".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Dims, Int, Ints, Number, call};

/// Options of [`Tensor::constant_pad_nd_with`].
#[derive(Clone, Debug, Default)]
pub struct ConstantPadNd {
    attrs: Attrs,
}

impl ConstantPadNd {
    /// Sets `value`: the value; default 0.
    #[must_use]
    pub fn value(mut self, value: impl Into<Number>) -> ConstantPadNd {
        self.attrs.set("value", call::number(value));
        self
    }
}

/// Options of [`Tensor::diag_embed_with`].
#[derive(Clone, Debug, Default)]
pub struct DiagEmbed {
    attrs: Attrs,
}

impl DiagEmbed {
    /// Sets `dim1`: the first dimension of the matrices; default -2.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.diag_embed_with(options::DiagEmbed::default().dim1(1).dim2(0))?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dim1(mut self, dim1: impl Int) -> DiagEmbed {
        self.attrs.set("dim1", dim1.to_int());
        self
    }

    /// Sets `dim2`: the second dimension of the matrices; default -1.
    #[must_use]
    pub fn dim2(mut self, dim2: impl Int) -> DiagEmbed {
        self.attrs.set("dim2", dim2.to_int());
        self
    }

    /// Sets `offset`: the number of the diagonal, above the main one; default 0.
    #[must_use]
    pub fn offset(mut self, offset: impl Int) -> DiagEmbed {
        self.attrs.set("offset", offset.to_int());
        self
    }
}

/// Options of [`Tensor::rot90_with`].
#[derive(Clone, Debug, Default)]
pub struct Rot90 {
    attrs: Attrs,
}

impl Rot90 {
    /// Sets `k`: the number of right angles; default 1.
    #[must_use]
    pub fn k(mut self, k: impl Int) -> Rot90 {
        self.attrs.set("k", k.to_int());
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
    #[track_caller]
    pub fn constant_pad_nd_with(&self, pad: impl Ints, options: ConstantPadNd) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("pad", pad.to_ints());
        call::one("constant_pad_nd", &[self], attrs)
    }

    /// Returns channels moved into blocks of pixels.
    ///
    /// - `x`, this tensor: \[...,c,h,w\]
    /// - `upscale_factor`: the length of a block
    ///
    /// PyTorch: `aten::pixel_shuffle`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 4, 1, 1), &machine)?;
    /// let y = x.pixel_shuffle(2)?;
    /// assert_eq!(y.shape(), [1, 1, 2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_shuffle(&self, upscale_factor: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("upscale_factor", upscale_factor.to_int());
        call::one("pixel_shuffle", &[self], attrs)
    }

    /// Returns blocks of pixels moved into channels.
    ///
    /// - `x`, this tensor: \[...,c,h,w\]
    /// - `downscale_factor`: the length of a block
    ///
    /// PyTorch: `aten::pixel_unshuffle`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 1, 2, 2), &machine)?;
    /// let y = x.pixel_unshuffle(2)?;
    /// assert_eq!(y.shape(), [1, 4, 1, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_unshuffle(&self, downscale_factor: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("downscale_factor", downscale_factor.to_int());
        call::one("pixel_unshuffle", &[self], attrs)
    }

    /// Returns the channels of several groups in turn.
    ///
    /// - `x`, this tensor: \[n,c,...\]
    /// - `groups`: the number of groups, a divisor of c
    ///
    /// PyTorch: `aten::channel_shuffle`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 4, 1, 1), &machine)?;
    /// assert_eq!(x.channel_shuffle(2)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn channel_shuffle(&self, groups: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("groups", groups.to_int());
        call::one("channel_shuffle", &[self], attrs)
    }

    /// Returns x turned by right angles in a plane.
    ///
    /// - `x`, this tensor: two dimensions or more
    /// - `dims`: the plane; default 0 and 1
    ///
    /// PyTorch: `aten::rot90`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// assert_eq!(x.rot90([0, 1])?.to_vec::<f32>()?, [3.0, 6.0, 1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn rot90(&self, dims: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dims", dims.to_ints());
        call::one("rot90", &[self], attrs)
    }

    /// Returns x turned by right angles in a plane.
    ///
    /// - `x`, this tensor: two dimensions or more
    /// - `dims`: the plane; default 0 and 1
    /// - `options`: [`struct@Rot90`], which has defaults
    ///
    /// PyTorch: `aten::rot90`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let y = x.rot90_with([0, 1], options::Rot90::default().k(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [6.0, 2.0, 3.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn rot90_with(&self, dims: impl Ints, options: Rot90) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dims", dims.to_ints());
        call::one("rot90", &[self], attrs)
    }

    /// Returns a matrix with the tensors as its blocks.
    ///
    /// - `tensors`: matrices, or fewer dimensions
    ///
    /// PyTorch: `aten::block_diag`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 2), &machine)?;
    /// let y = Tensor::from_slice(&[3.0f32], 1, &machine)?;
    /// let y = Tensor::block_diag(&[&x, &y])?;
    /// assert_eq!(y.shape(), [2, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 0.0, 0.0, 0.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn block_diag(tensors: &[&Tensor]) -> Result<Tensor> {
        let mut given = call::Inputs::new();
        given.extend(tensors.iter().copied());
        call::one("block_diag", &given, Attrs::new())
    }

    /// Returns zeros whose diagonals have the elements of x.
    ///
    /// - `x`, this tensor: one dimension or more
    ///
    /// PyTorch: `aten::diag_embed`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.diag_embed()?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed(&self) -> Result<Tensor> {
        call::one("diag_embed", &[self], Attrs::new())
    }

    /// Returns zeros whose diagonals have the elements of x.
    ///
    /// - `x`, this tensor: one dimension or more
    /// - `options`: [`struct@DiagEmbed`], which has defaults
    ///
    /// PyTorch: `aten::diag_embed`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.diag_embed_with(options::DiagEmbed::default().offset(1))?;
    /// assert_eq!(y.shape(), [3, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed_with(&self, options: DiagEmbed) -> Result<Tensor> {
        call::one("diag_embed", &[self], options.attrs)
    }
}
