//! Kernels of the special functions: Bessel and gamma functions, the normal distribution, and
//! orthogonal polynomials. All are computed in f64 and rounded once.

mod airy;
mod bessel;
mod gamma;
mod normal;
mod polynomials;
mod sample_gradients;

use anyhow::Result;
use millstream_ops::promotion::floating;
use millstream_types::DType;

use super::element::cast;
use super::elementwise::{Bound, Call, CallArgs, ElementwiseOp};
use super::function::{one, three, two};
use super::real::reals;
use polynomials::Kind;

/// Defines kernels of functions of one f64.
macro_rules! of_one {
    ($($op:literal $f:expr;)*) => {
        pub(crate) const OF_ONE: &[ElementwiseOp] = &[$(($op, |args| {
            let call = Call::of(args, [""])?;
            let common = floating(call.common()?);
            reals!(common, T => call.bind(common, one(|x: T| $f(x.into()) as T)))
        })),*];
    };
}

of_one! {
    "i0" bessel::i0;
    "special_i0e" bessel::scaled_i0;
    "special_i1" bessel::i1;
    "special_i1e" bessel::scaled_i1;
    "special_bessel_j0" bessel::j0;
    "special_bessel_j1" bessel::j1;
    "special_bessel_y0" bessel::y0;
    "special_bessel_y1" bessel::y1;
    "special_modified_bessel_i0" bessel::i0;
    "special_modified_bessel_i1" bessel::i1;
    "special_modified_bessel_k0" bessel::k0;
    "special_modified_bessel_k1" bessel::k1;
    "special_scaled_modified_bessel_k0" bessel::scaled_k0;
    "special_scaled_modified_bessel_k1" bessel::scaled_k1;
    "special_spherical_bessel_j0" bessel::spherical_j0;
    "special_airy_ai" airy::airy_ai;
    "special_erfcx" normal::scaled_erfc;
    "special_log_ndtr" normal::log_probability;
    "special_ndtri" normal::quantile;
}

/// Defines kernels of functions of two f64.
macro_rules! of_two {
    ($($op:literal $f:expr;)*) => {
        pub(crate) const OF_TWO: &[ElementwiseOp] = &[$(($op, |args| {
            let call = Call::of(args, [""; 2])?;
            let common = floating(call.common()?);
            reals!(common, T => {
                call.bind(common, two(|x: T, y: T| $f(x.into(), y.into()) as T))
            })
        })),*];
    };
}

of_two! {
    "special_zeta" gamma::zeta;
    "igamma" gamma::lower_incomplete;
    "igammac" gamma::upper_incomplete;
    "_standard_gamma_grad" sample_gradients::gamma;
    "special_chebyshev_polynomial_t" |x, n| polynomials::chebyshev(Kind::T, x, n);
    "special_chebyshev_polynomial_u" |x, n| polynomials::chebyshev(Kind::U, x, n);
    "special_chebyshev_polynomial_v" |x, n| polynomials::chebyshev(Kind::V, x, n);
    "special_chebyshev_polynomial_w" |x, n| polynomials::chebyshev(Kind::W, x, n);
    "special_shifted_chebyshev_polynomial_t" |x, n| {
        polynomials::shifted_chebyshev(Kind::T, x, n)
    };
    "special_shifted_chebyshev_polynomial_u" |x, n| {
        polynomials::shifted_chebyshev(Kind::U, x, n)
    };
    "special_shifted_chebyshev_polynomial_v" |x, n| {
        polynomials::shifted_chebyshev(Kind::V, x, n)
    };
    "special_shifted_chebyshev_polynomial_w" |x, n| {
        polynomials::shifted_chebyshev(Kind::W, x, n)
    };
    "special_laguerre_polynomial_l" polynomials::laguerre;
    "special_legendre_polynomial_p" polynomials::legendre;
}

/// As [`OF_ONE`] and [`OF_TWO`], for functions of three numbers, and functions that depend on an
/// argument or on the dtype.
pub(crate) const CHOICES: &[ElementwiseOp] = &[
    ("_dirichlet_grad", dirichlet_grad),
    ("polygamma", polygamma),
    ("special_hermite_polynomial_h", |args| hermite(args, polynomials::hermite_h)),
    ("special_hermite_polynomial_he", |args| hermite(args, polynomials::hermite_he)),
];

fn dirichlet_grad(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 3])?;
    let common = floating(call.common()?);
    reals!(common, T => call.bind(common, three(|x: T, concentration: T, total: T| {
        sample_gradients::dirichlet(cast(x), cast(concentration), cast(total)) as T
    })))
}

fn polygamma(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let order = args.attrs.int("n")?.unwrap_or(0);
    let common = floating(call.common()?);
    reals!(common, T => {
        call.bind(common, one(move |x: T| gamma::polygamma(order, cast(x)) as T))
    })
}

fn hermite(args: &CallArgs<'_>, f: fn(f64, f64, i64) -> f64) -> Result<Bound> {
    let call = Call::of(args, [""; 2])?;
    let common = floating(call.common()?);
    let most = if common == DType::F64 { 512 } else { 128 };
    reals!(common, T => {
        call.bind(common, two(move |x: T, n: T| f(cast(x), cast(n), most) as T))
    })
}

/// Returns the value of a Chebyshev series, with half of the last coefficient as its constant.
fn chebyshev(coefficients: &[f64], x: f64) -> f64 {
    let (mut first, mut second, mut third) = (0.0, 0.0, 0.0);
    for c in coefficients {
        (third, second) = (second, first);
        first = x * second - third + c;
    }
    0.5 * (first - third)
}

/// Returns the value of a polynomial, given from the highest power on.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}
