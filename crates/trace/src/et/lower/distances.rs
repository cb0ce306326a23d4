//! Lowers distances between vectors, and scales by norms.

use millstream_types::Attrs;

use super::composed::positive;
use super::functions::{apply, by, filled, in_floats, number};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Val};

/// Lowers an op, named without the `_` of its form in place; `None` if it is none of these.
pub(super) fn distance(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    let made = match name {
        "dist" => {
            let (x, y) = (given.tensor(import, "self")?, given.tensor(import, "other")?);
            let between = apply(import, "sub", &[x, y])?;
            let order = Attrs::new().with("ord", number(given, "p", 2.0)?);
            one_call(import, "linalg_vector_norm", &[between], order)?
        }
        "renorm" => renorm(import, given)?,
        "_cdist_forward" => cdist(import, given)?,
        "_cdist_backward" => cdist_backward(import, given)?,
        "_weight_norm_interface" => return weight_norm(import, given).map(Some),
        "_weight_norm_interface_backward" => return weight_norm_backward(import, given).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

/// Returns the differences of all pairs of rows.
fn pairs(import: &mut Import<'_>, x: Val, y: Val) -> Lowered<Val> {
    let x = one_call(import, "unsqueeze", &[x], Attrs::new().with("dim", -2i64))?;
    let y = one_call(import, "unsqueeze", &[y], Attrs::new().with("dim", -3i64))?;
    apply(import, "sub", &[x, y])
}

fn cdist(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, y) = (given.tensor(import, "x1")?, given.tensor(import, "x2")?);
    let between = pairs(import, x, y)?;
    let attrs = Attrs::new().with("ord", number(given, "p", 2.0)?).with("dim", vec![-1i64]);
    one_call(import, "linalg_vector_norm", &[between], attrs)
}

fn cdist_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let grad = given.tensor(import, "grad_output")?;
    let (x, y) = (given.tensor(import, "x1")?, given.tensor(import, "x2")?);
    let distance = given.tensor(import, "cdist")?;
    let p = number(given, "p", 2.0)?;
    let last = || Attrs::new().with("dim", -1i64);
    let between = pairs(import, x, y)?;
    let grad = one_call(import, "unsqueeze", &[grad], last())?;
    let distance = one_call(import, "unsqueeze", &[distance], last())?;
    let sign = apply(import, "sign", &[between])?;
    let size = apply(import, "abs", &[between])?;
    let slope = if p == 0.0 {
        by(import, "mul", between, 0.0)?
    } else if p == 1.0 {
        sign
    } else if p == f64::INFINITY {
        let greatest = apply(import, "eq", &[size, distance])?;
        apply(import, "mul", &[sign, greatest])?
    } else {
        let power = |import: &mut Import<'_>, x: Val| {
            one_call(import, "pow", &[x], Attrs::new().with("exponent", p - 1.0))
        };
        let above = power(import, size)?;
        let above = apply(import, "mul", &[above, sign])?;
        let below = power(import, distance)?;
        let share = apply(import, "div", &[above, below])?;
        let zero = by(import, "eq", distance, 0.0)?;
        let share = filled(import, share, zero, 0.0)?;
        let equal = by(import, "eq", size, 0.0)?;
        filled(import, share, equal, 0.0)?
    };
    let slope = apply(import, "mul", &[slope, grad])?;
    one_call(import, "sum", &[slope], Attrs::new().with("dim", vec![-2i64]))
}

/// Returns all dimensions but that of the node.
fn other_dims(import: &Import<'_>, x: Val, given: &NodeArgs<'_>) -> Lowered<Vec<i64>> {
    let rank = import.spec(x).shape().len();
    let dim = positive(given.int("dim")?.unwrap_or(0), rank);
    Ok((0..rank as i64).filter(|&d| d != dim).collect())
}

/// Lowers the weights that have the direction of v and the norm g, and the norms of v.
fn weight_norm(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let (v, g) = (given.tensor(import, "v")?, given.tensor(import, "g")?);
    let dims = other_dims(import, v, given)?;
    let attrs = Attrs::new().with("ord", 2i64).with("dim", dims).with("keepdim", true);
    let norms = one_call(import, "linalg_vector_norm", &[v], attrs)?;
    let factor = apply(import, "div", &[g, norms])?;
    Ok(vec![Some(apply(import, "mul", &[v, factor])?), Some(norms)])
}

fn weight_norm_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let grad = given.tensor(import, "grad_w")?;
    let (v, g) = (given.tensor(import, "saved_v")?, given.tensor(import, "saved_g")?);
    let norms = given.tensor(import, "saved_norms")?;
    let dims = other_dims(import, v, given)?;
    let product = apply(import, "mul", &[grad, v])?;
    let attrs = Attrs::new().with("dim", dims).with("keepdim", true);
    let product = one_call(import, "sum", &[product], attrs)?;
    let of_g = apply(import, "div", &[product, norms])?;
    let share = apply(import, "div", &[of_g, norms])?;
    let along = apply(import, "mul", &[v, share])?;
    let across = apply(import, "sub", &[grad, along])?;
    let factor = apply(import, "div", &[g, norms])?;
    Ok(vec![Some(apply(import, "mul", &[across, factor])?), Some(of_g)])
}

/// Lowers `renorm`: slices whose norm is greater than a bound are scaled to it.
fn renorm(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let rank = import.spec(x).shape().len();
    let dim = positive(given.int("dim")?.unwrap_or(0), rank);
    let others: Vec<i64> = (0..rank as i64).filter(|&d| d != dim).collect();
    let most = number(given, "maxnorm", 1.0)?;
    let order = number(given, "p", 2.0)?;
    in_floats(import, &[x], |import, given| {
        let attrs = Attrs::new().with("ord", order).with("dim", others).with("keepdim", true);
        let norm = one_call(import, "linalg_vector_norm", &[given[0]], attrs)?;
        let within = by(import, "le", norm, most)?;
        let factor = by(import, "add", norm, 1e-7)?;
        let factor = apply(import, "reciprocal", &[factor])?;
        let factor = by(import, "mul", factor, most)?;
        let factor = filled(import, factor, within, 1.0)?;
        apply(import, "mul", &[given[0], factor])
    })
}
