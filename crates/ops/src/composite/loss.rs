//! Composite losses by margins, and their gradients.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::loss::{LossReduction, REDUCTION};
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, several, table, wrong};

table! {
    op("soft_margin_loss", "log(1 + exp(-target * x)), reduced", TARGET, LOSS, soft_margin);
    op("soft_margin_loss_backward", "the gradient of `soft_margin_loss`", GRAD, LOSS,
        soft_margin_backward);
    op("multi_margin_loss",
        "for each row, the mean over the classes of the power p of max(0, margin - x[target] + \
         x[class])", CLASSES, MARGIN, one_class)
        .optional_from(2);
    op("multi_margin_loss_backward", "the gradient of `multi_margin_loss`", CLASSES_GRAD, MARGIN,
        one_class_backward)
        .optional_from(3);
    several("multilabel_margin_loss_forward",
        "the loss of rows with several target classes, and which classes are targets", LABELS,
        LOSS, 2, many_classes);
    op("multilabel_margin_loss_backward", "the gradient of `multilabel_margin_loss_forward`",
        LABELS_GRAD, LOSS, many_classes_backward);
}

const TARGET: &[ArgDoc] = &[arg("x", "any shape"), arg("target", "x's shape, each 1 or -1")];
const GRAD: &[ArgDoc] =
    &[arg("grad", "the shape of the loss"), arg("x", "any shape"), arg("target", "x's shape")];
const LOSS: &[ArgDoc] = &[REDUCTION];
const CLASSES: &[ArgDoc] = &[
    arg("x", "[n,classes] or [classes]"),
    arg("target", "[n], or one class"),
    arg("weight", "[classes]"),
];
const CLASSES_GRAD: &[ArgDoc] = &[
    arg("grad", "the shape of the loss"),
    arg("x", "[n,classes] or [classes]"),
    arg("target", "[n], or one class"),
    arg("weight", "[classes]"),
];
const MARGIN: &[ArgDoc] = &[
    arg("p", "the power, 1 or 2").number().or("1"),
    arg("margin", "the margin").number().or("1"),
    REDUCTION,
];
const LABELS: &[ArgDoc] = &[
    arg("x", "[n,classes] or [classes]"),
    arg("target", "x's shape: classes, and -1 behind the last"),
];
const LABELS_GRAD: &[ArgDoc] = &[
    arg("grad", "the shape of the loss"),
    arg("x", "[n,classes] or [classes]"),
    arg("target", "x's shape"),
    arg("is_target", "the second result of the loss"),
];

/// Reduces losses of elements, or of rows as `x` has them.
fn reduced(calls: &mut Calls<'_>, losses: Symbol, given: &Given<'_>) -> Result<Symbol> {
    match given.reduction()? {
        LossReduction::None => Ok(losses),
        LossReduction::Mean => calls.apply("mean", &[losses]),
        LossReduction::Sum => calls.apply("sum", &[losses]),
    }
}

fn soft_margin(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, target) = (given.tensor("x")?, given.tensor("target")?);
    let product = calls.apply("mul", &[x, target])?;
    let product = calls.apply("neg", &[product])?;
    let power = calls.apply("exp", &[product])?;
    let loss = calls.apply("log1p", &[power])?;
    reduced(calls, loss, given)
}

fn soft_margin_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let grad = given.tensor("grad")?;
    let (x, target) = (given.tensor("x")?, given.tensor("target")?);
    let product = calls.apply("mul", &[x, target])?;
    let share = calls.apply("neg", &[product])?;
    let share = calls.apply("sigmoid", &[share])?;
    let slope = calls.apply("mul", &[share, target])?;
    let slope = calls.apply("neg", &[slope])?;
    let slope = calls.apply("mul", &[slope, grad])?;
    match given.reduction()? {
        LossReduction::Mean => {
            let count = calls.spec(x).numel().max(1) as f64;
            calls.by("div", slope, count)
        }
        _ => Ok(slope),
    }
}

fn rows(calls: &mut Calls<'_>, name: &str, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor(name)?;
    match *calls.spec(x).shape() {
        [_, _] => Ok(x),
        [] => calls.reshape(x, &[1, 1]),
        [length] => calls.reshape(x, &[1, length as i64]),
        _ => Err(wrong(format!("{name}: expected at most two dimensions"))),
    }
}

/// Reduces the losses of rows; without a reduction, they have the shape of the batch.
fn reduced_rows(calls: &mut Calls<'_>, losses: Symbol, given: &Given<'_>) -> Result<Symbol> {
    let losses = match calls.rank(given.tensor("x")?) {
        2 => losses,
        _ if given.reduction()? == LossReduction::None => calls.reshape(losses, &[])?,
        _ => losses,
    };
    reduced(calls, losses, given)
}

/// Returns the gradient of each row's loss, as a column.
fn of_rows(calls: &mut Calls<'_>, count: usize, given: &Given<'_>) -> Result<Symbol> {
    let grad = given.tensor("grad")?;
    match given.reduction()? {
        LossReduction::None => calls.reshape(grad, &[-1, 1]),
        LossReduction::Mean => calls.by("div", grad, count.max(1) as f64),
        LossReduction::Sum => Ok(grad),
    }
}

/// The margins of a row's other classes, before they are clamped.
struct Margins {
    x: Symbol,
    target: Symbol,
    /// Each class's margin; 0 for the target.
    margins: Symbol,
    power: f64,
    /// The weight of each row over the number of classes, as a column.
    weight: Symbol,
}

fn margins(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Margins> {
    let x = rows(calls, "x", given)?;
    let target = given.tensor("target")?;
    let target = calls.reshape(target, &[-1, 1])?;
    let (power, margin) = (given.number("p", 1.0)?, given.number("margin", 1.0)?);
    let classes = calls.spec(x).shape()[1].max(1) as f64;
    let own = calls.one("gather", &[x, target], along(1))?;
    let between = calls.apply("sub", &[x, own])?;
    let between = calls.by("add", between, margin)?;
    let between = calls.one("clamp_min", &[between], Attrs::new().with("min", 0i64))?;
    let zero = along(1).with("value", 0i64);
    let margins = calls.one("scatter", &[between, target], zero)?;
    let weight = match given.optional("weight") {
        Some(weight) => {
            let flat = calls.reshape(target, &[-1])?;
            let own = calls.one("index_select", &[weight, flat], along(0))?;
            calls.reshape(own, &[-1, 1])?
        }
        _ => {
            let zeros = calls.by("mul", own, 0.0)?;
            calls.by("add", zeros, 1.0)?
        }
    };
    let weight = calls.by("div", weight, classes)?;
    Ok(Margins { x, target, margins, power, weight })
}

fn one_class(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let Margins { margins, power, weight, .. } = margins(calls, given)?;
    let margins = match power {
        2.0 => calls.apply("mul", &[margins, margins])?,
        _ => margins,
    };
    let scaled = calls.apply("mul", &[margins, weight])?;
    let losses = calls.one("sum", &[scaled], Attrs::new().with("dim", vec![1i64]))?;
    reduced_rows(calls, losses, given)
}

fn one_class_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let Margins { x, target, margins, power, weight } = margins(calls, given)?;
    let dtype = calls.dtype(x);
    let slopes = match power {
        2.0 => calls.by("mul", margins, 2.0)?,
        _ => {
            let above = calls.by("gt", margins, 0.0)?;
            calls.cast(above, dtype)?
        }
    };
    let slopes = calls.apply("mul", &[slopes, weight])?;
    let sums =
        calls.one("sum", &[slopes], Attrs::new().with("dim", vec![1i64]).with("keepdim", true))?;
    let own = calls.apply("neg", &[sums])?;
    let slopes = calls.one("scatter", &[slopes, target, own], along(1))?;
    shaped_gradient(calls, slopes, given)
}

/// Multiplies the slopes of rows by the gradients of their losses.
fn shaped_gradient(calls: &mut Calls<'_>, slopes: Symbol, given: &Given<'_>) -> Result<Symbol> {
    let count = calls.spec(slopes).shape()[0];
    let grads = of_rows(calls, count, given)?;
    let made = calls.apply("mul", &[slopes, grads])?;
    let x = given.tensor("x")?;
    let shape: Vec<i64> = calls.shape(x);
    calls.reshape(made, &shape)
}

/// The targets of rows with several classes.
struct Targets {
    x: Symbol,
    /// The classes, and 0 behind the last.
    index: Symbol,
    /// Which of them count.
    counts: Symbol,
    /// Whether a class is among the targets.
    is_target: Symbol,
    /// For each target and class, by how much the target's score is too small.
    margins: Symbol,
}

fn targets(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Targets> {
    let x = rows(calls, "x", given)?;
    let target = rows(calls, "target", given)?;
    let dtype = calls.dtype(x);
    let valid = calls.by("ge", target, 0i64)?;
    let valid = calls.cast(valid, DType::I64)?;
    let valid = calls.one("cumprod", &[valid], along(1))?;
    let index = calls.apply("mul", &[target, valid])?;
    let counts = calls.cast(valid, dtype)?;
    let zeros = calls.by("mul", counts, 0.0)?;
    let named = calls.one("scatter_add", &[zeros, index, counts], along(1))?;
    let named = calls.by("gt", named, 0.0)?;
    let is_target = calls.cast(named, dtype)?;
    let own = calls.one("gather", &[x, index], along(1))?;
    let own = calls.one("unsqueeze", &[own], along(2))?;
    let all = calls.one("unsqueeze", &[x], along(1))?;
    let between = calls.apply("sub", &[all, own])?;
    let between = calls.by("add", between, 1.0)?;
    let between = calls.one("clamp_min", &[between], Attrs::new().with("min", 0i64))?;
    let counted = calls.one("unsqueeze", &[counts], along(2))?;
    let margins = calls.apply("mul", &[between, counted])?;
    let other = calls.by("mul", is_target, -1.0)?;
    let other = calls.by("add", other, 1.0)?;
    let other = calls.one("unsqueeze", &[other], along(1))?;
    let margins = calls.apply("mul", &[margins, other])?;
    Ok(Targets { x, index, counts, is_target, margins })
}

fn many_classes(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let Targets { x, margins, is_target, .. } = targets(calls, given)?;
    let classes = calls.spec(x).shape()[1].max(1) as f64;
    let sums = calls.one("sum", &[margins], Attrs::new().with("dim", vec![1i64, 2]))?;
    let losses = calls.by("div", sums, classes)?;
    let target = given.tensor("target")?;
    let shape = calls.shape(target);
    let is_target = calls.reshape(is_target, &shape)?;
    Ok(vec![reduced_rows(calls, losses, given)?, is_target])
}

fn many_classes_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let Targets { x, index, counts, margins, .. } = targets(calls, given)?;
    let dtype = calls.dtype(x);
    let classes = calls.spec(x).shape()[1].max(1) as f64;
    let above = calls.by("gt", margins, 0.0)?;
    let above = calls.cast(above, dtype)?;
    let slopes = calls.by("div", above, classes)?;
    let of_others = calls.one("sum", &[slopes], Attrs::new().with("dim", vec![1i64]))?;
    let of_own = calls.one("sum", &[slopes], Attrs::new().with("dim", vec![2i64]))?;
    let of_own = calls.apply("mul", &[of_own, counts])?;
    let of_own = calls.apply("neg", &[of_own])?;
    let slopes = calls.one("scatter_add", &[of_others, index, of_own], along(1))?;
    shaped_gradient(calls, slopes, given)
}
