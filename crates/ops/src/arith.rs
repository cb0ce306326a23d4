//! Elementwise arithmetic.
//!
//! | op | result | dtypes |
//! |---|---|---|
//! | `add(x, y; alpha=1)` | x + alpha · y | all; bool: or |
//! | `sub(x, y; alpha=1)` | x - alpha · y | all but bool |
//! | `mul(x, y)` | x · y | all; bool: and |
//! | `div(x, y; rounding_mode)` | x / y; rounded if a mode is given | all; float unless rounded |
//! | `remainder(x, y)` | x - y · floor(x / y), with the sign of y | all but bool |
//! | `fmod(x, y)` | x - y · trunc(x / y), with the sign of x | all but bool |
//! | `pow(x, exponent)` | x to the power of the exponent | all but bool |
//! | `atan2(x, y)` | the angle of the point (y, x) | all; float |
//! | `neg(x)` | -x | all but bool |
//! | `gcd(x, y)`, `lcm(x, y)` | the common divisor and multiple, not negative | integers |
//! | `nextafter(x, y)` | the number next to x towards y | floats |
//! | `maximum(x, y)`, `minimum(x, y)` | the greater, the lesser; NaN if either is NaN | all |
//!
//! A number may replace the second tensor. The argument is called `other` (`exponent` for `pow`):
//! `add(x; other=2)`. All ops but those of the last three rows have an in-place form whose name
//! ends in `_`; it reads the other operand in full before it writes x. The rounding modes of `div`
//! are "trunc" and "floor".
//!
//! Operands are converted to the common dtype ([`crate::promotion`]) first. Integers wrap, so
//! results are exact modulo 2^bits, alpha included. The kernel fails on integer division by zero.
//! f16 and bf16 are computed in f32 and rounded once.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{DType, Result};

use crate::args::{Scalar, choice};
use crate::def::arg;
use crate::elementwise::{OTHER, briefs, common, elementwise, refuse, with_number};
use crate::promotion::floating;
use crate::schema::{ArgDoc, CallSpec};

const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];
const OTHER_DOC: ArgDoc = arg(OTHER, "a number in place of y").number().instead_of("y").patchable();
const ALPHA: ArgDoc = arg("alpha", "factor of y, whole for integers").number().or("1").patchable();
const ROUNDING: ArgDoc =
    arg("rounding_mode", "\"floor\" or \"trunc\"; else no rounding").text().optional();
const EXPONENT: ArgDoc = arg("exponent", "a number in place of the second tensor")
    .number()
    .instead_of("exponent")
    .patchable();
const POW: &[ArgDoc] = &[arg("x", "any shape"), arg("exponent", "a shape that broadcasts with x")];

/// The rounding modes of `div`.
pub const ROUNDING_MODES: &[&str] = &["floor", "trunc"];

elementwise! {
    OPS = new, IN_PLACE = in place;
    ("add", "x + alpha * y, broadcast", XY, &[OTHER_DOC, ALPHA], add) optional(1) complex;
    ("sub", "x - alpha * y, broadcast", XY, &[OTHER_DOC, ALPHA], sub) optional(1) complex;
    ("mul", "x * y, broadcast", XY, &[OTHER_DOC], mul) optional(1) complex;
    ("div", "x / y, broadcast", XY, &[OTHER_DOC, ROUNDING], div) optional(1) complex;
    ("remainder", "x - y * floor(x / y): the remainder, with the sign of y", XY, &[OTHER_DOC],
     whole_parts) optional(1);
    ("fmod", "x - y * trunc(x / y): the remainder, with the sign of x", XY, &[OTHER_DOC],
     whole_parts) optional(1);
    ("pow", "x to the power of the exponent", POW, &[EXPONENT], pow) optional(1) complex;
    ("atan2", "the angle of the point (y, x), with x the ordinate", XY, &[], angle);
    ("neg", "-x", &[arg("x", "any shape")], &[], number) complex;
}

elementwise! {
    EXTREMES = new;
    ("maximum", "the greater of x and y; NaN if either is NaN", XY, &[], any);
    ("minimum", "the lesser of x and y; NaN if either is NaN", XY, &[], any);
}

elementwise! {
    NUMBERS = new;
    ("gcd", "the greatest common divisor of x and y", XY, &[], whole);
    ("lcm", "the least common multiple of x and y", XY, &[], whole);
    ("nextafter", "the number of the dtype next to x towards y", XY, &[], floats);
}

fn whole(call: CallSpec<'_>) -> Result<DType> {
    match common(call, None)? {
        common if common.is_int() => Ok(common),
        _ => refuse("dtype", format!("expected integers, got {}", briefs(call.inputs))),
    }
}

fn floats(call: CallSpec<'_>) -> Result<DType> {
    match common(call, None)? {
        common if common.is_float() => Ok(common),
        _ => refuse("dtype", format!("expected floats, got {}", briefs(call.inputs))),
    }
}

fn add(call: CallSpec<'_>) -> Result<DType> {
    let (common, _) = with_number(call, 2, OTHER)?;
    alpha(call, common)?;
    Ok(common)
}

fn sub(call: CallSpec<'_>) -> Result<DType> {
    let (common, number) = with_number(call, 2, OTHER)?;
    let bool_number = matches!(number, Some(Scalar::Bool(_)));
    if bool_number || call.inputs.iter().any(|s| s.dtype == DType::Bool) {
        return refuse(
            "dtype",
            format!("expected numbers, as bool cannot be subtracted, got {}", briefs(call.inputs)),
        );
    }
    alpha(call, common)?;
    Ok(common)
}

fn mul(call: CallSpec<'_>) -> Result<DType> {
    Ok(with_number(call, 2, OTHER)?.0)
}

fn div(call: CallSpec<'_>) -> Result<DType> {
    match choice(call.attrs, "rounding_mode", ROUNDING_MODES)? {
        Some(_) => whole_parts(call),
        None => Ok(floating(with_number(call, 2, OTHER)?.0)),
    }
}

fn whole_parts(call: CallSpec<'_>) -> Result<DType> {
    let (common, number) = with_number(call, 2, OTHER)?;
    let zero = matches!(number, Some(Scalar::Int(0) | Scalar::Bool(false)));
    let is_empty = call.inputs.iter().any(|x| x.numel() == 0);
    if common.is_complex() {
        let message = format!("a rounded quotient of complex numbers: got {}", briefs(call.inputs));
        return refuse("dtype", message);
    }
    if zero && !common.is_float() && !is_empty {
        return refuse(
            "argument",
            format!("{OTHER}: expected a divisor other than 0 for integers, got 0"),
        );
    }
    numbers(call, common)
}

fn pow(call: CallSpec<'_>) -> Result<DType> {
    let (common, number) = with_number(call, 2, "exponent")?;
    match number {
        Some(Scalar::Int(v)) if v < 0 && !common.is_inexact() => {
            refuse("argument", format!("exponent: expected 0 or more for {common}, got {v}"))
        }
        _ => numbers(call, common),
    }
}

fn angle(call: CallSpec<'_>) -> Result<DType> {
    common(call, None).map(floating)
}

fn number(call: CallSpec<'_>) -> Result<DType> {
    numbers(call, common(call, None)?)
}

fn any(call: CallSpec<'_>) -> Result<DType> {
    common(call, None)
}

fn numbers(call: CallSpec<'_>, common: DType) -> Result<DType> {
    match common {
        DType::Bool => refuse("dtype", format!("expected numbers, got {}", briefs(call.inputs))),
        common => Ok(common),
    }
}

/// Checks `alpha` as PyTorch does: a float requires a float dtype, a boolean requires bool.
fn alpha(call: CallSpec<'_>, common: DType) -> Result<()> {
    match Scalar::of(call.attrs, "alpha")? {
        Some(v @ Scalar::Float(_)) if !common.is_inexact() => {
            refuse("argument", format!("alpha: expected a whole number for {common}, got {v}"))
        }
        Some(v @ Scalar::Bool(_)) if common != DType::Bool => {
            refuse("argument", format!("alpha: expected a number for {common}, got {v}"))
        }
        _ => Ok(()),
    }
}
