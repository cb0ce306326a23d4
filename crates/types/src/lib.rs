//! The vocabulary that all other crates of Millstream share: dtypes, shapes and strides, devices,
//! streams, points in a stream's order, ids, and the common error type.
//!
//! # Contract
//! The crate holds plain values. It owns no device, lock or thread, and depends on no other crate
//! of the workspace. The constructors of values that describe memory ([`Layout`], [`TensorSpec`])
//! refuse invalid ones: byte counts never overflow, and no element lies before its storage.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`dtype`] | element types |
//! | [`element`] | the Rust types of elements |
//! | [`layout`] | shapes, strides, offsets, tensor specs |
//! | [`mesh`] | grids of ranks |
//! | [`sharding`] | how the ranks of a mesh hold a tensor |
//! | [`device`] | device ids |
//! | [`stream`] | stream types, keys, modes, points |
//! | [`work`] | kinds of work that streams accept |
//! | [`id`] | dense ids of tensors, storages, events, ops |
//! | [`access`] | how an instruction uses an operand: read, write, or both |
//! | [`attr`] | named arguments of ops that are not tensors |
//! | [`scalar`] | numbers that each launch of a list gives |
//! | [`origin`] | the source line or trace node of an instruction |
//! | [`error`] | the error enum, failed instructions |
//! | [`overdue`] | reports of instructions that exceed their time limit |
//! | [`panics`] | the guard that code of the program runs behind |
//! | `names` | [`names!`] of the values of enumerations |
//! | `setters` | [`setters!`] for options |
//! | [`text`] | the text form that lists and the programs of fused ops share |
//! | [`nearest`] | suggestions for misspelt names |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod access;
pub mod attr;
pub mod byte_count;
pub mod device;
pub mod dtype;
pub mod element;
pub mod error;
pub mod id;
pub mod layout;
pub mod mesh;
mod names;
pub mod nearest;
pub mod origin;
pub mod overdue;
pub mod panics;
#[cfg(feature = "safetensors")]
pub mod safetensors_dtype;
pub mod scalar;
mod setters;
pub mod sharding;
pub mod stream;
pub mod text;
pub mod work;

pub use access::Access;
pub use attr::{AttrValue, Attrs};
pub use byte_count::ByteCount;
pub use device::DeviceId;
pub use dtype::DType;
pub use element::Element;
pub use error::{Cause, Error, Failure, Operand as FailedOperand, Result};
pub use id::{CallbackId, EventId, ListId, OpId, ReadId, ScalarId, StorageId, StreamId, TensorId};
pub use layout::{Dims, Layout, TensorSpec};
pub use mesh::{Coordinates, Mesh};
pub use origin::{Origin, SourceFile};
pub use panics::{Panicked, catch_panic, catch_unit};
pub use scalar::{ScalarUse, ScalarValue};
pub use sharding::{NdSbp, Ranges, Reduction, Sbp, Sharding, sbp};
pub use stream::{Point, StreamKey, StreamMode, StreamType};
pub use work::{WorkKind, WorkSet};
