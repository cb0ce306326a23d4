//! Methods of the ops under "Complex numbers".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::call;

impl Tensor {
    /// Returns complex numbers of two parts.
    ///
    /// - `real`, this tensor: f32 or f64, any shape
    /// - `imag`: the dtype of real; a shape that broadcasts with it
    ///
    /// PyTorch: `aten::complex`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn complex(&self, imag: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(imag);
        call::one("complex", &given, Attrs::new())
    }

    /// Returns complex numbers of absolute values and angles.
    ///
    /// - `abs`, this tensor: f32 or f64, any shape
    /// - `angle`: the dtype of abs; a shape that broadcasts with it
    ///
    /// PyTorch: `aten::polar`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn polar(&self, angle: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(angle);
        call::one("polar", &given, Attrs::new())
    }

    /// Returns the complex conjugate of x.
    ///
    /// - `x`, this tensor: complex, any shape
    ///
    /// PyTorch: `aten::conj_physical`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn conj_physical(&self) -> Result<Tensor> {
        call::one("conj_physical", &[self], Attrs::new())
    }

    /// Returns a view of the parts of complex numbers, with a last dimension of length 2.
    ///
    /// - `x`, this tensor: complex, any shape
    ///
    /// PyTorch: `aten::view_as_real`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn view_as_real(&self) -> Result<Tensor> {
        call::one("view_as_real", &[self], Attrs::new())
    }

    /// Returns a view of the pairs in the last dimension as complex numbers.
    ///
    /// - `x`, this tensor: f32 or f64; the last dimension has length 2 and stride 1
    ///
    /// PyTorch: `aten::view_as_complex`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn view_as_complex(&self) -> Result<Tensor> {
        call::one("view_as_complex", &[self], Attrs::new())
    }
}
