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
//! | [`expect`] | what several schemas expect of tensors and arguments |
//! | [`standard()`] | the registry of the standard ops |
//! | [`layouts`] | how the results of elementwise ops lie in memory |
//! | [`create`] | tensors from nothing: fills and ranges |
//! | [`copy`] | copy, clone, cast, copy_, fill |
//! | [`views`] | other layouts on the same storage |
//! | [`join`] | tensors put together |
//! | [`arith`] | sums, products, quotients, powers; the greater and the lesser |
//! | [`pointwise`] | elementwise functions of one tensor |
//! | [`compare`] | comparisons, and logic on truth values and bits |
//! | [`blend`] | elementwise functions of several tensors: choices, clamps, interpolation, fused products |
//! | [`reduce`] | sums, products, means, variances, norms |
//! | [`extremum`] | greatest and least elements, and where they are |
//! | [`scan`] | running sums |
//! | [`matmul`] | matmul |
//! | [`linear`] | matrix products with a bias |
//! | [`conv`] | convolutions and their gradients |
//! | [`pool`] | pooling and its gradient |
//! | [`norm`] | normalisation of layers and groups, and its gradient |
//! | [`batch_norm`] | normalisation over a batch, and its gradient |
//! | [`softmax`] | softmax, its logarithm, and their gradients |
//! | [`loss`] | losses element by element, and their gradients |
//! | [`nll`] | the likelihood of classes, and its gradient |
//! | [`embed`] | rows of a table by number, and the gradient of that |
//! | [`attention`] | scaled dot-product attention and its gradient |
//! | [`random`] | what is left of random ops where nothing is random |
//! | [`index`] | elements picked and placed by index |
//! | [`select`] | masked_select, nonzero |
//! | [`order`] | sorting |
//! | [`shift`] | elements in another place: flips, rolls, triangles |
//! | [`collective`] | operations of all ranks |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod args;
pub mod arith;
pub mod attention;
pub mod batch_norm;
pub mod blend;
pub mod broadcast;
pub mod collective;
pub mod compare;
pub mod conv;
pub mod copy;
pub mod create;
mod def;
mod elementwise;
pub mod embed;
pub mod expect;
pub mod extremum;
pub mod index;
pub mod join;
pub mod layouts;
pub mod linear;
pub mod loss;
pub mod matmul;
pub mod nll;
pub mod norm;
pub mod order;
pub mod pointwise;
pub mod pool;
pub mod promote;
pub mod random;
pub mod reduce;
pub mod registry;
pub mod scan;
pub mod schema;
pub mod select;
pub mod shift;
pub mod softmax;
mod standard;
pub mod views;

pub use registry::OpRegistry;
pub use schema::{ArgDoc, CallSpec, Op, OutputSpec, Signature};
pub use standard::{families, standard};
