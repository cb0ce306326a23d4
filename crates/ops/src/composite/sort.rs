//! Selections by rank.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, several, table};
use crate::formula::{Expr, along, positive, wrong};

table! {
    several("kthvalue", "the k-th least elements along a dimension, and their indices", X, KTH, 2,
        |args| ranked(args, Rank::Kth));
    several("median",
        "the medians along a dimension, and their indices; of all elements, the median alone", X,
        MEDIAN, 2, |args| ranked(args, Rank::Middle));
    several("nanmedian",
        "the medians of the elements that are not NaN along a dimension, and their indices; of all \
         elements, the median alone", X, MEDIAN, 2, |args| ranked(args, Rank::MiddleOfNumbers));
}

const X: &[ArgDoc] = &[arg("x", "any shape, an element or more along the dimension")];
const KEEPDIM: ArgDoc =
    arg("keepdim", "whether the dimension stays, of length 1").flag().or("false");
const KTH: &[ArgDoc] =
    &[arg("k", "the rank, from 1").int(), arg("dim", "the dimension").int().or("-1"), KEEPDIM];
const MEDIAN: &[ArgDoc] = &[arg("dim", "the dimension").int().or("all"), KEEPDIM];

/// The element of a sorted line that is the result.
#[derive(Clone, Copy, PartialEq)]
enum Rank {
    Kth,
    Middle,
    /// The middle of the elements that are not NaN.
    MiddleOfNumbers,
}

/// Sorts, and gathers the element of a rank from each line. NaN is the greatest element.
fn ranked(args: Args<'_>, rank: Rank) -> Result<Vec<Expr<'_>>> {
    let whole = rank != Rank::Kth && !args.has("dim");
    let x = args.tensor("x");
    let x = if whole { x.reshape(&[-1]) } else { x };
    let shape = x.shape()?;
    let dim = positive(args.int("dim")?.unwrap_or(-1), shape.len())?;
    let length = shape.get(dim as usize).copied().unwrap_or(1);
    if length == 0 {
        return Err(wrong("expected one element or more"));
    }
    let sorted = along(dim).with("stable", true);
    let [values, order] = args.calls.several("sort", &[x], sorted);
    // The position of the result in each sorted line.
    let at = if rank == Rank::Kth || !x.dtype().is_float() {
        let k = match rank {
            Rank::Kth => args.int("k")?.unwrap_or(1) - 1,
            Rank::Middle | Rank::MiddleOfNumbers => (length - 1) / 2,
        };
        let mut of_lines = shape.clone();
        if let Some(length) = of_lines.get_mut(dim as usize) {
            *length = 1;
        }
        args.calls.full(of_lines, k, DType::I64)
    } else {
        let count = values.isnan().logical_not().sum(&[dim], true);
        let floor = Attrs::new().with("rounding_mode", "floor");
        let middle = (count - 1).clamp_min(0).with("div", 2, floor);
        match rank {
            Rank::MiddleOfNumbers => middle,
            // A line with NaN has its first NaN as the median.
            _ => count.eq(length).choose(middle, count),
        }
    };
    let squeezes = (!args.flag("keepdim", false)? || whole) && !shape.is_empty();
    let made = [values, order].map(|of| match of.gather(dim, at) {
        one if squeezes => one.squeeze(dim).apply("clone", []),
        one => one,
    });
    Ok(made[..if whole { 1 } else { 2 }].to_vec())
}
