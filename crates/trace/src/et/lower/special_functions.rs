//! Lowers special functions of two operands, of which either may be a number.

use millstream_ops::promotion::{common_dtype, floating};
use millstream_types::{AttrValue, DType};

use super::{Made, apply};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val};
use crate::et::value::Arg;
use crate::number::Number;

/// Lowers an op; `None` if it is none of these.
pub(super) fn special_function(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    let names = match name {
        "special_zeta" => ["self", "other"],
        _ if name.contains("_polynomial_") && import.ops().find(name).is_some() => ["x", "n"],
        _ => return Ok(None),
    };
    let tensors = names.iter().filter(|name| matches!(given.get(name), Some((_, Arg::Tensor(_)))));
    if tensors.count() == 2 {
        let operands = [given.tensor(import, names[0])?, given.tensor(import, names[1])?];
        return Ok(Some(vec![Some(apply(import, name, &operands)?)]));
    }
    let mut dtypes = Vec::new();
    for name in names {
        if let Some((_, Arg::Tensor(_))) = given.get(name) {
            let val = given.tensor(import, name)?;
            dtypes.push((import.spec(val).dtype, import.spec(val).shape().len()));
        }
    }
    let dtype = floating(common_dtype(dtypes, None)?);
    let mut operands = Vec::new();
    for name in names {
        operands.push(match given.get(name) {
            Some((_, Arg::Tensor(_))) => given.tensor(import, name)?,
            _ => scalar(import, given, name, dtype)?,
        });
    }
    Ok(Some(vec![Some(apply(import, name, &operands)?)]))
}

/// Returns a number among the arguments as a tensor without dimensions.
pub(super) fn scalar(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    name: &str,
    dtype: DType,
) -> Lowered<Val> {
    let number = match given.scalar(name)? {
        Some(AttrValue::Int(v)) => Number::Int(v.into()),
        Some(AttrValue::Float(v)) => Number::Float(v),
        Some(AttrValue::Bool(v)) => Number::Bool(v),
        _ => return Err(Refusal::Wrong(format!("'{name}': expected a number or a tensor"))),
    };
    import.number(number, dtype)
}
