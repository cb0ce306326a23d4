//! Composites of softmax.

use millstream_types::Attrs;

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Composite, op, table};
use crate::formula::along;

table! {
    op("_safe_softmax", "the softmax, and 0 where all elements are minus infinity", X, DIM,
        |args| {
        let x = args.tensor("x");
        let x = x.cast(args.dtype("dtype")?.unwrap_or(x.dtype()));
        let dim = args.int("dim")?.unwrap_or(-1);
        let rows = Attrs::new().with("dim", vec![dim]).with("keepdim", true);
        let rows = x.eq(f64::NEG_INFINITY).op("all", rows);
        Ok(x.op("_softmax", along(dim).with("half_to_float", false)).filled(rows, 0))
    });
}

const X: &[ArgDoc] = &[arg("x", "any shape")];
const DIM: &[ArgDoc] = &[
    arg("dim", "the dimension that is normalised").int(),
    arg("dtype", "the dtype of the result").dtype().optional(),
];
