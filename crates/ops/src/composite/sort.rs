//! Selections by rank.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::{along, positive};
use super::{Calls, Composite, Given, Symbol, several, table, wrong};

table! {
    several("kthvalue", "the k-th least elements along a dimension, and their indices", X, KTH, 2,
        |calls, given| {
        ranked(calls, given, Rank::Kth)
    });
    several("median",
        "the medians along a dimension, and their indices; of all elements, the median alone", X,
        MEDIAN, 2, |calls, given| {
        ranked(calls, given, Rank::Middle)
    });
    several("nanmedian",
        "the medians of the elements that are not NaN along a dimension, and their indices; of all \
         elements, the median alone", X, MEDIAN, 2, |calls, given| {
        ranked(calls, given, Rank::MiddleOfNumbers)
    });
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
fn ranked(calls: &mut Calls<'_>, given: &Given<'_>, rank: Rank) -> Result<Vec<Symbol>> {
    let mut x = given.tensor("x")?;
    let whole = rank != Rank::Kth && !given.has("dim");
    if whole {
        x = calls.reshape(x, &[-1])?;
    }
    let shape = calls.shape(x);
    let dim = positive(given.int("dim")?.unwrap_or(-1), shape.len())?;
    let length = usize::try_from(dim).ok().and_then(|dim| shape.get(dim)).copied().unwrap_or(1);
    if length == 0 {
        return Err(wrong("expected one element or more"));
    }
    let line = || along(dim);
    let [values, order] = calls.several("sort", &[x], line().with("stable", true))?;
    let is_float = calls.dtype(x).is_float();
    // The position of the result in each sorted line.
    let at = if rank == Rank::Kth || !is_float {
        let k = match rank {
            Rank::Kth => given.int("k")?.unwrap_or(1) - 1,
            Rank::Middle | Rank::MiddleOfNumbers => (length - 1) / 2,
        };
        let mut of_lines = shape.clone();
        if let Some(length) = of_lines.get_mut(dim as usize) {
            *length = 1;
        }
        calls.full(of_lines, k, DType::I64)?
    } else {
        let none = calls.apply("isnan", &[values])?;
        let number = calls.apply("logical_not", &[none])?;
        let count = Attrs::new().with("dim", vec![dim]).with("keepdim", true);
        let count = calls.one("sum", &[number], count)?;
        let less = calls.by("sub", count, 1i64)?;
        let less = calls.one("clamp_min", &[less], Attrs::new().with("min", 0i64))?;
        let floor = Attrs::new().with("other", 2i64).with("rounding_mode", "floor");
        let middle = calls.one("div", &[less], floor)?;
        match rank {
            Rank::MiddleOfNumbers => middle,
            // A line with NaN has its first NaN as the median.
            _ => {
                let full = calls.by("eq", count, length)?;
                calls.apply("where", &[full, middle, count])?
            }
        }
    };
    let mut made = Vec::new();
    for of in [values, order] {
        let mut one = calls.one("gather", &[of, at], line())?;
        let keep = given.flag("keepdim", false)?;
        if !shape.is_empty() && (!keep || whole) {
            let without = calls.one("squeeze", &[one], line())?;
            one = calls.apply("clone", &[without])?;
        }
        made.push(one);
    }
    made.truncate(if whole { 1 } else { 2 });
    Ok(made)
}
