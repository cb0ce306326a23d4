//! The standard ops.

use std::sync::Arc;

use crate::registry::OpRegistry;
use crate::{arith, copy, matmul, reduce, select, views};

/// A registry of the standard ops.
pub fn standard() -> OpRegistry {
    let mut ops = OpRegistry::new();
    for def in [
        copy::COPY,
        copy::FILL,
        arith::ADD,
        arith::MUL,
        arith::SUB,
        arith::RELU,
        matmul::MATMUL,
        reduce::SUM,
        views::TRANSPOSE,
        views::RESHAPE,
        views::SLICE,
        arith::ADD_,
        copy::CAST,
        select::MASKED_SELECT,
    ] {
        ops.register(Arc::new(def));
    }
    ops
}
