//! Gradients: tapes that note calls, and the table of derivatives.
//!
//! A [`Tape`] notes the calls of its thread that depend on a tensor
//! [with a gradient](crate::Tensor::with_grad), in order. [`Tape::backward`] goes through the notes
//! from the last to the first, and asks the table of derivatives for the calls that give the
//! gradients of each call's inputs. Those calls are ordinary ones: they run on the streams of their
//! operands, and captures see them as they see others.
//!
//! | module | holds |
//! |---|---|
//! | `tape` | tapes, and the thread's innermost one |
//! | `layer` | what tapes do with each request |
//! | `leaf` | tensors with a gradient |
//! | `notes` | the notes of a tape: the values of tensors, storages and their versions |
//! | `node` | a noted call: what it keeps, what gives its gradients |
//! | `backward` | the way from results to gradients |
//! | `buckets` | gradients of global leaves, reduced together |
//! | `checkpoint` | regions that are computed again instead of kept |
//! | `formulas` | runs the formulas of [the table](millstream_ops::derivative) |
//! | `autocast` | scopes in which calls run in 16-bit floats |
//! | `optimisers` | SGD, Adam and AdamW as functions |

pub(crate) mod autocast;
mod backward;
mod buckets;
mod checkpoint;
mod formulas;
mod layer;
mod leaf;
mod node;
mod notes;
pub mod optimisers;
mod tape;

pub use autocast::autocast;
pub use tape::{Tape, no_grad};
