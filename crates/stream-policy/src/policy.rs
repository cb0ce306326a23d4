//! The trait that a stream policy implements.

use std::sync::Arc;

use millstream_ep::{Device, EventPool, Notify, Registry, Stream};
use millstream_instructions::StreamFacts;
use millstream_types::{DeviceId, Result, StreamKey, StreamType, WorkKind, WorkSet};

/// The workers that a stream's instructions are launched by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Crew {
    /// The workers of the host's streams, over which those are spread.
    Host,
    /// The one worker of an accelerator.
    Device(DeviceId),
    /// A worker of this stream type's own.
    Own(StreamType),
}

/// What a stream is made of.
pub struct StreamParts {
    /// The open device.
    pub device: Arc<dyn Device>,
    /// A new native stream on it.
    pub stream: Box<dyn Stream>,
    /// The device's events; none if it has no use for them.
    pub events: Option<Arc<EventPool>>,
}

/// What there is to know about streams of one type, and how one is made.
pub trait StreamPolicy: Send + Sync {
    /// The type of stream that this is for.
    fn stream_type(&self) -> StreamType;

    /// Whether this serves streams on `device`. All, unless overridden.
    fn serves(&self, device: &DeviceId) -> bool {
        let _ = device;
        true
    }

    /// Which memory a stream's instructions use: the device's own, unless overridden. Memory beside
    /// that which is not there on this machine is left out, and pinned memory is the host's then.
    fn facts(&self, key: &StreamKey) -> StreamFacts {
        StreamFacts::on(key.device.clone())
    }

    /// The workers that launch the stream's instructions: those of the host for a device of kind
    /// `cpu`, the one of the accelerator otherwise, unless overridden.
    fn crew(&self, key: &StreamKey) -> Crew {
        if key.device.kind() == "cpu" { Crew::Host } else { Crew::Device(key.device.clone()) }
    }

    /// Returns the kinds of work that these streams accept: those of a built-in type, kernels for
    /// any other, unless overridden. Lists state them, and the builder and the verifier refuse
    /// everything else.
    fn accepts(&self) -> WorkSet {
        let built_in = self.stream_type().built_in_work();
        built_in.unwrap_or(WorkSet::of(&[WorkKind::Compute]))
    }

    /// Whether the instructions of a pool of this type may run in any order and at the same time, as
    /// far as their operands allow: on streams of the host, those that run ops of one rank. Other
    /// pools run in the order of emission, which is one of the orders that a pool allows.
    fn runs_in_any_order(&self) -> bool {
        let accepted = self.accepts();
        !accepted.is_order_only() && !accepted.contains(WorkKind::Collective)
    }

    /// Whether the stream's instructions run on a native stream of its device, so that it can wait
    /// and be waited for there. Streams that only order others do not.
    fn runs_native(&self) -> bool {
        !self.accepts().is_order_only()
    }

    /// Whether the stream's commands go before those of others on devices that know of that: those
    /// of copies and collectives, which are short, use little of the device, and are what others
    /// wait for.
    fn is_urgent(&self) -> bool {
        let accepted = self.accepts();
        !accepted.is_order_only() && !accepted.contains(WorkKind::Compute)
    }

    /// Whether these streams copy from other devices, where the stream's own can: those that copy
    /// into a device's memory.
    fn copies_between_devices(&self) -> bool {
        self.accepts().contains(WorkKind::CopyIn)
    }

    /// Opens what the stream needs. `events` gives the device's events, `notify` is called when
    /// the device has news of the stream.
    ///
    /// # Errors
    /// The device cannot be opened or refuses a stream.
    fn create(
        &self,
        key: &StreamKey,
        devices: &Registry,
        events: &dyn Fn(&Arc<dyn Device>) -> Arc<EventPool>,
        notify: Notify,
    ) -> Result<StreamParts> {
        let device = devices.device(&key.device)?;
        let stream = match self.is_urgent() {
            true => device.create_urgent_stream(notify)?,
            false => device.create_stream(notify)?,
        };
        let events = device.capabilities().asynchronous.then(|| events(&device));
        Ok(StreamParts { device, stream, events })
    }
}
