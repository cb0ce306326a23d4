//! New tensors.
//!
//! Long because each function has an example.

use std::ops::Range;

use millstream_runtime::scope::origin;
use millstream_types::{Attrs, DType, DeviceId, Element, Error, Result, TensorSpec};

use crate::handle::{Tensor, global};

use super::{Ints, Number, Operand, Place, Real, Seed, call};

/// Returns the lengths of a shape.
///
/// # Errors
/// One is negative.
pub(super) fn lengths(shape: impl Ints) -> Result<Vec<usize>> {
    let shape = shape.to_ints();
    let lengths = shape.iter().map(|&length| usize::try_from(length));
    lengths.collect::<std::result::Result<_, _>>().map_err(|_| Error::Invalid {
        what: "shape",
        message: format!("expected lengths of 0 or more, got {shape:?}"),
    })
}

/// Calls an op that takes no tensor.
#[track_caller]
pub(crate) fn create(op: &str, attrs: Attrs, place: &impl Place) -> Result<Tensor> {
    let origin = origin::caller();
    let stream = place.stream().map_err(|e| e.at(&origin))?;
    if let Some(sharding) = place.sharding() {
        let made = global::create(op, &attrs, &sharding, &stream, &origin);
        return made.map_err(|e| e.at(&origin));
    }
    let mut made = place.machine().call(op, &[]).attrs(attrs).origin(origin).on(&stream)?;
    made.pop().ok_or_else(|| Error::Internal { message: format!("{op} made nothing") })
}

/// New tensors. `place` is a machine (its current stream), a stream, a machine with a device, or
/// another tensor.
impl Tensor {
    /// Returns a tensor with these elements, in row-major order.
    ///
    /// ```
    /// # fn main() -> millstream_types::Result<()> {
    /// use millstream_vm::{Machine, MachineConfig, Tensor};
    ///
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.sum(0)?.to_vec::<f32>()?, [4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The shape has more or fewer elements, or the memory is used up.
    #[track_caller]
    pub fn from_slice<T: Element>(
        elements: &[T],
        shape: impl Ints,
        place: impl Place,
    ) -> Result<Tensor> {
        let origin = origin::caller();
        let made = || {
            let shape = lengths(shape)?;
            let spec = TensorSpec::contiguous(T::DTYPE, &shape)?;
            if spec.numel() != elements.len() {
                let message = format!("expected {} elements, got {}", spec, elements.len());
                return Err(Error::Invalid { what: "data", message });
            }
            let mut bytes = Vec::new();
            let size = spec.span_bytes();
            bytes.try_reserve_exact(size).map_err(|_| Error::Invalid {
                what: "data",
                message: format!("there is no memory for {size} bytes"),
            })?;
            T::append(elements, &mut bytes);
            let stream = place.stream()?;
            if let Some(sharding) = place.sharding() {
                return global::upload(spec, bytes, &sharding, &stream, &origin);
            }
            place.machine().upload_at(&stream, spec, bytes, origin.clone())
        };
        made().map_err(|e| e.at(&origin))
    }

    /// Returns a tensor with these elements, in row-major order.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_vec(vec![1i64, 2, 3], 3, &machine)?;
    /// assert_eq!(x.shape(), [3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    #[track_caller]
    pub fn from_vec<T: Element>(
        elements: Vec<T>,
        shape: impl Ints,
        place: impl Place,
    ) -> Result<Tensor> {
        Tensor::from_slice(&elements, shape, place)
    }

    /// Returns a tensor without dimensions, of one element.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(Tensor::scalar(2.5f64, &machine)?.item::<f64>()?, 2.5);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn scalar<T: Element>(element: T, place: impl Place) -> Result<Tensor> {
        Tensor::from_slice(&[element], (), place)
    }

    /// Returns a tensor of one value. The dtype is i64 for integers, f32 for floats, as PyTorch's.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(Tensor::full((2, 2), 0.5, &machine)?.to_vec::<f32>()?, [0.5; 4]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn full(shape: impl Ints, value: impl Into<Number>, place: impl Place) -> Result<Tensor> {
        let attrs = Attrs::new().with("shape", shape.to_ints());
        create("full", attrs.with("value", call::number(value)), &place)
    }

    #[track_caller]
    fn full_of(shape: impl Ints, value: i64, dtype: DType, place: impl Place) -> Result<Tensor> {
        let attrs = Attrs::new().with("shape", shape.to_ints()).with("value", value);
        create("full", attrs.with("dtype", dtype), &place)
    }

    /// Returns a tensor of zeros.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(Tensor::zeros(3, DType::F32, &machine)?.to_vec::<f32>()?, [0.0; 3]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn zeros(shape: impl Ints, dtype: DType, place: impl Place) -> Result<Tensor> {
        Tensor::full_of(shape, 0, dtype, place)
    }

    /// Returns a tensor of ones.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(Tensor::ones([1, 2], DType::I64, &machine)?.to_vec::<i64>()?, [1, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn ones(shape: impl Ints, dtype: DType, place: impl Place) -> Result<Tensor> {
        Tensor::full_of(shape, 1, dtype, place)
    }

    /// Returns a tensor of zeros with the shape and dtype of this one, beside it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.zeros_like()?.to_vec::<f32>()?, [0.0; 4]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn zeros_like(&self) -> Result<Tensor> {
        Tensor::zeros(self.shape(), self.dtype(), self)
    }

    /// Returns a tensor of ones with the shape and dtype of this one, beside it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.ones_like()?.shape(), x.shape());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn ones_like(&self) -> Result<Tensor> {
        Tensor::ones(self.shape(), self.dtype(), self)
    }

    /// Returns the numbers of a range, in steps of 1: i64 for integers, f32 for floats.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(Tensor::arange(2..5, &machine)?.to_vec::<i64>()?, [2, 3, 4]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The range is empty in the wrong direction, or the memory is used up.
    #[track_caller]
    pub fn arange<T: Into<Number>>(range: Range<T>, place: impl Place) -> Result<Tensor> {
        Tensor::arange_by(range, 1, place)
    }

    /// Returns the numbers of a range, in steps of `step`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(Tensor::arange_by(0.0..1.0, 0.5, &machine)?.to_vec::<f32>()?, [0.0, 0.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The step is 0 or leads away from the end, or the memory is used up.
    #[track_caller]
    pub fn arange_by<T: Into<Number>>(
        range: Range<T>,
        step: impl Into<Number>,
        place: impl Place,
    ) -> Result<Tensor> {
        let attrs = Attrs::new()
            .with("start", call::number(range.start))
            .with("end", call::number(range.end))
            .with("step", call::number(step));
        create("arange", attrs, &place)
    }

    /// Returns f32 random numbers, uniform from 0 up to 1. PyTorch's `rand`, with other numbers.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::rand(100, 1, &machine)?.to_vec::<f32>()?;
    /// assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn rand(shape: impl Ints, seed: impl Into<Seed>, place: impl Place) -> Result<Tensor> {
        Tensor::uniform(0.0..1.0, shape, seed, place)
    }

    /// Returns f32 random numbers, normally distributed with mean 0 and standard deviation 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::randn((2, 3), 1, &machine)?;
    /// assert_eq!(x.to_vec::<f32>()?, Tensor::randn((2, 3), 1, &machine)?.to_vec::<f32>()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn randn(shape: impl Ints, seed: impl Into<Seed>, place: impl Place) -> Result<Tensor> {
        Tensor::normal(0.0, 1.0, shape, seed, place)
    }

    /// Returns f32 random numbers, uniform in a range.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::uniform(-1.0..1.0, 100, 1, &machine)?.to_vec::<f32>()?;
    /// assert!(x.iter().all(|x| x.abs() <= 1.0));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The range or the shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn uniform<T: Real>(
        range: Range<T>,
        shape: impl Ints,
        seed: impl Into<Seed>,
        place: impl Place,
    ) -> Result<Tensor> {
        let (from, to) = (range.start.to_real(), range.end.to_real());
        let mut attrs = Attrs::new().with("shape", shape.to_ints()).with("from", from);
        attrs.set("to", to);
        seed.into().set(&mut attrs);
        create("uniform", attrs, &place)
    }

    /// Returns f32 random numbers, normally distributed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::normal(5.0, 0.1, 100, 1, &machine)?;
    /// assert!((x.mean(..)?.item::<f32>()? - 5.0).abs() < 0.1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The deviation or the shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn normal(
        mean: impl Real,
        std: impl Real,
        shape: impl Ints,
        seed: impl Into<Seed>,
        place: impl Place,
    ) -> Result<Tensor> {
        let mut attrs = Attrs::new().with("shape", shape.to_ints());
        attrs.set("mean", mean.to_real());
        attrs.set("std", std.to_real());
        seed.into().set(&mut attrs);
        create("normal", attrs, &place)
    }

    /// Returns i64 random numbers, uniform in a range.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::randint(0..10, 100, 1, &machine)?.to_vec::<i64>()?;
    /// assert!(x.iter().all(|x| (0..10).contains(x)));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The range is empty, the shape is invalid, or the memory is used up.
    #[track_caller]
    pub fn randint(
        range: Range<i64>,
        shape: impl Ints,
        seed: impl Into<Seed>,
        place: impl Place,
    ) -> Result<Tensor> {
        let mut attrs = Attrs::new().with("shape", shape.to_ints());
        attrs.set("low", range.start);
        attrs.set("high", range.end);
        seed.into().set(&mut attrs);
        create("randint", attrs, &place)
    }

    /// Returns the tensor on a device: itself if it is there, or else a copy.
    ///
    /// ```
    /// # use millstream_types::DeviceId;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let here = x.to(&DeviceId::cpu(0))?; // it is there: the tensor itself
    /// assert_eq!(here.device(), x.device());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, or its memory is used up.
    #[track_caller]
    pub fn to(&self, device: &DeviceId) -> Result<Tensor> {
        let origin = origin::caller();
        if self.device() == device {
            return Ok(self.clone());
        }
        let stream = (self.machine(), device).stream().map_err(|e| e.at(&origin))?;
        crate::with_origin(&origin, || self.copy_to(&stream))
    }

    /// Returns the tensor in row-major order without gaps: itself if it is, or else a copy.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.t()?.contiguous()?.spec().layout.strides(), [2, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.spec().layout.is_contiguous() {
            return Ok(self.clone());
        }
        call::one("copy", &[self], Attrs::new())
    }

    /// Returns where `self`, a bool tensor, is true the elements of `x`, else those of `y`. Both
    /// may be numbers. PyTorch's `torch.where`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.gt(2)?.where_cond(&x, 0.0)?.to_vec::<f32>()?, [0.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shapes do not broadcast, or the memory is used up.
    #[track_caller]
    pub fn where_cond<'a>(
        &self,
        x: impl Into<Operand<'a>>,
        y: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        let (mut given, mut attrs) = (call::given(self), Attrs::new());
        call::operand(x.into(), "self", &mut given, &mut attrs);
        call::operand(y.into(), "other", &mut given, &mut attrs);
        call::one("where", &given, attrs)
    }
}
