//! The fixture of the faults: a machine on the stand-in's device, with a planned fault in the
//! backend or the driver.
//!
//! The modules `case`, `check` and `oracle` of `tests/faults` use its names.

use std::collections::HashMap;
use std::sync::Arc;

use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::ep::faults::{Fault, FaultPlan, FaultyBackend};
use millstream::ep::{Backend, Registry};
use millstream::*;
use millstream_backoff::wait_until;
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::{Failure, Turn};

use crate::{no_violations, nothing_is_open, stand_in};
use millstream_testing::faults::case::{Case, Held};
use millstream_testing::faults::{FaultKind, Fixture};

/// The accelerator of the programs.
pub(crate) const DEVICE: DeviceId = DeviceId::cuda(0);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    /// The backend fails at one call.
    Once(Fault),
    /// The backend fails at one call and all later ones.
    From(Fault),
    /// The driver fails at one call of this function, with this code.
    Call(&'static str, u32),
    /// As [`Kind::Call`], and the device is lost.
    Lost(&'static str),
}

impl Kind {
    /// Returns the driver's function that fails.
    pub(crate) fn call(self) -> Option<&'static str> {
        match self {
            Kind::Call(call, _) | Kind::Lost(call) => Some(call),
            _ => None,
        }
    }
}

impl FaultKind for Kind {
    const NONE: Kind = Kind::None;

    fn quiet(self) -> Kind {
        Kind::None
    }

    fn loses_device(self) -> bool {
        matches!(self, Kind::Lost(_))
    }

    // A device that fails may not open.
    fn refuses(self) -> bool {
        self.call().is_some()
    }

    fn is_reported_late(self) -> bool {
        matches!(self, Kind::Once(Fault::RecordFailsLate | Fault::WaitFailsLate))
    }
}

/// A machine with a planned fault.
pub(crate) struct Machines {
    machine: Option<Machine>,
    plan: FaultPlan,
    kind: Kind,
    at: u64,
    pub(crate) turn: Turn<'static>,
}

impl Fixture for Machines {
    type Kind = Kind;

    fn new(case: &Case, driver: (DriverKind, u64), kind: Kind, _device: &str, at: u64) -> Machines {
        let turn = stand_in().turn();
        let plan = match kind {
            Kind::Once(fault) => FaultPlan::once(fault, at),
            Kind::From(fault) => FaultPlan::starting_at(fault, at),
            _ => FaultPlan::new(),
        };
        match kind {
            Kind::Call(call, code) => turn.fail(Failure::once(call, at - 1, code)),
            Kind::Lost(call) => turn.fail(Failure::lost(call, at - 1, code::LAUNCH_FAILED)),
            _ => {}
        }
        let devices = Registry::new();
        devices.register(Arc::new(CpuBackend::new()));
        // `failures` tests the reports of resources that cannot be destroyed on a lost device.
        let quiet = CudaConfig { report_drop_error: Arc::new(|_| ()), ..CudaConfig::default() };
        let cuda = CudaBackend::new(quiet);
        devices.register(Arc::new(cuda.pinned()));
        devices.register(Arc::new(FaultyBackend::new(
            Arc::new(cuda) as Arc<dyn Backend>,
            plan.clone(),
        )));
        let mut kernels = millstream::kernels::standard();
        millstream_cuda_standin::register(&mut kernels);
        let room = 1 << 20;
        let limits = [(DeviceId::cpu(0), room), (DeviceId::pinned(0), room)];
        let own = (DEVICE, case.memory.unwrap_or(room));
        let config = MachineConfig::of(ops::standard(), kernels, Arc::new(devices))
            .driver(driver.0)
            .host_workers(2)
            .threads(1)
            .check_memory(true)
            .memory_limits(HashMap::from_iter(limits.into_iter().chain([own])));
        Machines { machine: Some(Machine::new(config).unwrap()), plan, kind, at, turn }
    }

    /// Submits all steps of a case.
    fn submit(&self, case: &Case) -> Held {
        let mut held = Held::default();
        case.submit(self.machine(), &mut held, |_| true, |_| ());
        held
    }

    fn positions(&self, kind: Kind) -> u64 {
        match kind {
            Kind::None => 0,
            Kind::Once(fault) | Kind::From(fault) => self.plan.count(fault.site()),
            Kind::Call(call, _) | Kind::Lost(call) => self.turn.count(call),
        }
    }

    fn has_struck(&self) -> bool {
        match self.kind.call() {
            Some(call) => self.turn.count(call) >= self.at,
            None => self.plan.triggered() > 0,
        }
    }

    // A lost device stays lost.
    fn disarm(&self) {
        self.plan.disarm();
        self.turn.cancel_failures();
    }

    fn machine(&self) -> &Machine {
        self.machine.as_ref().unwrap()
    }

    fn end(mut self, what: &str) {
        let machine = self.machine.take().unwrap();
        assert_eq!(machine.pending_callbacks(), 0, "{what}");
        let report = machine.clone().shutdown(LONG);
        assert_eq!(report, ShutdownReport::default(), "{what}");
        drop(machine);
        no_violations();
        // On a lost device, nothing can be destroyed.
        if !self.kind.loses_device() || !self.has_struck() {
            nothing_is_open();
        }
    }
}

impl Machines {
    /// Drops a machine that has leaked resources, and waits until they are destroyed.
    pub(crate) fn left_behind(mut self) {
        drop(self.machine.take());
        let start = std::time::Instant::now();
        wait_until(|| {
            assert!(start.elapsed() < LONG, "the leaked resources are never destroyed");
            let kinds = ["streams", "events", "device bytes", "contexts"];
            kinds.iter().all(|what| self.turn.open(what) == 0)
        });
    }
}

/// Longer than any of the tests takes.
pub(crate) const LONG: std::time::Duration = std::time::Duration::from_secs(60);
