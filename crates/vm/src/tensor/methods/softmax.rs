//! Methods of the ops under "Softmax and losses".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Int, Real, call};

/// Options of [`Tensor::binary_cross_entropy`].
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
    #[must_use]
    pub fn weight(mut self, weight: &'a Tensor) -> BinaryCrossEntropy<'a> {
        self.weight = Some(weight);
        self
    }
}

/// Options of [`Tensor::binary_cross_entropy_with_logits`].
#[derive(Clone, Debug, Default)]
pub struct BinaryCrossEntropyWithLogits<'a> {
    weight: Option<&'a Tensor>,
    pos_weight: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> BinaryCrossEntropyWithLogits<'a> {
    /// Gives the tensor `pos_weight`: factor of the loss of positive targets; a shape that
    /// broadcasts to x's.
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

/// Options of [`Tensor::nll_loss`] and [`Tensor::nll_loss2d`].
#[derive(Clone, Debug, Default)]
pub struct NllLoss<'a> {
    weight: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> NllLoss<'a> {
    /// Sets `ignore_index`: the class whose targets are ignored; default -100.
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

impl Tensor {
    /// Returns the softmax along a dimension.
    ///
    /// - `x`, this tensor: any shape
    /// - `dim`: the dimension, negative from the end
    ///
    /// PyTorch: `aten::_softmax`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn nll_loss2d(&self, target: &Tensor, options: NllLoss<'_>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(target);
        call::optional(&[options.weight], &mut given, &mut attrs);
        call::one("nll_loss2d_forward", &given, attrs)
    }
}
