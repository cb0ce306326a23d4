//! Methods of the ops under "Indexing and selection".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_ops::args::Scalar;
use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Operand, call};

/// Options of [`Tensor::index_add_with`] and [`Tensor::index_add_with_`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
/// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
/// let source = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
/// let y = x.index_add_with(&index, &source, 0, options::IndexAdd::default().alpha(2))?;
/// assert_eq!(y.to_vec::<f32>()?, [41.0, 2.0, 23.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct IndexAdd {
    attrs: Attrs,
}

impl IndexAdd {
    /// Sets `alpha`: factor of source; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let y = x.index_add_with(&index, &source, 0, options::IndexAdd::default().alpha(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [41.0, 2.0, 23.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> IndexAdd {
        self.attrs.set("alpha", call::number(alpha));
        self
    }
}

/// Options of [`Tensor::index_put_with`] and [`Tensor::index_put_with_`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
/// let values = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
/// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
/// let options = options::IndexPut::default().accumulate(true);
/// let y = x.index_put_with(&values, &[&index], options)?;
/// assert_eq!(y.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct IndexPut {
    attrs: Attrs,
}

impl IndexPut {
    /// Sets `accumulate`: add instead of setting; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let values = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let options = options::IndexPut::default().accumulate(true);
    /// let y = x.index_put_with(&values, &[&index], options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn accumulate(mut self, accumulate: bool) -> IndexPut {
        self.attrs.set("accumulate", accumulate);
        self
    }
}

/// Options of [`Tensor::scatter_reduce_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
/// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
/// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
/// let options = options::ScatterReduce::default().include_self(false);
/// let y = x.scatter_reduce_with(&index, &src, 0, "prod", options)?;
/// assert_eq!(y.to_vec::<f32>()?, [20.0, 2.0, 10.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScatterReduce {
    attrs: Attrs,
}

impl ScatterReduce {
    /// Sets `include_self`: whether the elements of x at the index are combined, too; default true.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let options = options::ScatterReduce::default().include_self(false);
    /// let y = x.scatter_reduce_with(&index, &src, 0, "prod", options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [20.0, 2.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn include_self(mut self, include_self: bool) -> ScatterReduce {
        self.attrs.set("include_self", include_self);
        self
    }
}

impl Tensor {
    /// Returns the elements of x at the index along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `dim`: the dimension that the index counts along
    ///
    /// PyTorch: `aten::gather`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let index = Tensor::from_slice(&[0i64, 0, 1, 0], (2, 2), &machine)?;
    /// assert_eq!(x.gather(&index, 1)?.to_vec::<f32>()?, [1.0, 1.0, 4.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn gather(&self, index: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        attrs.set("dim", dim.to_int());
        call::one("gather", &given, attrs)
    }

    /// Returns x with the elements at the index along a dimension set to src.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `src`: x's dtype; no dimension shorter than the index; or a number
    /// - `dim`: the dimension that the index counts along
    ///
    /// PyTorch: `aten::scatter`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// assert_eq!(x.scatter(&index, &src, 0)?.to_vec::<f32>()?, [20.0, 2.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn scatter<'a>(
        &self,
        index: &Tensor,
        src: impl Into<Operand<'a>>,
        dim: impl Int,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        call::operand(src.into(), "value", &mut given, &mut attrs);
        attrs.set("dim", dim.to_int());
        call::one("scatter", &given, attrs)
    }

    /// Sets the elements of x at the index along a dimension to src, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; changed in place
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `src`: x's dtype; no dimension shorter than the index; or a number
    /// - `dim`: the dimension that the index counts along
    ///
    /// PyTorch: `aten::scatter_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// x.scatter_(&index, &src, 0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [20.0, 2.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn scatter_<'a>(
        &self,
        index: &Tensor,
        src: impl Into<Operand<'a>>,
        dim: impl Int,
    ) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        call::operand(src.into(), "value", &mut given, &mut attrs);
        attrs.set("dim", dim.to_int());
        call::changed("scatter_", &given, attrs)?;
        Ok(self)
    }

    /// Returns x with src added to the elements at the index along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `src`: x's dtype; no dimension shorter than the index
    /// - `dim`: the dimension that the index counts along
    ///
    /// PyTorch: `aten::scatter_add`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// assert_eq!(x.scatter_add(&index, &src, 0)?.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn scatter_add(&self, index: &Tensor, src: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        call::one("scatter_add", &given, attrs)
    }

    /// Adds src to the elements of x at the index along a dimension, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; changed in place
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `src`: x's dtype; no dimension shorter than the index
    /// - `dim`: the dimension that the index counts along
    ///
    /// PyTorch: `aten::scatter_add_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// x.scatter_add_(&index, &src, 0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn scatter_add_(&self, index: &Tensor, src: &Tensor, dim: impl Int) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        call::changed("scatter_add_", &given, attrs)?;
        Ok(self)
    }

    /// Returns x with the elements at the index along a dimension combined with those of src.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `src`: x's dtype; no dimension shorter than the index
    /// - `dim`: the dimension that the index counts along
    /// - `reduce`: "sum", "prod", "amax" or "amin"; the extrema of NaN are NaN
    ///
    /// PyTorch: `aten::scatter_reduce`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// assert_eq!(x.scatter_reduce(&index, &src, 0, "prod")?.to_vec::<f32>()?, [20.0, 2.0, 30.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        index: &Tensor,
        src: &Tensor,
        dim: impl Int,
        reduce: &str,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        attrs.set("reduce", reduce);
        call::one("scatter_reduce", &given, attrs)
    }

    /// Returns x with the elements at the index along a dimension combined with those of src.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `src`: x's dtype; no dimension shorter than the index
    /// - `dim`: the dimension that the index counts along
    /// - `reduce`: "sum", "prod", "amax" or "amin"; the extrema of NaN are NaN
    /// - `options`: [`struct@ScatterReduce`], which has defaults
    ///
    /// PyTorch: `aten::scatter_reduce`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let options = options::ScatterReduce::default().include_self(false);
    /// let y = x.scatter_reduce_with(&index, &src, 0, "prod", options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [20.0, 2.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn scatter_reduce_with(
        &self,
        index: &Tensor,
        src: &Tensor,
        dim: impl Int,
        reduce: &str,
        options: ScatterReduce,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        attrs.set("reduce", reduce);
        call::one("scatter_reduce", &given, attrs)
    }

    /// Returns the slices of x at an index along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; at most one dimension
    /// - `dim`: the dimension
    ///
    /// PyTorch: `aten::index_select`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// assert_eq!(x.index_select(&index, 0)?.to_vec::<f32>()?, [3.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_select(&self, index: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        attrs.set("dim", dim.to_int());
        call::one("index_select", &given, attrs)
    }

    /// Returns x with alpha * source added to the slices at an index along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; at most one dimension
    /// - `source`: x's dtype and shape, except as long as the index along dim
    /// - `dim`: the dimension
    ///
    /// PyTorch: `aten::index_add`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// assert_eq!(x.index_add(&index, &source, 0)?.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_add(&self, index: &Tensor, source: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(source);
        attrs.set("dim", dim.to_int());
        call::one("index_add", &given, attrs)
    }

    /// Returns x with alpha * source added to the slices at an index along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; at most one dimension
    /// - `source`: x's dtype and shape, except as long as the index along dim
    /// - `dim`: the dimension
    /// - `options`: [`struct@IndexAdd`], which has defaults
    ///
    /// PyTorch: `aten::index_add`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let y = x.index_add_with(&index, &source, 0, options::IndexAdd::default().alpha(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [41.0, 2.0, 23.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_add_with(
        &self,
        index: &Tensor,
        source: &Tensor,
        dim: impl Int,
        options: IndexAdd,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(index);
        given.push(source);
        attrs.set("dim", dim.to_int());
        call::one("index_add", &given, attrs)
    }

    /// Adds alpha * source to the slices of x at an index along a dimension, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; changed in place
    /// - `index`: i64 or i32; at most one dimension
    /// - `source`: x's dtype and shape, except as long as the index along dim
    /// - `dim`: the dimension
    ///
    /// PyTorch: `aten::index_add_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// x.index_add_(&index, &source, 0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_add_(&self, index: &Tensor, source: &Tensor, dim: impl Int) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(source);
        attrs.set("dim", dim.to_int());
        call::changed("index_add_", &given, attrs)?;
        Ok(self)
    }

    /// Adds alpha * source to the slices of x at an index along a dimension, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; changed in place
    /// - `index`: i64 or i32; at most one dimension
    /// - `source`: x's dtype and shape, except as long as the index along dim
    /// - `dim`: the dimension
    /// - `options`: [`struct@IndexAdd`], which has defaults
    ///
    /// PyTorch: `aten::index_add_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// x.index_add_with_(&index, &source, 0, options::IndexAdd::default().alpha(2))?;
    /// assert_eq!(x.to_vec::<f32>()?, [41.0, 2.0, 23.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_add_with_(
        &self,
        index: &Tensor,
        source: &Tensor,
        dim: impl Int,
        options: IndexAdd,
    ) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(index);
        given.push(source);
        attrs.set("dim", dim.to_int());
        call::changed("index_add_", &given, attrs)?;
        Ok(self)
    }

    /// Returns x with the elements at indices set to values, or with values added.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `values`: x's dtype; a shape that broadcasts to the result of index
    /// - `indices`: i64 or i32, one for each indexed dimension; or one bool mask
    ///
    /// PyTorch: `aten::index_put`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let values = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// assert_eq!(x.index_put(&values, &[&index])?.to_vec::<f32>()?, [20.0, 2.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_put(&self, values: &Tensor, indices: &[&Tensor]) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(values);
        given.extend(indices.iter().copied());
        call::one("index_put", &given, Attrs::new())
    }

    /// Returns x with the elements at indices set to values, or with values added.
    ///
    /// - `x`, this tensor: one or more dimensions
    /// - `values`: x's dtype; a shape that broadcasts to the result of index
    /// - `indices`: i64 or i32, one for each indexed dimension; or one bool mask
    /// - `options`: [`struct@IndexPut`], which has defaults
    ///
    /// PyTorch: `aten::index_put`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let values = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let options = options::IndexPut::default().accumulate(true);
    /// let y = x.index_put_with(&values, &[&index], options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_put_with(
        &self,
        values: &Tensor,
        indices: &[&Tensor],
        options: IndexPut,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(values);
        given.extend(indices.iter().copied());
        call::one("index_put", &given, options.attrs)
    }

    /// Sets the elements of x at indices to values, or adds values, in place.
    ///
    /// - `x`, this tensor: one or more dimensions, without overlapping elements; changed in place
    /// - `values`: x's dtype; a shape that broadcasts to the result of index
    /// - `indices`: i64 or i32, one for each indexed dimension; or one bool mask
    ///
    /// PyTorch: `aten::index_put_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let values = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// x.index_put_(&values, &[&index])?;
    /// assert_eq!(x.to_vec::<f32>()?, [20.0, 2.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_put_(&self, values: &Tensor, indices: &[&Tensor]) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(values);
        given.extend(indices.iter().copied());
        call::changed("index_put_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Sets the elements of x at indices to values, or adds values, in place.
    ///
    /// - `x`, this tensor: one or more dimensions, without overlapping elements; changed in place
    /// - `values`: x's dtype; a shape that broadcasts to the result of index
    /// - `indices`: i64 or i32, one for each indexed dimension; or one bool mask
    /// - `options`: [`struct@IndexPut`], which has defaults
    ///
    /// PyTorch: `aten::index_put_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let values = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let options = options::IndexPut::default().accumulate(true);
    /// x.index_put_with_(&values, &[&index], options)?;
    /// assert_eq!(x.to_vec::<f32>()?, [21.0, 2.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn index_put_with_(
        &self,
        values: &Tensor,
        indices: &[&Tensor],
        options: IndexPut,
    ) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(values);
        given.extend(indices.iter().copied());
        call::changed("index_put_", &given, options.attrs)?;
        Ok(self)
    }

    /// Returns the elements of x where the mask is true, in row-major order.
    ///
    /// - `x`, this tensor: any shape
    /// - `mask`: bool; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::masked_select`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let mask = Tensor::from_slice(&[true, false, true], 3, &machine)?;
    /// assert_eq!(x.masked_select(&mask)?.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(mask);
        call::one("masked_select", &given, Attrs::new())
    }

    /// Returns the indices of the nonzero elements, a row for each.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::nonzero`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 5.0, 6.0], 3, &machine)?;
    /// let y = x.nonzero()?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        call::one("nonzero", &[self], Attrs::new())
    }
}
