//! Arithmetic on elements: computed in a wide type, rounded once.

use half::{bf16, f16};
use num_complex::Complex;

use super::element::{Bool, Element};

/// An element that can be added and multiplied.
pub(crate) trait Number: Element {
    /// The type of computations: f32 for f16 and bf16, the type itself for the others.
    type Wide: Element;

    fn widen(self) -> Self::Wide;
    /// Rounds to nearest, ties to even.
    fn narrow(v: Self::Wide) -> Self;
    /// Integers wrap; bool is or.
    fn plus(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// Integers wrap; bool is and.
    fn times(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

macro_rules! number {
    ($($t:ty, $wide:ty, $widen:expr, $narrow:expr, $plus:expr, $times:expr;)*) => {$(
        impl Number for $t {
            type Wide = $wide;

            #[inline(always)]
            fn widen(self) -> $wide {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(v: $wide) -> Self {
                $narrow(v)
            }
            #[inline(always)]
            fn plus(a: $wide, b: $wide) -> $wide {
                $plus(a, b)
            }
            #[inline(always)]
            fn times(a: $wide, b: $wide) -> $wide {
                $times(a, b)
            }
        }
    )*};
}

macro_rules! float {
    ($($t:ty, $wide:ty, $widen:expr, $narrow:expr;)*) => {number! {$(
        $t, $wide, $widen, $narrow,
        |a, b| a + b,
        |a, b| a * b;
    )*}};
}

macro_rules! int {
    ($($t:ty)*) => {number! {$(
        $t, $t, |v| v, |v| v, <$t>::wrapping_add, <$t>::wrapping_mul;
    )*}};
}

float! {
    f32, f32, |v| v, |v| v;
    f64, f64, |v| v, |v| v;
    f16, f32, f16::to_f32, f16::from_f32;
    bf16, f32, bf16::to_f32, bf16::from_f32;
}

float! {
    Complex<f32>, Complex<f64>, |v: Complex<f32>| v.carry(), Complex::<f32>::from_complex;
    Complex<f64>, Complex<f64>, |v| v, |v| v;
}

int! { i64 i32 i16 i8 u8 }

number! {
    Bool, Bool, |v| v, |v| v,
    |a: Bool, b: Bool| Bool::new(a.get() | b.get()),
    |a: Bool, b: Bool| Bool::new(a.get() & b.get());
}
