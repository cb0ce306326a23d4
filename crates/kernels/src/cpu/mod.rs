//! Kernels for devices that compute on the host, of kind `cpu`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `element` | dtypes as Rust types, conversions |
//! | `number` | arithmetic on elements |
//! | `walk` | the order in which strided tensors are walked |
//! | `strided` | loads and stores; loops over operands |
//! | `memory` | the workspace, heap temporaries, overlap |
//! | `copy` | copy, cast, fill, reshape |
//! | `arith` | add, sub, mul, relu, add_ |
//! | `matmul` | matmul |
//! | `sum` | sum |
//! | `select` | masked_select |

use std::sync::Arc;

use crate::context::KernelCtx;
use crate::registry::KernelRegistry;

mod arith;
mod copy;
pub(crate) mod element;
mod matmul;
mod memory;
mod number;
mod select;
mod strided;
mod sum;
mod walk;

/// The kind under which these kernels are registered.
pub const KIND: &str = "cpu";

type Run = fn(&KernelCtx<'_>) -> anyhow::Result<()>;

/// Adds all kernels of this kind.
pub fn register(kernels: &mut KernelRegistry) {
    let all: [(&str, Run); 12] = [
        ("copy", copy::copy),
        ("cast", copy::copy),
        ("fill", copy::fill),
        ("reshape", copy::reshape),
        ("add", arith::add),
        ("sub", arith::sub),
        ("mul", arith::mul),
        ("relu", arith::relu),
        ("add_", arith::add_in_place),
        ("matmul", matmul::matmul),
        ("sum", sum::sum),
        ("masked_select", select::masked_select),
    ];
    for (op, kernel) in all {
        kernels.register(KIND, op, Arc::new(kernel));
    }
}
