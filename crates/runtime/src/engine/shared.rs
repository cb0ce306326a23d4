//! The state that all handles of a machine share.

use std::sync::Arc;

use crossbeam_queue::SegQueue;

use millstream_instructions::Protection;
use millstream_types::{DeviceId, StreamId};

use crate::driver::DriverKind;
use crate::driver::watchdog::Watchdog;
use crate::engine::stall::Submitters;
use crate::engine::{Engine, Release};
use crate::profile::recording::ActiveRecording;
use crate::sync::{self, AtomicBool, Mutex, OnceLock};
use crate::tables::Tables;
use crate::tapes::cache::ProgramCache;

/// The state that all handles of a machine share.
pub struct MachineShared {
    pub tables: Arc<Tables>,
    pub engine: Mutex<Engine>,
    pub releases: SegQueue<Release>,
    /// How many pushes functions have made.
    pub nested_pushes: sync::AtomicU64,
    /// Whether there are pushes among the releases.
    pub has_queued_pushes: AtomicBool,
    /// Whether a bulk scope holds functions that were not pushed yet.
    pub has_bulk: AtomicBool,
    /// Held while an arena grows, so that memory and plan grow in the same order.
    pub growth: Mutex<()>,
    pub watermark: u64,
    pub watermark_bytes: u64,
    pub check_memory: bool,
    /// The driver that runs the instructions.
    pub driver: DriverKind,
    pub protection: Protection,
    /// How many workers the host's streams share.
    pub host_workers: usize,
    /// The device whose compute stream 0 is the default stream.
    pub default_device: DeviceId,
    /// The default stream, after its first use.
    pub default_stream: OnceLock<StreamId>,
    /// The stream of launches that name none, after the first of them.
    pub launch_stream: OnceLock<StreamId>,
    pub closed: AtomicBool,
    pub watchdog: Option<Arc<Watchdog>>,
    /// The program's threads, of which those that wait are counted.
    pub submitters: Submitters,
    /// The recording of times under way.
    pub recording: ActiveRecording,
    /// Whether shutdown has left hanging instructions behind.
    pub abandoned: AtomicBool,
    /// The lists that were compiled last.
    pub programs: Mutex<ProgramCache>,
}
