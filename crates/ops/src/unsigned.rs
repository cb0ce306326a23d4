//! u16, u32 and u64: the ops that are defined for them.
//!
//! As in PyTorch, these dtypes are stored, moved, converted, compared and combined bit by bit, and
//! special functions of them are floats. They have no arithmetic but the product with a fraction:
//! every other op that is not listed in [`is_defined`] refuses them. They promote with floats alone
//! ([`crate::promotion`]).
//!
//! Source: <https://docs.pytorch.org/docs/stable/tensors.html#data-types>, "limited support".

use millstream_types::{AttrValue, DType, Result};

use crate::elementwise::refuse;
use crate::moves::MOVES;
use crate::schema::{CallSpec, OutputSpec, Signature};

/// The ops besides [`MOVES`] that are defined for u16, u32 and u64, those in place by their name
/// without `_`.
const DEFINED: &[&str] = &[
    "full",
    "arange",
    "detach",
    // Elementwise.
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "where",
    "masked_fill",
    // Reductions.
    "hash_tensor",
    // Selection and rearrangement.
    "gather",
    "scatter",
    "index",
    "index_put",
    "index_select",
    "masked_select",
    "nonzero",
    "flip",
    "roll",
    "triu",
    "tril",
    "sort",
    "argsort",
    "unique",
    // Collectives that move.
    "broadcast",
    "allgather",
    "alltoall",
    "gather_to",
    "scatter_from",
    "barrier",
    "send",
    "recv",
];

/// Returns whether an op is defined for operands or results of u16, u32 or u64.
pub fn is_defined(op: &str) -> bool {
    let new = op.strip_suffix('_').unwrap_or(op);
    MOVES.contains(&new) || DEFINED.contains(&new) || op.starts_with("special_")
}

/// Refuses calls with such operands of ops that are not defined for them.
pub(crate) fn check_operands(op: &str, call: CallSpec<'_>) -> Result<()> {
    // `special_ndtr` multiplies by a fraction first, and promotion makes floats of both.
    let is_float = op == "mul" && matches!(call.attrs.get("other"), Some(AttrValue::Float(_)));
    match call.inputs.iter().find(|x| x.dtype.is_wide_unsigned()) {
        Some(x) if !is_defined(op) && !is_float => undefined(&x.brief(), x.dtype),
        _ => Ok(()),
    }
}

/// Refuses calls with such results of ops that are not defined for them.
pub(crate) fn check_results(op: &str, signature: &Signature) -> Result<()> {
    let dtypes = signature.outputs.iter().filter_map(|output| match output {
        OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => Some(spec.dtype),
        OutputSpec::View { .. } | OutputSpec::Same(_) => None,
    });
    match dtypes.into_iter().find(|dtype| dtype.is_wide_unsigned()) {
        Some(dtype) if !is_defined(op) => undefined(dtype.name(), dtype),
        _ => Ok(()),
    }
}

fn undefined(given: &str, dtype: DType) -> Result<()> {
    let signed = match dtype {
        DType::U16 => "i32",
        _ => "i64",
    };
    refuse(
        "dtype",
        format!(
            "it is not defined for u16, u32 and u64, got {given}; convert to {signed} first (cast)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::standard;

    #[test]
    fn every_name_is_that_of_an_op() {
        let ops = standard();
        let mut seen = BTreeSet::new();
        for name in MOVES.iter().chain(DEFINED) {
            assert!(ops.find(name).is_some() || ops.find(&format!("{name}_")).is_some(), "{name}");
            assert!(seen.insert(name), "{name} is listed twice");
        }
        assert!(is_defined("special_i1") && !is_defined("igamma"));
        assert!(is_defined("copy_") && !is_defined("add") && !is_defined("rand"));
    }
}
