//! Methods of the ops under "Dropout".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
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
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::ones(1000, DType::F32, &machine)?;
    /// let y = x.dropout(0.75, 7)?; // the others are 4
    /// assert!(y.to_vec::<f32>()?.iter().all(|v| [0.0, 4.0].contains(v)));
    /// assert!((y.mean(..)?.item::<f32>()? - 1.0).abs() < 0.3);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = x.dropout_with(0.5, 7, options::Dropout::default().train(false))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]); // unchanged
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::ones(100, DType::F32, &machine)?;
    /// let (y, mask) = x.native_dropout(0.5, 7)?;
    /// assert_eq!(y.to_vec::<f32>()?, mask.cast(DType::F32)?.mul(2)?.to_vec::<f32>()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let (y, mask) = x.native_dropout_with(0.5, 7, options::Dropout::default().train(false))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0]);
    /// assert_eq!(mask.to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
