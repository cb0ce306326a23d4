//! The ways of elementwise calls.

use millstream_types::{Reduction, Sbp};

use super::{Way, Whole, result_shape};

/// Every dimension of the result may be split, with the operands that have it.
pub(super) fn elementwise(whole: Whole<'_>) -> Vec<Way> {
    let Some(shape) = result_shape(&whole, 0) else { return Vec::new() };
    (0..shape.len()).map(|dim| split(&whole, &shape, dim)).collect()
}

/// Returns the way that splits a dimension of the shape that the operands broadcast to.
fn split(whole: &Whole<'_>, shape: &[usize], dim: usize) -> Way {
    let of_operand = |rank: usize, length: &dyn Fn(usize) -> usize| {
        let own = (dim + rank).checked_sub(shape.len());
        match own {
            Some(own) if length(own) == shape[dim] => Sbp::Split(own),
            _ => Sbp::Broadcast,
        }
    };
    let operands = whole.inputs().iter().map(|spec| {
        let lengths = spec.shape();
        of_operand(lengths.len(), &|own| lengths[own])
    });
    let results = whole.signature.outputs.iter().map(|_| Sbp::Split(dim));
    Way::new(operands, results)
}

/// As [`elementwise`]; a sum of parts is the parts of a sum.
pub(super) fn sum(whole: Whole<'_>) -> Vec<Way> {
    let mut ways = elementwise(whole);
    let partial = Sbp::Partial(Reduction::Sum);
    // A number that is added would be added by every rank.
    if whole.inputs().len() > 1 {
        let operands = whole.inputs().iter().map(|_| partial);
        ways.push(Way::new(operands, [partial]));
    }
    ways
}

/// As [`elementwise`]; a product is linear in each factor.
pub(super) fn product(whole: Whole<'_>) -> Vec<Way> {
    let mut ways = elementwise(whole);
    let partial = Sbp::Partial(Reduction::Sum);
    for factor in 0..whole.inputs().len() {
        let of = |k: usize| if k == factor { partial } else { Sbp::Broadcast };
        ways.push(Way::new((0..whole.inputs().len()).map(of), [partial]));
    }
    ways
}
