//! Methods of the ops under "Fourier transforms".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[C64::new(1.0, 0.0), C64::new(0.0, 2.0)], 2, &machine)?;
    /// let y = x._fft_c2c(0, true)?;
    /// assert_eq!(y.to_vec::<C64>()?, [C64::new(1.0, 2.0), C64::new(1.0, -2.0)]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[C64::new(1.0, 2.0), C64::new(1.0, -2.0)], 2, &machine)?;
    /// let y = x._fft_c2c_with(0, false, options::FftC2c::default().normalization(2))?;
    /// assert_eq!(y.to_vec::<C64>()?, [C64::new(1.0, 0.0), C64::new(0.0, 2.0)]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 5.0], 4, &machine)?;
    /// let y = x._fft_r2c(0, true)?;
    /// assert_eq!(
    ///     y.to_vec::<C64>()?,
    ///     [C64::new(11.0, 0.0), C64::new(-2.0, 3.0), C64::new(-3.0, 0.0)]
    /// );
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 5.0], 4, &machine)?;
    /// let y = x._fft_r2c_with(0, true, options::FftR2c::default().normalization(1))?;
    /// assert_eq!(
    ///     y.to_vec::<C64>()?,
    ///     [C64::new(5.5, 0.0), C64::new(-1.0, 1.5), C64::new(-1.5, 0.0)]
    /// );
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[C64::new(10.0, 0.0), C64::new(-2.0, 2.0), C64::new(-2.0, 0.0)],
    ///     3,
    ///     &machine,
    /// )?;
    /// assert_eq!(x._fft_c2r(0, 4)?.to_vec::<f32>()?, [4.0, 8.0, 12.0, 16.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(
    ///     &[C64::new(10.0, 0.0), C64::new(-2.0, 2.0), C64::new(-2.0, 0.0)],
    ///     3,
    ///     &machine,
    /// )?;
    /// let y = x._fft_c2r_with(0, 4, options::FftC2r::default().normalization(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
