//! Complex numbers: their parts, and Fourier transforms.
//!
//! The gradient of a loss for z = x + iy is its derivative for x plus i times that for y, as in
//! PyTorch: the way of steepest ascent, and twice the conjugate Wirtinger derivative. A real
//! operand gets the real part. An op that is differentiable as a complex function, a
//! [holomorphic](Rule::holomorphic) one, needs no formula of its own: the rule for real numbers,
//! given the conjugate of the gradient, returns the conjugate of the operand's.
//!
//! Source: <https://docs.pytorch.org/docs/stable/notes/autograd.html>, "Autograd for Complex
//! Numbers".

use millstream_types::{Attrs, Result};

use super::{Derivative, I0, I1, O0, Rule, each, one};
use crate::args::dimension;
use crate::formula::Expr;

pub(super) const RULES: &[Rule] = &[
    each("complex", &[], &[Some(|d| Ok(part(d.g(), 0))), Some(|d| Ok(part(d.g(), 1)))]).complex(),
    each(
        "polar",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| {
                let (angle, g) = (d.input(1), d.g());
                Ok(part(g, 0) * angle.cos() + part(g, 1) * angle.sin())
            }),
            Some(|d| {
                let (angle, g) = (d.input(1), d.g());
                Ok((part(g, 1) * angle.cos() - part(g, 0) * angle.sin()) * d.input(0))
            }),
        ],
    )
    .complex(),
    one("conj_physical", &[], |d| Ok(d.g().conj())).complex(),
    one("view_as_real", &[], |d| Ok(d.g().dense().op("view_as_complex", Attrs::new()))).complex(),
    one("view_as_complex", &[], |d| Ok(d.g().dense().op("view_as_real", Attrs::new()))).complex(),
    one("sign", &[I0, O0], sign).complex(),
    one("_fft_c2c", &[], |d| Ok(transformed(d, d.g(), !d.flag("forward", true)?))).complex(),
    one("_fft_r2c", &[], |d| {
        // The other half of the spectrum has no gradient.
        let whole = padded(d, d.g())?;
        Ok(part(transformed(d, whole, false), 0))
    })
    .complex(),
    one("_fft_c2r", &[], |d| {
        let (g, dim) = (d.g(), last(d)?);
        let attrs = d.passed(&["dim", "normalization"]).with("onesided", true);
        let half = g.op("_fft_r2c", attrs);
        // Elements other than the first, and the middle of an even number, stand for two.
        let length = half.shape()?[dim];
        let bounds = [0, 1, 1 + g.shape()?[dim] - length, length];
        let parts: [Expr<'_>; 3] = std::array::from_fn(|k| {
            let part = half.narrow(dim as i64, bounds[k], (bounds[k + 1] - bounds[k]).max(0));
            if k == 1 { part * 2 } else { part }
        });
        // Elements of the input beyond that half were not read.
        padded(d, d.calls.cat(&parts, dim as i64))
    })
    .complex(),
    // The gradients themselves are functions of the conjugate of their second operand.
    each(
        "tanh_backward",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| Ok(d.g() * (-d.input(1).pow(2) + 1))),
            Some(|d| {
                let y = d.input(1).conj();
                Ok(d.g().conj() * d.input(0) * y * -2)
            }),
        ],
    )
    .complex(),
    each(
        "sigmoid_backward",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| {
                let y = d.input(1);
                Ok(d.g() * (y - y * y))
            }),
            Some(|d| {
                let y = d.input(1).conj();
                Ok(d.g().conj() * d.input(0) * (y * -2 + 1))
            }),
        ],
    )
    .complex(),
];

/// Returns the real or the imaginary part.
fn part(x: Expr<'_>, which: i64) -> Expr<'_> {
    x.dense().op("view_as_real", Attrs::new()).select(-1, which)
}

fn transformed<'a>(d: Derivative<'a>, x: Expr<'a>, forward: bool) -> Expr<'a> {
    x.op("_fft_c2c", d.passed(&["dim", "normalization"]).with("forward", forward))
}

/// Returns the last of the transformed dimensions.
fn last(d: Derivative<'_>) -> Result<usize> {
    dimension(d.ints("dim")?.last().copied().unwrap_or(-1), d.shape(0)?.len())
}

/// Appends zeros along the last of the transformed dimensions, up to the length of the input.
fn padded<'a>(d: Derivative<'a>, x: Expr<'a>) -> Result<Expr<'a>> {
    let dim = last(d)?;
    let missing = d.shape(0)?[dim] - x.shape()?[dim];
    if missing <= 0 {
        return Ok(x);
    }
    let mut pad = vec![0; 2 * (x.rank()? - 1 - dim)];
    pad.extend([0, missing]);
    Ok(x.padded(pad))
}

/// The sign z/|z| is that of the direction: what changes the length alone does not change it.
fn sign(d: Derivative<'_>) -> Result<Expr<'_>> {
    if !d.spec(0)?.dtype.is_complex() {
        return d.zeros(0);
    }
    let (x, g) = (d.input(0), d.g());
    let length = x.abs();
    let is_zero = length.eq(0);
    let length = length.filled(is_zero, 1);
    let along = part(g * x.conj(), 0) / (length * length);
    let slope = g / length - d.output(0) * along;
    Ok(is_zero.choose(0, slope))
}
