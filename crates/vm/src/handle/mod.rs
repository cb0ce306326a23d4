//! Streams, tensors, events and sections, as users hold them.

mod completion;
mod event;
mod section;
mod stream;
mod tensor;

pub use completion::Completion;
pub use event::Event;
pub use section::Section;
pub use stream::Stream;
pub use tensor::Tensor;
