//! What every other crate of Millstream speaks of: dtypes, shapes and strides, devices, streams,
//! points in a stream's order, ids, and the one error type.
//!
//! # Contract
//! Plain values only. Nothing here owns a device, a lock or a thread, and nothing here depends on
//! another crate of the workspace. Values that describe memory ([`Layout`],
//! [`TensorSpec`]) can only be built valid: their byte counts never overflow and their views lie
//! within their storage.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`dtype`] | element types |
//! | [`layout`] | shapes, strides, offsets, tensor specs |
//! | [`device`] | device ids |
//! | [`stream`] | stream types, keys, modes, points |
//! | [`work`] | kinds of work that streams accept |
//! | [`id`] | dense ids of tensors, storages, events, ops |
//! | [`access`] | read, write, read-write |
//! | [`attr`] | named arguments of ops |
//! | [`origin`] | where an instruction came from |
//! | [`error`] | the error enum |
//! | [`nearest`] | the nearest name to a misspelt one |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod access;
pub mod attr;
pub mod device;
pub mod dtype;
pub mod error;
pub mod id;
pub mod layout;
pub mod nearest;
pub mod origin;
pub mod overdue;
pub mod stream;
pub mod work;

pub use access::Access;
pub use attr::{AttrValue, Attrs};
pub use device::DeviceId;
pub use dtype::DType;
pub use error::{Cause, Error, Failure, Operand as FailedOperand, Result};
pub use id::{CallbackId, EventId, ListId, OpId, ReadId, StorageId, StreamId, TensorId};
pub use layout::{Dims, Layout, TensorSpec};
pub use origin::{Origin, SourceFile};
pub use stream::{Point, StreamKey, StreamMode, StreamType};
pub use work::{WorkKind, WorkSet};
