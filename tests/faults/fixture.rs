//! Machines on devices that fail as planned.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream::ep::cpu::CpuBackend;
use millstream::ep::faults::{Fault, FaultPlan, FaultyBackend};
use millstream::ep::sim::{Completion, SimBackend, SimConfig, SimControl};
use millstream::ep::{Backend, Registry};
use millstream::kernels::{Kernel, KernelCtx};
use millstream::*;

use millstream_testing::faults::case::{Case, Held};
use millstream_testing::faults::{FaultKind, Fixture};

/// The fault of a run: a fault of a device, a copy kernel that fails half-way, or none. With
/// `Cancel` nothing fails and the program's submissions are cancelled: before a step of a simulated
/// run, otherwise as a kernel starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Once(Fault),
    From(Fault),
    HalfCopy,
    Cancel,
}

/// The device besides the host.
pub(crate) const DEVICE: DeviceId = DeviceId::sim(0);

impl FaultKind for Kind {
    const NONE: Kind = Kind::None;

    /// Returns the kind of a run that counts positions, without a fault.
    fn quiet(self) -> Kind {
        match self {
            Kind::Cancel | Kind::HalfCopy => self,
            _ => Kind::None,
        }
    }

    /// Returns whether the fault loses the device.
    fn loses_device(self) -> bool {
        self == Kind::Once(Fault::DeviceLost)
    }

    /// Returns whether the machine may refuse a call because of the device.
    fn refuses(self) -> bool {
        self.loses_device()
    }

    /// Returns whether the fault loses no data and is reported all the same.
    fn is_reported_late(self) -> bool {
        matches!(self, Kind::Once(Fault::RecordFailsLate | Fault::WaitFailsLate))
    }
}

/// A machine, with the view of its devices from outside.
pub(crate) struct Machines {
    pub(crate) machine: Option<Machine>,
    pub(crate) plan: FaultPlan,
    /// The number of copies so far, or of kernels of any kind.
    calls: Arc<AtomicU64>,
    cancellation: Cancellation,
    pub(crate) sim: SimControl,
}

/// A kernel that copies half of the elements and fails at its `at`-th call.
struct HalfCopy {
    copy: Arc<dyn Kernel>,
    count: Arc<AtomicU64>,
    at: u64,
}

impl Kernel for HalfCopy {
    fn run(&self, ctx: &KernelCtx<'_>) -> anyhow::Result<()> {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 != self.at {
            return self.copy.run(ctx);
        }
        let (from, to) = (ctx.operand(0)?, ctx.operand(1)?);
        let bytes = to.numel() / 2 * to.dtype.size();
        anyhow::ensure!(from.strides == to.strides, "the cases copy between equal layouts");
        // SAFETY: both operands are valid over their elements, which lie without gaps from the
        // first on in the cases' tensors. Nothing else uses them while the kernel runs.
        unsafe { std::ptr::copy(from.data, to.data, bytes) };
        anyhow::bail!("the copy fails half-way (a planned fault)")
    }
}

/// A kernel that cancels at its `at`-th call, and runs to its end.
struct Cancelling {
    kernel: Arc<dyn Kernel>,
    count: Arc<AtomicU64>,
    at: u64,
    cancellation: Cancellation,
}

impl Kernel for Cancelling {
    fn run(&self, ctx: &KernelCtx<'_>) -> anyhow::Result<()> {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.cancellation.cancel();
        }
        self.kernel.run(ctx)
    }
}

impl Fixture for Machines {
    type Kind = Kind;

    /// Returns a machine for `case` with the fault `kind` at position `at` of the devices of kind
    /// `device`. The other devices work.
    fn new(case: &Case, driver: (DriverKind, u64), kind: Kind, device: &str, at: u64) -> Machines {
        let plan = match kind {
            Kind::Once(fault) => FaultPlan::once(fault, at),
            Kind::From(fault) => FaultPlan::starting_at(fault, at),
            Kind::None | Kind::HalfCopy | Kind::Cancel => FaultPlan::new(),
        };
        let simulated = driver.0 == DriverKind::Simulated;
        let completion = if simulated { Completion::ByHand } else { Completion::IssueOrder };
        let (direct_copies, direct_waits) = (true, true);
        let config =
            SimConfig { devices: 2, completion, direct_copies, direct_waits, ..Default::default() };
        let sim = SimBackend::new(config);
        let control = sim.control();
        let devices = Registry::new();
        for backend in [Arc::new(sim) as Arc<dyn Backend>, Arc::new(CpuBackend::new())] {
            let faulty = backend.kind() == device;
            let plan = if faulty { plan.clone() } else { FaultPlan::new() };
            devices.register(Arc::new(FaultyBackend::new(backend, plan)));
        }
        let cancellation = Cancellation::new();
        let cancels = simulated && kind == Kind::Cancel;
        let simulation = Simulation {
            seed: driver.1,
            devices: Some(control.clone()),
            cancel: cancels.then(|| (cancellation.clone(), at)),
            ..Simulation::default()
        };
        let limits = |m| HashMap::from([(DeviceId::cpu(0), 1 << 20), (DeviceId::sim(0), m)]);
        let mut config = MachineConfig::of(ops::standard(), kernels::standard(), Arc::new(devices))
            .driver(driver.0)
            .simulation(simulation)
            .host_workers(2)
            .threads(1)
            .check_memory(true)
            .memory_limits(case.memory.map(limits).unwrap_or_default());
        let calls = Arc::new(AtomicU64::new(0));
        let wrapped: &[&str] = match kind {
            Kind::HalfCopy => &["copy"],
            Kind::Cancel if !simulated => &["add", "add_", "copy", "fill", "relu"],
            _ => &[],
        };
        for name in wrapped {
            let kernel = config.kernels.get("cpu", name).cloned().unwrap();
            let count = calls.clone();
            let wrapper: Arc<dyn Kernel> = match kind {
                Kind::HalfCopy => Arc::new(HalfCopy { copy: kernel, count, at }),
                _ => {
                    let cancellation = cancellation.clone();
                    Arc::new(Cancelling { kernel, count, at, cancellation })
                }
            };
            config.kernels.register("cpu", name, wrapper);
        }
        let machine = Some(Machine::new(config).unwrap());
        Machines { machine, plan, calls, cancellation, sim: control }
    }

    /// Submits all steps of a case, within the cancel scope.
    fn submit(&self, case: &Case) -> Held {
        let mut held = Held::default();
        let submit = || case.submit(self.machine(), &mut held, |_| true, |_| ());
        self.cancellation.scope(submit);
        held
    }

    /// Returns the number of positions so far.
    fn positions(&self, kind: Kind) -> u64 {
        match kind {
            Kind::None => 0,
            Kind::Once(fault) | Kind::From(fault) => self.plan.count(fault.site()),
            Kind::HalfCopy => self.calls.load(Ordering::Relaxed),
            Kind::Cancel => match self.machine().schedule().unwrap() {
                Some(schedule) => schedule.steps,
                None => self.calls.load(Ordering::Relaxed),
            },
        }
    }

    fn has_struck(&self) -> bool {
        self.plan.triggered() > 0
    }

    /// Stops further faults. Earlier faults keep their effects.
    fn disarm(&self) {
        self.plan.disarm();
    }

    fn machine(&self) -> &Machine {
        self.machine.as_ref().unwrap()
    }

    /// Shuts a machine without tensors down, and checks that nothing is left.
    fn end(mut self, label: &str) {
        let machine = self.machine.take().unwrap();
        assert_eq!(machine.pending_callbacks(), 0, "{label}");
        let report = machine.clone().shutdown(LONG);
        assert_eq!(report, ShutdownReport::default(), "{label}");
        drop(machine);
        // The queued commands of a lost device have no effect, but must be removed.
        self.sim.run_all();
        for device in [0, 1] {
            let left = self.sim.stats(device).unwrap().bytes_in_use;
            assert_eq!(left, 0, "{label}: memory of sim:{device} was not released");
        }
    }
}

/// A time limit that no run reaches.
pub(crate) const LONG: std::time::Duration = std::time::Duration::from_secs(60);
