//! Methods of the ops under "Softmax and losses".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Number, Real, call};

/// Options of [`Tensor::binary_cross_entropy`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[0.25f32, 0.75], 2, &machine)?;
/// let target = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
/// let options = options::BinaryCrossEntropy::default().reduction("sum");
/// assert_eq!(x.binary_cross_entropy(&target, options)?.to_string(), "tensor(0.5754)");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BinaryCrossEntropy<'a> {
    weight: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> BinaryCrossEntropy<'a> {
    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> BinaryCrossEntropy<'a> {
        self.attrs.set("reduction", reduction);
        self
    }

    /// Gives the tensor `weight`: factor of the losses; a shape that broadcasts to x's.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.25f32, 0.75], 2, &machine)?;
    /// let target = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 4.0], 2, &machine)?;
    /// let options = options::BinaryCrossEntropy::default().weight(&weight);
    /// assert_eq!(x.binary_cross_entropy(&target, options)?.to_string(), "tensor(0.7192)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> BinaryCrossEntropy<'a> {
        self.weight = Some(weight);
        self
    }
}

/// Options of [`Tensor::binary_cross_entropy_with_logits`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// let target = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
/// let options = options::BinaryCrossEntropyWithLogits::default().reduction("sum");
/// let y = x.binary_cross_entropy_with_logits(&target, options)?;
/// assert_eq!(y.to_string(), "tensor(0.4402)");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BinaryCrossEntropyWithLogits<'a> {
    weight: Option<&'a Tensor>,
    pos_weight: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> BinaryCrossEntropyWithLogits<'a> {
    /// Gives the tensor `pos_weight`: factor of the loss of positive targets; a shape that
    /// broadcasts to x's.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let target = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let pos_weight = Tensor::from_slice(&[4.0f32], 1, &machine)?;
    /// let options = options::BinaryCrossEntropyWithLogits::default().pos_weight(&pos_weight);
    /// let y = x.binary_cross_entropy_with_logits(&target, options)?;
    /// assert_eq!(y.to_string(), "tensor(0.4105)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn pos_weight(mut self, pos_weight: &'a Tensor) -> BinaryCrossEntropyWithLogits<'a> {
        self.pos_weight = Some(pos_weight);
        self
    }

    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> BinaryCrossEntropyWithLogits<'a> {
        self.attrs.set("reduction", reduction);
        self
    }

    /// Gives the tensor `weight`: factor of the losses; a shape that broadcasts to x's.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let target = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 4.0], 2, &machine)?;
    /// let options = options::BinaryCrossEntropyWithLogits::default().weight(&weight);
    /// let y = x.binary_cross_entropy_with_logits(&target, options)?;
    /// assert_eq!(y.to_string(), "tensor(0.4105)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> BinaryCrossEntropyWithLogits<'a> {
        self.weight = Some(weight);
        self
    }
}

/// Options of [`Tensor::huber_loss_with`].
#[derive(Clone, Debug, Default)]
pub struct HuberLoss {
    attrs: Attrs,
}

impl HuberLoss {
    /// Sets `delta`: the distance at which the loss becomes linear, positive; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// let y = x.huber_loss_with(&target, options::HuberLoss::default().delta(2.0))?;
    /// assert_eq!(y.item::<f32>()?, 2.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn delta(mut self, delta: impl Real) -> HuberLoss {
        self.attrs.set("delta", delta.to_real());
        self
    }

    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> HuberLoss {
        self.attrs.set("reduction", reduction);
        self
    }
}

/// Options of [`Tensor::mse_loss_with`].
#[derive(Clone, Debug, Default)]
pub struct MseLoss {
    attrs: Attrs,
}

impl MseLoss {
    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> MseLoss {
        self.attrs.set("reduction", reduction);
        self
    }
}

/// Options of [`Tensor::multi_margin_loss`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[0.5f32, 0.0, 1.0, 0.0, 0.25, 0.0], (2, 3), &machine)?;
/// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
/// let y = x.multi_margin_loss(&target, options::MultiMarginLoss::default().p(2))?;
/// assert_eq!(y.to_string(), "tensor(0.6042)");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MultiMarginLoss<'a> {
    weight: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> MultiMarginLoss<'a> {
    /// Sets `margin`: the margin; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 0.0, 1.0, 0.0, 0.25, 0.0], (2, 3), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// let y = x.multi_margin_loss(&target, options::MultiMarginLoss::default().margin(2))?;
    /// assert_eq!(y.item::<f32>()?, 1.25);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn margin(mut self, margin: impl Into<Number>) -> MultiMarginLoss<'a> {
        self.attrs.set("margin", call::number(margin));
        self
    }

    /// Sets `p`: the power, 1 or 2; default 1.
    #[must_use]
    pub fn p(mut self, p: impl Into<Number>) -> MultiMarginLoss<'a> {
        self.attrs.set("p", call::number(p));
        self
    }

    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 0.0, 1.0, 0.0, 0.25, 0.0], (2, 3), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// let y =
    ///     x.multi_margin_loss(&target, options::MultiMarginLoss::default().reduction("sum"))?;
    /// assert_eq!(y.to_string(), "tensor(1.1667)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> MultiMarginLoss<'a> {
        self.attrs.set("reduction", reduction);
        self
    }

    /// Gives the tensor `weight`: \[classes\].
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 0.0, 1.0, 0.0, 0.25, 0.0], (2, 3), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// let weight = Tensor::from_slice(&[2.0f32, 4.0, 1.0], 3, &machine)?;
    /// let y =
    ///     x.multi_margin_loss(&target, options::MultiMarginLoss::default().weight(&weight))?;
    /// assert_eq!(y.to_string(), "tensor(1.6667)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> MultiMarginLoss<'a> {
        self.weight = Some(weight);
        self
    }
}

/// Options of [`Tensor::multilabel_margin_loss_with`].
#[derive(Clone, Debug, Default)]
pub struct MultilabelMarginLoss {
    attrs: Attrs,
}

impl MultilabelMarginLoss {
    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> MultilabelMarginLoss {
        self.attrs.set("reduction", reduction);
        self
    }
}

/// Options of [`Tensor::nll_loss`] and [`Tensor::nll_loss2d`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[-0.5f32, -1.0, -2.0, -0.25], (2, 2), &machine)?;
/// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
/// let y = x.nll_loss(&target, options::NllLoss::default().reduction("none"))?;
/// assert_eq!(y.to_vec::<f32>()?, [0.5, 0.25]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NllLoss<'a> {
    weight: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> NllLoss<'a> {
    /// Sets `ignore_index`: the class whose targets are ignored; default -100.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, -1.0, -2.0, -0.25], (2, 2), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// let y = x.nll_loss(&target, options::NllLoss::default().ignore_index(1))?;
    /// assert_eq!(y.item::<f32>()?, 0.5);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn ignore_index(mut self, ignore_index: impl Int) -> NllLoss<'a> {
        self.attrs.set("ignore_index", ignore_index.to_int());
        self
    }

    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> NllLoss<'a> {
        self.attrs.set("reduction", reduction);
        self
    }

    /// Gives the tensor `weight`: the weights of the classes, of x's dtype.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, -1.0, -2.0, -0.25], (2, 2), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// let weight = Tensor::from_slice(&[1.0f32, 3.0], 2, &machine)?;
    /// let y = x.nll_loss(&target, options::NllLoss::default().weight(&weight))?;
    /// assert_eq!(y.item::<f32>()?, 0.3125);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> NllLoss<'a> {
        self.weight = Some(weight);
        self
    }
}

/// Options of [`Tensor::smooth_l1_loss_with`].
#[derive(Clone, Debug, Default)]
pub struct SmoothL1Loss {
    attrs: Attrs,
}

impl SmoothL1Loss {
    /// Sets `beta`: the distance at which the loss becomes linear, 0 or more; default 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// let y = x.smooth_l1_loss_with(&target, options::SmoothL1Loss::default().beta(2.0))?;
    /// assert_eq!(y.item::<f32>()?, 1.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn beta(mut self, beta: impl Real) -> SmoothL1Loss {
        self.attrs.set("beta", beta.to_real());
        self
    }

    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> SmoothL1Loss {
        self.attrs.set("reduction", reduction);
        self
    }
}

/// Options of [`Tensor::soft_margin_loss_with`].
#[derive(Clone, Debug, Default)]
pub struct SoftMarginLoss {
    attrs: Attrs,
}

impl SoftMarginLoss {
    /// Sets `reduction`: "none", "mean" or "sum"; default "mean".
    #[must_use]
    pub fn reduction(mut self, reduction: &str) -> SoftMarginLoss {
        self.attrs.set("reduction", reduction);
        self
    }
}

impl Tensor {
    /// Returns the softmax along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::_softmax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.softmax(0)?.to_string(), "tensor([0.0900, 0.2447, 0.6652])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("_softmax", &[self], attrs)
    }

    /// Returns the logarithm of the softmax along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::_log_softmax`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.log_softmax(0)?.to_string(), "tensor([-2.4076, -1.4076, -0.4076])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(&self, dim: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_int());
        call::one("_log_softmax", &[self], attrs)
    }

    /// Returns the squared difference of x and target.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's dtype; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::mse_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.mse_loss(&target)?.to_string(), "tensor(4.3333)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("mse_loss", &given, Attrs::new())
    }

    /// Returns the squared difference of x and target.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's dtype; a shape that broadcasts with x
    /// - `options`: [`struct@MseLoss`], which has defaults
    ///
    /// PyTorch: `aten::mse_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// let y = x.mse_loss_with(&target, options::MseLoss::default().reduction("none"))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 4.0, 9.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn mse_loss_with(&self, target: &Tensor, options: MseLoss) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("mse_loss", &given, options.attrs)
    }

    /// Returns the distance of x and target, quadratic where it is small.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's dtype; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::smooth_l1_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.smooth_l1_loss(&target)?.to_string(), "tensor(1.3333)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("smooth_l1_loss", &given, Attrs::new())
    }

    /// Returns the distance of x and target, quadratic where it is small.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's dtype; a shape that broadcasts with x
    /// - `options`: [`struct@SmoothL1Loss`], which has defaults
    ///
    /// PyTorch: `aten::smooth_l1_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// let y =
    ///     x.smooth_l1_loss_with(&target, options::SmoothL1Loss::default().reduction("none"))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.5, 2.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn smooth_l1_loss_with(&self, target: &Tensor, options: SmoothL1Loss) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("smooth_l1_loss", &given, options.attrs)
    }

    /// Returns the distance of x and target, quadratic where it is small.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's dtype; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::huber_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.huber_loss(&target)?.to_string(), "tensor(1.3333)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("huber_loss", &given, Attrs::new())
    }

    /// Returns the distance of x and target, quadratic where it is small.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's dtype; a shape that broadcasts with x
    /// - `options`: [`struct@HuberLoss`], which has defaults
    ///
    /// PyTorch: `aten::huber_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 5.0], 3, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, 4.0, 2.0], 3, &machine)?;
    /// let y = x.huber_loss_with(&target, options::HuberLoss::default().reduction("none"))?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.5, 2.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn huber_loss_with(&self, target: &Tensor, options: HuberLoss) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("huber_loss", &given, options.attrs)
    }

    /// Returns the binary cross entropy of probabilities x and targets between 0 and 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's shape and dtype
    /// - `options`: [`struct@BinaryCrossEntropy`], which has defaults
    ///
    /// PyTorch: `aten::binary_cross_entropy`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.25f32, 0.75], 2, &machine)?;
    /// let target = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let y = x.binary_cross_entropy(&target, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor(0.2877)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy(
        &self,
        target: &Tensor,
        options: BinaryCrossEntropy<'_>,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(target);
        call::optional(&[options.weight], &mut given, &mut attrs);
        call::one("binary_cross_entropy", &given, attrs)
    }

    /// Returns the binary cross entropy of the sigmoid of x and targets between 0 and 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's shape and dtype
    /// - `options`: [`struct@BinaryCrossEntropyWithLogits`], which has defaults
    ///
    /// PyTorch: `aten::binary_cross_entropy_with_logits`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let target = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// let y = x.binary_cross_entropy_with_logits(&target, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor(0.2201)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        options: BinaryCrossEntropyWithLogits<'_>,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(target);
        call::optional(&[options.weight, options.pos_weight], &mut given, &mut attrs);
        call::one("binary_cross_entropy_with_logits", &given, attrs)
    }

    /// Returns the negative log-likelihood of classes, and the total weight.
    ///
    /// - `x`, this tensor: log-probabilities; the classes are dimension 1, or the only one
    /// - `target`: class numbers, i64 or u8; x's shape without the dimension of classes
    /// - `options`: [`struct@NllLoss`], which has defaults
    ///
    /// PyTorch: `aten::nll_loss_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, -1.0, -2.0, -0.25], (2, 2), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// assert_eq!(x.nll_loss(&target, Default::default())?.item::<f32>()?, 0.375);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss(&self, target: &Tensor, options: NllLoss<'_>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(target);
        call::optional(&[options.weight], &mut given, &mut attrs);
        call::one("nll_loss_forward", &given, attrs)
    }

    /// Returns the negative log-likelihood of a class for each pixel, and the total weight.
    ///
    /// - `x`, this tensor: log-probabilities; the classes are dimension 1, or the only one
    /// - `target`: class numbers, i64 or u8; x's shape without the dimension of classes
    /// - `options`: [`struct@NllLoss`], which has defaults
    ///
    /// PyTorch: `aten::nll_loss2d_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-0.5f32, -1.0, -2.0, -0.25], (1, 2, 1, 2), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], (1, 1, 2), &machine)?;
    /// assert_eq!(x.nll_loss2d(&target, Default::default())?.item::<f32>()?, 0.375);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn nll_loss2d(&self, target: &Tensor, options: NllLoss<'_>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(target);
        call::optional(&[options.weight], &mut given, &mut attrs);
        call::one("nll_loss2d_forward", &given, attrs)
    }

    /// Returns log(1 + exp(-target * x)), reduced.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's shape, each 1 or -1
    ///
    /// PyTorch: `aten::soft_margin_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, -1.0], 2, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, -1.0], 2, &machine)?;
    /// assert_eq!(x.soft_margin_loss(&target)?.to_string(), "tensor(0.3937)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("soft_margin_loss", &given, Attrs::new())
    }

    /// Returns log(1 + exp(-target * x)), reduced.
    ///
    /// - `x`, this tensor: any shape
    /// - `target`: x's shape, each 1 or -1
    /// - `options`: [`struct@SoftMarginLoss`], which has defaults
    ///
    /// PyTorch: `aten::soft_margin_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, -1.0], 2, &machine)?;
    /// let target = Tensor::from_slice(&[1.0f32, -1.0], 2, &machine)?;
    /// let options = options::SoftMarginLoss::default().reduction("sum");
    /// assert_eq!(x.soft_margin_loss_with(&target, options)?.to_string(), "tensor(0.7873)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn soft_margin_loss_with(
        &self,
        target: &Tensor,
        options: SoftMarginLoss,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("soft_margin_loss", &given, options.attrs)
    }

    /// Returns for each row, the mean over the classes of the power p of max(0, margin -
    /// x\[target\] + x\[class\]).
    ///
    /// - `x`, this tensor: \[n,classes\] or \[classes\]
    /// - `target`: \[n\], or one class
    /// - `options`: [`struct@MultiMarginLoss`], which has defaults
    ///
    /// PyTorch: `aten::multi_margin_loss`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 0.0, 1.0, 0.0, 0.25, 0.0], (2, 3), &machine)?;
    /// let target = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// let y = x.multi_margin_loss(&target, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor(0.5833)");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn multi_margin_loss(
        &self,
        target: &Tensor,
        options: MultiMarginLoss<'_>,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(target);
        call::optional(&[options.weight], &mut given, &mut attrs);
        call::one("multi_margin_loss", &given, attrs)
    }

    /// Returns the loss of rows with several target classes, and which classes are targets.
    ///
    /// - `x`, this tensor: \[n,classes\] or \[classes\]
    /// - `target`: x's shape: classes, and -1 behind the last
    ///
    /// PyTorch: `aten::multilabel_margin_loss_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, -1.0], 2, &machine)?;
    /// let target = Tensor::from_slice(&[1i64, -1], 2, &machine)?;
    /// assert_eq!(x.multilabel_margin_loss(&target)?.item::<f32>()?, 1.25);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_margin_loss(&self, target: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("multilabel_margin_loss_forward", &given, Attrs::new())
    }

    /// Returns the loss of rows with several target classes, and which classes are targets.
    ///
    /// - `x`, this tensor: \[n,classes\] or \[classes\]
    /// - `target`: x's shape: classes, and -1 behind the last
    /// - `options`: [`struct@MultilabelMarginLoss`], which has defaults
    ///
    /// PyTorch: `aten::multilabel_margin_loss_forward`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, -1.0], 2, &machine)?;
    /// let target = Tensor::from_slice(&[1i64, -1], 2, &machine)?;
    /// let options = options::MultilabelMarginLoss::default().reduction("sum");
    /// assert_eq!(x.multilabel_margin_loss_with(&target, options)?.item::<f32>()?, 1.25);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn multilabel_margin_loss_with(
        &self,
        target: &Tensor,
        options: MultilabelMarginLoss,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(target);
        call::one("multilabel_margin_loss_forward", &given, options.attrs)
    }
}
