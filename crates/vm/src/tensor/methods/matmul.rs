//! Methods of the ops under "Matrix products".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Number, call};

/// Options of [`Tensor::addbmm_with`].
#[derive(Clone, Debug, Default)]
pub struct Addbmm {
    attrs: Attrs,
}

impl Addbmm {
    /// Sets `alpha`: the factor of the product; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 1.0], (2, 2), &machine)?;
    /// let batch1 = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (1, 2, 2), &machine)?;
    /// let batch2 = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (1, 2, 2), &machine)?;
    /// let y = x.addbmm_with(&batch1, &batch2, options::Addbmm::default().alpha(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [15.0, 43.0, 29.0, 85.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Addbmm {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: the factor of x; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Number>) -> Addbmm {
        self.attrs.set("beta", call::number(beta));
        self
    }
}

/// Options of [`Tensor::addmm_with`].
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
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Addmm {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: factor of the bias, whole for integers; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Number>) -> Addmm {
        self.attrs.set("beta", call::number(beta));
        self
    }
}

/// Options of [`Tensor::addmv_with`].
#[derive(Clone, Debug, Default)]
pub struct Addmv {
    attrs: Attrs,
}

impl Addmv {
    /// Sets `alpha`: the factor of the product; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0], 2, &machine)?;
    /// let mat = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let vec = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.addmv_with(&mat, &vec, options::Addmv::default().alpha(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [15.0, 29.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Addmv {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: the factor of x; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Number>) -> Addmv {
        self.attrs.set("beta", call::number(beta));
        self
    }
}

/// Options of [`Tensor::addr_with`].
#[derive(Clone, Debug, Default)]
pub struct Addr {
    attrs: Attrs,
}

impl Addr {
    /// Sets `alpha`: the factor of the product; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 1.0], (2, 2), &machine)?;
    /// let vec1 = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let vec2 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let y = x.addr_with(&vec1, &vec2, options::Addr::default().alpha(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [7.0, 9.0, 13.0, 17.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Addr {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: the factor of x; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Number>) -> Addr {
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
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Baddbmm {
        self.attrs.set("alpha", call::number(alpha));
        self
    }

    /// Sets `beta`: factor of the bias, whole for integers; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Into<Number>) -> Baddbmm {
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
    #[track_caller]
    pub fn baddbmm_with(&self, x: &Tensor, y: &Tensor, options: Baddbmm) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        given.push(y);
        call::one("baddbmm", &given, options.attrs)
    }

    /// Returns beta * x plus alpha times the outer product of two vectors.
    ///
    /// - `x`, this tensor: a shape that broadcasts to \[n,m\]
    /// - `vec1`: \[n\]
    /// - `vec2`: \[m\]
    ///
    /// PyTorch: `aten::addr`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 1.0], (2, 2), &machine)?;
    /// let vec1 = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let vec2 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// assert_eq!(x.addr(&vec1, &vec2)?.to_vec::<f32>()?, [4.0, 5.0, 7.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addr(&self, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(vec1);
        given.push(vec2);
        call::one("addr", &given, Attrs::new())
    }

    /// Returns beta * x plus alpha times the outer product of two vectors.
    ///
    /// - `x`, this tensor: a shape that broadcasts to \[n,m\]
    /// - `vec1`: \[n\]
    /// - `vec2`: \[m\]
    /// - `options`: [`struct@Addr`], which has defaults
    ///
    /// PyTorch: `aten::addr`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 1.0], (2, 2), &machine)?;
    /// let vec1 = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let vec2 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let y = x.addr_with(&vec1, &vec2, options::Addr::default().beta(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [5.0, 6.0, 8.0, 10.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addr_with(&self, vec1: &Tensor, vec2: &Tensor, options: Addr) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(vec1);
        given.push(vec2);
        call::one("addr", &given, options.attrs)
    }

    /// Returns beta * x plus alpha times the product of a matrix and a vector.
    ///
    /// - `x`, this tensor: a shape that broadcasts to \[n\]
    /// - `mat`: \[n,k\]
    /// - `vec`: \[k\]
    ///
    /// PyTorch: `aten::addmv`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0], 2, &machine)?;
    /// let mat = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let vec = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(x.addmv(&mat, &vec)?.to_vec::<f32>()?, [8.0, 15.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addmv(&self, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(mat);
        given.push(vec);
        call::one("addmv", &given, Attrs::new())
    }

    /// Returns beta * x plus alpha times the product of a matrix and a vector.
    ///
    /// - `x`, this tensor: a shape that broadcasts to \[n\]
    /// - `mat`: \[n,k\]
    /// - `vec`: \[k\]
    /// - `options`: [`struct@Addmv`], which has defaults
    ///
    /// PyTorch: `aten::addmv`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0], 2, &machine)?;
    /// let mat = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (2, 2), &machine)?;
    /// let vec = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.addmv_with(&mat, &vec, options::Addmv::default().beta(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [9.0, 16.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addmv_with(&self, mat: &Tensor, vec: &Tensor, options: Addmv) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(mat);
        given.push(vec);
        call::one("addmv", &given, options.attrs)
    }

    /// Returns beta * x plus alpha times the sum of the products of a batch.
    ///
    /// - `x`, this tensor: a shape that broadcasts to \[n,m\]
    /// - `batch1`: \[b,n,k\]
    /// - `batch2`: \[b,k,m\]
    ///
    /// PyTorch: `aten::addbmm`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 1.0], (2, 2), &machine)?;
    /// let batch1 = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (1, 2, 2), &machine)?;
    /// let batch2 = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (1, 2, 2), &machine)?;
    /// assert_eq!(x.addbmm(&batch1, &batch2)?.to_vec::<f32>()?, [8.0, 22.0, 15.0, 43.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(batch1);
        given.push(batch2);
        call::one("addbmm", &given, Attrs::new())
    }

    /// Returns beta * x plus alpha times the sum of the products of a batch.
    ///
    /// - `x`, this tensor: a shape that broadcasts to \[n,m\]
    /// - `batch1`: \[b,n,k\]
    /// - `batch2`: \[b,k,m\]
    /// - `options`: [`struct@Addbmm`], which has defaults
    ///
    /// PyTorch: `aten::addbmm`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0, 1.0, 1.0], (2, 2), &machine)?;
    /// let batch1 = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (1, 2, 2), &machine)?;
    /// let batch2 = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 6.0], (1, 2, 2), &machine)?;
    /// let y = x.addbmm_with(&batch1, &batch2, options::Addbmm::default().beta(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [9.0, 23.0, 16.0, 44.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addbmm_with(&self, batch1: &Tensor, batch2: &Tensor, options: Addbmm) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(batch1);
        given.push(batch2);
        call::one("addbmm", &given, options.attrs)
    }
}
