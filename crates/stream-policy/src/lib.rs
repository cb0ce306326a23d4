//! Stream policies: the facts about each stream type, and the way to open a stream.
//!
//! # Contract
//! A [`StreamPolicy`] answers queries about the streams of one type before any of them exists, and
//! opens a stream when its first instruction is about to run. A query creates nothing: no device,
//! no stream, no memory, no event, no thread. The worker that runs a stream opens it, once and
//! lazily.
//!
//! Policies are values in a [`PolicyTable`]. A policy that a program registers replaces the
//! standard one for its stream type, on the devices that it serves.
//!
//! This crate implements the two traits that the builder queries: [`Catalog`] is the
//! `StreamCatalog`, [`ArenaMemory`] the `Arenas`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`policy`] | the trait |
//! | [`standard`] | the policies of the eight stream types |
//! | [`table`] | policies by stream type and device; the stream catalog |
//! | [`arena`] | the memory behind the planner's arenas |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod arena;
pub mod policy;
pub mod standard;
pub mod table;

pub use arena::{ArenaMemory, KnownChunks, PrivateArena};
pub use policy::{StreamParts, StreamPolicy, WorkerGroup};
pub use table::{Catalog, PolicyTable};
