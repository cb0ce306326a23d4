//! Lowers distances between vectors, and scales by norms.

use millstream_types::{Attrs, DType};

use super::composed::positive;
use super::functions::{apply, by, cast, filled, in_floats, number};
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
        "_pdist_forward" => pdist(import, given)?,
        "_pdist_backward" => pdist_backward(import, given)?,
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

/// Returns whether the second of two rows comes after the first, for all pairs.
fn later(import: &mut Import<'_>, rows: i64) -> Lowered<Val> {
    let ones = Attrs::new().with("shape", vec![rows, rows]).with("value", true);
    let ones = one_call(import, "full", &[], ones.with("dtype", DType::Bool))?;
    one_call(import, "triu", &[ones], Attrs::new().with("diagonal", 1i64))
}

/// Lowers the distances between different rows, in the order of the pairs.
fn pdist(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let rows = import.spec(x).shape().first().copied().unwrap_or(0) as i64;
    let between = pairs(import, x, x)?;
    let attrs = Attrs::new().with("ord", number(given, "p", 2.0)?).with("dim", vec![-1i64]);
    let all = one_call(import, "linalg_vector_norm", &[between], attrs)?;
    let mask = later(import, rows)?;
    apply(import, "masked_select", &[all, mask])
}

/// Lowers the gradient of [`pdist`], which is that of all distances, each pair once.
fn pdist_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    // PyTorch 2.15 names it "grad_output", other releases "grad".
    let name = if given.get("grad_output").is_some() { "grad_output" } else { "grad" };
    let (grad, x) = (given.tensor(import, name)?, given.tensor(import, "self")?);
    let distances = given.tensor(import, "pdist")?;
    let rows = import.spec(x).shape().first().copied().unwrap_or(0) as i64;
    let dtype = import.spec(x).dtype;
    // Numbers the pairs in order, from 1; 0 stands for all other places.
    let mask = later(import, rows)?;
    let flat = one_call(import, "reshape", &[mask], Attrs::new().with("shape", vec![-1i64]))?;
    let counts = one_call(import, "cumsum", &[flat], Attrs::new().with("dim", 0i64))?;
    let flags = cast(import, flat, DType::I64)?;
    let index = apply(import, "mul", &[counts, flags])?;
    let square = |import: &mut Import<'_>, x: Val| -> Lowered<Val> {
        let none = Attrs::new().with("shape", vec![1i64]).with("value", 0i64);
        let none = one_call(import, "full", &[], none.with("dtype", dtype))?;
        let list = one_call(import, "cat", &[none, x], Attrs::new().with("dim", 0i64))?;
        let picked = [list, index];
        let all = one_call(import, "index_select", &picked, Attrs::new().with("dim", 0i64))?;
        one_call(import, "reshape", &[all], Attrs::new().with("shape", vec![rows, rows]))
    };
    let (grads, sizes) = (square(import, grad)?, square(import, distances)?);
    let turned = Attrs::new().with("dim0", 0i64).with("dim1", 1i64);
    let mut both = Vec::new();
    for half in [grads, sizes] {
        let other = one_call(import, "transpose", &[half], turned.clone())?;
        both.push(apply(import, "add", &[half, other])?);
    }
    slopes_of_pairs(import, both[0], x, x, both[1], number(given, "p", 2.0)?)
}

fn cdist_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let grad = given.tensor(import, "grad_output")?;
    let (x, y) = (given.tensor(import, "x1")?, given.tensor(import, "x2")?);
    let distance = given.tensor(import, "cdist")?;
    slopes_of_pairs(import, grad, x, y, distance, number(given, "p", 2.0)?)
}

/// Returns the gradient of distances by the rows of x: of each row, the sum over its pairs.
fn slopes_of_pairs(
    import: &mut Import<'_>,
    grad: Val,
    x: Val,
    y: Val,
    distance: Val,
    p: f64,
) -> Lowered<Val> {
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
