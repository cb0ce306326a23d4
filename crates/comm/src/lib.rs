//! Communicators: how the ranks of a program exchange tensors.
//!
//! # Contract
//! - A collective is *started* and completes later. No call of a communicator blocks, so a
//!   collective holds no thread that other streams need.
//! - Ranks match their calls by channel and number, not by arrival ([`Slot`]). A rank that does not
//!   make a call says so ([`Communicator::skip`]), and then the others' requests fail with its
//!   cause. No rank waits for ever for one that has failed, skipped or ended.
//! - Reductions combine in the order of the ranks, whatever the backend: all ranks have the same
//!   bits, in every run. NCCL alone has an order of its own.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`communicator`] | the trait of communicators |
//! | [`call`] | one rank's part of a collective; slots |
//! | [`buffer`] | elements on their way between ranks |
//! | [`mod@request`] | started calls, and their completion |
//! | [`single`] | the communicator of a program of one rank |
//! | [`local`] | ranks as threads of one process |
//! | `combine`, `reduction` | the results of a collective, from what all ranks give |
//! | `nccl` | the data of NVIDIA devices, by NCCL (feature `nccl`) |
//! | [`mpi`] | ranks as processes, over an MPI library that is loaded at run time |
//! | `matching` | which calls of which ranks belong together |
//! | `numbers` | the calls of a channel that a rank has made |

#![deny(missing_docs)]

pub mod buffer;
pub mod call;
mod combine;
pub mod communicator;
mod error;
pub mod local;
mod matching;
pub mod mpi;
#[cfg(feature = "nccl")]
pub mod nccl;
mod numbers;
mod reduction;
pub mod request;
pub mod single;

pub use buffer::{Buffer, Elements};
pub use call::{Call, Collective, Meeting, Slot};
pub use communicator::Communicator;
pub use error::CommError;
pub use local::{LocalCommunicator, LocalGroup};
pub use millstream_ops::collective::{Channel, Numbering, ProcessGroup, ReduceOp};
pub use mpi::MpiCommunicator;
#[cfg(feature = "nccl")]
pub use nccl::{DeviceCall, NcclCommunicator};
pub use request::{Completer, Outcome, Request};
pub use single::SingleRank;
