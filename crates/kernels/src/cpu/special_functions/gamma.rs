//! The zeta function, derivatives of the gamma function, and its incomplete forms.

use super::super::series;

/// The precision of a sum.
const PRECISION: f64 = f64::EPSILON / 2.0;

/// Returns the Hurwitz zeta function: the sum of (q + k)^-x for k from 0.
///
/// Source: S. Moshier, Cephes, `zeta.c`: some terms, then the formula of Euler and Maclaurin.
pub(super) fn zeta(x: f64, q: f64) -> f64 {
    /// (2k)! / B₂ₖ, with the Bernoulli numbers.
    const TERMS: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1892437580.3183792,
        7.47242496e10,
        -2950130727918.164,
        116467828143500.67,
        -4597978722407473.0,
        1.8152105401943546e17,
        -7.166165256175667e18,
    ];
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        // As in PyTorch, also if x is NaN.
        if q == q.floor() {
            return f64::INFINITY;
        }
        // The second bound keeps the sum below finite.
        if x != x.floor() || q < -1e6 {
            return f64::NAN;
        }
    }
    if x.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    let mut sum = q.powf(-x);
    let (mut a, mut b, mut count) = (q, 0.0, 0);
    while count < 9 || a <= 9.0 {
        count += 1;
        a += 1.0;
        b = a.powf(-x);
        sum += b;
        if b.abs() < PRECISION * sum.abs() {
            return sum;
        }
    }
    let w = a;
    sum += b * w / (x - 1.0) - 0.5 * b;
    let (mut factor, mut k) = (1.0, 0.0);
    for term in TERMS {
        factor *= x + k;
        b /= w;
        let change = factor * b / term;
        sum += change;
        if (change / sum).abs() < PRECISION {
            return sum;
        }
        k += 1.0;
        factor *= x + k;
        b /= w;
        k += 1.0;
    }
    sum
}

/// Returns the derivative of order n of the digamma function.
pub(super) fn polygamma(order: i64, x: f64) -> f64 {
    match order {
        0 => series::digamma(x),
        // The terms of the zeta function underflow, and the next one is below the precision.
        1 if x > 1e16 => 1.0 / x,
        1 if x < 0.5 => {
            // The reflection of the first derivative.
            let sine = (std::f64::consts::PI * x).sin();
            let pi = std::f64::consts::PI;
            -zeta(2.0, 1.0 - x) + pi * pi / (sine * sine)
        }
        _ => {
            let order = order as f64;
            let sign = if order % 2.0 == 0.0 { -1.0 } else { 1.0 };
            sign * libm::lgamma(order + 1.0).exp() * zeta(order + 1.0, x)
        }
    }
}

/// Returns the regularised lower incomplete gamma function.
///
/// Source, of all functions below: SciPy's `igam.h` and DLMF 8.7.3, 8.9.2 and 8.11.4. The series
/// take as many terms as they need, in place of the asymptotic ones for large a.
pub(super) fn lower_incomplete(a: f64, x: f64) -> f64 {
    if let Some(limit) = at_limits(a, x) {
        return 1.0 - limit;
    }
    if x > 1.0 && x > a { 1.0 - upper_incomplete(a, x) } else { lower_series(a, x) }
}

/// Returns the regularised upper incomplete gamma function.
pub(super) fn upper_incomplete(a: f64, x: f64) -> f64 {
    if let Some(limit) = at_limits(a, x) {
        return limit;
    }
    let by_lower = match x {
        x if x > 1.1 => x < a,
        x if x <= 0.5 => -0.4 / x.ln() < a,
        x => x * 1.1 < a,
    };
    match by_lower {
        true => 1.0 - lower_series(a, x),
        false if x > 1.1 => upper_fraction(a, x),
        false => upper_series(a, x),
    }
}

/// Returns the upper function where no series is needed.
fn at_limits(a: f64, x: f64) -> Option<f64> {
    if a < 0.0 || x < 0.0 {
        return Some(f64::NAN);
    }
    match (a, x) {
        (0.0, x) => Some(if x > 0.0 { 0.0 } else { f64::NAN }),
        (_, 0.0) => Some(1.0),
        (a, x) if a.is_infinite() => Some(if x.is_infinite() { f64::NAN } else { 1.0 }),
        (_, x) if x.is_infinite() => Some(0.0),
        (a, x) if a.is_nan() || x.is_nan() => Some(f64::NAN),
        _ => None,
    }
}

/// Returns the greatest number of terms of a series around a.
fn most_terms(a: f64) -> usize {
    2000 + (20.0 * a.min(1e12).sqrt()) as usize
}

/// Returns x^a e^-x / Γ(a).
fn factor(a: f64, x: f64) -> f64 {
    const LANCZOS: f64 = 6.02468004077673;
    if (a - x).abs() > 0.4 * a.abs() {
        let exponent = a * x.ln() - x - libm::lgamma(a);
        return if exponent < -709.782712893384 { 0.0 } else { exponent.exp() };
    }
    let base = a + LANCZOS - 0.5;
    let root = (base / std::f64::consts::E).sqrt() / lanczos_sum(a);
    if a < 200.0 && x < 200.0 {
        return root * (a - x).exp() * (x / base).powf(a);
    }
    let share = (x - a - LANCZOS + 0.5) / base;
    root * (a * (share.ln_1p() - share) + x * (0.5 - LANCZOS) / base).exp()
}

/// Returns Lanczos' sum, scaled by e^g.
///
/// Source: Boost, `lanczos.hpp`, 13 terms for 53 bits.
fn lanczos_sum(x: f64) -> f64 {
    const TOP: [f64; 13] = [
        0.006061842346248907,
        0.5098416655656676,
        19.519927882476175,
        449.9445569063168,
        6955.999602515376,
        75999.29304014542,
        601859.6171681099,
        3481712.154980646,
        14605578.087685067,
        43338889.32467614,
        86363131.2881386,
        103794043.11634454,
        56906521.913471565,
    ];
    const BOTTOM: [f64; 13] = [
        1.0,
        66.0,
        1925.0,
        32670.0,
        357423.0,
        2637558.0,
        13339535.0,
        45995730.0,
        105258076.0,
        150917976.0,
        120543840.0,
        39916800.0,
        0.0,
    ];
    let of = |list: &[f64; 13]| match x.abs() > 1.0 {
        true => list.iter().rev().fold(0.0, |sum, c| sum / x + c),
        false => list.iter().fold(0.0, |sum, c| sum * x + c),
    };
    of(&TOP) / of(&BOTTOM)
}

fn lower_series(a: f64, x: f64) -> f64 {
    let factor = factor(a, x);
    if factor == 0.0 {
        return 0.0;
    }
    let (mut r, mut term, mut sum) = (a, 1.0, 1.0);
    for _ in 0..most_terms(a) {
        r += 1.0;
        term *= x / r;
        sum += term;
        if term <= PRECISION * sum {
            break;
        }
    }
    sum * factor / a
}

fn upper_series(a: f64, x: f64) -> f64 {
    let (mut power, mut sum) = (1.0, 0.0);
    for n in 1..2000 {
        let n = f64::from(n);
        power *= -x / n;
        let term = power / (a + n);
        sum += term;
        if term.abs() <= PRECISION * sum.abs() {
            break;
        }
    }
    let log = x.ln();
    let first = -(a * log - libm::lgamma(1.0 + a)).exp_m1();
    first - (a * log - libm::lgamma(a)).exp() * sum
}

fn upper_fraction(a: f64, x: f64) -> f64 {
    const BIG: f64 = 4.503599627370496e15;
    let factor = factor(a, x);
    if factor == 0.0 {
        return 0.0;
    }
    let (mut y, mut c) = (1.0 - a, 0.0);
    let mut z = x + y + 1.0;
    let (mut p, mut q) = ([1.0, x + 1.0], [x, z * x]);
    let mut result = p[1] / q[1];
    for _ in 0..most_terms(a) {
        c += 1.0;
        y += 1.0;
        z += 2.0;
        let next = |of: [f64; 2]| of[1] * z - of[0] * y * c;
        let (top, bottom) = (next(p), next(q));
        let mut change = 1.0;
        if bottom != 0.0 {
            let share = top / bottom;
            change = ((result - share) / share).abs();
            result = share;
        }
        (p, q) = ([p[1], top], [q[1], bottom]);
        if top.abs() > BIG {
            (p, q) = (p.map(|v| v / BIG), q.map(|v| v / BIG));
        }
        if change <= PRECISION {
            break;
        }
    }
    result * factor
}
