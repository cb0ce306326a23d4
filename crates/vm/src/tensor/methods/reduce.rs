//! Methods of the ops under "Reductions".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, DType, Result};

use crate::handle::Tensor;
use crate::tensor::{Dims, Int, Number, OneDim, call};

/// Options of [`Tensor::all_with`].
#[derive(Clone, Debug, Default)]
pub struct All {
    attrs: Attrs,
}

impl All {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> All {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::amax_with`].
#[derive(Clone, Debug, Default)]
pub struct Amax {
    attrs: Attrs,
}

impl Amax {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Amax {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::amin_with`].
#[derive(Clone, Debug, Default)]
pub struct Amin {
    attrs: Attrs,
}

impl Amin {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Amin {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::aminmax_with`].
#[derive(Clone, Debug, Default)]
pub struct Aminmax {
    attrs: Attrs,
}

impl Aminmax {
    /// Sets `keepdim`: whether reduced dimensions stay, of length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Aminmax {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::any_with`].
#[derive(Clone, Debug, Default)]
pub struct Any {
    attrs: Attrs,
}

impl Any {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Any {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::argmax_with`].
#[derive(Clone, Debug, Default)]
pub struct Argmax {
    attrs: Attrs,
}

impl Argmax {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Argmax {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::argmin_with`].
#[derive(Clone, Debug, Default)]
pub struct Argmin {
    attrs: Attrs,
}

impl Argmin {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Argmin {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::cdist_with`].
#[derive(Clone, Debug, Default)]
pub struct Cdist {
    attrs: Attrs,
}

impl Cdist {
    /// Sets `p`: the order of the norm; default 2.
    #[must_use]
    pub fn p(mut self, p: impl Into<Number>) -> Cdist {
        self.attrs.set("p", call::number(p));
        self
    }
}

/// Options of [`Tensor::cumprod_with`].
#[derive(Clone, Debug, Default)]
pub struct Cumprod {
    attrs: Attrs,
}

impl Cumprod {
    /// Sets `dtype`: convert to this dtype first; default i64 for bool and integers.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Cumprod {
        self.attrs.set("dtype", dtype);
        self
    }
}

/// Options of [`Tensor::cumsum_with`].
#[derive(Clone, Debug, Default)]
pub struct Cumsum {
    attrs: Attrs,
}

impl Cumsum {
    /// Sets `dtype`: convert to this dtype first; default i64 for bool and integers.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Cumsum {
        self.attrs.set("dtype", dtype);
        self
    }
}

/// Options of [`Tensor::dist_with`].
#[derive(Clone, Debug, Default)]
pub struct Dist {
    attrs: Attrs,
}

impl Dist {
    /// Sets `p`: the order of the norm; default 2.
    #[must_use]
    pub fn p(mut self, p: impl Into<Number>) -> Dist {
        self.attrs.set("p", call::number(p));
        self
    }
}

/// Options of [`Tensor::hash_tensor_with`].
#[derive(Clone, Debug, Default)]
pub struct HashTensor {
    attrs: Attrs,
}

impl HashTensor {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> HashTensor {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::linalg_vector_norm_with`].
#[derive(Clone, Debug, Default)]
pub struct LinalgVectorNorm {
    attrs: Attrs,
}

impl LinalgVectorNorm {
    /// Sets `dtype`: convert to this float dtype first.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let options = options::LinalgVectorNorm::default().dtype(DType::F64);
    /// assert_eq!(x.linalg_vector_norm_with(.., options)?.item::<f64>()?, 5.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> LinalgVectorNorm {
        self.attrs.set("dtype", dtype);
        self
    }

    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 4.0, 6.0, 8.0], (2, 2), &machine)?;
    /// let y = x.linalg_vector_norm_with(1, options::LinalgVectorNorm::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [5.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> LinalgVectorNorm {
        self.attrs.set("keepdim", keepdim);
        self
    }

    /// Sets `ord`: the order of the norm, or an infinity for the maximum or minimum; default 2.
    #[must_use]
    pub fn ord(mut self, ord: impl Into<Number>) -> LinalgVectorNorm {
        self.attrs.set("ord", call::number(ord));
        self
    }
}

/// Options of [`Tensor::logsumexp_with`].
#[derive(Clone, Debug, Default)]
pub struct Logsumexp {
    attrs: Attrs,
}

impl Logsumexp {
    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Logsumexp {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::max_with`].
#[derive(Clone, Debug, Default)]
pub struct Max {
    attrs: Attrs,
}

impl Max {
    /// Sets `keepdim`: with dim alone: keep it with length 1; default false, and none without dim.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Max {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::mean_with`].
#[derive(Clone, Debug, Default)]
pub struct Mean {
    attrs: Attrs,
}

impl Mean {
    /// Sets `dtype`: convert to this float dtype first.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 9.0], 4, &machine)?;
    /// let y = x.mean_with(0, options::Mean::default().dtype(DType::F64))?;
    /// assert_eq!(y.item::<f64>()?, 4.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Mean {
        self.attrs.set("dtype", dtype);
        self
    }

    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Mean {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::min_with`].
#[derive(Clone, Debug, Default)]
pub struct Min {
    attrs: Attrs,
}

impl Min {
    /// Sets `keepdim`: with dim alone: keep it with length 1; default false, and none without dim.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Min {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::nansum_with`].
#[derive(Clone, Debug, Default)]
pub struct Nansum {
    attrs: Attrs,
}

impl Nansum {
    /// Sets `dtype`: the dtype of the sum.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, f32::NAN, 2.0, 6.0], (2, 2), &machine)?;
    /// let y = x.nansum_with(0, options::Nansum::default().dtype(DType::F64))?;
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Nansum {
        self.attrs.set("dtype", dtype);
        self
    }

    /// Sets `keepdim`: whether reduced dimensions stay, of length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Nansum {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::pdist_with`].
#[derive(Clone, Debug, Default)]
pub struct Pdist {
    attrs: Attrs,
}

impl Pdist {
    /// Sets `p`: the order of the norm; default 2.
    #[must_use]
    pub fn p(mut self, p: impl Into<Number>) -> Pdist {
        self.attrs.set("p", call::number(p));
        self
    }
}

/// Options of [`Tensor::prod_with`].
#[derive(Clone, Debug, Default)]
pub struct Prod {
    attrs: Attrs,
}

impl Prod {
    /// Sets `dtype`: convert to this dtype first; default i64 for bool and integers.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 9.0], 4, &machine)?;
    /// let y = x.prod_with(0, options::Prod::default().dtype(DType::F64))?;
    /// assert_eq!(y.item::<f64>()?, 72.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Prod {
        self.attrs.set("dtype", dtype);
        self
    }

    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Prod {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::std_with`].
#[derive(Clone, Debug, Default)]
pub struct Std {
    attrs: Attrs,
}

impl Std {
    /// Sets `correction`: subtracted from the number of elements in the divisor; default 1.
    #[must_use]
    pub fn correction(mut self, correction: impl Into<Number>) -> Std {
        self.attrs.set("correction", call::number(correction));
        self
    }

    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let y = x.std_with(1, options::Std::default().keepdim(true))?;
    /// assert_eq!(y.to_string(), "tensor([[1.4142],\n        [2.8284]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Std {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::std_mean_with`].
#[derive(Clone, Debug, Default)]
pub struct StdMean {
    attrs: Attrs,
}

impl StdMean {
    /// Sets `correction`: what is subtracted from the number of elements; default 1.
    #[must_use]
    pub fn correction(mut self, correction: impl Into<Number>) -> StdMean {
        self.attrs.set("correction", call::number(correction));
        self
    }

    /// Sets `keepdim`: whether reduced dimensions stay, of length 1; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (deviation, mean) = x.std_mean_with(0, options::StdMean::default().keepdim(true))?;
    /// assert_eq!(deviation.to_string(), "tensor([[0.7071, 2.1213]])");
    /// assert_eq!(mean.shape(), [1, 2]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> StdMean {
        self.attrs.set("keepdim", keepdim);
        self
    }

    /// Sets `unbiased`: whether the correction is 1, else 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (deviation, mean) = x.std_mean_with(0, options::StdMean::default().unbiased(false))?;
    /// assert_eq!(deviation.to_vec::<f32>()?, [0.5, 1.5]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn unbiased(mut self, unbiased: bool) -> StdMean {
        self.attrs.set("unbiased", unbiased);
        self
    }
}

/// Options of [`Tensor::sum_with`].
#[derive(Clone, Debug, Default)]
pub struct Sum {
    attrs: Attrs,
}

impl Sum {
    /// Sets `dtype`: convert to this dtype first; default i64 for bool and integers.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 9.0], 4, &machine)?;
    /// assert_eq!(x.sum_with(0, options::Sum::default().dtype(DType::F64))?.item::<f64>()?, 16.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Sum {
        self.attrs.set("dtype", dtype);
        self
    }

    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Sum {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::var_with`].
#[derive(Clone, Debug, Default)]
pub struct Var {
    attrs: Attrs,
}

impl Var {
    /// Sets `correction`: subtracted from the number of elements in the divisor; default 1.
    #[must_use]
    pub fn correction(mut self, correction: impl Into<Number>) -> Var {
        self.attrs.set("correction", call::number(correction));
        self
    }

    /// Sets `keepdim`: keep reduced dimensions with length 1; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let y = x.var_with(1, options::Var::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 8.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Var {
        self.attrs.set("keepdim", keepdim);
        self
    }
}

/// Options of [`Tensor::var_mean_with`].
#[derive(Clone, Debug, Default)]
pub struct VarMean {
    attrs: Attrs,
}

impl VarMean {
    /// Sets `correction`: what is subtracted from the number of elements; default 1.
    #[must_use]
    pub fn correction(mut self, correction: impl Into<Number>) -> VarMean {
        self.attrs.set("correction", call::number(correction));
        self
    }

    /// Sets `keepdim`: whether reduced dimensions stay, of length 1; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (variance, mean) = x.var_mean_with(0, options::VarMean::default().keepdim(true))?;
    /// assert_eq!(variance.shape(), [1, 2]);
    /// assert_eq!(variance.to_vec::<f32>()?, [0.5, 4.5]);
    /// assert_eq!(mean.shape(), [1, 2]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> VarMean {
        self.attrs.set("keepdim", keepdim);
        self
    }

    /// Sets `unbiased`: whether the correction is 1, else 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (variance, mean) = x.var_mean_with(0, options::VarMean::default().unbiased(false))?;
    /// assert_eq!(variance.to_vec::<f32>()?, [0.25, 2.25]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn unbiased(mut self, unbiased: bool) -> VarMean {
        self.attrs.set("unbiased", unbiased);
        self
    }
}

impl Tensor {
    /// Returns the sum over some or all dimensions, in an order fixed by the shape.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::sum`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// assert_eq!(x.sum(1)?.to_vec::<f32>()?, [6.0, 18.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sum(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("sum", &[self], attrs)
    }

    /// Returns the sum over some or all dimensions, in an order fixed by the shape.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Sum`], which has defaults
    ///
    /// PyTorch: `aten::sum`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let y = x.sum_with(0, options::Sum::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [5.0, 7.0, 12.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sum_with(&self, dim: impl Dims, options: Sum) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("sum", &[self], attrs)
    }

    /// Returns the product over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::prod`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// assert_eq!(x.prod(1)?.to_vec::<f32>()?, [6.0, 180.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn prod(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("prod", &[self], attrs)
    }

    /// Returns the product over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Prod`], which has defaults
    ///
    /// PyTorch: `aten::prod`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let y = x.prod_with(0, options::Prod::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 10.0, 27.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn prod_with(&self, dim: impl Dims, options: Prod) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("prod", &[self], attrs)
    }

    /// Returns the mean over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::mean`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// assert_eq!(x.mean(1)?.to_vec::<f32>()?, [2.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mean(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("mean", &[self], attrs)
    }

    /// Returns the mean over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Mean`], which has defaults
    ///
    /// PyTorch: `aten::mean`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let y = x.mean_with(0, options::Mean::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [2.5, 3.5, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mean_with(&self, dim: impl Dims, options: Mean) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("mean", &[self], attrs)
    }

    /// Returns whether any element is nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::any`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false, true], (2, 2), &machine)?;
    /// assert_eq!(x.any(0)?.to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn any(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("any", &[self], attrs)
    }

    /// Returns whether any element is nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Any`], which has defaults
    ///
    /// PyTorch: `aten::any`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false, true], (2, 2), &machine)?;
    /// let y = x.any_with(1, options::Any::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn any_with(&self, dim: impl Dims, options: Any) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("any", &[self], attrs)
    }

    /// Returns whether every element is nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::all`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false, true], (2, 2), &machine)?;
    /// assert_eq!(x.all(0)?.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn all(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("all", &[self], attrs)
    }

    /// Returns whether every element is nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@All`], which has defaults
    ///
    /// PyTorch: `aten::all`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false, true], (2, 2), &machine)?;
    /// let y = x.all_with(1, options::All::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn all_with(&self, dim: impl Dims, options: All) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("all", &[self], attrs)
    }

    /// Returns the number of nonzero elements.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::count_nonzero`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 0.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.count_nonzero(0)?.to_vec::<i64>()?, [2, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn count_nonzero(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("count_nonzero", &[self], attrs)
    }

    /// Returns the bits of all elements as numbers of 64 bits, combined by exclusive or.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::hash_tensor`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 4], 3, &machine)?;
    /// assert_eq!(x.hash_tensor(..)?.item::<u64>()?, 7);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn hash_tensor(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("hash_tensor", &[self], attrs)
    }

    /// Returns the bits of all elements as numbers of 64 bits, combined by exclusive or.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@HashTensor`], which has defaults
    ///
    /// PyTorch: `aten::hash_tensor`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0, 0.0, 0.5], (2, 2), &machine)?;
    /// let y = x.hash_tensor_with(1, options::HashTensor::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert_eq!(y.to_vec::<u64>()?, [0, 0.5f64.to_bits()]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn hash_tensor_with(&self, dim: impl Dims, options: HashTensor) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("hash_tensor", &[self], attrs)
    }

    /// Returns the standard deviation over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::std`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// assert_eq!(x.std(0)?.to_string(), "tensor(2.0817)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn std(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("std", &[self], attrs)
    }

    /// Returns the standard deviation over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Std`], which has defaults
    ///
    /// PyTorch: `aten::std`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let y = x.std_with(0, options::Std::default().correction(0))?;
    /// assert_eq!(y.to_string(), "tensor(1.6997)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn std_with(&self, dim: impl Dims, options: Std) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("std", &[self], attrs)
    }

    /// Returns the variance over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::var`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// assert_eq!(x.var(0)?.to_string(), "tensor(4.3333)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn var(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("var", &[self], attrs)
    }

    /// Returns the variance over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Var`], which has defaults
    ///
    /// PyTorch: `aten::var`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let y = x.var_with(0, options::Var::default().correction(0))?;
    /// assert_eq!(y.to_string(), "tensor(2.8889)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn var_with(&self, dim: impl Dims, options: Var) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("var", &[self], attrs)
    }

    /// Returns the vector norm over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::linalg_vector_norm`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// assert_eq!(x.linalg_vector_norm(..)?.item::<f32>()?, 5.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_vector_norm(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("linalg_vector_norm", &[self], attrs)
    }

    /// Returns the vector norm over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@LinalgVectorNorm`], which has defaults
    ///
    /// PyTorch: `aten::linalg_vector_norm`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, -4.0], 2, &machine)?;
    /// let y = x.linalg_vector_norm_with(.., options::LinalgVectorNorm::default().ord(1))?;
    /// assert_eq!(y.item::<f32>()?, 7.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn linalg_vector_norm_with(
        &self,
        dim: impl Dims,
        options: LinalgVectorNorm,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("linalg_vector_norm", &[self], attrs)
    }

    /// Returns the logarithm of the sum of exponentials.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::logsumexp`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.logsumexp(0)?.to_string(), "tensor(3.4076)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("logsumexp", &[self], attrs)
    }

    /// Returns the logarithm of the sum of exponentials.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Logsumexp`], which has defaults
    ///
    /// PyTorch: `aten::logsumexp`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 5.0], (2, 2), &machine)?;
    /// let y = x.logsumexp_with(0, options::Logsumexp::default().keepdim(true))?;
    /// assert_eq!(y.to_string(), "tensor([[3.1269, 5.0486]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp_with(&self, dim: impl Dims, options: Logsumexp) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("logsumexp", &[self], attrs)
    }

    /// Returns the maximum over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::amax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// assert_eq!(x.amax(1)?.to_vec::<f32>()?, [3.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn amax(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("amax", &[self], attrs)
    }

    /// Returns the maximum over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Amax`], which has defaults
    ///
    /// PyTorch: `aten::amax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let y = x.amax_with(0, options::Amax::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 5.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn amax_with(&self, dim: impl Dims, options: Amax) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("amax", &[self], attrs)
    }

    /// Returns the minimum over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    ///
    /// PyTorch: `aten::amin`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// assert_eq!(x.amin(1)?.to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn amin(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("amin", &[self], attrs)
    }

    /// Returns the minimum over some or all dimensions.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension or dimensions, negative from the end, or `..`
    /// - `options`: [`struct@Amin`], which has defaults
    ///
    /// PyTorch: `aten::amin`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let y = x.amin_with(0, options::Amin::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 3]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn amin_with(&self, dim: impl Dims, options: Amin) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("amin", &[self], attrs)
    }

    /// Returns the maximum; along a dimension, also its index.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end; default all
    ///
    /// PyTorch: `aten::max`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let (values, indices) = x.max(1)?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 9.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn max(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("max", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the maximum; along a dimension, also its index.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end; default all
    /// - `options`: [`struct@Max`], which has defaults
    ///
    /// PyTorch: `aten::max`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let (values, indices) = x.max_with(1, options::Max::default().keepdim(true))?;
    /// assert_eq!(values.shape(), [2, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 9.0]);
    /// assert_eq!(indices.shape(), [2, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn max_with(&self, dim: impl Int, options: Max) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("max", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the minimum; along a dimension, also its index.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end; default all
    ///
    /// PyTorch: `aten::min`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let (values, indices) = x.min(1)?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 4.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn min(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("min", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the minimum; along a dimension, also its index.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end; default all
    /// - `options`: [`struct@Min`], which has defaults
    ///
    /// PyTorch: `aten::min`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let (values, indices) = x.min_with(1, options::Min::default().keepdim(true))?;
    /// assert_eq!(values.shape(), [2, 1]);
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 4.0]);
    /// assert_eq!(indices.shape(), [2, 1]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn min_with(&self, dim: impl Int, options: Min) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("min", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the index of the maximum.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end, or `..`
    ///
    /// PyTorch: `aten::argmax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// assert_eq!(x.argmax(1)?.to_vec::<i64>()?, [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax(&self, dim: impl OneDim) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dim() {
            attrs.set("dim", dim);
        }
        call::one("argmax", &[self], attrs)
    }

    /// Returns the index of the maximum.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end, or `..`
    /// - `options`: [`struct@Argmax`], which has defaults
    ///
    /// PyTorch: `aten::argmax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let y = x.argmax_with(0, options::Argmax::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 3]);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 1, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax_with(&self, dim: impl OneDim, options: Argmax) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dim() {
            attrs.set("dim", dim);
        }
        call::one("argmax", &[self], attrs)
    }

    /// Returns the index of the minimum.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end, or `..`
    ///
    /// PyTorch: `aten::argmin`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// assert_eq!(x.argmin(1)?.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin(&self, dim: impl OneDim) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dim() {
            attrs.set("dim", dim);
        }
        call::one("argmin", &[self], attrs)
    }

    /// Returns the index of the minimum.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end, or `..`
    /// - `options`: [`struct@Argmin`], which has defaults
    ///
    /// PyTorch: `aten::argmin`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 9.0], (2, 3), &machine)?;
    /// let y = x.argmin_with(0, options::Argmin::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 3]);
    /// assert_eq!(y.to_vec::<i64>()?, [0, 0, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin_with(&self, dim: impl OneDim, options: Argmin) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dim() {
            attrs.set("dim", dim);
        }
        call::one("argmin", &[self], attrs)
    }

    /// Returns the cumulative sums along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::cumsum`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.cumsum(0)?.to_vec::<f32>()?, [1.0, 3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("cumsum", &[self], attrs)
    }

    /// Returns the cumulative sums along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    /// - `options`: [`struct@Cumsum`], which has defaults
    ///
    /// PyTorch: `aten::cumsum`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = x.cumsum_with(0, options::Cumsum::default().dtype(DType::F64))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum_with(&self, dim: impl Int, options: Cumsum) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        call::one("cumsum", &[self], attrs)
    }

    /// Returns the cumulative products along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::cumprod`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.cumprod(0)?.to_vec::<f32>()?, [1.0, 2.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("cumprod", &[self], attrs)
    }

    /// Returns the cumulative products along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    /// - `options`: [`struct@Cumprod`], which has defaults
    ///
    /// PyTorch: `aten::cumprod`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = x.cumprod_with(0, options::Cumprod::default().dtype(DType::F64))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod_with(&self, dim: impl Int, options: Cumprod) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_int());
        call::one("cumprod", &[self], attrs)
    }

    /// Returns the logarithms of the cumulative sums of exponentials along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::logcumsumexp`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.logcumsumexp(0)?.to_string(), "tensor([1.0000, 2.3133, 3.4076])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logcumsumexp(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("logcumsumexp", &[self], attrs)
    }

    /// Returns the cumulative maxima along a dimension, and their indices.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::cummax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 1.0, 5.0], 3, &machine)?;
    /// let (values, indices) = x.cummax(0)?;
    /// assert_eq!(values.to_vec::<f32>()?, [2.0, 2.0, 5.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 0, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cummax(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("cummax", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the cumulative minima along a dimension, and their indices.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::cummin`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 1.0, 5.0], 3, &machine)?;
    /// let (values, indices) = x.cummin(0)?;
    /// assert_eq!(values.to_vec::<f32>()?, [2.0, 1.0, 1.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 1, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cummin(&self, dim: impl Int) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        let [a, b] = call::first_of("cummin", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the variance and the mean.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimensions to reduce, or `..`
    ///
    /// PyTorch: `aten::var_mean`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (variance, mean) = x.var_mean(0)?;
    /// assert_eq!(variance.to_vec::<f32>()?, [0.5, 4.5]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn var_mean(&self, dim: impl Dims) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        let [a, b] = call::first_of("var_mean", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the variance and the mean.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimensions to reduce, or `..`
    /// - `options`: [`struct@VarMean`], which has defaults
    ///
    /// PyTorch: `aten::var_mean`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (variance, mean) = x.var_mean_with(0, options::VarMean::default().correction(0))?;
    /// assert_eq!(variance.to_vec::<f32>()?, [0.25, 2.25]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn var_mean_with(&self, dim: impl Dims, options: VarMean) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        let [a, b] = call::first_of("var_mean", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the standard deviation and the mean.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimensions to reduce, or `..`
    ///
    /// PyTorch: `aten::std_mean`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (deviation, mean) = x.std_mean(0)?;
    /// assert_eq!(deviation.to_string(), "tensor([0.7071, 2.1213])");
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn std_mean(&self, dim: impl Dims) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        let [a, b] = call::first_of("std_mean", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the standard deviation and the mean.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimensions to reduce, or `..`
    /// - `options`: [`struct@StdMean`], which has defaults
    ///
    /// PyTorch: `aten::std_mean`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (deviation, mean) = x.std_mean_with(0, options::StdMean::default().correction(0))?;
    /// assert_eq!(deviation.to_vec::<f32>()?, [0.5, 1.5]);
    /// assert_eq!(mean.to_vec::<f32>()?, [1.5, 4.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn std_mean_with(&self, dim: impl Dims, options: StdMean) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        let [a, b] = call::first_of("std_mean", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the least and the greatest element.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension to reduce, or `..`
    ///
    /// PyTorch: `aten::aminmax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (least, greatest) = x.aminmax(0)?;
    /// assert_eq!(least.to_vec::<f32>()?, [1.0, 3.0]);
    /// assert_eq!(greatest.to_vec::<f32>()?, [2.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax(&self, dim: impl Dims) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        let [a, b] = call::first_of("aminmax", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the least and the greatest element.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension to reduce, or `..`
    /// - `options`: [`struct@Aminmax`], which has defaults
    ///
    /// PyTorch: `aten::aminmax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let (least, greatest) = x.aminmax_with(0, options::Aminmax::default().keepdim(true))?;
    /// assert_eq!(least.shape(), [1, 2]);
    /// assert_eq!(least.to_vec::<f32>()?, [1.0, 3.0]);
    /// assert_eq!(greatest.shape(), [1, 2]);
    /// assert_eq!(greatest.to_vec::<f32>()?, [2.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax_with(&self, dim: impl Dims, options: Aminmax) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        let [a, b] = call::first_of("aminmax", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns the sum of the elements that are not NaN.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimensions to reduce, or `..`
    ///
    /// PyTorch: `aten::nansum`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, f32::NAN, 2.0, 6.0], (2, 2), &machine)?;
    /// assert_eq!(x.nansum(0)?.to_vec::<f32>()?, [3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nansum(&self, dim: impl Dims) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("nansum", &[self], attrs)
    }

    /// Returns the sum of the elements that are not NaN.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimensions to reduce, or `..`
    /// - `options`: [`struct@Nansum`], which has defaults
    ///
    /// PyTorch: `aten::nansum`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, f32::NAN, 2.0, 6.0], (2, 2), &machine)?;
    /// let y = x.nansum_with(0, options::Nansum::default().keepdim(true))?;
    /// assert_eq!(y.shape(), [1, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nansum_with(&self, dim: impl Dims, options: Nansum) -> Result<Tensor> {
        let mut attrs = options.attrs;
        if let Some(dim) = dim.to_dims() {
            attrs.set("dim", dim);
        }
        call::one("nansum", &[self], attrs)
    }

    /// Returns the sum of the diagonal.
    ///
    /// - `x`, this tensor: a matrix
    ///
    /// PyTorch: `aten::trace`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// assert_eq!(x.trace()?.item::<f32>()?, 7.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn trace(&self) -> Result<Tensor> {
        call::one("trace", &[self], Attrs::new())
    }

    /// Returns the norm of x - y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::dist`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4.0f32, 6.0], 2, &machine)?;
    /// assert_eq!(x.dist(&y)?.item::<f32>()?, 5.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn dist(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("dist", &given, Attrs::new())
    }

    /// Returns the norm of x - y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    /// - `options`: [`struct@Dist`], which has defaults
    ///
    /// PyTorch: `aten::dist`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4.0f32, 6.0], 2, &machine)?;
    /// assert_eq!(x.dist_with(&y, options::Dist::default().p(1))?.item::<f32>()?, 7.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn dist_with(&self, y: &Tensor, options: Dist) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("dist", &given, options.attrs)
    }

    /// Returns the distances between the rows of x and those of y.
    ///
    /// - `x1`, this tensor: \[...,n,k\]
    /// - `x2`: \[...,m,k\]
    ///
    /// PyTorch: `aten::_cdist_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x1 = Tensor::from_slice(&[0.0f32, 0.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let x2 = Tensor::from_slice(&[0.0f32, 0.0, 0.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x1.cdist(&x2)?.to_vec::<f32>()?, [0.0, 4.0, 5.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cdist(&self, x2: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x2);
        call::one("_cdist_forward", &given, Attrs::new())
    }

    /// Returns the distances between the rows of x and those of y.
    ///
    /// - `x1`, this tensor: \[...,n,k\]
    /// - `x2`: \[...,m,k\]
    /// - `options`: [`struct@Cdist`], which has defaults
    ///
    /// PyTorch: `aten::_cdist_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x1 = Tensor::from_slice(&[0.0f32, 0.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let x2 = Tensor::from_slice(&[0.0f32, 0.0, 0.0, 4.0], (2, 2), &machine)?;
    /// let y = x1.cdist_with(&x2, options::Cdist::default().p(1))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 4.0, 7.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cdist_with(&self, x2: &Tensor, options: Cdist) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x2);
        call::one("_cdist_forward", &given, options.attrs)
    }

    /// Returns the distances between each row of x and those after it.
    ///
    /// - `x`, this tensor: \[n,k\]
    ///
    /// PyTorch: `aten::_pdist_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.pdist()?.to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn pdist(&self) -> Result<Tensor> {
        call::one("_pdist_forward", &[self], Attrs::new())
    }

    /// Returns the distances between each row of x and those after it.
    ///
    /// - `x`, this tensor: \[n,k\]
    /// - `options`: [`struct@Pdist`], which has defaults
    ///
    /// PyTorch: `aten::_pdist_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.pdist_with(options::Pdist::default().p(1))?.to_vec::<f32>()?, [7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn pdist_with(&self, options: Pdist) -> Result<Tensor> {
        call::one("_pdist_forward", &[self], options.attrs)
    }
}
