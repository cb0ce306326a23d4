//! Lowers the ops of complex numbers that have another form here: lazy views, parts, products.

use millstream_types::{AttrValue, Attrs, DType};

use super::{Made, apply, one_call, same};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lazy, Lowered, Refusal, Val};
use crate::et::value::{Arg, Recorded};

/// Lowers an op; `None` if it is none of these, or its operand is real.
pub(super) fn complex(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let is_right = matches!(given.get("left"), Some((_, Arg::Bool(false))));
    if name == "linalg_lu_solve" && is_right {
        let mut made = same(import, name, given, results)?;
        for made in made.iter_mut().flatten() {
            *made = stored_conjugate(import, *made)?;
        }
        return Ok(Some(made));
    }
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
        "dot" | "vdot" => {
            let right = given.tensor(import, if name == "dot" { "tensor" } else { "other" })?;
            let (of_left, of_right) = (import.lazy(x).conjugate, import.lazy(right).conjugate);
            let left = if name == "vdot" { conjugate(import, x)? } else { x };
            let made = apply(import, "matmul", &[left, right])?;
            match of_right && of_left == (name == "dot") {
                true => stored_conjugate(import, made)?,
                false => made,
            }
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

const NAMES: &[&str] = &["_conj", "_conj_physical", "conj_physical", "dot", "vdot"];

/// Returns a result that PyTorch stores conjugated, and conjugates where it is read.
fn stored_conjugate(import: &mut Import<'_>, made: Val) -> Lowered<Val> {
    if !import.spec(made).dtype.is_complex() {
        return Ok(made);
    }
    let stored = conjugate(import, made)?;
    import.as_lazy(stored, Lazy { conjugate: true, negate: false })
}

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
