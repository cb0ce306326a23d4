//! u16, u32 and u64: the ops that are defined for them.
//!
//! As in PyTorch, these dtypes are stored, moved, converted, compared and combined bit by bit, and
//! special functions of them are floats. They have no arithmetic but the product with a fraction:
//! an op refuses them unless its definition says that it is [defined for them](Def::unsigned). They
//! promote with floats alone ([`crate::promotion`]).
//!
//! Source: <https://docs.pytorch.org/docs/stable/tensors.html#data-types>, "limited support".

use millstream_types::{AttrValue, DType, Result};

use crate::def::Def;
use crate::elementwise::refuse;
use crate::schema::{CallSpec, OutputSpec, Signature};

/// Refuses calls with such operands of ops that are not defined for them.
pub(crate) fn check_operands(op: &Def, call: CallSpec<'_>) -> Result<()> {
    // `special_ndtr` multiplies by a fraction first, and promotion makes floats of both.
    let is_float = op.name == "mul" && matches!(call.attrs.get("other"), Some(AttrValue::Float(_)));
    match call.inputs.iter().find(|x| x.dtype.is_wide_unsigned()) {
        Some(x) if !op.is_unsigned && !is_float => undefined(&x.brief(), x.dtype),
        _ => Ok(()),
    }
}

/// Refuses calls with such results of ops that are not defined for them.
pub(crate) fn check_results(op: &Def, signature: &Signature) -> Result<()> {
    let dtypes = signature.outputs.iter().filter_map(|output| match output {
        OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => Some(spec.dtype),
        OutputSpec::View { .. } | OutputSpec::Same(_) => None,
    });
    match dtypes.into_iter().find(|dtype| dtype.is_wide_unsigned()) {
        Some(dtype) if !op.is_unsigned => undefined(dtype.name(), dtype),
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
