//! Methods of the ops under "Distances".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_ops::args::Scalar;
use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::call;

/// Options of [`Tensor::cdist_with`].
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
#[derive(Clone, Debug, Default)]
pub struct Cdist {
    attrs: Attrs,
}

impl Cdist {
    /// Sets `p`: the order of the norm; default 2.
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
    #[must_use]
    pub fn p(mut self, p: impl Into<Scalar>) -> Cdist {
        self.attrs.set("p", call::number(p));
        self
    }
}

/// Options of [`Tensor::dist_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
/// let y = Tensor::from_slice(&[4.0f32, 6.0], 2, &machine)?;
/// assert_eq!(x.dist_with(&y, options::Dist::default().p(1))?.item::<f32>()?, 7.0);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Dist {
    attrs: Attrs,
}

impl Dist {
    /// Sets `p`: the order of the norm; default 2.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4.0f32, 6.0], 2, &machine)?;
    /// assert_eq!(x.dist_with(&y, options::Dist::default().p(1))?.item::<f32>()?, 7.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn p(mut self, p: impl Into<Scalar>) -> Dist {
        self.attrs.set("p", call::number(p));
        self
    }
}

/// Options of [`Tensor::pdist_with`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[0.0f32, 0.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.pdist_with(options::Pdist::default().p(1))?.to_vec::<f32>()?, [7.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pdist {
    attrs: Attrs,
}

impl Pdist {
    /// Sets `p`: the order of the norm; default 2.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.pdist_with(options::Pdist::default().p(1))?.to_vec::<f32>()?, [7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn p(mut self, p: impl Into<Scalar>) -> Pdist {
        self.attrs.set("p", call::number(p));
        self
    }
}

impl Tensor {
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
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn pdist_with(&self, options: Pdist) -> Result<Tensor> {
        call::one("_pdist_forward", &[self], options.attrs)
    }
}
