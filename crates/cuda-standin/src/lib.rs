//! A stand-in for the CUDA driver, for tests of the CUDA backend on computers without a GPU.
//!
//! **This is neither a GPU nor an emulation of one.** It is a library under the driver's name with
//! the functions that Millstream calls. They work on the host: a stream is a thread, device memory
//! is host memory under addresses that no host has, and a C++ compiler (`MILLSTREAM_CXX`) compiles
//! the source of kernels for the host. An op without a kernel for the device runs the host's kernel
//! of the same name. Without a C++ compiler, all ops do. The device's name is [`DEVICE_NAME`].
//! Nothing is ever measured on it.
//!
//! # Violations
//! The stand-in refuses calls whose behaviour a real driver leaves undefined, and records a
//! *violation*, which the test checks at its end: a wait for an event without a record, freed
//! memory that a stream still uses, a copy or a kernel outside its allocation, a call from a thread
//! without a context, an invalid handle, a copy that would block the caller, a call that a capture
//! forbids, a graph that is updated or destroyed in flight.
//!
//! # Control by tests
//! [`StandIn`] returns the list of calls and the violations, holds and steps streams, and makes
//! calls fail: see [`control`]. A call can fail with any error of the driver at any time. An error
//! that a real driver repeats (a lost device) is repeated.
//!
//! # Loading
//! `cargo test` adds the folder with `libcuda.so.1` to the loader's search path, because this
//! crate's build script declares it as a folder of libraries. Only tests find it there.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `api` | the functions of the driver, of NVRTC, of cuBLAS and of NCCL |
//! | `state` | the driver's state, behind one lock |
//! | `stream` | a stream's thread and its commands |
//! | `memory` | allocations, addresses, bounds |
//! | `graph` | captures of streams, and graphs |
//! | `faults` | planned failures of calls |
//! | `compiled` | kernels compiled for the host |
//! | `host_kernels` | the host's kernels by name |
//! | `registration` | the kernels that tests register |
//! | [`call`] | the encoding of a host kernel's call as a kernel's arguments |
//! | [`control`] | observation and control by tests |
//! | `matrix_product` | the matrix products of cuBLAS |
//! | `ranks` | the communicators of NCCL, and their collectives |
//! | [`code`], [`status`] | the errors of the driver, and of cuBLAS |
#![deny(missing_docs)]

mod api;
pub mod call;
pub mod code;
mod compiled;
pub mod control;
mod faults;
mod graph;
mod host_kernels;
mod matrix_product;
mod memory;
mod ranks;
mod registration;
mod state;
pub mod status;
mod stream;

use std::ffi::CStr;

pub use control::StandIn;
pub use registration::{register, register_host_kernel};

/// The name of every device.
pub const DEVICE_NAME: &str = "Millstream stand-in (no GPU)";

/// The number of devices.
pub const DEVICES: u32 = 4;

/// The memory of each device in bytes.
pub const DEVICE_BYTES: u64 = 1 << 30;

/// The prefix of the images that the stand-in's compiler returns; the path of the compiled library
/// follows. No real driver loads such an image.
pub const COMPILED: &str = "millstream stand-in: compiled for the host: ";

/// The image of the module of Millstream's host kernels. No real driver loads it.
pub const HOST_KERNELS: &CStr = c"millstream stand-in: kernels of the host";

/// Returns whether there is a C++ compiler. Without one, no kernel's own code runs.
pub fn compiles() -> bool {
    compiled::compiler::is_available()
}
