//! Ops, kernels, policies, backends and communicators. Each forwards to one of the machine's own,
//! and panics at one place.
//!
//! Long because each method of each trait is here.

use std::any::Any;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_comm::{Call, CommError, Communicator, Request, SingleRank, Slot};
use millstream_ep::cpu::CpuBackend;
use millstream_ep::device::Precompilation;
use millstream_ep::sim::{SimBackend, SimConfig};
use millstream_ep::{
    Backend, Capabilities, Device, Event, EventPool, HostClock, Memory, Notify, Progress, Registry,
    Stream, Ticket, Work, WorkResult,
};
use millstream_instructions::StreamFacts;
use millstream_kernels::prepared::{KernelSpec, PreparedKernel};
use millstream_kernels::{Kernel, KernelCtx};
use millstream_ops::{ArgDoc, CallSpec, Op, Signature};
use millstream_stream_policy::standard::Compute;
use millstream_stream_policy::{StreamParts, StreamPolicy, WorkerGroup};
use millstream_types::{DType, DeviceId, Result, StreamKey, StreamType, TensorSpec, WorkSet};
use millstream_vm::{DriverKind, Machine, MachineConfig, Tensor};

use super::{Tried, spring, tried};

/// The place that panics, and the places that were reached.
#[derive(Clone, Default)]
struct Trap(Arc<Mutex<(Option<&'static str>, BTreeSet<&'static str>)>>);

impl Trap {
    fn set(&self, place: Option<&'static str>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = place;
    }

    /// Panics at its place.
    fn at(&self, place: &'static str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.insert(place);
        let springs = state.0 == Some(place);
        drop(state);
        if springs {
            spring(place);
        }
    }
}

/// A value behind a trap, with the place of its drop.
struct Trapped<T> {
    inner: T,
    trap: Trap,
    dropped: &'static str,
}

impl<T> Trapped<T> {
    /// Returns the value after the trap at `place`.
    fn at(&self, place: &'static str) -> &T {
        self.trap.at(place);
        &self.inner
    }

    fn at_mut(&mut self, place: &'static str) -> &mut T {
        self.trap.at(place);
        &mut self.inner
    }

    fn around<U>(&self, inner: U, dropped: &'static str) -> Trapped<U> {
        Trapped { inner, trap: self.trap.clone(), dropped }
    }
}

impl<T> Drop for Trapped<T> {
    fn drop(&mut self) {
        self.trap.at(self.dropped);
    }
}

impl Backend for Trapped<Arc<dyn Backend>> {
    fn kind(&self) -> &str {
        self.at("Backend::kind").kind()
    }
    fn count(&self) -> Result<u32> {
        self.at("Backend::count").count()
    }
    fn capabilities(&self) -> Capabilities {
        self.at("Backend::capabilities").capabilities()
    }
    fn copies_directly(&self, to: u32, from: u32) -> bool {
        self.at("Backend::copies_directly").copies_directly(to, from)
    }
    fn waits_directly(&self, waiter: u32, source: u32) -> bool {
        self.at("Backend::waits_directly").waits_directly(waiter, source)
    }
    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        let device = self.at("Backend::open").open(index)?;
        Ok(Arc::new(self.around(device, "Device::drop")))
    }
}

impl Device for Trapped<Arc<dyn Device>> {
    fn id(&self) -> &DeviceId {
        self.at("Device::id").id()
    }
    fn capabilities(&self) -> Capabilities {
        self.at("Device::capabilities").capabilities()
    }
    fn kernel_kind(&self) -> &str {
        self.at("Device::kernel_kind").kernel_kind()
    }
    fn default_memory_limit(&self) -> u64 {
        self.at("Device::default_memory_limit").default_memory_limit()
    }
    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        let memory = self.at("Device::allocate").allocate(bytes)?;
        Ok(Box::new(self.around(memory, "Memory::drop")))
    }
    fn create_stream(&self, notify: Notify) -> Result<Box<dyn Stream>> {
        let stream = self.at("Device::create_stream").create_stream(notify)?;
        Ok(Box::new(self.around(stream, "Stream::drop")))
    }
    fn async_error(&self) -> Option<millstream_types::Error> {
        self.at("Device::async_error").async_error()
    }
    fn create_event(&self) -> Result<Arc<dyn Event>> {
        let event = self.at("Device::create_event").create_event()?;
        Ok(Arc::new(self.around(event, "Event::drop")))
    }
    fn precompile(&self, work: Precompilation) {
        self.at("Device::precompile").precompile(work);
    }
    fn as_any(&self) -> &dyn Any {
        self.at("Device::as_any").as_any()
    }
}

impl Memory for Trapped<Box<dyn Memory>> {
    fn base(&self) -> NonNull<u8> {
        self.at("Memory::base").base()
    }
    fn bytes(&self) -> usize {
        self.at("Memory::bytes").bytes()
    }
}

impl Event for Trapped<Arc<dyn Event>> {
    fn query(&self) -> Result<bool> {
        self.at("Event::query").query()
    }
    fn since(&self, earlier: &dyn Event) -> Result<Option<f64>> {
        self.at("Event::since").since(earlier)
    }
    fn as_any(&self) -> &dyn Any {
        self.at("Event::as_any").as_any()
    }
}

impl Stream for Trapped<Box<dyn Stream>> {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        self.at_mut("Stream::submit").submit(work)
    }
    fn direct(&self) -> Option<&dyn Any> {
        self.at("Stream::direct").direct()
    }
    fn native(&self) -> &dyn Any {
        self.at("Stream::native").native()
    }
    fn share_native(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.at("Stream::share_native").share_native()
    }
    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        self.at_mut("Stream::record").record(event)
    }
    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        self.at_mut("Stream::wait").wait(event)
    }
    fn measure(&mut self, clock: Option<HostClock>) -> Result<()> {
        self.at_mut("Stream::measure").measure(clock)
    }
    fn take_times(&mut self, taken: &mut dyn FnMut(Ticket, [u64; 2])) {
        self.at_mut("Stream::take_times").take_times(taken);
    }
    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        self.at_mut("Stream::poll").poll(done)
    }
}

/// The policy of the device's compute streams.
impl StreamPolicy for Trapped<DeviceId> {
    fn stream_type(&self) -> StreamType {
        self.trap.at("StreamPolicy::stream_type");
        StreamType::COMPUTE
    }
    fn serves(&self, device: &DeviceId) -> bool {
        device == self.at("StreamPolicy::serves")
    }
    fn facts(&self, key: &StreamKey) -> StreamFacts {
        self.trap.at("StreamPolicy::facts");
        Compute.facts(key)
    }
    fn worker_group(&self, key: &StreamKey) -> WorkerGroup {
        self.trap.at("StreamPolicy::worker_group");
        Compute.worker_group(key)
    }
    fn accepts(&self) -> WorkSet {
        self.trap.at("StreamPolicy::accepts");
        Compute.accepts()
    }
    fn runs_in_any_order(&self) -> bool {
        self.trap.at("StreamPolicy::runs_in_any_order");
        Compute.runs_in_any_order()
    }
    fn runs_native(&self) -> bool {
        self.trap.at("StreamPolicy::runs_native");
        Compute.runs_native()
    }
    fn priority(&self) -> i32 {
        self.trap.at("StreamPolicy::priority");
        Compute.priority()
    }
    fn copies_between_devices(&self) -> bool {
        self.trap.at("StreamPolicy::copies_between_devices");
        Compute.copies_between_devices()
    }
    fn on_worker_start(&self, _: &WorkerGroup) {
        self.trap.at("StreamPolicy::on_worker_start");
    }
    fn on_worker_stop(&self, _: &WorkerGroup) {
        self.trap.at("StreamPolicy::on_worker_stop");
    }
    fn create(
        &self,
        key: &StreamKey,
        priority: i32,
        devices: &Registry,
        events: &dyn Fn(&Arc<dyn Device>) -> Arc<EventPool>,
        notify: Notify,
    ) -> Result<StreamParts> {
        self.trap.at("StreamPolicy::create");
        Compute.create(key, priority, devices, events, notify)
    }
}

/// The op, which overwrites a new tensor.
impl Op for Trapped<()> {
    fn name(&self) -> &str {
        self.trap.at("Op::name");
        "own"
    }
    fn summary(&self) -> &str {
        self.trap.at("Op::summary");
        "an op of the program"
    }
    fn inputs(&self) -> &[ArgDoc] {
        self.trap.at("Op::inputs");
        const { &[ArgDoc::new("x", "any")] }
    }
    fn attrs(&self) -> &[ArgDoc] {
        self.trap.at("Op::attrs");
        &[]
    }
    fn signature(&self, call: CallSpec<'_>) -> Result<Signature> {
        self.trap.at("Op::signature");
        let [x, ..] = call.inputs else { unreachable!("the inputs were counted") };
        Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?))
    }
    fn takes(&self, inputs: usize) -> bool {
        self.trap.at("Op::takes");
        inputs == 1
    }
    fn optional(&self) -> Option<usize> {
        self.trap.at("Op::optional");
        None
    }
    fn overwrites(&self) -> bool {
        self.trap.at("Op::overwrites");
        false
    }
}

struct OwnKernel(Trapped<()>);

impl Kernel for OwnKernel {
    fn run(&self, _: &KernelCtx<'_>) -> anyhow::Result<()> {
        self.0.trap.at("Kernel::run");
        Ok(())
    }
    fn prepare(&self, _: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        self.0.trap.at("Kernel::prepare");
        None
    }
}

impl Communicator for Trapped<SingleRank> {
    fn kind(&self) -> &'static str {
        self.at("Communicator::kind").kind()
    }
    fn rank(&self) -> usize {
        self.at("Communicator::rank").rank()
    }
    fn ranks(&self) -> usize {
        self.at("Communicator::ranks").ranks()
    }
    fn start(&self, call: Call) -> Request {
        self.at("Communicator::start").start(call)
    }
    fn skip(&self, slot: Slot, op: &str, cause: &str) {
        self.at("Communicator::skip").skip(slot, op, cause);
    }
    fn abort(&self, cause: &str) {
        self.at("Communicator::abort").abort(cause);
    }
    fn error(&self) -> Option<CommError> {
        self.at("Communicator::error").error()
    }
    fn deliveries(&self) -> Option<u64> {
        self.at("Communicator::deliveries").deliveries()
    }
}

fn config(trap: &Trap, driver: DriverKind, device: &DeviceId) -> MachineConfig {
    let around = |dropped| Trapped { inner: (), trap: trap.clone(), dropped };
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    let inner: Arc<dyn Backend> = match device.kind() {
        "sim" => Arc::new(SimBackend::new(SimConfig::default())),
        _ => Arc::new(CpuBackend::new()),
    };
    devices.register(Arc::new(around("").around(inner, "Backend::drop")));
    let mut config = MachineConfig::default().driver(driver).devices(Arc::new(devices));
    config.ops.register(Arc::new(around("Op::drop")));
    config.kernels.register("cpu", "own", Arc::new(OwnKernel(around("Kernel::drop"))));
    config.policies.push(Arc::new(around("").around(device.clone(), "StreamPolicy::drop")));
    config.communicator = Arc::new(around("").around(SingleRank, "Communicator::drop"));
    config
}

/// Uses all that is trapped.
fn use_trapped(machine: &Machine, driver: DriverKind, device: &DeviceId) -> Result<()> {
    // A simulated run takes no time.
    let is_timed = driver != DriverKind::Simulated;
    let profiling = is_timed.then(|| machine.profile(&[])).transpose()?;
    let streams = [machine.compute(device, 0)?, machine.compute(device, 1)?];
    let x = Tensor::ones(2, DType::F32, &streams[0])?;
    for stream in &streams {
        // The second call is stored.
        machine.call("own", &[&x]).on(stream)?;
        machine.call("own", &[&x]).on(stream)?.remove(0).synchronize()?;
        let event = stream.record_event()?;
        event.synchronize()?;
    }
    let y = machine.call("own", &[&x]).on(&streams[0])?.remove(0);
    machine.call("own", &[&y]).on(&streams[1])?.remove(0).to_vec::<f32>()?;
    machine.call("allreduce_", &[&x]).run()?;
    let engine = machine.dependency_engine()?;
    let var = engine.var()?;
    engine.push(|| ()).writes(&[&var]).on(&streams[0]).spawn()?;
    engine.wait_for(&var)?;
    let recorded = machine.record(|r| {
        let x = r.input_on("x", TensorSpec::contiguous(DType::F32, &[2])?, device)?;
        let y = r.call("own", &[x]).run()?;
        r.output("y", &y[0])
    })?;
    recorded.compile()?.launch().input("x", &x).run()?.wait()?;
    drop((streams, x, y));
    profiling.map(|profiling| profiling.finish()).transpose()?;
    machine.synchronize()
}

/// Panics that no call depends on, whose drops end in the machine's guard.
const UNHEARD: [&str; 4] =
    ["Stream::drop", "Memory::drop", "Event::drop", "StreamPolicy::on_worker_stop"];

/// Rare calls, after whose panic every use of the machine gets an error.
const LOSES: [&str; 8] = [
    // Asked before each wait of the program, and by the simulated driver between steps: there is
    // no instruction that could fail.
    "Communicator::deliveries",
    // A collective gets its number under the engine's lock, with half of the call emitted.
    "Communicator::ranks",
    // Names are asked for reports of failures too, where an error has no other place to go.
    "Op::name",
    // Asked before a tape's steps, when no step has begun that could fail.
    "Stream::direct",
    // Follows the machine's profile, and belongs to no instruction.
    "Stream::measure",
    // Fail their instruction or their stream. Nothing reports a panic after its last instruction.
    "Stream::native",
    "Stream::share_native",
    "Stream::take_times",
];

#[test]
fn traits() {
    let (sim, cpu) = (DeviceId::sim(0), DeviceId::cpu(0));
    let mut wrong = Vec::new();
    for (driver, device, moments) in [
        (DriverKind::Threaded, &sim, &[false, true][..]),
        (DriverKind::Threaded, &cpu, &[false]),
        (DriverKind::Inline, &sim, &[false]),
        (DriverKind::Simulated, &sim, &[false]),
    ] {
        let places = Trap::default();
        let whole = with_trap(&places, driver, device, None, false);
        assert_eq!((&*whole.told, &*whole.later), ("", ""), "{driver:?} on {device}");
        let reached = places.0.lock().unwrap().1.clone();
        assert!(reached.len() > 40, "{reached:?}");
        for place in reached {
            for &is_late in moments {
                let tried = with_trap(&Trap::default(), driver, device, Some(place), is_late);
                let is_heard = tried.told.contains(place) || UNHEARD.contains(&place);
                let goes_on = tried.later.is_empty() || LOSES.contains(&place);
                // A worker may make a rare call only after the program has ended.
                let may_miss = is_late || LOSES.contains(&place);
                if !(goes_on && (is_heard || may_miss && tried.told.is_empty())) {
                    wrong.push(format!("{driver:?} on {device}, {place}, {is_late}: {tried:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Tries the program with a trap at `place`: from the start, or once everything was used.
fn with_trap(
    trap: &Trap,
    driver: DriverKind,
    device: &DeviceId,
    place: Option<&'static str>,
    is_late: bool,
) -> Tried {
    let (trap, device) = (trap.clone(), device.clone());
    trap.set(place.filter(|_| !is_late));
    let (of_config, on) = (trap.clone(), device.clone());
    let program = move |machine: &Machine| {
        let trap = Disarmed(trap);
        if is_late {
            use_trapped(machine, driver, &device)?;
            trap.0.set(place);
        }
        use_trapped(machine, driver, &device)
    };
    tried(place.unwrap_or("no trap"), move || config(&of_config, driver, &on), program)
}

/// Disarms a trap at the end of the program, unless its place is a drop, which comes later.
struct Disarmed(Trap);

impl Drop for Disarmed {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap();
        state.0 = state.0.filter(|place| place.ends_with("::drop"));
    }
}
