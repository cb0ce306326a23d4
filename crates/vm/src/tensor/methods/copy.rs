//! Methods of the ops under "Copies and conversions".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, DType, Result};

use crate::handle::Tensor;
use crate::tensor::{Number, call};

/// Options of [`Tensor::cast_with`].
#[derive(Clone, Debug, Default)]
pub struct Cast {
    attrs: Attrs,
}

impl Cast {
    /// Sets `memory_format`: the result's layout: "preserve" (that of x if it is dense),
    /// "contiguous" or "channels_last"; default "preserve".
    #[must_use]
    pub fn memory_format(mut self, memory_format: &str) -> Cast {
        self.attrs.set("memory_format", memory_format);
        self
    }
}

/// Options of [`Tensor::copy_with`].
#[derive(Clone, Debug, Default)]
pub struct Copy {
    attrs: Attrs,
}

impl Copy {
    /// Sets `memory_format`: the result's layout: "preserve" (that of x if it is dense),
    /// "contiguous" or "channels_last"; default "preserve".
    #[must_use]
    pub fn memory_format(mut self, memory_format: &str) -> Copy {
        self.attrs.set("memory_format", memory_format);
        self
    }
}

impl Tensor {
    /// Returns a new tensor with the same elements, in the same layout if that is dense.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::clone`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.copy()?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn copy(&self) -> Result<Tensor> {
        call::one("clone", &[self], Attrs::new())
    }

    /// Returns a new tensor with the same elements, in the same layout if that is dense.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Copy`], which has defaults
    ///
    /// PyTorch: `aten::clone`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 2, 1, 2), &machine)?;
    /// let y = x.copy_with(options::Copy::default().memory_format("channels_last"))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(y.spec().layout.strides(), [4, 1, 4, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_with(&self, options: Copy) -> Result<Tensor> {
        call::one("clone", &[self], options.attrs)
    }

    /// Returns the elements converted to another dtype; floats saturate at the range of integers,
    /// NaN becomes 0.
    ///
    /// - `x`, this tensor: any shape
    /// - `dtype`: the dtype to convert to
    ///
    /// The op `cast`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.5f32, -2.7], 2, &machine)?;
    /// assert_eq!(x.cast(DType::I64)?.to_vec::<i64>()?, [1, -2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("dtype", dtype);
        call::one("cast", &[self], attrs)
    }

    /// Returns the elements converted to another dtype; floats saturate at the range of integers,
    /// NaN becomes 0.
    ///
    /// - `x`, this tensor: any shape
    /// - `dtype`: the dtype to convert to
    /// - `options`: [`struct@Cast`], which has defaults
    ///
    /// The op `cast`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (1, 2, 1, 2), &machine)?;
    /// let y = x.cast_with(DType::F64, options::Cast::default().memory_format("channels_last"))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(y.spec().layout.strides(), [4, 1, 4, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn cast_with(&self, dtype: DType, options: Cast) -> Result<Tensor> {
        let mut attrs = options.attrs;
        attrs.set("dtype", dtype);
        call::one("cast", &[self], attrs)
    }

    /// Sets x to the elements of src, converted as by cast; src is read in full before x is
    /// written.
    ///
    /// - `x`, this tensor: any shape, without overlapping elements; overwritten
    /// - `src`: a shape that broadcasts to x's; any dtype; may share memory with x
    ///
    /// PyTorch: `aten::copy_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// let src = Tensor::from_slice(&[4.0f32, 5.0, 6.0], 3, &machine)?;
    /// x.copy_(&src)?;
    /// assert_eq!(x.to_vec::<f32>()?, [4.0, 5.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn copy_(&self, src: &Tensor) -> Result<&Tensor> {
        let mut given = call::given(self);
        given.push(src);
        call::changed("copy_", &given, Attrs::new())?;
        Ok(self)
    }

    /// Sets every element of x to a value, in place.
    ///
    /// - `x`, this tensor: any shape; overwritten
    /// - `value`: a number that x's dtype can hold
    ///
    /// PyTorch: `aten::fill_`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &machine)?;
    /// x.fill_(7)?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0, 7.0, 7.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn fill_(&self, value: impl Into<Number>) -> Result<&Tensor> {
        let mut attrs = Attrs::new();
        attrs.set("value", call::number(value));
        call::changed("fill", &[self], attrs)?;
        Ok(self)
    }
}
