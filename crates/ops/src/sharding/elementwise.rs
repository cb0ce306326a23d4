//! The ways of elementwise calls.

use millstream_types::{AttrValue, Dims, Reduction, Result};

use super::axes::{aligned, split};
use super::{Local, Rules, Way, Whole};
use crate::args::Scalar;
use crate::elementwise::shape;
use crate::multi_tensor::{MULTI_TENSOR, Sets};

pub(super) const RULES: Rules = &[
    (MULTI_TENSOR, sets),
    ("add", |whole| terms(whole, &[0, 1])),
    ("add_", |whole| terms(whole, &[0, 1])),
    ("sub", |whole| terms(whole, &[0, 1])),
    ("sub_", |whole| terms(whole, &[0, 1])),
    ("lerp", |whole| terms(whole, &[0, 1])),
    ("lerp_", |whole| terms(whole, &[0, 1])),
    ("neg", |whole| linear(whole, &[&[0]])),
    ("neg_", |whole| linear(whole, &[&[0]])),
    ("conj_physical", |whole| linear(whole, &[&[0]])),
    ("deg2rad", |whole| linear(whole, &[&[0]])),
    ("rad2deg", |whole| linear(whole, &[&[0]])),
    ("mul", |whole| linear(whole, &[&[0], &[1]])),
    ("mul_", |whole| linear(whole, &[&[0], &[1]])),
    ("div", quotient),
    ("div_", quotient),
    ("addcmul", |whole| linear(whole, &[&[0, 1], &[0, 2]])),
    ("addcmul_", |whole| linear(whole, &[&[0, 1], &[0, 2]])),
    ("addcdiv", |whole| linear(whole, &[&[0, 1]])),
    ("addcdiv_", |whole| linear(whole, &[&[0, 1]])),
    ("maximum", |whole| extremum(whole, Reduction::Max)),
    ("minimum", |whole| extremum(whole, Reduction::Min)),
    ("where", choice),
    ("masked_fill", filled),
    ("masked_fill_", filled),
    ("tanh_backward", gradient),
    ("sigmoid_backward", gradient),
    ("gelu_backward", gradient),
    ("silu_backward", gradient),
    ("elu_backward", gradient),
    ("log_sigmoid_backward", gradient),
    ("hardsigmoid_backward", gradient),
    ("hardswish_backward", gradient),
    ("mish_backward", gradient),
    ("softshrink_backward", gradient),
    ("hardshrink_backward", gradient),
    ("logit_backward", gradient),
    ("softplus_backward", gradient),
    ("threshold_backward", gradient),
    ("leaky_relu_backward", gradient),
    ("native_dropout_backward", gradient),
    ("copy", |whole| copied(whole, Local::Strides)),
    ("clone", |whole| copied(whole, Local::Same)),
    ("cast", |whole| copied(whole, Local::Same)),
    ("copy_", |whole| Ok([elementwise(whole)?, whole.moved(&[0, 1])].concat())),
    ("fill", elementwise),
    ("arange", range),
    ("full", |whole| Ok(created(whole, &Local::Shape("shape")))),
];

/// Every dimension of the result may be split, with the operands that have it.
pub(super) fn elementwise(whole: Whole<'_>) -> Result<Vec<Way>> {
    let shape = shape(whole.inputs())?;
    Ok((0..shape.len()).map(|dim| along(&whole, &shape, dim)).collect())
}

/// Returns the way that splits a dimension of the shape that the operands broadcast to, and of all
/// results.
pub(super) fn along(whole: &Whole<'_>, shape: &Dims, dim: usize) -> Way {
    let of = |k: usize| aligned(&whole.inputs()[k], shape.len(), dim, shape[dim]);
    whole.along(of, |_| Some(dim))
}

/// Every dimension of a new tensor, or of one in place, with the operands that have it.
pub(super) fn created(whole: Whole<'_>, local: &Local) -> Vec<Way> {
    let shape = whole.result_shape();
    (0..shape.len()).map(|dim| along(&whole, &shape, dim).local(local.clone())).collect()
}

/// Parts of a range of other numbers would begin with rounded ones.
fn range(whole: Whole<'_>) -> Result<Vec<Way>> {
    let bounds = ["start", "end", "step"].map(|name| whole.attrs().get(name));
    let are_whole = bounds.iter().flatten().all(|bound| matches!(bound, AttrValue::Int(_)));
    Ok(if are_whole { created(whole, &Local::Range) } else { Vec::new() })
}

/// As [`elementwise`]; linear in each of these sets of operands.
fn linear(whole: Whole<'_>, sets: &[&[usize]]) -> Result<Vec<Way>> {
    let mut ways = elementwise(whole)?;
    let given = whole.inputs().len();
    for set in sets.iter().filter(|set| set.iter().all(|k| *k < given)) {
        ways.extend(whole.linear(set));
    }
    Ok(ways)
}

/// As [`elementwise`]; a sum of parts is the parts of a sum. A number in place of a tensor would be
/// added by every rank.
fn terms(whole: Whole<'_>, terms: &[usize]) -> Result<Vec<Way>> {
    linear(whole, &[terms])
}

fn quotient(whole: Whole<'_>) -> Result<Vec<Way>> {
    match whole.attrs().get("rounding_mode") {
        None => linear(whole, &[&[0]]),
        Some(_) => elementwise(whole),
    }
}

fn gradient(whole: Whole<'_>) -> Result<Vec<Way>> {
    linear(whole, &[&[0]])
}

fn extremum(whole: Whole<'_>, reduction: Reduction) -> Result<Vec<Way>> {
    let mut ways = elementwise(whole)?;
    ways.push(whole.partial(reduction, &[0, 1]));
    Ok(ways)
}

/// Both alternatives are partial, or the other one is zero.
fn choice(whole: Whole<'_>) -> Result<Vec<Way>> {
    let mut ways = elementwise(whole)?;
    match whole.inputs().len() {
        3 => ways.extend(whole.moved(&[1, 2])),
        2 if ["self", "other"].iter().any(|name| is_zero(&whole, name)) => {
            ways.extend(whole.linear(&[1]));
        }
        _ => {}
    }
    Ok(ways)
}

fn filled(whole: Whole<'_>) -> Result<Vec<Way>> {
    let mut ways = elementwise(whole)?;
    if is_zero(&whole, "value") {
        ways.extend(whole.linear(&[0]));
    }
    Ok(ways)
}

/// Returns whether a number is given and is zero.
pub(super) fn is_zero(whole: &Whole<'_>, name: &str) -> bool {
    let given = whole.attrs().get(name);
    let number = given.filter(|value| !matches!(value, AttrValue::Scalar(_)));
    let scalar = number.and_then(|_| Scalar::of(whole.attrs(), name).ok().flatten());
    matches!(scalar, Some(Scalar::Int(0) | Scalar::Bool(false)))
        || matches!(scalar, Some(Scalar::Float(v)) if v == 0.0)
}

fn copied(whole: Whole<'_>, local: Local) -> Result<Vec<Way>> {
    let splits = elementwise(whole)?.into_iter().map(|way| way.local(local.clone()));
    Ok(splits.chain(whole.moved(&[0])).collect())
}

/// The first dimension of all tensors of the sets is split, where those of a set have one shape;
/// numbers, and tensors that all sets share, are whole.
fn sets(whole: Whole<'_>) -> Result<Vec<Way>> {
    let sets = Sets::of(whole.attrs(), whole.inputs().len())?;
    let of_sets = sets.columns * sets.count;
    let is_even = (0..of_sets).all(|k| {
        let (own, first) = (whole.shape(k), whole.shape(k - k % sets.columns));
        own.is_empty() || own == first
    });
    let are_numbers = (of_sets..whole.inputs().len()).all(|k| whole.shape(k).is_empty());
    // An element that is not finite is found by the rank that has it alone.
    if sets.found.is_some() || !is_even || !are_numbers {
        return Ok(Vec::new());
    }
    let rows = |k: usize| (k < of_sets && !whole.shape(k).is_empty()).then_some(0);
    let operands = (0..whole.inputs().len()).map(|k| split(rows(k)));
    let results = (0..sets.count).map(|set| split(rows(set * sets.columns)));
    Ok(vec![Way::new(operands, results)])
}
