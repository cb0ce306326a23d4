//! The options of a run.

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
use millstream_kernels::{Communicator, KernelRegistry, communicator, cpu};
use millstream_ops::OpRegistry;
use millstream_stream_policy::{PolicyTable, StreamPolicy};
use millstream_types::{DeviceId, Error, Result};
use millstream_vm::{
    Cancellation, DriverKind, Machine, MachineConfig, RankBarrier, Simulation, SingleRank,
};

/// The connection of a rank to the others.
pub(crate) struct Rank {
    pub(crate) barrier: Arc<dyn RankBarrier>,
    pub(crate) communicator: Arc<dyn Communicator>,
}

impl Rank {
    /// Returns the only rank of a program.
    pub(crate) fn single() -> Rank {
        Rank { barrier: Arc::new(SingleRank), communicator: Arc::new(communicator::SingleRank) }
    }
}

/// The number of simulated devices.
pub const SIM_DEVICES: u32 = 4;

/// The options of a simulated run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The seed that chooses the order of steps.
    pub seed: u64,
    /// Whether to keep the log and not only its hash.
    pub keep_log: bool,
    /// The step, counted from 1, before which [`RunOptions::cancellation`] is cancelled.
    pub cancel_at: Option<u64>,
}

/// The workers of the host's streams under [`DriverKind::Simulated`]: equal on every computer.
const SIMULATED_WORKERS: usize = 3;

/// The options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// The device of tensors and streams that name none.
    pub device: DeviceId,
    /// The driver.
    pub driver: DriverKind,
    /// The options of [`DriverKind::Simulated`].
    pub simulation: Steps,
    /// What the machine protects by itself. Less than everything is `unsafe` to ask for.
    pub protection: Protection,
    /// The earlier uses of a tensor that an instruction waits for.
    pub sync: SyncPolicy,
    /// The number of compute streams over which the ops of a program without named streams are
    /// spread, in turn.
    pub compute_streams: u32,
    /// The number of worker threads, and of threads that kernels share; `None` for the number of
    /// cores.
    pub threads: Option<usize>,
    /// How often the program runs, on one machine. Each run starts from the same tensors and has to
    /// give the same bytes.
    pub repeat: u32,
    /// Whether to record the first run's list of instructions.
    pub emit: bool,
    /// The limit of each device's memory in bytes; `None` for each device's default.
    pub memory_limit: Option<u64>,
    /// Whether free memory is filled with a pattern.
    pub check_memory: bool,
    /// How long an instruction may take before the run ends with a report of the waits; on worker
    /// threads only.
    pub watchdog: Option<Duration>,
    /// Whether a CUDA device may compute matrix products of f32 in TF32.
    pub tf32: bool,
    /// The faults to inject into the devices, from the first statement on.
    pub faults: Option<FaultPlan>,
    /// The cancellation of the program's statements, or of the launch of its list. It excludes the
    /// creation of its tensors and the reads of its outputs.
    pub cancellation: Option<Cancellation>,
    /// The ops that a program may call. Execution traces are imported with
    /// [`EtOptions::ops`](millstream_trace::EtOptions::ops), which must be equal.
    pub ops: Arc<OpRegistry>,
    /// The kernels of the ops. Those of collectives are replaced by the run's own.
    pub kernels: Arc<KernelRegistry>,
    /// Policies beside the standard ones: of stream types of a program's own, or in place of
    /// standard ones on the devices that they serve.
    pub policies: Vec<Arc<dyn StreamPolicy>>,
    /// Called after each statement of each run.
    pub progress: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Default for RunOptions {
    /// Returns the options of one run on `cpu:0`, threaded, on one compute stream, with the
    /// standard ops.
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
    /// Checks that the run's device exists. Opens nothing.
    ///
    /// # Errors
    /// There is no such device.
    pub fn probe(&self) -> Result<()> {
        self.registry(Completion::IssueOrder, None).0.probe(&self.device)
    }

    /// Returns the options of one rank. On CUDA, ranks take the devices in turn, from
    /// [`RunOptions::device`] on.
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

    /// Returns how simulated devices complete their commands under the driver.
    fn completion(&self) -> Result<Completion> {
        if self.driver != DriverKind::Simulated {
            return Ok(Completion::IssueOrder);
        }
        if self.device.kind() == "cuda" {
            let message = format!("{} completes when it will: no seed can choose", self.device);
            return Err(Error::Invalid { what: "simulation", message });
        }
        Ok(Completion::ByHand)
    }

    /// Returns the streams and devices of a run, for a check without a machine.
    pub(crate) fn policies(&self) -> Result<Arc<PolicyTable>> {
        let (devices, _) = self.registry(self.completion()?, None);
        let mut policies = PolicyTable::standard(Arc::new(devices));
        for policy in &self.policies {
            policies.register(policy.clone());
        }
        Ok(Arc::new(policies))
    }

    /// Returns a machine for one rank of a run.
    pub(crate) fn machine(&self, rank: Rank) -> Result<Machine> {
        let simulated = self.driver == DriverKind::Simulated;
        let (devices, control) = self.registry(self.completion()?, self.faults.as_ref());
        let Steps { seed, keep_log, cancel_at } = self.simulation;
        let cancel = self.cancellation.clone().zip(cancel_at);
        let (ops, kernels) = (OpRegistry::clone(&self.ops), KernelRegistry::clone(&self.kernels));
        let mut config = MachineConfig::of(ops, kernels, Arc::new(devices))
            .driver(self.driver)
            .simulation(Simulation { seed, keep_log, devices: Some(control), cancel })
            .sync(self.sync)
            .protection(self.protection)
            .memory_limits(self.memory_limits())
            .check_memory(self.check_memory)
            .watchdog(self.watchdog)
            .policies(self.policies.clone())
            .rank_barrier(rank.barrier);
        cpu::register_communicator(&mut config.kernels, &rank.communicator);
        if simulated {
            config.threads = 1;
            config.host_workers = SIMULATED_WORKERS;
        } else if let Some(threads) = self.threads {
            config.threads = threads.max(1);
            config.host_workers = threads.max(1);
        }
        Machine::new(config)
    }

    /// Runs `work` in the scope of [`RunOptions::cancellation`].
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
    /// Returns the backends that traces may name, and the control of the simulated devices. Pinned
    /// memory is registered only for runs on a device that uses it, because probing loads the
    /// driver.
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

/// Returns the backend of NVIDIA's devices, and pinned memory if the run is on one of them.
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
