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

use millstream_ops::moves::MOVES;
use millstream_types::Result;

use super::{Derivative, I0, I1, O0, Rule, conj, each, one};
use crate::gradient::node::Node;
use crate::handle::Tensor;

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
pub(in crate::gradient) fn has_rule(op: &str) -> bool {
    MOVES.contains(&op) || AS_WRITTEN.contains(&op) || HOLOMORPHIC.contains(&op)
}

/// Returns whether the rule of a call gets conjugates, and returns them.
pub(in crate::gradient) fn is_conjugate(op: &str, node: &Node) -> bool {
    let specs = node.input_specs.iter().flatten().chain(&node.output_specs);
    HOLOMORPHIC.contains(&op) && specs.into_iter().any(|x| x.dtype.is_complex())
}

/// Returns the gradients of a call's results as its rule gets them.
pub(in crate::gradient) fn conjugates(
    gradients: &[Option<Tensor>],
    is_conjugate: bool,
) -> Result<Vec<Option<Tensor>>> {
    let each = gradients.iter().map(|g| match (g, is_conjugate) {
        (Some(g), true) => conj(g).map(Some),
        _ => Ok(g.clone()),
    });
    each.collect()
}

pub(super) const RULES: &[Rule] = &[
    each("complex", &[], &[Some(|d| part(&d.g()?, 0)), Some(|d| part(&d.g()?, 1))]),
    each(
        "polar",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| {
                let (angle, g) = (d.input(1)?, d.g()?);
                let along = part(&g, 0)?.mul(&angle.cos()?)?;
                along.add(&part(&g, 1)?.mul(&angle.sin()?)?)
            }),
            Some(|d| {
                let (angle, g) = (d.input(1)?, d.g()?);
                let across = part(&g, 1)?.mul(&angle.cos()?)?;
                across.sub(&part(&g, 0)?.mul(&angle.sin()?)?)?.mul(&d.input(0)?)
            }),
        ],
    ),
    one("conj_physical", &[], &[Some(|d| conj(&d.g()?))]),
    one("view_as_real", &[], &[Some(|d| d.g()?.contiguous()?.view_as_complex())]),
    one("view_as_complex", &[], &[Some(|d| d.g()?.contiguous()?.view_as_real())]),
    one("sign", &[(I0, &[0]), (O0, &[0])], &[Some(sign)]),
    one(
        "_fft_c2c",
        &[],
        &[Some(|d| {
            let forward = d.attrs().bool("forward")?.unwrap_or(true);
            transformed(d, &d.g()?, !forward)
        })],
    ),
    one(
        "_fft_r2c",
        &[],
        &[Some(|d| {
            let (mut g, dim) = (d.g()?, last(d)?);
            // The other half of the spectrum has no gradient.
            let missing = d.shape(0)?[dim] - g.shape()[dim];
            if missing > 0 {
                let mut pad = vec![0; 2 * (g.rank() - 1 - dim)];
                pad.extend([0, missing as i64]);
                g = g.constant_pad_nd(pad)?;
            }
            part(&transformed(d, &g, false)?, 0)
        })],
    ),
    one(
        "_fft_c2r",
        &[],
        &[Some(|d| {
            let (g, dim) = (d.g()?, last(d)?);
            let spectrum = d.attrs().ints("dim")?.unwrap_or_default();
            let options = crate::tensor::options::FftR2c::default()
                .normalization(d.attrs().int("normalization")?.unwrap_or(0));
            let half = g._fft_r2c_with(spectrum, true, options)?;
            // Elements other than the first, and the middle of an even number, stand for two.
            let twice = g.shape()[dim] - half.shape()[dim];
            let bounds = [0, 1, 1 + twice, half.shape()[dim]];
            let parts: Vec<Tensor> = (0..3)
                .map(|k| {
                    let length = bounds[k + 1].saturating_sub(bounds[k]);
                    let part = half.narrow(dim, bounds[k], length)?;
                    if k == 1 { part.mul(2) } else { Ok(part) }
                })
                .collect::<Result<_>>()?;
            let half = Tensor::cat(&parts.iter().collect::<Vec<_>>(), dim)?;
            // Elements of the input beyond that half were not read.
            let unread = d.shape(0)?[dim] - half.shape()[dim];
            let mut pad = vec![0; 2 * (g.rank() - 1 - dim)];
            pad.extend([0, unread as i64]);
            if unread > 0 { half.constant_pad_nd(pad) } else { Ok(half) }
        })],
    ),
    // The gradients themselves are functions of the conjugate of their second operand.
    each(
        "tanh_backward",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| d.g()?.mul(&d.input(1)?.pow(2)?.neg()?.add(1)?)),
            Some(|d| {
                let y = conj(&d.input(1)?)?;
                conj(&d.g()?)?.mul(&d.input(0)?)?.mul(&y)?.mul(-2)
            }),
        ],
    ),
    each(
        "sigmoid_backward",
        &[(I0, &[1]), (I1, &[0, 1])],
        &[
            Some(|d| {
                let y = d.input(1)?;
                d.g()?.mul(&y.sub(&y.mul(&y)?)?)
            }),
            Some(|d| {
                let y = conj(&d.input(1)?)?;
                conj(&d.g()?)?.mul(&d.input(0)?)?.mul(&y.mul(-2)?.add(1)?)
            }),
        ],
    ),
];

/// Returns the real or the imaginary part.
fn part(x: &Tensor, which: usize) -> Result<Tensor> {
    x.contiguous()?.view_as_real()?.select(-1, which)
}

fn transformed(d: &Derivative<'_>, x: &Tensor, forward: bool) -> Result<Tensor> {
    let options = crate::tensor::options::FftC2c::default()
        .normalization(d.attrs().int("normalization")?.unwrap_or(0));
    x._fft_c2c_with(d.attrs().ints("dim")?.unwrap_or_default(), forward, options)
}

/// Returns the last of the transformed dimensions.
fn last(d: &Derivative<'_>) -> Result<usize> {
    let dims = d.attrs().ints("dim")?.unwrap_or_default();
    millstream_ops::args::dimension(dims.last().copied().unwrap_or(-1), d.shape(0)?.len())
}

/// The sign z/|z| is that of the direction: what changes the length alone does not change it.
fn sign(d: &Derivative<'_>) -> Result<Tensor> {
    if !d.spec(0)?.dtype.is_complex() {
        return d.zeros(0);
    }
    let (x, g) = (d.input(0)?, d.g()?);
    let length = x.abs()?;
    let is_zero = length.eq(0)?;
    let length = length.masked_fill(&is_zero, 1)?;
    let along = part(&g.mul(&conj(&x)?)?, 0)?.div(&length.mul(&length)?)?;
    let slope = g.div(&length)?.sub(&d.output(0)?.mul(&along)?)?;
    is_zero.where_cond(0, &slope)
}
