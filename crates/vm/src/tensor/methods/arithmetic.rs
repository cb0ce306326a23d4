//! Methods of the ops under "Arithmetic".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_ops::args::Scalar;
use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Operand, call};

/// Options of [`Tensor::add_with`] and [`Tensor::add_with_`].
#[derive(Clone, Debug, Default)]
pub struct Add {
    attrs: Attrs,
}

impl Add {
    /// Sets `alpha`: factor of y, whole for integers; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> Add {
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
    pub fn alpha(mut self, alpha: impl Into<Scalar>) -> Sub {
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nextafter(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("nextafter", &given, Attrs::new())
    }
}
