//! Methods of the ops under "Pointwise functions".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Number, Real, call};

/// Options of [`Tensor::celu_with`].
#[derive(Clone, Debug, Default)]
pub struct Celu {
    attrs: Attrs,
}

impl Celu {
    /// Sets `alpha`: the limit of negative results, negated; default 1.
    #[must_use]
    pub fn alpha(mut self, alpha: impl Into<Number>) -> Celu {
        self.attrs.set("alpha", call::number(alpha));
        self
    }
}

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
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.elu_with(options::Elu::default().input_scale(0.5))?;
    /// assert_eq!(y.to_string(), "tensor([-0.3935,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn input_scale(mut self, input_scale: impl Real) -> Elu {
        self.attrs.set("input_scale", input_scale.to_real());
        self
    }

    /// Sets `scale`: factor of the result; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.elu_with(options::Elu::default().scale(2.0))?;
    /// assert_eq!(y.to_string(), "tensor([-1.2642,  0.0000,  4.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.5, 3.0], 3, &machine)?;
    /// let y = x.hardtanh_with(options::Hardtanh::default().max_val(2.0))?;
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 0.5, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[f32::NEG_INFINITY, 1.0, -2.0], 3, &machine)?;
    /// let y = x.nan_to_num_with(options::NanToNum::default().neginf(-9.0))?;
    /// assert_eq!(y.to_vec::<f32>()?, [-9.0, 1.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn neginf(mut self, neginf: impl Real) -> NanToNum {
        self.attrs.set("neginf", neginf.to_real());
        self
    }

    /// Sets `posinf`: replaces infinity; default the dtype's greatest number.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[f32::INFINITY, 1.0, -2.0], 3, &machine)?;
    /// let y = x.nan_to_num_with(options::NanToNum::default().posinf(9.0))?;
    /// assert_eq!(y.to_vec::<f32>()?, [9.0, 1.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.softplus_with(options::Softplus::default().threshold(1.0))?;
    /// assert_eq!(y.to_string(), "tensor([0.3133, 0.6931, 2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.5f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.abs()?.to_vec::<f32>()?, [1.5, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.5f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.sign()?.to_vec::<f32>()?, [-1.0, 0.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.5, -2.75], 3, &machine)?;
    /// assert_eq!(x.round()?.to_vec::<f32>()?, [0.0, 2.0, -3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.75f32, 1.75], 2, &machine)?;
    /// assert_eq!(x.trunc()?.to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.75f32, 1.75], 2, &machine)?;
    /// assert_eq!(x.floor()?.to_vec::<f32>()?, [-2.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.75f32, 1.75], 2, &machine)?;
    /// assert_eq!(x.ceil()?.to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.relu()?.to_vec::<f32>()?, [0.0, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.exp()?.to_string(), "tensor([1.0000, 2.7183, 7.3891])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// assert_eq!(x.expm1()?.to_string(), "tensor([0.0000, 0.6487, 1.7183])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 10.0], 3, &machine)?;
    /// assert_eq!(x.log()?.to_string(), "tensor([0.0000, 0.6931, 2.3026])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 10.0], 3, &machine)?;
    /// assert_eq!(x.log2()?.to_string(), "tensor([-1.0000,  0.0000,  3.3219])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0, 9.0], 3, &machine)?;
    /// assert_eq!(x.log1p()?.to_string(), "tensor([0.0000, 0.6931, 2.3026])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 9.0], 3, &machine)?;
    /// assert_eq!(x.sqrt()?.to_string(), "tensor([1.0000, 1.4142, 3.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.25f32, 2.0, 16.0], 3, &machine)?;
    /// assert_eq!(x.rsqrt()?.to_string(), "tensor([2.0000, 0.7071, 0.2500])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, -4.0], 3, &machine)?;
    /// assert_eq!(x.reciprocal()?.to_vec::<f32>()?, [1.0, 0.5, -0.25]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// assert_eq!(x.sin()?.to_string(), "tensor([0.0000, 0.4794, 0.8415])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// assert_eq!(x.cos()?.to_string(), "tensor([1.0000, 0.8776, 0.5403])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.tanh()?.to_string(), "tensor([-0.7616,  0.0000,  0.9640])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.sigmoid()?.to_string(), "tensor([0.2689, 0.5000, 0.8808])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 0.5], 3, &machine)?;
    /// assert_eq!(x.erf()?.to_string(), "tensor([-0.8427,  0.0000,  0.5205])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 0.5], 3, &machine)?;
    /// assert_eq!(x.erfc()?.to_string(), "tensor([1.8427, 1.0000, 0.4795])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 3.0, 4.5], 3, &machine)?;
    /// assert_eq!(x.lgamma()?.to_string(), "tensor([0.5724, 0.6931, 2.4537])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.digamma()?.to_string(), "tensor([-1.9635, -0.5772,  0.4228])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 0.25], 3, &machine)?;
    /// assert_eq!(x.erfinv()?.to_string(), "tensor([-0.4769,  0.0000,  0.2253])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 0.5], 3, &machine)?;
    /// assert_eq!(x.exp2()?.to_string(), "tensor([0.5000, 1.0000, 1.4142])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 100.0], 3, &machine)?;
    /// assert_eq!(x.log10()?.to_string(), "tensor([0.0000, 0.3010, 2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// assert_eq!(x.tan()?.to_string(), "tensor([0.0000, 0.5463, 1.5574])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 1.0], 3, &machine)?;
    /// assert_eq!(x.asin()?.to_string(), "tensor([-0.5236,  0.0000,  1.5708])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 1.0], 3, &machine)?;
    /// assert_eq!(x.acos()?.to_string(), "tensor([2.0944, 1.5708, 0.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 1.0], 3, &machine)?;
    /// assert_eq!(x.atan()?.to_string(), "tensor([-0.4636,  0.0000,  0.7854])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.sinh()?.to_string(), "tensor([-1.1752,  0.0000,  3.6269])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.cosh()?.to_string(), "tensor([1.5431, 1.0000, 3.7622])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.asinh()?.to_string(), "tensor([-0.8814,  0.0000,  1.4436])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.acosh()?.to_string(), "tensor([0.0000, 1.3170, 1.7627])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 0.25], 3, &machine)?;
    /// assert_eq!(x.atanh()?.to_string(), "tensor([-0.5493,  0.0000,  0.2554])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.25, 0.5], 3, &machine)?;
    /// assert_eq!(x.sinc()?.to_string(), "tensor([1.0000, 0.9003, 0.6366])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[90.0f32, 180.0], 2, &machine)?;
    /// assert_eq!(x.deg2rad()?.to_string(), "tensor([1.5708, 3.1416])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.1f32, 0.3], 2, &machine)?;
    /// assert_eq!(x.rad2deg()?.to_string(), "tensor([ 5.7296, 17.1887])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.25f32, 0.5, 0.9], 3, &machine)?;
    /// assert_eq!(x.logit()?.to_string(), "tensor([-1.0986,  0.0000,  2.1972])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// let y = x.logit_with(options::Logit::default().eps(0.25))?;
    /// assert_eq!(y.to_string(), "tensor([-1.0986,  0.0000,  1.0986])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.25f32, 2.5], 2, &machine)?;
    /// assert_eq!(x.frac()?.to_vec::<f32>()?, [-0.25, 0.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-4.0f32, 0.0, 1.5], 3, &machine)?;
    /// assert_eq!(x.hardsigmoid()?.to_vec::<f32>()?, [0.0, 0.5, 0.75]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-4.0f32, 1.5, 3.0], 3, &machine)?;
    /// assert_eq!(x.hardswish()?.to_vec::<f32>()?, [-0.0, 1.125, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.mish()?.to_string(), "tensor([-0.3034,  0.0000,  1.9440])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.gelu()?.to_string(), "tensor([-0.1587,  0.0000,  1.9545])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.gelu_with(options::Gelu::default().approximate("tanh"))?;
    /// assert_eq!(y.to_string(), "tensor([-0.1588,  0.0000,  1.9546])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.silu()?.to_string(), "tensor([-0.2689,  0.0000,  1.7616])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.elu()?.to_string(), "tensor([-0.6321,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.elu_with(options::Elu::default().alpha(2.0))?;
    /// assert_eq!(y.to_string(), "tensor([-1.2642,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.leaky_relu()?.to_string(), "tensor([-0.0100,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.leaky_relu_with(options::LeakyRelu::default().negative_slope(0.5))?;
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.5, 3.0], 3, &machine)?;
    /// assert_eq!(x.hardtanh()?.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.5, 3.0], 3, &machine)?;
    /// let y = x.hardtanh_with(options::Hardtanh::default().min_val(0.0))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[f32::NAN, 1.0, -2.0], 3, &machine)?;
    /// assert_eq!(x.nan_to_num()?.to_vec::<f32>()?, [0.0, 1.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[f32::NAN, 1.0, -2.0], 3, &machine)?;
    /// let y = x.nan_to_num_with(options::NanToNum::default().nan(7.0))?;
    /// assert_eq!(y.to_vec::<f32>()?, [7.0, 1.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.5f32, 0.0, 2.0], 3, &machine)?;
    /// x.abs_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.5, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.5f32, 0.0, 2.0], 3, &machine)?;
    /// x.sign_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, 0.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.5, -2.75], 3, &machine)?;
    /// x.round_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 2.0, -3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.75f32, 1.75], 2, &machine)?;
    /// x.trunc_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.75f32, 1.75], 2, &machine)?;
    /// x.floor_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-2.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.75f32, 1.75], 2, &machine)?;
    /// x.ceil_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.relu_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0, 2.0], 3, &machine)?;
    /// x.exp_()?;
    /// assert_eq!(x.to_string(), "tensor([1.0000, 2.7183, 7.3891])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// x.expm1_()?;
    /// assert_eq!(x.to_string(), "tensor([0.0000, 0.6487, 1.7183])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 10.0], 3, &machine)?;
    /// x.log_()?;
    /// assert_eq!(x.to_string(), "tensor([0.0000, 0.6931, 2.3026])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 10.0], 3, &machine)?;
    /// x.log2_()?;
    /// assert_eq!(x.to_string(), "tensor([-1.0000,  0.0000,  3.3219])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0, 9.0], 3, &machine)?;
    /// x.log1p_()?;
    /// assert_eq!(x.to_string(), "tensor([0.0000, 0.6931, 2.3026])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 9.0], 3, &machine)?;
    /// x.sqrt_()?;
    /// assert_eq!(x.to_string(), "tensor([1.0000, 1.4142, 3.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.25f32, 2.0, 16.0], 3, &machine)?;
    /// x.rsqrt_()?;
    /// assert_eq!(x.to_string(), "tensor([2.0000, 0.7071, 0.2500])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, -4.0], 3, &machine)?;
    /// x.reciprocal_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 0.5, -0.25]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// x.sin_()?;
    /// assert_eq!(x.to_string(), "tensor([0.0000, 0.4794, 0.8415])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// x.cos_()?;
    /// assert_eq!(x.to_string(), "tensor([1.0000, 0.8776, 0.5403])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.tanh_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.7616,  0.0000,  0.9640])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.sigmoid_()?;
    /// assert_eq!(x.to_string(), "tensor([0.2689, 0.5000, 0.8808])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 0.5], 3, &machine)?;
    /// x.erf_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.8427,  0.0000,  0.5205])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 0.5], 3, &machine)?;
    /// x.erfc_()?;
    /// assert_eq!(x.to_string(), "tensor([1.8427, 1.0000, 0.4795])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 3.0, 4.5], 3, &machine)?;
    /// x.lgamma_()?;
    /// assert_eq!(x.to_string(), "tensor([0.5724, 0.6931, 2.4537])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// x.digamma_()?;
    /// assert_eq!(x.to_string(), "tensor([-1.9635, -0.5772,  0.4228])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 0.25], 3, &machine)?;
    /// x.erfinv_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.4769,  0.0000,  0.2253])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 0.5], 3, &machine)?;
    /// x.exp2_()?;
    /// assert_eq!(x.to_string(), "tensor([0.5000, 1.0000, 1.4142])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 100.0], 3, &machine)?;
    /// x.log10_()?;
    /// assert_eq!(x.to_string(), "tensor([0.0000, 0.3010, 2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// x.tan_()?;
    /// assert_eq!(x.to_string(), "tensor([0.0000, 0.5463, 1.5574])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 1.0], 3, &machine)?;
    /// x.asin_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.5236,  0.0000,  1.5708])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 1.0], 3, &machine)?;
    /// x.acos_()?;
    /// assert_eq!(x.to_string(), "tensor([2.0944, 1.5708, 0.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 1.0], 3, &machine)?;
    /// x.atan_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.4636,  0.0000,  0.7854])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.sinh_()?;
    /// assert_eq!(x.to_string(), "tensor([-1.1752,  0.0000,  3.6269])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.cosh_()?;
    /// assert_eq!(x.to_string(), "tensor([1.5431, 1.0000, 3.7622])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.asinh_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.8814,  0.0000,  1.4436])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// x.acosh_()?;
    /// assert_eq!(x.to_string(), "tensor([0.0000, 1.3170, 1.7627])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, 0.0, 0.25], 3, &machine)?;
    /// x.atanh_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.5493,  0.0000,  0.2554])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.25, 0.5], 3, &machine)?;
    /// x.sinc_()?;
    /// assert_eq!(x.to_string(), "tensor([1.0000, 0.9003, 0.6366])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[90.0f32, 180.0], 2, &machine)?;
    /// x.deg2rad_()?;
    /// assert_eq!(x.to_string(), "tensor([1.5708, 3.1416])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.1f32, 0.3], 2, &machine)?;
    /// x.rad2deg_()?;
    /// assert_eq!(x.to_string(), "tensor([ 5.7296, 17.1887])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.25f32, 0.5, 0.9], 3, &machine)?;
    /// x.logit_()?;
    /// assert_eq!(x.to_string(), "tensor([-1.0986,  0.0000,  2.1972])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 0.5, 1.0], 3, &machine)?;
    /// x.logit_with_(options::Logit::default().eps(0.25))?;
    /// assert_eq!(x.to_string(), "tensor([-1.0986,  0.0000,  1.0986])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.25f32, 2.5], 2, &machine)?;
    /// x.frac_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-0.25, 0.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-4.0f32, 0.0, 1.5], 3, &machine)?;
    /// x.hardsigmoid_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.5, 0.75]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-4.0f32, 1.5, 3.0], 3, &machine)?;
    /// x.hardswish_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-0.0, 1.125, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.mish_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.3034,  0.0000,  1.9440])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.gelu_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.1587,  0.0000,  1.9545])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.gelu_with_(options::Gelu::default().approximate("tanh"))?;
    /// assert_eq!(x.to_string(), "tensor([-0.1588,  0.0000,  1.9546])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.silu_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.2689,  0.0000,  1.7616])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.elu_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.6321,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.elu_with_(options::Elu::default().alpha(2.0))?;
    /// assert_eq!(x.to_string(), "tensor([-1.2642,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.leaky_relu_()?;
    /// assert_eq!(x.to_string(), "tensor([-0.0100,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// x.leaky_relu_with_(options::LeakyRelu::default().negative_slope(0.5))?;
    /// assert_eq!(x.to_vec::<f32>()?, [-0.5, 0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.5, 3.0], 3, &machine)?;
    /// x.hardtanh_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.5, 3.0], 3, &machine)?;
    /// x.hardtanh_with_(options::Hardtanh::default().min_val(0.0))?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[f32::NAN, 1.0, -2.0], 3, &machine)?;
    /// x.nan_to_num_()?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 1.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[f32::NAN, 1.0, -2.0], 3, &machine)?;
    /// x.nan_to_num_with_(options::NanToNum::default().nan(7.0))?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 1.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.softplus()?.to_string(), "tensor([0.3133, 0.6931, 2.1269])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.softplus_with(options::Softplus::default().beta(2.0))?;
    /// assert_eq!(y.to_string(), "tensor([0.0635, 0.3466, 2.0091])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x =
    ///     Tensor::from_slice(&[1.0f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN], 4, &machine)?;
    /// assert_eq!(x.isnan()?.to_vec::<bool>()?, [false, false, false, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x =
    ///     Tensor::from_slice(&[1.0f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN], 4, &machine)?;
    /// assert_eq!(x.isinf()?.to_vec::<bool>()?, [false, true, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x =
    ///     Tensor::from_slice(&[1.0f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN], 4, &machine)?;
    /// assert_eq!(x.isposinf()?.to_vec::<bool>()?, [false, true, false, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x =
    ///     Tensor::from_slice(&[1.0f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN], 4, &machine)?;
    /// assert_eq!(x.isneginf()?.to_vec::<bool>()?, [false, false, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 0.0, -2.0], 3, &machine)?;
    /// assert_eq!(x.signbit()?.to_vec::<bool>()?, [false, false, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.log_sigmoid()?.to_string(), "tensor([-1.3133, -0.6931, -0.1269])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.25, 1.0], 3, &machine)?;
    /// assert_eq!(x.softshrink()?.to_vec::<f32>()?, [-1.5, 0.0, 0.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.25, 1.0], 3, &machine)?;
    /// let y = x.softshrink_with(options::Softshrink::default().lambd(1.5))?;
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.25, 1.0], 3, &machine)?;
    /// assert_eq!(x.hardshrink()?.to_vec::<f32>()?, [-2.0, 0.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-2.0f32, 0.25, 1.0], 3, &machine)?;
    /// let y = x.hardshrink_with(options::Hardshrink::default().lambd(1.5))?;
    /// assert_eq!(y.to_vec::<f32>()?, [-2.0, 0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn hardshrink_with(&self, options: Hardshrink) -> Result<Tensor> {
        call::one("hardshrink", &[self], options.attrs)
    }

    /// Returns x where it is positive, else alpha * (exp(x / alpha) - 1).
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::celu`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.celu()?.to_string(), "tensor([-0.6321,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn celu(&self) -> Result<Tensor> {
        call::one("celu", &[self], Attrs::new())
    }

    /// Returns x where it is positive, else alpha * (exp(x / alpha) - 1).
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Celu`], which has defaults
    ///
    /// PyTorch: `aten::celu`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// let y = x.celu_with(options::Celu::default().alpha(2))?;
    /// assert_eq!(y.to_string(), "tensor([-0.7869,  0.0000,  2.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn celu_with(&self, options: Celu) -> Result<Tensor> {
        call::one("celu", &[self], options.attrs)
    }

    /// Returns x where it is greater than the threshold, or NaN; else the value.
    ///
    /// - `x`, this tensor: any shape
    /// - `threshold`: the greatest replaced number
    /// - `value`: its replacement
    ///
    /// PyTorch: `aten::threshold`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.threshold(1.5, 0)?.to_vec::<f32>()?, [0.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn threshold(
        &self,
        threshold: impl Into<Number>,
        value: impl Into<Number>,
    ) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("threshold", call::number(threshold));
        attrs.set("value", call::number(value));
        call::one("threshold", &[self], attrs)
    }

    /// Returns -x * log(x); 0 where x is 0, and minus infinity below.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_entr`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.0f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_entr()?.to_string(), "tensor([ 0.0000, -0.0000, -1.3863])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn special_entr(&self) -> Result<Tensor> {
        call::one("special_entr", &[self], Attrs::new())
    }

    /// Returns x rounded to a number of decimals.
    ///
    /// - `x`, this tensor: any shape
    /// - `decimals`: their number
    ///
    /// The op `round_decimals`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.26f32, 1.74], 2, &machine)?;
    /// assert_eq!(x.round_decimals(1)?.to_string(), "tensor([0.3000, 1.7000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn round_decimals(&self, decimals: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("decimals", decimals.to_int());
        call::one("round_decimals", &[self], attrs)
    }

    /// Returns the angle of a complex number; of a real one, 0 or pi.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::angle`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.angle()?.to_string(), "tensor([3.1416, 0.0000, 0.0000])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn angle(&self) -> Result<Tensor> {
        call::one("angle", &[self], Attrs::new())
    }

    /// Returns the logarithm of the multivariate gamma function.
    ///
    /// - `x`, this tensor: any shape
    /// - `p`: the number of dimensions
    ///
    /// PyTorch: `aten::mvlgamma`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.5f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.mvlgamma(2)?.to_string(), "tensor([0.4516, 1.5502])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mvlgamma(&self, p: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("p", p.to_int());
        call::one("mvlgamma", &[self], attrs)
    }

    /// Returns one half of x times the sigmoid of the other.
    ///
    /// - `x`, this tensor: an even length along the dimension
    /// - `dim`: the dimension that is halved; default -1
    ///
    /// PyTorch: `aten::glu`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 0.0, 0.0], 4, &machine)?;
    /// assert_eq!(x.glu(0)?.to_vec::<f32>()?, [0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn glu(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("glu", &[self], attrs)
    }
}
