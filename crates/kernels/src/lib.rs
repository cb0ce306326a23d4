//! The kernels of the ops: one implementation per op and kind of device.
//!
//! # Contract
//! - A kernel receives its operands in the order that `millstream_ops` defines: the inputs as
//!   given, then the fresh outputs. The op's schema has checked their shapes and dtypes.
//! - While a kernel runs, nothing else accesses the memory that it writes, and nothing else writes
//!   the memory that it reads. Two operands of one call may be the same memory (`x.add_(x)`):
//!   kernels create Rust slices over an operand only after showing that it is disjoint from the
//!   others.
//! - Results do not depend on the number of threads. Work is split by shape alone, and a reduction
//!   adds its elements in an order that the shape fixes.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`context`] | the arguments of a kernel: operands, attributes, workspace, threads |
//! | `completion` | calls that complete after their kernel has returned |
//! | [`registry`] | kernels by device kind and op |
//! | [`prepared`] | kernels bound to the layouts and arguments of a call |
//! | `plan_cache` | what a kernel has chosen for calls, for later ones like them |
//! | `data_movement` | ops built from copies and fills alone, for every kind of device |
//! | [`cpu`] | the kernels of devices that compute on the host |
//! | `cuda` | the kernels of NVIDIA devices (feature `cuda`) |
#![deny(missing_docs)]

mod completion;
pub mod context;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod data_movement;
mod plan_cache;
pub mod prepared;
pub mod registry;
pub mod typed;

pub use completion::{CompletionToken, DeferredCompletion};
pub use context::{KernelCtx, Operands, RankContext, RawTensor, Threads};
pub use prepared::{KernelSpec, PlannedKernel, PreparedKernel};
pub use registry::{Kernel, KernelRegistry, standard};
pub use typed::{Elements, ElementsMut, TypedCall, typed};
