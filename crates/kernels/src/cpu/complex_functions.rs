//! Elementary functions of complex numbers in f64. At infinities, NaN and signed zeros they have
//! the values of C99, Annex G, which PyTorch's also have. Huge arguments do not overflow.
//!
//! Source of the formulas: W. Kahan, "Branch cuts for complex elementary functions", in "The State
//! of the Art in Numerical Analysis", 1987; the division is that of R. L. Smith, CACM 5 (1962);
//! ISO/IEC 9899:1999, Annex G, "IEC 60559-compatible complex arithmetic".

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

use num_complex::Complex;

pub(super) type C = Complex<f64>;

pub(super) const ZERO: C = C::new(0.0, 0.0);
pub(super) const ONE: C = C::new(1.0, 0.0);

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
/// Beyond this size, 1 is lost beside a number: z² + 1 is z².
const HUGE: f64 = 1e17;
/// Below this size, the square of a number may be 0.
const TINY: f64 = 1e-100;
/// Beyond this real part, e to its power overflows or is near it.
const LARGE_EXPONENT: f64 = 700.0;

/// Returns i · z.
fn turned(z: C) -> C {
    C::new(-z.im, z.re)
}

/// Returns -i · z.
fn turned_back(z: C) -> C {
    C::new(z.im, -z.re)
}

/// Returns the larger absolute value of the two parts; NaN counts as the smaller.
fn size(z: C) -> f64 {
    z.re.abs().max(z.im.abs())
}

/// Returns the product. Unlike `*`, it is infinite if an operand is and no operand is 0.
fn product(x: C, y: C) -> C {
    let plain = x * y;
    let finite = |z: C| z.re.is_finite() && z.im.is_finite();
    if !plain.re.is_nan() || !plain.im.is_nan() || (finite(x) && finite(y)) {
        return plain;
    }
    let infinite = |z: C| z.re.is_infinite() || z.im.is_infinite();
    if !infinite(x) && !infinite(y) {
        return plain;
    }
    // The direction of an infinite operand, and the sign of a NaN beside one.
    let direction = |v: f64| f64::from(u8::from(v.is_infinite())).copysign(v);
    let number = |v: f64| if v.is_nan() { 0f64.copysign(v) } else { v };
    let boxed = |z: C| match infinite(z) {
        true => C::new(direction(z.re), direction(z.im)),
        false => C::new(number(z.re), number(z.im)),
    };
    let bounded = boxed(x) * boxed(y);
    C::new(INF * bounded.re, INF * bounded.im)
}

pub(super) fn quotient(x: C, y: C) -> C {
    if y.re.abs() >= y.im.abs() {
        if y.re == 0.0 {
            return C::new(x.re / y.re.abs(), x.im / y.im.abs());
        }
        let ratio = y.im / y.re;
        let divisor = y.re + y.im * ratio;
        C::new((x.re + x.im * ratio) / divisor, (x.im - x.re * ratio) / divisor)
    } else {
        let ratio = y.re / y.im;
        let divisor = y.re * ratio + y.im;
        C::new((x.re * ratio + x.im) / divisor, (x.im * ratio - x.re) / divisor)
    }
}

/// Returns z divided by its absolute value; 0 for 0.
pub(super) fn sign(z: C) -> C {
    let size = z.re.hypot(z.im);
    if size == 0.0 { ZERO } else { z / size }
}

pub(super) fn exp(z: C) -> C {
    if z.im == 0.0 {
        return C::new(z.re.exp(), z.im);
    }
    if z.re.is_infinite() {
        let size = if z.re > 0.0 { INF } else { 0.0 };
        return match (z.im.is_finite(), z.re > 0.0) {
            (true, _) => C::new(size.copysign(z.im.cos()), size.copysign(z.im.sin())),
            (false, true) => C::new(INF, NAN),
            (false, false) => C::new(0.0, 0f64.copysign(z.im)),
        };
    }
    scaled_turn(z.re, z.im)
}

/// Returns e^size · (cos angle + i sin angle). The power alone may overflow.
fn scaled_turn(size: f64, angle: f64) -> C {
    if size > LARGE_EXPONENT {
        let root = (size / 2.0).exp();
        return C::new(angle.cos() * root * root, angle.sin() * root * root);
    }
    let size = size.exp();
    C::new(size * angle.cos(), size * angle.sin())
}

pub(super) fn expm1(z: C) -> C {
    let half = (z.im / 2.0).sin();
    C::new(z.re.exp_m1() * z.im.cos() - 2.0 * half * half, z.re.exp() * z.im.sin())
}

pub(super) fn log(z: C) -> C {
    let (more, less) = (size(z), z.re.abs().min(z.im.abs()));
    let re = if (0.5..2.0).contains(&more) && !z.re.is_nan() && !z.im.is_nan() {
        ((more - 1.0) * (more + 1.0) + less * less).ln_1p() / 2.0
    } else if more > f64::MAX / 2.0 {
        (z.re / 2.0).hypot(z.im / 2.0).ln() + LN_2
    } else {
        z.re.hypot(z.im).ln()
    };
    C::new(re, z.im.atan2(z.re))
}

/// Returns the logarithm of the sum of two exponentials. As in PyTorch, one of two numbers with the
/// real part -inf is the result: the angle of their sum is open.
pub(super) fn log_sum(x: C, y: C) -> C {
    if x.is_nan() || y.is_nan() {
        return C::new(NAN, NAN);
    }
    let (least, most) = if x.re < y.re { (x, y) } else { (y, x) };
    if least.re == most.re && least.re.is_infinite() {
        return if least.re < 0.0 { least } else { log(exp(least) + exp(most)) };
    }
    log1p(exp(least - most)) + most
}

/// Returns NaN in both parts if one is NaN, also beside an infinity, as PyTorch does. C has no such
/// function.
pub(super) fn log1p(z: C) -> C {
    if z.is_nan() {
        return C::new(NAN, NAN);
    }
    let size = if z == ZERO {
        z.re
    } else if z.re.abs() < 0.5 && z.im.abs() < 0.5 {
        (z.re * (2.0 + z.re) + z.im * z.im).ln_1p() / 2.0
    } else {
        log(C::new(1.0 + z.re, z.im)).re
    };
    C::new(size, z.im.atan2(1.0 + z.re))
}

pub(super) fn sqrt(z: C) -> C {
    if z.im.is_infinite() {
        return C::new(INF, z.im);
    }
    if z.re.is_infinite() {
        let other = if z.im.is_nan() { NAN } else { 0f64.copysign(z.im) };
        return match z.re > 0.0 {
            true => C::new(INF, other),
            false => C::new(other.abs(), INF.copysign(z.im)),
        };
    }
    if z == ZERO {
        return C::new(0.0, z.im);
    }
    // By a power of 4, which the root halves exactly.
    if size(z) > f64::MAX / 4.0 {
        return sqrt(z / 16.0) * 4.0;
    }
    let root = ((z.re.abs() + z.re.hypot(z.im)) / 2.0).sqrt();
    if z.re >= 0.0 {
        C::new(root, z.im / (2.0 * root))
    } else {
        C::new(z.im.abs() / (2.0 * root), root.copysign(z.im))
    }
}

/// Returns z to the power of the exponent, also of 0, by the logarithm.
pub(super) fn power(z: C, exponent: C) -> C {
    exp(product(exponent, log(z)))
}

pub(super) fn sin(z: C) -> C {
    match z.im.is_infinite() && !z.re.is_finite() {
        true => C::new(NAN, INF),
        false => turned_back(sinh(turned(z))),
    }
}

pub(super) fn cos(z: C) -> C {
    cosh(turned(z))
}

pub(super) fn tan(z: C) -> C {
    turned_back(tanh(turned(z)))
}

pub(super) fn sinh(z: C) -> C {
    if z.im == 0.0 {
        return C::new(z.re.sinh(), z.im);
    }
    if z.re.is_finite() && z.im.is_finite() {
        if z.re.abs() > LARGE_EXPONENT {
            let large = scaled_turn(z.re.abs() - LN_2, z.im);
            return C::new(large.re * z.re.signum(), large.im);
        }
        return C::new(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin());
    }
    match (z.re.is_infinite(), z.im.is_finite()) {
        (true, true) => C::new(z.re * 1f64.copysign(z.im.cos()), INF.copysign(z.im.sin())),
        // C leaves the sign open; this is that of C libraries.
        (true, false) => C::new(INF, NAN),
        (false, _) if z.re == 0.0 => C::new(z.re, NAN),
        (false, _) => C::new(NAN, NAN),
    }
}

pub(super) fn cosh(z: C) -> C {
    let side = 1f64.copysign(z.re);
    if z.im == 0.0 {
        let im = if z.re.is_nan() { z.im } else { z.im * side };
        return C::new(z.re.cosh(), if z.re == 0.0 { z.re * z.im } else { im });
    }
    if z.re.is_finite() && z.im.is_finite() {
        if z.re.abs() > LARGE_EXPONENT {
            let large = scaled_turn(z.re.abs() - LN_2, z.im);
            return C::new(large.re, large.im * side);
        }
        return C::new(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin());
    }
    match (z.re.is_infinite(), z.im.is_finite()) {
        (true, true) => C::new(INF.copysign(z.im.cos()), z.re * 1f64.copysign(z.im.sin())),
        (true, false) => C::new(INF, NAN),
        (false, _) => C::new(NAN, if z.re == 0.0 { 0.0 } else { NAN }),
    }
}

pub(super) fn tanh(z: C) -> C {
    if z.re.is_infinite() {
        let im = if z.im.is_finite() { (2.0 * z.im).sin() } else { z.im };
        return C::new(1f64.copysign(z.re), 0f64.copysign(if z.im == 0.0 { z.im } else { im }));
    }
    if z.im == 0.0 {
        return C::new(z.re.tanh(), z.im);
    }
    if !z.re.is_finite() || !z.im.is_finite() {
        return C::new(if z.re == 0.0 { z.re } else { NAN }, NAN);
    }
    if z.re.abs() > 20.0 {
        let small = 4.0 * z.im.sin() * z.im.cos() * (-2.0 * z.re.abs()).exp();
        return C::new(1f64.copysign(z.re), small);
    }
    quotient(sinh(z), cosh(z))
}

pub(super) fn asin(z: C) -> C {
    turned_back(asinh(turned(z)))
}

pub(super) fn asinh(z: C) -> C {
    if z.im.is_infinite() {
        let angle = if z.re.is_infinite() { FRAC_PI_4 } else { FRAC_PI_2 };
        let im = if z.re.is_nan() { NAN } else { angle.copysign(z.im) };
        return C::new(INF.copysign(z.re), im);
    }
    if !z.re.is_finite() {
        let has_angle = if z.re.is_infinite() { z.im.is_finite() } else { z.im == 0.0 };
        return C::new(z.re, if has_angle { 0f64.copysign(z.im) } else { NAN });
    }
    if z.im.is_nan() {
        return C::new(NAN, NAN);
    }
    if size(z) > HUGE {
        let large = log(C::new(z.re.abs(), z.im));
        return C::new((large.re + LN_2).copysign(z.re), large.im);
    }
    let (s1, s2) = roots(turned(z));
    let im = z.im.abs().atan2((s1 * s2).re);
    C::new((s1.conj() * s2).im.asinh().copysign(z.re), im.copysign(z.im))
}

/// Returns the roots of 1 - z and 1 + z, on the side of the cut that the sign of a zero names.
fn roots(z: C) -> (C, C) {
    (sqrt(C::new(1.0 - z.re, -z.im)), sqrt(C::new(1.0 + z.re, z.im)))
}

pub(super) fn acos(z: C) -> C {
    if size(z) > HUGE || z.re.is_nan() || z.im.is_nan() {
        let angle = acosh(z);
        return C::new(angle.im.abs(), angle.re.copysign(-z.im));
    }
    let (s1, s2) = roots(z);
    C::new(2.0 * s1.re.atan2(s2.re), (s2.conj() * s1).im.asinh().copysign(-z.im))
}

pub(super) fn acosh(z: C) -> C {
    if z.im.is_infinite() {
        let angle = match (z.re.is_infinite(), z.re > 0.0) {
            (true, true) => FRAC_PI_4,
            (true, false) => PI - FRAC_PI_4,
            (false, _) => FRAC_PI_2,
        };
        return C::new(INF, if z.re.is_nan() { NAN } else { angle.copysign(z.im) });
    }
    if z.re.is_infinite() {
        let angle = if z.re > 0.0 { 0f64 } else { PI };
        return C::new(INF, if z.im.is_nan() { NAN } else { angle.copysign(z.im) });
    }
    if z.re.is_nan() || z.im.is_nan() {
        return C::new(NAN, if z.re == 0.0 { FRAC_PI_2 } else { NAN });
    }
    if size(z) > HUGE {
        let large = log(z);
        return C::new(large.re + LN_2, large.im);
    }
    let (s1, s2) = (sqrt(C::new(z.re - 1.0, z.im)), sqrt(C::new(z.re + 1.0, z.im)));
    C::new((s1.conj() * s2).re.asinh().abs(), 2.0 * s1.im.atan2(s2.re))
}

pub(super) fn atan(z: C) -> C {
    turned_back(atanh(turned(z)))
}

pub(super) fn atanh(z: C) -> C {
    if z.im.is_infinite() {
        return C::new(0f64.copysign(z.re), FRAC_PI_2.copysign(z.im));
    }
    if z.re.is_infinite() || (z.re == 0.0 && z.im.is_nan()) {
        let im = if z.im.is_nan() { NAN } else { FRAC_PI_2.copysign(z.im) };
        return C::new(0f64.copysign(z.re), im);
    }
    if z.re.is_nan() || z.im.is_nan() {
        return C::new(NAN, NAN);
    }
    if size(z) > HUGE {
        return C::new(quotient(ONE, z).re.copysign(z.re), FRAC_PI_2.copysign(z.im));
    }
    let (re, square) = (z.re.abs(), z.im * z.im);
    let from_pole = (1.0 - re).hypot(z.im);
    let size = match from_pole < TINY {
        true => (LN_2 - from_pole.ln()) / 2.0,
        false => (4.0 * re / (from_pole * from_pole)).ln_1p() / 4.0,
    };
    let im = (2.0 * z.im).atan2((1.0 - re) * (1.0 + re) - square) / 2.0;
    C::new(size.copysign(z.re), im)
}

pub(super) fn sigmoid(z: C) -> C {
    quotient(ONE, ONE + exp(-z))
}

pub(super) fn silu(z: C) -> C {
    quotient(z, ONE + exp(-z))
}

pub(super) fn sinc(z: C) -> C {
    let angle = z * PI;
    if z == ZERO { ONE } else { quotient(sin(angle), angle) }
}
