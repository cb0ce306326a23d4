//! Complex numbers: their parts, Fourier transforms, and which of the table's rules hold for them.
//!
//! The gradient of a loss for z = x + iy is its derivative for x plus i times that for y, as in
//! PyTorch: the way of steepest ascent, and twice the conjugate Wirtinger derivative. A real
//! operand gets the real part. An op that is differentiable as a complex function, as
//! [`HOLOMORPHIC`] ones are, needs no formula of its own: the rule for real numbers, given the
//! conjugate of the gradient, returns the conjugate of the operand's.
//!
//! Source: <https://docs.pytorch.org/docs/stable/notes/autograd.html>, "Autograd for Complex
//! Numbers".

use millstream_types::{Attrs, Result};

use super::{Derivative, Differentiated, I0, I1, O0, Rule, each, one};
use crate::args::dimension;
use crate::composite::formula::Expr;
use crate::moves::MOVES;

/// Ops whose rules are meant for real numbers, and that are functions of complex ones.
const HOLOMORPHIC: &[&str] = &[
    "mul",
    "div",
    "pow",
    "reciprocal",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "silu",
    "sinc",
    "lerp",
    "addcmul",
    "addcdiv",
    "prod",
    "logsumexp",
    "cumprod",
    "logcumsumexp",
    "matmul",
    "addmm",
    "baddbmm",
];

/// Ops besides [`MOVES`] whose rules hold for complex numbers as they are.
const AS_WRITTEN: &[&str] = &[
    "nan_to_num",
    "copy_",
    "select_backward",
    "slice_backward",
    "diagonal_backward",
    "add",
    "sub",
    "neg",
    "abs",
    "sign",
    "sigmoid",
    "tanh",
    "sigmoid_backward",
    "tanh_backward",
    "conj_physical",
    "complex",
    "polar",
    "view_as_real",
    "view_as_complex",
    "where",
    "masked_fill",
    "sum",
    "mean",
    "std",
    "var",
    "linalg_vector_norm",
    "cumsum",
    "gather",
    "scatter",
    "scatter_add",
    "index",
    "index_put",
    "index_select",
    "index_add",
    "masked_select",
    "flip",
    "roll",
    "triu",
    "tril",
    "_fft_c2c",
    "_fft_r2c",
    "_fft_c2r",
    "linalg_eig",
    "linalg_cholesky_ex",
    "linalg_lu_factor_ex",
    "lu_unpack",
    "linalg_lu_solve",
    "linalg_solve_triangular",
    "linalg_inv_ex",
    "linalg_qr",
    "linalg_householder_product",
    "ormqr",
    "_linalg_svd",
    "_linalg_eigh",
    "linalg_matrix_exp",
    "linalg_lstsq",
];

/// Returns whether the rule of an op holds for complex numbers.
pub fn has_rule(op: &str) -> bool {
    MOVES.contains(&op) || AS_WRITTEN.contains(&op) || HOLOMORPHIC.contains(&op)
}

/// Returns whether the rule of a call gets conjugates, and returns them.
pub(super) fn is_conjugate(op: &str, call: &Differentiated<'_>) -> bool {
    let specs = call.input_specs.iter().flatten().chain(call.output_specs);
    HOLOMORPHIC.contains(&op) && specs.into_iter().any(|x| x.dtype.is_complex())
}

pub(super) const RULES: &[Rule] = &[
    each("complex", &[], &[Some(|d| Ok(part(d.g(), 0))), Some(|d| Ok(part(d.g(), 1)))]),
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
    ),
    one("conj_physical", &[], &[Some(|d| Ok(d.g().conj()))]),
    one("view_as_real", &[], &[Some(|d| Ok(d.g().dense().op("view_as_complex", Attrs::new())))]),
    one("view_as_complex", &[], &[Some(|d| Ok(d.g().dense().op("view_as_real", Attrs::new())))]),
    one("sign", &[(I0, &[0]), (O0, &[0])], &[Some(sign)]),
    one("_fft_c2c", &[], &[Some(|d| Ok(transformed(d, d.g(), !d.flag("forward", true)?)))]),
    one(
        "_fft_r2c",
        &[],
        &[Some(|d| {
            // The other half of the spectrum has no gradient.
            let whole = padded(d, d.g())?;
            Ok(part(transformed(d, whole, false), 0))
        })],
    ),
    one(
        "_fft_c2r",
        &[],
        &[Some(|d| {
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
        })],
    ),
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
    ),
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
    ),
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
