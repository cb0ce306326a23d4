//! Methods of the ops under "Normalisation".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Ints, Real, call};

/// Options of [`Tensor::batch_norm`] and [`Tensor::native_batch_norm`].
#[derive(Clone, Debug, Default)]
pub struct BatchNorm<'a> {
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    running_mean: Option<&'a Tensor>,
    running_var: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> BatchNorm<'a> {
    /// Gives the tensor `bias`: \[c\]: added to the result; default 0.
    #[must_use]
    pub fn bias(mut self, bias: &'a Tensor) -> BatchNorm<'a> {
        self.bias = Some(bias);
        self
    }

    /// Sets `eps`: added to the variance; default 1e-5.
    #[must_use]
    pub fn eps(mut self, eps: impl Real) -> BatchNorm<'a> {
        self.attrs.set("eps", eps.to_real());
        self
    }

    /// Sets `momentum`: the weight of the new statistics in the running ones; default 0.1.
    #[must_use]
    pub fn momentum(mut self, momentum: impl Real) -> BatchNorm<'a> {
        self.attrs.set("momentum", momentum.to_real());
        self
    }

    /// Gives the tensor `running_mean`: \[c\]; updated in place in training.
    #[must_use]
    pub fn running_mean(mut self, running_mean: &'a Tensor) -> BatchNorm<'a> {
        self.running_mean = Some(running_mean);
        self
    }

    /// Gives the tensor `running_var`: \[c\]; updated in place in training.
    #[must_use]
    pub fn running_var(mut self, running_var: &'a Tensor) -> BatchNorm<'a> {
        self.running_var = Some(running_var);
        self
    }

    /// Gives the tensor `weight`: \[c\]: scale; default 1.
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> BatchNorm<'a> {
        self.weight = Some(weight);
        self
    }
}

/// Options of [`Tensor::layer_norm`] and [`Tensor::native_layer_norm`].
#[derive(Clone, Debug, Default)]
pub struct LayerNorm<'a> {
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> LayerNorm<'a> {
    /// Gives the tensor `bias`: added to the result; default 0.
    #[must_use]
    pub fn bias(mut self, bias: &'a Tensor) -> LayerNorm<'a> {
        self.bias = Some(bias);
        self
    }

    /// Sets `eps`: added to the variance; default 1e-5.
    #[must_use]
    pub fn eps(mut self, eps: impl Real) -> LayerNorm<'a> {
        self.attrs.set("eps", eps.to_real());
        self
    }

    /// Gives the tensor `weight`: scale; default 1.
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> LayerNorm<'a> {
        self.weight = Some(weight);
        self
    }
}

impl Tensor {
    /// Normalises rows to mean 0 and variance 1, applies weight and bias.
    ///
    /// - `x`, this tensor: any shape
    /// - `normalized_shape`: the shape that is normalised over: x's last dimensions
    /// - `options`: [`struct@LayerNorm`], which has defaults
    ///
    /// PyTorch: `aten::native_layer_norm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn layer_norm(
        &self,
        normalized_shape: impl Ints,
        options: LayerNorm<'_>,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        attrs.set("normalized_shape", normalized_shape.to_ints());
        call::optional(&[options.weight, options.bias], &mut given, &mut attrs);
        call::one("native_layer_norm", &given, attrs)
    }

    /// Normalises rows to mean 0 and variance 1, applies weight and bias.
    ///
    /// - `x`, this tensor: any shape
    /// - `normalized_shape`: the shape that is normalised over: x's last dimensions
    /// - `options`: [`struct@LayerNorm`], which has defaults
    ///
    /// PyTorch: `aten::native_layer_norm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn native_layer_norm(
        &self,
        normalized_shape: impl Ints,
        options: LayerNorm<'_>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        attrs.set("normalized_shape", normalized_shape.to_ints());
        call::optional(&[options.weight, options.bias], &mut given, &mut attrs);
        let [a, b, c] = call::first_of("native_layer_norm", &given, attrs)?;
        Ok((a, b, c))
    }

    /// Normalises channels to mean 0 and variance 1, applies weight and bias.
    ///
    /// - `x`, this tensor: \[n,c,..\]
    /// - `training`: use the mean and variance of x instead of the running ones
    /// - `options`: [`struct@BatchNorm`], which has defaults
    ///
    /// PyTorch: `aten::native_batch_norm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn batch_norm(&self, training: bool, options: BatchNorm<'_>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        attrs.set("training", training);
        call::optional(
            &[options.weight, options.bias, options.running_mean, options.running_var],
            &mut given,
            &mut attrs,
        );
        call::one("native_batch_norm", &given, attrs)
    }

    /// Normalises channels to mean 0 and variance 1, applies weight and bias.
    ///
    /// - `x`, this tensor: \[n,c,..\]
    /// - `training`: use the mean and variance of x instead of the running ones
    /// - `options`: [`struct@BatchNorm`], which has defaults
    ///
    /// PyTorch: `aten::native_batch_norm`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn native_batch_norm(
        &self,
        training: bool,
        options: BatchNorm<'_>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        attrs.set("training", training);
        call::optional(
            &[options.weight, options.bias, options.running_mean, options.running_var],
            &mut given,
            &mut attrs,
        );
        let [a, b, c] = call::first_of("native_batch_norm", &given, attrs)?;
        Ok((a, b, c))
    }
}
