//! On what a trace runs, and how.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_ep::cpu::CpuBackend;
#[cfg(feature = "cuda")]
use millstream_ep::cuda::{CudaBackend, CudaConfig};
use millstream_ep::faults::{FaultPlan, FaultyBackend};
use millstream_ep::sim::{Completion, SimBackend, SimConfig, SimControl};
use millstream_ep::{Backend, Registry};
use millstream_instructions::{Protection, SyncPolicy};
use millstream_kernels::group::Single;
use millstream_kernels::{Group, KernelRegistry, cpu};
use millstream_ops::OpRegistry;
use millstream_stream_policy::StreamPolicy;
use millstream_types::{DeviceId, Error, Result};
use millstream_vm::{
    Alone, Cancellation, DriverKind, Machine, MachineConfig, Rendezvous, Simulation,
};

/// How a rank of a program reaches the others.
pub(crate) struct Rank {
    pub(crate) meets: Arc<dyn Rendezvous>,
    pub(crate) group: Arc<dyn Group>,
}

impl Rank {
    /// The only rank of a program.
    pub(crate) fn alone() -> Rank {
        Rank { meets: Arc::new(Alone), group: Arc::new(Single) }
    }
}

/// How many simulated devices there are.
pub const SIM_DEVICES: u32 = 4;

/// How a simulated run chooses, and what it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Chooses the order of steps.
    pub seed: u64,
    /// Whether the log is wanted, and not only its hash.
    pub keep_log: bool,
    /// Before which step, counted from 1, [`RunOptions::cancellation`] is cancelled, if it is.
    pub cancel_at: Option<u64>,
}

/// The workers of the host's streams under [`DriverKind::Simulated`]: as many on every computer.
const SIMULATED_WORKERS: usize = 3;

/// On what a trace runs, and how.
#[derive(Clone)]
pub struct RunOptions {
    /// The device of tensors and streams that name none.
    pub device: DeviceId,
    /// Who runs the instructions.
    pub driver: DriverKind,
    /// What chooses the order of steps under [`DriverKind::Simulated`].
    pub simulation: Steps,
    /// What the machine sees to by itself. Less than all of it is `unsafe` to ask for.
    pub protection: Protection,
    /// Which earlier uses of a tensor an instruction waits for.
    pub sync: SyncPolicy,
    /// Over how many compute streams the ops of a program that names no streams are spread, in
    /// turns.
    pub compute_streams: u32,
    /// Worker threads, and threads that kernels share; as many as there are cores unless given.
    pub threads: Option<usize>,
    /// How often the program runs, on one machine. Each run starts from the same tensors and has
    /// to give the same bytes.
    pub repeat: u32,
    /// Whether the first run's list of instructions is wanted.
    pub emit: bool,
    /// The most bytes of each device's memory; each device's own default unless given.
    pub memory_limit: Option<u64>,
    /// Whether memory that nobody has is filled with a pattern.
    pub check_memory: bool,
    /// How long an instruction may take before the run ends with a report of what waits for what;
    /// on worker threads only.
    pub watchdog: Option<Duration>,
    /// Whether a CUDA device may compute matrix products of f32 in TF32.
    pub tf32: bool,
    /// What is to fail on the devices, from the first statement on.
    pub faults: Option<FaultPlan>,
    /// What the program's statements belong to, or the launch of its list. Its tensors are made, and
    /// its outputs read, outside.
    pub cancellation: Option<Cancellation>,
    /// The ops that a program may call. An execution trace is imported with ops of its own,
    /// [`EtOptions::ops`](millstream_trace::EtOptions::ops), which have to be the same.
    pub ops: Arc<OpRegistry>,
    /// Their kernels. Those of the operations of all ranks are the run's own.
    pub kernels: Arc<KernelRegistry>,
    /// Policies beside the standard ones: of stream types of a program's own, or in place of
    /// standard ones on the devices that they serve.
    pub policies: Vec<Arc<dyn StreamPolicy>>,
    /// Called after each statement of each run.
    pub progress: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Default for RunOptions {
    /// Once, on `cpu:0`, threaded, one compute stream, the standard ops.
    fn default() -> RunOptions {
        RunOptions {
            device: DeviceId::cpu(0),
            driver: DriverKind::default(),
            simulation: Steps::default(),
            protection: Protection::default(),
            sync: SyncPolicy::default(),
            compute_streams: 1,
            threads: None,
            repeat: 1,
            emit: false,
            memory_limit: None,
            check_memory: false,
            watchdog: None,
            tf32: false,
            faults: None,
            cancellation: None,
            ops: Arc::new(millstream_ops::standard()),
            kernels: Arc::new(millstream_kernels::standard()),
            policies: Vec::new(),
            progress: None,
        }
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("device", &self.device)
            .field("driver", &self.driver)
            .field("simulation", &self.simulation)
            .field("protection", &self.protection)
            .field("sync", &self.sync)
            .field("compute_streams", &self.compute_streams)
            .field("threads", &self.threads)
            .field("repeat", &self.repeat)
            .field("emit", &self.emit)
            .field("memory_limit", &self.memory_limit)
            .finish_non_exhaustive()
    }
}

impl RunOptions {
    /// Checks that the run's device is there. Opens nothing.
    ///
    /// # Errors
    /// There is no such device.
    pub fn probe(&self) -> Result<()> {
        self.registry(Completion::IssueOrder, None).0.probe(&self.device)
    }

    /// The options of one rank: on CUDA, those of the next device for each, beginning with
    /// [`RunOptions::device`] and again with the first one where there are no more.
    pub(crate) fn of_rank(&self, rank: u32) -> RunOptions {
        let mut options = self.clone();
        if self.device.kind() == "cuda" {
            let devices = self.registry(Completion::IssueOrder, None).0;
            let is_there = |index: &u32| devices.probe(&DeviceId::cuda(*index)).is_ok();
            let count = (0..).take_while(is_there).count().max(1) as u32;
            options.device = DeviceId::cuda((self.device.index() + rank) % count);
        }
        options
    }

    /// A machine for one rank of a run.
    pub(crate) fn machine(&self, rank: Rank) -> Result<Machine> {
        let simulated = self.driver == DriverKind::Simulated;
        let completion = if simulated { Completion::ByHand } else { Completion::IssueOrder };
        if simulated && self.device.kind() == "cuda" {
            let message = format!("{} completes when it will: no seed can choose", self.device);
            return Err(Error::Invalid { what: "simulation", message });
        }
        let (devices, control) = self.registry(completion, self.faults.as_ref());
        let Steps { seed, keep_log, cancel_at } = self.simulation;
        let cancel = self.cancellation.clone().zip(cancel_at);
        let (ops, kernels) = (OpRegistry::clone(&self.ops), KernelRegistry::clone(&self.kernels));
        let mut config = MachineConfig {
            driver: self.driver,
            simulation: Simulation { seed, keep_log, devices: Some(control), cancel },
            sync: self.sync,
            protection: self.protection,
            memory_limits: self.memory_limits(),
            check_memory: self.check_memory,
            watchdog: self.watchdog,
            ranks: rank.meets,
            policies: self.policies.clone(),
            ..MachineConfig::of(ops, kernels, Arc::new(devices))
        };
        cpu::register_group(&mut config.kernels, &rank.group);
        if simulated {
            config.threads = 1;
            config.host_workers = SIMULATED_WORKERS;
        } else if let Some(threads) = self.threads {
            config.threads = threads.max(1);
            config.host_workers = threads.max(1);
        }
        Machine::new(config)
    }

    /// Runs what [`RunOptions::cancellation`] is to hold.
    pub(crate) fn cancellable<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.cancellation {
            Some(cancellation) => cancellation.scope(work),
            None => work(),
        }
    }

    fn memory_limits(&self) -> HashMap<DeviceId, u64> {
        let Some(limit) = self.memory_limit else { return HashMap::new() };
        let others = [DeviceId::cpu(0), self.device.clone()];
        let devices = (0..SIM_DEVICES).map(DeviceId::sim).chain(others);
        devices.map(|device| (device, limit)).collect()
    }
}

impl RunOptions {
    /// The backends that traces may name, and the hand on the simulated devices among them. Pinned
    /// memory is there for runs on a device that copies from it: to look for it is to look for a driver.
    fn registry(
        &self,
        completion: Completion,
        faults: Option<&FaultPlan>,
    ) -> (Registry, SimControl) {
        let devices = Registry::new();
        let sim = SimConfig { devices: SIM_DEVICES, completion, ..SimConfig::default() };
        let sim = SimBackend::new(sim);
        let control = sim.control();
        let host: [Arc<dyn Backend>; 2] = [Arc::new(CpuBackend::new()), Arc::new(sim)];
        for backend in host.into_iter().chain(of_cuda(self)) {
            devices.register(match faults {
                Some(plan) => Arc::new(FaultyBackend::new(backend, plan.clone())),
                None => backend,
            });
        }
        (devices, control)
    }
}

/// NVIDIA's devices, and pinned memory if the run is on one of them.
#[cfg(feature = "cuda")]
fn of_cuda(options: &RunOptions) -> Vec<Arc<dyn Backend>> {
    let cuda = CudaBackend::new(CudaConfig { tf32: options.tf32, ..CudaConfig::default() });
    let pinned = (options.device.kind() == cuda.kind()).then(|| Arc::new(cuda.pinned()) as _);
    pinned.into_iter().chain([Arc::new(cuda) as _]).collect()
}

#[cfg(not(feature = "cuda"))]
fn of_cuda(_: &RunOptions) -> Vec<Arc<dyn Backend>> {
    Vec::new()
}
