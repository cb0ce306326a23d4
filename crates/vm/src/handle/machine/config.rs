//! The configuration of a machine.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millstream_comm::{Communicator, SingleRank};
use millstream_ep::{Registry, cpu::CpuBackend};
use millstream_instructions::{Protection, SyncPolicy};
use millstream_kernels::{KernelRegistry, TypedCall, typed};
use millstream_ops::{Op, OpRegistry};
use millstream_runtime::driver::{DriverKind, Simulation};
use millstream_stream_policy::StreamPolicy;
use millstream_types::{DeviceId, Error, Result};

/// The configuration of a machine. Each field has a method of its name that sets it:
///
/// ```
/// # use std::time::Duration;
/// use millstream_vm::{DriverKind, Machine, MachineConfig};
///
/// let config = MachineConfig::default()
///     .driver(DriverKind::Threaded)
///     .threads(1) // kernels run on their stream's worker
///     .watermark(100) // a submitter waits while more instructions are pending
///     .watermark_bytes(1 << 20) // or while more than a MiB is released and still in use
///     .watchdog(Some(Duration::from_secs(60))) // reports instructions that take longer
///     .submitters(Some(1)); // this thread makes all calls and waits
/// let machine = Machine::new(config)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct MachineConfig {
    /// The driver that runs the instructions.
    pub driver: DriverKind,
    /// The seed and devices of [`DriverKind::Simulated`]; no other driver reads it.
    pub simulation: Simulation,
    /// Which earlier uses of a tensor an instruction waits for.
    pub sync: SyncPolicy,
    /// The hazards that the machine prevents by itself. Less than all of them is `unsafe` to ask
    /// for.
    pub protection: Protection,
    /// The device whose compute stream 0 is the default stream.
    pub default_device: DeviceId,
    /// The most workers over which host streams are spread.
    pub host_workers: usize,
    /// The threads that kernels share. With one, kernels run on their stream's worker.
    pub threads: usize,
    /// How many instructions may be pending before a submitter has to wait.
    pub watermark: u64,
    /// How many bytes of released tensors pending instructions may still use before a submitter has
    /// to wait. A result that one in-order stream alone has used is not counted, as the stream's
    /// next instructions can take its memory.
    pub watermark_bytes: u64,
    /// Memory limits in bytes, by device; others have their own default.
    pub memory_limits: HashMap<DeviceId, u64>,
    /// Whether unused memory is filled with a pattern, and whether shutting down names the tensors
    /// that were never released. The ops have to include `scrub`, which does the filling.
    pub check_memory: bool,
    /// How long an instruction may take before all waiters for it, or for later instructions that
    /// depend on it, get [`Error::Overdue`](millstream_types::Error::Overdue). Only worker threads
    /// are watched; the other drivers run everything on the thread that waits.
    pub watchdog: Option<Duration>,
    /// The ops.
    pub ops: OpRegistry,
    /// Their kernels.
    pub kernels: KernelRegistry,
    /// The backends.
    pub devices: Arc<Registry>,
    /// Policies beside the standard ones; the last of a type takes precedence.
    pub policies: Vec<Arc<dyn StreamPolicy>>,
    /// Whether recorded lists say why each wait was emitted or elided.
    pub annotations: bool,
    /// The connection to the program's other ranks, for collectives and `GlobalSync`.
    pub communicator: Arc<dyn Communicator>,
    /// The number of threads that ever make calls and waits on the machine; none if it is not
    /// known. Ranks that wait for one another are found once all these threads of each of them are
    /// in waits without a time limit. Without the number only the watchdog ends such waits, except
    /// for [`DriverKind::Simulated`], which one thread drives.
    pub submitters: Option<usize>,
    /// How many calls the inference cache keeps, rounded up to a power of two; by default the
    /// number in the environment's `MILLSTREAM_PLAN_PLACES`, or 4,096. A program that makes more
    /// different calls in turn finds fewer of them ([`Machine::inference_stats_of_ops`]).
    ///
    /// [`Machine::inference_stats_of_ops`]: crate::Machine::inference_stats_of_ops
    pub plan_places: Option<usize>,
}

/// Returns how many threads can run at once. Asked once, as the system reads files to answer.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Default for MachineConfig {
    /// Returns a configuration of the standard ops on `cpu:0`, run by worker threads.
    fn default() -> MachineConfig {
        let devices = Arc::new(Registry::new());
        devices.register(Arc::new(CpuBackend::new()));
        MachineConfig::of(millstream_ops::standard(), millstream_kernels::standard(), devices)
    }
}

impl MachineConfig {
    /// Returns a configuration of these ops on these devices, and everything else as by default.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_vm::*;
    /// use millstream_ep::{Registry, cpu::CpuBackend};
    ///
    /// let devices = Arc::new(Registry::new());
    /// devices.register(Arc::new(CpuBackend::new()));
    /// let (ops, kernels) = (millstream_ops::standard(), millstream_kernels::standard());
    /// let machine = Machine::new(MachineConfig::of(ops, kernels, devices))?;
    /// assert_eq!(Tensor::full(2, 1.5, &machine)?.to_vec::<f32>()?, [1.5, 1.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
            communicator: Arc::new(SingleRank),
            submitters: None,
            plan_places: None,
        }
    }

    /// Adds an op of the program, with a kernel for devices whose memory the host can use. Ops of
    /// several kernels are registered in [`MachineConfig::ops`] and [`MachineConfig::kernels`].
    ///
    /// ```
    /// use millstream_ops::{ArgDoc, Def, Signature};
    /// use millstream_vm::{Machine, MachineConfig, Tensor};
    ///
    /// const X: &[ArgDoc] = &[ArgDoc::new("x", "f32")];
    /// const DOUBLE: Def = Def::new("demo::double", "x + x", X, &[], |call| {
    ///     Ok(Signature::reads(1, call.inputs[0].clone()))
    /// });
    ///
    /// # fn main() -> millstream_types::Result<()> {
    /// let machine = Machine::new(MachineConfig::default().op(DOUBLE, |call| {
    ///     let (x, y) = (call.read::<f32>(0)?, call.write::<f32>(1)?);
    ///     (0..x.len()).for_each(|k| y.set(k, 2.0 * x.get(k)));
    ///     Ok(())
    /// }))?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let y = machine.call("demo::double", &[&x]).run()?.remove(0);
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn op<F>(mut self, op: impl Op + Clone + 'static, kernel: F) -> MachineConfig
    where
        F: Fn(&TypedCall<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
    {
        let name = op.name().to_owned();
        self.kernels.register("cpu", &name, Arc::new(typed(op.clone(), kernel)));
        self.ops.register(Arc::new(op));
        self
    }
}

millstream_types::setters! {
    MachineConfig:
    driver: DriverKind,
    ///
    /// ```
    /// # use millstream_vm::*;
    /// let seeded = Simulation { seed: 7, ..Simulation::default() };
    /// let config = MachineConfig::default().driver(DriverKind::Simulated).simulation(seeded);
    /// let machine = Machine::new(config)?;
    /// assert_eq!(Tensor::arange(0..3, &machine)?.to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    simulation: Simulation,
    sync: SyncPolicy,
    protection: Protection,
    default_device: DeviceId,
    host_workers: usize,
    threads: usize,
    watermark: u64,
    watermark_bytes: u64,
    ///
    /// ```
    /// # use millstream_vm::*;
    /// let limits = [(millstream_types::DeviceId::cpu(0), 1 << 20)].into();
    /// let machine = Machine::new(MachineConfig::default().memory_limits(limits))?;
    /// assert!(Tensor::zeros(1 << 20, millstream_types::DType::F32, &machine).is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    memory_limits: HashMap<DeviceId, u64>,
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use std::time::Duration;
    /// let machine = Machine::new(MachineConfig::default().check_memory(true))?;
    /// let kept = Tensor::arange(0..3, &machine)?;
    /// let report = machine.shutdown(Duration::from_secs(60));
    /// assert_eq!(report.unreleased.len(), 1); // and where it was made
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    check_memory: bool,
    watchdog: Option<Duration>,
    ops: OpRegistry,
    ///
    /// ```
    /// # use millstream_vm::*;
    /// use millstream_kernels::KernelRegistry;
    ///
    /// let none = KernelRegistry::default();
    /// let machine = Machine::new(MachineConfig::default().kernels(none))?;
    /// let made = Tensor::full(2, 1.5, &machine).and_then(|x| x.to_vec::<f32>());
    /// assert!(made.is_err()); // there is no kernel of `full`
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    kernels: KernelRegistry,
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_vm::*;
    /// use millstream_ep::{Registry, cpu::CpuBackend};
    /// use millstream_types::DeviceId;
    ///
    /// let devices = Arc::new(Registry::new());
    /// devices.register(Arc::new(CpuBackend::new()));
    /// let machine = Machine::new(MachineConfig::default().devices(devices))?;
    /// let gpu = DeviceId::cuda(0);
    /// assert!(Tensor::full(2, 1.5, (&machine, &gpu)).is_err()); // it has none
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    devices: Arc<Registry>,
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_vm::*;
    /// use millstream_stream_policy::{StreamPolicy, WorkerGroup};
    /// use millstream_types::{StreamKey, StreamType};
    ///
    /// struct OnHost; // the host's workers launch what devices compute
    /// impl StreamPolicy for OnHost {
    ///     fn stream_type(&self) -> StreamType {
    ///         StreamType::COMPUTE
    ///     }
    ///     fn worker_group(&self, _: &StreamKey) -> WorkerGroup {
    ///         WorkerGroup::Host
    ///     }
    /// }
    /// let machine = Machine::new(MachineConfig::default().policies(vec![Arc::new(OnHost)]))?;
    /// assert_eq!(Tensor::full(2, 1.5, &machine)?.to_vec::<f32>()?, [1.5, 1.5]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    policies: Vec<Arc<dyn StreamPolicy>>,
    annotations: bool,
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_vm::*;
    /// use millstream_comm::LocalGroup;
    ///
    /// for communicator in LocalGroup::communicators(2) {
    ///     let config = MachineConfig::default().communicator(Arc::new(communicator));
    ///     assert_eq!(Machine::new(config)?.communicator().ranks(), 2);
    /// }
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    communicator: Arc<dyn Communicator>,
    submitters: Option<usize>,
    plan_places = Some: usize,
}

/// Returns the number of places in a text of the environment.
pub(super) fn places_of(text: &str) -> Result<usize> {
    text.trim().parse().map_err(|_| Error::Invalid {
        what: "environment variable MILLSTREAM_PLAN_PLACES",
        message: format!("expected a number of calls, got {text:?}"),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_number() {
        assert_eq!(places_of(" 64 ").unwrap(), 64);
        let error = places_of("many").unwrap_err().to_string();
        let expected = "invalid environment variable MILLSTREAM_PLAN_PLACES: expected a number of \
                        calls, got \"many\"";
        assert_eq!(error, expected);
    }
}
