//! Composite counts.

use millstream_types::{DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, table};

table! {
    op("bincount",
        "for each whole number below the bins, how often it occurs in x, or the sum of its weights",
        X, BINS, bincount).optional_from(1);
}

const X: &[ArgDoc] = &[arg("x", "one dimension, integers"), arg("weights", "x's shape")];
const BINS: &[ArgDoc] = &[
    arg("bins", "the number of bins, greater than each element of x").int(),
    arg("minlength", "").int().ignored(),
];

/// Counts the elements of each value. A value beyond the bins fails the call.
fn bincount(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let bins = given.int("bins")?.unwrap_or(0);
    let (weights, dtype) = match given.optional("weights") {
        Some(weights) => {
            let dtype = calls.dtype(weights);
            let dtype = if dtype == DType::F32 { dtype } else { DType::F64 };
            (calls.cast(weights, dtype)?, dtype)
        }
        None => (calls.full(calls.shape(x), 1i64, DType::I64)?, DType::I64),
    };
    let made = calls.full(vec![bins], 0i64, dtype)?;
    let index = calls.cast(x, DType::I64)?;
    calls.call("index_add_", &[made, index, weights], along(0))?;
    Ok(made)
}
