//! Lowers the ops of complex numbers that have another form here: lazy views, parts, products.

use millstream_types::Attrs;

use super::functions::apply;
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lazy, Lowered, Val};

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
        "angle" => angle(import, x)?,
        _ => conjugate(import, x)?,
    };
    Ok(Some(vec![Some(made)]))
}

const NAMES: &[&str] = &["_conj", "_conj_physical", "conj_physical", "vdot", "angle"];

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

/// Returns views of the real and the imaginary parts.
pub(super) fn parts(import: &mut Import<'_>, x: Val) -> Lowered<[Val; 2]> {
    let x = import.evaluated(x)?;
    let both = one_call(import, "view_as_real", &[x], Attrs::new())?;
    let part = |import: &mut Import<'_>, index: i64| {
        let attrs = Attrs::new().with("dim", -1i64).with("index", index);
        one_call(import, "select", &[both], attrs)
    };
    Ok([part(import, 0)?, part(import, 1)?])
}

fn angle(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    let [re, im] = parts(import, x)?;
    apply(import, "atan2", &[im, re])
}
