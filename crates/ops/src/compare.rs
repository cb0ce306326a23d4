//! Comparisons, logic and bitwise ops.
//!
//! | ops | result | dtypes |
//! |---|---|---|
//! | `eq`, `ne`, `lt`, `le`, `gt`, `ge` | bool; with NaN only `ne` is true | all |
//! | `logical_and`, `logical_or`, `logical_not` | bool, of "nonzero" | all |
//! | `bitwise_and`, `bitwise_or`, `bitwise_xor`, `bitwise_not` | bit by bit | integers, bool |
//! | `__lshift__`, `__rshift__` | bits shifted | integers |
//!
//! Operands are converted to their common dtype first, as in [`crate::arith`]. Bitwise ops on bool
//! are logical. A shift by a negative number or by all bits or more shifts every bit out. The ops
//! of two tensors, except `logical_and` and `logical_or`, accept a number `other` in place of the
//! second. Logical and bitwise ops have an in-place form whose name ends in `_`.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{DType, Result};

use crate::def::arg;
use crate::elementwise::{OTHER, briefs, common, elementwise, refuse, with_number};
use crate::schema::{ArgDoc, CallSpec};

const X: &[ArgDoc] = &[arg("x", "any shape")];
const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];
const NUMBER: &[ArgDoc] = &[arg(OTHER, "a number in place of y").number().instead_of("y")];

elementwise! {
    OPS = new;
    ("eq", "whether x and y are equal", XY, NUMBER, truth) optional(1) complex unsigned;
    ("ne", "whether x and y are not equal", XY, NUMBER, truth) optional(1) complex unsigned;
    ("lt", "whether x is less than y", XY, NUMBER, truth) optional(1) unsigned;
    ("le", "whether x is less than or equal to y", XY, NUMBER, truth) optional(1) unsigned;
    ("gt", "whether x is greater than y", XY, NUMBER, truth) optional(1) unsigned;
    ("ge", "whether x is greater than or equal to y", XY, NUMBER, truth) optional(1) unsigned;
    ("__lshift__", "x shifted left by y bits", XY, NUMBER, shift) optional(1);
    ("__rshift__", "x shifted right by y bits, keeping the sign", XY, NUMBER,
     shift) optional(1);
}

elementwise! {
    LOGIC = new, LOGIC_IN_PLACE = in place;
    ("logical_and", "whether x and y are both nonzero", XY, &[], truth_of_all) complex;
    ("logical_or", "whether x or y is nonzero", XY, &[], truth_of_all) complex;
    ("logical_not", "whether x is zero", X, &[], truth_of_all) complex;
    ("bitwise_and", "the bitwise and of x and y", XY, NUMBER, bits) optional(1) unsigned;
    ("bitwise_or", "the bitwise or of x and y", XY, NUMBER, bits) optional(1) unsigned;
    ("bitwise_xor", "the bitwise exclusive or of x and y", XY, NUMBER, bits) optional(1) unsigned;
    ("bitwise_not", "the bitwise complement of x", X, &[], bits_of_one) unsigned;
}

fn truth(call: CallSpec<'_>) -> Result<DType> {
    with_number(call, 2, OTHER)?;
    Ok(DType::Bool)
}

fn truth_of_all(_: CallSpec<'_>) -> Result<DType> {
    Ok(DType::Bool)
}

fn bits(call: CallSpec<'_>) -> Result<DType> {
    whole(call, with_number(call, 2, OTHER)?.0)
}

fn bits_of_one(call: CallSpec<'_>) -> Result<DType> {
    whole(call, common(call, None)?)
}

fn shift(call: CallSpec<'_>) -> Result<DType> {
    match bits(call)? {
        DType::Bool => refuse("dtype", format!("expected integers, got {}", briefs(call.inputs))),
        common => Ok(common),
    }
}

fn whole(call: CallSpec<'_>, common: DType) -> Result<DType> {
    if common.is_inexact() {
        let message = format!(
            "expected integers or bool, got {common} as the common dtype of {}",
            briefs(call.inputs)
        );
        return refuse("dtype", message);
    }
    Ok(common)
}
