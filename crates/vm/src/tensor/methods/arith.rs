//! Methods of the ops under "Arithmetic".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Number, Operand, call};

/// Options of [`Tensor::add_with`] and [`Tensor::add_with_`].
#[derive(Clone, Debug, Default)]
pub struct Add {
    attrs: Attrs,
}

impl Add {
    /// Sets `alpha`: factor of y, whole for integers; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Add {
        self.attrs.set("alpha", call::number(alpha));
        self
    }
}

/// Options of [`Tensor::div_with`] and [`Tensor::div_with_`].
#[derive(Clone, Debug, Default)]
pub struct Div {
    attrs: Attrs,
}

impl Div {
    /// Sets `rounding_mode`: "floor" or "trunc"; else no rounding.
    #[must_use]
    pub fn rounding_mode(mut self, rounding_mode: &str) -> Div {
        self.attrs.set("rounding_mode", rounding_mode);
        self
    }
}

/// Options of [`Tensor::sub_with`] and [`Tensor::sub_with_`].
#[derive(Clone, Debug, Default)]
pub struct Sub {
    attrs: Attrs,
}

impl Sub {
    /// Sets `alpha`: factor of y, whole for integers; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Sub {
        self.attrs.set("alpha", call::number(alpha));
        self
    }
}

impl Tensor {
    /// Returns x + alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::add`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// assert_eq!(x.add(&y)?.to_vec::<f32>()?, [11.0, 22.0, 33.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn add<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("add", &given, attrs)
    }

    /// Returns x + alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    /// - `options`: [`struct@Add`], which has defaults
    ///
    /// PyTorch: `aten::add`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// let z = x.add_with(&y, options::Add::default().alpha(2))?;
    /// assert_eq!(z.to_vec::<f32>()?, [21.0, 42.0, 63.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn add_with<'a>(&self, y: impl Into<Operand<'a>>, options: Add) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("add", &given, attrs)
    }

    /// Returns x - alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::sub`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.sub(&y)?.to_vec::<f32>()?, [9.0, 18.0, 27.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sub<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("sub", &given, attrs)
    }

    /// Returns x - alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    /// - `options`: [`struct@Sub`], which has defaults
    ///
    /// PyTorch: `aten::sub`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let z = x.sub_with(&y, options::Sub::default().alpha(2))?;
    /// assert_eq!(z.to_vec::<f32>()?, [8.0, 16.0, 24.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_with<'a>(&self, y: impl Into<Operand<'a>>, options: Sub) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("sub", &given, attrs)
    }

    /// Returns x * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::mul`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// assert_eq!(x.mul(&y)?.to_vec::<f32>()?, [10.0, 40.0, 90.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mul<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("mul", &given, attrs)
    }

    /// Returns x / y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::div`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, -7.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, 4.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.div(&y)?.to_vec::<f32>()?, [0.5, 0.75, -3.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn div<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("div", &given, attrs)
    }

    /// Returns x / y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    /// - `options`: [`struct@Div`], which has defaults
    ///
    /// PyTorch: `aten::div`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, -7.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, 4.0, 2.0], 3, &machine)?;
    /// let z = x.div_with(&y, options::Div::default().rounding_mode("floor"))?;
    /// assert_eq!(z.to_vec::<f32>()?, [0.0, 0.0, -4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn div_with<'a>(&self, y: impl Into<Operand<'a>>, options: Div) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("div", &given, attrs)
    }

    /// Returns x - y * floor(x / y): the remainder, with the sign of y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::remainder`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-7i64, 7], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4i64, 4], 2, &machine)?;
    /// assert_eq!(x.remainder(&y)?.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn remainder<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("remainder", &given, attrs)
    }

    /// Returns x - y * trunc(x / y): the remainder, with the sign of x.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::fmod`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-7i64, 7], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4i64, 4], 2, &machine)?;
    /// assert_eq!(x.fmod(&y)?.to_vec::<i64>()?, [-3, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fmod<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("fmod", &given, attrs)
    }

    /// Returns x to the power of the exponent.
    ///
    /// - `x`, this tensor: any shape
    /// - `exponent`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::pow`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.pow(2)?.to_vec::<f32>()?, [1.0, 4.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn pow<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(exponent.into(), "exponent", &mut given, &mut attrs);
        call::one("pow", &given, attrs)
    }

    /// Returns the angle of the point (y, x), with x the ordinate.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::atan2`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, -1.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(x.atan2(&y)?.to_string(), "tensor([ 0.7854, -0.4636])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn atan2(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("atan2", &given, Attrs::new())
    }

    /// Returns -x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::neg`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.neg()?.to_vec::<f32>()?, [-1.0, 2.0, -3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn neg(&self) -> Result<Tensor> {
        call::one("neg", &[self], Attrs::new())
    }

    /// Sets this tensor to x + alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::add_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// x.add_(&y)?;
    /// assert_eq!(x.to_vec::<f32>()?, [11.0, 22.0, 33.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn add_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("add_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x + alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    /// - `options`: [`struct@Add`], which has defaults
    ///
    /// PyTorch: `aten::add_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// x.add_with_(&y, options::Add::default().alpha(2))?;
    /// assert_eq!(x.to_vec::<f32>()?, [21.0, 42.0, 63.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn add_with_<'a>(&self, y: impl Into<Operand<'a>>, options: Add) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("add_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x - alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::sub_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// x.sub_(&y)?;
    /// assert_eq!(x.to_vec::<f32>()?, [9.0, 18.0, 27.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("sub_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x - alpha * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    /// - `options`: [`struct@Sub`], which has defaults
    ///
    /// PyTorch: `aten::sub_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// x.sub_with_(&y, options::Sub::default().alpha(2))?;
    /// assert_eq!(x.to_vec::<f32>()?, [8.0, 16.0, 24.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_with_<'a>(&self, y: impl Into<Operand<'a>>, options: Sub) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("sub_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x * y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::mul_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[10.0f32, 20.0, 30.0], 3, &machine)?;
    /// x.mul_(&y)?;
    /// assert_eq!(x.to_vec::<f32>()?, [10.0, 40.0, 90.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mul_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("mul_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x / y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::div_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, -7.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, 4.0, 2.0], 3, &machine)?;
    /// x.div_(&y)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.5, 0.75, -3.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn div_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("div_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x / y, broadcast.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    /// - `options`: [`struct@Div`], which has defaults
    ///
    /// PyTorch: `aten::div_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, -7.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, 4.0, 2.0], 3, &machine)?;
    /// x.div_with_(&y, options::Div::default().rounding_mode("floor"))?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.0, -4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn div_with_<'a>(&self, y: impl Into<Operand<'a>>, options: Div) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("div_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x - y * floor(x / y): the remainder, with the sign of y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::remainder_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-7i64, 7], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4i64, 4], 2, &machine)?;
    /// x.remainder_(&y)?;
    /// assert_eq!(x.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn remainder_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("remainder_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x - y * trunc(x / y): the remainder, with the sign of x.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::fmod_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-7i64, 7], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4i64, 4], 2, &machine)?;
    /// x.fmod_(&y)?;
    /// assert_eq!(x.to_vec::<i64>()?, [-3, 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fmod_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("fmod_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x to the power of the exponent.
    ///
    /// - `x`, this tensor: any shape
    /// - `exponent`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::pow_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// x.pow_(2)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 4.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn pow_<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(exponent.into(), "exponent", &mut given, &mut attrs);
        call::changed("pow_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to the angle of the point (y, x), with x the ordinate.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::atan2_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, -1.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// x.atan2_(&y)?;
    /// assert_eq!(x.to_string(), "tensor([ 0.7854, -0.4636])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn atan2_(&self, y: &Tensor) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::changed("atan2_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to -x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::neg_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// x.neg_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, 2.0, -3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn neg_(&self) -> Result<&Tensor> {
        call::changed("neg_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Returns the greater of x and y; NaN if either is NaN.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::maximum`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 5.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// assert_eq!(x.maximum(&y)?.to_vec::<f32>()?, [3.0, 5.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn maximum(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("maximum", &given, Attrs::new())
    }

    /// Returns the lesser of x and y; NaN if either is NaN.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::minimum`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 5.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// assert_eq!(x.minimum(&y)?.to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn minimum(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("minimum", &given, Attrs::new())
    }

    /// Returns the greatest common divisor of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::gcd`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[12i64, 7], 2, &machine)?;
    /// let y = Tensor::from_slice(&[18i64, 21], 2, &machine)?;
    /// assert_eq!(x.gcd(&y)?.to_vec::<i64>()?, [6, 7]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn gcd(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("gcd", &given, Attrs::new())
    }

    /// Returns the least common multiple of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::lcm`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[12i64, 7], 2, &machine)?;
    /// let y = Tensor::from_slice(&[18i64, 21], 2, &machine)?;
    /// assert_eq!(x.lcm(&y)?.to_vec::<i64>()?, [36, 21]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn lcm(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("lcm", &given, Attrs::new())
    }

    /// Returns the number of the dtype next to x towards y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::nextafter`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 1.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, 0.0], 2, &machine)?;
    /// assert_eq!(x.nextafter(&y)?.to_vec::<f32>()?, [1.0000001, 0.99999994]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nextafter(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("nextafter", &given, Attrs::new())
    }

    /// Returns the magnitude of x with the sign of y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::copysign`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[-1.0f32, 1.0, -1.0], 3, &machine)?;
    /// assert_eq!(x.copysign(&y)?.to_vec::<f32>()?, [-1.0, 2.0, -3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn copysign<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("copysign", &given, attrs)
    }

    /// Returns the root of x² + y², without an overflow of the squares.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::hypot`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 5.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[4.0f32, 12.0], 2, &machine)?;
    /// assert_eq!(x.hypot(&y)?.to_vec::<f32>()?, [5.0, 13.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn hypot(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("hypot", &given, Attrs::new())
    }

    /// Returns x * 2^y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::ldexp`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, -1.0], 2, &machine)?;
    /// assert_eq!(x.ldexp(&y)?.to_vec::<f32>()?, [4.0, 1.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn ldexp(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("ldexp", &given, Attrs::new())
    }

    /// Returns x * log(y); 0 where x is 0 and y is a number.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::xlogy`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// assert_eq!(x.xlogy(&y)?.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn xlogy(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("xlogy", &given, Attrs::new())
    }

    /// Returns x * log(1 + y); 0 where x is 0.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_xlog1py`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[-1.0f32, 0.0], 2, &machine)?;
    /// assert_eq!(x.special_xlog1py(&y)?.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn special_xlog1py(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("special_xlog1py", &given, Attrs::new())
    }

    /// Returns log(exp(x) + exp(y)), without an overflow.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::logaddexp`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[0.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(x.logaddexp(&y)?.to_string(), "tensor([0.6931, 2.3133])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("logaddexp", &given, Attrs::new())
    }

    /// Returns log2(2^x + 2^y), without an overflow.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::logaddexp2`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0], 2, &machine)?;
    /// let y = Tensor::from_slice(&[1.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.logaddexp2(&y)?.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp2(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("logaddexp2", &given, Attrs::new())
    }

    /// Returns 0 where x is negative, 1 where it is positive, else the value.
    ///
    /// - `x`, this tensor: any shape
    /// - `values`: the values where x is 0; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::heaviside`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let values = Tensor::from_slice(&[0.5f32, 0.5, 0.5], 3, &machine)?;
    /// assert_eq!(x.heaviside(&values)?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn heaviside(&self, values: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(values);
        call::one("heaviside", &given, Attrs::new())
    }

    /// Returns the greater of x and y; the other one where one is NaN.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::fmax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, f32::NAN, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, 2.0, f32::NAN], 3, &machine)?;
    /// assert_eq!(x.fmax(&y)?.to_vec::<f32>()?, [2.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fmax(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("fmax", &given, Attrs::new())
    }

    /// Returns the lesser of x and y; the other one where one is NaN.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::fmin`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, f32::NAN, 3.0], 3, &machine)?;
    /// let y = Tensor::from_slice(&[2.0f32, 2.0, f32::NAN], 3, &machine)?;
    /// assert_eq!(x.fmin(&y)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fmin(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("fmin", &given, Attrs::new())
    }
}
