//! Methods of the ops under "Indexing and selection".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Number, Operand, call};

/// Options of [`Tensor::index_add_with`] and [`Tensor::index_add_with_`].
#[derive(Clone, Debug, Default)]
pub struct IndexAdd {
    attrs: Attrs,
}

impl IndexAdd {
    /// Sets `alpha`: factor of source; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Number>) -> IndexAdd {
        self.attrs.set("alpha", call::number(alpha));
        self
    }
}

/// Options of [`Tensor::index_put_with`] and [`Tensor::index_put_with_`].
#[derive(Clone, Debug, Default)]
pub struct IndexPut {
    attrs: Attrs,
}

impl IndexPut {
    /// Sets `accumulate`: add instead of setting; default false.
    #[must_use]
    pub fn accumulate(mut self, accumulate: bool) -> IndexPut {
        self.attrs.set("accumulate", accumulate);
        self
    }
}

/// Options of [`Tensor::index_reduce_with`].
#[derive(Clone, Debug, Default)]
pub struct IndexReduce {
    attrs: Attrs,
}

impl IndexReduce {
    /// Sets `include_self`: whether the elements of x count as values; default true.
    #[must_use]
    pub fn include_self(mut self, include_self: bool) -> IndexReduce {
        self.attrs.set("include_self", include_self);
        self
    }
}

/// Options of [`Tensor::put_with`].
#[derive(Clone, Debug, Default)]
pub struct Put {
    attrs: Attrs,
}

impl Put {
    /// Sets `accumulate`: whether to add the elements; default false.
    #[must_use]
    pub fn accumulate(mut self, accumulate: bool) -> Put {
        self.attrs.set("accumulate", accumulate);
        self
    }
}

/// Options of [`Tensor::scatter_mean_with`].
#[derive(Clone, Debug, Default)]
pub struct ScatterMean {
    attrs: Attrs,
}

impl ScatterMean {
    /// Sets `include_self`: whether the elements of x count as values; default true.
    #[must_use]
    pub fn include_self(mut self, include_self: bool) -> ScatterMean {
        self.attrs.set("include_self", include_self);
        self
    }
}

/// Options of [`Tensor::scatter_reduce_with`].
#[derive(Clone, Debug, Default)]
pub struct ScatterReduce {
    attrs: Attrs,
}

impl ScatterReduce {
    /// Sets `include_self`: whether the elements of x at the index are combined, too; default true.
    #[must_use]
    pub fn include_self(mut self, include_self: bool) -> ScatterReduce {
        self.attrs.set("include_self", include_self);
        self
    }
}

/// Options of [`Tensor::scatter_sum_with`].
#[derive(Clone, Debug, Default)]
pub struct ScatterSum {
    attrs: Attrs,
}

impl ScatterSum {
    /// Sets `include_self`: whether the elements of x count as values; default true.
    #[must_use]
    pub fn include_self(mut self, include_self: bool) -> ScatterSum {
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
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        call::one("nonzero", &[self], Attrs::new())
    }

    /// Returns a copy of x with slices of the source at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: one dimension
    /// - `source`: the slices
    /// - `dim`: the dimension of the slices
    ///
    /// PyTorch: `aten::index_copy`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[7.0f32, 8.0], 2, &machine)?;
    /// assert_eq!(x.index_copy(&index, &source, 0)?.to_vec::<f32>()?, [8.0, 2.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn index_copy(&self, index: &Tensor, source: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(source);
        attrs.set("dim", dim.to_int());
        call::one("index_copy", &given, attrs)
    }

    /// Returns a copy of x whose slices at the index have one value.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: one dimension
    /// - `value`: no dimensions; or a number
    /// - `dim`: the dimension of the slices
    ///
    /// PyTorch: `aten::index_fill`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let value = Tensor::scalar(7.0f32, &machine)?;
    /// assert_eq!(x.index_fill(&index, &value, 0)?.to_vec::<f32>()?, [7.0, 2.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn index_fill<'a>(
        &self,
        index: &Tensor,
        value: impl Into<Operand<'a>>,
        dim: impl Int,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        call::operand(value.into(), "value", &mut given, &mut attrs);
        attrs.set("dim", dim.to_int());
        call::one("index_fill", &given, attrs)
    }

    /// Sets this tensor to x, whose slices at the index get one value.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: one dimension
    /// - `value`: no dimensions; or a number
    /// - `dim`: the dimension of the slices
    ///
    /// PyTorch: `aten::index_fill_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let index = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let value = Tensor::scalar(7.0f32, &machine)?;
    /// x.index_fill_(&index, &value, 0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 2.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn index_fill_<'a>(
        &self,
        index: &Tensor,
        value: impl Into<Operand<'a>>,
        dim: impl Int,
    ) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        call::operand(value.into(), "value", &mut given, &mut attrs);
        attrs.set("dim", dim.to_int());
        call::changed("index_fill_", &given, attrs)?;
        Ok(self)
    }

    /// Returns the elements of x, as if it had one dimension, at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: any shape
    ///
    /// PyTorch: `aten::take`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let index = Tensor::from_slice(&[3i64, 0], 2, &machine)?;
    /// assert_eq!(x.take(&index)?.to_vec::<f32>()?, [6.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, index: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(index);
        call::one("take", &given, Attrs::new())
    }

    /// Returns a copy of x, as if it had one dimension, with the source at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: any shape
    /// - `source`: as many elements
    ///
    /// PyTorch: `aten::put`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let index = Tensor::from_slice(&[3i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[7.0f32, 8.0], 2, &machine)?;
    /// assert_eq!(x.put(&index, &source)?.to_vec::<f32>()?, [8.0, 3.0, 2.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn put(&self, index: &Tensor, source: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(index);
        given.push(source);
        call::one("put", &given, Attrs::new())
    }

    /// Returns a copy of x, as if it had one dimension, with the source at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: any shape
    /// - `source`: as many elements
    /// - `options`: [`struct@Put`], which has defaults
    ///
    /// PyTorch: `aten::put`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let index = Tensor::from_slice(&[3i64, 3], 2, &machine)?;
    /// let source = Tensor::from_slice(&[7.0f32, 8.0], 2, &machine)?;
    /// let y = x.put_with(&index, &source, options::Put::default().accumulate(true))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 21.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn put_with(&self, index: &Tensor, source: &Tensor, options: Put) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(index);
        given.push(source);
        call::one("put", &given, options.attrs)
    }

    /// Returns x with the elements of the source, in order, where a mask is true.
    ///
    /// - `x`, this tensor: any shape
    /// - `mask`: a shape that broadcasts with x
    /// - `source`: an element or more for each that is selected
    ///
    /// PyTorch: `aten::masked_scatter`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let mask = Tensor::from_slice(&[true, false, true], 3, &machine)?;
    /// let source = Tensor::from_slice(&[7.0f32, 8.0], 2, &machine)?;
    /// assert_eq!(x.masked_scatter(&mask, &source)?.to_vec::<f32>()?, [7.0, 2.0, 8.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(mask);
        given.push(source);
        call::one("masked_scatter", &given, Attrs::new())
    }

    /// Returns x with the elements of src added at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: as many dimensions
    /// - `src`: index's shape or greater
    /// - `dim`: the dimension of the index
    ///
    /// The op `scatter_sum`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[0i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// assert_eq!(x.scatter_sum(&index, &src, 0)?.to_vec::<f32>()?, [9.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_sum(&self, index: &Tensor, src: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        call::one("scatter_sum", &given, attrs)
    }

    /// Returns x with the elements of src added at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: as many dimensions
    /// - `src`: index's shape or greater
    /// - `dim`: the dimension of the index
    /// - `options`: [`struct@ScatterSum`], which has defaults
    ///
    /// The op `scatter_sum`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[0i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// let options = options::ScatterSum::default().include_self(false);
    /// assert_eq!(x.scatter_sum_with(&index, &src, 0, options)?.to_vec::<f32>()?, [8.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_sum_with(
        &self,
        index: &Tensor,
        src: &Tensor,
        dim: impl Int,
        options: ScatterSum,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        call::one("scatter_sum", &given, attrs)
    }

    /// Returns x with the means of the elements of src at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: as many dimensions
    /// - `src`: index's shape or greater
    /// - `dim`: the dimension of the index
    ///
    /// The op `scatter_mean`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[0i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// assert_eq!(x.scatter_mean(&index, &src, 0)?.to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_mean(&self, index: &Tensor, src: &Tensor, dim: impl Int) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        call::one("scatter_mean", &given, attrs)
    }

    /// Returns x with the means of the elements of src at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: as many dimensions
    /// - `src`: index's shape or greater
    /// - `dim`: the dimension of the index
    /// - `options`: [`struct@ScatterMean`], which has defaults
    ///
    /// The op `scatter_mean`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[0i64, 0], 2, &machine)?;
    /// let src = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// let options = options::ScatterMean::default().include_self(false);
    /// assert_eq!(x.scatter_mean_with(&index, &src, 0, options)?.to_vec::<f32>()?, [4.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_mean_with(
        &self,
        index: &Tensor,
        src: &Tensor,
        dim: impl Int,
        options: ScatterMean,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(index);
        given.push(src);
        attrs.set("dim", dim.to_int());
        call::one("scatter_mean", &given, attrs)
    }

    /// Returns x with slices of the source reduced at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: one dimension
    /// - `source`: the slices
    /// - `dim`: the dimension of the slices
    /// - `reduce`: "prod", "mean", "amax" or "amin"
    ///
    /// PyTorch: `aten::index_reduce`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[0i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// assert_eq!(x.index_reduce(&index, &source, 0, "prod")?.to_vec::<f32>()?, [15.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn index_reduce(
        &self,
        index: &Tensor,
        source: &Tensor,
        dim: impl Int,
        reduce: &str,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(index);
        given.push(source);
        attrs.set("dim", dim.to_int());
        attrs.set("reduce", reduce);
        call::one("index_reduce", &given, attrs)
    }

    /// Returns x with slices of the source reduced at the index.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: one dimension
    /// - `source`: the slices
    /// - `dim`: the dimension of the slices
    /// - `reduce`: "prod", "mean", "amax" or "amin"
    /// - `options`: [`struct@IndexReduce`], which has defaults
    ///
    /// PyTorch: `aten::index_reduce`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let index = Tensor::from_slice(&[0i64, 0], 2, &machine)?;
    /// let source = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// let options = options::IndexReduce::default().include_self(false);
    /// let y = x.index_reduce_with(&index, &source, 0, "prod", options)?;
    /// assert_eq!(y.to_vec::<f32>()?, [15.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn index_reduce_with(
        &self,
        index: &Tensor,
        source: &Tensor,
        dim: impl Int,
        reduce: &str,
        options: IndexReduce,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(index);
        given.push(source);
        attrs.set("dim", dim.to_int());
        attrs.set("reduce", reduce);
        call::one("index_reduce", &given, attrs)
    }
}
