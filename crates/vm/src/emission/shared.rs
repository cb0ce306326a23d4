//! The state that all handles of a machine share.

use std::sync::Arc;

use crossbeam_queue::SegQueue;

use millstream_instructions::Protection;
use millstream_types::{DeviceId, StreamId};

use crate::driver::DriverKind;
use crate::driver::watchdog::Watchdog;
use crate::emission::stall::Submitters;
use crate::emission::{Emission, Release};
use crate::profile::recording::ActiveRecording;
use crate::sync::{self, AtomicBool, Mutex, OnceLock};
use crate::tables::Tables;

/// The state that all handles of a machine share.
pub(crate) struct MachineShared {
    pub(crate) tables: Arc<Tables>,
    pub(crate) emission: Mutex<Emission>,
    pub(crate) releases: SegQueue<Release>,
    /// How many pushes functions have made.
    pub(crate) nested_pushes: sync::AtomicU64,
    /// Whether there are pushes among the releases.
    pub(crate) has_queued_pushes: AtomicBool,
    /// Whether a bulk scope holds functions that were not pushed yet.
    pub(crate) has_bulk: AtomicBool,
    /// Held while an arena grows, so that memory and plan grow in the same order.
    pub(crate) growth: Mutex<()>,
    pub(crate) watermark: u64,
    pub(crate) watermark_bytes: u64,
    pub(crate) check_memory: bool,
    /// The driver that runs the instructions.
    pub(crate) driver: DriverKind,
    pub(crate) protection: Protection,
    /// How many workers the host's streams share.
    pub(crate) host_workers: usize,
    /// The device whose compute stream 0 is the default stream.
    pub(crate) default_device: DeviceId,
    /// The default stream, after its first use.
    pub(crate) default_stream: OnceLock<StreamId>,
    /// The stream of launches that name none, after the first of them.
    pub(crate) launch_stream: OnceLock<StreamId>,
    pub(crate) closed: AtomicBool,
    pub(crate) watchdog: Option<Arc<Watchdog>>,
    /// The program's threads, of which those that wait are counted.
    pub(crate) submitters: Submitters,
    /// The recording of times under way.
    pub(crate) recording: ActiveRecording,
    /// Whether shutdown has left hanging instructions behind.
    pub(crate) abandoned: AtomicBool,
}
