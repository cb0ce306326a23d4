//! Orthogonal polynomials of a degree n, which is 0 below degree 0.
//!
//! Within the interval of orthogonality, Chebyshev polynomials of higher degrees are computed from
//! angles, as in PyTorch's kernels. All others follow from their recurrences; above
//! [`MOST_STEPS`], which PyTorch's kernels would walk for hours, from the functions that they
//! approach. A recurrence that overflows ends as NaN.

use super::bessel::{j0, scaled_i0};

/// The greatest degree that is computed by a recurrence.
const MOST_STEPS: i64 = 1 << 24;

/// A Chebyshev polynomial: of the first to the fourth kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    T,
    U,
    V,
    W,
}

/// Returns the degree that a number stands for. As in C++ on x86-64, NaN and numbers beyond the
/// range of i64 are below 0.
fn degree(n: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&n) { n as i64 } else { -1 }
}

/// Returns a value as its recurrence would: one that overflows becomes NaN a step later.
fn or_nan(value: f64) -> f64 {
    if value.is_infinite() { f64::NAN } else { value }
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
    if n > MOST_STEPS {
        let value = or_nan(far_chebyshev(mirrored(kind, x), x.abs(), count));
        return if x < 0.0 { signed(value) } else { value };
    }
    let second = match kind {
        Kind::T => x,
        Kind::U => x + x,
        Kind::V => x + x - 1.0,
        Kind::W => x + x + 1.0,
    };
    recurrence(n, 1.0, second, |_, q, p| (x + x) * q - p)
}

/// Returns the kind whose polynomial at |x| has the magnitude of this one's at x.
fn mirrored(kind: Kind, x: f64) -> Kind {
    match kind {
        Kind::V if x < 0.0 => Kind::W,
        Kind::W if x < 0.0 => Kind::V,
        kind => kind,
    }
}

/// Returns the Chebyshev polynomial of degree n of x > 1.
fn far_chebyshev(kind: Kind, x: f64, n: f64) -> f64 {
    let a = x.acosh();
    match kind {
        Kind::T => (n * a).cosh(),
        Kind::U => ((n + 1.0) * a).sinh() / a.sinh(),
        Kind::V => ((n + 0.5) * a).cosh() / (a / 2.0).cosh(),
        Kind::W => ((n + 0.5) * a).sinh() / (a / 2.0).sinh(),
    }
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
    if n > MOST_STEPS {
        return or_nan(far_laguerre(x, n as f64));
    }
    recurrence(n, 1.0, 1.0 - x, |k, q, p| ((k + k + (1.0 - x)) * q - k * p) / (k + 1.0))
}

/// Returns the Laguerre polynomial of a degree of at least 2^16, to a few digits.
///
/// Source: <https://dlmf.nist.gov/18.15.E19> with α = 0, and the same continued below 0.
fn far_laguerre(x: f64, n: f64) -> f64 {
    if x.is_nan() || x.abs() > 1e5 {
        return f64::NAN; // Its exponential overflows.
    }
    let most = 4.0 * n + 2.0;
    let part = x.abs() / most;
    match x > 0.0 {
        true => {
            let angle = ((part - part * part).sqrt() + part.sqrt().asin()) / 2.0;
            let size = angle.sqrt() / (part * (1.0 - part)).powf(0.25);
            (x / 2.0).exp() * size * j0(most * angle)
        }
        false => {
            let angle = ((part + part * part).sqrt() + part.sqrt().asinh()) / 2.0;
            let size = angle.sqrt() / (part * (1.0 + part)).powf(0.25);
            (x / 2.0 + most * angle).exp() * size * scaled_i0(most * angle)
        }
    }
}

/// Returns the Legendre polynomial of a degree of at least 2^16, to a few digits.
///
/// Source: G. Szegő, "Orthogonal polynomials", AMS 1975, theorem 8.21.6 (Hilb's formula), and the
/// same continued beyond 1.
fn far_legendre(x: f64, n: f64) -> f64 {
    if x < 1.0 {
        let angle = x.acos();
        return (angle / angle.sin()).sqrt() * j0((n + 0.5) * angle);
    }
    let a = x.acosh();
    let root = (n + 0.5) * a;
    (a / a.sinh()).sqrt() * root.exp() * scaled_i0(root)
}

/// Returns the Legendre polynomial.
pub(super) fn legendre(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if x.abs() == 1.0 && n >= 0 {
        return if x > 0.0 || n % 2 == 0 { 1.0 } else { -1.0 };
    }
    if n > MOST_STEPS {
        let value = or_nan(far_legendre(x.abs(), n as f64));
        return if x > 0.0 || n % 2 == 0 { value } else { -value };
    }
    recurrence(n, 1.0, x, |k, q, p| ((k + k + 1.0) * x * q - k * p) / (k + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 4] = [Kind::T, Kind::U, Kind::V, Kind::W];

    /// Checks that every polynomial of these numbers ends, and returns their values at n.
    fn all(x: f64, n: f64) -> Vec<f64> {
        let chebyshev = KINDS
            .into_iter()
            .flat_map(|kind| [chebyshev(kind, x, n), shifted_chebyshev(kind, x, n)]);
        let others = [laguerre(x, n), legendre(x, n), hermite_h(x, n, 512), hermite_he(x, n, 512)];
        chebyshev.chain(others).collect()
    }

    #[test]
    fn degrees_beyond_the_range_are_below_zero() {
        for n in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, 9.3e18, -1e30, -1.0, -9.3e18] {
            for x in [0.5, -0.5, 1.0, 3.0, f64::NAN, f64::INFINITY] {
                assert_eq!(all(x, n), [0.0; 12], "{x} {n}");
            }
        }
        // Fractions are cut off.
        assert_eq!(all(0.5, -0.9), all(0.5, 0.0));
        assert_eq!(all(0.5, 3.9), all(0.5, 3.0));
    }

    #[test]
    fn great_degrees_end() {
        let next_to_one = 1.0 + f64::EPSILON;
        for n in [2f64.powi(25), 1e12, 9.2e18] {
            for x in [
                0.0,
                1e-300,
                0.3,
                0.9999,
                next_to_one,
                1.0000001,
                2.0,
                1e6,
                1e308,
                f64::INFINITY,
                f64::NAN,
            ] {
                for x in [x, -x] {
                    let values = all(x, n);
                    assert!(values[10..].iter().all(|v| v.is_nan()), "{x} {n}: {values:?}");
                    assert!(!values.iter().any(|v| v.is_infinite()), "{x} {n}: {values:?}");
                }
            }
        }
        assert!(legendre(2.0, 1e12).is_nan() && laguerre(-3.0, 1e12).is_nan());
        assert!(legendre(0.3, 1e12).abs() < 1e-5);
    }

    /// The functions that polynomials approach have the values of the recurrences.
    #[test]
    fn great_degrees_continue_the_recurrences() {
        #[track_caller]
        fn near(got: f64, expected: f64, scale: f64) {
            assert!((got - expected).abs() < 1e-3 * scale, "{got} instead of {expected}");
        }
        for n in [1 << 16, (1 << 16) + 1] {
            let count = n as f64;
            for x in [-0.7f64, -1e-3, 0.0, 0.2, 0.99, 0.999_999] {
                let sign = if x < 0.0 && n % 2 == 1 { -1.0 } else { 1.0 };
                let scale = (1.0 - x * x).powf(-0.25) / count.sqrt();
                near(sign * far_legendre(x.abs(), count), legendre(x, count), scale);
            }
            for x in [1.000_000_1f64, 1.000_001] {
                let value = legendre(x, count);
                near(far_legendre(x, count), value, value);
                for kind in KINDS {
                    for x in [x, -x] {
                        let sign = if x < 0.0 && n % 2 == 1 { -1.0 } else { 1.0 };
                        let got = sign * far_chebyshev(mirrored(kind, x), x.abs(), count);
                        let expected = chebyshev(kind, x, count);
                        near(got, expected, expected.abs());
                    }
                }
            }
            for x in [1e-6, 0.1, 3.0, 40.0] {
                let scale = (x / 2.0f64).exp() * (count * x).powf(-0.25).min(1.0);
                near(far_laguerre(x, count), laguerre(x, count), scale);
                let value = laguerre(-x / 100.0, count);
                near(far_laguerre(-x / 100.0, count), value, value);
            }
        }
    }
}
