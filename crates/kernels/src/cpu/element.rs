//! The elements of tensors as Rust types, and conversions between them.

use half::{bf16, f16};
use millstream_ops::args::Scalar;
use millstream_types::DType;

/// A Rust type with the size, alignment and meaning of a dtype. Every bit pattern is a value.
pub(crate) trait Element: Copy + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;
    /// Zero, or false.
    const ZERO: Self;
    /// The type that conversions of it start from; holds every value of it.
    type Carrier: Carrier;

    fn carry(self) -> Self::Carrier;
    fn from_i64(v: i64) -> Self;
    fn from_f32(v: f32) -> Self;
    fn from_f64(v: f64) -> Self;
    /// Its bits, to be kept in a word of a workspace.
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

/// One of the three types that every element fits into without loss.
pub(crate) trait Carrier: Copy {
    fn convert<T: Element>(self) -> T;
}

impl Carrier for i64 {
    #[inline(always)]
    fn convert<T: Element>(self) -> T {
        T::from_i64(self)
    }
}
impl Carrier for f32 {
    #[inline(always)]
    fn convert<T: Element>(self) -> T {
        T::from_f32(self)
    }
}
impl Carrier for f64 {
    #[inline(always)]
    fn convert<T: Element>(self) -> T {
        T::from_f64(self)
    }
}

/// The value as another element type, by the rules of the op `cast`.
#[inline(always)]
pub(crate) fn cast<S: Element, T: Element>(v: S) -> T {
    v.carry().convert()
}

/// An argument as an element.
pub(crate) fn from_scalar<T: Element>(v: Scalar) -> T {
    match v {
        Scalar::Int(v) => T::from_i64(v),
        Scalar::Float(v) => T::from_f64(v),
        Scalar::Bool(v) => T::from_i64(i64::from(v)),
    }
}

/// A bool as it lies in memory: one byte, true unless it is zero.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bool(u8);

impl Bool {
    #[inline(always)]
    pub(crate) fn new(v: bool) -> Bool {
        Bool(u8::from(v))
    }

    #[inline(always)]
    pub(crate) fn get(self) -> bool {
        self.0 != 0
    }
}

// Rust's `as` is the rule of `cast` itself: float to integer cuts, saturates and takes NaN to 0;
// integer to integer keeps the low bits.
macro_rules! number {
    ($($t:ty, $dtype:ident, $carrier:ty, $to:expr, $from:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = 0 as $t;
            type Carrier = $carrier;

            #[inline(always)]
            fn carry(self) -> $carrier {
                self as $carrier
            }
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn from_f32(v: f32) -> Self {
                v as $t
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn to_word(self) -> u64 {
                $to(self)
            }
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                $from(word)
            }
        }
    )*};
}

number! {
    f32, F32, f32, |v: f32| u64::from(v.to_bits()), |w| f32::from_bits(w as u32);
    f64, F64, f64, f64::to_bits, f64::from_bits;
    i64, I64, i64, |v| v as u64, |w| w as i64;
    i32, I32, i64, |v| v as u64, |w| w as i32;
    i16, I16, i64, |v| v as u64, |w| w as i16;
    i8, I8, i64, |v| v as u64, |w| w as i8;
    u8, U8, i64, |v| v as u64, |w| w as u8;
}

macro_rules! half_float {
    ($($t:ty, $dtype:ident;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = <$t>::ZERO;
            type Carrier = f32;

            #[inline(always)]
            fn carry(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                <$t>::from_f32(v as f32)
            }
            #[inline(always)]
            fn from_f32(v: f32) -> Self {
                <$t>::from_f32(v)
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                <$t>::from_f32(v as f32)
            }
            #[inline(always)]
            fn to_word(self) -> u64 {
                u64::from(self.to_bits())
            }
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                <$t>::from_bits(word as u16)
            }
        }
    )*};
}

half_float! { f16, F16; bf16, BF16; }

impl Element for Bool {
    const DTYPE: DType = DType::Bool;
    const ZERO: Self = Bool(0);
    type Carrier = i64;

    #[inline(always)]
    fn carry(self) -> i64 {
        i64::from(self.get())
    }
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        Bool::new(v != 0)
    }
    #[inline(always)]
    fn from_f32(v: f32) -> Self {
        Bool::new(v != 0.0)
    }
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        Bool::new(v != 0.0)
    }
    #[inline(always)]
    fn to_word(self) -> u64 {
        u64::from(self.0)
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Bool(word as u8)
    }
}

/// Runs an expression with the type name given standing for the Rust type of a dtype.
macro_rules! dispatch {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        macro_rules! arm {
            ($rust:ty) => {{
                type $t = $rust;
                $body
            }};
        }
        match $dtype {
            DType::F32 => arm!(f32),
            DType::F64 => arm!(f64),
            DType::F16 => arm!(half::f16),
            DType::BF16 => arm!(half::bf16),
            DType::I64 => arm!(i64),
            DType::I32 => arm!(i32),
            DType::I16 => arm!(i16),
            DType::I8 => arm!(i8),
            DType::U8 => arm!(u8),
            DType::Bool => arm!(crate::cpu::element::Bool),
        }
    }};
}
pub(crate) use dispatch;

/// Runs an expression with the type name given standing for the type that elements of a dtype are
/// computed in where one rounding at the end is all that is asked: f32 for f32, f16 and bf16, f64
/// for f64, and i64 for integers and bool. Lanes convert on the way, so that a kernel exists three
/// times, not ten. What leaves an integer dtype's range is cut to its low bits when it is stored,
/// and bool is "not zero", so that sums and products come out as if computed in the dtype.
macro_rules! compute {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        macro_rules! arm {
            ($rust:ty) => {{
                type $t = $rust;
                $body
            }};
        }
        match $dtype {
            DType::F32 | DType::F16 | DType::BF16 => arm!(f32),
            DType::F64 => arm!(f64),
            DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => {
                arm!(i64)
            }
        }
    }};
}
pub(crate) use compute;

/// As `compute!`, for functions that exist for floats only: an error for other dtypes.
macro_rules! float {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        macro_rules! arm {
            ($rust:ty) => {{
                type $t = $rust;
                $body
            }};
        }
        match $dtype {
            DType::F32 | DType::F16 | DType::BF16 => arm!(f32),
            DType::F64 => arm!(f64),
            other => Err(anyhow::anyhow!("{other}: expected floats: schema and kernel disagree")),
        }
    }};
}
pub(crate) use float;

/// Runs an expression with the type name given standing for the integer type of a dtype that
/// [`bits`](super::memory::bits) gives: a kernel that only moves elements exists four times, not
/// ten.
macro_rules! moved {
    ($dtype:expr, $t:ident => $body:expr) => {{
        macro_rules! arm {
            ($rust:ty) => {{
                type $t = $rust;
                $body
            }};
        }
        match $dtype.size() {
            1 => arm!(u8),
            2 => arm!(i16),
            4 => arm!(i32),
            _ => arm!(i64),
        }
    }};
}
pub(crate) use moved;
