//! The whole threaded machine under shuttle: each program runs under thousands of schedules of its
//! threads. The sources are the crate's own, compiled on shuttle's primitives in place of the
//! standard library's (`sync`).
//!
//! # Schedules
//! Shuttle runs all threads on one, and may switch at every lock, atomic access, park and wake-up.
//! Half of the schedules switch at random, half run the thread of highest priority and change
//! priorities at a few moments (PCT: Burckhardt et al., "A Randomized Scheduler with Probabilistic
//! Guarantees of Finding Bugs", ASPLOS 2010, <https://doi.org/10.1145/1736020.1736040>).
//!
//! # Checks
//! Time-outs never expire, so a thread that misses its wake-up parks for ever, and shuttle reports
//! a deadlock; a machine's time-outs would hide it. Each result is compared with the expected one.
//! All accesses are sequentially consistent here: loom checks the orderings. Locks of the crates
//! below are the standard library's: no switch happens while one is held.
//!
//! # Running it
//! `MILLSTREAM_SCHEDULES=N` sets the number of schedules of each program, `SHUTTLE_RANDOM_SEED=N`
//! chooses others. A failure prints a schedule: `MILLSTREAM_REPLAY=SCHEDULE` with the test's name
//! runs that.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "a library's sources, as a test")]
#![allow(unused_imports, reason = "a library's sources, as a test")]

extern crate self as millstream_runtime;

#[path = "../../crates/vm/src/capture/mod.rs"]
mod capture;
#[path = "../../crates/vm/src/dependency_engine/mod.rs"]
mod dependency_engine;
#[path = "../../crates/runtime/src/driver/mod.rs"]
mod driver;
#[path = "../../crates/runtime/src/engine/mod.rs"]
mod engine;
#[path = "../../crates/vm/src/executable/mod.rs"]
mod executable;
#[path = "../../crates/vm/src/gradient/mod.rs"]
mod gradient;
#[path = "../../crates/vm/src/handle/mod.rs"]
mod handle;
#[path = "../../crates/runtime/src/host/mod.rs"]
mod host;
#[path = "../../crates/runtime/src/pool/mod.rs"]
mod pool;
#[path = "../../crates/runtime/src/profile/mod.rs"]
mod profile;
#[path = "../../crates/runtime/src/replay/mod.rs"]
mod replay;
#[path = "../../crates/runtime/src/scope/mod.rs"]
mod scope;
#[path = "../../crates/runtime/src/tables/mod.rs"]
mod tables;
#[path = "../../crates/runtime/src/tapes/mod.rs"]
mod tapes;
#[path = "../../crates/vm/src/tensor/mod.rs"]
mod tensor;
#[path = "../../crates/runtime/src/thread_ctx/mod.rs"]
mod thread_ctx;

mod device;
mod engine_programs;
mod host_programs;
mod pool_programs;
mod programs;
mod rig;
mod sync;

// The crate's root, as its modules know it.
use driver::{DriverKind, Schedule, Simulation};
use engine::{ShutdownReport, StreamOptions};
use executable::{
    Executable, LaunchBuilder, Launched, Recorded, RecordedCall, RecordedTensor, Recorder,
    USUAL_PASSES, accepts,
};
use handle::batch::Batch;
use handle::machine::{CallBuilder, Machine, MachineConfig};
use handle::prepared::{Prepared, TensorHandle};
use handle::{Completion, Event, Section, Stream, Tensor, with_stream};
use host::Blob;
use replay::{compile, instance, overlap};
use scope::cancel::Cancellation;
use scope::origin::with_origin;
