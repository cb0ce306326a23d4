//! Orthogonal polynomials of a degree n, which is 0 below degree 0.
//!
//! Within the interval of orthogonality, Chebyshev polynomials of higher degrees are computed from
//! angles, as in PyTorch's kernels. All others follow from their recurrences.

/// A Chebyshev polynomial: of the first to the fourth kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    T,
    U,
    V,
    W,
}

/// Returns the degree that a number stands for.
fn degree(n: f64) -> i64 {
    // As in C++ on this computer, numbers beyond the range have no degree.
    if n.is_finite() { n as i64 } else { -1 }
}

/// Returns the value of the recurrence r(k + 1) = next(k, r(k), r(k - 1)) at n.
fn recurrence(n: i64, first: f64, second: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let (mut before, mut value) = (first, second);
    if n <= 0 {
        return if n < 0 { 0.0 } else { first };
    }
    for k in 1..n {
        if value.is_nan() {
            break;
        }
        (before, value) = (value, next(k as f64, value, before));
    }
    value
}

/// Returns the Chebyshev polynomial of this kind.
pub(super) fn chebyshev(kind: Kind, x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n < 0 {
        return 0.0;
    }
    let (count, even) = (n as f64, n % 2 == 0);
    let signed = |v: f64| if even { v } else { -v };
    if x.abs() == 1.0 {
        let above = x > 0.0;
        return match kind {
            Kind::T if above => 1.0,
            Kind::T => signed(1.0),
            Kind::U if above => count + 1.0,
            Kind::U => signed(count + 1.0),
            Kind::V if above => 1.0,
            Kind::V => signed(2.0 * count + 1.0),
            Kind::W if above => 2.0 * count + 1.0,
            Kind::W => signed(1.0),
        };
    }
    if n > 8 && x.abs() < 1.0 {
        let angle = x.acos();
        return match kind {
            Kind::T => (count * angle).cos(),
            Kind::U => ((count + 1.0) * angle).sin() / angle.sin(),
            Kind::V => ((count + 0.5) * angle).cos() / (angle / 2.0).cos(),
            Kind::W => ((count + 0.5) * angle).sin() / (angle / 2.0).sin(),
        };
    }
    let second = match kind {
        Kind::T => x,
        Kind::U => x + x,
        Kind::V => x + x - 1.0,
        Kind::W => x + x + 1.0,
    };
    recurrence(n, 1.0, second, |_, q, p| (x + x) * q - p)
}

/// Returns the Chebyshev polynomial of this kind of 2x - 1.
pub(super) fn shifted_chebyshev(kind: Kind, x: f64, n: f64) -> f64 {
    chebyshev(kind, x + x - 1.0, n)
}

/// Returns the Hermite polynomial of physics; NaN above the degree `most`.
pub(super) fn hermite_h(x: f64, n: f64, most: i64) -> f64 {
    match degree(n) {
        n if n > most => f64::NAN,
        n => recurrence(n, 1.0, x + x, |k, q, p| (x + x) * q - 2.0 * k * p),
    }
}

/// Returns the Hermite polynomial of probability theory; NaN above the degree `most`.
pub(super) fn hermite_he(x: f64, n: f64, most: i64) -> f64 {
    match degree(n) {
        n if n > most => f64::NAN,
        n => recurrence(n, 1.0, x, |k, q, p| x * q - k * p),
    }
}

/// Returns the Laguerre polynomial.
pub(super) fn laguerre(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if x == 0.0 && n >= 0 {
        return 1.0;
    }
    recurrence(n, 1.0, 1.0 - x, |k, q, p| ((k + k + (1.0 - x)) * q - k * p) / (k + 1.0))
}

/// Returns the Legendre polynomial.
pub(super) fn legendre(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if x.abs() == 1.0 && n >= 0 {
        return if x > 0.0 || n % 2 == 0 { 1.0 } else { -1.0 };
    }
    recurrence(n, 1.0, x, |k, q, p| ((k + k + 1.0) * x * q - k * p) / (k + 1.0))
}
