//! Handles of streams, tensors, events and sections.

mod access;
mod completion;
mod current;
mod event;
mod section;
mod stream;
mod tensor;
mod transfer;

pub use completion::Completion;
pub use current::with_stream;
pub(crate) use current::{has_current, innermost, innermost_on};
pub use event::Event;
pub use section::Section;
pub use stream::Stream;
pub use tensor::Tensor;
pub(crate) use tensor::WeakTensor;
