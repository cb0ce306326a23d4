//! Lowers the ops of complex numbers that have another form here: lazy views, parts, products.

use millstream_types::{AttrValue, Attrs, DType};

use super::functions::{apply, by, cast};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lazy, Lowered, Refusal, Val};
use crate::et::value::Arg;
use crate::number::Number;

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
        "angle" => angle(import, x)?,
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

/// Multiplies a tensor by the argument of this name, which may be a complex number.
pub(super) fn scaled(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    name: &str,
    x: Val,
) -> Lowered<Val> {
    if is_complex(given, name) {
        let factor = complex_number(import, given, name)?;
        return apply(import, "mul", &[x, factor]);
    }
    match given.scalar(name)? {
        None | Some(AttrValue::Int(1) | AttrValue::Bool(true)) => Ok(x),
        Some(factor) => one_call(import, "mul", &[x], Attrs::new().with("other", factor)),
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

/// The logarithm of the sum of the exponentials of two complex numbers. The greater real part is
/// subtracted before. As in PyTorch, one of two numbers with the real part -inf is the result.
pub(super) fn log_of_sum(import: &mut Import<'_>, x: Val, y: Val) -> Lowered<Val> {
    let ([of_x, _], [of_y, _]) = (parts(import, x)?, parts(import, y)?);
    let less = apply(import, "lt", &[of_x, of_y])?;
    let (least, most) =
        (apply(import, "where", &[less, x, y])?, apply(import, "where", &[less, y, x])?);
    let between = apply(import, "sub", &[least, most])?;
    let power = apply(import, "exp", &[between])?;
    let rest = apply(import, "log1p", &[power])?;
    let sum = apply(import, "add", &[rest, most])?;
    // Equal infinities have no difference.
    let powers = [apply(import, "exp", &[least])?, apply(import, "exp", &[most])?];
    let infinite = apply(import, "add", &powers)?;
    let infinite = apply(import, "log", &[infinite])?;
    let [of_least, of_most] = [parts(import, least)?[0], parts(import, most)?[0]];
    let mut made = sum;
    for (infinity, limit) in [(f64::INFINITY, infinite), (f64::NEG_INFINITY, least)] {
        let both = [by(import, "eq", of_least, infinity)?, by(import, "eq", of_most, infinity)?];
        let both = apply(import, "logical_and", &both)?;
        made = apply(import, "where", &[both, limit, made])?;
    }
    let part = import.spec(of_x).dtype;
    let none = import.number(Number::Float(f64::NAN), part)?;
    let none = apply(import, "complex", &[none, none])?;
    let nan = [apply(import, "isnan", &[x])?, apply(import, "isnan", &[y])?];
    let nan = apply(import, "logical_or", &nan)?;
    let dtype = import.spec(x).dtype;
    let none = cast(import, none, dtype)?;
    apply(import, "where", &[nan, none, made])
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
