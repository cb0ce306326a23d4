//! Complex numbers: their parts, views as such, and the ops that are defined for them.
//!
//! | op | result |
//! |---|---|
//! | `complex(real, imag)` | complex numbers of two parts |
//! | `polar(abs, angle)` | complex numbers of absolute values and angles |
//! | `conj_physical(x)` | the complex conjugate, a new tensor |
//! | `view_as_real(x)` | a view of the parts, with a last dimension of length 2 |
//! | `view_as_complex(x)` | a view of the pairs in a last dimension of length 2 |
//!
//! c64 has parts of f32, c128 of f64. Every op that is not listed in [`is_defined`] refuses complex
//! operands and results. Numbers among arguments are real; a complex one is a tensor of no
//! dimensions. Sums and products are computed in the dtype, everything else in f64, rounded once.
//!
//! Source: <https://docs.pytorch.org/docs/stable/complex_numbers.html>.

use millstream_types::{DType, Dims, Layout, Result};

use crate::def::{Arity, Def, arg};
use crate::elementwise::{briefs, common, elementwise, refuse};
use crate::moves::MOVES;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

/// The ops besides [`MOVES`] that are defined for complex numbers, those in place by their name
/// without `_`.
const DEFINED: &[&str] = &[
    "full",
    "detach",
    "select_backward",
    "slice_backward",
    "diagonal_backward",
    // Elementwise.
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "neg",
    "eq",
    "ne",
    "logical_and",
    "logical_or",
    "logical_not",
    "abs",
    "sign",
    "conj_physical",
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
    "tanh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "silu",
    "sinc",
    "nan_to_num",
    "isnan",
    "isinf",
    "tanh_backward",
    "sigmoid_backward",
    "complex",
    "polar",
    "where",
    "masked_fill",
    "lerp",
    "addcmul",
    "addcdiv",
    // Reductions and products.
    "sum",
    "prod",
    "mean",
    "any",
    "all",
    "count_nonzero",
    "std",
    "var",
    "linalg_vector_norm",
    "logsumexp",
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "matmul",
    "addmm",
    "baddbmm",
    // Transforms and linear algebra.
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
    "geqrf",
    "linalg_householder_product",
    "ormqr",
    "_linalg_svd",
    "_linalg_eigh",
    "linalg_matrix_exp",
    "linalg_ldl_factor_ex",
    "linalg_ldl_solve",
    "linalg_lstsq",
    // Selection and rearrangement.
    "gather",
    "scatter",
    "scatter_add",
    "index",
    "index_put",
    "index_select",
    "index_add",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "flip",
    "roll",
    "triu",
    "tril",
    "view_as_real",
    "view_as_complex",
    // Collectives; reductions are sums and means alone.
    "allreduce",
    "reduce",
    "broadcast",
    "allgather",
    "reduce_scatter",
    "alltoall",
    "gather_to",
    "scatter_from",
    "barrier",
    "send",
    "recv",
];

/// The ops in place that are not defined for complex numbers although others of their name are.
const UNDEFINED: &[&str] = &["abs_"];

/// Returns whether an op is defined for complex operands or results.
pub fn is_defined(op: &str) -> bool {
    let new = op.strip_suffix('_').unwrap_or(op);
    !UNDEFINED.contains(&op) && (MOVES.contains(&new) || DEFINED.contains(&new))
}

/// Refuses calls with complex operands of ops that are not defined for them.
pub(crate) fn check_operands(op: &str, call: CallSpec<'_>) -> Result<()> {
    match call.inputs.iter().find(|x| x.dtype.is_complex()) {
        Some(x) if !is_defined(op) => {
            refuse("dtype", format!("it is not defined for complex numbers, got {}", x.brief()))
        }
        _ => Ok(()),
    }
}

/// Refuses calls with complex results of ops that are not defined for them.
pub(crate) fn check_results(op: &str, signature: &Signature) -> Result<()> {
    let complex = signature.outputs.iter().find_map(|output| match output {
        OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => {
            spec.dtype.is_complex().then_some(spec.dtype)
        }
        OutputSpec::View { .. } | OutputSpec::Same(_) => None,
    });
    match complex {
        Some(dtype) if !is_defined(op) => {
            refuse("dtype", format!("it is not defined for complex numbers, got {dtype}"))
        }
        _ => Ok(()),
    }
}

const REAL: ArgDoc = arg("real", "f32 or f64, any shape");
const IMAG: ArgDoc = arg("imag", "the dtype of real; a shape that broadcasts with it");
const SIZE: ArgDoc = arg("abs", "f32 or f64, any shape");
const ANGLE: ArgDoc = arg("angle", "the dtype of abs; a shape that broadcasts with it");

elementwise! {
    PARTS = new;
    ("complex", "complex numbers of two parts", &[REAL, IMAG], &[], Arity::Listed, of_parts);
    ("polar", "complex numbers of absolute values and angles", &[SIZE, ANGLE], &[], Arity::Listed,
     of_parts);
    ("conj_physical", "the complex conjugate of x", &[arg("x", "complex, any shape")], &[],
     Arity::Listed, conjugate);
}

pub(crate) const VIEWS: &[Def] = &[VIEW_AS_REAL, VIEW_AS_COMPLEX];

fn of_parts(call: CallSpec<'_>) -> Result<DType> {
    let [a, b] = call.inputs else { return refuse("operands", "expected two tensors") };
    if a.dtype != b.dtype || !matches!(a.dtype, DType::F32 | DType::F64) {
        let message = format!("expected f32 or f64, one for both, got {}", briefs(call.inputs));
        return refuse("dtype", message);
    }
    Ok(a.dtype.complex())
}

fn conjugate(call: CallSpec<'_>) -> Result<DType> {
    match common(call, None)? {
        dtype if dtype.is_complex() => Ok(dtype),
        _ => refuse("dtype", format!("expected complex numbers, got {}", briefs(call.inputs))),
    }
}

const VIEW_AS_REAL: Def = Def {
    name: "view_as_real",
    summary: "a view of the parts of complex numbers, with a last dimension of length 2",
    inputs: &[arg("x", "complex, any shape")],
    attrs: &[],
    arity: Arity::Listed,
    rule: |call| {
        let x = &call.inputs[0];
        if !x.dtype.is_complex() {
            return refuse("dtype", format!("expected complex numbers, got {}", x.brief()));
        }
        let mut shape = Dims::from_slice(x.shape());
        shape.push(2);
        let mut strides: Dims = x.layout.strides().iter().map(|s| s.saturating_mul(2)).collect();
        strides.push(1);
        let layout = Layout::strided(&shape, &strides, x.layout.offset().saturating_mul(2))?;
        Ok(Signature::view_of(layout, x.dtype.part()))
    },
};

const VIEW_AS_COMPLEX: Def = Def {
    name: "view_as_complex",
    summary: "a view of the pairs in the last dimension as complex numbers",
    inputs: &[arg("x", "f32 or f64; the last dimension has length 2 and stride 1")],
    attrs: &[],
    arity: Arity::Listed,
    rule: |call| {
        let x = &call.inputs[0];
        if !matches!(x.dtype, DType::F32 | DType::F64) {
            return refuse("dtype", format!("expected f32 or f64, got {}", x.brief()));
        }
        let (Some((2, shape)), Some((&step, strides))) =
            (x.shape().split_last().map(|(l, s)| (*l, s)), x.layout.strides().split_last())
        else {
            return refuse("shape", format!("expected a last dimension of 2, got {}", x.brief()));
        };
        let (strides, offset) = match x.numel() {
            // The strides of a tensor without elements are arbitrary.
            0 => (Layout::contiguous(shape)?.strides().into(), 0),
            _ => (Dims::from_slice(strides), x.layout.offset()),
        };
        let even = |length: usize, stride: usize| length == 1 || stride.is_multiple_of(2);
        let pairs = shape.iter().zip(&strides).all(|(&length, &stride)| even(length, stride));
        if x.numel() > 0 && (step != 1 || !pairs || offset % 2 != 0) {
            let message = format!(
                "expected a last stride of 1, and others and an offset that are even, got {x}"
            );
            return refuse("strides", message);
        }
        let strides: Dims = strides.iter().map(|s| s.div_ceil(2)).collect();
        let layout = Layout::strided(shape, &strides, offset / 2)?;
        Ok(Signature::view_of(layout, x.dtype.complex()))
    },
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::standard;

    #[test]
    fn every_name_is_that_of_an_op() {
        let ops = standard();
        let mut seen = BTreeSet::new();
        for name in DEFINED.iter().chain(UNDEFINED) {
            assert!(ops.find(name).is_some() || ops.find(&format!("{name}_")).is_some(), "{name}");
            seen.insert(name);
        }
        assert!(is_defined("mul_") && !is_defined("abs_") && !is_defined("sort"));
    }
}
