//! Methods of the ops under "Complex numbers".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::call;

impl Tensor {
    /// Returns complex numbers of two parts.
    ///
    /// - `real`, this tensor: f32 or f64, any shape
    /// - `imag`: the dtype of real; a shape that broadcasts with it
    ///
    /// PyTorch: `aten::complex`.
    ///
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let real = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let imag = Tensor::from_slice(&[3.0f32, -4.0], 2, &machine)?;
    /// let y = real.complex(&imag)?;
    /// assert_eq!(y.to_vec::<C64>()?, [C64::new(1.0, 3.0), C64::new(2.0, -4.0)]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let abs = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let angle = Tensor::from_slice(&[0.0f32, 1.0], 2, &machine)?;
    /// assert_eq!(abs.polar(&angle)?.to_string(), "tensor([1.0000+0.0000j, 1.0806+1.6829j])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[C64::new(1.0, 2.0), C64::new(-0.0, -3.0)], 2, &machine)?;
    /// let y = x.conj_physical()?;
    /// assert_eq!(y.to_vec::<C64>()?, [C64::new(1.0, -2.0), C64::new(-0.0, 3.0)]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[C64::new(1.0, 2.0), C64::new(-0.0, -3.0)], 2, &machine)?;
    /// let y = x.view_as_real()?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, -0.0, -3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_types::element::C64;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 0.0, -3.0], (2, 2), &machine)?;
    /// let y = x.view_as_complex()?;
    /// assert_eq!(y.to_vec::<C64>()?, [C64::new(1.0, 2.0), C64::new(0.0, -3.0)]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn view_as_complex(&self) -> Result<Tensor> {
        call::one("view_as_complex", &[self], Attrs::new())
    }
}
