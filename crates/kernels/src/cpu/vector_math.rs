//! Functions of f32 without branches, calls and tables, so that loops over them are vectorised.
//!
//! | function | greatest error, units in the last place | source |
//! |---|---|---|
//! | [`exp`] | 1.0 | Cephes, `expf` |
//! | [`log`] | 0.8 | Cephes, `logf` |
//! | [`tanh`] | 1.3 | Cephes, `tanhf` |
//! | [`erf`] | 1.4 | N. Juffa, answer 35148199 on stackoverflow.com |
//!
//! Every product that is added to something is an explicit fused multiply-add, which gives the same
//! bits on every processor and in every loop; without the instruction it is a slow call. A test
//! measures the errors against f64.
//!
//! Source of Cephes: S. L. Moshier, *Methods and Programs for Mathematical Functions*, Ellis
//! Horwood (1989); <https://www.netlib.org/cephes/>.

use std::f32::consts::LOG2_E;

/// ln 2 in two parts; products of the first with whole numbers below 2^13 are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// 1.5 · 2^23. Added to a number below 2^22, it moves the whole part into the low bits.
const WHOLE: f32 = 12_582_912.0;

/// Evaluates a polynomial with its highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for &c in &coefficients[1..] {
        sum = sum.mul_add(x, c);
    }
    sum
}

/// Returns 2^k for k from -126 to 127.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127).wrapping_shl(23)).cast_unsigned())
}

/// Returns e^x.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity. Comparisons with NaN are false, so NaN remains.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x.mul_add(LOG2_E, WHOLE);
    let n = shifted - WHOLE;
    let r = n.mul_add(-LN_2[1], n.mul_add(-LN_2[0], x));
    let p = polynomial(
        r,
        [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5],
    );
    let p = p.mul_add(r * r, r) + 1.0;
    // Two factors, because 2^n may be too great or too small for one.
    let k = shifted.to_bits().wrapping_sub(WHOLE.to_bits()).cast_signed();
    let half = k >> 1;
    p * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// Returns the natural logarithm; NaN below 0.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    // The square root of one half, the least mantissa.
    const LEAST: u32 = 0x3f35_04f3;
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 33_554_432.0 } else { x };
    let bits = scaled.to_bits().wrapping_sub(LEAST);
    let e = (bits.cast_signed() >> 23) as f32 - if subnormal { 25.0 } else { 0.0 };
    let z = f32::from_bits((bits & 0x007f_ffff).wrapping_add(LEAST)) - 1.0;
    let p = polynomial(
        z,
        [
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let square = z * z;
    let y = e.mul_add(LN_2[1], p * z * square);
    let y = square.mul_add(-0.5, y);
    let result = e.mul_add(LN_2[0], z + y);
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    let result = if x < 0.0 { f32::NAN } else { result };
    if x.is_nan() { x } else { result }
}

/// Returns the hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = x * x;
    let p = polynomial(
        square,
        [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_5e-2, 1.333_144_2e-1, -3.333_328_3e-1],
    );
    let near = (p * square).mul_add(x, x);
    let far = 1.0 - 2.0 / (exp(magnitude + magnitude) + 1.0);
    let result = if magnitude < 0.625 { near } else { far };
    result.copysign(x)
}

/// Returns the error function.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let (magnitude, square) = (x.abs(), x * x);
    let near = polynomial(
        square,
        [
            -5.967_617e-4,
            4.991_194_2e-3,
            -2.676_813_5e-2,
            1.128_199_25e-1,
            -3.761_253_4e-1,
            1.283_791_7e-1,
        ],
    );
    let near = near.mul_add(x, x);
    let high = magnitude.mul_add(-1.728_534_7e-5, 3.831_979_7e-4);
    let low = magnitude.mul_add(-3.883_964_4e-3, 2.425_462_2e-2);
    let far = polynomial(
        magnitude,
        [high.mul_add(square, low), -1.067_778_8e-1, -6.348_468_7e-1, -1.287_175_1e-1],
    );
    let far = 1.0 - exp(far.mul_add(magnitude, -magnitude));
    let result = if magnitude > 0.927_734_4 { far } else { near };
    result.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a value of every 1,009th bit pattern, and special ones.
    fn values() -> impl Iterator<Item = f32> {
        let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let bounds = [f32::MIN_POSITIVE, f32::MAX, f32::MIN, 88.722_84, -103.972_08, 1e-45];
        let near_one = (0..2000).map(|k| f32::from_bits(1f32.to_bits() - 1000 + k));
        let patterns = (0..=u32::MAX).step_by(1009).map(f32::from_bits);
        patterns.chain(special).chain(bounds).chain(near_one)
    }

    /// Returns the distance from the exact value in units of the last place of f32.
    fn error(got: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        if !got.is_finite() || !rounded.is_finite() {
            return f64::INFINITY;
        }
        let exponent = rounded.abs().max(f32::MIN_POSITIVE).log2().floor();
        (f64::from(got) - exact).abs() / 2f64.powi(exponent as i32 - 23)
    }

    #[track_caller]
    fn check(what: &str, most: f64, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) {
        let errors = values().map(|x| (error(f(x), exact(f64::from(x))), x));
        let (worst, at) = errors.fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
        println!("{what}: {worst:.3} at {at:?}");
        assert!(worst <= most, "{what}({at:?}) is {}: {worst} units", f(at));
        assert!(f(f32::NAN).is_nan());
    }

    #[test]
    fn errors_are_within_the_stated_units() {
        check("exp", 1.0, exp, f64::exp);
        check("log", 0.8, log, f64::ln);
        check("tanh", 1.3, tanh, f64::tanh);
        check("erf", 1.4, erf, libm::erf);
    }

    #[test]
    fn signs_of_zero_are_kept() {
        for f in [tanh, erf] {
            assert_eq!(f(0.0).to_bits(), 0);
            assert_eq!(f(-0.0).to_bits(), (-0f32).to_bits());
        }
    }
}
