//! The machine below the handles that programs hold: emission, workers, drivers, tapes.
//!
//! Programs use it by the crate `millstream`. What is public here beyond the types that programs
//! name serves the crates above, and may change with any version.
//!
//! # Invariants
//! - One lock, the engine's, covers hazards, sequence numbers, placement and enqueueing. Only the
//!   lock of memory growth may be held when it is taken. No thread waits while it holds the lock,
//!   except the inline driver, which runs the program under it.
//! - After emission no lock is taken by all instructions, and no thread handles all of them.
//! - No device, stream, memory or thread exists before the first instruction that needs it.
//! - Unsafe code lives in the files that `tests/tidy.rs` lists.
//!
//! # Map
//! Upper layers call lower ones; `sync` is the lowest.
//!
//! | folder | holds |
//! |---|---|
//! | `engine` | the critical section, the router, pushes, releases |
//! | `driver` | who runs the workers: threads, the caller in program order, the caller by seed |
//! | `pool` | the graph of the streams that run in any order, and its workers |
//! | `thread_ctx` | the loop of one worker: queue entries, launch, retire |
//! | `replay` | from instruction lists to tapes, and the private memory of launches |
//! | `tapes` | compiled lists as workers read them, and the state of launches |
//! | `profile` | the times of a run, recorded while it runs |
//! | `tables` | the state that all workers of a machine share: slots, poison, failures, backlog |
//! | `host` | callbacks, reads, and the threads that run them |
//! | `scope` | the surroundings of a call: its place, cancellation, reentrancy |
//! | `sync` | primitives that models replace, the fence, queues, inboxes, progress of streams |
#![deny(missing_docs)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "rules name the private items that they hold for"
)]
#![allow(clippy::new_without_default, reason = "the crates above alone make its types")]

#[doc(hidden)]
pub mod driver;
#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod host;
mod pool;
#[doc(hidden)]
pub mod profile;
#[doc(hidden)]
pub mod replay;
#[doc(hidden)]
pub mod scope;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod tables;
#[doc(hidden)]
pub mod tapes;
#[doc(hidden)]
pub mod thread_ctx;
