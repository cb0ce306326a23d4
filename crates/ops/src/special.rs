//! Special functions: Bessel and gamma functions, the normal distribution, orthogonal polynomials.
//!
//! All are computed in f64 and rounded once, and return f32 for integers and bool. Polynomials take
//! x and the degree n, which is truncated to a whole number. `frexp` splits floats into mantissas
//! and exponents.
//!
//! Sources: the pages of <https://docs.pytorch.org/docs/stable/special.html>; the kernels name the
//! sources of their formulas.

use millstream_types::{DType, Result, TensorSpec};

use crate::def::{Def, arg};
use crate::elementwise::{briefs, common, elementwise, fresh, refuse};
use crate::promotion::floating;
use crate::schema::{ArgDoc, CallSpec, OutputSpec};

const X: &[ArgDoc] = &[arg("x", "any shape")];
const XQ: &[ArgDoc] = &[arg("x", "any shape"), arg("q", "a shape that broadcasts with x")];
const AX: &[ArgDoc] = &[arg("a", "any shape"), arg("x", "a shape that broadcasts with a")];
const XN: &[ArgDoc] =
    &[arg("x", "any shape"), arg("n", "the degree; a shape that broadcasts with x")];
const SHAPE_SAMPLE: &[ArgDoc] = &[
    arg("shape", "the shape of the distribution"),
    arg("sample", "a shape that broadcasts with it"),
];
const SAMPLE_TOTAL: &[ArgDoc] = &[
    arg("sample", "any shape"),
    arg("concentration", "a shape that broadcasts with it"),
    arg("total", "the sums of the concentrations; a shape that broadcasts"),
];
const ORDER: &[ArgDoc] = &[arg("n", "the order, 0 or more").int().or("0")];

elementwise! {
    OPS = new;
    ("i0", "the modified Bessel function of the first kind of order 0", X, &[], float);
    ("special_i0e", "the modified Bessel function of the first kind of order 0, times e^-|x|", X,
     &[], float) unsigned;
    ("special_i1", "the modified Bessel function of the first kind of order 1", X, &[],
      float) unsigned;
    ("special_i1e", "the modified Bessel function of the first kind of order 1, times e^-|x|", X,
     &[], float) unsigned;
    ("special_bessel_j0", "the Bessel function of the first kind of order 0", X, &[],
      float) unsigned;
    ("special_bessel_j1", "the Bessel function of the first kind of order 1", X, &[],
      float) unsigned;
    ("special_bessel_y0", "the Bessel function of the second kind of order 0", X, &[],
      float) unsigned;
    ("special_bessel_y1", "the Bessel function of the second kind of order 1", X, &[],
      float) unsigned;
    ("special_modified_bessel_i0", "the modified Bessel function of the first kind of order 0", X,
     &[], float) unsigned;
    ("special_modified_bessel_i1", "the modified Bessel function of the first kind of order 1", X,
     &[], float) unsigned;
    ("special_modified_bessel_k0", "the modified Bessel function of the second kind of order 0", X,
     &[], float) unsigned;
    ("special_modified_bessel_k1", "the modified Bessel function of the second kind of order 1", X,
     &[], float) unsigned;
    ("special_scaled_modified_bessel_k0",
     "the modified Bessel function of the second kind of order 0, times e^x", X, &[],
      float) unsigned;
    ("special_scaled_modified_bessel_k1",
     "the modified Bessel function of the second kind of order 1, times e^x", X, &[],
      float) unsigned;
    ("special_spherical_bessel_j0", "the spherical Bessel function of the first kind of order 0",
     X, &[], float) unsigned;
    ("special_airy_ai", "the Airy function Ai", X, &[], float) unsigned;
    ("special_erfcx", "e^(x^2) times 1 minus the error function of x", X, &[], float) unsigned;
    ("special_log_ndtr", "the logarithm of the probability of the normal distribution up to x", X,
     &[], float) unsigned;
    ("special_ndtri", "the number up to which the normal distribution has the probability x", X,
     &[], float) unsigned;
    ("polygamma", "the derivative of order n of the digamma function", X, ORDER, order);
    ("special_zeta", "the Hurwitz zeta function: the sum of (q + k)^-x for k from 0", XQ, &[],
      float) unsigned;
    ("igamma", "the regularised lower incomplete gamma function", AX, &[], float);
    ("igammac", "the regularised upper incomplete gamma function", AX, &[], float);
    ("_standard_gamma_grad", "the derivative of a sample of the gamma distribution for its shape",
     SHAPE_SAMPLE, &[], float);
    ("_dirichlet_grad", "the derivative of a sample of Dirichlet's distribution for its \
      concentration, over 1 minus the sample", SAMPLE_TOTAL, &[], float);
    ("special_chebyshev_polynomial_t", "the Chebyshev polynomial of the first kind", XN, &[],
      float) unsigned;
    ("special_chebyshev_polynomial_u", "the Chebyshev polynomial of the second kind", XN, &[],
      float) unsigned;
    ("special_chebyshev_polynomial_v", "the Chebyshev polynomial of the third kind", XN, &[],
      float) unsigned;
    ("special_chebyshev_polynomial_w", "the Chebyshev polynomial of the fourth kind", XN, &[],
      float) unsigned;
    ("special_shifted_chebyshev_polynomial_t", "the Chebyshev polynomial T of 2x - 1", XN, &[],
      float) unsigned;
    ("special_shifted_chebyshev_polynomial_u", "the Chebyshev polynomial U of 2x - 1", XN, &[],
      float) unsigned;
    ("special_shifted_chebyshev_polynomial_v", "the Chebyshev polynomial V of 2x - 1", XN, &[],
      float) unsigned;
    ("special_shifted_chebyshev_polynomial_w", "the Chebyshev polynomial W of 2x - 1", XN, &[],
      float) unsigned;
    ("special_hermite_polynomial_h", "the Hermite polynomial of physics", XN, &[], float) unsigned;
    ("special_hermite_polynomial_he", "the Hermite polynomial of probability theory", XN, &[],
      float) unsigned;
    ("special_laguerre_polynomial_l", "the Laguerre polynomial", XN, &[], float) unsigned;
    ("special_legendre_polynomial_p", "the Legendre polynomial", XN, &[], float) unsigned;
}

pub(crate) const PARTS: &[Def] = &[Def::new(
    "frexp",
    "the mantissa of x, from 1/2 up to 1, and its exponent of 2",
    X,
    &[],
    |call| {
        let mut signature = fresh(call, floats(call)?)?;
        if let OutputSpec::Fresh(mantissa) = &signature.outputs[0] {
            let exponent = TensorSpec::new(DType::I32, mantissa.layout.clone())?;
            signature.outputs.push(OutputSpec::Fresh(exponent));
        }
        Ok(signature)
    },
)];

fn floats(call: CallSpec<'_>) -> Result<DType> {
    match common(call, None)? {
        common if common.is_float() => Ok(common),
        _ => refuse("dtype", format!("expected floats, got {}", briefs(call.inputs))),
    }
}

fn float(call: CallSpec<'_>) -> Result<DType> {
    common(call, None).map(floating)
}

fn order(call: CallSpec<'_>) -> Result<DType> {
    match call.attrs.int("n")?.unwrap_or(0) {
        n if n < 0 => refuse("argument", format!("n: expected 0 or more, got {n}")),
        _ => float(call),
    }
}
