//! The types that a program holds: machines, handles, calls.

pub(crate) mod batch;
pub(crate) mod handle;
pub(crate) mod machine;
pub(crate) mod prepared;

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
