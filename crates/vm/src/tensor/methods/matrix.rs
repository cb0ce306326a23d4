//! Methods of the ops under "Matrix products".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_ops::args::Scalar;
use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::call;

/// Options of [`Tensor::addmm_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let bias = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2), &machine)?;
/// let z = bias.addmm_with(&x, &y, options::Addmm::default().beta(2))?;
/// assert_eq!(z.shape(), [2, 2]);
/// assert_eq!(z.to_vec::<f32>()?, [39.0, 62.0, 63.0, 90.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Addmm {
    attrs: Attrs,
}

impl Addmm {
    /// Sets `alpha`: factor of the product, whole for integers; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2), &machine)?;
    /// let z = bias.addmm_with(&x, &y, options::Addmm::default().alpha(2))?;
    /// assert_eq!(z.shape(), [2, 2]);
    /// assert_eq!(z.to_vec::<f32>()?, [48.0, 64.0, 96.0, 120.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> Addmm {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: factor of the bias, whole for integers; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2), &machine)?;
    /// let z = bias.addmm_with(&x, &y, options::Addmm::default().beta(2))?;
    /// assert_eq!(z.shape(), [2, 2]);
    /// assert_eq!(z.to_vec::<f32>()?, [39.0, 62.0, 63.0, 90.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Scalar>) -> Addmm {
        self.attrs.set("beta", call::number(beta));
        self
    }
}

/// Options of [`Tensor::baddbmm_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let bias = Tensor::from_slice(&[10.0f32, 20.0], (2, 1, 1), &machine)?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 1, 2), &machine)?;
/// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2, 1), &machine)?;
/// let z = bias.baddbmm_with(&x, &y, options::Baddbmm::default().beta(2))?;
/// assert_eq!(z.to_vec::<f32>()?, [37.0, 93.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Baddbmm {
    attrs: Attrs,
}

impl Baddbmm {
    /// Sets `alpha`: factor of the product, whole for integers; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], (2, 1, 1), &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 1, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2, 1), &machine)?;
    /// let z = bias.baddbmm_with(&x, &y, options::Baddbmm::default().alpha(2))?;
    /// assert_eq!(z.to_vec::<f32>()?, [44.0, 126.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> Baddbmm {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: factor of the bias, whole for integers; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], (2, 1, 1), &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 1, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2, 1), &machine)?;
    /// let z = bias.baddbmm_with(&x, &y, options::Baddbmm::default().beta(2))?;
    /// assert_eq!(z.to_vec::<f32>()?, [37.0, 93.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2), &machine)?;
    /// assert_eq!(x.matmul(&y)?.to_vec::<f32>()?, [19.0, 22.0, 43.0, 50.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2), &machine)?;
    /// let z = bias.addmm(&x, &y)?;
    /// assert_eq!(z.shape(), [2, 2]);
    /// assert_eq!(z.to_vec::<f32>()?, [29.0, 42.0, 53.0, 70.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], 2, &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2), &machine)?;
    /// let z = bias.addmm_with(&x, &y, options::Addmm::default().beta(2))?;
    /// assert_eq!(z.shape(), [2, 2]);
    /// assert_eq!(z.to_vec::<f32>()?, [39.0, 62.0, 63.0, 90.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], (2, 1, 1), &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 1, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2, 1), &machine)?;
    /// assert_eq!(bias.baddbmm(&x, &y)?.to_vec::<f32>()?, [27.0, 73.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let bias = Tensor::from_slice(&[10.0f32, 20.0], (2, 1, 1), &machine)?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 1, 2), &machine)?;
    /// let y = Tensor::from_slice(&[5.0f32, 6.0, 7.0, 8.0], (2, 2, 1), &machine)?;
    /// let z = bias.baddbmm_with(&x, &y, options::Baddbmm::default().beta(2))?;
    /// assert_eq!(z.to_vec::<f32>()?, [37.0, 93.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
