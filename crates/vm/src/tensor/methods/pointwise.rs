//! Methods of the ops under "Pointwise functions".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Real, call};

/// Options of [`Tensor::elu_with`] and [`Tensor::elu_with_`].
#[derive(Clone, Debug, Default)]
pub struct Elu {
    attrs: Attrs,
}

impl Elu {
    /// Sets `alpha`: the result tends to -alpha * scale for negative x; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Real) -> Elu {
        self.attrs.set("alpha", alpha.to_real());
        self
    }

    /// Sets `input_scale`: factor of x where it is negative; default 1.
    #[must_use]
    pub fn input_scale(mut self, input_scale: impl Real) -> Elu {
        self.attrs.set("input_scale", input_scale.to_real());
        self
    }

    /// Sets `scale`: factor of the result; default 1.
    #[must_use]
    pub fn scale(mut self, scale: impl Real) -> Elu {
        self.attrs.set("scale", scale.to_real());
        self
    }
}

/// Options of [`Tensor::gelu_with`] and [`Tensor::gelu_with_`].
#[derive(Clone, Debug, Default)]
pub struct Gelu {
    attrs: Attrs,
}

impl Gelu {
    /// Sets `approximate`: "none" or "tanh"; default "none".
    #[must_use]
    pub fn approximate(mut self, approximate: &str) -> Gelu {
        self.attrs.set("approximate", approximate);
        self
    }
}

/// Options of [`Tensor::hardshrink_with`].
#[derive(Clone, Debug, Default)]
pub struct Hardshrink {
    attrs: Attrs,
}

impl Hardshrink {
    /// Sets `lambd`: the distance from 0; default 0.5.
    #[must_use]
    pub fn lambd(mut self, lambd: impl Real) -> Hardshrink {
        self.attrs.set("lambd", lambd.to_real());
        self
    }
}

/// Options of [`Tensor::hardtanh_with`] and [`Tensor::hardtanh_with_`].
#[derive(Clone, Debug, Default)]
pub struct Hardtanh {
    attrs: Attrs,
}

impl Hardtanh {
    /// Sets `max_val`: the upper bound; default 1.
    #[must_use]
    pub fn max_val(mut self, max_val: impl Real) -> Hardtanh {
        self.attrs.set("max_val", max_val.to_real());
        self
    }

    /// Sets `min_val`: the lower bound; default -1.
    #[must_use]
    pub fn min_val(mut self, min_val: impl Real) -> Hardtanh {
        self.attrs.set("min_val", min_val.to_real());
        self
    }
}

/// Options of [`Tensor::leaky_relu_with`] and [`Tensor::leaky_relu_with_`].
#[derive(Clone, Debug, Default)]
pub struct LeakyRelu {
    attrs: Attrs,
}

impl LeakyRelu {
    /// Sets `negative_slope`: the slope for negative x; default 0.01.
    #[must_use]
    pub fn negative_slope(mut self, negative_slope: impl Real) -> LeakyRelu {
        self.attrs.set("negative_slope", negative_slope.to_real());
        self
    }
}

/// Options of [`Tensor::logit_with`] and [`Tensor::logit_with_`].
#[derive(Clone, Debug, Default)]
pub struct Logit {
    attrs: Attrs,
}

impl Logit {
    /// Sets `eps`: x is clamped to eps and 1 - eps, if that is not negative; default -1.
    #[must_use]
    pub fn eps(mut self, eps: impl Real) -> Logit {
        self.attrs.set("eps", eps.to_real());
        self
    }
}

/// Options of [`Tensor::nan_to_num_with`] and [`Tensor::nan_to_num_with_`].
#[derive(Clone, Debug, Default)]
pub struct NanToNum {
    attrs: Attrs,
}

impl NanToNum {
    /// Sets `nan`: replaces NaN; default 0.
    #[must_use]
    pub fn nan(mut self, nan: impl Real) -> NanToNum {
        self.attrs.set("nan", nan.to_real());
        self
    }

    /// Sets `neginf`: replaces minus infinity; default the dtype's least number.
    #[must_use]
    pub fn neginf(mut self, neginf: impl Real) -> NanToNum {
        self.attrs.set("neginf", neginf.to_real());
        self
    }

    /// Sets `posinf`: replaces infinity; default the dtype's greatest number.
    #[must_use]
    pub fn posinf(mut self, posinf: impl Real) -> NanToNum {
        self.attrs.set("posinf", posinf.to_real());
        self
    }
}

/// Options of [`Tensor::softplus_with`].
#[derive(Clone, Debug, Default)]
pub struct Softplus {
    attrs: Attrs,
}

impl Softplus {
    /// Sets `beta`: the sharpness; default 1.
    #[must_use]
    pub fn beta(mut self, beta: impl Real) -> Softplus {
        self.attrs.set("beta", beta.to_real());
        self
    }

    /// Sets `threshold`: where beta * x is greater, the result is x; default 20.
    #[must_use]
    pub fn threshold(mut self, threshold: impl Real) -> Softplus {
        self.attrs.set("threshold", threshold.to_real());
        self
    }
}

/// Options of [`Tensor::softshrink_with`].
#[derive(Clone, Debug, Default)]
pub struct Softshrink {
    attrs: Attrs,
}

impl Softshrink {
    /// Sets `lambd`: the distance from 0; default 0.5.
    #[must_use]
    pub fn lambd(mut self, lambd: impl Real) -> Softshrink {
        self.attrs.set("lambd", lambd.to_real());
        self
    }
}

impl Tensor {
    /// Returns the absolute value of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::abs`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn abs(&self) -> Result<Tensor> {
        call::one("abs", &[self], Attrs::new())
    }

    /// Returns -1, 0 or 1 for negative, zero and positive x; x / abs(x) of a complex number.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sign`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sign(&self) -> Result<Tensor> {
        call::one("sign", &[self], Attrs::new())
    }

    /// Returns x rounded to the nearest whole number, ties to even.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::round`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn round(&self) -> Result<Tensor> {
        call::one("round", &[self], Attrs::new())
    }

    /// Returns x rounded towards zero.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::trunc`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn trunc(&self) -> Result<Tensor> {
        call::one("trunc", &[self], Attrs::new())
    }

    /// Returns the greatest whole number less than or equal to x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::floor`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn floor(&self) -> Result<Tensor> {
        call::one("floor", &[self], Attrs::new())
    }

    /// Returns the least whole number greater than or equal to x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::ceil`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn ceil(&self) -> Result<Tensor> {
        call::one("ceil", &[self], Attrs::new())
    }

    /// Returns the greater of x and 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::relu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn relu(&self) -> Result<Tensor> {
        call::one("relu", &[self], Attrs::new())
    }

    /// Returns e to the power of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::exp`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn exp(&self) -> Result<Tensor> {
        call::one("exp", &[self], Attrs::new())
    }

    /// Returns e to the power of x, minus 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::expm1`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn expm1(&self) -> Result<Tensor> {
        call::one("expm1", &[self], Attrs::new())
    }

    /// Returns the natural logarithm of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log(&self) -> Result<Tensor> {
        call::one("log", &[self], Attrs::new())
    }

    /// Returns the logarithm of x to base 2.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log2`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log2(&self) -> Result<Tensor> {
        call::one("log2", &[self], Attrs::new())
    }

    /// Returns the natural logarithm of 1 + x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log1p`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log1p(&self) -> Result<Tensor> {
        call::one("log1p", &[self], Attrs::new())
    }

    /// Returns the square root of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sqrt`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sqrt(&self) -> Result<Tensor> {
        call::one("sqrt", &[self], Attrs::new())
    }

    /// Returns 1 / the square root of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::rsqrt`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn rsqrt(&self) -> Result<Tensor> {
        call::one("rsqrt", &[self], Attrs::new())
    }

    /// Returns 1 / x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::reciprocal`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn reciprocal(&self) -> Result<Tensor> {
        call::one("reciprocal", &[self], Attrs::new())
    }

    /// Returns the sine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sin`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sin(&self) -> Result<Tensor> {
        call::one("sin", &[self], Attrs::new())
    }

    /// Returns the cosine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::cos`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn cos(&self) -> Result<Tensor> {
        call::one("cos", &[self], Attrs::new())
    }

    /// Returns the hyperbolic tangent of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::tanh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn tanh(&self) -> Result<Tensor> {
        call::one("tanh", &[self], Attrs::new())
    }

    /// Returns 1 / (1 + e^-x).
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sigmoid`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sigmoid(&self) -> Result<Tensor> {
        call::one("sigmoid", &[self], Attrs::new())
    }

    /// Returns the error function of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::erf`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn erf(&self) -> Result<Tensor> {
        call::one("erf", &[self], Attrs::new())
    }

    /// Returns 1 minus the error function of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::erfc`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn erfc(&self) -> Result<Tensor> {
        call::one("erfc", &[self], Attrs::new())
    }

    /// Returns the logarithm of the absolute value of the gamma function.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::lgamma`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn lgamma(&self) -> Result<Tensor> {
        call::one("lgamma", &[self], Attrs::new())
    }

    /// Returns the derivative of the logarithm of the gamma function.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::digamma`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn digamma(&self) -> Result<Tensor> {
        call::one("digamma", &[self], Attrs::new())
    }

    /// Returns the number whose error function is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::erfinv`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn erfinv(&self) -> Result<Tensor> {
        call::one("erfinv", &[self], Attrs::new())
    }

    /// Returns 2 to the power of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::exp2`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn exp2(&self) -> Result<Tensor> {
        call::one("exp2", &[self], Attrs::new())
    }

    /// Returns the logarithm of x to base 10.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log10`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log10(&self) -> Result<Tensor> {
        call::one("log10", &[self], Attrs::new())
    }

    /// Returns the tangent of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::tan`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn tan(&self) -> Result<Tensor> {
        call::one("tan", &[self], Attrs::new())
    }

    /// Returns the angle whose sine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::asin`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn asin(&self) -> Result<Tensor> {
        call::one("asin", &[self], Attrs::new())
    }

    /// Returns the angle whose cosine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::acos`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn acos(&self) -> Result<Tensor> {
        call::one("acos", &[self], Attrs::new())
    }

    /// Returns the angle whose tangent is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::atan`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn atan(&self) -> Result<Tensor> {
        call::one("atan", &[self], Attrs::new())
    }

    /// Returns the hyperbolic sine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sinh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sinh(&self) -> Result<Tensor> {
        call::one("sinh", &[self], Attrs::new())
    }

    /// Returns the hyperbolic cosine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::cosh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn cosh(&self) -> Result<Tensor> {
        call::one("cosh", &[self], Attrs::new())
    }

    /// Returns the number whose hyperbolic sine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::asinh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn asinh(&self) -> Result<Tensor> {
        call::one("asinh", &[self], Attrs::new())
    }

    /// Returns the number whose hyperbolic cosine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::acosh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn acosh(&self) -> Result<Tensor> {
        call::one("acosh", &[self], Attrs::new())
    }

    /// Returns the number whose hyperbolic tangent is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::atanh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn atanh(&self) -> Result<Tensor> {
        call::one("atanh", &[self], Attrs::new())
    }

    /// Returns sin(pi * x) / (pi * x), and 1 where x is 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sinc`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sinc(&self) -> Result<Tensor> {
        call::one("sinc", &[self], Attrs::new())
    }

    /// Returns the angle in radians of one in degrees.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::deg2rad`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn deg2rad(&self) -> Result<Tensor> {
        call::one("deg2rad", &[self], Attrs::new())
    }

    /// Returns the angle in degrees of one in radians.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::rad2deg`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn rad2deg(&self) -> Result<Tensor> {
        call::one("rad2deg", &[self], Attrs::new())
    }

    /// Returns log(x / (1 - x)).
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::logit`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn logit(&self) -> Result<Tensor> {
        call::one("logit", &[self], Attrs::new())
    }

    /// Returns log(x / (1 - x)).
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Logit`], which has defaults
    ///
    /// PyTorch: `aten::logit`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn logit_with(&self, options: Logit) -> Result<Tensor> {
        call::one("logit", &[self], options.attrs)
    }

    /// Returns x without its whole part.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::frac`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn frac(&self) -> Result<Tensor> {
        call::one("frac", &[self], Attrs::new())
    }

    /// Returns x / 6 + 1 / 2, clamped to 0 and 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::hardsigmoid`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardsigmoid(&self) -> Result<Tensor> {
        call::one("hardsigmoid", &[self], Attrs::new())
    }

    /// Returns x times the hardsigmoid of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::hardswish`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardswish(&self) -> Result<Tensor> {
        call::one("hardswish", &[self], Attrs::new())
    }

    /// Returns x times the tanh of the softplus of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::mish`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn mish(&self) -> Result<Tensor> {
        call::one("mish", &[self], Attrs::new())
    }

    /// Returns x times the cumulative normal distribution at x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::gelu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn gelu(&self) -> Result<Tensor> {
        call::one("gelu", &[self], Attrs::new())
    }

    /// Returns x times the cumulative normal distribution at x.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Gelu`], which has defaults
    ///
    /// PyTorch: `aten::gelu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn gelu_with(&self, options: Gelu) -> Result<Tensor> {
        call::one("gelu", &[self], options.attrs)
    }

    /// Returns x times the sigmoid of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::silu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn silu(&self) -> Result<Tensor> {
        call::one("silu", &[self], Attrs::new())
    }

    /// Returns scale * x where x is positive, else scale * alpha * (e^(input_scale * x) - 1).
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::elu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn elu(&self) -> Result<Tensor> {
        call::one("elu", &[self], Attrs::new())
    }

    /// Returns scale * x where x is positive, else scale * alpha * (e^(input_scale * x) - 1).
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Elu`], which has defaults
    ///
    /// PyTorch: `aten::elu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn elu_with(&self, options: Elu) -> Result<Tensor> {
        call::one("elu", &[self], options.attrs)
    }

    /// Returns x where it is positive, else negative_slope * x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::leaky_relu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn leaky_relu(&self) -> Result<Tensor> {
        call::one("leaky_relu", &[self], Attrs::new())
    }

    /// Returns x where it is positive, else negative_slope * x.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@LeakyRelu`], which has defaults
    ///
    /// PyTorch: `aten::leaky_relu`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn leaky_relu_with(&self, options: LeakyRelu) -> Result<Tensor> {
        call::one("leaky_relu", &[self], options.attrs)
    }

    /// Returns x clamped to min_val and max_val.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::hardtanh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardtanh(&self) -> Result<Tensor> {
        call::one("hardtanh", &[self], Attrs::new())
    }

    /// Returns x clamped to min_val and max_val.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Hardtanh`], which has defaults
    ///
    /// PyTorch: `aten::hardtanh`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardtanh_with(&self, options: Hardtanh) -> Result<Tensor> {
        call::one("hardtanh", &[self], options.attrs)
    }

    /// Returns x with NaN and infinities replaced by finite numbers.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::nan_to_num`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nan_to_num(&self) -> Result<Tensor> {
        call::one("nan_to_num", &[self], Attrs::new())
    }

    /// Returns x with NaN and infinities replaced by finite numbers.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@NanToNum`], which has defaults
    ///
    /// PyTorch: `aten::nan_to_num`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nan_to_num_with(&self, options: NanToNum) -> Result<Tensor> {
        call::one("nan_to_num", &[self], options.attrs)
    }

    /// Sets this tensor to the absolute value of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::abs_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn abs_(&self) -> Result<&Tensor> {
        call::changed("abs_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to -1, 0 or 1 for negative, zero and positive x; x / abs(x) of a complex
    /// number.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sign_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sign_(&self) -> Result<&Tensor> {
        call::changed("sign_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x rounded to the nearest whole number, ties to even.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::round_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn round_(&self) -> Result<&Tensor> {
        call::changed("round_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x rounded towards zero.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::trunc_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn trunc_(&self) -> Result<&Tensor> {
        call::changed("trunc_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the greatest whole number less than or equal to x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::floor_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn floor_(&self) -> Result<&Tensor> {
        call::changed("floor_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the least whole number greater than or equal to x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::ceil_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn ceil_(&self) -> Result<&Tensor> {
        call::changed("ceil_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the greater of x and 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::relu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn relu_(&self) -> Result<&Tensor> {
        call::changed("relu_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to e to the power of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::exp_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn exp_(&self) -> Result<&Tensor> {
        call::changed("exp_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to e to the power of x, minus 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::expm1_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn expm1_(&self) -> Result<&Tensor> {
        call::changed("expm1_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the natural logarithm of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log_(&self) -> Result<&Tensor> {
        call::changed("log_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the logarithm of x to base 2.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log2_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log2_(&self) -> Result<&Tensor> {
        call::changed("log2_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the natural logarithm of 1 + x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log1p_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log1p_(&self) -> Result<&Tensor> {
        call::changed("log1p_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the square root of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sqrt_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sqrt_(&self) -> Result<&Tensor> {
        call::changed("sqrt_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to 1 / the square root of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::rsqrt_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn rsqrt_(&self) -> Result<&Tensor> {
        call::changed("rsqrt_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to 1 / x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::reciprocal_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn reciprocal_(&self) -> Result<&Tensor> {
        call::changed("reciprocal_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the sine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sin_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sin_(&self) -> Result<&Tensor> {
        call::changed("sin_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the cosine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::cos_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn cos_(&self) -> Result<&Tensor> {
        call::changed("cos_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the hyperbolic tangent of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::tanh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn tanh_(&self) -> Result<&Tensor> {
        call::changed("tanh_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to 1 / (1 + e^-x).
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sigmoid_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sigmoid_(&self) -> Result<&Tensor> {
        call::changed("sigmoid_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the error function of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::erf_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn erf_(&self) -> Result<&Tensor> {
        call::changed("erf_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to 1 minus the error function of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::erfc_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn erfc_(&self) -> Result<&Tensor> {
        call::changed("erfc_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the logarithm of the absolute value of the gamma function.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::lgamma_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn lgamma_(&self) -> Result<&Tensor> {
        call::changed("lgamma_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the derivative of the logarithm of the gamma function.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::digamma_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn digamma_(&self) -> Result<&Tensor> {
        call::changed("digamma_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the number whose error function is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::erfinv_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn erfinv_(&self) -> Result<&Tensor> {
        call::changed("erfinv_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to 2 to the power of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::exp2_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn exp2_(&self) -> Result<&Tensor> {
        call::changed("exp2_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the logarithm of x to base 10.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log10_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log10_(&self) -> Result<&Tensor> {
        call::changed("log10_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the tangent of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::tan_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn tan_(&self) -> Result<&Tensor> {
        call::changed("tan_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the angle whose sine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::asin_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn asin_(&self) -> Result<&Tensor> {
        call::changed("asin_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the angle whose cosine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::acos_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn acos_(&self) -> Result<&Tensor> {
        call::changed("acos_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the angle whose tangent is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::atan_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn atan_(&self) -> Result<&Tensor> {
        call::changed("atan_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the hyperbolic sine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sinh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sinh_(&self) -> Result<&Tensor> {
        call::changed("sinh_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the hyperbolic cosine of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::cosh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn cosh_(&self) -> Result<&Tensor> {
        call::changed("cosh_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the number whose hyperbolic sine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::asinh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn asinh_(&self) -> Result<&Tensor> {
        call::changed("asinh_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the number whose hyperbolic cosine is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::acosh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn acosh_(&self) -> Result<&Tensor> {
        call::changed("acosh_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the number whose hyperbolic tangent is x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::atanh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn atanh_(&self) -> Result<&Tensor> {
        call::changed("atanh_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to sin(pi * x) / (pi * x), and 1 where x is 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::sinc_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn sinc_(&self) -> Result<&Tensor> {
        call::changed("sinc_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the angle in radians of one in degrees.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::deg2rad_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn deg2rad_(&self) -> Result<&Tensor> {
        call::changed("deg2rad_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the angle in degrees of one in radians.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::rad2deg_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn rad2deg_(&self) -> Result<&Tensor> {
        call::changed("rad2deg_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to log(x / (1 - x)).
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::logit_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn logit_(&self) -> Result<&Tensor> {
        call::changed("logit_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to log(x / (1 - x)).
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Logit`], which has defaults
    ///
    /// PyTorch: `aten::logit_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn logit_with_(&self, options: Logit) -> Result<&Tensor> {
        call::changed("logit_", &[self], options.attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x without its whole part.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::frac_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn frac_(&self) -> Result<&Tensor> {
        call::changed("frac_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x / 6 + 1 / 2, clamped to 0 and 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::hardsigmoid_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardsigmoid_(&self) -> Result<&Tensor> {
        call::changed("hardsigmoid_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x times the hardsigmoid of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::hardswish_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardswish_(&self) -> Result<&Tensor> {
        call::changed("hardswish_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x times the tanh of the softplus of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::mish_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn mish_(&self) -> Result<&Tensor> {
        call::changed("mish_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x times the cumulative normal distribution at x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::gelu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn gelu_(&self) -> Result<&Tensor> {
        call::changed("gelu_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x times the cumulative normal distribution at x.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Gelu`], which has defaults
    ///
    /// PyTorch: `aten::gelu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn gelu_with_(&self, options: Gelu) -> Result<&Tensor> {
        call::changed("gelu_", &[self], options.attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x times the sigmoid of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::silu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn silu_(&self) -> Result<&Tensor> {
        call::changed("silu_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to scale * x where x is positive, else scale * alpha * (e^(input_scale * x)
    /// - 1).
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::elu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn elu_(&self) -> Result<&Tensor> {
        call::changed("elu_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to scale * x where x is positive, else scale * alpha * (e^(input_scale * x)
    /// - 1).
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Elu`], which has defaults
    ///
    /// PyTorch: `aten::elu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn elu_with_(&self, options: Elu) -> Result<&Tensor> {
        call::changed("elu_", &[self], options.attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x where it is positive, else negative_slope * x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::leaky_relu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn leaky_relu_(&self) -> Result<&Tensor> {
        call::changed("leaky_relu_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x where it is positive, else negative_slope * x.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@LeakyRelu`], which has defaults
    ///
    /// PyTorch: `aten::leaky_relu_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn leaky_relu_with_(&self, options: LeakyRelu) -> Result<&Tensor> {
        call::changed("leaky_relu_", &[self], options.attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x clamped to min_val and max_val.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::hardtanh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardtanh_(&self) -> Result<&Tensor> {
        call::changed("hardtanh_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x clamped to min_val and max_val.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Hardtanh`], which has defaults
    ///
    /// PyTorch: `aten::hardtanh_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardtanh_with_(&self, options: Hardtanh) -> Result<&Tensor> {
        call::changed("hardtanh_", &[self], options.attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x with NaN and infinities replaced by finite numbers.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::nan_to_num_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nan_to_num_(&self) -> Result<&Tensor> {
        call::changed("nan_to_num_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x with NaN and infinities replaced by finite numbers.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@NanToNum`], which has defaults
    ///
    /// PyTorch: `aten::nan_to_num_`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nan_to_num_with_(&self, options: NanToNum) -> Result<&Tensor> {
        call::changed("nan_to_num_", &[self], options.attrs)?;
        Ok(self)
    }

    /// Returns log(1 + e^(beta * x)) / beta.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::softplus`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn softplus(&self) -> Result<Tensor> {
        call::one("softplus", &[self], Attrs::new())
    }

    /// Returns log(1 + e^(beta * x)) / beta.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Softplus`], which has defaults
    ///
    /// PyTorch: `aten::softplus`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn softplus_with(&self, options: Softplus) -> Result<Tensor> {
        call::one("softplus", &[self], options.attrs)
    }

    /// Returns whether x is NaN.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::isnan`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn isnan(&self) -> Result<Tensor> {
        call::one("isnan", &[self], Attrs::new())
    }

    /// Returns whether x is infinite.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::isinf`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn isinf(&self) -> Result<Tensor> {
        call::one("isinf", &[self], Attrs::new())
    }

    /// Returns whether x is infinity.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::isposinf`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn isposinf(&self) -> Result<Tensor> {
        call::one("isposinf", &[self], Attrs::new())
    }

    /// Returns whether x is minus infinity.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::isneginf`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn isneginf(&self) -> Result<Tensor> {
        call::one("isneginf", &[self], Attrs::new())
    }

    /// Returns whether the sign of x is negative.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::signbit`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn signbit(&self) -> Result<Tensor> {
        call::one("signbit", &[self], Attrs::new())
    }

    /// Returns the logarithm of the sigmoid of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::log_sigmoid`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn log_sigmoid(&self) -> Result<Tensor> {
        call::one("log_sigmoid", &[self], Attrs::new())
    }

    /// Returns x moved towards 0 by lambd, or 0 where it is nearer.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::softshrink`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn softshrink(&self) -> Result<Tensor> {
        call::one("softshrink", &[self], Attrs::new())
    }

    /// Returns x moved towards 0 by lambd, or 0 where it is nearer.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Softshrink`], which has defaults
    ///
    /// PyTorch: `aten::softshrink`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn softshrink_with(&self, options: Softshrink) -> Result<Tensor> {
        call::one("softshrink", &[self], options.attrs)
    }

    /// Returns x, and 0 where it is no further from 0 than lambd.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::hardshrink`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardshrink(&self) -> Result<Tensor> {
        call::one("hardshrink", &[self], Attrs::new())
    }

    /// Returns x, and 0 where it is no further from 0 than lambd.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Hardshrink`], which has defaults
    ///
    /// PyTorch: `aten::hardshrink`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn hardshrink_with(&self, options: Hardshrink) -> Result<Tensor> {
        call::one("hardshrink", &[self], options.attrs)
    }
}
