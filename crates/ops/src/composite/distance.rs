//! Distances between vectors, and their gradients.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, table};
use crate::formula::Expr;

table! {
    op("dist", "the norm of x - y", XY, &[P], |args| {
        let [x, y] = args.tensors(["x", "y"]);
        Ok((x - y).op("linalg_vector_norm", order(args)?))
    });
    op("_cdist_forward", "the distances between the rows of x and those of y", ROWS, CDIST,
        |args| distances(args, args.tensors(["x1", "x2"])));
    op("_cdist_backward", "the gradient of `_cdist_forward` for x", ROWS_GRAD, &[P],
        |args| slopes_of_pairs(args, args.tensors(["grad", "x1", "x2", "distance"])));
    op("_pdist_forward", "the distances between each row of x and those after it", MATRIX,
        &[P], |args| {
        let x = args.tensor("x");
        Ok(distances(args, [x, x])?.apply("masked_select", [later(x)?]))
    });
    op("_pdist_backward", "the gradient of `_pdist_forward`", MATRIX_GRAD, &[P],
        pdist_backward);
}

const P: ArgDoc = arg("p", "the order of the norm").number().or("2");
const XY: &[ArgDoc] = &[arg("x", "any shape"), arg("y", "a shape that broadcasts with x")];
const ROWS: &[ArgDoc] = &[arg("x1", "[...,n,k]"), arg("x2", "[...,m,k]")];
const CDIST: &[ArgDoc] = &[P, arg("compute_mode", "").int().ignored()];
const ROWS_GRAD: &[ArgDoc] = &[
    arg("grad", "[...,n,m]"),
    arg("x1", "[...,n,k]"),
    arg("x2", "[...,m,k]"),
    arg("distance", "the distances"),
];
const MATRIX: &[ArgDoc] = &[arg("x", "[n,k]")];
const MATRIX_GRAD: &[ArgDoc] = &[
    arg("grad", "the shape of the distances"),
    arg("x", "[n,k]"),
    arg("distance", "the distances"),
];

/// Returns the order of the norm as an argument.
fn order(args: Args<'_>) -> Result<Attrs> {
    Ok(Attrs::new().with("ord", args.number("p", 2.0)?))
}

/// Returns the differences of all pairs of rows.
fn pairs<'a>(x: Expr<'a>, y: Expr<'a>) -> Expr<'a> {
    x.unsqueeze(-2) - y.unsqueeze(-3)
}

/// Returns the distances of all pairs of rows.
fn distances<'a>(args: Args<'a>, [x, y]: [Expr<'a>; 2]) -> Result<Expr<'a>> {
    Ok(pairs(x, y).op("linalg_vector_norm", order(args)?.with("dim", vec![-1i64])))
}

/// Returns the number of rows.
fn rows(x: Expr<'_>) -> Result<i64> {
    Ok(x.shape()?.first().copied().unwrap_or(0))
}

/// Returns whether the second of two rows comes after the first, for all pairs.
fn later(x: Expr<'_>) -> Result<Expr<'_>> {
    let ones = x.calls.full(vec![rows(x)?; 2], true, DType::Bool);
    Ok(ones.op("triu", Attrs::new().with("diagonal", 1i64)))
}

/// Returns the gradient of distances between different rows, which is that of all distances, each
/// pair once.
fn pdist_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let [grad, x, distance] = args.tensors(["grad", "x", "distance"]);
    let rows = rows(x)?;
    // Numbers the pairs in order, from 1; 0 stands for all other places.
    let flat = later(x)?.reshape(&[-1]);
    let index = flat.cumsum(0) * flat.cast(DType::I64);
    let squares = [grad, distance].map(|list| {
        let none = x.calls.full(vec![1], 0i64, x.dtype());
        x.calls.cat(&[none, list], 0).index_select(0, index).reshape(&[rows, rows])
    });
    let [grad, distance] = squares.map(|half| half + half.transpose(0, 1));
    slopes_of_pairs(args, [grad, x, x, distance])
}

/// Returns the gradient of distances by the rows of x: of each row, the sum over its pairs.
fn slopes_of_pairs<'a>(args: Args<'a>, [grad, x, y, distance]: [Expr<'a>; 4]) -> Result<Expr<'a>> {
    let p = args.number("p", 2.0)?;
    let between = pairs(x, y);
    let (grad, distance) = (grad.unsqueeze(-1), distance.unsqueeze(-1));
    let (sign, size) = (between.sign(), between.abs());
    let slope = if p == 0.0 {
        between * 0.0
    } else if p == 1.0 {
        sign
    } else if p == f64::INFINITY {
        sign * size.eq(distance)
    } else {
        let share = size.pow(p - 1.0) * sign / distance.pow(p - 1.0);
        share.filled(distance.eq(0.0), 0.0).filled(size.eq(0.0), 0.0)
    };
    Ok((slope * grad).sum(&[-2], false))
}
