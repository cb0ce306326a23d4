//! Discrete Fourier transforms, computed in f64 and rounded once.
//!
//! | op | result |
//! |---|---|
//! | `_fft_c2c(x; dim, normalization=0, forward)` | of complex numbers, or its inverse |
//! | `_fft_r2c(x; dim, normalization=0, onesided)` | of real numbers |
//! | `_fft_c2r(x; dim, normalization=0, last_dim_size)` | the inverse of that, real numbers |
//!
//! The normalization is 0 (none), 1 (by the root of the number of transformed elements) or 2 (by
//! that number). `onesided` keeps the first half of the spectrum in the last dimension of `dim`,
//! from which `_fft_c2r` computes that many elements. Without dimensions, `_fft_c2c` copies.
//!
//! Source: <https://docs.pytorch.org/docs/stable/fft.html>.

use millstream_types::{DType, Dims, Result, TensorSpec};

use crate::args::{dimension, required};
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{ArgDoc, CallSpec, Signature};

const DIM: ArgDoc = arg("dim", "the transformed dimensions").ints();
const NORMALIZATION: ArgDoc =
    arg("normalization", "0: none, 1: by the root of the number of elements, 2: by the number")
        .int()
        .or("0");

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "_fft_c2c",
        "the Fourier transform of complex numbers, or its inverse",
        &[arg("x", "complex, any shape")],
        &[DIM, NORMALIZATION, arg("forward", "false: the inverse").flag()],
        |call| {
            let x = complex(call)?;
            dims(call, x.shape())?;
            required("forward", call.attrs.bool("forward")?)?;
            Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?))
        },
    )
    .complex(),
    Def::new(
        "_fft_r2c",
        "the Fourier transform of real numbers",
        &[arg("x", "f32 or f64, any shape")],
        &[
            DIM,
            NORMALIZATION,
            arg("onesided", "whether the last dimension keeps the first half alone").flag(),
        ],
        |call| {
            let x = &call.inputs[0];
            if !matches!(x.dtype, DType::F32 | DType::F64) {
                return refuse("dtype", format!("expected f32 or f64, got {}", x.brief()));
            }
            let last = last(dims(call, x.shape())?)?;
            let mut shape = Dims::from_slice(x.shape());
            if required("onesided", call.attrs.bool("onesided")?)? {
                shape[last] = shape[last] / 2 + 1;
            }
            Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype.complex(), &shape)?))
        },
    )
    .complex(),
    Def::new(
        "_fft_c2r",
        "the real numbers whose Fourier transform begins with x",
        &[arg("x", "complex, any shape")],
        &[
            DIM,
            NORMALIZATION,
            arg("last_dim_size", "the length of the last transformed dimension").int(),
        ],
        |call| {
            let x = complex(call)?;
            let last = last(dims(call, x.shape())?)?;
            let given = required("last_dim_size", call.attrs.int("last_dim_size")?)?;
            let length = usize::try_from(given).ok().filter(|&n| n > 0);
            let Some(length) = length.filter(|&n| n / 2 < x.shape()[last]) else {
                let most = 2 * x.shape()[last] - 1;
                let message = format!("last_dim_size: expected 1 to {most}, got {given}");
                return refuse("argument", message);
            };
            let mut shape = Dims::from_slice(x.shape());
            shape[last] = length;
            Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype.part(), &shape)?))
        },
    )
    .complex(),
];

fn complex<'a>(call: CallSpec<'a>) -> Result<&'a TensorSpec> {
    match &call.inputs[0] {
        x if x.dtype.is_complex() => Ok(x),
        x => refuse("dtype", format!("expected complex numbers, got {}", x.brief())),
    }
}

/// Checks the normalization; returns the transformed dimensions.
fn dims(call: CallSpec<'_>, shape: &[usize]) -> Result<Dims> {
    let given = required("dim", call.attrs.ints("dim")?)?;
    let mut seen = Dims::new();
    for &dim in &given {
        let at = dimension(dim, shape.len())?;
        if seen.contains(&at) {
            return refuse("argument", format!("dim: expected {dim} once"));
        }
        if shape.get(at).is_none_or(|&length| length == 0) {
            return refuse("shape", format!("expected elements along dimension {dim}"));
        }
        seen.push(at);
    }
    match call.attrs.int("normalization")?.unwrap_or(0) {
        0..=2 => Ok(seen),
        other => refuse("argument", format!("normalization: expected 0, 1 or 2, got {other}")),
    }
}

fn last(dims: Dims) -> Result<usize> {
    match dims.last() {
        Some(last) => Ok(*last),
        None => refuse("argument", "dim: expected a dimension, got none"),
    }
}
