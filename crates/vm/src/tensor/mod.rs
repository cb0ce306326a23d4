//! The typed front of tensors: how programs make, read and compute with them.
//!
//! The methods add nothing to what a machine can do. Each makes the call that its name stands for
//! by [`Machine::call`](crate::Machine::call), so captures, batches and lists see no difference.
//! The methods of the ops are generated from their schemas.
//!
//! | module | holds |
//! |---|---|
//! | `arguments` | numbers, dimensions and shapes as arguments |
//! | `place` | where new tensors are made |
//! | `make` | new tensors |
//! | `read` | shapes and elements |
//! | `files` | safetensors files (feature `safetensors`) |
//! | `arrays` | arrays of the `ndarray` crate (feature `ndarray`) |
//! | `dlpack` | tensors for other libraries and from them, by DLPack |
//! | `global` | tensors that the ranks of a mesh hold together |
//! | `bounded` | results whose number of rows is not known yet |
//! | `show` | `Display` and `Debug` |
//! | `select` | indexing |
//! | `operators` | `+`, `-`, `*`, `/` |
//! | `layers` | methods made of several ops, or of one with fewer arguments |
//! | `call` | the calls: their streams, and the check of their devices |
//! | `methods` | generated: a method for each op, and the options of ops |

mod arguments;
#[cfg(feature = "ndarray")]
mod arrays;
mod bounded;
mod call;
mod dlpack;
#[cfg(feature = "safetensors")]
mod files;
mod global;
mod layers;
mod make;
mod methods;
mod number;
mod operators;
mod place;
mod read;
mod select;
mod show;

pub(crate) use crate::handle::seed::Seed;
pub(crate) use call::{all as call_op, one as call_one};
pub(crate) use make::create;

pub use bounded::Bounded;
pub use dlpack::DlPack;

pub use arguments::{Dims, Int, Ints, OneDim, Operand, Real};
pub use number::Number;
pub use place::Place;
pub use select::{Index, Indices, NEW, REST};

/// Options of the methods of tensors. Each is a type with a default and a method for each option,
/// as in `Conv2d::default().padding(1)`.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0], (1, 2), &machine)?;
/// let y = x.sum_with(1, options::Sum::default().keepdim(true))?;
/// assert_eq!(y.shape(), [1, 1]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub mod options {
    pub use super::layers::GroupNorm;
    pub use super::methods::*;
}
