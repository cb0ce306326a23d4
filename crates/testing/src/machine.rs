//! Machines with a simulated device, tensors of `f32`, lists as text.

use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::faults::{FaultPlan, FaultyBackend};
use millstream::ep::sim::{Completion, SimBackend, SimConfig, SimControl, SimStreamId};
use millstream::instructions::{CheckedList, InstructionList, text};
use millstream::kernels::KernelCtx;
use millstream::ops::{ArgDoc, CallSpec, Op, Signature};
use millstream::*;
use millstream_backoff::{Backoff, POLLS};
use millstream_verify::{CheckOptions, check_with};

/// Longer than any step here takes: a test that waits this long has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// The host.
pub const CPU: DeviceId = DeviceId::cpu(0);
/// The first simulated device.
pub const SIM: DeviceId = DeviceId::sim(0);

/// Returns `cpu:0`, and a `sim:0` that completes its commands as `when` says.
fn devices(when: Completion) -> (Arc<Registry>, SimControl) {
    let devices = Registry::new();
    let sim = SimBackend::new(SimConfig { completion: when, ..SimConfig::default() });
    let control = sim.control();
    devices.register(Arc::new(CpuBackend::new()));
    devices.register(Arc::new(sim));
    (Arc::new(devices), control)
}

/// Returns a configuration with two workers for the host, and a simulated device that completes in
/// issue order.
pub fn config(driver: DriverKind, sync: SyncPolicy) -> MachineConfig {
    let (devices, _) = devices(Completion::IssueOrder);
    MachineConfig::default().driver(driver).sync(sync).devices(devices).host_workers(2).threads(2)
}

/// Returns a machine with worker threads.
pub fn threaded() -> Machine {
    Machine::new(config(DriverKind::Threaded, SyncPolicy::Frontier)).unwrap()
}

/// Returns a machine that runs in program order on the caller's thread.
pub fn inline() -> Machine {
    Machine::new(config(DriverKind::Inline, SyncPolicy::Frontier)).unwrap()
}

/// The control of a simulated device that a test steps. Dropping it lets the device complete its
/// commands in issue order, so the machine drains however the test ends.
#[derive(Debug)]
pub struct StepControl(SimControl);

impl StepControl {
    /// Returns the control of devices that a test has made itself.
    pub fn of(control: SimControl) -> StepControl {
        StepControl(control)
    }

    /// Runs commands, including commands that workers submit meanwhile, until `done`.
    pub fn run_until(&self, done: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        let mut backoff = Backoff::new(POLLS);
        while !done() {
            if self.0.run_all() > 0 {
                backoff.restart(POLLS);
            }
            assert!(start.elapsed() < LONG, "the device has no commands left: {:?}", self.0);
            backoff.snooze();
        }
    }
}

impl Deref for StepControl {
    type Target = SimControl;
    fn deref(&self) -> &SimControl {
        &self.0
    }
}

impl Drop for StepControl {
    fn drop(&mut self) {
        self.0.switch(Completion::IssueOrder);
    }
}

/// Returns a configuration whose `sim:0` is stepped by hand. Declare the control after the machine,
/// so that it is dropped first.
pub fn by_hand_config() -> (MachineConfig, StepControl) {
    let (devices, control) = devices(Completion::ByHand);
    (MachineConfig::default().devices(devices).host_workers(2).threads(1), StepControl(control))
}

/// As [`by_hand_config`], with the inline driver and a `sim:0` that fails as planned.
pub fn faulty_config(plan: FaultPlan) -> (MachineConfig, StepControl) {
    let sim = SimBackend::new(SimConfig { completion: Completion::ByHand, ..SimConfig::default() });
    let control = StepControl(sim.control());
    let registry = Registry::new();
    registry.register(Arc::new(CpuBackend::new()));
    registry.register(Arc::new(FaultyBackend::new(Arc::new(sim), plan)));
    let (config, _) = by_hand_config();
    let (driver, devices) = (DriverKind::Inline, Arc::new(registry));
    (config.driver(driver).devices(devices), control)
}

/// Returns a machine whose `sim:0` is stepped by hand.
pub fn by_hand() -> (Machine, StepControl) {
    let (config, control) = by_hand_config();
    (Machine::new(config).unwrap(), control)
}

/// Returns the id of the stream of `sim:0` that was the `k`-th to get a command.
pub const fn on_sim(k: u32) -> SimStreamId {
    SimStreamId { device: 0, stream: k }
}

/// Returns compute stream `index` of the host.
#[track_caller]
pub fn cpu(machine: &Machine, index: u32) -> Stream {
    machine.compute(&CPU, index).unwrap()
}

/// Returns compute stream `index` of `sim:0`.
#[track_caller]
pub fn sim(machine: &Machine, index: u32) -> Stream {
    machine.compute(&SIM, index).unwrap()
}

/// Returns the spec of a contiguous tensor of f32.
pub fn f32_spec(shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, shape).unwrap()
}

/// Returns the bytes of these elements.
pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// Returns the elements in these bytes.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Makes a tensor of one dimension with these elements.
#[track_caller]
pub fn upload(stream: &Stream, machine: &Machine, values: &[f32]) -> Tensor {
    machine.upload(stream, f32_spec(&[values.len()]), bytes(values)).unwrap()
}

/// Reads a tensor of f32.
#[track_caller]
pub fn read(tensor: &Tensor) -> Vec<f32> {
    floats(&tensor.read().unwrap())
}

/// Makes a call with one result.
#[track_caller]
pub fn call(machine: &Machine, op: &str, inputs: &[&Tensor], on: &Stream) -> Tensor {
    machine.call(op, inputs).on(on).unwrap().remove(0)
}

/// Makes a view of elements `from..to` of a tensor of one dimension.
#[track_caller]
pub fn slice(machine: &Machine, x: &Tensor, from: i64, to: i64, on: &Stream) -> Tensor {
    let call = machine.call("slice", &[x]).attr("dim", 0).attr("start", from).attr("end", to);
    call.on(on).unwrap().remove(0)
}

/// Passes a list to the checker, and returns it as checked.
#[track_caller]
pub fn checked(list: &InstructionList) -> CheckedList {
    match check_with(list.clone(), CheckOptions { callbacks: true }) {
        Ok(checked) => checked,
        Err(found) => panic!("{found:#?}\n{}", text::print_list(list)),
    }
}

/// Returns a list as text, without the origins of its lines, which change with every edit of a
/// test.
pub fn listing(list: &InstructionList) -> String {
    let mut bare = list.clone();
    let executables = bare.executables.iter_mut().flat_map(|list| &mut list.instructions);
    for instruction in bare.instructions.iter_mut().chain(executables) {
        instruction.origin = Origin::Unknown;
    }
    text::print_list(&bare)
}

/// Returns the list that `program` records. Asserts that it is the same under all drivers and on
/// every run, and that the checker accepts it.
#[track_caller]
pub fn emitted(sync: SyncPolicy, program: impl Fn(&Machine) -> InstructionList) -> String {
    let mut all = Vec::new();
    for driver in ALL_DRIVERS.into_iter().chain([DriverKind::Threaded]) {
        let machine = Machine::new(config(driver, sync)).unwrap();
        let list = program(&machine);
        checked(&list);
        all.push(listing(&list));
    }
    assert_eq!(all[0], all[1], "the drivers' lists differ");
    assert_eq!(all[0], all[2], "the simulated driver's list differs");
    assert_eq!(all[1], all[3], "two runs' lists differ");
    all.remove(0)
}

/// Blocks a tensor's stream by a host function, until it is opened or dropped.
#[derive(Debug)]
pub struct Gate {
    open: mpsc::Sender<()>,
    entered: mpsc::Receiver<()>,
}

impl Gate {
    /// Places a gate on the stream that made `tensor`. Needs the threaded driver.
    #[track_caller]
    pub fn on(tensor: &Tensor) -> Gate {
        let (open, opened) = mpsc::channel::<()>();
        let (enter, entered) = mpsc::channel();
        let hold = move |_: &mut Blob<'_>| {
            // A test need not wait for the entry, so the receiver may be gone.
            let _ = enter.send(());
            // An error means that the gate was dropped, which opens it.
            let _ = opened.recv();
            Ok(())
        };
        tensor.access(Access::ReadWrite, hold).unwrap();
        Gate { open, entered }
    }

    /// Waits until the stream is blocked.
    pub fn entered(&self) {
        self.entered.recv_timeout(LONG).unwrap();
    }

    /// Opens the gate.
    pub fn open(self) {
        self.open.send(()).unwrap();
    }
}

/// An op of one operand whose result has the same metadata. Its kernel decides what it does.
#[derive(Debug)]
pub struct Unary(
    /// Its name.
    pub &'static str,
);

impl Op for Unary {
    fn name(&self) -> &str {
        self.0
    }
    fn summary(&self) -> &str {
        "an op of a test"
    }
    fn inputs(&self) -> &[ArgDoc] {
        const { &[ArgDoc::new("x", "any shape")] }
    }
    fn signature(&self, call: CallSpec<'_>) -> Result<Signature> {
        let x = &call.inputs[0];
        Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?))
    }
}

/// Adds a [`Unary`] op with this kernel.
pub fn add_op(
    config: &mut MachineConfig,
    name: &'static str,
    kernel: impl Fn(&KernelCtx<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
) {
    config.ops.register(Arc::new(Unary(name)));
    config.kernels.register("cpu", name, Arc::new(kernel));
}

/// Adds `fail`, whose kernel returns an error, and `panic`, whose kernel panics.
pub fn add_failing_ops(config: &mut MachineConfig) {
    add_op(config, "fail", |_| anyhow::bail!("broken on purpose"));
    add_op(config, "panic", |_| panic!("no way out"));
}

/// Returns a machine with any driver and with ops that fail.
pub fn failing(driver: DriverKind) -> Machine {
    let mut config = config(driver, SyncPolicy::Frontier);
    add_failing_ops(&mut config);
    Machine::new(config).unwrap()
}

/// The drivers under which a test can wait while another thread steps a device, or while a callback
/// blocks its thread.
pub const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

/// All drivers.
pub const ALL_DRIVERS: [DriverKind; 3] =
    [DriverKind::Inline, DriverKind::Threaded, DriverKind::Simulated];

/// The most events that nobody holds and that are in flight.
pub const MOST_EVENTS: u64 = 256;

/// Returns the failure in an error.
#[track_caller]
pub fn failure(error: Error) -> Arc<types::Failure> {
    match error {
        Error::Failed(failure) => failure,
        other => panic!("expected a failure, got {other}"),
    }
}
