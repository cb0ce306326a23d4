//! Element types: the Rust types of dtypes, and conversions between them.

use half::{bf16, f16};
use millstream_ops::args::Scalar;
use millstream_types::DType;
use num_complex::Complex;

use super::half_float;

/// A Rust type with the size, alignment and meaning of a dtype. Every bit pattern is a value.
pub(crate) trait Element: Copy + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;
    /// Zero, or false.
    const ZERO: Self;
    /// The type that conversions start from; it holds every value of this type.
    type Carrier: Carrier;

    fn carry(self) -> Self::Carrier;
    fn from_i64(v: i64) -> Self;
    fn from_f32(v: f32) -> Self;
    fn from_f64(v: f64) -> Self;
    /// Integers keep the low bits.
    fn from_u64(v: u64) -> Self;
    /// Returns the real part, or for bool whether one of the parts is not zero.
    #[inline(always)]
    fn from_complex(v: Complex<f64>) -> Self {
        Self::from_f64(v.re)
    }
    /// Returns the bits, to be stored in a word of a workspace. Of a c128 that is the real part:
    /// numbers among arguments are real.
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

/// One of the four types that hold every element without loss.
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

impl Carrier for Complex<f64> {
    #[inline(always)]
    fn convert<T: Element>(self) -> T {
        T::from_complex(self)
    }
}

/// Converts a value to another element type by the rules of the op `cast`.
#[inline(always)]
pub(crate) fn cast<S: Element, T: Element>(v: S) -> T {
    v.carry().convert()
}

/// Converts a scalar argument to an element.
pub(crate) fn from_scalar<T: Element>(v: Scalar) -> T {
    match v {
        Scalar::Int(v) => T::from_i64(v),
        Scalar::Float(v) => T::from_f64(v),
        Scalar::Bool(v) => T::from_i64(i64::from(v)),
    }
}

/// Returns the greatest finite number of a float dtype, or of the parts of a complex one.
pub(crate) fn greatest_finite(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 | DType::C64 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// A bool as stored in memory: one byte, true unless zero.
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

// Rust's `as` follows the rules of `cast`: a float rounds towards zero to an integer, saturates,
// and NaN becomes 0; an integer converted to an integer keeps the low bits.
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
            fn from_u64(v: u64) -> Self {
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
    ($($t:ty, $dtype:ident, $widen:path, $narrow:path;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = <$t>::ZERO;
            type Carrier = f32;

            #[inline(always)]
            fn carry(self) -> f32 {
                $widen(self)
            }
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                $narrow(v as f32)
            }
            #[inline(always)]
            fn from_f32(v: f32) -> Self {
                $narrow(v)
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                $narrow(v as f32)
            }
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                $narrow(v as f32)
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

half_float! {
    f16, F16, half_float::widen, half_float::narrow;
    bf16, BF16, bf16::to_f32, bf16::from_f32;
}

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
    fn from_u64(v: u64) -> Self {
        Bool::new(v != 0)
    }
    #[inline(always)]
    fn from_complex(v: Complex<f64>) -> Self {
        Bool::new(v.re != 0.0 || v.im != 0.0)
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

macro_rules! complex {
    ($($part:ty, $dtype:ident, $to:expr, $from:expr;)*) => {$(
        impl Element for Complex<$part> {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = Complex::new(0.0, 0.0);
            type Carrier = Complex<f64>;

            #[inline(always)]
            fn carry(self) -> Complex<f64> {
                Complex::new(self.re.into(), self.im.into())
            }
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                Complex::new(v as $part, 0.0)
            }
            #[inline(always)]
            fn from_f32(v: f32) -> Self {
                Complex::new(v as $part, 0.0)
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                Complex::new(v as $part, 0.0)
            }
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                Complex::new(v as $part, 0.0)
            }
            #[inline(always)]
            fn from_complex(v: Complex<f64>) -> Self {
                Complex::new(v.re as $part, v.im as $part)
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

complex! {
    f32, C64,
    |v: Complex<f32>| u64::from(v.im.to_bits()) << 32 | u64::from(v.re.to_bits()),
    |w: u64| Complex::new(f32::from_bits(w as u32), f32::from_bits((w >> 32) as u32));
    f64, C128, |v: Complex<f64>| v.re.to_bits(), |w| Complex::new(f64::from_bits(w), 0.0);
}

/// Evaluates an expression with the type name `$t` bound to a type.
macro_rules! with_type {
    ($t:ident, $rust:ty, $body:expr) => {{
        type $t = $rust;
        $body
    }};
}
pub(crate) use with_type;

/// Evaluates an expression with the type name `$t` bound to the Rust type of a dtype. u16, u32 and
/// u64 have no types of their own: their elements are the bits of the signed integer of their size.
/// [`StridedRow`](super::strided::StridedRow) and [`scalar_for`](super::unsigned::scalar_for) know
/// their values.
macro_rules! dispatch {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        match $dtype {
            DType::F32 => $crate::cpu::element::with_type!($t, f32, $body),
            DType::F64 => $crate::cpu::element::with_type!($t, f64, $body),
            DType::F16 => $crate::cpu::element::with_type!($t, half::f16, $body),
            DType::BF16 => $crate::cpu::element::with_type!($t, half::bf16, $body),
            DType::I64 | DType::U64 => $crate::cpu::element::with_type!($t, i64, $body),
            DType::I32 | DType::U32 => $crate::cpu::element::with_type!($t, i32, $body),
            DType::I16 | DType::U16 => $crate::cpu::element::with_type!($t, i16, $body),
            DType::I8 => $crate::cpu::element::with_type!($t, i8, $body),
            DType::U8 => $crate::cpu::element::with_type!($t, u8, $body),
            DType::Bool => $crate::cpu::element::with_type!($t, $crate::cpu::element::Bool, $body),
            DType::C64 => $crate::cpu::element::with_type!($t, num_complex::Complex<f32>, $body),
            DType::C128 => $crate::cpu::element::with_type!($t, num_complex::Complex<f64>, $body),
        }
    }};
}
pub(crate) use dispatch;

/// Evaluates an expression with the type name `$t` bound to the type of computations with one final
/// rounding: f32 for f32, f16 and bf16; f64 for f64; i64 for integers (the bits of u64) and bool.
/// Loads and stores convert, so a kernel is compiled for three types instead of thirteen. A store
/// to a narrower integer keeps the low bits, and a store to bool is "nonzero", so sums and products
/// equal those computed in the dtype itself. Complex dtypes return an error from the calling
/// function: their functions are in `complex`.
macro_rules! compute {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        match $dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                $crate::cpu::element::with_type!($t, f32, $body)
            }
            DType::F64 => $crate::cpu::element::with_type!($t, f64, $body),
            dtype if dtype.is_int() || dtype == DType::Bool => {
                $crate::cpu::element::with_type!($t, i64, $body)
            }
            other => anyhow::bail!("{other}: expected real numbers: schema and kernel disagree"),
        }
    }};
}
pub(crate) use compute;

/// As `compute!`, for the types in which a [`Function`](super::function::Function) computes, which
/// may be complex.
macro_rules! computed {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        match $dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                $crate::cpu::element::with_type!($t, f32, $body)
            }
            DType::F64 => $crate::cpu::element::with_type!($t, f64, $body),
            DType::C64 => $crate::cpu::element::with_type!($t, num_complex::Complex<f32>, $body),
            DType::C128 => $crate::cpu::element::with_type!($t, num_complex::Complex<f64>, $body),
            _ => $crate::cpu::element::with_type!($t, i64, $body),
        }
    }};
}
pub(crate) use computed;

/// Evaluates an expression with the type name `$t` bound to the integer type that
/// [`bits`](super::memory::bits) selects for a dtype: kernels that only move elements are compiled
/// for five types instead of fifteen.
macro_rules! moved {
    ($dtype:expr, $t:ident => $body:expr) => {{
        match $dtype.size() {
            1 => $crate::cpu::element::with_type!($t, u8, $body),
            2 => $crate::cpu::element::with_type!($t, i16, $body),
            4 => $crate::cpu::element::with_type!($t, i32, $body),
            8 => $crate::cpu::element::with_type!($t, i64, $body),
            _ => $crate::cpu::element::with_type!($t, num_complex::Complex<f64>, $body),
        }
    }};
}
pub(crate) use moved;
