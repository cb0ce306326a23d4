//! Methods of the ops under "Fourier transforms".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Int, Ints, call};

/// Options of [`Tensor::_fft_c2c_with`].
#[derive(Clone, Debug, Default)]
pub struct FftC2c {
    attrs: Attrs,
}

impl FftC2c {
    /// Sets `normalization`: 0: none, 1: by the root of the number of elements, 2: by the number;
    /// default 0.
    #[must_use]
    pub fn normalization(mut self, normalization: impl Int) -> FftC2c {
        self.attrs.set("normalization", normalization.to_int());
        self
    }
}

/// Options of [`Tensor::_fft_c2r_with`].
#[derive(Clone, Debug, Default)]
pub struct FftC2r {
    attrs: Attrs,
}

impl FftC2r {
    /// Sets `normalization`: 0: none, 1: by the root of the number of elements, 2: by the number;
    /// default 0.
    #[must_use]
    pub fn normalization(mut self, normalization: impl Int) -> FftC2r {
        self.attrs.set("normalization", normalization.to_int());
        self
    }
}

/// Options of [`Tensor::_fft_r2c_with`].
#[derive(Clone, Debug, Default)]
pub struct FftR2c {
    attrs: Attrs,
}

impl FftR2c {
    /// Sets `normalization`: 0: none, 1: by the root of the number of elements, 2: by the number;
    /// default 0.
    #[must_use]
    pub fn normalization(mut self, normalization: impl Int) -> FftR2c {
        self.attrs.set("normalization", normalization.to_int());
        self
    }
}

impl Tensor {
    /// Returns the Fourier transform of complex numbers, or its inverse.
    ///
    /// - `x`, this tensor: complex, any shape
    /// - `dim`: the transformed dimensions
    /// - `forward`: false: the inverse
    ///
    /// PyTorch: `aten::_fft_c2c`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _fft_c2c(&self, dim: impl Ints, forward: bool) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_ints());
        attrs.set("forward", forward);
        call::one("_fft_c2c", &[self], attrs)
    }

    /// Returns the Fourier transform of complex numbers, or its inverse.
    ///
    /// - `x`, this tensor: complex, any shape
    /// - `dim`: the transformed dimensions
    /// - `forward`: false: the inverse
    /// - `options`: [`struct@FftC2c`], which has defaults
    ///
    /// PyTorch: `aten::_fft_c2c`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _fft_c2c_with(&self, dim: impl Ints, forward: bool, options: FftC2c) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_ints());
        attrs.set("forward", forward);
        call::one("_fft_c2c", &[self], attrs)
    }

    /// Returns the Fourier transform of real numbers.
    ///
    /// - `x`, this tensor: f32 or f64, any shape
    /// - `dim`: the transformed dimensions
    /// - `onesided`: whether the last dimension keeps the first half alone
    ///
    /// PyTorch: `aten::_fft_r2c`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _fft_r2c(&self, dim: impl Ints, onesided: bool) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_ints());
        attrs.set("onesided", onesided);
        call::one("_fft_r2c", &[self], attrs)
    }

    /// Returns the Fourier transform of real numbers.
    ///
    /// - `x`, this tensor: f32 or f64, any shape
    /// - `dim`: the transformed dimensions
    /// - `onesided`: whether the last dimension keeps the first half alone
    /// - `options`: [`struct@FftR2c`], which has defaults
    ///
    /// PyTorch: `aten::_fft_r2c`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _fft_r2c_with(&self, dim: impl Ints, onesided: bool, options: FftR2c) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_ints());
        attrs.set("onesided", onesided);
        call::one("_fft_r2c", &[self], attrs)
    }

    /// Returns the real numbers whose Fourier transform begins with x.
    ///
    /// - `x`, this tensor: complex, any shape
    /// - `dim`: the transformed dimensions
    /// - `last_dim_size`: the length of the last transformed dimension
    ///
    /// PyTorch: `aten::_fft_c2r`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _fft_c2r(&self, dim: impl Ints, last_dim_size: impl Int) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dim", dim.to_ints());
        attrs.set("last_dim_size", last_dim_size.to_int());
        call::one("_fft_c2r", &[self], attrs)
    }

    /// Returns the real numbers whose Fourier transform begins with x.
    ///
    /// - `x`, this tensor: complex, any shape
    /// - `dim`: the transformed dimensions
    /// - `last_dim_size`: the length of the last transformed dimension
    /// - `options`: [`struct@FftC2r`], which has defaults
    ///
    /// PyTorch: `aten::_fft_c2r`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn _fft_c2r_with(
        &self,
        dim: impl Ints,
        last_dim_size: impl Int,
        options: FftC2r,
    ) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dim", dim.to_ints());
        attrs.set("last_dim_size", last_dim_size.to_int());
        call::one("_fft_c2r", &[self], attrs)
    }
}
