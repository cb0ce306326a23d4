//! Reductions over ranks.

use millstream_types::{AttrValue, Attrs, Error, Result};

/// A reduction over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The sum divided by the number of ranks.
    Mean,
}

millstream_types::names! {
    ReduceOp, "reduction": Sum "sum", Product "product", Min "min", Max "max", Mean "mean"
}

impl ReduceOp {
    /// Returns the reduction that the argument `op` names; the sum by default.
    ///
    /// # Errors
    /// Fails if `op` is not the name of a reduction.
    pub fn of(attrs: &Attrs) -> Result<ReduceOp> {
        match attrs.get("op") {
            None => Ok(ReduceOp::Sum),
            Some(AttrValue::Str(name)) => name.parse(),
            Some(other) => Err(Error::Invalid {
                what: "argument",
                message: format!("op: expected the name of a reduction, got {other}"),
            }),
        }
    }
}
