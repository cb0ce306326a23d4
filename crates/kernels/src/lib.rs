//! The kernels of the ops, per device kind.
//!
//! # Contract
//! A kernel is called with its operands in the order that `millstream_ops` fixes: the inputs as
//! given, then the fresh outputs. Shapes and dtypes have been checked by the op's schema. Nothing
//! else touches what it writes, and nothing else writes what it reads, for as long as it runs; but
//! two of its own operands may be the same memory (`x.add_(x)`), so that Rust slices over an
//! operand are made only where it has been shown to be disjoint from the others.
//!
//! Results do not depend on the number of threads: work is cut by shape alone, and a reduction
//! adds in an order fixed by its shape.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`context`] | what a kernel is given |
//! | [`registry`] | kernels by device kind and op |
//! | [`group`] | how ranks reach one another |
//! | `parts` | ops that copy parts and set values |
//! | [`cpu`] | the kernels of devices that compute on the host |
//! | `cuda` | those of NVIDIA devices (feature `cuda`) |
#![deny(missing_docs)]

pub mod context;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod group;
mod later;
mod parts;
pub mod registry;

pub use context::{KernelCtx, Operands, RawTensor, Threads};
pub use group::{Group, Parcel};
pub use later::{Later, OnComplete};
pub use registry::{Kernel, KernelRegistry, standard};
