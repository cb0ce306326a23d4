//! Composites of softmax.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, table};

table! {
    op("_safe_softmax", "the softmax, and 0 where all elements are minus infinity", X, DIM, safe);
}

const X: &[ArgDoc] = &[arg("x", "any shape")];
const DIM: &[ArgDoc] = &[
    arg("dim", "the dimension that is normalised").int(),
    arg("dtype", "the dtype of the result").dtype().optional(),
];

fn safe(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let x = calls.cast(x, given.dtype("dtype")?.unwrap_or(calls.dtype(x)))?;
    let masked = calls.by("eq", x, f64::NEG_INFINITY)?;
    let dim = given.int("dim")?.unwrap_or(-1);
    let rows = Attrs::new().with("dim", vec![dim]).with("keepdim", true);
    let rows = calls.one("all", &[masked], rows)?;
    let y = calls.one("_softmax", &[x], along(dim).with("half_to_float", false))?;
    calls.filled(y, rows, 0i64)
}
