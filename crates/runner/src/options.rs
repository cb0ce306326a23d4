//! The options of a run.
//!
//! Long because each option is a field with a description, and has a setter.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millstream_comm::LocalGroup;
use millstream_ep::cpu::CpuBackend;
#[cfg(feature = "cuda")]
use millstream_ep::cuda::{CudaBackend, CudaConfig};
use millstream_ep::faults::{FaultPlan, FaultyBackend};
use millstream_ep::sim::{Completion, SimBackend, SimConfig, SimControl};
use millstream_ep::{Backend, Registry};
use millstream_instructions::passes::{Effort, Pass};
use millstream_types::{DeviceId, Error, Result};
use millstream_vm::{
    Cancellation, DriverKind, Machine, MachineConfig, Recorded, Simulation, USUAL_PASSES,
};

use crate::ranks;

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

/// How the collectives of several ranks are compared before their data moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectiveChecks {
    /// Those of the whole programs before any runs, then each call.
    #[default]
    Programs,
    /// Each call.
    Calls,
    /// Not at all. Of calls that differ, the data decides what happens.
    None,
}

/// How the calls of a program that names no streams are spread over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assigner {
    /// By the graph of the calls, estimates of their times, and the cost of a wait: over fewer
    /// streams, or one, where more save little. The calls of executables are spread by the pass
    /// [`assign`](millstream_instructions::passes).
    #[default]
    Auto,
    /// In turn, whatever the calls are.
    RoundRobin,
}

/// The workers of the host's streams under [`DriverKind::Simulated`]: equal on every computer.
const SIMULATED_WORKERS: usize = 3;

/// The options of a run. Each field has a method of its name that sets it:
///
/// ```
/// use millstream_runner::RunOptions;
/// use millstream_types::DeviceId;
/// use millstream_vm::DriverKind;
///
/// let options = RunOptions::default()
///     .device(DeviceId::sim(0))
///     .compute_streams(4)
///     .machine(|config| config.driver(DriverKind::Inline));
/// assert_eq!(options.compute_streams, 4);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// The configuration of the run's machines: driver, ops, kernels, policies and the rest. The
    /// run sets what follows from its other options: the devices, the simulation, the limits of
    /// memory; a run of several ranks in one process also the communicator. Execution traces are
    /// imported with [`EtOptions::ops`](millstream_trace::EtOptions::ops), which must be equal to
    /// the ops here.
    pub machine: MachineConfig,
    /// Whether a program of one rank whose calls all run on one compute stream of the host has the
    /// inline driver, whatever [`RunOptions::machine`] says: with nothing to run side by side, a
    /// worker only adds the hand-over of each call.
    pub inline_if_serial: bool,
    /// The device of tensors and streams that name none.
    pub device: DeviceId,
    /// The options of [`DriverKind::Simulated`].
    pub simulation: Steps,
    /// The number of compute streams over which the ops of a program without named streams are
    /// spread.
    pub compute_streams: u32,
    /// How they are spread.
    pub assigner: Assigner,
    /// The number of cores for which [`Assigner::Auto`] chooses; none for the number of the
    /// machine's workers of host streams. A simulation has none, and sets it.
    pub expected_cores: Option<u32>,
    /// How often the program runs, on one machine. Each run starts from the same tensors and has to
    /// give the same bytes.
    pub repeat: u32,
    /// Whether the program is compiled to an executable once, and launched by each run. Its reads
    /// and synchronizations are left out, since a launch has no host in it.
    pub replay: bool,
    /// Whether executables on CUDA devices are launched as graphs.
    pub graphs: bool,
    /// The passes that the lists of executables go through; none for those of
    /// [`RunOptions::passes_of_executables`].
    pub passes: Option<Vec<Pass>>,
    /// How long the pass `memory` may search for offsets.
    pub plan_effort: Effort,
    /// The most private memory of each executable on a device, in bytes: tensors are computed again
    /// where they do not fit.
    pub remat: Vec<(DeviceId, u64)>,
    /// The pass of a replayed program after which its list is the report's; none for the list of
    /// the run, which holds the launch.
    pub emit_after: Option<Pass>,
    /// Whether to record the first run's list of instructions.
    pub emit: bool,
    /// Whether to record the times of the last run, with its list.
    pub profile: bool,
    /// The limit of each device's memory in bytes; `None` for each device's default.
    pub memory_limit: Option<u64>,
    /// Whether a CUDA device may compute matrix products of f32 in TF32.
    pub tf32: bool,
    /// Whether the collectives of tensors on CUDA devices run there, by NCCL. They run on the host
    /// otherwise, on copies. All ranks have the same.
    pub nccl: bool,
    /// How the collectives of several ranks are compared. All ranks have the same.
    pub collective_checks: CollectiveChecks,
    /// The faults to inject into the devices, from the first statement on.
    pub faults: Option<FaultPlan>,
    /// The cancellation of the program's statements, or of the launch of its list. It excludes the
    /// creation of its tensors and the reads of its outputs.
    pub cancellation: Option<Cancellation>,
    /// Called after each statement of each run.
    pub progress: Option<Progress>,
}

/// A function that a run calls after each statement.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn() + Send + Sync>);

impl Progress {
    /// Returns the function as an option of a run.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Progress {
        Progress(Arc::new(call))
    }

    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

impl Default for RunOptions {
    /// Returns the options of one run on `cpu:0`, threaded, on one compute stream, with the
    /// standard ops.
    fn default() -> RunOptions {
        RunOptions {
            machine: MachineConfig::default(),
            inline_if_serial: false,
            device: DeviceId::cpu(0),
            simulation: Steps::default(),
            compute_streams: 1,
            assigner: Assigner::default(),
            expected_cores: None,
            repeat: 1,
            replay: false,
            graphs: true,
            passes: None,
            plan_effort: Effort::Usual,
            remat: Vec::new(),
            emit_after: None,
            emit: false,
            profile: false,
            memory_limit: None,
            tf32: false,
            nccl: false,
            collective_checks: CollectiveChecks::default(),
            faults: None,
            cancellation: None,
            progress: None,
        }
    }
}

impl RunOptions {
    /// Changes [`RunOptions::machine`].
    #[must_use]
    pub fn machine(mut self, set: impl FnOnce(MachineConfig) -> MachineConfig) -> RunOptions {
        self.machine = set(self.machine);
        self
    }

    /// Sets the number of worker threads, and of threads that kernels share; at least one.
    #[must_use]
    pub fn threads(self, threads: usize) -> RunOptions {
        let threads = threads.max(1);
        self.machine(|config| config.threads(threads).host_workers(threads))
    }

    /// Spreads ops over so many compute streams in turn: as tests do, which want waits.
    #[must_use]
    pub const fn in_turn(mut self, compute_streams: u32) -> RunOptions {
        self.compute_streams = compute_streams;
        self.assigner = Assigner::RoundRobin;
        self
    }

    /// Returns the number of host streams that can run side by side: no more than cores.
    pub(crate) fn cores(&self) -> usize {
        let cores = self.expected_cores.map_or(self.machine.host_workers, |cores| cores as usize);
        cores.min(self.compute_streams as usize).max(1)
    }

    /// Sets [`RunOptions::passes`].
    #[must_use]
    pub fn passes(mut self, passes: &[Pass]) -> RunOptions {
        self.passes = Some(passes.to_vec());
        self
    }

    /// Returns a list whose passes are as the options say: with as many streams to spread calls
    /// over, as long a search for offsets, and the budgets; those of `own` come first.
    pub(crate) fn planned(&self, recorded: Recorded, own: &[(DeviceId, u64)]) -> Recorded {
        let budgets = self.remat.iter().chain(own).cloned();
        let recorded = recorded.plan_effort(self.plan_effort).remat(budgets);
        match self.compute_streams {
            0 | 1 => recorded,
            _ => recorded.streams(self.cores()),
        }
    }

    /// Returns the passes of executables: those that are set, or the usual ones with `assign` where
    /// calls are spread over several streams.
    pub fn passes_of_executables(&self) -> &[Pass] {
        let spreads = self.compute_streams > 1 && self.assigner == Assigner::Auto;
        match &self.passes {
            Some(passes) => passes,
            None if spreads => &Pass::ALL,
            None => USUAL_PASSES,
        }
    }

    /// Sets [`RunOptions::remat`].
    #[must_use]
    pub fn remat(mut self, budgets: impl IntoIterator<Item = (DeviceId, u64)>) -> RunOptions {
        self.remat = budgets.into_iter().collect();
        self
    }
}

millstream_types::setters! {
    RunOptions:
    inline_if_serial: bool,
    device: DeviceId,
    simulation: Steps,
    compute_streams: u32,
    assigner: Assigner,
    repeat: u32,
    graphs: bool,
    replay: bool,
    plan_effort: Effort,
    emit_after: Option<Pass>,
    profile: bool,
    emit: bool,
    memory_limit: Option<u64>,
    tf32: bool,
    nccl: bool,
    collective_checks: CollectiveChecks,
    expected_cores = Some: u32,
    faults = Some: FaultPlan,
    cancellation = Some: Cancellation,
    progress = Some: Progress,
}

impl RunOptions {
    /// Checks that the run's device exists, and NCCL if it is asked for. Opens nothing.
    ///
    /// # Errors
    /// There is no such device, or no NCCL for it.
    pub fn probe(&self) -> Result<()> {
        self.registry(Completion::IssueOrder, None).0.probe(&self.device)?;
        ranks::check_nccl(self)
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

    /// Returns the options to check what one of so many ranks runs, without the other ranks.
    ///
    /// ```
    /// # use millstream_runner::RunOptions;
    /// let options = RunOptions::default().checked_on_rank(1, 4);
    /// assert_eq!(options.machine.communicator.ranks(), 4);
    /// ```
    #[must_use]
    pub fn checked_on_rank(&self, rank: usize, ranks: usize) -> RunOptions {
        // The communicator of a program of one rank stays.
        let all = if ranks > 1 { LocalGroup::communicators(ranks) } else { Vec::new() };
        match all.into_iter().nth(rank) {
            Some(own) => self.clone().machine(|config| config.communicator(Arc::new(own))),
            None => self.clone(),
        }
    }

    /// Returns how simulated devices complete their commands under the driver.
    fn completion(&self) -> Result<Completion> {
        if self.machine.driver != DriverKind::Simulated {
            return Ok(Completion::IssueOrder);
        }
        if !["cpu", "sim"].contains(&self.device.kind()) {
            let message = format!("{} completes when it will: no seed can choose", self.device);
            return Err(Error::Invalid { what: "simulation", message });
        }
        Ok(Completion::ByHand)
    }

    /// Returns a machine that checks what a run would do.
    pub(crate) fn checking(&self) -> Result<Machine> {
        let (devices, _) = self.registry(self.completion()?, None);
        let config = self.machine.clone().devices(Arc::new(devices)).annotations(true);
        Machine::new(config.driver(DriverKind::Check))
    }

    /// Returns a machine for a run.
    pub(crate) fn open(&self) -> Result<Machine> {
        let (devices, control) = self.registry(self.completion()?, self.faults.as_ref());
        let Steps { seed, keep_log, cancel_at } = self.simulation;
        let cancel = self.cancellation.clone().zip(cancel_at);
        let mut config = self
            .machine
            .clone()
            .devices(Arc::new(devices))
            .simulation(Simulation { seed, keep_log, devices: Some(control), cancel })
            .memory_limits(self.memory_limits());
        if config.driver == DriverKind::Simulated {
            config = config.threads(1).host_workers(SIMULATED_WORKERS);
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
    let cuda = CudaBackend::new(CudaConfig {
        tf32: options.tf32,
        graphs: options.graphs,
        ..CudaConfig::default()
    });
    let pinned = (options.device.kind() == cuda.kind()).then(|| Arc::new(cuda.pinned()) as _);
    pinned.into_iter().chain([Arc::new(cuda) as _]).collect()
}

#[cfg(not(feature = "cuda"))]
fn of_cuda(_: &RunOptions) -> Vec<Arc<dyn Backend>> {
    Vec::new()
}
