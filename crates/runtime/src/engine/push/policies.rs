//! The policies of the streams that run functions.

use std::sync::Arc;

use millstream_instructions::StreamFacts;
use millstream_stream_policy::{StreamPolicy, WorkerGroup};
use millstream_types::{DeviceId, StreamKey, StreamType};

/// Functions of the program.
pub const CLOSURES: StreamType = StreamType::new("closures");

/// Functions of the program that are urgent.
pub const PRIORITIZED: StreamType = StreamType::new("prioritized-closures");

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
pub fn policies() -> [Arc<dyn StreamPolicy>; 2] {
    [Arc::new(Closures(CLOSURES)), Arc::new(Closures(PRIORITIZED))]
}
