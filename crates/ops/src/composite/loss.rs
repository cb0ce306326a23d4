//! Composite losses by margins, and their gradients.

use millstream_types::{DType, Result};

use crate::def::arg;
use crate::loss::{LossReduction, REDUCTION};
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::{Expr, along, wrong};

table! {
    op("soft_margin_loss", "log(1 + exp(-target * x)), reduced", TARGET, LOSS, |args| {
        let [x, target] = args.tensors(["x", "target"]);
        reduced(args, (-(x * target)).exp().log1p())
    });
    op("soft_margin_loss_backward", "the gradient of `soft_margin_loss`", GRAD, LOSS,
        soft_margin_backward);
    op("multi_margin_loss",
        "for each row, the mean over the classes of the power p of max(0, margin - x[target] + \
         x[class])", CLASSES, MARGIN, one_class)
        .optional_from(2);
    op("multi_margin_loss_backward", "the gradient of `multi_margin_loss`", CLASSES_GRAD,
        MARGIN, one_class_backward)
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
fn reduced<'a>(args: Args<'a>, losses: Expr<'a>) -> Result<Expr<'a>> {
    Ok(match args.reduction()? {
        LossReduction::None => losses,
        LossReduction::Mean => losses.mean(),
        LossReduction::Sum => losses.apply("sum", []),
    })
}

fn soft_margin_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let [grad, x, target] = args.tensors(["grad", "x", "target"]);
    let slope = -((-(x * target)).sigmoid() * target) * grad;
    Ok(match args.reduction()? {
        LossReduction::Mean => slope / x.numel()?.max(1) as f64,
        _ => slope,
    })
}

fn rows<'a>(args: Args<'a>, name: &str) -> Result<Expr<'a>> {
    let x = args.tensor(name);
    match x.rank()? {
        2 => Ok(x),
        0 | 1 => Ok(x.reshape(&[1, x.numel()? as i64])),
        _ => Err(wrong(format!("{name}: expected at most two dimensions"))),
    }
}

/// Reduces the losses of rows; without a reduction, they have the shape of the batch.
fn reduced_rows<'a>(args: Args<'a>, losses: Expr<'a>) -> Result<Expr<'a>> {
    let is_one = args.reduction()? == LossReduction::None && args.tensor("x").rank()? != 2;
    reduced(args, if is_one { losses.reshape(&[]) } else { losses })
}

/// Multiplies the slopes of rows by the gradients of their losses.
fn shaped_gradient<'a>(args: Args<'a>, slopes: Expr<'a>) -> Result<Expr<'a>> {
    let [grad, x] = args.tensors(["grad", "x"]);
    let of_rows = match args.reduction()? {
        LossReduction::None => grad.reshape(&[-1, 1]),
        LossReduction::Mean => grad / slopes.shape()?[0].max(1) as f64,
        LossReduction::Sum => grad,
    };
    Ok((slopes * of_rows).reshape(&x.shape()?))
}

/// The margins of a row's other classes, before they are clamped.
struct Margins<'a> {
    target: Expr<'a>,
    /// Each class's margin; 0 for the target.
    margins: Expr<'a>,
    power: f64,
    /// The weight of each row over the number of classes, as a column.
    weight: Expr<'a>,
}

fn margins(args: Args<'_>) -> Result<Margins<'_>> {
    let (x, target) = (rows(args, "x")?, args.tensor("target").reshape(&[-1, 1]));
    let (power, margin) = (args.number("p", 1.0)?, args.number("margin", 1.0)?);
    let own = x.gather(1, target);
    let between = (x - own + margin).clamp_min(0);
    let margins = between.with("scatter", target, along(1).with("value", 0));
    let weight = match args.optional("weight") {
        Some(weight) => weight.index_select(0, target.reshape(&[-1])).reshape(&[-1, 1]),
        None => own * 0.0 + 1.0,
    };
    Ok(Margins { target, margins, power, weight: weight / classes(x)? })
}

/// Returns the number of classes of rows, 1 or more.
fn classes(rows: Expr<'_>) -> Result<f64> {
    Ok(rows.shape()?[1].max(1) as f64)
}

fn one_class(args: Args<'_>) -> Result<Expr<'_>> {
    let Margins { margins, power, weight, .. } = margins(args)?;
    let margins = if power == 2.0 { margins * margins } else { margins };
    reduced_rows(args, (margins * weight).sum(&[1], false))
}

fn one_class_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let Margins { target, margins, power, weight } = margins(args)?;
    let slopes = match power {
        2.0 => margins * 2.0,
        _ => margins.gt(0.0).cast(args.tensor("x").dtype()),
    };
    let slopes = slopes * weight;
    shaped_gradient(args, slopes.scatter(1, target, -slopes.sum(&[1], true)))
}

/// The targets of rows with several classes.
struct Targets<'a> {
    x: Expr<'a>,
    /// The classes, and 0 behind the last.
    index: Expr<'a>,
    /// Which of them count.
    counts: Expr<'a>,
    /// Whether a class is among the targets.
    is_target: Expr<'a>,
    /// For each target and class, by how much the target's score is too small.
    margins: Expr<'a>,
}

fn targets(args: Args<'_>) -> Result<Targets<'_>> {
    let (x, target) = (rows(args, "x")?, rows(args, "target")?);
    let valid = target.ge(0).cast(DType::I64).op("cumprod", along(1));
    let index = target * valid;
    let counts = valid.cast(x.dtype());
    let named = (counts * 0.0).scatter_add(1, index, counts).gt(0.0);
    let is_target = named.cast(x.dtype());
    let own = x.gather(1, index).unsqueeze(2);
    let between = (x.unsqueeze(1) - own + 1.0).clamp_min(0);
    let margins = between * counts.unsqueeze(2) * (is_target * -1.0 + 1.0).unsqueeze(1);
    Ok(Targets { x, index, counts, is_target, margins })
}

fn many_classes(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let Targets { x, margins, is_target, .. } = targets(args)?;
    let losses = margins.sum(&[1, 2], false) / classes(x)?;
    let is_target = is_target.reshape(&args.tensor("target").shape()?);
    Ok(vec![reduced_rows(args, losses)?, is_target])
}

fn many_classes_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let Targets { x, index, counts, margins, .. } = targets(args)?;
    let slopes = margins.gt(0.0).cast(x.dtype()) / classes(x)?;
    let of_others = slopes.sum(&[1], false);
    let of_own = -(slopes.sum(&[2], false) * counts);
    shaped_gradient(args, of_others.scatter_add(1, index, of_own))
}
