//! Methods of the ops under "Sorting".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, call};

/// Options of [`Tensor::argsort_with`].
#[derive(Clone, Debug, Default)]
pub struct Argsort {
    attrs: Attrs,
}

impl Argsort {
    /// Sets `descending`: greatest first; default false.
    #[must_use]
    pub fn descending(mut self, descending: bool) -> Argsort {
        self.attrs.set("descending", descending);
        self
    }
}

/// Options of [`Tensor::kthvalue_with`].
#[derive(Clone, Debug, Default)]
pub struct Kthvalue {
    attrs: Attrs,
}

impl Kthvalue {
    /// Sets `keepdim`: whether the dimension stays, of length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Kthvalue {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::median_with`].
#[derive(Clone, Debug, Default)]
pub struct Median {
    attrs: Attrs,
}

impl Median {
    /// Sets `keepdim`: whether the dimension stays, of length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Median {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::nanmedian_with`].
#[derive(Clone, Debug, Default)]
pub struct Nanmedian {
    attrs: Attrs,
}

impl Nanmedian {
    /// Sets `keepdim`: whether the dimension stays, of length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Nanmedian {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::sort_with`].
#[derive(Clone, Debug, Default)]
pub struct Sort {
    attrs: Attrs,
}

impl Sort {
    /// Sets `descending`: greatest first; default false.
    #[must_use]
    pub fn descending(mut self, descending: bool) -> Sort {
        self.attrs.set("descending", descending);
        self
    }
}

/// Options of [`Tensor::topk_with`].
#[derive(Clone, Debug, Default)]
pub struct Topk {
    attrs: Attrs,
}

impl Topk {
    /// Sets `largest`: the greatest instead of the least; default true.
    #[must_use]
    pub fn largest(mut self, largest: bool) -> Topk {
        self.attrs.set("largest", largest);
        self
    }
}

impl Tensor {
    /// Returns the elements sorted along a dimension, and their indices in x.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension to sort along; default the last
    ///
    /// PyTorch: `aten::sort`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 1.0], 3, &machine)?;
    /// let (values, indices) = x.sort(0)?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [2, 0, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("sort", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the elements sorted along a dimension, and their indices in x.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension to sort along; default the last
    /// - `options`: [`struct@Sort`], which has defaults
    ///
    /// PyTorch: `aten::sort`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 1.0], 3, &machine)?;
    /// let (values, indices) = x.sort_with(0, options::Sort::default().descending(true))?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sort_with(&self, dim: impl Int, options: Sort) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("sort", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the indices in x of the elements sorted along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension to sort along; default the last
    ///
    /// PyTorch: `aten::argsort`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 1.0], 3, &machine)?;
    /// assert_eq!(x.argsort(0)?.to_vec::<i64>()?, [2, 0, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("argsort", &[self], attrs)
    }

    /// Returns the indices in x of the elements sorted along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension to sort along; default the last
    /// - `options`: [`struct@Argsort`], which has defaults
    ///
    /// PyTorch: `aten::argsort`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 1.0], 3, &machine)?;
    /// let y = x.argsort_with(0, options::Argsort::default().descending(true))?;
    /// assert_eq!(y.to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort_with(&self, dim: impl Int, options: Argsort) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        call::one("argsort", &[self], attrs)
    }

    /// Returns the k greatest or least elements along a dimension, and their indices in x.
    ///
    /// - `x`, this tensor: any shape; not bool
    /// - `k`: the number of elements, at most the dimension's length
    /// - `dim`: the dimension to sort along; default the last
    ///
    /// PyTorch: `aten::topk`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 1.0], 3, &machine)?;
    /// let (values, indices) = x.topk(2, 0)?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: impl Int, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("k", k.to_int());
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("topk", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the k greatest or least elements along a dimension, and their indices in x.
    ///
    /// - `x`, this tensor: any shape; not bool
    /// - `k`: the number of elements, at most the dimension's length
    /// - `dim`: the dimension to sort along; default the last
    /// - `options`: [`struct@Topk`], which has defaults
    ///
    /// PyTorch: `aten::topk`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 1.0], 3, &machine)?;
    /// let (values, indices) = x.topk_with(2, 0, options::Topk::default().largest(false))?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [2, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn topk_with(&self, k: impl Int, dim: impl Int, options: Topk) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("k", k.to_int());
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("topk", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the k-th least elements along a dimension, and their indices.
    ///
    /// - `x`, this tensor: any shape, an element or more along the dimension
    /// - `k`: the rank, from 1
    /// - `dim`: the dimension; default -1
    ///
    /// PyTorch: `aten::kthvalue`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], 3, &machine)?;
    /// let (values, indices) = x.kthvalue(2, 0)?;
    /// assert_eq!(values.item::<f32>()?, 2.0);
    /// assert_eq!(indices.item::<i64>()?, 2);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue(&self, k: impl Int, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("k", k.to_int());
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("kthvalue", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the k-th least elements along a dimension, and their indices.
    ///
    /// - `x`, this tensor: any shape, an element or more along the dimension
    /// - `k`: the rank, from 1
    /// - `dim`: the dimension; default -1
    /// - `options`: [`struct@Kthvalue`], which has defaults
    ///
    /// PyTorch: `aten::kthvalue`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], 3, &machine)?;
    /// let (values, indices) =
    ///     x.kthvalue_with(2, 0, options::Kthvalue::default().keepdim(true))?;
    /// assert_eq!(values.to_vec::<f32>()?, [2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue_with(
        &self,
        k: impl Int,
        dim: impl Int,
        options: Kthvalue,
    ) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("k", k.to_int());
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("kthvalue", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the medians along a dimension, and their indices; of all elements, the median alone.
    ///
    /// - `x`, this tensor: any shape, an element or more along the dimension
    /// - `dim`: the dimension; default all
    ///
    /// PyTorch: `aten::median`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], 3, &machine)?;
    /// let (values, indices) = x.median(0)?;
    /// assert_eq!(values.item::<f32>()?, 2.0);
    /// assert_eq!(indices.item::<i64>()?, 2);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn median(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("median", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the medians along a dimension, and their indices; of all elements, the median alone.
    ///
    /// - `x`, this tensor: any shape, an element or more along the dimension
    /// - `dim`: the dimension; default all
    /// - `options`: [`struct@Median`], which has defaults
    ///
    /// PyTorch: `aten::median`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], 3, &machine)?;
    /// let (values, indices) = x.median_with(0, options::Median::default().keepdim(true))?;
    /// assert_eq!(values.to_vec::<f32>()?, [2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn median_with(&self, dim: impl Int, options: Median) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("median", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the medians of the elements that are not NaN along a dimension, and their indices;
    /// of all elements, the median alone.
    ///
    /// - `x`, this tensor: any shape, an element or more along the dimension
    /// - `dim`: the dimension; default all
    ///
    /// PyTorch: `aten::nanmedian`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], 3, &machine)?;
    /// let (values, indices) = x.nanmedian(0)?;
    /// assert_eq!(values.item::<f32>()?, 2.0);
    /// assert_eq!(indices.item::<i64>()?, 2);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmedian(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("nanmedian", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the medians of the elements that are not NaN along a dimension, and their indices;
    /// of all elements, the median alone.
    ///
    /// - `x`, this tensor: any shape, an element or more along the dimension
    /// - `dim`: the dimension; default all
    /// - `options`: [`struct@Nanmedian`], which has defaults
    ///
    /// PyTorch: `aten::nanmedian`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], 3, &machine)?;
    /// let (values, indices) = x.nanmedian_with(0, options::Nanmedian::default().keepdim(true))?;
    /// assert_eq!(values.to_vec::<f32>()?, [2.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nanmedian_with(&self, dim: impl Int, options: Nanmedian) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("nanmedian", &[self], attrs)?;
        Ok((a, b))
    }
}
