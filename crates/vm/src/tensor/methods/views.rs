//! Methods of the ops under "Views".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Dims, Int, Ints, call};

/// Options of [`Tensor::as_strided_with`].
#[derive(Clone, Debug, Default)]
pub struct AsStrided {
    attrs: Attrs,
}

impl AsStrided {
    /// Sets `storage_offset`: the position of the first element in the storage; default that of x.
    #[must_use]
    pub fn storage_offset(mut self, storage_offset: impl Int) -> AsStrided {
        self.attrs.set("storage_offset", storage_offset.to_int());
        self
    }
}

/// Options of [`Tensor::diagonal_with`].
#[derive(Clone, Debug, Default)]
pub struct Diagonal {
    attrs: Attrs,
}

impl Diagonal {
    /// Sets `dim1`: the dimension of rows; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 1, 2), &machine)?;
    /// let y = x.diagonal_with(options::Diagonal::default().dim1(2))?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dim1(mut self, dim1: impl Int) -> Diagonal {
        self.attrs.set("dim1", dim1.to_int());
        self
    }

    /// Sets `dim2`: the dimension of columns; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 1, 2), &machine)?;
    /// let y = x.diagonal_with(options::Diagonal::default().dim2(2))?;
    /// assert_eq!(y.shape(), [1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dim2(mut self, dim2: impl Int) -> Diagonal {
        self.attrs.set("dim2", dim2.to_int());
        self
    }

    /// Sets `offset`: the offset from the main diagonal, negative below it; default 0.
    #[must_use]
    pub fn offset(mut self, offset: impl Int) -> Diagonal {
        self.attrs.set("offset", offset.to_int());
        self
    }
}

impl Tensor {
    /// Returns a view with two dimensions exchanged.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim0`: a dimension
    /// - `dim1`: the dimension to exchange it with
    ///
    /// PyTorch: `aten::transpose`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// let y = x.transpose(0, 1)?;
    /// assert_eq!(y.shape(), [3, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose(&self, dim0: impl Int, dim1: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim0", dim0.to_int());
        attrs.set("dim1", dim1.to_int());
        call::one("transpose", &[self], attrs)
    }

    /// Returns a view of a matrix with rows and columns exchanged.
    ///
    /// - `x`, this tensor: at most two dimensions
    ///
    /// PyTorch: `aten::t`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// let y = x.t()?;
    /// assert_eq!(y.shape(), [3, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn t(&self) -> Result<Tensor> {
        call::one("t", &[self], Attrs::new())
    }

    /// Returns a view with the dimensions permuted.
    ///
    /// - `x`, this tensor: any shape
    /// - `dims`: all dimensions, in the new order
    ///
    /// PyTorch: `aten::permute`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// let y = x.permute([1, 0])?;
    /// assert_eq!(y.shape(), [3, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn permute(&self, dims: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dims", dims.to_ints());
        call::one("permute", &[self], attrs)
    }

    /// Returns a view without dimensions of length 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions to remove if of length 1, or `..`
    ///
    /// PyTorch: `aten::squeeze`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?;
    /// assert_eq!(x.squeeze(1)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("squeeze", &[self], attrs)
    }

    /// Returns a view with a new dimension of length 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: its position in the result
    ///
    /// PyTorch: `aten::unsqueeze`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.unsqueeze(0)?;
    /// assert_eq!(y.shape(), [1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("unsqueeze", &[self], attrs)
    }

    /// Returns a view that repeats dimensions of length 1 and new leading dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `size`: the lengths, aligned at the last dimension; -1 keeps a length
    ///
    /// PyTorch: `aten::expand`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?;
    /// let y = x.expand([2, 3])?;
    /// assert_eq!(y.shape(), [2, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn expand(&self, size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("size", size.to_ints());
        call::one("expand", &[self], attrs)
    }

    /// Returns a view of all of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::alias`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(x.alias()?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn alias(&self) -> Result<Tensor> {
        call::one("alias", &[self], Attrs::new())
    }

    /// Returns a view of all of x; the machine tracks no gradients.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::detach`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(x.detach()?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn detach(&self) -> Result<Tensor> {
        call::one("detach", &[self], Attrs::new())
    }

    /// Returns a view of a range of one dimension.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `dim`: the dimension
    /// - `start`: the first element; negative from the end
    /// - `length`: the number of elements
    ///
    /// PyTorch: `aten::narrow`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
    /// assert_eq!(x.narrow(0, 1, 2)?.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn narrow(&self, dim: impl Int, start: impl Int, length: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        attrs.set("start", start.to_int());
        attrs.set("length", length.to_int());
        call::one("narrow", &[self], attrs)
    }

    /// Returns a view of one element of a dimension, without that dimension.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `dim`: the dimension
    /// - `index`: the element; negative from the end
    ///
    /// PyTorch: `aten::select`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// assert_eq!(x.select(0, 1)?.to_vec::<f32>()?, [4.0, 5.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, dim: impl Int, index: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        attrs.set("index", index.to_int());
        call::one("select", &[self], attrs)
    }

    /// Returns a view of the diagonals of two dimensions, which become the last dimension.
    ///
    /// - `x`, this tensor: two or more dimensions
    ///
    /// PyTorch: `aten::diagonal`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// assert_eq!(x.diagonal()?.to_vec::<f32>()?, [1.0, 5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self) -> Result<Tensor> {
        call::one("diagonal", &[self], Attrs::new())
    }

    /// Returns a view of the diagonals of two dimensions, which become the last dimension.
    ///
    /// - `x`, this tensor: two or more dimensions
    /// - `options`: [`struct@Diagonal`], which has defaults
    ///
    /// PyTorch: `aten::diagonal`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// let y = x.diagonal_with(options::Diagonal::default().offset(1))?;
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal_with(&self, options: Diagonal) -> Result<Tensor> {
        call::one("diagonal", &[self], options.attrs)
    }

    /// Returns a view of all windows of a dimension; their elements become a new last dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dimension`: the dimension
    /// - `size`: the size of a window
    /// - `step`: the step between windows, 1 or more
    ///
    /// PyTorch: `aten::unfold`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
    /// let y = x.unfold(0, 2, 1)?;
    /// assert_eq!(y.shape(), [3, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 2.0, 3.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn unfold(&self, dimension: impl Int, size: impl Int, step: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dimension", dimension.to_int());
        attrs.set("size", size.to_int());
        attrs.set("step", step.to_int());
        call::one("unfold", &[self], attrs)
    }

    /// Returns a view of the same elements in row-major order in another shape.
    ///
    /// - `x`, this tensor: any shape whose strides allow a view of the other shape
    /// - `size`: the lengths; one may be -1, to be computed from the others
    ///
    /// PyTorch: `aten::view`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// let y = x.view([3, 2])?;
    /// assert_eq!(y.shape(), [3, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn view(&self, size: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("size", size.to_ints());
        call::one("view", &[self], attrs)
    }

    /// Returns the same elements in row-major order in another shape; a view where strides allow
    /// it.
    ///
    /// - `x`, this tensor: any shape
    /// - `shape`: the lengths; one may be -1, to be computed from the others
    ///
    /// PyTorch: `aten::reshape`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), &machine)?;
    /// let y = x.reshape([3, 2])?;
    /// assert_eq!(y.shape(), [3, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("shape", shape.to_ints());
        call::one("reshape", &[self], attrs)
    }

    /// Returns a view of x's storage with given lengths, strides and offset.
    ///
    /// - `x`, this tensor: any shape
    /// - `size`: the lengths
    /// - `stride`: the strides in elements, one for each length, 0 or more
    ///
    /// PyTorch: `aten::as_strided`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
    /// let y = x.as_strided([2, 2], [1, 1])?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn as_strided(&self, size: impl Ints, stride: impl Ints) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("size", size.to_ints());
        attrs.set("stride", stride.to_ints());
        call::one("as_strided", &[self], attrs)
    }

    /// Returns a view of x's storage with given lengths, strides and offset.
    ///
    /// - `x`, this tensor: any shape
    /// - `size`: the lengths
    /// - `stride`: the strides in elements, one for each length, 0 or more
    /// - `options`: [`struct@AsStrided`], which has defaults
    ///
    /// PyTorch: `aten::as_strided`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], 4, &machine)?;
    /// let y = x.as_strided_with(2, 2, options::AsStrided::default().storage_offset(1))?;
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn as_strided_with(
        &self,
        size: impl Ints,
        stride: impl Ints,
        options: AsStrided,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("size", size.to_ints());
        attrs.set("stride", stride.to_ints());
        call::one("as_strided", &[self], attrs)
    }

    /// Returns views of a dimension in parts of one length; the last may be shorter.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `split_size`: the length of a part
    /// - `dim`: the dimension; default 0
    ///
    /// PyTorch: `aten::split`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let parts = x.split(2, 0)?;
    /// assert_eq!(parts.len(), 2);
    /// assert_eq!(parts[0].to_vec::<f32>()?, [1.0, 2.0]);
    /// assert_eq!(parts[1].to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, split_size: impl Int, dim: impl Int) -> Result<Vec<Tensor>> {
        let mut attrs = Attrs::new();
        attrs.set("split_size", split_size.to_int());
        attrs.set("dim", dim.to_int());
        call::all("split", &[self], attrs)
    }

    /// Returns views of a dimension in at most chunks parts of one length; the last may be shorter.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `chunks`: the greatest number of parts
    /// - `dim`: the dimension; default 0
    ///
    /// PyTorch: `aten::chunk`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let parts = x.chunk(2, 0)?;
    /// assert_eq!(parts.len(), 2);
    /// assert_eq!(parts[0].to_vec::<f32>()?, [1.0, 2.0]);
    /// assert_eq!(parts[1].to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn chunk(&self, chunks: impl Int, dim: impl Int) -> Result<Vec<Tensor>> {
        let mut attrs = Attrs::new();
        attrs.set("chunks", chunks.to_int());
        attrs.set("dim", dim.to_int());
        call::all("chunk", &[self], attrs)
    }

    /// Returns views of a dimension in parts of given lengths.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `split_sizes`: the lengths, which add up to that of the dimension
    /// - `dim`: the dimension; default 0
    ///
    /// PyTorch: `aten::split_with_sizes`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let parts = x.split_with_sizes([1, 2], 0)?;
    /// assert_eq!(parts.len(), 2);
    /// assert_eq!(parts[0].to_vec::<f32>()?, [1.0]);
    /// assert_eq!(parts[1].to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn split_with_sizes(&self, split_sizes: impl Ints, dim: impl Int) -> Result<Vec<Tensor>> {
        let mut attrs = Attrs::new();
        attrs.set("split_sizes", split_sizes.to_ints());
        attrs.set("dim", dim.to_int());
        call::all("split_with_sizes", &[self], attrs)
    }

    /// Returns views of each element of a dimension, without that dimension.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `dim`: the dimension; default 0
    ///
    /// PyTorch: `aten::unbind`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let parts = x.unbind(0)?;
    /// assert_eq!(parts.len(), 2);
    /// assert_eq!(parts[0].to_vec::<f32>()?, [1.0, 2.0]);
    /// assert_eq!(parts[1].to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn unbind(&self, dim: impl Int) -> Result<Vec<Tensor>> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::all("unbind", &[self], attrs)
    }
}
