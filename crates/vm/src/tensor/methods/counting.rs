//! Methods of the ops under "Counting and searching".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Number, OneDim, Operand, call};

/// Options of [`Tensor::bincount`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1i64, 1, 3], 3, &machine)?;
/// let weights = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
/// let y = x.bincount(4, options::Bincount::default().weights(&weights))?;
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.5, 0.0, 2.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Bincount<'a> {
    weights: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> Bincount<'a> {
    /// Gives the tensor `weights`: x's shape.
    #[must_use]
    pub fn weights(mut self, weights: &'a Tensor) -> Bincount<'a> {
        self.weights = Some(weights);
        self
    }
}

/// Options of [`Tensor::histc_with`].
#[derive(Clone, Debug, Default)]
pub struct Histc {
    attrs: Attrs,
}

impl Histc {
    /// Sets `bins`: the number of bins; default 100.
    #[must_use]
    pub fn bins(mut self, bins: impl Int) -> Histc {
        self.attrs.set("bins", bins.to_int());
        self
    }

    /// Sets `max`: the end of the last, included; the least and greatest element if not above min.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], 4, &machine)?;
    /// let y = x.histc_with(options::Histc::default().bins(2).max(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn max(mut self, max: impl Into<Number>) -> Histc {
        self.attrs.set("max", call::number(max));
        self
    }

    /// Sets `min`: the start of the first bin; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], 4, &machine)?;
    /// let y = x.histc_with(options::Histc::default().bins(2).min(1).max(3))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn min(mut self, min: impl Into<Number>) -> Histc {
        self.attrs.set("min", call::number(min));
        self
    }
}

/// Options of [`Tensor::histogram`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 5.0], 4, &machine)?;
/// let (counts, edges) = x.histogram(2, options::Histogram::default().range([0.0, 4.0]))?;
/// assert_eq!(counts.to_vec::<f32>()?, [1.0, 2.0]);
/// assert_eq!(edges.to_vec::<f32>()?, [0.0, 2.0, 4.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Histogram<'a> {
    weight: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> Histogram<'a> {
    /// Sets `density`: divide by the sum and by the widths of the bins; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 5.0], 4, &machine)?;
    /// let (counts, edges) = x.histogram(2, options::Histogram::default().density(true))?;
    /// assert_eq!(counts.to_vec::<f32>()?, [0.25, 0.25]);
    /// assert_eq!(edges.to_vec::<f32>()?, [1.0, 3.0, 5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn density(mut self, density: bool) -> Histogram<'a> {
        self.attrs.set("density", density);
        self
    }

    /// Sets `range`: the first and the last edge of each column; default its extrema.
    #[must_use]
    pub fn range(mut self, range: impl Into<Vec<f64>>) -> Histogram<'a> {
        self.attrs.set("range", Into::<Vec<f64>>::into(range));
        self
    }

    /// Gives the tensor `weight`: a number for each element or row.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 5.0], 4, &machine)?;
    /// let bins = Tensor::from_slice(&[1.0f32, 2.0, 4.0], 3, &machine)?;
    /// let weight = Tensor::from_slice(&[0.5f32, 1.0, 2.0, 3.0], 4, &machine)?;
    /// let (counts, edges) = x.histogram(&bins, options::Histogram::default().weight(&weight))?;
    /// assert_eq!(counts.to_vec::<f32>()?, [0.5, 3.0]);
    /// assert_eq!(edges.to_vec::<f32>()?, [1.0, 2.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> Histogram<'a> {
        self.weight = Some(weight);
        self
    }
}

/// Options of [`Tensor::mode_with`].
#[derive(Clone, Debug, Default)]
pub struct Mode {
    attrs: Attrs,
}

impl Mode {
    /// Sets `keepdim`: keep the dimension with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Mode {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::nonzero_static_with`].
#[derive(Clone, Debug, Default)]
pub struct NonzeroStatic {
    attrs: Attrs,
}

impl NonzeroStatic {
    /// Sets `fill_value`: the elements of rows without an index; default -1.
    #[must_use]
    pub fn fill_value(mut self, fill_value: impl Into<Number>) -> NonzeroStatic {
        self.attrs.set("fill_value", call::number(fill_value));
        self
    }
}

/// Options of [`Tensor::searchsorted_with`].
#[derive(Clone, Debug, Default)]
pub struct Searchsorted {
    attrs: Attrs,
}

impl Searchsorted {
    /// Sets `out_int32`: i32 instead of i64; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let sorted = Tensor::from_slice(&[1.0f32, 3.0, 5.0], 3, &machine)?;
    /// let x = Tensor::from_slice(&[0.0f32, 3.0, 9.0], 3, &machine)?;
    /// let y = sorted.searchsorted_with(&x, options::Searchsorted::default().out_int32(true))?;
    /// assert_eq!(y.to_vec::<i32>()?, [0, 1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn out_int32(mut self, out_int32: bool) -> Searchsorted {
        self.attrs.set("out_int32", out_int32);
        self
    }

    /// Sets `right`: the position after equal elements instead of before; default false.
    #[must_use]
    pub fn right(mut self, right: bool) -> Searchsorted {
        self.attrs.set("right", right);
        self
    }
}

/// Options of [`Tensor::unique_with`].
#[derive(Clone, Debug, Default)]
pub struct Unique {
    attrs: Attrs,
}

impl Unique {
    /// Sets `consecutive`: only of neighbours one is dropped, else the result is sorted; default
    /// false.
    #[must_use]
    pub fn consecutive(mut self, consecutive: bool) -> Unique {
        self.attrs.set("consecutive", consecutive);
        self
    }

    /// Sets `return_counts`: whether to return counts, else an empty tensor; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3i64, 1, 3, 3], 4, &machine)?;
    /// let (values, _, counts) =
    ///     x.unique_with(.., options::Unique::default().return_counts(true))?;
    /// assert_eq!(values.to_vec::<i64>()?, [1, 3]);
    /// assert_eq!(counts.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn return_counts(mut self, return_counts: bool) -> Unique {
        self.attrs.set("return_counts", return_counts);
        self
    }

    /// Sets `return_inverse`: whether to return positions, else an empty tensor; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3i64, 1, 3, 3], 4, &machine)?;
    /// let (values, inverse, _) =
    ///     x.unique_with(.., options::Unique::default().return_inverse(true))?;
    /// assert_eq!(values.to_vec::<i64>()?, [1, 3]);
    /// assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn return_inverse(mut self, return_inverse: bool) -> Unique {
        self.attrs.set("return_inverse", return_inverse);
        self
    }
}

impl Tensor {
    /// Returns the positions at which the elements of x keep a sorted sequence sorted.
    ///
    /// - `sorted`, this tensor: \[n\], or x's shape but for the last dimension; sorted along that
    /// - `x`: any shape
    ///
    /// PyTorch: `aten::searchsorted`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let sorted = Tensor::from_slice(&[1.0f32, 3.0, 5.0], 3, &machine)?;
    /// let x = Tensor::from_slice(&[0.0f32, 3.0, 9.0], 3, &machine)?;
    /// assert_eq!(sorted.searchsorted(&x)?.to_vec::<i64>()?, [0, 1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, x: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::one("searchsorted", &given, Attrs::new())
    }

    /// Returns the positions at which the elements of x keep a sorted sequence sorted.
    ///
    /// - `sorted`, this tensor: \[n\], or x's shape but for the last dimension; sorted along that
    /// - `x`: any shape
    /// - `options`: [`struct@Searchsorted`], which has defaults
    ///
    /// PyTorch: `aten::searchsorted`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let sorted = Tensor::from_slice(&[1.0f32, 3.0, 5.0], 3, &machine)?;
    /// let x = Tensor::from_slice(&[0.0f32, 3.0, 9.0], 3, &machine)?;
    /// let y = sorted.searchsorted_with(&x, options::Searchsorted::default().right(true))?;
    /// assert_eq!(y.to_vec::<i64>()?, [0, 2, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted_with(&self, x: &Tensor, options: Searchsorted) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::one("searchsorted", &given, options.attrs)
    }

    /// Returns the numbers of elements in bins of one width.
    ///
    /// - `x`, this tensor: any shape; numbers
    ///
    /// PyTorch: `aten::histc`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], 4, &machine)?;
    /// let counts = x.histc()?;
    /// assert_eq!(counts.shape(), [100]); // bins
    /// assert_eq!(counts.sum(..)?.item::<f32>()?, 4.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn histc(&self) -> Result<Tensor> {
        call::one("histc", &[self], Attrs::new())
    }

    /// Returns the numbers of elements in bins of one width.
    ///
    /// - `x`, this tensor: any shape; numbers
    /// - `options`: [`struct@Histc`], which has defaults
    ///
    /// PyTorch: `aten::histc`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 2.0, 4.0], 4, &machine)?;
    /// let y = x.histc_with(options::Histc::default().bins(3))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn histc_with(&self, options: Histc) -> Result<Tensor> {
        call::one("histc", &[self], options.attrs)
    }

    /// Returns the distinct elements or slices of x, the position of each, and their counts.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: 0: slices along the first dimension, or `..`
    ///
    /// PyTorch: `aten::unique`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3i64, 1, 3, 3], 4, &machine)?;
    /// let (values, _, _) = x.unique(..)?;
    /// assert_eq!(values.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn unique(&self, dim: impl OneDim) -> Result<(Tensor, Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dim() {
            attrs.set("dim", dim);
        }
        let [a, b, c] = call::first_of("unique", &[self], attrs)?;
        Ok((a, b, c))
    }

    /// Returns the distinct elements or slices of x, the position of each, and their counts.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: 0: slices along the first dimension, or `..`
    /// - `options`: [`struct@Unique`], which has defaults
    ///
    /// PyTorch: `aten::unique`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3i64, 1, 3, 3], 4, &machine)?;
    /// let (values, _, _) = x.unique_with(.., options::Unique::default().consecutive(true))?;
    /// assert_eq!(values.to_vec::<i64>()?, [3, 1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_with(
        &self,
        dim: impl OneDim,
        options: Unique,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dim() {
            attrs.set("dim", dim);
        }
        let [a, b, c] = call::first_of("unique", &[self], attrs)?;
        Ok((a, b, c))
    }

    /// Returns the most frequent element along a dimension, the least of several, and an index.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end; default -1
    ///
    /// PyTorch: `aten::mode`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 3.0], 3, &machine)?;
    /// let (value, _) = x.mode(0)?;
    /// assert_eq!(value.item::<f32>()?, 3.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mode(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("mode", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the most frequent element along a dimension, the least of several, and an index.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end; default -1
    /// - `options`: [`struct@Mode`], which has defaults
    ///
    /// PyTorch: `aten::mode`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 3.0, 3.0, 4.0, 4.0, 5.0], (2, 3), &machine)?;
    /// let (value, _) = x.mode_with(1, options::Mode::default().keepdim(true))?;
    /// assert_eq!(value.shape(), [2, 1]);
    /// assert_eq!(value.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mode_with(&self, dim: impl Int, options: Mode) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("mode", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the indices of the first nonzero elements, a row for each, and then fill_value.
    ///
    /// - `x`, this tensor: any shape
    /// - `size`: the number of rows
    ///
    /// PyTorch: `aten::nonzero_static`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 5.0, 6.0], 3, &machine)?;
    /// let y = x.nonzero_static(2)?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero_static(&self, size: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("size", size.to_int());
        call::one("nonzero_static", &[self], attrs)
    }

    /// Returns the indices of the first nonzero elements, a row for each, and then fill_value.
    ///
    /// - `x`, this tensor: any shape
    /// - `size`: the number of rows
    /// - `options`: [`struct@NonzeroStatic`], which has defaults
    ///
    /// PyTorch: `aten::nonzero_static`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 5.0, 6.0], 3, &machine)?;
    /// let y = x.nonzero_static_with(3, options::NonzeroStatic::default().fill_value(-9))?;
    /// assert_eq!(y.shape(), [3, 1]);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 2, -9]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero_static_with(&self, size: impl Int, options: NonzeroStatic) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("size", size.to_int());
        call::one("nonzero_static", &[self], attrs)
    }

    /// Returns for each whole number below the bins, how often it occurs in x, or the sum of its
    /// weights.
    ///
    /// - `x`, this tensor: one dimension, integers
    /// - `bins`: the number of bins, greater than each element of x
    /// - `options`: [`struct@Bincount`], which has defaults
    ///
    /// PyTorch: `aten::bincount`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 1, 3], 3, &machine)?;
    /// assert_eq!(x.bincount(4, Default::default())?.to_vec::<i64>()?, [0, 2, 0, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self, bins: impl Int, options: Bincount<'_>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        attrs.set("bins", bins.to_int());
        call::optional(&[options.weights], &mut given, &mut attrs);
        call::one("bincount", &given, attrs)
    }

    /// Returns the number of elements, or the sum of their weights, in each bin, and the edges of
    /// the bins.
    ///
    /// - `x`, this tensor: any shape; f32 or f64
    /// - `bins`: the edges of the bins, sorted; the last belongs to the last bin; or a number
    /// - `options`: [`struct@Histogram`], which has defaults
    ///
    /// PyTorch: `aten::histogram`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 5.0], 4, &machine)?;
    /// let (counts, edges) = x.histogram(2, Default::default())?;
    /// assert_eq!(counts.to_vec::<f32>()?, [2.0, 2.0]);
    /// assert_eq!(edges.to_vec::<f32>()?, [1.0, 3.0, 5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn histogram<'a>(
        &self,
        bins: impl Into<Operand<'a>>,
        options: Histogram<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::operand(bins.into(), "bins", &mut given, &mut attrs);
        call::optional(&[options.weight], &mut given, &mut attrs);
        let [a, b] = call::first_of("histogram", &given, attrs)?;
        Ok((a, b))
    }
}
