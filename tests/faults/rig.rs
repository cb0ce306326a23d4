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

use crate::case::Case;

/// What fails: something of the devices' or the copy kernel, half-way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    Once(Fault),
    From(Fault),
    HalfCopy,
}

/// A machine, and what is known of its devices from outside.
pub(crate) struct Rig {
    pub(crate) machine: Option<Machine>,
    pub(crate) plan: FaultPlan,
    pub(crate) copies: Arc<AtomicU64>,
    pub(crate) sim: SimControl,
}

/// Copies half of the elements and fails, when it is called for the `at`-th time.
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
        anyhow::ensure!(from.strides == to.strides, "the cases copy alike to alike");
        // SAFETY: both operands are valid over their elements, which lie without gaps from the
        // first on in the cases' tensors; nobody else uses them while the kernel runs.
        unsafe { std::ptr::copy(from.data, to.data, bytes) };
        anyhow::bail!("the copy fails half-way (a planned fault)")
    }
}

impl Rig {
    /// A machine for `case`, on which `kind` strikes at position `at`: of the device of kind
    /// `device`, the other one is healthy.
    pub(crate) fn new(
        case: &Case,
        driver: (DriverKind, u64),
        kind: Kind,
        device: &str,
        at: u64,
    ) -> Rig {
        let plan = match kind {
            Kind::Once(fault) => FaultPlan::once(fault, at),
            Kind::From(fault) => FaultPlan::from(fault, at),
            Kind::None | Kind::HalfCopy => FaultPlan::new(),
        };
        let simulated = driver.0 == DriverKind::Simulated;
        let completion = if simulated { Completion::ByHand } else { Completion::IssueOrder };
        let sim = SimBackend::new(SimConfig { completion, ..SimConfig::default() });
        let control = sim.control();
        let devices = Registry::new();
        for backend in [Arc::new(sim) as Arc<dyn Backend>, Arc::new(CpuBackend::new())] {
            let faulty = backend.kind() == device;
            let plan = if faulty { plan.clone() } else { FaultPlan::new() };
            devices.register(Arc::new(FaultyBackend::new(backend, plan)));
        }
        let simulation =
            Simulation { seed: driver.1, devices: Some(control.clone()), keep_log: false };
        let limits = |m| HashMap::from([(DeviceId::cpu(0), 1 << 20), (DeviceId::sim(0), m)]);
        let mut config = MachineConfig {
            driver: driver.0,
            simulation,
            host_workers: 2,
            threads: 1,
            check_memory: true,
            memory_limits: case.memory.map(limits).unwrap_or_default(),
            ..MachineConfig::of(ops::standard(), kernels::standard(), Arc::new(devices))
        };
        let copies = Arc::new(AtomicU64::new(0));
        if let Some(copy) = config.kernels.get("cpu", "copy").cloned() {
            let at = if kind == Kind::HalfCopy { at } else { 0 };
            let half = HalfCopy { copy, count: copies.clone(), at };
            config.kernels.register("cpu", "copy", Arc::new(half));
        }
        Rig { machine: Some(Machine::new(config).unwrap()), plan, copies, sim: control }
    }

    pub(crate) fn machine(&self) -> &Machine {
        self.machine.as_ref().unwrap()
    }

    /// Ends a machine whose tensors are gone. Everything has come back.
    pub(crate) fn end(mut self, what: &str) {
        let machine = self.machine.take().unwrap();
        assert_eq!(machine.pending_callbacks(), 0, "{what}");
        let report = machine.clone().shutdown(LONG);
        assert_eq!(report, Report::default(), "{what}");
        drop(machine);
        // What stood in the queues of a device that was lost does nothing, but has to go.
        self.sim.run_all();
        let left = self.sim.stats(0).unwrap().bytes_in_use;
        assert_eq!(left, 0, "{what}: memory of the device was not given back");
    }
}

/// Longer than anything here takes.
pub(crate) const LONG: std::time::Duration = std::time::Duration::from_secs(60);
