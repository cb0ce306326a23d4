//! The streams of an engine, and the policies of their types.

use std::sync::Arc;

use millstream_instructions::StreamFacts;
use millstream_stream_policy::{StreamPolicy, WorkerGroup};
use millstream_types::{DeviceId, Result, StreamKey, StreamMode, StreamType};

use crate::api::handle::Stream;
use crate::api::machine::Machine;

use super::prop::Prop;
use super::push::Target;

/// Functions of the program.
const CLOSURES: StreamType = StreamType::new("closures");

/// Functions of the program that are urgent.
const PRIORITIZED: StreamType = StreamType::new("prioritized-closures");

const HOST: DeviceId = DeviceId::cpu(0);

/// The policy of a type of streams that run functions.
struct Closures(StreamType);

impl StreamPolicy for Closures {
    fn stream_type(&self) -> StreamType {
        self.0
    }

    fn serves(&self, device: &DeviceId) -> bool {
        device.is_host()
    }

    fn facts(&self, key: &StreamKey) -> StreamFacts {
        StreamFacts::on(key.device.clone()).writing(DeviceId::pinned(0))
    }

    fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
        match self.0 == PRIORITIZED {
            true => WorkerGroup::Dedicated(PRIORITIZED),
            false => WorkerGroup::Host,
        }
    }
}

/// Returns the policies of the engines' streams.
pub(crate) fn policies() -> [Arc<dyn StreamPolicy>; 2] {
    [Arc::new(Closures(CLOSURES)), Arc::new(Closures(PRIORITIZED))]
}

/// The streams of an engine.
#[derive(Clone)]
pub(super) struct EngineStreams {
    pub(super) normal: Stream,
    pub(super) prioritized: Stream,
    /// The stream that variables begin on. It runs nothing, so a variable's first use waits for
    /// nothing.
    pub(super) variables: Stream,
}

impl EngineStreams {
    pub(super) fn new(machine: &Machine, normal: Option<&Stream>) -> Result<EngineStreams> {
        let pool = |ty| {
            let key = StreamKey::new(HOST, ty, 0);
            machine.stream_with_mode(&key, StreamMode::Pool)
        };
        Ok(EngineStreams {
            normal: normal.map_or_else(|| pool(CLOSURES), |stream| Ok(stream.clone()))?,
            prioritized: pool(PRIORITIZED)?,
            variables: machine.stream(&StreamKey::new(HOST, CLOSURES, 1))?,
        })
    }

    /// Returns the stream that runs a function of this property.
    #[inline]
    pub(super) fn of(&self, prop: &Prop) -> Target {
        let copies =
            |device: &DeviceId, ty| Target::Key(Box::new(StreamKey::new(device.clone(), ty, 0)));
        match prop {
            Prop::Normal | Prop::Async => Target::Stream(self.normal.id),
            Prop::CpuPrioritized => Target::Stream(self.prioritized.id),
            Prop::CopyFromDevice(device) => copies(device, StreamType::DEVICE2HOST),
            Prop::CopyToDevice(device) => copies(device, StreamType::HOST2DEVICE),
        }
    }
}
