//! Methods of the ops under "Indexing and selection".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_ops::args::Scalar;
use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Int, Operand, call};

/// Options of [`Tensor::index_add_with`] and [`Tensor::index_add_with_`].
#[derive(Clone, Debug, Default)]
pub struct IndexAdd {
    attrs: Attrs,
}

impl IndexAdd {
    /// Sets `alpha`: factor of source; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> IndexAdd {
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

impl Tensor {
    /// Returns the elements of x at the index along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `index`: i64 or i32; as many dimensions as x, none longer except dim
    /// - `dim`: the dimension that the index counts along
    ///
    /// PyTorch: `aten::gather`.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        call::one("nonzero", &[self], Attrs::new())
    }
}
