//! Methods of the ops under "Random numbers".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Real, Seed, call};

/// Options of [`Tensor::bernoulli_with`] and [`Tensor::bernoulli_with_`].
#[derive(Clone, Debug, Default)]
pub struct Bernoulli {
    attrs: Attrs,
}

impl Bernoulli {
    /// Sets `p`: the probability; default the elements of x.
    #[must_use]
    pub fn p(mut self, p: impl Real) -> Bernoulli {
        self.attrs.set("p", p.to_real());
        self
    }
}

/// Options of [`Tensor::exponential_with_`].
#[derive(Clone, Debug, Default)]
pub struct Exponential {
    attrs: Attrs,
}

impl Exponential {
    /// Sets `lambd`: the rate, above 0; default 1.
    #[must_use]
    pub fn lambd(mut self, lambd: impl Real) -> Exponential {
        self.attrs.set("lambd", lambd.to_real());
        self
    }
}

/// Options of [`Tensor::normal_with_`].
#[derive(Clone, Debug, Default)]
pub struct Normal {
    attrs: Attrs,
}

impl Normal {
    /// Sets `mean`: the mean; default 0.
    #[must_use]
    pub fn mean(mut self, mean: impl Real) -> Normal {
        self.attrs.set("mean", mean.to_real());
        self
    }

    /// Sets `std`: the standard deviation, 0 or more; default 1.
    #[must_use]
    pub fn std(mut self, std: impl Real) -> Normal {
        self.attrs.set("std", std.to_real());
        self
    }
}

/// Options of [`Tensor::randint_with_`].
#[derive(Clone, Debug, Default)]
pub struct Randint {
    attrs: Attrs,
}

impl Randint {
    /// Sets `low`: the least number; default 0.
    #[must_use]
    pub fn low(mut self, low: impl Int) -> Randint {
        self.attrs.set("low", low.to_int());
        self
    }
}

/// Options of [`Tensor::uniform_with_`].
#[derive(Clone, Debug, Default)]
pub struct Uniform {
    attrs: Attrs,
}

impl Uniform {
    /// Sets `from`: the lower bound; default 0.
    #[must_use]
    pub fn from(mut self, from: impl Real) -> Uniform {
        self.attrs.set("from", from.to_real());
        self
    }

    /// Sets `to`: the upper bound, reached only by rounding; default 1.
    #[must_use]
    pub fn to(mut self, to: impl Real) -> Uniform {
        self.attrs.set("to", to.to_real());
        self
    }
}

impl Tensor {
    /// Sets the elements of x to random numbers, uniform between two bounds, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    ///
    /// PyTorch: `aten::uniform_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(4, DType::F32, &machine)?;
    /// x.uniform_(7)?;
    /// assert!(x.to_vec::<f32>()?.iter().all(|v| (0.0..1.0).contains(v)));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn uniform_(&self, seed: impl Into<Seed>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        seed.into().set(&mut attrs);
        call::changed("uniform_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements of x to random numbers, uniform between two bounds, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Uniform`], which has defaults
    ///
    /// PyTorch: `aten::uniform_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(4, DType::F32, &machine)?;
    /// x.uniform_with_(7, options::Uniform::default().from(5).to(6))?;
    /// assert!(x.to_vec::<f32>()?.iter().all(|v| (5.0..=6.0).contains(v)));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn uniform_with_(&self, seed: impl Into<Seed>, options: Uniform) -> Result<&Tensor> {
        let mut attrs = options.attrs;
        seed.into().set(&mut attrs);
        call::changed("uniform_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements of x to normally distributed random numbers, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    ///
    /// PyTorch: `aten::normal_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(4, DType::F32, &machine)?;
    /// let y = Tensor::zeros(4, DType::F32, &machine)?;
    /// x.normal_(7)?;
    /// y.normal_(7)?;
    /// assert_eq!(x.to_vec::<f32>()?, y.to_vec::<f32>()?); // equal seeds, equal numbers
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn normal_(&self, seed: impl Into<Seed>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        seed.into().set(&mut attrs);
        call::changed("normal_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements of x to normally distributed random numbers, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Normal`], which has defaults
    ///
    /// PyTorch: `aten::normal_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(1000, DType::F32, &machine)?;
    /// x.normal_with_(7, options::Normal::default().mean(100).std(0.5))?;
    /// assert!((x.mean(..)?.item::<f32>()? - 100.0).abs() < 0.1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn normal_with_(&self, seed: impl Into<Seed>, options: Normal) -> Result<&Tensor> {
        let mut attrs = options.attrs;
        seed.into().set(&mut attrs);
        call::changed("normal_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements of x to exponentially distributed random numbers, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    ///
    /// PyTorch: `aten::exponential_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(1000, DType::F32, &machine)?;
    /// x.exponential_(7)?;
    /// assert!((x.mean(..)?.item::<f32>()? - 1.0).abs() < 0.1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn exponential_(&self, seed: impl Into<Seed>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        seed.into().set(&mut attrs);
        call::changed("exponential_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements of x to exponentially distributed random numbers, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Exponential`], which has defaults
    ///
    /// PyTorch: `aten::exponential_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(1000, DType::F32, &machine)?;
    /// x.exponential_with_(7, options::Exponential::default().lambd(4))?;
    /// assert!((x.mean(..)?.item::<f32>()? - 0.25).abs() < 0.1); // 1 / lambd
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn exponential_with_(
        &self,
        seed: impl Into<Seed>,
        options: Exponential,
    ) -> Result<&Tensor> {
        let mut attrs = options.attrs;
        seed.into().set(&mut attrs);
        call::changed("exponential_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements of x to random whole numbers, uniform, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `high`: one past the greatest number
    /// - `seed`: selects the numbers
    ///
    /// The op `randint_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(100, DType::I64, &machine)?;
    /// x.randint_(6, 7)?; // numbers below 6, of seed 7
    /// assert!(x.to_vec::<i64>()?.iter().all(|v| (0..6).contains(v)));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn randint_(&self, high: impl Int, seed: impl Into<Seed>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("high", high.to_int());
        seed.into().set(&mut attrs);
        call::changed("randint_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets the elements of x to random whole numbers, uniform, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `high`: one past the greatest number
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Randint`], which has defaults
    ///
    /// The op `randint_`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(100, DType::I64, &machine)?;
    /// x.randint_with_(7, 7, options::Randint::default().low(1))?;
    /// assert!(x.to_vec::<i64>()?.iter().all(|v| (1..7).contains(v)));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn randint_with_(
        &self,
        high: impl Int,
        seed: impl Into<Seed>,
        options: Randint,
    ) -> Result<&Tensor> {
        let mut attrs = options.attrs;
        attrs.set("high", high.to_int());
        seed.into().set(&mut attrs);
        call::changed("randint_", &[self], attrs)?;
        Ok(self)
    }

    /// Returns 1 with a probability, else 0, for each element of x.
    ///
    /// - `x`, this tensor: any shape; floats, the probabilities, unless p is given
    /// - `seed`: selects the numbers
    ///
    /// PyTorch: `aten::bernoulli`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let p = Tensor::from_slice(&[0.0f32, 1.0, 0.0], 3, &machine)?;
    /// assert_eq!(p.bernoulli(7)?.to_vec::<f32>()?, [0.0, 1.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli(&self, seed: impl Into<Seed>) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        seed.into().set(&mut attrs);
        call::one("bernoulli", &[self], attrs)
    }

    /// Returns 1 with a probability, else 0, for each element of x.
    ///
    /// - `x`, this tensor: any shape; floats, the probabilities, unless p is given
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Bernoulli`], which has defaults
    ///
    /// PyTorch: `aten::bernoulli`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(1000, DType::F32, &machine)?;
    /// let y = x.bernoulli_with(7, options::Bernoulli::default().p(0.25))?;
    /// assert!((y.mean(..)?.item::<f32>()? - 0.25).abs() < 0.1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli_with(&self, seed: impl Into<Seed>, options: Bernoulli) -> Result<Tensor> {
        let mut attrs = options.attrs;
        seed.into().set(&mut attrs);
        call::one("bernoulli", &[self], attrs)
    }

    /// Sets each element of x to 1 with a probability, else to 0, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    ///
    /// PyTorch: `aten::bernoulli_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(1000, DType::F32, &machine)?;
    /// x.bernoulli_(7)?;
    /// assert!((x.mean(..)?.item::<f32>()? - 0.5).abs() < 0.1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli_(&self, seed: impl Into<Seed>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        seed.into().set(&mut attrs);
        call::changed("bernoulli_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets each element of x to 1 with a probability, else to 0, in place.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Bernoulli`], which has defaults
    ///
    /// PyTorch: `aten::bernoulli_`.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::zeros(1000, DType::F32, &machine)?;
    /// x.bernoulli_with_(7, options::Bernoulli::default().p(0.25))?;
    /// assert!((x.mean(..)?.item::<f32>()? - 0.25).abs() < 0.1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli_with_(&self, seed: impl Into<Seed>, options: Bernoulli) -> Result<&Tensor> {
        let mut attrs = options.attrs;
        seed.into().set(&mut attrs);
        call::changed("bernoulli_", &[self], attrs)?;
        Ok(self)
    }
}
