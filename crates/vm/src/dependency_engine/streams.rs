//! The streams of an engine.

use millstream_runtime::engine::push::{CLOSURES, PRIORITIZED, Target};
use millstream_types::{DeviceId, Result, StreamKey, StreamMode, StreamType};

use crate::handle::Stream;
use crate::handle::machine::Machine;

use super::prop::Prop;

const HOST: DeviceId = DeviceId::cpu(0);

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
