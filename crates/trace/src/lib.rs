//! File formats of Millstream: the native trace, a program that is written by hand.
//!
//! # Contract
//! Loading gives a whole [`Program`] or one [`TraceError`] with its place: names are resolved in
//! straight-line order, layouts lie within their storages, sidecar files are there and fit. Nothing
//! is executed and no tensor is made. Elements are made when they are asked for, into memory of the
//! caller's.
//!
//! No input makes the loader panic, overflow its stack or take more memory than
//! [`LoadOptions`] allows. Ops are not looked up here: what they take is the business of whoever
//! builds the instructions, who gets the place of every statement for its errors.
//!
//! The types of the file are private and separate from those of the [`Program`]. The JSON Schema
//! is made from the former.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`load`](mod@load) | entry points and bounds |
//! | [`program`] | the loaded trace |
//! | [`data`], [`literal`], [`random`], [`sidecar`] | where elements come from |
//! | [`compare`](mod@compare) | comparing results with what was expected |
//! | [`expand`](mod@expand) | directories of traces |
//! | [`schema`](mod@schema) | the JSON Schema |
//! | [`source`], [`error`] | places in a file, errors with a place |
//! | [`write`](mod@write) | the way back to a native trace |
//! | `form`, `words` | the file as it is written |
//! | `json`, `scan`, `fields` | JSON values with places |
//! | `streams`, `tensors`, `attrs`, `names`, `statements`, `jobs`, `outputs` | reading each part |
//! | `read`, `number`, `positions` | text, elements, layouts |
//!
//! # Invariants
//! - A slice of the source's text is the only way to a value of the file, so every value has a
//!   place.
//! - What is counted against [`LoadOptions::max_items`] is counted before it is kept.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod attrs;
pub mod compare;
pub mod data;
pub mod error;
pub mod et;
pub mod expand;
mod fields;
mod form;
mod jobs;
mod json;
pub mod literal;
pub mod load;
mod names;
mod number;
mod outputs;
mod positions;
pub mod program;
pub mod random;
mod read;
mod scan;
pub mod schema;
pub mod sidecar;
pub mod source;
mod statements;
mod streams;
mod tensors;
mod words;
pub mod write;

pub use compare::{Comparison, Mismatch, Tolerance, compare};
pub use data::Data;
pub use error::{ErrorKind, Excerpt, Result, Site, TraceError};
pub use et::EtOptions;
pub use et::report::{Imported, Skipped};
pub use expand::{Entry, expand};
pub use load::{LoadOptions, VERSION, load, load_bytes};
pub use number::Number;
pub use program::{
    Action, Block, Body, Call, EventRef, Job, JobRef, Line, Output, Program, Results, Statement,
    Stream, StreamRef, Tensor, Value, ValueRef,
};
pub use schema::schema;
pub use source::{Place, Source};
pub use write::write;
