//! The ways of losses and their gradients: elements or targets; over a split loss that is summed
//! the parts of a sum.

use millstream_types::{Attrs, DType, Dims, Result, Sbp, sbp};

use super::axes::P;
use super::elementwise::along;
use super::{Divisor, Local, Rules, Way, Whole};
use crate::elementwise::shape;
use crate::loss::LossReduction;

const B: Sbp = sbp::B;

pub(super) const RULES: Rules = &[
    ("mse_loss", |whole| forward(whole, "mse_loss")),
    ("smooth_l1_loss", |whole| forward(whole, "smooth_l1_loss")),
    ("huber_loss", |whole| forward(whole, "huber_loss")),
    ("binary_cross_entropy", |whole| forward(whole, "binary_cross_entropy")),
    ("binary_cross_entropy_with_logits", |whole| {
        forward(whole, "binary_cross_entropy_with_logits")
    }),
    ("mse_loss_backward", |whole| backward(whole, "mse_loss_backward")),
    ("smooth_l1_loss_backward", |whole| backward(whole, "smooth_l1_loss_backward")),
    ("huber_loss_backward", |whole| backward(whole, "huber_loss_backward")),
    ("binary_cross_entropy_backward", |whole| backward(whole, "binary_cross_entropy_backward")),
    ("nll_loss_forward", |whole| classes(whole, "nll_loss_forward")),
    ("nll_loss2d_forward", |whole| classes(whole, "nll_loss2d_forward")),
    ("nll_loss_backward", classes_backward),
    ("nll_loss2d_backward", classes_backward),
];

/// Returns the arguments of the op that adds the losses.
fn summed(whole: &Whole<'_>) -> Attrs {
    whole.attrs().clone().with("reduction", "sum")
}

/// Sums of f16 may exceed the range that the mean is in.
fn has_range(whole: &Whole<'_>) -> bool {
    whole.result(0).is_some_and(|(dtype, _)| dtype != DType::F16)
}

fn forward(whole: Whole<'_>, op: &'static str) -> Result<Vec<Way>> {
    let shape = shape(whole.inputs())?;
    let splits = (0..shape.len()).map(|dim| along(&whole, &shape, dim));
    let partial = |way: Way| Way { results: [P].into_iter().collect(), ..way };
    Ok(match LossReduction::of(whole.attrs())? {
        LossReduction::None => splits.collect(),
        LossReduction::Sum => splits.map(partial).collect(),
        LossReduction::Mean if has_range(&whole) => {
            let count = Divisor::Count(elements(&shape));
            let local = Local::MeanOf { op, attrs: summed(&whole), count };
            splits.map(|way| partial(way).local(local.clone())).collect()
        }
        LossReduction::Mean => Vec::new(),
    })
}

fn elements(shape: &Dims) -> f64 {
    shape.iter().map(|length| *length as f64).product()
}

/// The gradient of a mean is that of the sum, divided by the number of all elements.
fn backward(whole: Whole<'_>, op: &'static str) -> Result<Vec<Way>> {
    let shape = whole.result_shape();
    let mut ways: Vec<Way> = (0..shape.len()).map(|dim| along(&whole, &shape, dim)).collect();
    if LossReduction::of(whole.attrs())? == LossReduction::Mean {
        let count = Divisor::Count(elements(&shape));
        let local = Local::MeanOf { op, attrs: summed(&whole), count };
        ways = ways.into_iter().map(|way| way.local(local.clone())).collect();
    }
    ways.extend(whole.linear(&[0]));
    Ok(ways)
}

/// Returns the dimensions of x that the target has, with those of the target.
fn targets(x: &[usize]) -> impl Iterator<Item = (Sbp, Sbp)> + use<> {
    let rank = x.len();
    let dims = (0..rank).filter(move |dim| *dim != 1 && rank > 1);
    dims.map(|dim| (sbp::S(dim), sbp::S(dim.saturating_sub(1))))
}

/// The mean is over the total weight, which is partial, too.
fn classes(whole: Whole<'_>, op: &'static str) -> Result<Vec<Way>> {
    let reduction = LossReduction::of(whole.attrs())?;
    let mut ways = Vec::new();
    for (x, target) in targets(whole.shape(0)) {
        let results = if reduction == LossReduction::None { [target, B] } else { [P, P] };
        let way = Way::new(whole.given(&[x, target, B])?, results);
        match reduction {
            LossReduction::None | LossReduction::Sum => ways.push(way),
            LossReduction::Mean if has_range(&whole) => {
                let (attrs, count) = (summed(&whole), Divisor::Result(1));
                ways.push(way.local(Local::MeanOf { op, attrs, count }));
            }
            LossReduction::Mean => {}
        }
    }
    Ok(ways)
}

/// The total weight is an operand, so a mean needs no other call.
fn classes_backward(whole: Whole<'_>) -> Result<Vec<Way>> {
    let each = LossReduction::of(whole.attrs())? == LossReduction::None;
    let mut ways = Vec::new();
    for (x, target) in targets(whole.shape(1)) {
        let grad = if each { target } else { B };
        ways.push(Way::new(whole.given(&[grad, x, target, B, B])?, [x]));
    }
    ways.extend(whole.linear(&[0]));
    Ok(ways)
}
