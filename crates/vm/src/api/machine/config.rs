//! What a machine is made of.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millstream_ep::{Registry, cpu::CpuBackend};
use millstream_instructions::{Protection, SyncPolicy};
use millstream_kernels::KernelRegistry;
use millstream_ops::OpRegistry;
use millstream_stream_policy::StreamPolicy;
use millstream_types::DeviceId;

use crate::driver::Simulation;
use crate::tables::{RankBarrier, SingleRank};

/// Who runs a machine's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverKind {
    /// Worker threads.
    #[default]
    Threaded,
    /// The caller's thread, in program order: the reference for the other.
    Inline,
    /// The caller's thread, in an order of steps that a seed chooses: what threads and devices
    /// might do, repeated exactly. For programs that submit and wait on one thread.
    Simulated,
}

/// What a machine is made of.
pub struct MachineConfig {
    /// Who runs its instructions.
    pub driver: DriverKind,
    /// The seed and devices of [`DriverKind::Simulated`]; no other driver looks at it.
    pub simulation: Simulation,
    /// Which earlier uses of a tensor an instruction waits for.
    pub sync: SyncPolicy,
    /// What the machine sees to by itself. Less than all of it is `unsafe` to ask for.
    pub protection: Protection,
    /// The device whose compute stream 0 is the default stream.
    pub default_device: DeviceId,
    /// The most workers over which the host's streams are spread.
    pub host_workers: usize,
    /// The threads that kernels share. With one, kernels run on their stream's worker.
    pub threads: usize,
    /// How many instructions may be on their way before a submitter has to wait.
    pub watermark: u64,
    /// How many bytes of tensors that were released may still be in use by instructions on their
    /// way, before a submitter has to wait.
    pub watermark_bytes: u64,
    /// Memory limits in bytes, by device; others have their own default.
    pub memory_limits: HashMap<DeviceId, u64>,
    /// Whether memory that nobody has is filled with a pattern, and whether shutting down names the
    /// tensors that were never released. The ops have to include `scrub`, which does the filling.
    pub check_memory: bool,
    /// How long an instruction may take before all who wait for it, or for what comes after it, get
    /// [`Error::Overdue`](millstream_types::Error::Overdue). Worker threads are watched; the other
    /// drivers run everything on the thread that waits.
    pub watchdog: Option<Duration>,
    /// The ops.
    pub ops: OpRegistry,
    /// Their kernels.
    pub kernels: KernelRegistry,
    /// The backends.
    pub devices: Arc<Registry>,
    /// Policies beside the standard ones; the last of a type comes first.
    pub policies: Vec<Arc<dyn StreamPolicy>>,
    /// Whether recorded lists say why each wait is there, or is not.
    pub annotations: bool,
    /// Where the program's ranks meet.
    pub rank_barrier: Arc<dyn RankBarrier>,
}

/// How many threads can run at once. Asked once: the system reads files to answer.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Default for MachineConfig {
    /// The standard ops on `cpu:0`, by worker threads.
    fn default() -> MachineConfig {
        let devices = Arc::new(Registry::new());
        devices.register(Arc::new(CpuBackend::new()));
        MachineConfig::of(millstream_ops::standard(), millstream_kernels::standard(), devices)
    }
}

impl MachineConfig {
    /// These ops on these devices, and everything else as by default.
    pub fn of(ops: OpRegistry, kernels: KernelRegistry, devices: Arc<Registry>) -> MachineConfig {
        let cores = cores();
        MachineConfig {
            driver: DriverKind::default(),
            simulation: Simulation::default(),
            sync: SyncPolicy::default(),
            protection: Protection::default(),
            default_device: DeviceId::cpu(0),
            host_workers: cores,
            threads: cores,
            watermark: 1 << 20,
            watermark_bytes: 1 << 30,
            memory_limits: HashMap::new(),
            check_memory: false,
            watchdog: None,
            ops,
            kernels,
            devices,
            policies: Vec::new(),
            annotations: true,
            rank_barrier: Arc::new(SingleRank),
        }
    }
}

impl fmt::Debug for MachineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineConfig")
            .field("driver", &self.driver)
            .field("sync", &self.sync)
            .field("protection", &self.protection)
            .field("default_device", &self.default_device)
            .field("host_workers", &self.host_workers)
            .field("threads", &self.threads)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}
