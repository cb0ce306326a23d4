//! Lowers losses by margins between the scores of classes, and their gradients.

use millstream_types::{Attrs, DType};

use super::Made;
use super::composed::reshaped;
use super::functions::{apply, by, cast, number};
use super::one_call;
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::Arg;

/// Lowers an op; `None` if it is none of these.
pub(super) fn margin_loss(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    let made = match name {
        "multi_margin_loss" => vec![one_class(import, given)?],
        "multi_margin_loss_backward" => vec![one_class_backward(import, given)?],
        "multilabel_margin_loss_forward" => many_classes(import, given)?,
        "multilabel_margin_loss_backward" => vec![many_classes_backward(import, given)?],
        _ => return Ok(None),
    };
    Ok(Some(made.into_iter().map(Some).collect()))
}

fn at(dim: i64) -> Attrs {
    Attrs::new().with("dim", dim)
}

fn rows(import: &mut Import<'_>, name: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, name)?;
    match *import.spec(x).shape() {
        [_, _] => Ok(x),
        [] => reshaped(import, x, &[1, 1]),
        [length] => reshaped(import, x, &[1, length as i64]),
        _ => Err(unsupported(format!("'{name}' of more than two dimensions"))),
    }
}

/// Reduces the losses of rows; without a reduction, they have the shape of the batch.
fn reduced(import: &mut Import<'_>, x: Val, given: &NodeArgs<'_>) -> Lowered<Val> {
    let rank = match given.get("self") {
        Some((_, Arg::Tensor(tensor))) => tensor.shape.len(),
        _ => 2,
    };
    match given.int("reduction")?.unwrap_or(1) {
        0 if rank == 2 => Ok(x),
        0 => reshaped(import, x, &[]),
        1 => apply(import, "mean", &[x]),
        _ => apply(import, "sum", &[x]),
    }
}

/// Returns the gradient of each row's loss, as a column.
fn of_rows(import: &mut Import<'_>, count: usize, given: &NodeArgs<'_>) -> Lowered<Val> {
    let grad = given.tensor(import, "grad_output")?;
    match given.int("reduction")?.unwrap_or(1) {
        0 => reshaped(import, grad, &[-1, 1]),
        1 => by(import, "div", grad, count.max(1) as f64),
        _ => Ok(grad),
    }
}

/// The margins of a row's other classes, before they are clamped.
struct Margins {
    x: Val,
    target: Val,
    /// Each class's margin; 0 for the target.
    margins: Val,
    power: f64,
    /// The weight of each row over the number of classes, as a column.
    weight: Val,
}

fn margins(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Margins> {
    let x = rows(import, "self", given)?;
    let target = given.tensor(import, "target")?;
    let target = reshaped(import, target, &[-1, 1])?;
    let (power, margin) = (number(given, "p", 1.0)?, number(given, "margin", 1.0)?);
    let classes = import.spec(x).shape()[1].max(1) as f64;
    let own = one_call(import, "gather", &[x, target], at(1))?;
    let between = apply(import, "sub", &[x, own])?;
    let between = by(import, "add", between, margin)?;
    let between = one_call(import, "clamp_min", &[between], Attrs::new().with("min", 0i64))?;
    let zero = at(1).with("value", 0i64);
    let margins = one_call(import, "scatter", &[between, target], zero)?;
    let weight = match given.get("weight") {
        Some((_, Arg::Tensor(_))) => {
            let weight = given.tensor(import, "weight")?;
            let flat = reshaped(import, target, &[-1])?;
            let own = one_call(import, "index_select", &[weight, flat], at(0))?;
            reshaped(import, own, &[-1, 1])?
        }
        _ => {
            let zeros = by(import, "mul", own, 0.0)?;
            by(import, "add", zeros, 1.0)?
        }
    };
    let weight = by(import, "div", weight, classes)?;
    Ok(Margins { x, target, margins, power, weight })
}

fn one_class(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let Margins { margins, power, weight, .. } = margins(import, given)?;
    let margins = match power {
        2.0 => apply(import, "mul", &[margins, margins])?,
        _ => margins,
    };
    let scaled = apply(import, "mul", &[margins, weight])?;
    let losses = one_call(import, "sum", &[scaled], Attrs::new().with("dim", vec![1i64]))?;
    reduced(import, losses, given)
}

fn one_class_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let Margins { x, target, margins, power, weight } = margins(import, given)?;
    let dtype = import.spec(x).dtype;
    let slopes = match power {
        2.0 => by(import, "mul", margins, 2.0)?,
        _ => {
            let above = by(import, "gt", margins, 0.0)?;
            cast(import, above, dtype)?
        }
    };
    let slopes = apply(import, "mul", &[slopes, weight])?;
    let sums = one_call(
        import,
        "sum",
        &[slopes],
        Attrs::new().with("dim", vec![1i64]).with("keepdim", true),
    )?;
    let own = apply(import, "neg", &[sums])?;
    let slopes = one_call(import, "scatter", &[slopes, target, own], at(1))?;
    shaped_gradient(import, slopes, given)
}

/// Multiplies the slopes of rows by the gradients of their losses.
fn shaped_gradient(import: &mut Import<'_>, slopes: Val, given: &NodeArgs<'_>) -> Lowered<Val> {
    let count = import.spec(slopes).shape()[0];
    let grads = of_rows(import, count, given)?;
    let made = apply(import, "mul", &[slopes, grads])?;
    let x = given.tensor(import, "self")?;
    let shape: Vec<i64> = import.spec(x).shape().iter().map(|&d| d as i64).collect();
    reshaped(import, made, &shape)
}

/// The targets of rows with several classes.
struct Targets {
    x: Val,
    /// The classes, and 0 behind the last.
    index: Val,
    /// Which of them count.
    counts: Val,
    /// Whether a class is among the targets.
    is_target: Val,
    /// For each target and class, by how much the target's score is too small.
    margins: Val,
}

fn targets(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Targets> {
    let x = rows(import, "self", given)?;
    let target = rows(import, "target", given)?;
    let dtype = import.spec(x).dtype;
    let valid = one_call(import, "ge", &[target], Attrs::new().with("other", 0i64))?;
    let valid = cast(import, valid, DType::I64)?;
    let valid = one_call(import, "cumprod", &[valid], at(1))?;
    let index = apply(import, "mul", &[target, valid])?;
    let counts = cast(import, valid, dtype)?;
    let zeros = by(import, "mul", counts, 0.0)?;
    let named = one_call(import, "scatter_add", &[zeros, index, counts], at(1))?;
    let named = by(import, "gt", named, 0.0)?;
    let is_target = cast(import, named, dtype)?;
    let own = one_call(import, "gather", &[x, index], at(1))?;
    let own = one_call(import, "unsqueeze", &[own], at(2))?;
    let all = one_call(import, "unsqueeze", &[x], at(1))?;
    let between = apply(import, "sub", &[all, own])?;
    let between = by(import, "add", between, 1.0)?;
    let between = one_call(import, "clamp_min", &[between], Attrs::new().with("min", 0i64))?;
    let counted = one_call(import, "unsqueeze", &[counts], at(2))?;
    let margins = apply(import, "mul", &[between, counted])?;
    let other = by(import, "mul", is_target, -1.0)?;
    let other = by(import, "add", other, 1.0)?;
    let other = one_call(import, "unsqueeze", &[other], at(1))?;
    let margins = apply(import, "mul", &[margins, other])?;
    Ok(Targets { x, index, counts, is_target, margins })
}

fn many_classes(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Vec<Val>> {
    let Targets { x, margins, is_target, .. } = targets(import, given)?;
    let classes = import.spec(x).shape()[1].max(1) as f64;
    let sums = one_call(import, "sum", &[margins], Attrs::new().with("dim", vec![1i64, 2]))?;
    let losses = by(import, "div", sums, classes)?;
    let target = given.tensor(import, "target")?;
    let shape: Vec<i64> = import.spec(target).shape().iter().map(|&d| d as i64).collect();
    let is_target = reshaped(import, is_target, &shape)?;
    Ok(vec![reduced(import, losses, given)?, is_target])
}

fn many_classes_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let Targets { x, index, counts, margins, .. } = targets(import, given)?;
    let dtype = import.spec(x).dtype;
    let classes = import.spec(x).shape()[1].max(1) as f64;
    let above = by(import, "gt", margins, 0.0)?;
    let above = cast(import, above, dtype)?;
    let slopes = by(import, "div", above, classes)?;
    let of_others = one_call(import, "sum", &[slopes], Attrs::new().with("dim", vec![1i64]))?;
    let of_own = one_call(import, "sum", &[slopes], Attrs::new().with("dim", vec![2i64]))?;
    let of_own = apply(import, "mul", &[of_own, counts])?;
    let of_own = apply(import, "neg", &[of_own])?;
    let slopes = one_call(import, "scatter_add", &[of_others, index, of_own], at(1))?;
    shaped_gradient(import, slopes, given)
}
