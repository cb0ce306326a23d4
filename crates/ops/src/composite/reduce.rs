//! Composite reductions.

use millstream_types::Result;

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Calls, Composite, Given, Symbol, op, several, table};

table! {
    several("var_mean", "the variance and the mean", X, VAR, 2, |calls, given| {
        moments(calls, given, "var")
    });
    several("std_mean", "the standard deviation and the mean", X, VAR, 2, |calls, given| {
        moments(calls, given, "std")
    });
    several("aminmax", "the least and the greatest element", X, AMINMAX, 2, extrema);
    op("nansum", "the sum of the elements that are not NaN", X, NANSUM, nansum);
    op("trace", "the sum of the diagonal", MATRIX, &[], trace);
}

const X: &[ArgDoc] = &[arg("x", "any shape")];
const MATRIX: &[ArgDoc] = &[arg("x", "a matrix")];
const KEEPDIM: ArgDoc =
    arg("keepdim", "whether reduced dimensions stay, of length 1").flag().or("false");
const DIMS: ArgDoc = arg("dim", "the dimensions to reduce").ints().or("all");
const VAR: &[ArgDoc] = &[
    DIMS,
    arg("correction", "what is subtracted from the number of elements").number().or("1"),
    arg("unbiased", "whether the correction is 1, else 0").flag().optional(),
    KEEPDIM,
];
const AMINMAX: &[ArgDoc] = &[arg("dim", "the dimension to reduce").ints().or("all"), KEEPDIM];
const NANSUM: &[ArgDoc] = &[DIMS, KEEPDIM, arg("dtype", "the dtype of the sum").dtype().optional()];

/// Returns the moments of `var_mean` and `std_mean`.
fn moments(calls: &mut Calls<'_>, given: &Given<'_>, spread: &str) -> Result<Vec<Symbol>> {
    let x = given.tensor("x")?;
    let attrs = given.passed(&["dim", "unbiased", "correction", "keepdim"]);
    let spread = calls.one(spread, &[x], attrs)?;
    let mean = calls.one("mean", &[x], given.passed(&["dim", "keepdim"]))?;
    Ok(vec![spread, mean])
}

/// Returns the least and the greatest elements.
fn extrema(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let (x, attrs) = (given.tensor("x")?, given.passed(&["dim", "keepdim"]));
    Ok(vec![calls.one("amin", &[x], attrs.clone())?, calls.one("amax", &[x], attrs)?])
}

/// Returns the sum of the elements that are numbers.
fn nansum(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let nan = calls.apply("isnan", &[x])?;
    let numbers = calls.filled(x, nan, 0i64)?;
    calls.one("sum", &[numbers], given.passed(&["dim", "keepdim", "dtype"]))
}

fn trace(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let diagonal = calls.apply("diagonal", &[given.tensor("x")?])?;
    calls.apply("sum", &[diagonal])
}
