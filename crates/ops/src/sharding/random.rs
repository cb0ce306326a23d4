//! The ways of random numbers: elements are numbered in the whole result, so that every part draws
//! its own.

use millstream_types::Result;

use super::elementwise::{created, elementwise};
use super::{Local, Parts, Rules, Way, Whole};

pub(super) const RULES: Rules = &[
    ("uniform", drawn),
    ("uniform_", drawn),
    ("normal", drawn),
    ("normal_", drawn),
    ("exponential", drawn),
    ("exponential_", drawn),
    ("randint", drawn),
    ("randint_", drawn),
    ("bernoulli", drawn),
    ("bernoulli_", drawn),
    ("native_dropout", dropout),
];

fn drawn(whole: Whole<'_>) -> Result<Vec<Way>> {
    Ok(created(whole, &Local::Drawn))
}

/// The mask of a tensor without elements has another dtype. In evaluation, nothing is drawn, but
/// the mask has it as well.
fn dropout(whole: Whole<'_>) -> Result<Vec<Way>> {
    let ways = elementwise(whole)?.into_iter();
    Ok(ways.map(|way| way.local(Local::Drawn).parts(Parts::NotEmpty)).collect())
}
