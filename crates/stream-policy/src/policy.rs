//! The trait that a stream policy implements.

use std::fmt;
use std::sync::Arc;

use millstream_ep::{Device, EventPool, Notify, Registry, Stream};
use millstream_instructions::StreamFacts;
use millstream_types::{DeviceId, Result, StreamKey, StreamType, WorkKind, WorkSet};

/// The group of workers that may launch a stream's instructions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WorkerGroup {
    /// The host's workers. The streams of the host are spread over them.
    Host,
    /// The one worker of an accelerator.
    Device(DeviceId),
    /// The one worker that serves this stream type alone.
    Dedicated(StreamType),
}

impl fmt::Display for WorkerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerGroup::Host => f.write_str("host"),
            WorkerGroup::Device(device) => device.fmt(f),
            WorkerGroup::Dedicated(ty) => ty.fmt(f),
        }
    }
}

/// The parts of an opened stream.
pub struct StreamParts {
    /// The open device.
    pub device: Arc<dyn Device>,
    /// A new native stream on the device.
    pub stream: Box<dyn Stream>,
    /// The device's event pool. None if the device has no use for events.
    pub events: Option<Arc<EventPool>>,
}

/// The facts about the streams of one type, and the way to open one.
pub trait StreamPolicy: Send + Sync {
    /// Returns the stream type that this policy describes.
    fn stream_type(&self) -> StreamType;

    /// Returns whether this policy serves streams on `device`. Default: every device.
    fn serves(&self, device: &DeviceId) -> bool {
        let _ = device;
        true
    }

    /// Returns which memory the instructions of a stream use. Default: the device's own memory.
    ///
    /// [`Catalog`](crate::Catalog) removes additional memory that this computer lacks, and replaces
    /// missing pinned memory by host memory.
    fn facts(&self, key: &StreamKey) -> StreamFacts {
        StreamFacts::on(key.device.clone())
    }

    /// Returns the workers that launch the stream's instructions. Default: the host's workers for a
    /// device of kind `cpu`, the device's own worker for an accelerator.
    fn worker_group(&self, key: &StreamKey) -> WorkerGroup {
        if key.device.kind() == "cpu" {
            WorkerGroup::Host
        } else {
            WorkerGroup::Device(key.device.clone())
        }
    }

    /// Returns the kinds of work that these streams accept: those of a built-in type, kernels for
    /// any other, unless overridden. Lists state them, and the builder and the verifier refuse
    /// everything else.
    fn accepts(&self) -> WorkSet {
        let built_in = self.stream_type().built_in_work();
        built_in.unwrap_or(WorkSet::of(&[WorkKind::Compute]))
    }

    /// Returns whether a pool-mode stream of this type may run its instructions in any order and
    /// at the same time, as far as their operands allow.
    ///
    /// Default: true for the types that run ops of one rank; the machine applies it to streams of
    /// the host. Other pool-mode streams run in the order of emission, which a pool also allows.
    fn runs_in_any_order(&self) -> bool {
        let accepted = self.accepts();
        !accepted.is_order_only() && !accepted.contains(WorkKind::Collective)
    }

    /// Returns whether the stream's instructions run on a native stream of its device. Such a
    /// stream can wait on the device, and other streams can wait for it there. Default: false for
    /// the types that only order other streams.
    fn runs_native(&self) -> bool {
        !self.accepts().is_order_only()
    }

    /// Returns the priority of streams for which the program sets none
    /// ([`Device::create_stream_with_priority`]).
    ///
    /// Default: the highest for copies and collectives, since they are short, use little of the
    /// device, and other streams wait for them; 0 for all others.
    fn priority(&self) -> i32 {
        let accepted = self.accepts();
        match accepted.is_order_only() || accepted.contains(WorkKind::Compute) {
            true => 0,
            false => i32::MAX,
        }
    }

    /// Returns whether these streams copy from other devices, if the device supports it. Default:
    /// true for the streams that copy into a device's memory.
    fn copies_between_devices(&self) -> bool {
        self.accepts().contains(WorkKind::CopyIn)
    }

    /// Called once on each worker of a machine, before the worker opens a stream: the place to set
    /// what a library keeps for each thread, or where the thread may run. A worker serves streams
    /// of several types, so the policies of all types are called, in the order in which they were
    /// registered. Default: does nothing.
    ///
    /// The worker is the thread that calls this. A machine without threads of its own has the
    /// caller's: by program order it is one worker, of the group [`WorkerGroup::Host`]. Calls of
    /// the machine are refused here. A panic is a failure of the machine; the worker goes on, and
    /// [`StreamPolicy::on_worker_stop`] is not called there.
    fn on_worker_start(&self, group: &WorkerGroup) {
        let _ = group;
    }

    /// Called once on each worker whose start succeeded, after the worker has closed its streams,
    /// in the reverse order. Default: does nothing.
    fn on_worker_stop(&self, group: &WorkerGroup) {
        let _ = group;
    }

    /// Opens the parts of a stream with this priority. `events` returns the event pool of a device.
    /// The device calls `notify` when the stream has progressed.
    ///
    /// # Errors
    /// The device cannot be opened or refuses a stream.
    fn create(
        &self,
        key: &StreamKey,
        priority: i32,
        devices: &Registry,
        events: &dyn Fn(&Arc<dyn Device>) -> Arc<EventPool>,
        notify: Notify,
    ) -> Result<StreamParts> {
        let device = devices.device(&key.device)?;
        let stream = device.create_stream_with_priority(priority, notify)?;
        let events = device.capabilities().asynchronous.then(|| events(&device));
        Ok(StreamParts { device, stream, events })
    }
}
