//! Composite reductions.

use millstream_types::Result;

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::Expr;

table! {
    several("var_mean", "the variance and the mean", X, VAR, 2, |args| moments(args, "var"));
    several("std_mean", "the standard deviation and the mean", X, VAR, 2,
        |args| moments(args, "std"));
    several("aminmax", "the least and the greatest element", X, AMINMAX, 2, |args| {
        let (x, attrs) = (args.tensor("x"), args.passed(&["dim", "keepdim"]));
        Ok(vec![x.op("amin", attrs.clone()), x.op("amax", attrs)])
    });
    op("nansum", "the sum of the elements that are not NaN", X, NANSUM, |args| {
        let x = args.tensor("x");
        Ok(x.filled(x.isnan(), 0).op("sum", args.passed(&["dim", "keepdim", "dtype"])))
    });
    op("trace", "the sum of the diagonal", MATRIX, &[],
        |args| Ok(args.tensor("x").apply("diagonal", []).apply("sum", [])));
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
fn moments<'a>(args: Args<'a>, spread: &str) -> Result<Vec<Expr<'a>>> {
    let mut attrs = args.passed(&["dim", "correction", "keepdim"]);
    if args.has("unbiased") {
        attrs.set("correction", i64::from(args.flag("unbiased", true)?));
    }
    let x = args.tensor("x");
    Ok(vec![x.op(spread, attrs), x.op("mean", args.passed(&["dim", "keepdim"]))])
}
