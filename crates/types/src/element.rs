//! The Rust types of elements.

use half::{bf16, f16};
use num_complex::Complex;

use crate::dtype::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type of elements: `f32`, `f64`, `half::f16`, `half::bf16`, `i64`, `i32`, `i16`, `i8`,
/// `u8`, `u16`, `u32`, `u64`, `bool`, `Complex<f32>`, `Complex<f64>`.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(f32::DTYPE, DType::F32);
/// let mut bytes = Vec::new();
/// f32::append(&[1.0, 2.0], &mut bytes);
/// assert_eq!(f32::from_bytes(&bytes), [1.0, 2.0]);
/// ```
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The dtype of tensors with these elements.
    const DTYPE: DType;

    /// Returns the element that the first bytes hold.
    ///
    /// # Panics
    /// If there are fewer bytes than an element has.
    fn read(bytes: &[u8]) -> Self;

    /// Writes the element to the first bytes.
    ///
    /// # Panics
    /// If there are fewer bytes than an element has.
    fn write(self, bytes: &mut [u8]);

    /// Returns the element as a number: of a complex one, the real part.
    fn to_f64(self) -> f64;

    /// Returns the elements that whole bytes hold.
    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.chunks_exact(Self::DTYPE.size()).map(Self::read).collect()
    }

    /// Appends the bytes of elements.
    fn append(elements: &[Self], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + elements.len() * Self::DTYPE.size(), 0);
        let chunks = bytes[start..].chunks_exact_mut(Self::DTYPE.size());
        chunks.zip(elements).for_each(|(chunk, element)| element.write(chunk));
    }
}

macro_rules! element {
    ($($ty:ty, $dtype:ident, $number:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;

            #[inline]
            fn read(bytes: &[u8]) -> $ty {
                let mut own = [0; size_of::<$ty>()];
                own.copy_from_slice(&bytes[..size_of::<$ty>()]);
                <$ty>::from_ne_bytes(own)
            }

            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<$ty>()].copy_from_slice(&self.to_ne_bytes());
            }

            fn to_f64(self) -> f64 {
                let number: fn($ty) -> f64 = $number;
                number(self)
            }
        }
    )*};
}

element! {
    f32, F32, f64::from;
    f64, F64, |v| v;
    f16, F16, f64::from;
    bf16, BF16, f64::from;
    i64, I64, |v| v as f64;
    i32, I32, f64::from;
    i16, I16, f64::from;
    i8, I8, f64::from;
    u8, U8, f64::from;
    u16, U16, f64::from;
    u32, U32, f64::from;
    u64, U64, |v| v as f64;
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn read(bytes: &[u8]) -> bool {
        bytes[0] != 0
    }

    fn write(self, bytes: &mut [u8]) {
        bytes[0] = u8::from(self);
    }

    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
}

macro_rules! complex {
    ($($part:ty, $dtype:ident;)*) => {$(
        impl sealed::Sealed for Complex<$part> {}
        impl Element for Complex<$part> {
            const DTYPE: DType = DType::$dtype;

            fn read(bytes: &[u8]) -> Complex<$part> {
                Complex::new(<$part>::read(bytes), <$part>::read(&bytes[size_of::<$part>()..]))
            }

            fn write(self, bytes: &mut [u8]) {
                self.re.write(bytes);
                self.im.write(&mut bytes[size_of::<$part>()..]);
            }

            fn to_f64(self) -> f64 {
                self.re.to_f64()
            }
        }
    )*};
}

complex! {
    f32, C64;
    f64, C128;
}

/// Calls a generic function with the Rust type of a dtype.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $function:ident ( $($argument:expr),* )) => {
        match $dtype {
            $crate::DType::F32 => $function::<f32>($($argument),*),
            $crate::DType::F64 => $function::<f64>($($argument),*),
            $crate::DType::F16 => $function::<$crate::element::F16>($($argument),*),
            $crate::DType::BF16 => $function::<$crate::element::Bf16>($($argument),*),
            $crate::DType::I64 => $function::<i64>($($argument),*),
            $crate::DType::I32 => $function::<i32>($($argument),*),
            $crate::DType::I16 => $function::<i16>($($argument),*),
            $crate::DType::I8 => $function::<i8>($($argument),*),
            $crate::DType::U8 => $function::<u8>($($argument),*),
            $crate::DType::U16 => $function::<u16>($($argument),*),
            $crate::DType::U32 => $function::<u32>($($argument),*),
            $crate::DType::U64 => $function::<u64>($($argument),*),
            $crate::DType::Bool => $function::<bool>($($argument),*),
            $crate::DType::C64 => $function::<$crate::element::C64>($($argument),*),
            $crate::DType::C128 => $function::<$crate::element::C128>($($argument),*),
        }
    };
}

/// The type of f16 elements, for [`with_element`].
///
/// ```
/// # use millstream_types::{Element, element::*};
/// assert_eq!(F16::from_f32(1.5).to_f64(), 1.5);
/// ```
pub type F16 = f16;
/// The type of bf16 elements, for [`with_element`].
///
/// ```
/// # use millstream_types::{Element, element::*};
/// assert_eq!(Bf16::from_f32(1.5).to_f64(), 1.5);
/// ```
pub type Bf16 = bf16;
/// The type of c64 elements.
///
/// ```
/// # use millstream_types::{Element, element::*};
/// assert_eq!(C64::new(1.5, 0.0).to_f64(), 1.5);
/// ```
pub type C64 = Complex<f32>;
/// The type of c128 elements.
///
/// ```
/// # use millstream_types::{Element, element::*};
/// assert_eq!(C128::new(1.5, 0.0).to_f64(), 1.5);
/// ```
pub type C128 = Complex<f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        #[track_caller]
        fn check<T: Element + PartialEq + std::fmt::Debug>(elements: &[T]) {
            let mut bytes = vec![7];
            T::append(elements, &mut bytes);
            assert_eq!(bytes.len(), 1 + elements.len() * T::DTYPE.size());
            assert_eq!(T::from_bytes(&bytes[1..]), elements);
        }
        check(&[1.5f32, f32::INFINITY]);
        check(&[f16::from_f32(1.5), f16::MIN]);
        check(&[i64::MIN, -1]);
        check(&[u16::MAX, 1]);
        check(&[u64::MAX, 1 << 63]);
        check(&[true, false]);
        check(&[C64::new(1.0, -2.0), C64::new(0.0, 3.0)]);
        check(&[C128::new(1.0, -2.0)]);
        assert_eq!(bool::from_bytes(&[2, 0]), [true, false]);
        fn size<T: Element>() -> usize {
            size_of::<T>()
        }
        for dtype in DType::ALL {
            assert_eq!(with_element!(dtype, size()), dtype.size());
        }
    }
}
