//! The float types of computations.

use std::ops::Neg;

use num_traits::NumAssign;

use super::number::Number;

/// A float type of computations: f32, also for f16 and bf16, or f64.
pub(crate) trait Real:
    Number<Wide = Self> + PartialOrd + NumAssign + Neg<Output = Self>
{
    const ONE: Self;
    const INFINITY: Self;

    /// Returns e^x. In f32 it is vectorised in the loops of a
    /// [`Function`](super::function::Function) or of a function that is
    /// [`vectorised!`](super::vectorised::vectorised), and slow elsewhere.
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    fn is_nan(self) -> bool;

    /// Returns the greater of two; NaN if either is NaN.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }
}

macro_rules! real {
    ($($t:ident, $exp:path;)*) => {$(
        impl Real for $t {
            const ONE: Self = 1.0;
            const INFINITY: Self = $t::INFINITY;

            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $t::ln(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
        }
    )*};
}

real! {
    f32, super::vector_math::exp;
    f64, f64::exp;
}

/// Evaluates an expression with the type name `$t` bound to the type in which a float dtype is
/// computed. Any other dtype returns an error from the calling function.
macro_rules! reals {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        match $dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                $crate::cpu::element::with_type!($t, f32, $body)
            }
            DType::F64 => $crate::cpu::element::with_type!($t, f64, $body),
            other => anyhow::bail!("expected floats, got {other}: schema and kernel disagree"),
        }
    }};
}
pub(crate) use reals;
