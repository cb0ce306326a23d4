//! Methods of the ops under "Comparison and logic".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Operand, call};

impl Tensor {
    /// Returns whether x and y are equal.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::eq`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 2, 1], 3, &machine)?;
    /// assert_eq!(x.eq(&y)?.to_vec::<bool>()?, [false, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn eq<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("eq", &given, attrs)
    }

    /// Returns whether x and y are not equal.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::ne`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 2, 1], 3, &machine)?;
    /// assert_eq!(x.ne(&y)?.to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn ne<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("ne", &given, attrs)
    }

    /// Returns whether x is less than y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::lt`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 2, 1], 3, &machine)?;
    /// assert_eq!(x.lt(&y)?.to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn lt<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("lt", &given, attrs)
    }

    /// Returns whether x is less than or equal to y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::le`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 2, 1], 3, &machine)?;
    /// assert_eq!(x.le(&y)?.to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn le<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("le", &given, attrs)
    }

    /// Returns whether x is greater than y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::gt`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 2, 1], 3, &machine)?;
    /// assert_eq!(x.gt(&y)?.to_vec::<bool>()?, [false, false, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn gt<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("gt", &given, attrs)
    }

    /// Returns whether x is greater than or equal to y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::ge`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 2, 1], 3, &machine)?;
    /// assert_eq!(x.ge(&y)?.to_vec::<bool>()?, [false, true, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn ge<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("ge", &given, attrs)
    }

    /// Returns x shifted left by y bits.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::__lshift__`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &machine)?;
    /// assert_eq!(x.bitwise_left_shift(2)?.to_vec::<i64>()?, [4, 8, 12]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_left_shift<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("__lshift__", &given, attrs)
    }

    /// Returns x shifted right by y bits, keeping the sign.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::__rshift__`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[4i64, 9, -8], 3, &machine)?;
    /// assert_eq!(x.bitwise_right_shift(2)?.to_vec::<i64>()?, [1, 2, -2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_right_shift<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("__rshift__", &given, attrs)
    }

    /// Returns whether x and y are both nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::logical_and`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false], 3, &machine)?;
    /// let y = Tensor::from_slice(&[true, false, false], 3, &machine)?;
    /// assert_eq!(x.logical_and(&y)?.to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_and(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("logical_and", &given, Attrs::new())
    }

    /// Returns whether x or y is nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::logical_or`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false], 3, &machine)?;
    /// let y = Tensor::from_slice(&[true, false, false], 3, &machine)?;
    /// assert_eq!(x.logical_or(&y)?.to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_or(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("logical_or", &given, Attrs::new())
    }

    /// Returns whether x is zero.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::logical_not`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, false], 2, &machine)?;
    /// assert_eq!(x.logical_not()?.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_not(&self) -> Result<Tensor> {
        call::one("logical_not", &[self], Attrs::new())
    }

    /// Returns the bitwise and of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::bitwise_and`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[6i64, 5], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 4], 2, &machine)?;
    /// assert_eq!(x.bitwise_and(&y)?.to_vec::<i64>()?, [2, 4]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_and<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("bitwise_and", &given, attrs)
    }

    /// Returns the bitwise or of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::bitwise_or`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[6i64, 5], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 4], 2, &machine)?;
    /// assert_eq!(x.bitwise_or(&y)?.to_vec::<i64>()?, [7, 5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_or<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("bitwise_or", &given, attrs)
    }

    /// Returns the bitwise exclusive or of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::bitwise_xor`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[6i64, 5], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 4], 2, &machine)?;
    /// assert_eq!(x.bitwise_xor(&y)?.to_vec::<i64>()?, [5, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_xor<'a>(&self, y: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("bitwise_xor", &given, attrs)
    }

    /// Returns the bitwise complement of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::bitwise_not`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0i64, 5, -1], 3, &machine)?;
    /// assert_eq!(x.bitwise_not()?.to_vec::<i64>()?, [-1, -6, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Result<Tensor> {
        call::one("bitwise_not", &[self], Attrs::new())
    }

    /// Sets this tensor to whether x and y are both nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::logical_and_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false], 3, &machine)?;
    /// let y = Tensor::from_slice(&[true, false, false], 3, &machine)?;
    /// x.logical_and_(&y)?;
    /// assert_eq!(x.to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_and_(&self, y: &Tensor) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::changed("logical_and_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to whether x or y is nonzero.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::logical_or_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, true, false], 3, &machine)?;
    /// let y = Tensor::from_slice(&[true, false, false], 3, &machine)?;
    /// x.logical_or_(&y)?;
    /// assert_eq!(x.to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_or_(&self, y: &Tensor) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::changed("logical_or_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to whether x is zero.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::logical_not_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[true, false], 2, &machine)?;
    /// x.logical_not_()?;
    /// assert_eq!(x.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_not_(&self) -> Result<&Tensor> {
        call::changed("logical_not_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to the bitwise and of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::bitwise_and_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[6i64, 5], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 4], 2, &machine)?;
    /// x.bitwise_and_(&y)?;
    /// assert_eq!(x.to_vec::<i64>()?, [2, 4]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_and_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("bitwise_and_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to the bitwise or of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::bitwise_or_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[6i64, 5], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 4], 2, &machine)?;
    /// x.bitwise_or_(&y)?;
    /// assert_eq!(x.to_vec::<i64>()?, [7, 5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_or_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("bitwise_or_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to the bitwise exclusive or of x and y.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::bitwise_xor_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[6i64, 5], 2, &machine)?;
    /// let y = Tensor::from_slice(&[3i64, 4], 2, &machine)?;
    /// x.bitwise_xor_(&y)?;
    /// assert_eq!(x.to_vec::<i64>()?, [5, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_xor_<'a>(&self, y: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::changed("bitwise_xor_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to the bitwise complement of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::bitwise_not_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0i64, 5, -1], 3, &machine)?;
    /// x.bitwise_not_()?;
    /// assert_eq!(x.to_vec::<i64>()?, [-1, -6, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_not_(&self) -> Result<&Tensor> {
        call::changed("bitwise_not_", &[self], Attrs::new())?;
        Ok(self)
    }

    /// Returns whether one of x and y is not 0, and the other is 0.
    ///
    /// - `x`, this tensor: any shape
    /// - `y`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::logical_xor`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0i64, 1, 2], 3, &machine)?;
    /// let y = Tensor::from_slice(&[0i64, 0, 1], 3, &machine)?;
    /// assert_eq!(x.logical_xor(&y)?.to_vec::<bool>()?, [false, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_xor(&self, y: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(y);
        call::one("logical_xor", &given, Attrs::new())
    }
}
