//! Methods of the ops under "Dropout".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Real, Seed, call};

/// Options of [`Tensor::dropout_with`] and [`Tensor::native_dropout_with`].
#[derive(Clone, Debug, Default)]
pub struct Dropout {
    attrs: Attrs,
}

impl Dropout {
    /// Sets `train`: whether elements are dropped; default true.
    #[must_use]
    pub fn train(mut self, train: bool) -> Dropout {
        self.attrs.set("train", train);
        self
    }
}

impl Tensor {
    /// Returns x with elements set to 0 at random and the rest scaled, and a mask of the rest.
    ///
    /// - `x`, this tensor: any shape
    /// - `p`: the probability that an element is dropped
    /// - `seed`: selects the numbers
    ///
    /// PyTorch: `aten::native_dropout`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn dropout(&self, p: impl Real, seed: impl Into<Seed>) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("p", p.to_real());
        seed.into().set(&mut attrs);
        call::one("native_dropout", &[self], attrs)
    }

    /// Returns x with elements set to 0 at random and the rest scaled, and a mask of the rest.
    ///
    /// - `x`, this tensor: any shape
    /// - `p`: the probability that an element is dropped
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Dropout`], which has defaults
    ///
    /// PyTorch: `aten::native_dropout`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn dropout_with(
        &self,
        p: impl Real,
        seed: impl Into<Seed>,
        options: Dropout,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("p", p.to_real());
        seed.into().set(&mut attrs);
        call::one("native_dropout", &[self], attrs)
    }

    /// Returns x with elements set to 0 at random and the rest scaled, and a mask of the rest.
    ///
    /// - `x`, this tensor: any shape
    /// - `p`: the probability that an element is dropped
    /// - `seed`: selects the numbers
    ///
    /// PyTorch: `aten::native_dropout`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn native_dropout(&self, p: impl Real, seed: impl Into<Seed>) -> Result<(Tensor, Tensor)> {
        let mut attrs = Attrs::new();
        attrs.set("p", p.to_real());
        seed.into().set(&mut attrs);
        let [a, b] = call::first_of("native_dropout", &[self], attrs)?;
        Ok((a, b))
    }

    /// Returns x with elements set to 0 at random and the rest scaled, and a mask of the rest.
    ///
    /// - `x`, this tensor: any shape
    /// - `p`: the probability that an element is dropped
    /// - `seed`: selects the numbers
    /// - `options`: [`struct@Dropout`], which has defaults
    ///
    /// PyTorch: `aten::native_dropout`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn native_dropout_with(
        &self,
        p: impl Real,
        seed: impl Into<Seed>,
        options: Dropout,
    ) -> Result<(Tensor, Tensor)> {
        let mut attrs = options.attrs;
        attrs.set("p", p.to_real());
        seed.into().set(&mut attrs);
        let [a, b] = call::first_of("native_dropout", &[self], attrs)?;
        Ok((a, b))
    }
}
