//! Op schemas: what an op takes, gives and touches, said without running it.
//!
//! # Contract
//! A schema answers from dtypes, layouts and arguments alone. It has no kernel, no device and no
//! state, so a whole program can be checked before anything runs. What it answers is all that
//! scheduling ever asks: the access of every operand decides the waits, the outputs decide the
//! memory.
//!
//! Operands of a call stand in this order: the inputs as given, then the fresh outputs in the
//! order of [`Signature::outputs`]; a bounded output is followed by its count. Kernels see the
//! same order.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`schema`] | the [`Op`] trait and its answers |
//! | [`registry`] | ops by name, extended from outside |
//! | [`broadcast`] | the rules of broadcasting |
//! | [`promote`] | the rules of dtypes |
//! | [`args`] | numbers and dimensions as arguments |
//! | [`standard()`] | the registry of the standard ops |
//! | [`arith`] | add, sub, mul, relu, add_ |
//! | [`copy`] | copy, cast, fill |
//! | [`matmul`] | matmul |
//! | [`reduce`] | sum |
//! | [`select`] | masked_select |
//! | [`views`] | transpose, slice, reshape |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod args;
pub mod arith;
pub mod broadcast;
pub mod copy;
mod def;
pub mod matmul;
pub mod promote;
pub mod reduce;
pub mod registry;
pub mod schema;
pub mod select;
mod standard;
pub mod views;

pub use registry::OpRegistry;
pub use schema::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
pub use standard::standard;
