//! Elementwise arithmetic.
//!
//! | op | result | dtypes |
//! |---|---|---|
//! | `add(x, y; alpha=1)` | x + alpha · y | all; bool: or |
//! | `sub(x, y; alpha=1)` | x - alpha · y | all but bool |
//! | `mul(x, y)` | x · y | all; bool: and |
//! | `div(x, y; rounding_mode)` | x / y; with "trunc" or "floor" rounded to a whole number | all; floats unless rounded |
//! | `remainder(x, y)` | x - y · floor(x / y), of y's sign | all but bool |
//! | `fmod(x, y)` | x - y · trunc(x / y), of x's sign | all but bool |
//! | `pow(x, exponent)` | x to the power of the exponent | all but bool |
//! | `neg(x)` | -x | all but bool |
//! | `maximum(x, y)`, `minimum(x, y)` | the greater, the lesser; NaN if either is | all |
//!
//! The second tensor may be a number instead, called `other` (`exponent` for `pow`): `add(x;
//! other=2)`. All but `maximum` and `minimum` exist in place as well, with a `_` after the name; the
//! other operand then counts as read in full before x is written.
//!
//! Operands are converted to the common dtype ([`crate::promote`]) first. Integers wrap, so that the
//! result is right modulo two to the number of bits, alpha included; they divided by zero are an
//! error of the kernel. f16 and bf16 are computed in f32 and rounded once.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{DType, Result};

use crate::args::{Scalar, choice};
use crate::def::{Arity, arg};
use crate::elementwise::{OTHER, briefs, common, elementwise, or_number, refuse};
use crate::promote::floating;
use crate::schema::{ArgDoc, CallSpec};

const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];
const OTHER_DOC: ArgDoc = arg(OTHER, "a number in y's place");
const ALPHA: ArgDoc = arg("alpha", "factor of y; 1 unless given; whole for integers");
const ROUNDING: ArgDoc = arg("rounding_mode", "\"floor\" or \"trunc\"; not rounded unless given");
const EXPONENT: ArgDoc = arg("exponent", "a number in the second tensor's place");
const POW: &[ArgDoc] = &[arg("x", "any shape"), arg("exponent", "a shape that broadcasts with x")];

/// The ways in which `div` rounds.
pub const ROUNDING_MODES: &[&str] = &["floor", "trunc"];

elementwise! {
    OPS = new, IN_PLACE = in place;
    ("add", "x + alpha * y, broadcast", XY, &[OTHER_DOC, ALPHA], Arity::Optional(1), add);
    ("sub", "x - alpha * y, broadcast", XY, &[OTHER_DOC, ALPHA], Arity::Optional(1), sub);
    ("mul", "x * y, broadcast", XY, &[OTHER_DOC], Arity::Optional(1), mul);
    ("div", "x / y, broadcast", XY, &[OTHER_DOC, ROUNDING], Arity::Optional(1), div);
    ("remainder", "what is left of x divided by y, with y's sign", XY, &[OTHER_DOC],
     Arity::Optional(1), whole_parts);
    ("fmod", "what is left of x divided by y, with x's sign", XY, &[OTHER_DOC],
     Arity::Optional(1), whole_parts);
    ("pow", "x to the power of the exponent", POW, &[EXPONENT], Arity::Optional(1), pow);
    ("neg", "x with the other sign", &[arg("x", "any shape")], &[], Arity::Listed, number);
}

elementwise! {
    EXTREMES = new;
    ("maximum", "the greater of x and y, NaN if either is", XY, &[], Arity::Listed, any);
    ("minimum", "the lesser of x and y, NaN if either is", XY, &[], Arity::Listed, any);
}

fn add(call: CallSpec<'_>) -> Result<DType> {
    let (common, _) = or_number(call, 2, OTHER)?;
    alpha(call, common)?;
    Ok(common)
}

fn sub(call: CallSpec<'_>) -> Result<DType> {
    let (common, number) = or_number(call, 2, OTHER)?;
    let bool_number = matches!(number, Some(Scalar::Bool(_)));
    if bool_number || call.inputs.iter().any(|s| s.dtype == DType::Bool) {
        return refuse("dtype", format!("bool cannot be subtracted: {}", briefs(call.inputs)));
    }
    alpha(call, common)?;
    Ok(common)
}

fn mul(call: CallSpec<'_>) -> Result<DType> {
    Ok(or_number(call, 2, OTHER)?.0)
}

fn div(call: CallSpec<'_>) -> Result<DType> {
    match choice(call.attrs, "rounding_mode", ROUNDING_MODES)? {
        Some(_) => whole_parts(call),
        None => Ok(floating(or_number(call, 2, OTHER)?.0)),
    }
}

fn whole_parts(call: CallSpec<'_>) -> Result<DType> {
    let (common, number) = or_number(call, 2, OTHER)?;
    let zero = matches!(number, Some(Scalar::Int(0) | Scalar::Bool(false)));
    if zero && !common.is_float() {
        return refuse("argument", format!("{OTHER}: a whole number cannot be divided by zero"));
    }
    numbers(call, common)
}

fn pow(call: CallSpec<'_>) -> Result<DType> {
    let (common, number) = or_number(call, 2, "exponent")?;
    match number {
        Some(Scalar::Int(v)) if v < 0 && !common.is_float() => {
            refuse("argument", format!("exponent: expected 0 or more for {common}, got {v}"))
        }
        _ => numbers(call, common),
    }
}

fn number(call: CallSpec<'_>) -> Result<DType> {
    numbers(call, common(call, None))
}

fn any(call: CallSpec<'_>) -> Result<DType> {
    Ok(common(call, None))
}

fn numbers(call: CallSpec<'_>, common: DType) -> Result<DType> {
    match common {
        DType::Bool => refuse("dtype", format!("expected numbers, got {}", briefs(call.inputs))),
        common => Ok(common),
    }
}

/// Checks `alpha` as PyTorch does: floats only for floats, truth values only for bool.
fn alpha(call: CallSpec<'_>, common: DType) -> Result<()> {
    match Scalar::of(call.attrs, "alpha")? {
        Some(v @ Scalar::Float(_)) if !common.is_float() => {
            refuse("argument", format!("alpha: expected a whole number for {common}, got {v}"))
        }
        Some(v @ Scalar::Bool(_)) if common != DType::Bool => {
            refuse("argument", format!("alpha: expected a number for {common}, got {v}"))
        }
        _ => Ok(()),
    }
}
