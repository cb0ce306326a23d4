//! The policies of the built-in stream types.

use std::sync::Arc;

use millstream_instructions::StreamFacts;
use millstream_types::{DeviceId, StreamKey, StreamType};

use crate::policy::{StreamPolicy, WorkerGroup};

const HOST: DeviceId = DeviceId::cpu(0);

const PINNED: DeviceId = DeviceId::pinned(0);

/// Kernels on a device's own memory. The host's kernels also work on pinned memory.
#[derive(Clone, Copy, Debug)]
pub struct Compute;

impl StreamPolicy for Compute {
    fn stream_type(&self) -> StreamType {
        StreamType::COMPUTE
    }

    fn facts(&self, key: &StreamKey) -> StreamFacts {
        let facts = StreamFacts::on(key.device.clone());
        if key.device.is_host() { facts.writing(PINNED) } else { facts }
    }
}

/// Copies from host memory, and from other devices where that is possible. They overlap with the
/// device's kernels.
#[derive(Clone, Copy, Debug)]
pub struct Host2Device;

impl StreamPolicy for Host2Device {
    fn stream_type(&self) -> StreamType {
        StreamType::HOST2DEVICE
    }

    fn facts(&self, key: &StreamKey) -> StreamFacts {
        StreamFacts::on(key.device.clone()).reading(HOST).reading(PINNED)
    }
}

/// Copies to host memory. They overlap with the device's kernels.
#[derive(Clone, Copy, Debug)]
pub struct Device2Host;

impl StreamPolicy for Device2Host {
    fn stream_type(&self) -> StreamType {
        StreamType::DEVICE2HOST
    }

    fn facts(&self, key: &StreamKey) -> StreamFacts {
        StreamFacts::on(HOST).reading(key.device.clone()).writing(PINNED)
    }
}

/// Collectives between ranks, on a device's own memory.
#[derive(Clone, Copy, Debug)]
pub struct Ccl;

impl StreamPolicy for Ccl {
    fn stream_type(&self) -> StreamType {
        StreamType::CCL
    }
}

/// Kernels of a device that write their results to pinned host memory.
#[derive(Clone, Copy, Debug)]
pub struct PinnedCompute;

impl StreamPolicy for PinnedCompute {
    fn stream_type(&self) -> StreamType {
        StreamType::PINNED_COMPUTE
    }

    fn facts(&self, key: &StreamKey) -> StreamFacts {
        StreamFacts::on(PINNED).reading(key.device.clone()).writing(HOST)
    }
}

/// Barriers. They belong to the host's workers: a barrier waits long and must not delay the
/// launches of an accelerator's worker.
#[derive(Clone, Copy, Debug)]
pub struct Barrier;

impl StreamPolicy for Barrier {
    fn stream_type(&self) -> StreamType {
        StreamType::BARRIER
    }

    fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
        WorkerGroup::Host
    }
}

/// Critical sections, on a dedicated worker.
#[derive(Clone, Copy, Debug)]
pub struct CriticalSection;

impl StreamPolicy for CriticalSection {
    fn stream_type(&self) -> StreamType {
        StreamType::CRITICAL_SECTION
    }

    fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
        WorkerGroup::Dedicated(StreamType::CRITICAL_SECTION)
    }
}

/// Launches of executables, on the host's workers: the worker of the launch also runs its first
/// tape, so that a launch needs no other thread.
#[derive(Clone, Copy, Debug)]
pub struct LazyJobLauncher;

impl StreamPolicy for LazyJobLauncher {
    fn stream_type(&self) -> StreamType {
        StreamType::LAZY_JOB_LAUNCHER
    }

    fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
        WorkerGroup::Host
    }
}

/// Returns the policies of all stream types.
pub fn all() -> Vec<Arc<dyn StreamPolicy>> {
    vec![
        Arc::new(Compute),
        Arc::new(Host2Device),
        Arc::new(Device2Host),
        Arc::new(Ccl),
        Arc::new(Barrier),
        Arc::new(CriticalSection),
        Arc::new(LazyJobLauncher),
        Arc::new(PinnedCompute),
    ]
}
