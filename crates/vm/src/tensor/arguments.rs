//! The arguments that methods take: numbers, dimensions, shapes, and tensors or numbers.

use std::ops::{Range, RangeFull, RangeInclusive};

use millstream_ops::args::Scalar;
use millstream_types::ScalarUse;

use crate::handle::Tensor;

use super::Number;

/// A whole number as an argument: any integer type.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.softmax(1)?.shape(), x.softmax(-1i32)?.shape());
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait Int: Copy {
    /// Returns the number; one beyond the range of `i64` becomes the nearest, which every op
    /// refuses.
    fn to_int(self) -> i64;
}

macro_rules! int {
    ($($ty:ty)*) => {$(
        impl Int for $ty {
            fn to_int(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
        impl Ints for $ty {
            fn to_ints(self) -> Vec<i64> {
                vec![self.to_int()]
            }
        }
        impl OneDim for $ty {
            fn to_dim(self) -> Option<i64> {
                Some(self.to_int())
            }
        }
        impl Real for $ty {
            fn to_real(self) -> f64 {
                self as f64
            }
        }
        impl Ints for Range<$ty> {
            fn to_ints(self) -> Vec<i64> {
                self.map(Int::to_int).collect()
            }
        }
        impl Ints for RangeInclusive<$ty> {
            fn to_ints(self) -> Vec<i64> {
                self.map(Int::to_int).collect()
            }
        }
    )*};
}

int! { i32 i64 u32 usize }

/// A floating-point number as an argument: any float or integer type.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.dropout(0.0, 1)?.shape(), [2, 2]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait Real: Copy {
    /// Returns the number.
    fn to_real(self) -> f64;
}

impl Real for f32 {
    fn to_real(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    fn to_real(self) -> f64 {
        self
    }
}

/// A list of whole numbers as an argument, such as a shape: one integer, a tuple, an array, a
/// slice, a vector or a range.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.reshape(4)?.shape(), x.reshape([4])?.shape());
/// assert_eq!(x.reshape((1, 4))?.shape(), x.reshape(vec![1, 4])?.shape());
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait Ints {
    /// Returns the numbers.
    fn to_ints(self) -> Vec<i64>;
}

impl<T: Int, const N: usize> Ints for [T; N] {
    fn to_ints(self) -> Vec<i64> {
        self.into_iter().map(Int::to_int).collect()
    }
}

impl<T: Int, const N: usize> Ints for &[T; N] {
    fn to_ints(self) -> Vec<i64> {
        self.as_slice().to_ints()
    }
}

impl<T: Int> Ints for &[T] {
    fn to_ints(self) -> Vec<i64> {
        self.iter().copied().map(Int::to_int).collect()
    }
}

impl<T: Int> Ints for Vec<T> {
    fn to_ints(self) -> Vec<i64> {
        self.as_slice().to_ints()
    }
}

impl<T: Int> Ints for &Vec<T> {
    fn to_ints(self) -> Vec<i64> {
        self.as_slice().to_ints()
    }
}

/// The shape of a tensor without dimensions.
impl Ints for () {
    fn to_ints(self) -> Vec<i64> {
        Vec::new()
    }
}

macro_rules! tuple {
    ($($name:ident: $ty:ident)*) => {
        impl<$($ty: Int),*> Ints for ($($ty,)*) {
            fn to_ints(self) -> Vec<i64> {
                let ($($name,)*) = self;
                vec![$($name.to_int()),*]
            }
        }
    };
}

tuple! { a: A }
tuple! { a: A b: B }
tuple! { a: A b: B c: C }
tuple! { a: A b: B c: C d: D }
tuple! { a: A b: B c: C d: D e: E }

/// Dimensions as an argument: a list of them, or `..` for all.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.sum(..)?.rank(), 0);
/// assert_eq!(x.sum(1)?.shape(), [2]);
/// assert_eq!(x.sum([0, 1])?.item::<f32>()?, 10.0);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait Dims {
    /// Returns the dimensions; none for all.
    fn to_dims(self) -> Option<Vec<i64>>;
}

impl<T: Ints> Dims for T {
    fn to_dims(self) -> Option<Vec<i64>> {
        Some(self.to_ints())
    }
}

impl Dims for RangeFull {
    fn to_dims(self) -> Option<Vec<i64>> {
        None
    }
}

/// A dimension as an argument, or `..` for all of them.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.argmax(..)?.item::<i64>()?, 3);
/// assert_eq!(x.argmax(1)?.to_vec::<i64>()?, [1, 1]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub trait OneDim {
    /// Returns the dimension; none for all.
    fn to_dim(self) -> Option<i64>;
}

impl OneDim for RangeFull {
    fn to_dim(self) -> Option<i64> {
        None
    }
}

/// A tensor or a number as an operand, as PyTorch's binary ops take it.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// assert_eq!(x.add(&x)?.shape(), x.add(1)?.shape()); // a tensor, or a number
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number, which takes part in type promotion as PyTorch's numbers do.
    Number(Number),
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Operand<'a> {
        Operand::Tensor(tensor)
    }
}

macro_rules! number {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Operand<'_> {
            fn from(number: $ty) -> Self {
                Operand::Number(number.into())
            }
        }
    )*};
}

number! { Number ScalarUse Scalar i32 i64 u32 usize f32 f64 bool }
