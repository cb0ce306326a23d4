//! Methods of the ops under "Matrix products".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_ops::args::Scalar;
use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::call;

/// Options of [`Tensor::addmm_with`].
#[derive(Clone, Debug, Default)]
pub struct Addmm {
    attrs: Attrs,
}

impl Addmm {
    /// Sets `alpha`: factor of the product, whole for integers; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> Addmm {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: factor of the bias, whole for integers; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Scalar>) -> Addmm {
        self.attrs.set("beta", call::number(beta));
        self
    }
}

/// Options of [`Tensor::baddbmm_with`].
#[derive(Clone, Debug, Default)]
pub struct Baddbmm {
    attrs: Attrs,
}

impl Baddbmm {
    /// Sets `alpha`: factor of the product, whole for integers; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> Baddbmm {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: factor of the bias, whole for integers; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Scalar>) -> Baddbmm {
        self.attrs.set("beta", call::number(beta));
        self
    }
}

impl Tensor {
    /// Returns the matrix product of x and y, with leading dimensions broadcast.
    ///
    /// - `x`, this tensor: \[k\] or \[..,m,k\]
    /// - `y`: \[k\] or \[..,k,n\], of x's dtype
    ///
    /// PyTorch: `aten::matmul`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn matmul(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("matmul", &given, Attrs::new())
    }

    /// Returns beta * bias + alpha * the matrix product of x and y.
    ///
    /// - `bias`, this tensor: a shape that broadcasts to \[m,n\]
    /// - `x`: \[m,k\]
    /// - `y`: \[k,n\]
    ///
    /// PyTorch: `aten::addmm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn addmm(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        given.push(y);
        call::one("addmm", &given, Attrs::new())
    }

    /// Returns beta * bias + alpha * the matrix product of x and y.
    ///
    /// - `bias`, this tensor: a shape that broadcasts to \[m,n\]
    /// - `x`: \[m,k\]
    /// - `y`: \[k,n\]
    /// - `options`: [`struct@Addmm`], which has defaults
    ///
    /// PyTorch: `aten::addmm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn addmm_with(&self, x: &Tensor, y: &Tensor, options: Addmm) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        given.push(y);
        call::one("addmm", &given, options.attrs)
    }

    /// Returns beta * bias + alpha * the batched matrix product of x and y.
    ///
    /// - `bias`, this tensor: a shape that broadcasts to \[b,m,n\]
    /// - `x`: \[b,m,k\]
    /// - `y`: \[b,k,n\]
    ///
    /// PyTorch: `aten::baddbmm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn baddbmm(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        given.push(y);
        call::one("baddbmm", &given, Attrs::new())
    }

    /// Returns beta * bias + alpha * the batched matrix product of x and y.
    ///
    /// - `bias`, this tensor: a shape that broadcasts to \[b,m,n\]
    /// - `x`: \[b,m,k\]
    /// - `y`: \[b,k,n\]
    /// - `options`: [`struct@Baddbmm`], which has defaults
    ///
    /// PyTorch: `aten::baddbmm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn baddbmm_with(&self, x: &Tensor, y: &Tensor, options: Baddbmm) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        given.push(y);
        call::one("baddbmm", &given, options.attrs)
    }
}
