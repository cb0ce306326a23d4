//! Distances between vectors, and their gradients.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, table};

table! {
    op("dist", "the norm of x - y", XY, &[P], dist);
    op("_cdist_forward", "the distances between the rows of x and those of y", ROWS, CDIST, cdist);
    op("_cdist_backward", "the gradient of `_cdist_forward` for x", ROWS_GRAD, &[P],
        cdist_backward);
    op("_pdist_forward", "the distances between each row of x and those after it", MATRIX, &[P],
        pdist);
    op("_pdist_backward", "the gradient of `_pdist_forward`", MATRIX_GRAD, &[P], pdist_backward);
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

fn dist(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let between = calls.apply("sub", &[given.tensor("x")?, given.tensor("y")?])?;
    let order = Attrs::new().with("ord", given.number("p", 2.0)?);
    calls.one("linalg_vector_norm", &[between], order)
}

/// Returns the differences of all pairs of rows.
fn pairs(calls: &mut Calls<'_>, x: Symbol, y: Symbol) -> Result<Symbol> {
    let x = calls.unsqueeze(x, -2)?;
    let y = calls.unsqueeze(y, -3)?;
    calls.apply("sub", &[x, y])
}

fn cdist(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (x, y) = (given.tensor("x1")?, given.tensor("x2")?);
    let between = pairs(calls, x, y)?;
    let attrs = Attrs::new().with("ord", given.number("p", 2.0)?).with("dim", vec![-1i64]);
    calls.one("linalg_vector_norm", &[between], attrs)
}

/// Returns whether the second of two rows comes after the first, for all pairs.
fn later(calls: &mut Calls<'_>, rows: i64) -> Result<Symbol> {
    let ones = Attrs::new().with("shape", vec![rows, rows]).with("value", true);
    let ones = calls.one("full", &[], ones.with("dtype", DType::Bool))?;
    calls.one("triu", &[ones], Attrs::new().with("diagonal", 1i64))
}

/// Returns the distances between different rows, in the order of the pairs.
fn pdist(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let rows = calls.spec(x).shape().first().copied().unwrap_or(0) as i64;
    let between = pairs(calls, x, x)?;
    let attrs = Attrs::new().with("ord", given.number("p", 2.0)?).with("dim", vec![-1i64]);
    let all = calls.one("linalg_vector_norm", &[between], attrs)?;
    let mask = later(calls, rows)?;
    calls.apply("masked_select", &[all, mask])
}

/// Returns the gradient of [`pdist`], which is that of all distances, each pair once.
fn pdist_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (grad, x) = (given.tensor("grad")?, given.tensor("x")?);
    let distances = given.tensor("distance")?;
    let rows = calls.spec(x).shape().first().copied().unwrap_or(0) as i64;
    let dtype = calls.dtype(x);
    // Numbers the pairs in order, from 1; 0 stands for all other places.
    let mask = later(calls, rows)?;
    let flat = calls.one("reshape", &[mask], Attrs::new().with("shape", vec![-1i64]))?;
    let counts = calls.one("cumsum", &[flat], along(0))?;
    let flags = calls.cast(flat, DType::I64)?;
    let index = calls.apply("mul", &[counts, flags])?;
    let square = |calls: &mut Calls<'_>, x: Symbol| -> Result<Symbol> {
        let none = Attrs::new().with("shape", vec![1i64]).with("value", 0i64);
        let none = calls.one("full", &[], none.with("dtype", dtype))?;
        let list = calls.one("cat", &[none, x], along(0))?;
        let picked = [list, index];
        let all = calls.one("index_select", &picked, along(0))?;
        calls.one("reshape", &[all], Attrs::new().with("shape", vec![rows, rows]))
    };
    let (grads, sizes) = (square(calls, grad)?, square(calls, distances)?);
    let turned = Attrs::new().with("dim0", 0i64).with("dim1", 1i64);
    let mut both = Vec::new();
    for half in [grads, sizes] {
        let other = calls.one("transpose", &[half], turned.clone())?;
        both.push(calls.apply("add", &[half, other])?);
    }
    slopes_of_pairs(calls, both[0], x, x, both[1], given.number("p", 2.0)?)
}

fn cdist_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let grad = given.tensor("grad")?;
    let (x, y) = (given.tensor("x1")?, given.tensor("x2")?);
    let distance = given.tensor("distance")?;
    slopes_of_pairs(calls, grad, x, y, distance, given.number("p", 2.0)?)
}

/// Returns the gradient of distances by the rows of x: of each row, the sum over its pairs.
fn slopes_of_pairs(
    calls: &mut Calls<'_>,
    grad: Symbol,
    x: Symbol,
    y: Symbol,
    distance: Symbol,
    p: f64,
) -> Result<Symbol> {
    let last = || along(-1);
    let between = pairs(calls, x, y)?;
    let grad = calls.one("unsqueeze", &[grad], last())?;
    let distance = calls.one("unsqueeze", &[distance], last())?;
    let sign = calls.apply("sign", &[between])?;
    let size = calls.apply("abs", &[between])?;
    let slope = if p == 0.0 {
        calls.by("mul", between, 0.0)?
    } else if p == 1.0 {
        sign
    } else if p == f64::INFINITY {
        let greatest = calls.apply("eq", &[size, distance])?;
        calls.apply("mul", &[sign, greatest])?
    } else {
        let power = |calls: &mut Calls<'_>, x: Symbol| {
            calls.one("pow", &[x], Attrs::new().with("exponent", p - 1.0))
        };
        let above = power(calls, size)?;
        let above = calls.apply("mul", &[above, sign])?;
        let below = power(calls, distance)?;
        let share = calls.apply("div", &[above, below])?;
        let zero = calls.by("eq", distance, 0.0)?;
        let share = calls.filled(share, zero, 0.0)?;
        let equal = calls.by("eq", size, 0.0)?;
        calls.filled(share, equal, 0.0)?
    };
    let slope = calls.apply("mul", &[slope, grad])?;
    calls.one("sum", &[slope], Attrs::new().with("dim", vec![-2i64]))
}
