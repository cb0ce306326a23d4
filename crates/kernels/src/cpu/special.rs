//! Functions of elements that std lacks, or that are vectorised in f32.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::compute::Compute;
use super::{series, vector_math};

/// The factor of x³ in the tanh approximation of `gelu`.
///
/// Source: D. Hendrycks, K. Gimpel, "Gaussian error linear units", arXiv:1606.08415 (2016),
/// section 2.
const CUBIC: f64 = 0.044715;

/// The square root of 2/π, the factor of the argument of tanh in that approximation.
const SLOPE: f64 = 0.797_884_560_802_865_4;

/// Functions that std lacks, or that are vectorised in f32. They are always part of the loops that
/// call them, which are compiled for several instruction sets.
pub(crate) trait Special: Compute {
    fn exponential(self) -> Self;
    fn logarithm(self) -> Self;
    fn hyperbolic_tangent(self) -> Self;
    fn error_function(self) -> Self;
    /// Returns 1 minus the error function.
    fn error_function_rest(self) -> Self;
    fn log_gamma(self) -> Self;
    /// Returns the derivative of [`Special::log_gamma`].
    fn digamma(self) -> Self;
    /// Returns the number whose error function this is.
    fn error_function_inverse(self) -> Self;
    fn area_sine(self) -> Self;
    fn area_cosine(self) -> Self;
    fn area_tangent(self) -> Self;
    /// Returns the number, at least 0 and at most `most`; NaN for NaN.
    fn clamped(self, most: Self) -> Self;
    fn sigmoid(self) -> Self;
    fn silu(self) -> Self;
    fn silu_backward(grad: Self, x: Self) -> Self;
    fn gelu(self) -> Self;
    fn gelu_backward(grad: Self, x: Self) -> Self;
    /// The approximation by the hyperbolic tangent.
    fn gelu_by_tanh(self) -> Self;
    fn gelu_by_tanh_backward(grad: Self, x: Self) -> Self;
}

macro_rules! special {
    ($($t:ident, $exp:path, $log:path, $tanh:path, $erf:path, $erfc:path, $lgamma:path,
        $asinh:path, $acosh:path, $atanh:path;)*) => {$(
        impl Special for $t {
            #[inline(always)]
            fn exponential(self) -> $t {
                $exp(self)
            }
            #[inline(always)]
            fn logarithm(self) -> $t {
                $log(self)
            }
            #[inline(always)]
            fn hyperbolic_tangent(self) -> $t {
                $tanh(self)
            }
            #[inline(always)]
            fn error_function(self) -> $t {
                $erf(self)
            }
            #[inline(always)]
            fn error_function_rest(self) -> $t {
                $erfc(self)
            }
            #[inline(always)]
            fn log_gamma(self) -> $t {
                $lgamma(self)
            }
            fn digamma(self) -> $t {
                series::digamma(self.into()) as $t
            }
            fn error_function_inverse(self) -> $t {
                series::error_function_inverse(self.into()) as $t
            }
            #[inline(always)]
            fn area_sine(self) -> $t {
                $asinh(self)
            }
            #[inline(always)]
            fn area_cosine(self) -> $t {
                // libm returns numbers for some numbers below 1.
                if self < 1.0 { $t::NAN } else { $acosh(self) }
            }
            #[inline(always)]
            fn area_tangent(self) -> $t {
                $atanh(self)
            }
            #[inline(always)]
            fn clamped(self, most: $t) -> $t {
                if self < 0.0 { 0.0 } else if self > most { most } else { self }
            }
            #[inline(always)]
            fn sigmoid(self) -> $t {
                1.0 / (1.0 + $exp(-self))
            }
            #[inline(always)]
            fn silu(self) -> $t {
                self * self.sigmoid()
            }
            #[inline(always)]
            fn silu_backward(grad: $t, x: $t) -> $t {
                let share = x.sigmoid();
                grad * share * (1.0 + x * (1.0 - share))
            }
            #[inline(always)]
            fn gelu(self) -> $t {
                0.5 * self * (1.0 + $erf(self * FRAC_1_SQRT_2 as $t))
            }
            #[inline(always)]
            fn gelu_backward(grad: $t, x: $t) -> $t {
                // The density of the standard normal distribution at 0, 1 / √(2π).
                let density = (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5) as $t;
                let share = 0.5 * (1.0 + $erf(x * FRAC_1_SQRT_2 as $t));
                grad * (share + x * density * $exp(-0.5 * x * x))
            }
            #[inline(always)]
            fn gelu_by_tanh(self) -> $t {
                let (x, slope, cubic) = (self, SLOPE as $t, CUBIC as $t);
                0.5 * x * (1.0 + $tanh(slope * (x + cubic * x * x * x)))
            }
            #[inline(always)]
            fn gelu_by_tanh_backward(grad: $t, x: $t) -> $t {
                let (slope, cubic) = (SLOPE as $t, CUBIC as $t);
                let tanh = $tanh(slope * (x + cubic * x * x * x));
                let inner = slope * (1.0 + 3.0 * cubic * x * x);
                grad * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner)
            }
        }
    )*};
}

special! {
    f32, vector_math::exp, vector_math::log, vector_math::tanh, vector_math::erf, libm::erfcf,
        libm::lgammaf, libm::asinhf, libm::acoshf, libm::atanhf;
    f64, f64::exp, f64::ln, f64::tanh, libm::erf, libm::erfc, libm::lgamma,
        libm::asinh, libm::acosh, libm::atanh;
}
