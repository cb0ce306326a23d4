//! Arithmetic on f32, f64 and i64, the types of computations.

use super::element::Element;

/// A type that elements are computed in: f32, f64 or i64. Integers wrap.
pub(crate) trait Compute: Element + PartialOrd {
    const ONE: Self;
    /// The least value; minus infinity for floats.
    const LEAST: Self;
    /// The greatest value; infinity for floats.
    const GREATEST: Self;

    fn plus(self, y: Self) -> Self;
    fn times(self, y: Self) -> Self;
    fn negative(self) -> Self;
    fn magnitude(self) -> Self;
    /// Returns -1, 0 or 1; 0 for NaN.
    fn sign(self) -> Self;
    fn unordered(self) -> bool;
    fn power(self, exponent: Self) -> Self;
    /// Returns x - y · trunc(x / y). Integer division by zero returns 0; the caller reports it.
    fn truncated_remainder(self, y: Self) -> Self;
    /// Returns x / y rounded towards zero. Integer division by zero returns 0; the caller reports
    /// it.
    fn quotient(self, y: Self) -> Self;
    /// Returns x / y rounded down, consistently with `x - y · floor(x / y)`.
    fn floor_quotient(self, y: Self) -> Self;

    /// Returns x - y · floor(x / y), with the sign of y.
    #[inline(always)]
    fn remainder(self, y: Self) -> Self {
        let rest = self.truncated_remainder(y);
        let other_sign = rest != Self::ZERO && (rest < Self::ZERO) != (y < Self::ZERO);
        if other_sign { rest.plus(y) } else { rest }
    }

    /// Returns the greater; NaN if either is NaN.
    #[inline(always)]
    fn greater(self, y: Self) -> Self {
        if self > y || self.unordered() { self } else { y }
    }

    /// Returns the lesser; NaN if either is NaN.
    #[inline(always)]
    fn lesser(self, y: Self) -> Self {
        if self < y || self.unordered() { self } else { y }
    }

    /// Returns one for true, zero for false.
    #[inline(always)]
    fn from_bool(v: bool) -> Self {
        if v { Self::ONE } else { Self::ZERO }
    }
}

macro_rules! float {
    ($($t:ident)*) => {$(
        impl Compute for $t {
            const ONE: $t = 1.0;
            const LEAST: $t = $t::NEG_INFINITY;
            const GREATEST: $t = $t::INFINITY;

            #[inline(always)]
            fn plus(self, y: $t) -> $t {
                self + y
            }
            #[inline(always)]
            fn times(self, y: $t) -> $t {
                self * y
            }
            #[inline(always)]
            fn negative(self) -> $t {
                -self
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn sign(self) -> $t {
                Self::from_bool(self > 0.0) - Self::from_bool(self < 0.0)
            }
            #[inline(always)]
            fn unordered(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn power(self, exponent: $t) -> $t {
                self.powf(exponent)
            }
            #[inline(always)]
            fn truncated_remainder(self, y: $t) -> $t {
                self % y
            }
            #[inline(always)]
            fn quotient(self, y: $t) -> $t {
                (self / y).trunc()
            }
            // The method of Python: starts from the exact remainder, since rounding x / y may cross
            // a whole number.
            #[inline(always)]
            fn floor_quotient(self, y: $t) -> $t {
                if y == 0.0 {
                    return self / y;
                }
                let rest = self % y;
                let mut quotient = (self - rest) / y;
                if rest != 0.0 && (y < 0.0) != (rest < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $t).copysign(self / y);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
        }
    )*};
}

float! { f32 f64 }

impl Compute for i64 {
    const ONE: i64 = 1;
    const LEAST: i64 = i64::MIN;
    const GREATEST: i64 = i64::MAX;

    #[inline(always)]
    fn plus(self, y: i64) -> i64 {
        self.wrapping_add(y)
    }
    #[inline(always)]
    fn times(self, y: i64) -> i64 {
        self.wrapping_mul(y)
    }
    #[inline(always)]
    fn negative(self) -> i64 {
        self.wrapping_neg()
    }
    #[inline(always)]
    fn magnitude(self) -> i64 {
        self.wrapping_abs()
    }
    #[inline(always)]
    fn sign(self) -> i64 {
        self.signum()
    }
    #[inline(always)]
    fn unordered(self) -> bool {
        false
    }
    fn power(self, exponent: i64) -> i64 {
        match (u64::try_from(exponent), self) {
            (Ok(mut left), mut base) => {
                let mut power = 1i64;
                while left > 0 {
                    if left % 2 == 1 {
                        power = power.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left /= 2;
                }
                power
            }
            // A negative power of any other number is a fraction, which rounds to 0.
            (Err(_), 1) => 1,
            (Err(_), -1) => 1 - 2 * (exponent & 1),
            (Err(_), _) => 0,
        }
    }
    #[inline(always)]
    fn truncated_remainder(self, y: i64) -> i64 {
        if y == 0 { 0 } else { self.wrapping_rem(y) }
    }
    #[inline(always)]
    fn quotient(self, y: i64) -> i64 {
        if y == 0 { 0 } else { self.wrapping_div(y) }
    }
    #[inline(always)]
    fn floor_quotient(self, y: i64) -> i64 {
        let (quotient, rest) = (self.quotient(y), self.truncated_remainder(y));
        let down = rest != 0 && (rest < 0) != (y < 0);
        quotient.wrapping_sub(i64::from(down))
    }
}
