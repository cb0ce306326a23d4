//! The types that a program holds: machines, their streams, tensors, events and sections, calls.

mod access;
pub(crate) mod batch;
mod completion;
pub(crate) mod counts;
mod current;
mod event;
pub(crate) mod generator;
pub(crate) mod global;
pub(crate) mod leaf;
pub mod lowering;
pub(crate) mod machine;
mod operands;
pub(crate) mod prepared;
pub(crate) mod request;
mod section;
pub(crate) mod seed;
mod stream;
pub(crate) mod tensor;
mod transfer;

pub use completion::Completion;
pub use current::with_stream;
pub(crate) use current::{has_current, innermost, innermost_on};
pub use event::Event;
pub(crate) use operands::{check_devices, stream_of};
pub use section::Section;
pub use stream::Stream;
pub use tensor::Tensor;
pub(crate) use tensor::WeakTensor;

#[cfg(test)]
mod tests {
    use crate::*;

    const fn is_send_and_sync<T: Send + Sync>() {}

    /// Any thread may use a handle, and handles may move between threads.
    #[test]
    fn handles_are_send_and_sync() {
        is_send_and_sync::<Machine>();
        is_send_and_sync::<MachineConfig>();
        is_send_and_sync::<Stream>();
        is_send_and_sync::<Tensor>();
        is_send_and_sync::<TensorHandle>();
        is_send_and_sync::<Event>();
        is_send_and_sync::<Completion>();
        is_send_and_sync::<Section>();
        is_send_and_sync::<Prepared>();
        is_send_and_sync::<Executable>();
        is_send_and_sync::<Launched>();
        is_send_and_sync::<Cancellation>();
        is_send_and_sync::<ShutdownReport>();
        is_send_and_sync::<Schedule>();
        is_send_and_sync::<Simulation>();
    }
}
