//! The schemas of all ops: shapes, dtypes, accesses and aliases of a call, inferred without running
//! it.
//!
//! # Contract
//! A schema depends on dtypes, layouts and arguments alone. It has no kernel, no device and no
//! state, so a whole program is checked before anything runs. The scheduler asks nothing else: the
//! access of every operand decides the waits, the outputs decide the memory.
//!
//! The operands of a call have a fixed order: the inputs as given, then the fresh outputs in the
//! order of [`Signature::outputs`]. A bounded output is followed by its count. Kernels receive the
//! same order.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`schema`] | the [`Op`] trait, calls and signatures |
//! | `patchable` | arguments that each launch of a list gives |
//! | [`registry`] | ops by name, extensible from outside |
//! | `other_names` | what ops are called here that have other names elsewhere |
//! | [`standard()`] | the registry of the standard ops |
//! | [`args`] | scalars, dimensions and optional tensors as arguments |
//! | [`checks`] | checks of tensors and arguments that several schemas share |
//! | [`broadcast`] | broadcasting of shapes |
//! | [`promotion`] | type promotion |
//! | [`layouts`] | the memory layouts of results |
//! | [`sharding`] | how calls on global tensors divide among the ranks of a mesh |
//! | [`boxing`] | from one sharding of a global tensor to another |
//! | [`composite`] | ops that stand for a short sequence of calls of other ops |
//! | [`create`] | creation: fills and ranges |
//! | [`copy`] | copies, conversions and fills |
//! | [`views`] | views: other layouts of the same storage |
//! | [`complex`] | complex numbers: their parts, views, the ops that are defined for them |
//! | [`unsigned`] | u16, u32 and u64: the ops that are defined for them |
//! | [`concat`](mod@concat) | concatenation, stacking and tiling |
//! | [`arith`] | elementwise arithmetic, maximum and minimum |
//! | [`pointwise`] | elementwise functions of one tensor |
//! | [`special`] | special functions: Bessel and gamma functions, polynomials |
//! | [`compare`] | comparisons, logic and bitwise ops |
//! | [`ternary`] | elementwise functions of several tensors: selection, clamping, fused products |
//! | [`fused`] | programs of elementwise calls as one call |
//! | [`multi_tensor`] | such programs in place, over lists of tensors |
//! | [`closure`] | functions of the program as calls |
//! | [`reduce`] | sums, products, means, variances, norms |
//! | [`extremum`] | maxima and minima, and their indices |
//! | [`scan`] | cumulative sums, products, maxima and minima |
//! | [`matmul`] | matrix products |
//! | [`linalg`] | factorizations and solutions of matrices |
//! | [`fft`] | discrete Fourier transforms |
//! | [`linear`] | matrix products with a bias |
//! | [`conv`] | convolutions and their gradients |
//! | [`pooling`] | pooling and its gradients |
//! | [`norm`] | layer and group normalisation and their gradients |
//! | [`batch_norm`] | batch normalisation and its gradient |
//! | [`softmax`] | softmax, log-softmax and their gradients |
//! | [`loss`] | elementwise losses and their gradients |
//! | [`nll`] | the negative log-likelihood and its gradient |
//! | [`embedding`] | table lookup and its gradient |
//! | [`attention`] | scaled dot-product attention and its gradient |
//! | [`dropout`] | dropout and its gradient |
//! | [`random`] | seeded random numbers |
//! | [`index`] | gather, scatter and indexing |
//! | [`masked_select`] | masked_select and nonzero, whose result lengths depend on data |
//! | [`sort`] | sorting and top-k |
//! | [`counting`] | sorted search, histograms, distinct elements |
//! | [`grid`] | samples at the points of a grid |
//! | [`segments`] | reductions of segments, fractional pooling, the loss of alignments |
//! | [`rearrange`] | flips, rolls, triangles and padding |
//! | [`formula`] | the language of composites, gradients and boxing: tensors with operators |
//! | [`derivative`] | the formulas of gradients |
//! | [`collective`] | collectives of all ranks |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod args;
pub mod arith;
pub mod attention;
pub mod batch_norm;
pub mod boxing;
pub mod broadcast;
pub mod checks;
pub mod closure;
pub mod collective;
pub mod compare;
pub mod complex;
pub mod composite;
pub mod concat;
pub mod conv;
pub mod copy;
pub mod counting;
pub mod create;
mod def;
pub mod derivative;
pub mod dropout;
mod elementwise;
pub mod embedding;
pub mod extremum;
pub mod fft;
pub mod formula;
pub mod fused;
pub mod grid;
pub mod index;
pub mod layouts;
pub mod linalg;
pub mod linear;
pub mod loss;
pub mod masked_select;
pub mod matmul;
pub mod multi_tensor;
pub mod nll;
pub mod norm;
mod other_names;
mod patchable;
pub mod pointwise;
pub mod pooling;
pub mod promotion;
pub mod random;
pub mod rearrange;
pub mod reduce;
pub mod registry;
pub mod scan;
pub mod schema;
pub mod segments;
pub mod sharding;
pub mod softmax;
pub mod sort;
pub mod special;
mod standard;
pub mod ternary;
pub mod unsigned;
pub mod views;

pub use composite::Composite;
pub use def::{Arity, Def};
pub use registry::OpRegistry;
pub use schema::{ArgDoc, CallSpec, Kind, Op, OutputSpec, Presence, Signature};
pub use standard::{families, standard};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
