//! The machine: making one, its streams and tensors, and what orders them.
//!
//! | module | holds |
//! |---|---|
//! | `config` | what a machine is made of |
//! | `call` | calls of ops |
//! | `current` | the default stream, new ones, the current one |
//! | `event` | events |
//! | `wait` | waits of the host, and failures |
//! | `inspect` | counts and threads |
//! | `record` | lists of what is emitted |
//! | `shutdown` | its end |

mod call;
mod config;
mod current;
mod event;
mod inspect;
mod record;
mod shutdown;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crossbeam_queue::SegQueue;
use dashmap::DashMap;
use smallvec::SmallVec;

use millstream_instructions::builder::SectionId;
use millstream_instructions::{Builder, BuilderConfig, Outcome, Protection, TensorRef};
use millstream_kernels::Threads;
use millstream_stream_policy::{ArenaMemory, Catalog, PolicyTable};
use millstream_types::{
    Access, DeviceId, Error, OpId, Origin, Point, Result, StreamKey, StreamMode, StreamType,
    TensorSpec,
};

use crate::calls::Calls;
use crate::driver::Driver;
use crate::emission::{Emission, Release};
use crate::engine::{Backlog, Engine};
use crate::guard;
use crate::handle::{Completion, Section, Stream, Tensor};
use crate::host::{HostTable, HostWorkers};
use crate::points::PointTable;
use crate::poison::{FailureLog, Poison};
use crate::router::Router;
use crate::slots::Slots;
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::watch::Watch;

pub use call::CallBuilder;
pub use config::{DriverKind, MachineConfig};
pub use shutdown::Report;

/// What all handles of a machine share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) emission: Mutex<Emission>,
    pub(crate) releases: SegQueue<Release>,
    /// Held while an arena grows, so that memory and plan grow in the same order.
    pub(crate) growth: Mutex<()>,
    pub(crate) watermark: u64,
    pub(crate) watermark_bytes: u64,
    pub(crate) check_memory: bool,
    /// Who runs the instructions.
    pub(crate) driver: DriverKind,
    pub(crate) protection: Protection,
    /// The device whose compute stream 0 is the default stream.
    default_device: DeviceId,
    closed: AtomicBool,
    pub(crate) watch: Option<Arc<Watch>>,
    /// Whether shutting down has left something behind.
    pub(crate) abandoned: AtomicBool,
}

static MACHINES: AtomicU64 = AtomicU64::new(1);

/// A machine. Clones are the same machine.
#[derive(Clone)]
pub struct Machine {
    pub(crate) shared: Arc<Shared>,
}

/// An op, looked up once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpHandle {
    pub(crate) id: OpId,
    pub(crate) machine: u64,
}

impl Machine {
    /// A machine that has done nothing: no device is open, no thread runs.
    ///
    /// # Errors
    /// Memory is to be checked, and the ops do not include `scrub`.
    pub fn new(config: MachineConfig) -> Result<Machine> {
        // Relaxed: only uniqueness is wanted.
        let machine = MACHINES.fetch_add(1, Ordering::Relaxed);
        let mut policies = PolicyTable::standard(config.devices.clone());
        for policy in config.policies {
            policies.register(policy);
        }
        let policies = Arc::new(policies);
        let ops = Arc::new(config.ops);
        let memory = ArenaMemory::new(config.devices.clone(), config.memory_limits);
        let engine = Arc::new(Engine {
            machine,
            points: PointTable::new(),
            slots: Slots::new(),
            homes: Slots::new(),
            calls: Slots::new(),
            poison: Poison::default(),
            failures: FailureLog::default(),
            host: HostTable::default(),
            host_workers: HostWorkers::new(machine, config.driver != DriverKind::Threaded),
            policies: policies.clone(),
            memory: Arc::new(memory),
            ops: ops.clone(),
            kernels: config.kernels,
            events: DashMap::new(),
            threads: Threads::new(config.threads, Arc::new(move || guard::forever(machine))),
            ranks: config.ranks,
            backlog: Backlog::default(),
            urgent: AtomicBool::new(false),
        });
        let driver = match config.driver {
            DriverKind::Threaded => Driver::threaded(config.host_workers),
            DriverKind::Inline => Driver::inline(),
            DriverKind::Simulated => Driver::simulated(config.host_workers, config.simulation),
        };
        let catalog = Box::new(Catalog(policies));
        let mut builder = Builder::new(&BuilderConfig { sync: config.sync }, ops, catalog);
        builder.set_protection(config.protection);
        if config.check_memory {
            builder.check_memory()?;
        }
        let mut router = Router::new(engine.clone(), driver, config.annotations);
        let watched = config.watchdog.filter(|_| config.driver == DriverKind::Threaded);
        let watch = watched.map(|limit| Watch::start(engine.clone(), limit)).transpose()?;
        router.watch.clone_from(&watch);
        let (calls, ended_jobs) = (Calls::default(), SmallVec::new());
        let emission = Emission {
            builder,
            router,
            calls,
            ended_jobs,
            next_list: 0,
            is_broken: false,
            given_up: 0,
        };
        let shared = Shared {
            engine,
            emission: Mutex::new(emission),
            releases: SegQueue::new(),
            growth: Mutex::new(()),
            watermark: config.watermark.max(1),
            watermark_bytes: config.watermark_bytes,
            check_memory: config.check_memory,
            driver: config.driver,
            protection: config.protection,
            default_device: config.default_device,
            closed: AtomicBool::new(false),
            watch,
            abandoned: AtomicBool::new(false),
        };
        Ok(Machine { shared: Arc::new(shared) })
    }

    /// The in-order stream of this key. It comes into being with its first instruction.
    ///
    /// # Errors
    /// There is no such device, or no policy serves the stream.
    pub fn stream(&self, key: &StreamKey) -> Result<Stream> {
        self.stream_with_mode(key, StreamMode::InOrder)
    }

    /// The stream of this key, in-order or a pool.
    ///
    /// # Errors
    /// As [`Machine::stream`], or it is known in another mode.
    pub fn stream_with_mode(&self, key: &StreamKey, mode: StreamMode) -> Result<Stream> {
        let id = self.shared.lock()?.builder.stream_with_mode(key, mode)?;
        Ok(Stream { machine: self.clone(), id, key: key.clone() })
    }

    /// The compute stream `index` of `device`.
    ///
    /// # Errors
    /// As [`Machine::stream`].
    pub fn compute(&self, device: &DeviceId, index: u32) -> Result<Stream> {
        self.stream(&StreamKey::compute(device.clone(), index))
    }

    /// The stream of this key, in whichever mode it is known; in-order if it is not.
    ///
    /// # Errors
    /// There is no such device, or no policy serves the stream.
    pub fn any_stream(&self, key: &StreamKey) -> Result<Stream> {
        let known = self.shared.lock()?.builder.streams().find(|s| s.key == *key).map(|s| s.mode);
        self.stream_with_mode(key, known.unwrap_or(StreamMode::InOrder))
    }

    fn host_stream(&self, ty: StreamType) -> Result<Stream> {
        self.any_stream(&StreamKey::new(DeviceId::cpu(0), ty, 0))
    }

    /// Looks an op up, to be called again and again.
    ///
    /// # Errors
    /// There is none of that name; the error names the nearest.
    pub fn op(&self, name: &str) -> Result<OpHandle> {
        let id = self.shared.engine.ops.id(name)?;
        Ok(OpHandle { id, machine: self.shared.engine.machine })
    }

    pub(crate) fn own(&self, machine: u64, what: &str) -> Result<()> {
        if machine == self.shared.engine.machine {
            return Ok(());
        }
        Err(Error::Foreign { what: what.to_owned() })
    }

    pub(crate) fn own_stream(&self, stream: &Stream) -> Result<()> {
        self.own(stream.machine.shared.engine.machine, "the stream")
    }

    pub(crate) fn own_section(&self, section: Option<&Section>) -> Result<Option<SectionId>> {
        let Some(section) = section else { return Ok(None) };
        self.own(section.machine().shared.engine.machine, "the critical section")?;
        Ok(Some(section.id()))
    }

    /// A stream that runs ops on a tensor's memory: the one that it was made for, if that does.
    pub(crate) fn worker_of(&self, tensor: &Tensor) -> Result<Stream> {
        let device = match tensor.device().is_host() {
            true => DeviceId::cpu(0),
            false => tensor.device().clone(),
        };
        let home = tensor.home();
        if home.key.ty == StreamType::COMPUTE && home.key.device == device {
            return Ok(home.clone());
        }
        self.any_stream(&StreamKey::compute(device, 0))
    }

    /// A stream that makes tensors in the host's memory for copies from `device`, in pinned memory
    /// where there is some.
    pub(crate) fn staging(&self, device: &DeviceId) -> Result<Stream> {
        let (devices, pinned) = (self.policies().devices(), DeviceId::pinned(0));
        // What cannot be probed is told with the nearest name, which takes longer than to ask first.
        let key = match devices.serves(&pinned) && devices.probe(&pinned).is_ok() {
            true => StreamKey::new(device.clone(), StreamType::PINNED_COMPUTE, 0),
            false => StreamKey::compute(DeviceId::cpu(0), 0),
        };
        self.any_stream(&key)
    }

    /// Whether copies on the stream of this key read tensors where they lie in `device`'s memory.
    pub(crate) fn copies_directly(&self, device: &DeviceId, key: &StreamKey) -> Result<bool> {
        let stream = self.any_stream(key)?;
        Ok(self.shared.lock()?.builder.copies_from(stream.id, device))
    }

    pub(crate) fn owns(&self, tensor: &Tensor) -> Result<TensorRef> {
        self.own(tensor.machine().shared.engine.machine, "the tensor")?;
        Ok(tensor.tensor_ref())
    }

    pub(crate) fn tensor(&self, made: TensorRef, home: &Stream, origin: &Origin) -> Result<Tensor> {
        let emission = self.shared.lock()?;
        let spec = emission.builder.spec(made)?.clone();
        let device = emission.builder.device(made)?.clone();
        drop(emission);
        Ok(Tensor::new(self.clone(), made, spec, device, home.clone(), origin.clone()))
    }

    /// A tensor of unspecified content in the memory that `stream` works on.
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn empty(&self, stream: &Stream, spec: TensorSpec) -> Result<Tensor> {
        let bytes = spec.span_bytes() as u64;
        self.empty_in(stream, spec, bytes, Origin::caller())
    }

    /// As [`Machine::empty`], in a storage of `bytes` bytes.
    ///
    /// # Errors
    /// The memory is used up, or the storage is too small for the layout.
    pub fn empty_in(
        &self,
        stream: &Stream,
        spec: TensorSpec,
        bytes: u64,
        origin: Origin,
    ) -> Result<Tensor> {
        self.own_stream(stream).map_err(|e| e.at(&origin))?;
        let made = self.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            builder.allocate(router, stream.id, spec.clone(), bytes, &origin)
        })?;
        self.tensor(made, stream, &origin)
    }

    /// A tensor with these elements, given in row-major order without gaps, in the memory that
    /// `stream` works on. For other memory than the host's, they are copied there by the device's
    /// host-to-device stream.
    ///
    /// # Errors
    /// The memory is used up, or there are more or fewer bytes than elements.
    #[track_caller]
    pub fn upload(&self, stream: &Stream, spec: TensorSpec, bytes: Vec<u8>) -> Result<Tensor> {
        self.upload_from(stream, spec, bytes, Origin::caller())
    }

    /// As [`Machine::upload`], for data that come from `origin`.
    ///
    /// # Errors
    /// As [`Machine::upload`].
    pub fn upload_from(
        &self,
        stream: &Stream,
        spec: TensorSpec,
        bytes: Vec<u8>,
        origin: Origin,
    ) -> Result<Tensor> {
        let expected = spec.numel() * spec.dtype.size();
        if bytes.len() != expected {
            let message = format!("{spec}: expected {expected} bytes, got {}", bytes.len());
            return Err(Error::Invalid { what: "data", message }.at(&origin));
        }
        let storage = spec.span_bytes() as u64;
        let target = self.empty_in(stream, spec.clone(), storage, origin.clone())?;
        if target.device().is_host() {
            target.access_from(Access::ReadWrite, origin, move |blob| blob.write_bytes(&bytes))?;
            return Ok(target);
        }
        let unordered = !self.shared.protection.waits() || !self.shared.protection.memory();
        if unordered {
            // The steps of an upload are not the program's to order, so the host waits for each.
            stream.synchronize_from(None, origin.clone())?;
        }
        let host = self.staging(target.device())?;
        let key = StreamKey::new(target.device().clone(), StreamType::HOST2DEVICE, 0);
        let staged = self.empty_in(&host, spec, storage, origin.clone())?;
        let written = staged
            .access_from(Access::ReadWrite, origin.clone(), move |blob| blob.write_bytes(&bytes))?;
        if unordered {
            written.wait_from(None, origin.clone())?;
        }
        let copy = self.any_stream(&key)?;
        self.call("copy", &[&staged]).from(origin.clone()).into(&[&target]).on(&copy)?;
        if unordered {
            copy.synchronize_from(None, origin)?;
        }
        Ok(target)
    }

    /// Puts a barrier between all that was submitted and all that will be.
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn barrier(&self) -> Result<Completion> {
        self.barrier_from(false, Origin::caller())
    }

    /// A barrier at which all ranks meet.
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn global_sync(&self) -> Result<Completion> {
        self.barrier_from(true, Origin::caller())
    }

    /// A barrier, at which all ranks meet if it is `global`, asked for at `origin`.
    ///
    /// # Errors
    /// The machine has been shut down.
    pub fn barrier_from(&self, global: bool, origin: Origin) -> Result<Completion> {
        let stream = self.host_stream(StreamType::BARRIER)?;
        let point = self.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            builder.barrier(router, stream.id, global, &origin).map(Outcome::Done)
        })?;
        Ok(self.completion_of(point))
    }

    pub(crate) fn completion_of(&self, point: Point) -> Completion {
        Completion::new(self.clone(), [point])
    }

    /// Begins an exclusive hold of tensors: until the section ends, they can be used only through
    /// it.
    ///
    /// # Errors
    /// A tensor was released, is held already, or is another machine's.
    #[track_caller]
    pub fn critical_section(&self, tensors: &[&Tensor]) -> Result<Section> {
        self.critical_section_from(tensors, Origin::caller())
    }

    /// As [`Machine::critical_section`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Machine::critical_section`].
    pub fn critical_section_from(&self, tensors: &[&Tensor], origin: Origin) -> Result<Section> {
        self.critical_section_within(tensors, None, origin)
    }

    /// As [`Machine::critical_section`], asked for at `origin`, perhaps from within another
    /// section: then calls from within the new one may use what either holds.
    ///
    /// # Errors
    /// As [`Machine::critical_section`].
    pub fn critical_section_within(
        &self,
        tensors: &[&Tensor],
        outer: Option<&Section>,
        origin: Origin,
    ) -> Result<Section> {
        let outer = outer.map(Section::id);
        let stream = self.host_stream(StreamType::CRITICAL_SECTION)?;
        let held: Result<SmallVec<[TensorRef; 4]>> = tensors.iter().map(|t| self.owns(t)).collect();
        let held = held.map_err(|e| e.at(&origin))?;
        let id = self.shared.emit(&origin, |e| {
            e.open(stream.id)?;
            let Emission { builder, router, .. } = e;
            let begun = builder.begin_nested_section(router, stream.id, &held, outer, &origin);
            begun.map(Outcome::Done)
        })?;
        Ok(Section::new(self.clone(), id, origin))
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("number", &self.shared.engine.machine).finish()
    }
}
