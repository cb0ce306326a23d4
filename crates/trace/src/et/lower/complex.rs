//! Lowers the ops of complex numbers that have another form here: lazy views, parts, products.

use millstream_types::{AttrValue, Attrs, DType};

use super::{Made, apply, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lazy, Lowered, Refusal, Val};
use crate::et::value::Arg;

/// Lowers an op; `None` if it is none of these, or its operand is real.
pub(super) fn complex(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    if name == "_linalg_eigvals" || name == "linalg_eigvals" {
        let a = given.tensor(import, if name.starts_with('_') { "input" } else { "self" })?;
        let made = import.call("linalg_eig", &[a], Attrs::new().with("compute_v", false))?;
        return Ok(Some(made.into_iter().take(1).map(Some).collect()));
    }
    if name == "_neg_view" {
        let x = given.tensor(import, "self")?;
        let lazy = import.lazy(x);
        let view = import.as_lazy(x, Lazy { negate: !lazy.negate, ..lazy })?;
        return Ok(Some(vec![Some(view)]));
    }
    if name == "constant_pad_nd" && is_complex(given, "value") {
        return padded(import, given).map(|made| Some(vec![Some(made)]));
    }
    if !NAMES.contains(&name) {
        return Ok(None);
    }
    let x = given.tensor(import, "self")?;
    if !import.spec(x).dtype.is_complex() {
        return Ok(None);
    }
    let made = match name {
        "_conj" => {
            let lazy = import.lazy(x);
            import.as_lazy(x, Lazy { conjugate: !lazy.conjugate, ..lazy })?
        }
        "vdot" => {
            let (left, right) = (conjugate(import, x)?, given.tensor(import, "other")?);
            apply(import, "matmul", &[left, right])?
        }
        _ => conjugate(import, x)?,
    };
    Ok(Some(vec![Some(made)]))
}

/// Returns whether an argument is a complex number.
pub(super) fn is_complex(given: &NodeArgs<'_>, name: &str) -> bool {
    matches!(given.get(name), Some((_, Arg::Opaque)))
}

/// Returns a tensor of no dimensions with the complex number of this name.
fn complex_number(import: &mut Import<'_>, given: &NodeArgs<'_>, name: &str) -> Lowered<Val> {
    match given.get(name) {
        Some((index, Arg::Opaque)) => import.complex_number(index, &given.args),
        _ => Err(Refusal::Wrong(format!("'{name}': expected a complex number"))),
    }
}

/// Replaces the elements where a mask is true by the argument of this name; by 0 without it.
pub(super) fn filled_by(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    name: &str,
    [x, mask]: [Val; 2],
) -> Lowered<Val> {
    if is_complex(given, name) {
        let value = complex_number(import, given, name)?;
        return apply(import, "masked_fill", &[x, mask, value]);
    }
    let value = given.scalar(name)?.unwrap_or(AttrValue::Int(0));
    one_call(import, "masked_fill", &[x, mask], Attrs::new().with("value", value))
}

/// Lowers padding with a complex number: the places of the padding are those of a padded mask.
fn padded(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let pad = Attrs::new().with("pad", given.ints("pad")?.unwrap_or_default());
    let shape: Vec<i64> = import.spec(x).shape().iter().map(|&length| length as i64).collect();
    let inside = Attrs::new().with("shape", shape).with("value", false);
    let inside = one_call(import, "full", &[], inside.with("dtype", DType::Bool))?;
    let outside = one_call(import, "constant_pad_nd", &[inside], pad.clone().with("value", true))?;
    let zeros = one_call(import, "constant_pad_nd", &[x], pad)?;
    filled_by(import, given, "value", [zeros, outside])
}

const NAMES: &[&str] = &["_conj", "_conj_physical", "conj_physical", "vdot"];

/// Returns the complex conjugate; of real numbers, the tensor itself.
pub(super) fn conjugate(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    match import.spec(x).dtype.is_complex() {
        true => one_call(import, "conj_physical", &[x], Attrs::new()),
        false => Ok(x),
    }
}

/// Lowers `conj_physical_`, which has no effect on real numbers.
pub(super) fn conjugate_in_place(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let x = given.tensor(import, "self")?;
    let made = conjugate(import, x)?;
    if made != x {
        import.call("copy_", &[x, made], Attrs::new())?;
    }
    Ok(vec![Some(x)])
}
