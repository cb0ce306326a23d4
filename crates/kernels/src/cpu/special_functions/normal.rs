//! The normal distribution, and the scaled error function.

use std::f64::consts::FRAC_1_SQRT_2;

use super::polynomial;

/// For probabilities between e^-2 and 1 - e^-2.
const P0: [f64; 5] = [
    -59.96335010141079,
    98.00107541859997,
    -56.67628574690703,
    13.931260938727968,
    -1.2391658386738125,
];
const Q0: [f64; 9] = [
    1.0,
    1.9544885833814176,
    4.676279128988815,
    86.36024213908905,
    -225.46268785411937,
    200.26021238006066,
    -82.03722561683334,
    15.90562251262117,
    -1.1833162112133,
];
/// For √(-2 ln y) from 2 to 8.
const P1: [f64; 9] = [
    4.0554489230596245,
    31.525109459989388,
    57.16281922464213,
    44.08050738932008,
    14.684956192885803,
    2.1866330685079025,
    -0.1402560791713545,
    -0.03504246268278482,
    -0.0008574567851546854,
];
const Q1: [f64; 9] = [
    1.0,
    15.779988325646675,
    45.39076351288792,
    41.3172038254672,
    15.04253856929075,
    2.504649462083094,
    -0.14218292285478779,
    -0.03808064076915783,
    -0.0009332594808954574,
];
/// For √(-2 ln y) from 8 on.
const P2: [f64; 9] = [
    3.2377489177694603,
    6.915228890689842,
    3.9388102529247444,
    1.3330346081580755,
    0.20148538954917908,
    0.012371663481782003,
    0.00030158155350823543,
    2.6580697468673755e-6,
    6.239745391849833e-9,
];
const Q2: [f64; 9] = [
    1.0,
    6.02427039364742,
    3.6798356385616087,
    1.3770209948908132,
    0.21623699359449663,
    0.013420400608854318,
    0.00032801446468212774,
    2.8924786474538068e-6,
    6.790194080099813e-9,
];

/// Returns the number up to which the normal distribution has this probability.
///
/// Source: S. Moshier, Cephes, `ndtri.c`.
pub(super) fn quantile(y: f64) -> f64 {
    const LEAST: f64 = 0.135_335_283_236_612_7;
    /// The square root of 2π.
    const ROOT: f64 = 2.506_628_274_631_000_5;
    if y == 0.0 || y == 1.0 {
        return if y == 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if !(0.0..=1.0).contains(&y) {
        return f64::NAN;
    }
    let upper = y > 1.0 - LEAST;
    let y = if upper { 1.0 - y } else { y };
    if y > LEAST {
        let y = y - 0.5;
        let square = y * y;
        let share = square * polynomial(&P0, square) / polynomial(&Q0, square);
        return (y + y * share) * ROOT;
    }
    let x = (-2.0 * y.ln()).sqrt();
    let (first, z) = (x - x.ln() / x, 1.0 / x);
    let second = match x < 8.0 {
        true => z * polynomial(&P1, z) / polynomial(&Q1, z),
        false => z * polynomial(&P2, z) / polynomial(&Q2, z),
    };
    if upper { first - second } else { second - first }
}

/// Returns e^(x²) times 1 minus the error function.
pub(super) fn scaled_erfc(x: f64) -> f64 {
    /// The square root of 1/π.
    const ROOT: f64 = 0.5641895835477563;
    if x < 25.0 {
        return if x < -26.7 { f64::INFINITY } else { square_power(x) * libm::erfc(x) };
    }
    if x > 5e7 {
        return ROOT / x;
    }
    // The first terms of the continued fraction.
    let square = x * x;
    ROOT * (square * (square + 4.5) + 2.0) / (x * (square * (square + 5.0) + 3.75))
}

/// Returns e^(x²), with the rounding of the square taken into account.
fn square_power(x: f64) -> f64 {
    let square = x * x;
    let rest = x.mul_add(x, -square);
    square.exp() * rest.exp()
}

/// Returns the logarithm of the probability of the normal distribution up to x.
pub(super) fn log_probability(x: f64) -> f64 {
    let t = x * FRAC_1_SQRT_2;
    match x < -1.0 {
        true => (scaled_erfc(-t) / 2.0).ln() - t * t,
        false => (-libm::erfc(t) / 2.0).ln_1p(),
    }
}
