//! A stand-in for the CUDA driver, so that the CUDA backend is tested where there is no GPU.
//!
//! **This is no GPU and no emulation of one.** It is a library of the driver's name with those of the
//! driver's functions that Millstream calls. What they are to do they do on the host: a stream is a
//! thread, device memory is host memory under addresses that no host has, and a kernel's source is
//! compiled for the host, by a C++ compiler if one is there (`MILLSTREAM_CXX` names it). Ops that have
//! no kernel for the device are run by the host's, found by name; so are all without a C++ compiler.
//! The device calls itself [`DEVICE_NAME`]. Nothing is ever measured on it.
//!
//! # What it is strict about
//! What a real driver leaves undefined is refused and written down as a *violation*, which a test
//! looks at when it ends: a wait for a record that was never made, memory that is freed while a
//! stream still uses it, copies and kernels that reach past an allocation, a call from a thread
//! without a context, a handle that is not one, a copy of memory that would block the caller.
//!
//! # What tests can do
//! [`StandIn`] reads the list of calls and the violations, holds and steps streams, and makes a
//! call fail: see [`control`]. A call can fail with any of the driver's errors at any time; an
//! error that a real driver keeps (a lost device) is kept.
//!
//! # How it is found
//! `cargo test` puts the folder with `libcuda.so.1` into the loader's search path, because this
//! crate's build script names it as a folder of libraries. Nothing but tests sees it there.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `api` | the driver's functions, the compiler's, and those of cuBLAS |
//! | `state` | all that the driver knows, behind one lock |
//! | `stream` | a stream's thread and its commands |
//! | `memory` | allocations, addresses, bounds |
//! | `faults` | calls that are to fail |
//! | `compiled` | kernels compiled for the host |
//! | `kernels` | the host's kernels by name |
//! | `launcher` | the kernels that tests register, which launch those |
//! | [`call`] | how a call of a host kernel is written into a kernel's arguments |
//! | [`control`] | what tests see and steer |
//! | `product` | matrix products |
//! | [`code`], [`status`] | the driver's errors, and those of cuBLAS |
#![deny(missing_docs)]

mod api;
pub mod call;
pub mod code;
mod compiled;
pub mod control;
mod faults;
mod kernels;
mod launcher;
mod memory;
mod product;
mod state;
pub mod status;
mod stream;

use std::ffi::CStr;

pub use control::StandIn;
pub use launcher::register;

/// What the devices are called.
pub const DEVICE_NAME: &str = "Millstream stand-in (no GPU)";

/// How many devices there are.
pub const DEVICES: u32 = 4;

/// The memory of each in bytes.
pub const DEVICE_BYTES: u64 = 1 << 30;

/// What the stand-in's compiler gives starts with, before the place of what it compiled. No real driver
/// loads it.
pub const COMPILED: &str = "millstream stand-in: compiled for the host: ";

/// What the image of a module starts with whose kernels are Millstream's own for the host. No real
/// driver loads it.
pub const HOST_KERNELS: &CStr = c"millstream stand-in: kernels of the host";

/// Whether there is a C++ compiler, without which no kernel's own code runs.
pub fn compiles() -> bool {
    compiled::compiler::is_there()
}
