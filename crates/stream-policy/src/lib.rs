//! Stream policies: what a stream of some type on some device is made of.
//!
//! # Contract
//! A [`StreamPolicy`] answers questions about streams of one type before any of them exists, and
//! makes one when its first instruction comes to run. Asking creates nothing: no device, no
//! stream, no memory, no event, no thread. What is made is made once and lazily, by the worker
//! that runs the stream.
//!
//! Policies are values in a [`PolicyTable`]. A policy from outside takes the place of the standard
//! one for its stream type and the devices that it serves.
//!
//! The table implements the two traits that the builder asks: the catalog of streams, and the
//! arenas of memory.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`policy`] | the trait |
//! | [`standard`] | the policies of the eight stream types |
//! | [`table`] | policies by stream type and device; the catalog |
//! | [`arena`] | the memory behind the planner's arenas |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod arena;
pub mod policy;
pub mod standard;
pub mod table;

pub use arena::{ArenaMemory, PrivateArena};
pub use policy::{Crew, StreamParts, StreamPolicy};
pub use table::{Catalog, PolicyTable};
