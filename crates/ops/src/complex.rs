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
//! c64 has parts of f32, c128 of f64. An op refuses complex operands and results unless its
//! definition says that it is [defined for them](Def::complex). Numbers among arguments are real; a
//! complex one is a tensor of no dimensions. Sums and products are computed in the dtype, all else
//! in f64, rounded once.
//!
//! Source: <https://docs.pytorch.org/docs/stable/complex_numbers.html>.

use millstream_types::{DType, Dims, Layout, Result};

use crate::def::{Def, arg};
use crate::elementwise::{briefs, common, elementwise, refuse};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};
use crate::standard;

/// Returns whether a standard op is defined for complex operands.
///
/// ```
/// use millstream_ops::complex::is_defined;
/// assert!(is_defined("mul_") && !is_defined("abs_") && !is_defined("sort"));
/// ```
pub fn is_defined(op: &str) -> bool {
    standard::definition(op).is_some_and(takes)
}

/// Returns whether an op takes complex operands. The absolute value is real, so it cannot take the
/// place of a complex number.
fn takes(op: &Def) -> bool {
    op.is_complex && op.name != "abs_"
}

/// Refuses calls with complex operands of ops that are not defined for them.
pub(crate) fn check_operands(op: &Def, call: CallSpec<'_>) -> Result<()> {
    match call.inputs.iter().find(|x| x.dtype.is_complex()) {
        Some(x) if !takes(op) => {
            refuse("dtype", format!("it is not defined for complex numbers, got {}", x.brief()))
        }
        _ => Ok(()),
    }
}

/// Refuses calls with complex results of ops that are not defined for them.
pub(crate) fn check_results(op: &Def, signature: &Signature) -> Result<()> {
    let complex = signature.outputs.iter().find_map(|output| match output {
        OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => {
            spec.dtype.is_complex().then_some(spec.dtype)
        }
        OutputSpec::View { .. } | OutputSpec::Same(_) => None,
    });
    match complex {
        Some(dtype) if !op.is_complex => {
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
    ("complex", "complex numbers of two parts", &[REAL, IMAG], &[], of_parts) complex;
    ("polar", "complex numbers of absolute values and angles", &[SIZE, ANGLE], &[],
     of_parts) complex;
    ("conj_physical", "the complex conjugate of x", &[arg("x", "complex, any shape")], &[],
      conjugate) complex;
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

const VIEW_AS_REAL: Def = Def::new(
    "view_as_real",
    "a view of the parts of complex numbers, with a last dimension of length 2",
    &[arg("x", "complex, any shape")],
    &[],
    |call| {
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
)
.complex();

const VIEW_AS_COMPLEX: Def = Def::new(
    "view_as_complex",
    "a view of the pairs in the last dimension as complex numbers",
    &[arg("x", "f32 or f64; the last dimension has length 2 and stride 1")],
    &[],
    |call| {
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
)
.complex();
