//! Machines on the stand-in's device, whose backend or whose driver fails as planned.

use std::collections::HashMap;
use std::sync::Arc;

use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::ep::faults::{Fault, FaultPlan, FaultyBackend};
use millstream::ep::{Backend, Registry};
use millstream::*;
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::{Failure, Turn};

use super::case::{Case, Held};
use crate::{no_violations, nothing_is_left, stand_in};

/// The device beside the host.
pub(crate) const DEVICE: DeviceId = DeviceId::cuda(0);

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    None,
    /// The backend, at one call.
    Once(Fault),
    /// The backend, from one call on.
    From(Fault),
    /// The driver, at one call of this function, with this answer.
    Call(&'static str, u32),
    /// As [`Kind::Call`], and the device is lost.
    Lost(&'static str),
}

impl Kind {
    /// The kind of a run that counts positions and meets nothing wrong.
    pub(crate) fn quiet(self) -> Kind {
        Kind::None
    }

    /// The driver's function that fails.
    pub(crate) fn call(self) -> Option<&'static str> {
        match self {
            Kind::Call(call, _) | Kind::Lost(call) => Some(call),
            _ => None,
        }
    }

    /// Whether the device is lost by it.
    pub(crate) fn loses_device(self) -> bool {
        matches!(self, Kind::Lost(_))
    }

    /// Whether a call may be refused in the device's name: it may not open.
    pub(crate) fn refuses(self) -> bool {
        self.call().is_some()
    }

    /// Whether nothing is lost by it, and somebody is told all the same.
    pub(crate) fn is_told_late(self) -> bool {
        matches!(self, Kind::Once(Fault::RecordFailsLate | Fault::WaitFailsLate))
    }
}

/// A machine, and what is known of its device from outside.
pub(crate) struct Rig {
    machine: Option<Machine>,
    plan: FaultPlan,
    kind: Kind,
    at: u64,
    pub(crate) turn: Turn<'static>,
}

impl Rig {
    /// A machine for `case`, on which `kind` strikes at position `at`.
    pub(crate) fn new(
        case: &Case,
        driver: (DriverKind, u64),
        kind: Kind,
        _device: &str,
        at: u64,
    ) -> Rig {
        let turn = stand_in().turn();
        let plan = match kind {
            Kind::Once(fault) => FaultPlan::once(fault, at),
            Kind::From(fault) => FaultPlan::from(fault, at),
            _ => FaultPlan::new(),
        };
        match kind {
            Kind::Call(call, code) => turn.fail(Failure::once(call, at - 1, code)),
            Kind::Lost(call) => turn.fail(Failure::lost(call, at - 1, code::LAUNCH_FAILED)),
            _ => {}
        }
        let devices = Registry::new();
        devices.register(Arc::new(CpuBackend::new()));
        // What cannot be destroyed on a device that is lost has a test of its own.
        let quiet = CudaConfig { report: Arc::new(|_| ()), ..CudaConfig::default() };
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
        Rig { machine: Some(Machine::new(config).unwrap()), plan, kind, at, turn }
    }

    /// Submits all steps of a case.
    pub(crate) fn submit(&self, case: &Case) -> Held {
        let mut held = Held::default();
        case.submit(self.machine(), &mut held, |_| true, |_| ());
        held
    }

    /// How many positions there were so far.
    pub(crate) fn positions(&self, kind: Kind) -> u64 {
        match kind {
            Kind::None => 0,
            Kind::Once(fault) | Kind::From(fault) => self.plan.count(fault.site()),
            Kind::Call(call, _) | Kind::Lost(call) => self.turn.count(call),
        }
    }

    pub(crate) fn has_struck(&self) -> bool {
        match self.kind.call() {
            Some(call) => self.turn.count(call) >= self.at,
            None => self.plan.struck() > 0,
        }
    }

    /// Nothing more fails; what has failed stays so.
    pub(crate) fn disarm(&self) {
        self.plan.disarm();
        self.turn.heal();
    }

    pub(crate) fn machine(&self) -> &Machine {
        self.machine.as_ref().unwrap()
    }

    /// Ends a machine whose tensors are gone. Everything has come back.
    pub(crate) fn end(mut self, what: &str) {
        let machine = self.machine.take().unwrap();
        assert_eq!(machine.pending_callbacks(), 0, "{what}");
        let report = machine.clone().shutdown(LONG);
        assert_eq!(report, ShutdownReport::default(), "{what}");
        drop(machine);
        no_violations();
        // On a device that is lost nothing can be given back.
        if !self.kind.loses_device() || !self.has_struck() {
            nothing_is_left();
        }
    }

    /// Lets go of a machine that left something behind, and waits until that has come to its end.
    pub(crate) fn left_behind(mut self) {
        drop(self.machine.take());
        let start = std::time::Instant::now();
        while ["streams", "events", "device bytes", "contexts"]
            .iter()
            .any(|w| self.turn.open(w) > 0)
        {
            assert!(start.elapsed() < LONG, "what was left behind never ends");
            std::thread::yield_now();
        }
    }
}

/// Longer than anything here takes.
pub(crate) const LONG: std::time::Duration = std::time::Duration::from_secs(60);
