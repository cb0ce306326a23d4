//! Functions of elements by series and rational approximations, in f64.

/// Returns the derivative of the logarithm of the gamma function.
///
/// Source: S. Moshier, Cephes, `psi.c`: a recurrence to 10, then the asymptotic series; below 0 the
/// reflection.
pub(super) fn digamma(x: f64) -> f64 {
    /// The coefficients of powers of 1/x², the Bernoulli numbers B₂ₖ / 2k, highest first.
    const SERIES: [f64; 7] = [
        1.0 / 12.0,
        -691.0 / 32760.0,
        1.0 / 132.0,
        -1.0 / 240.0,
        1.0 / 252.0,
        -1.0 / 120.0,
        1.0 / 12.0,
    ];
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    let (mut x, mut sum) = (x, 0.0);
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        sum = -std::f64::consts::PI / (std::f64::consts::PI * x.fract()).tan();
        x = 1.0 - x;
    }
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = SERIES.iter().fold(0.0, |sum, c| sum * z + c);
    sum + x.ln() - 0.5 / x - z * series
}

/// Returns the number whose error function is y.
///
/// Source: the rational approximation of MATLAB's `erfinv`, as in PyTorch's `Math.h`, and two steps
/// of Newton's method.
pub(super) fn error_function_inverse(y: f64) -> f64 {
    const A: [f64; 4] = [-0.140543331, 0.914624893, -1.645349621, 0.886226899];
    const B: [f64; 5] = [0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0];
    const C: [f64; 4] = [1.641345311, 3.429567803, -1.624906493, -1.970840454];
    const D: [f64; 3] = [1.637067800, 3.543889200, 1.0];
    let of = |series: &[f64], z: f64| series.iter().fold(0.0, |sum, c| sum * z + c);
    let size = y.abs();
    if size >= 1.0 || y.is_nan() {
        return if size == 1.0 { f64::INFINITY.copysign(y) } else { f64::NAN };
    }
    let mut x = if size <= 0.7 {
        let z = y * y;
        y * of(&A, z) / of(&B, z)
    } else {
        let z = (-((1.0 - size) / 2.0).ln()).sqrt();
        of(&C, z).copysign(y) / of(&D, z)
    };
    for _ in 0..2 {
        x -= (libm::erf(x) - y) / (std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp());
    }
    x
}
