//! Methods of the ops under "Ternary functions".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Number, Operand, call};

/// Options of [`Tensor::addcdiv_with`] and [`Tensor::addcdiv_with_`].
#[derive(Clone, Debug, Default)]
pub struct Addcdiv {
    attrs: Attrs,
}

impl Addcdiv {
    /// Sets `value`: a factor; default 1.
    #[must_use]
    pub fn value(mut self, value: impl Into<Number>) -> Addcdiv {
        self.attrs.set("value", call::number(value));
        self
    }
}

/// Options of [`Tensor::addcmul_with`] and [`Tensor::addcmul_with_`].
#[derive(Clone, Debug, Default)]
pub struct Addcmul {
    attrs: Attrs,
}

impl Addcmul {
    /// Sets `value`: a factor; default 1.
    #[must_use]
    pub fn value(mut self, value: impl Into<Number>) -> Addcmul {
        self.attrs.set("value", call::number(value));
        self
    }
}

impl Tensor {
    /// Returns x, at least min.
    ///
    /// - `x`, this tensor: any shape
    /// - `min`: the least value
    ///
    /// PyTorch: `aten::clamp_min`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.5, 2.0], 3, &machine)?;
    /// assert_eq!(x.clamp_min(0)?.to_vec::<f32>()?, [0.0, 0.5, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_min(&self, min: impl Into<Number>) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("min", call::number(min));
        call::one("clamp_min", &[self], attrs)
    }

    /// Returns x, at most max.
    ///
    /// - `x`, this tensor: any shape
    /// - `max`: the greatest value
    ///
    /// PyTorch: `aten::clamp_max`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.5, 2.0], 3, &machine)?;
    /// assert_eq!(x.clamp_max(1)?.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_max(&self, max: impl Into<Number>) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("max", call::number(max));
        call::one("clamp_max", &[self], attrs)
    }

    /// Returns x + weight * (end - x).
    ///
    /// - `x`, this tensor: floats, any shape
    /// - `end`: x's dtype; a shape that broadcasts with x
    /// - `weight`: x's dtype; a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::lerp`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let end = Tensor::from_slice(&[5.0f32, 10.0], 2, &machine)?;
    /// assert_eq!(x.lerp(&end, 0.25)?.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn lerp<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(end);
        call::operand(weight.into(), "weight", &mut given, &mut attrs);
        call::one("lerp", &given, attrs)
    }

    /// Returns x + value * tensor1 * tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::addcmul`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// assert_eq!(x.addcmul(&tensor1, &tensor2)?.to_vec::<f32>()?, [7.0, 34.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::one("addcmul", &given, Attrs::new())
    }

    /// Returns x + value * tensor1 * tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    /// - `options`: [`struct@Addcmul`], which has defaults
    ///
    /// PyTorch: `aten::addcmul`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// let y = x.addcmul_with(&tensor1, &tensor2, options::Addcmul::default().value(10))?;
    /// assert_eq!(y.to_vec::<f32>()?, [61.0, 322.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul_with(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        options: Addcmul,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::one("addcmul", &given, options.attrs)
    }

    /// Returns x + value * tensor1 / tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::addcdiv`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// assert_eq!(x.addcdiv(&tensor1, &tensor2)?.to_vec::<f32>()?, [2.5, 2.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::one("addcdiv", &given, Attrs::new())
    }

    /// Returns x + value * tensor1 / tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    /// - `options`: [`struct@Addcdiv`], which has defaults
    ///
    /// PyTorch: `aten::addcdiv`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// let y = x.addcdiv_with(&tensor1, &tensor2, options::Addcdiv::default().value(2))?;
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv_with(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        options: Addcdiv,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::one("addcdiv", &given, options.attrs)
    }

    /// Returns the value where the mask is true, else x.
    ///
    /// - `x`, this tensor: any shape
    /// - `mask`: bool; a shape that broadcasts with x
    /// - `value`: a tensor of no dimensions; or a number
    ///
    /// PyTorch: `aten::masked_fill`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let mask = Tensor::from_slice(&[false, true, true], 3, &machine)?;
    /// assert_eq!(x.masked_fill(&mask, 0)?.to_vec::<f32>()?, [1.0, 0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill<'a>(&self, mask: &Tensor, value: impl Into<Operand<'a>>) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(mask);
        call::operand(value.into(), "value", &mut given, &mut attrs);
        call::one("masked_fill", &given, attrs)
    }

    /// Sets this tensor to the value where the mask is true, else x.
    ///
    /// - `x`, this tensor: any shape
    /// - `mask`: bool; a shape that broadcasts with x
    /// - `value`: a tensor of no dimensions; or a number
    ///
    /// PyTorch: `aten::masked_fill_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let mask = Tensor::from_slice(&[false, true, true], 3, &machine)?;
    /// x.masked_fill_(&mask, 0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 0.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_fill_<'a>(
        &self,
        mask: &Tensor,
        value: impl Into<Operand<'a>>,
    ) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(mask);
        call::operand(value.into(), "value", &mut given, &mut attrs);
        call::changed("masked_fill_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x, at least min.
    ///
    /// - `x`, this tensor: any shape
    /// - `min`: the least value
    ///
    /// PyTorch: `aten::clamp_min_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.5, 2.0], 3, &machine)?;
    /// x.clamp_min_(0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.5, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_min_(&self, min: impl Into<Number>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("min", call::number(min));
        call::changed("clamp_min_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x, at most max.
    ///
    /// - `x`, this tensor: any shape
    /// - `max`: the greatest value
    ///
    /// PyTorch: `aten::clamp_max_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[-1.0f32, 0.5, 2.0], 3, &machine)?;
    /// x.clamp_max_(1)?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_max_(&self, max: impl Into<Number>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("max", call::number(max));
        call::changed("clamp_max_", &[self], attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x + weight * (end - x).
    ///
    /// - `x`, this tensor: floats, any shape
    /// - `end`: x's dtype; a shape that broadcasts with x
    /// - `weight`: x's dtype; a shape that broadcasts with x; or a number
    ///
    /// PyTorch: `aten::lerp_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let end = Tensor::from_slice(&[5.0f32, 10.0], 2, &machine)?;
    /// x.lerp_(&end, 0.25)?;
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn lerp_<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<&Tensor> {
        let mut given = call::given(self);
        let mut attrs = Attrs::new();
        given.push(end);
        call::operand(weight.into(), "weight", &mut given, &mut attrs);
        call::changed("lerp_", &given, attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x + value * tensor1 * tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::addcmul_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// x.addcmul_(&tensor1, &tensor2)?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 34.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::changed("addcmul_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x + value * tensor1 * tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    /// - `options`: [`struct@Addcmul`], which has defaults
    ///
    /// PyTorch: `aten::addcmul_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// x.addcmul_with_(&tensor1, &tensor2, options::Addcmul::default().value(10))?;
    /// assert_eq!(x.to_vec::<f32>()?, [61.0, 322.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul_with_(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        options: Addcmul,
    ) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::changed("addcmul_", &given, options.attrs)?;
        Ok(self)
    }

    /// Sets this tensor to x + value * tensor1 / tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::addcdiv_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// x.addcdiv_(&tensor1, &tensor2)?;
    /// assert_eq!(x.to_vec::<f32>()?, [2.5, 2.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv_(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::changed("addcdiv_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Sets this tensor to x + value * tensor1 / tensor2.
    ///
    /// - `x`, this tensor: any shape
    /// - `tensor1`: a shape that broadcasts with x
    /// - `tensor2`: a shape that broadcasts with x
    /// - `options`: [`struct@Addcdiv`], which has defaults
    ///
    /// PyTorch: `aten::addcdiv_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let tensor1 = Tensor::from_slice(&[3.0f32, 4.0], 2, &machine)?;
    /// let tensor2 = Tensor::from_slice(&[2.0f32, 8.0], 2, &machine)?;
    /// x.addcdiv_with_(&tensor1, &tensor2, options::Addcdiv::default().value(2))?;
    /// assert_eq!(x.to_vec::<f32>()?, [4.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv_with_(
        &self,
        tensor1: &Tensor,
        tensor2: &Tensor,
        options: Addcdiv,
    ) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(tensor1);
        given.push(tensor2);
        call::changed("addcdiv_", &given, options.attrs)?;
        Ok(self)
    }
}
