//! Comparisons, and logic on truth values and bits.
//!
//! | ops | result | dtypes |
//! |---|---|---|
//! | `eq`, `ne`, `lt`, `le`, `gt`, `ge` | bool; with NaN only `ne` is true | all |
//! | `logical_and`, `logical_or`, `logical_not` | bool, of "not zero" | all |
//! | `bitwise_and`, `bitwise_or`, `bitwise_xor`, `bitwise_not` | bit by bit; of bool the logic | integers and bool |
//! | `__lshift__`, `__rshift__` | bits moved; by less than 0 or by all bits: as if by many | integers |
//!
//! Operands are converted to their common dtype first, as for sums. Those of two tensors but
//! `logical_and` and `logical_or` take a number called `other` as the second. Logic on truth values
//! and bits exists in place as well, with a `_` after the name.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{DType, Result};

use crate::def::{Arity, arg};
use crate::elementwise::{OTHER, briefs, common, elementwise, or_number, refuse};
use crate::schema::{ArgDoc, CallSpec};

const X: &[ArgDoc] = &[arg("x", "any shape")];
const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];
const NUMBER: &[ArgDoc] = &[arg(OTHER, "a number in y's place")];

elementwise! {
    OPS = new;
    ("eq", "whether x and y are equal", XY, NUMBER, Arity::Optional(1), truth);
    ("ne", "whether x and y are not equal", XY, NUMBER, Arity::Optional(1), truth);
    ("lt", "whether x is less than y", XY, NUMBER, Arity::Optional(1), truth);
    ("le", "whether x is not more than y", XY, NUMBER, Arity::Optional(1), truth);
    ("gt", "whether x is more than y", XY, NUMBER, Arity::Optional(1), truth);
    ("ge", "whether x is not less than y", XY, NUMBER, Arity::Optional(1), truth);
    ("__lshift__", "the bits of x moved up by y places", XY, NUMBER, Arity::Optional(1), shift);
    ("__rshift__", "the bits of x moved down by y places, the sign kept", XY, NUMBER,
     Arity::Optional(1), shift);
}

elementwise! {
    LOGIC = new, LOGIC_IN_PLACE = in place;
    ("logical_and", "whether neither is zero", XY, &[], Arity::Listed, truth_of_all);
    ("logical_or", "whether either is not zero", XY, &[], Arity::Listed, truth_of_all);
    ("logical_not", "whether x is zero", X, &[], Arity::Listed, truth_of_all);
    ("bitwise_and", "the bits that both have", XY, NUMBER, Arity::Optional(1), bits);
    ("bitwise_or", "the bits that either has", XY, NUMBER, Arity::Optional(1), bits);
    ("bitwise_xor", "the bits that one has and not the other", XY, NUMBER, Arity::Optional(1),
     bits);
    ("bitwise_not", "the bits that x does not have", X, &[], Arity::Listed, bits_of_one);
}

fn truth(call: CallSpec<'_>) -> Result<DType> {
    or_number(call, 2, OTHER)?;
    Ok(DType::Bool)
}

fn truth_of_all(_: CallSpec<'_>) -> Result<DType> {
    Ok(DType::Bool)
}

fn bits(call: CallSpec<'_>) -> Result<DType> {
    whole(call, or_number(call, 2, OTHER)?.0)
}

fn bits_of_one(call: CallSpec<'_>) -> Result<DType> {
    whole(call, common(call, None))
}

fn shift(call: CallSpec<'_>) -> Result<DType> {
    match bits(call)? {
        DType::Bool => refuse("dtype", format!("expected integers, got {}", briefs(call.inputs))),
        common => Ok(common),
    }
}

fn whole(call: CallSpec<'_>, common: DType) -> Result<DType> {
    if common.is_float() {
        let message = format!("expected integers or bool, got {common} of {}", briefs(call.inputs));
        return refuse("dtype", message);
    }
    Ok(common)
}
