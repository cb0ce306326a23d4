//! The options of a new stream.

/// What a new stream may have: a priority, or a worker of the program's choice.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::DeviceId;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let options = StreamOptions::default().priority(1);
/// let urgent = machine.create_stream_with(&DeviceId::cpu(0), options)?;
/// let x = Tensor::from_slice(&[1.0f32], 1, &urgent)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct StreamOptions {
    pub priority: Option<i32>,
    pub worker: Option<usize>,
}

impl StreamOptions {
    /// Sets the priority; the default is 0. On a device with priorities, such as CUDA's, where
    /// commands of several streams could start, those of the highest do first. The host's streams
    /// with a priority above 0 share a worker that runs no other stream. Priorities change neither
    /// results nor lists.
    pub const fn priority(self, priority: i32) -> StreamOptions {
        StreamOptions { priority: Some(priority), ..self }
    }

    /// Sets the host's worker that runs the stream, by number from 0: streams of one worker run one
    /// instruction at a time. It prevails over the worker of a priority. By default the workers
    /// take turns.
    pub const fn worker(self, worker: usize) -> StreamOptions {
        StreamOptions { worker: Some(worker), ..self }
    }
}
