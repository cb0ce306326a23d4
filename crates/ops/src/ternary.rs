//! Elementwise functions of several tensors.
//!
//! | op | result |
//! |---|---|
//! | `where(condition, x, y)` | x where the condition is true, else y |
//! | `masked_fill(x, mask, value)` | the value where the mask is true, else x |
//! | `clamp(x; min, max)`, `clamp_min`, `clamp_max` | x, at least min, then at most max |
//! | `lerp(x, end, weight)` | x + weight · (end - x) |
//! | `addcmul(x, tensor1, tensor2; value=1)` | x + value · tensor1 · tensor2 |
//! | `addcdiv(x, tensor1, tensor2; value=1)` | x + value · tensor1 / tensor2 |
//!
//! A number `self` or `other` may replace x or y of `where`; a number may replace the value of
//! `masked_fill`, which else is a tensor without dimensions, and the weight of `lerp`. All ops but
//! `where` have an in-place form whose name ends in `_`. Clamping keeps NaN.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::args::{Scalar, required};
use crate::def::{Def, arg};
use crate::elementwise::{briefs, common, elementwise, in_place, number_in_place, refuse, shape};
use crate::promotion::common_dtype;
use crate::schema::{ArgDoc, CallSpec, Signature};

const MIN: ArgDoc = arg("min", "the least value").number().optional().patchable();
const MAX: ArgDoc = arg("max", "the greatest value").number().optional().patchable();
const LEAST: ArgDoc = arg("min", "the least value").number().patchable();
const GREATEST: ArgDoc = arg("max", "the greatest value").number().patchable();
const X: &[ArgDoc] = &[arg("x", "any shape")];
const FILL: &[ArgDoc] = &[
    arg("x", "any shape"),
    arg("mask", "bool; a shape that broadcasts with x"),
    arg("value", "a tensor of no dimensions"),
];
const FILL_NUMBER: &[ArgDoc] =
    &[arg("value", "a number in place of the tensor").number().instead_of("value").patchable()];
const LERP: &[ArgDoc] = &[
    arg("x", "floats, any shape"),
    arg("end", "x's dtype; a shape that broadcasts with x"),
    arg("weight", "x's dtype; a shape that broadcasts with x"),
];
const PRODUCT: &[ArgDoc] = &[
    arg("x", "any shape"),
    arg("tensor1", "a shape that broadcasts with x"),
    arg("tensor2", "a shape that broadcasts with x"),
];
const VALUE: &[ArgDoc] = &[arg("value", "a factor").number().or("1").patchable()];
const WEIGHT: &[ArgDoc] =
    &[arg("weight", "a number in place of the tensor").number().instead_of("weight").patchable()];

elementwise! {
    OPS = new, IN_PLACE = in place;
    ("clamp", "x, at least min and then at most max", X, &[MIN, MAX], clamp);
    ("clamp_min", "x, at least min", X, &[LEAST], clamp);
    ("clamp_max", "x, at most max", X, &[GREATEST], clamp);
    ("lerp", "x + weight * (end - x)", LERP, WEIGHT, lerp) optional(2) complex;
    ("addcmul", "x + value * tensor1 * tensor2", PRODUCT, VALUE, addcmul) complex;
    ("addcdiv", "x + value * tensor1 / tensor2", PRODUCT, VALUE, addcdiv) complex;
}

pub(crate) const CHOICES: &[Def] = &[WHERE, MASKED_FILL, MASKED_FILL_];

const WHERE: Def = Def::new(
    "where",
    "x where the condition is true, else y",
    &[
        arg("condition", "bool"),
        arg("x", "a shape that broadcasts with the condition"),
        arg("y", "a shape that broadcasts with both"),
    ],
    &[
        arg("self", "a number in place of x; the one tensor besides the condition is then y")
            .number()
            .instead_of("x"),
        arg("other", "a number in place of y").number().instead_of("y"),
    ],
    |call| {
        let condition = &call.inputs[0];
        if !matches!(condition.dtype, DType::Bool | DType::U8) {
            return refuse(
                "dtype",
                format!("expected a bool condition, got {}", condition.brief()),
            );
        }
        let numbers = [Scalar::of(call.attrs, "self")?, Scalar::of(call.attrs, "other")?];
        let numbers = numbers.into_iter().flatten();
        if call.inputs.len() + numbers.clone().count() != 3 {
            let message = "self, other: expected a number or a tensor for each of x and y";
            return refuse("argument", message);
        }
        let tensors = call.inputs[1..].iter().map(|i| (i.dtype, i.layout.rank()));
        crate::elementwise::fresh(call, common_dtype(tensors, numbers)?)
    },
)
.optional(1)
.complex()
.unsigned();

const MASKED_FILL: Def = Def::new(
    "masked_fill",
    "the value where the mask is true, else x",
    FILL,
    FILL_NUMBER,
    |call| {
        masked_fill(call)?;
        let output = TensorSpec::contiguous(call.inputs[0].dtype, &shape(call.inputs)?)?;
        Ok(Signature::reads(call.inputs.len(), output))
    },
)
.optional(2)
.complex()
.unsigned();

const MASKED_FILL_: Def = Def::new(
    "masked_fill_",
    "the value where the mask is true, else x, in place",
    FILL,
    FILL_NUMBER,
    |call| {
        masked_fill(call)?;
        in_place(call, call.inputs[0].dtype)
    },
)
.optional(2)
.complex()
.unsigned();

fn masked_fill(call: CallSpec<'_>) -> Result<()> {
    let (x, mask) = (&call.inputs[0], &call.inputs[1]);
    let value = number_in_place(call, 3, "value")?;
    if mask.dtype != DType::Bool {
        return refuse("dtype", format!("expected a bool mask, got {}", mask.brief()));
    }
    if let Some(tensor) = call.inputs.get(2).filter(|v| v.layout.rank() != 0) {
        let message = format!("expected a tensor of no dimensions, got {}", tensor.brief());
        return refuse("value", message);
    }
    match value {
        Some(value) if !holds(x.dtype, value) => {
            refuse("argument", format!("value: {} cannot hold {value}", x.dtype))
        }
        _ => Ok(()),
    }
}

/// Returns whether PyTorch converts a scalar to this dtype: the fraction is dropped, and unsigned
/// integers take negative numbers modulo the number of their values.
fn holds(dtype: DType, value: Scalar) -> bool {
    let value = match value {
        Scalar::Float(v) if dtype.is_int() && v.is_finite() => Scalar::Float(v.trunc()),
        other => other,
    };
    match value {
        Scalar::Int(v) if v < 0 && (dtype == DType::U8 || dtype.is_wide_unsigned()) => {
            v.checked_neg().is_none_or(|v| Scalar::Int(v).fits(dtype))
        }
        other => other.fits(dtype),
    }
}

fn clamp(call: CallSpec<'_>) -> Result<DType> {
    let bounds = [Scalar::of(call.attrs, "min")?, Scalar::of(call.attrs, "max")?];
    let mut bounds = bounds.into_iter().flatten().peekable();
    required("min or max", bounds.peek().copied())?;
    let x = &call.inputs[0];
    match common_dtype([(x.dtype, x.layout.rank())], bounds)? {
        DType::Bool => refuse("dtype", format!("expected numbers, got {}", x.brief())),
        common => Ok(common),
    }
}

fn lerp(call: CallSpec<'_>) -> Result<DType> {
    number_in_place(call, 3, "weight")?;
    let x = &call.inputs[0];
    let alike = call.inputs[1].dtype == x.dtype
        && call.inputs.get(2).is_none_or(|w| w.dtype == x.dtype || w.layout.rank() == 0);
    if !x.dtype.is_inexact() || !alike {
        let message = format!("expected floats of one dtype, got {}", briefs(call.inputs));
        return refuse("dtype", message);
    }
    Ok(x.dtype)
}

fn addcmul(call: CallSpec<'_>) -> Result<DType> {
    Scalar::of(call.attrs, "value")?;
    match common(call, None)? {
        DType::Bool => refuse("dtype", format!("expected numbers, got {}", briefs(call.inputs))),
        common => Ok(common),
    }
}

fn addcdiv(call: CallSpec<'_>) -> Result<DType> {
    if !call.inputs[1..].iter().any(|t| t.dtype.is_inexact()) {
        let message = format!("expected floats to divide, got {}", briefs(&call.inputs[1..]));
        return refuse("dtype", message);
    }
    addcmul(call)
}
