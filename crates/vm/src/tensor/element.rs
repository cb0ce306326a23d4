//! The Rust types of elements.

use half::{bf16, f16};

use millstream_types::DType;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type of elements: `f32`, `f64`, `half::f16`, `half::bf16`, `i64`, `i32`, `i16`, `i8`,
/// `u8`, `bool`.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The dtype of tensors with these elements.
    const DTYPE: DType;

    /// Appends the bytes of elements.
    fn append(elements: &[Self], bytes: &mut Vec<u8>);

    /// Returns the elements that whole bytes hold.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;

    /// Returns the element as a number.
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($($ty:ty, $dtype:ident, $number:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;

            fn append(elements: &[$ty], bytes: &mut Vec<u8>) {
                bytes.extend(elements.iter().flat_map(|v| v.to_ne_bytes()));
            }

            fn from_bytes(bytes: &[u8]) -> Vec<$ty> {
                let (whole, _) = bytes.as_chunks();
                whole.iter().map(|&chunk| <$ty>::from_ne_bytes(chunk)).collect()
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
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn append(elements: &[bool], bytes: &mut Vec<u8>) {
        bytes.extend(elements.iter().map(|&v| u8::from(v)));
    }

    fn from_bytes(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }

    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
}

/// Calls a generic function with the Rust type of a dtype.
macro_rules! with_element {
    ($dtype:expr, $function:ident ( $($argument:expr),* )) => {
        match $dtype {
            millstream_types::DType::F32 => $function::<f32>($($argument),*),
            millstream_types::DType::F64 => $function::<f64>($($argument),*),
            millstream_types::DType::F16 => $function::<half::f16>($($argument),*),
            millstream_types::DType::BF16 => $function::<half::bf16>($($argument),*),
            millstream_types::DType::I64 => $function::<i64>($($argument),*),
            millstream_types::DType::I32 => $function::<i32>($($argument),*),
            millstream_types::DType::I16 => $function::<i16>($($argument),*),
            millstream_types::DType::I8 => $function::<i8>($($argument),*),
            millstream_types::DType::U8 => $function::<u8>($($argument),*),
            millstream_types::DType::Bool => $function::<bool>($($argument),*),
        }
    };
}
pub(super) use with_element;
