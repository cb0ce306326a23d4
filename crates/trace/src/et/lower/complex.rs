//! Lowers the ops of complex numbers that have another form here: lazy views, parts, products.

use millstream_types::{AttrValue, Attrs, DType};

use super::{Made, Node, same};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lazy, Lowered, Val};
use crate::et::value::Arg;

/// Lowers an op; `None` if it is none of these, or its operand is real.
pub(super) fn complex(node: &mut Node<'_, '_>, name: &str) -> Lowered<Option<Made>> {
    let is_right = matches!(node.given.get("left"), Some((_, Arg::Bool(false))));
    if name == "linalg_lu_solve" && is_right {
        let mut made = same(node, name)?;
        for made in made.iter_mut().flatten() {
            *made = stored_conjugate(node.import, *made)?;
        }
        return Ok(Some(made));
    }
    if name == "_neg_view" {
        let x = node.tensor("self")?;
        let lazy = node.import.lazy(x);
        let view = node.import.as_lazy(x, Lazy { negate: !lazy.negate, ..lazy })?;
        return Ok(Some(vec![Some(view)]));
    }
    if name == "constant_pad_nd" && is_complex(node.given, "value") {
        return padded(node).map(|made| Some(vec![Some(made)]));
    }
    if !NAMES.contains(&name) {
        return Ok(None);
    }
    let x = node.tensor("self")?;
    if !node.import.spec(x).dtype.is_complex() {
        return Ok(None);
    }
    let made = match name {
        "_conj" => {
            let lazy = node.import.lazy(x);
            node.import.as_lazy(x, Lazy { conjugate: !lazy.conjugate, ..lazy })?
        }
        "dot" | "vdot" => {
            let right = node.tensor(if name == "dot" { "tensor" } else { "other" })?;
            let (of_left, of_right) =
                (node.import.lazy(x).conjugate, node.import.lazy(right).conjugate);
            let left = if name == "vdot" { conjugate(node.import, x)? } else { x };
            let made = node.import.apply("matmul", &[left, right])?;
            match of_right && of_left == (name == "dot") {
                true => stored_conjugate(node.import, made)?,
                false => made,
            }
        }
        _ => conjugate(node.import, x)?,
    };
    Ok(Some(vec![Some(made)]))
}

/// Returns whether an argument is a complex number.
pub(super) fn is_complex(given: &NodeArgs<'_>, name: &str) -> bool {
    matches!(given.get(name), Some((_, Arg::Opaque)))
}

/// Replaces the elements where a mask is true by the argument of this name; by 0 without it.
pub(super) fn filled_by(node: &mut Node<'_, '_>, name: &str, [x, mask]: [Val; 2]) -> Lowered<Val> {
    if let Some((index, Arg::Opaque)) = node.given.get(name) {
        let value = node.import.complex_number(index, &node.given.args)?;
        return node.import.apply("masked_fill", &[x, mask, value]);
    }
    let value = node.given.scalar(name)?.unwrap_or(AttrValue::Int(0));
    node.import.one("masked_fill", &[x, mask], Attrs::new().with("value", value))
}

/// Lowers padding with a complex number: the places of the padding are those of a padded mask.
fn padded(node: &mut Node<'_, '_>) -> Lowered<Val> {
    let x = node.tensor("self")?;
    let pad = Attrs::new().with("pad", node.given.ints("pad")?.unwrap_or_default());
    let inside = node.import.full(node.import.shape_of(x), false, DType::Bool)?;
    let outside = node.import.one("constant_pad_nd", &[inside], pad.clone().with("value", true))?;
    let zeros = node.import.one("constant_pad_nd", &[x], pad)?;
    filled_by(node, "value", [zeros, outside])
}

const NAMES: &[&str] = &["_conj", "_conj_physical", "conj_physical", "dot", "vdot"];

/// Returns a result that PyTorch stores conjugated, and conjugates where it is read.
fn stored_conjugate(import: &mut Import<'_>, made: Val) -> Lowered<Val> {
    match conjugate(import, made)? {
        real if real == made => Ok(real),
        stored => import.as_lazy(stored, Lazy { conjugate: true, negate: false }),
    }
}

/// Returns the complex conjugate; of real numbers, the tensor itself.
pub(super) fn conjugate(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    match import.spec(x).dtype.is_complex() {
        true => import.apply("conj_physical", &[x]),
        false => Ok(x),
    }
}

/// Lowers `conj_physical_`, which has no effect on real numbers.
pub(super) fn conjugate_in_place(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let x = node.tensor("self")?;
    match conjugate(node.import, x)? {
        made if made == x => Ok(vec![Some(x)]),
        made => node.import.copied_to(x, made),
    }
}
