//! Reductions over ranks.

use std::fmt;

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

impl ReduceOp {
    /// Every reduction, in the order of the documentation.
    pub const ALL: [ReduceOp; 5] =
        [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max, ReduceOp::Mean];

    /// Returns the name used in arguments.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Product => "product",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::Mean => "mean",
        }
    }

    /// Returns the reduction that the argument `op` names; the sum by default.
    ///
    /// # Errors
    /// Fails if `op` is not the name of a reduction.
    pub fn of(attrs: &Attrs) -> Result<ReduceOp> {
        match attrs.get("op") {
            None => Ok(ReduceOp::Sum),
            Some(AttrValue::Str(name)) => {
                let named = ReduceOp::ALL.into_iter().find(|reduction| reduction.name() == name);
                named.ok_or_else(|| Error::Unknown {
                    what: "reduction",
                    name: name.clone(),
                    help: millstream_types::nearest::did_you_mean(
                        name,
                        ReduceOp::ALL.iter().map(|reduction| reduction.name()),
                    ),
                })
            }
            Some(other) => Err(Error::Invalid {
                what: "argument",
                message: format!("op: expected the name of a reduction, got {other}"),
            }),
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
