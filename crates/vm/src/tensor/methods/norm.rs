//! Methods of the ops under "Normalisation".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Ints, Number, Real, call};

/// Options of [`Tensor::batch_norm`] and [`Tensor::native_batch_norm`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 8.0], (2, 2), &machine)?;
/// let weight = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
/// let y = x.batch_norm(true, options::BatchNorm::default().weight(&weight))?;
/// assert_eq!(y.to_string(), "tensor([[-1.0000, -2.0000],\n        [ 1.0000,  2.0000]])");
/// # Ok::<(), millstream_types::Error>(())
/// ```
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
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 8.0], (2, 2), &machine)?;
    /// let bias = Tensor::from_slice(&[5.0f32, 5.0], 2, &machine)?;
    /// let y = x.batch_norm(true, options::BatchNorm::default().bias(&bias))?;
    /// assert_eq!(y.to_string(), "tensor([[4.0000, 4.0000],\n        [6.0000, 6.0000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn bias(mut self, bias: &'a Tensor) -> BatchNorm<'a> {
        self.bias = Some(bias);
        self
    }

    /// Sets `eps`: added to the variance; default 1e-5.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 8.0], (2, 2), &machine)?;
    /// let y = x.batch_norm(true, options::BatchNorm::default().eps(3.0))?;
    /// assert_eq!(y.to_string(), "tensor([[-0.5000, -0.8660],\n        [ 0.5000,  0.8660]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: impl Real) -> BatchNorm<'a> {
        self.attrs.set("eps", eps.to_real());
        self
    }

    /// Sets `momentum`: the weight of the new statistics in the running ones; default 0.1.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0], (2, 1), &machine)?;
    /// let mean = Tensor::zeros(1, DType::F32, &machine)?;
    /// let var = Tensor::ones(1, DType::F32, &machine)?;
    /// let half = options::BatchNorm::default().running_mean(&mean).running_var(&var);
    /// let half = half.momentum(0.5);
    /// x.batch_norm(true, half)?;
    /// assert_eq!(mean.to_vec::<f32>()?, [1.0]); // half way from 0 to 2
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn momentum(mut self, momentum: impl Real) -> BatchNorm<'a> {
        self.attrs.set("momentum", momentum.to_real());
        self
    }

    /// Gives the tensor `running_mean`: \[c\]; updated in place in training.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 8.0], (2, 2), &machine)?;
    /// let running_mean = Tensor::from_slice(&[1.0f32, 4.0], 2, &machine)?;
    /// let running_var = Tensor::from_slice(&[4.0f32, 16.0], 2, &machine)?;
    /// let options =
    ///     options::BatchNorm::default().running_mean(&running_mean).running_var(&running_var);
    /// let y = x.batch_norm(false, options)?;
    /// assert_eq!(y.to_string(), "tensor([[ 0.0000, -0.5000],\n        [ 1.0000,  1.0000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 8.0], (2, 2), &machine)?;
/// let weight = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
/// let y = x.layer_norm(2, options::LayerNorm::default().weight(&weight))?;
/// assert_eq!(y.to_string(), "tensor([[-1.0000,  2.0000],\n        [-1.0000,  2.0000]])");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LayerNorm<'a> {
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> LayerNorm<'a> {
    /// Gives the tensor `bias`: added to the result; default 0.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 8.0], (2, 2), &machine)?;
    /// let bias = Tensor::from_slice(&[5.0f32, 5.0], 2, &machine)?;
    /// let y = x.layer_norm(2, options::LayerNorm::default().bias(&bias))?;
    /// assert_eq!(y.to_string(), "tensor([[4.0000, 6.0000],\n        [4.0000, 6.0000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn bias(mut self, bias: &'a Tensor) -> LayerNorm<'a> {
        self.bias = Some(bias);
        self
    }

    /// Sets `eps`: added to the variance; default 1e-5.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 8.0], (2, 2), &machine)?;
    /// let y = x.layer_norm(2, options::LayerNorm::default().eps(3.0))?;
    /// assert_eq!(y.to_string(), "tensor([[-0.5000,  0.5000],\n        [-0.8660,  0.8660]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 8.0], (2, 2), &machine)?;
    /// let y = x.layer_norm(2, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor([[-1.0000,  1.0000],\n        [-1.0000,  1.0000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 8.0], (2, 2), &machine)?;
    /// let (y, mean, rstd) = x.native_layer_norm(2, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor([[-1.0000,  1.0000],\n        [-1.0000,  1.0000]])");
    /// assert_eq!(mean.shape(), [2, 1]);
    /// assert_eq!(mean.to_vec::<f32>()?, [2.0, 5.0]);
    /// assert_eq!(rstd.to_string(), "tensor([[1.0000],\n        [0.3333]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 8.0], (2, 2), &machine)?;
    /// let y = x.batch_norm(true, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor([[-1.0000, -1.0000],\n        [ 1.0000,  1.0000]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 8.0], (2, 2), &machine)?;
    /// let (y, mean, rstd) = x.native_batch_norm(true, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor([[-1.0000, -1.0000],\n        [ 1.0000,  1.0000]])");
    /// assert_eq!(mean.to_vec::<f32>()?, [2.0, 5.0]);
    /// assert_eq!(rstd.to_string(), "tensor([1.0000, 0.3333])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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

    /// Returns x with each slice scaled to a norm of at most the bound.
    ///
    /// - `x`, this tensor: any shape
    /// - `p`: the order of the norm
    /// - `dim`: the dimension of the slices
    /// - `maxnorm`: the greatest norm
    ///
    /// PyTorch: `aten::renorm`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[3.0f32, 4.0, 0.0, 1.0], (2, 2), &machine)?;
    /// assert_eq!(x.renorm(2, 0, 2.5)?.to_vec::<f32>()?, [1.5, 2.0, 0.0, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn renorm(
        &self,
        p: impl Into<Number>,
        dim: impl Int,
        maxnorm: impl Into<Number>,
    ) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("p", call::number(p));
        attrs.set("dim", dim.to_int());
        attrs.set("maxnorm", call::number(maxnorm));
        call::one("renorm", &[self], attrs)
    }
}
