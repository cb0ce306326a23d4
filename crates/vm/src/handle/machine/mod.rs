//! The machine: its creation, its streams, and their order.
//!
//! Long because its items have examples.
//!
//! | module | holds |
//! |---|---|
//! | `config` | the configuration |
//! | `call` | calls of ops |
//! | `tensors` | new tensors, and the streams that serve them |
//! | `emit_call` | what the machine does with a call, below all layers |
//! | `current` | the current stream, and new streams |
//! | `event` | events |
//! | `wait` | waits of the host, and failures |
//! | `handoff` | what a wait between workers costs on this computer |
//! | `inspect` | statistics |
//! | `record` | recording of the emitted list |
//! | `profile` | recording of the times of a run |
//! | `settle` | the wait of measurements |

mod call;
mod composite;
mod config;
mod current;
mod emit_call;
mod event;
mod handoff;
mod inspect;
mod profile;
mod record;
mod settle;
mod tensors;
mod wait;

use std::fmt;
use std::sync::{Arc, PoisonError};

use crossbeam_queue::SegQueue;
use dashmap::DashMap;
use smallvec::SmallVec;

use millstream_instructions::builder::SectionId;
use millstream_instructions::{
    BuilderConfig, InstructionsBuilder, ListRecorder, Outcome, TensorRef,
};
use millstream_kernels::{KernelRegistry, Threads};
use millstream_ops::{OpRegistry, collective};
use millstream_runtime::driver::watchdog::Watchdog;
use millstream_runtime::driver::{Driver, DriverKind};
use millstream_runtime::engine::Engine;
use millstream_runtime::engine::closure_calls::ClosureCalls;
use millstream_runtime::engine::deferred::DeferredNotes;
use millstream_runtime::engine::leases::{Kind, Leases, Source};
use millstream_runtime::engine::push::{self, BulkScopes};
use millstream_runtime::engine::router::Router;
use millstream_runtime::engine::shared::MachineShared;
use millstream_runtime::engine::stall::Submitters;
use millstream_runtime::host::{HostTable, HostWorkers};
use millstream_runtime::profile::recording::ActiveRecording;
use millstream_runtime::scope::{fork, origin, reentrancy};
use millstream_runtime::sync::backoff::POLLS;
use millstream_runtime::sync::points::PointTable;
use millstream_runtime::sync::{self, AtomicBool, AtomicUsize, Mutex, OnceLock};
use millstream_runtime::tables::functions::{FunctionPlaces, FunctionTable};
use millstream_runtime::tables::loans::Loans;
use millstream_runtime::tables::poison::{FailureLog, Poison};
use millstream_runtime::tables::slots::Slots;
use millstream_runtime::tables::timed_records::TimedRecords;
use millstream_runtime::tables::{Backlog, Tables};
use millstream_stream_policy::{ArenaMemory, Catalog, PolicyTable};
use millstream_types::{
    DeviceId, Error, OpId, Origin, Point, Result, StreamKey, StreamMode, StreamType,
};

use crate::handle::request::{self, Request, Sole, Verb};
use crate::handle::{Completion, Section, Stream, Tensor};

pub use call::CallBuilder;
pub(crate) use call::Inputs;
pub use config::MachineConfig;
pub use profile::{Profiling, RangeGuard};

/// About ten microseconds of empty kernels, the time for which an idle worker checks its queue.
const STEPS_AT_ONCE: u32 = 4096;

/// A machine. Clones are the same machine.
///
/// ```
/// # use millstream_vm::*;
/// let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::arange(0..4, &machine)?;
/// let y = machine.call("mul", &[&x, &x]).run()?.remove(0);
/// assert_eq!(y.to_vec::<i64>()?, [0, 1, 4, 9]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Machine {
    pub(crate) shared: Arc<MachineShared>,
}

impl Machine {
    /// Creates a machine without opening a device or starting a thread.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// let machine = Machine::new(MachineConfig::default())?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Memory is to be checked, and the ops do not include `scrub`.
    pub fn new(mut config: MachineConfig) -> Result<Machine> {
        let mut policies = PolicyTable::standard(config.devices.clone());
        push::policies().into_iter().for_each(|policy| policies.register(policy));
        for policy in std::mem::take(&mut config.policies) {
            policies.register(policy);
        }
        let ops = Arc::new(std::mem::take(&mut config.ops));
        let places = std::env::var("MILLSTREAM_PLAN_PLACES").ok();
        let places = places.map(|text| config::places_of(&text)).transpose()?;
        let places = config.plan_places.or(places);
        let is_timed = !matches!(config.driver, DriverKind::Simulated | DriverKind::Check);
        let (watched, check_memory) = (config.watchdog.filter(|_| is_timed), config.check_memory);
        let mut shared = Machine::shared(config, Arc::new(policies), ops);
        let engine = shared.engine.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = places {
            engine.builder.set_inference_places(places);
        }
        if check_memory {
            engine.builder.check_memory()?;
        }
        let tables = shared.tables.clone();
        let watchdog = watched.map(|limit| Watchdog::start(tables, limit)).transpose()?;
        engine.router.watchdog.clone_from(&watchdog);
        shared.watchdog = watchdog;
        Ok(Machine { shared: Arc::new(shared) })
    }

    /// Returns a machine that records the list of an executable of this one, and only checks.
    pub(crate) fn of_list(&self) -> Machine {
        let policies = self.policies().clone();
        let (ops, kernels) = (OpRegistry::default(), KernelRegistry::default());
        let config = MachineConfig::of(ops, kernels, policies.devices().clone());
        let config = config.driver(DriverKind::Check).annotations(false);
        let config = config.communicator(self.communicator().clone());
        let mut shared = Machine::shared(config, policies, self.shared.tables.ops.clone());
        let engine = shared.engine.get_mut().unwrap_or_else(PoisonError::into_inner);
        engine.router.recorder = Some(ListRecorder::new());
        Machine { shared: Arc::new(shared) }
    }

    /// Returns the state of a machine with these streams and ops, in the place of those of its
    /// configuration.
    fn shared(
        config: MachineConfig,
        policies: Arc<PolicyTable>,
        ops: Arc<OpRegistry>,
    ) -> MachineShared {
        let machine = fork::number_machine();
        let memory = ArenaMemory::new(config.devices.clone(), config.memory_limits);
        let tables = Arc::new(Tables {
            machine,
            points: PointTable::new(),
            slots: Slots::new(),
            storage_roots: Slots::new(),
            calls: Slots::new(),
            functions: FunctionTable::new(&ops),
            loans: Loans::default(),
            poison: Poison::default(),
            failures: FailureLog::default(),
            host: HostTable::default(),
            host_workers: HostWorkers::new(machine, config.driver != DriverKind::Threaded),
            policies: policies.clone(),
            memory: Arc::new(memory),
            ops: ops.clone(),
            kernels: config.kernels,
            host_copy: std::sync::OnceLock::new(),
            kernels_by_op: DashMap::new(),
            events: DashMap::new(),
            timed_records: TimedRecords::default(),
            threads: Threads::new(
                config.threads,
                Arc::new(move || reentrancy::mark_thread(machine)),
            ),
            collectives: ops.iter().map(|op| collective::is(op.name())).collect(),
            communicator: config.communicator,
            next_barrier: millstream_runtime::sync::AtomicU64::new(0),
            lost: Default::default(),
            backlog: Backlog::default(),
            waiting: AtomicUsize::new(0),
            has_priorities: AtomicBool::new(false),
            steps_at_once: match config.driver {
                DriverKind::Threaded => STEPS_AT_ONCE,
                DriverKind::Inline | DriverKind::Check => u32::MAX,
                DriverKind::Simulated => 1,
            },
            step_checks: match config.driver {
                DriverKind::Threaded => POLLS,
                // No other thread makes the step.
                DriverKind::Inline | DriverKind::Simulated | DriverKind::Check => 0,
            },
        });
        let driver = match config.driver {
            DriverKind::Threaded => Driver::threaded(config.host_workers),
            DriverKind::Inline => Driver::inline(),
            DriverKind::Simulated => Driver::simulated(config.host_workers, config.simulation),
            DriverKind::Check => Driver::Check,
        };
        let catalog = Box::new(Catalog(policies));
        let mut builder = InstructionsBuilder::new(
            &BuilderConfig { sync: config.sync, ..BuilderConfig::default() },
            ops,
            catalog,
        );
        builder.set_protection(config.protection);
        let router = Router::new(tables.clone(), driver, config.annotations);
        let engine = Engine {
            builder,
            router,
            leases: Leases::default(),
            functions: FunctionPlaces::default(),
            closures: ClosureCalls::default(),
            bulks: BulkScopes::default(),
            deferred: DeferredNotes::default(),
            next_list: 0,
            entries: 0,
            is_broken: false,
            backpressure_skips: 0,
        };
        MachineShared {
            tables,
            engine: Mutex::new(engine),
            releases: SegQueue::new(),
            nested_pushes: sync::AtomicU64::new(0),
            has_queued_pushes: AtomicBool::new(false),
            has_bulk: AtomicBool::new(false),
            growth: Mutex::new(()),
            watermark: config.watermark.max(1),
            watermark_bytes: config.watermark_bytes,
            check_memory: config.check_memory,
            driver: config.driver,
            protection: config.protection,
            host_workers: config.host_workers,
            default_device: config.default_device,
            default_stream: OnceLock::default(),
            launch_stream: OnceLock::default(),
            closed: AtomicBool::new(false),
            watchdog: None,
            submitters: Submitters::new(config.submitters),
            recording: ActiveRecording::default(),
            abandoned: AtomicBool::new(false),
            programs: Mutex::default(),
        }
    }

    /// Returns the stream of this key: in the mode in which it is known, or a new in-order one. A
    /// stream costs nothing before its first instruction. Once its handles are gone, and many
    /// others were dropped after it, it may serve another key.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DeviceId, StreamKey};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let copies = machine.stream(&StreamKey::compute(DeviceId::cpu(0), 3))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, or no policy serves the stream.
    pub fn stream(&self, key: &StreamKey) -> Result<Stream> {
        self.named_stream(key, None)
    }

    /// Returns the stream of this key in the given mode: in-order or a pool.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DeviceId, StreamKey, StreamMode};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let key = StreamKey::compute(DeviceId::cpu(0), 5);
    /// let pool = machine.stream_with_mode(&key, StreamMode::Pool)?; // calls in any order
    /// machine.call("relu", &[&x]).on(&pool)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Machine::stream`], or it is known in another mode.
    pub fn stream_with_mode(&self, key: &StreamKey, mode: StreamMode) -> Result<Stream> {
        self.named_stream(key, Some(mode))
    }

    /// Returns the stream of a key, in any mode or in this one.
    fn named_stream(&self, key: &StreamKey, mode: Option<StreamMode>) -> Result<Stream> {
        let may_be_leased = (key.index > 0 || key.is_created) && mode != Some(StreamMode::Pool);
        let mut engine = self.shared.lock()?;
        while may_be_leased && engine.builder.known_id(key).is_none() {
            // Streams that were dropped before are free.
            self.shared.drain(&mut engine);
            let Engine { builder, router, leases, .. } = &mut *engine;
            let source = match router.is_recording() {
                // A list or a profile that is being recorded names each stream by one key.
                true => Source::New,
                false => leases.source(&self.named(key)?, builder),
            };
            match source {
                Source::Free(id) => {
                    builder.rename(id, key)?;
                    router.close(id);
                    self.shared.tables.failures.begin(builder.tail(id));
                }
                Source::Wait(point) if !reentrancy::is_within(self.shared.tables.machine) => {
                    drop(engine);
                    self.shared.wait_and_observe(&[point], &Origin::Unknown)?;
                    engine = self.shared.lock()?;
                }
                Source::New | Source::Wait(_) => break,
            }
        }
        let builder = &mut engine.builder;
        let id = match (builder.known_id(key), mode) {
            (Some(id), None) => id,
            (_, mode) => builder.stream_with_mode(key, mode.unwrap_or(StreamMode::InOrder))?,
        };
        let is_leased = may_be_leased && builder.mode(id) == Some(StreamMode::InOrder);
        let mut lease = engine.leases.of(&self.shared, id);
        if is_leased && lease.is_none() {
            let kind = self.named(key)?;
            lease = Some(engine.leases.begin(&self.shared, id, kind));
        }
        Ok(Stream { machine: self.clone(), id, key: key.clone(), lease })
    }

    /// Returns the streams that can stand for one of this key.
    fn named(&self, key: &StreamKey) -> Result<Kind> {
        let group = self.policies().query(key, |policy| policy.worker_group(key))?;
        Ok(Kind::Named(key.device.clone(), key.ty, group))
    }

    /// Returns the compute stream `index` of `device`: [`Machine::stream`] of the usual key.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DeviceId;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let second = machine.compute(&DeviceId::cpu(0), 1)?;
    /// let x = Tensor::from_slice(&[1.0f32], 1, &second)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Machine::stream`].
    pub fn compute(&self, device: &DeviceId, index: u32) -> Result<Stream> {
        self.stream(&StreamKey::compute(device.clone(), index))
    }

    fn host_stream(&self, ty: StreamType) -> Result<Stream> {
        self.stream(&StreamKey::new(DeviceId::cpu(0), ty, 0))
    }

    /// Returns the id of the op called `name`.
    ///
    /// # Errors
    /// There is none of that name; the error names the nearest.
    pub(crate) fn op(&self, name: &str) -> Result<OpId> {
        self.shared.tables.ops.id(name)
    }

    pub(crate) fn own(&self, machine: u64, what: &str) -> Result<()> {
        if machine == self.shared.tables.machine {
            return Ok(());
        }
        Err(Error::Foreign { what: what.to_owned() })
    }

    pub(crate) fn own_stream(&self, stream: &Stream) -> Result<()> {
        self.own(stream.machine.shared.tables.machine, "the stream")
    }

    pub(crate) fn own_section(&self, section: Option<&Section>) -> Result<Option<SectionId>> {
        let Some(section) = section else { return Ok(None) };
        self.own(section.machine().shared.tables.machine, "the critical section")?;
        Ok(Some(section.id()))
    }

    /// Puts a barrier between all earlier and all later instructions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?;
    /// machine.barrier()?.wait()?; // all calls before it
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn barrier(&self) -> Result<Completion> {
        self.barrier_at(false, origin::caller())
    }

    /// Puts a barrier at which all ranks synchronize.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// machine.global_sync()?.wait()?; // all calls of all ranks before it
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn global_sync(&self) -> Result<Completion> {
        self.barrier_at(true, origin::caller())
    }

    pub(crate) fn barrier_at(&self, global: bool, origin: Origin) -> Result<Completion> {
        let stream = self.host_stream(StreamType::BARRIER).map_err(|e| e.at(&origin))?;
        let barrier = Request::new(Verb::Barrier { machine: self, global }, &origin);
        let point = request::submit(barrier, |_| {
            let point = self.shared.emit(&origin, |e| {
                e.open(stream.id)?;
                let Engine { builder, router, .. } = e;
                builder.barrier(router, stream.id, global, &origin).map(Outcome::Done)
            });
            point.map(Some)
        })?;
        Ok(Completion::new(self.clone(), point))
    }

    pub(crate) fn completion_of(&self, point: Point) -> Completion {
        Completion::new(self.clone(), [point])
    }

    /// Begins a critical section, an exclusive hold of tensors: until the section ends, only calls
    /// within it can use them.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let section = machine.critical_section(&[&x])?; // nobody else uses x until it ends
    /// machine.call("neg_", &[&x]).within(&section).run()?;
    /// section.end()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor was released, is held already, or is another machine's.
    #[track_caller]
    pub fn critical_section(&self, tensors: &[&Tensor]) -> Result<Section> {
        self.critical_section_within(tensors, None)
    }

    /// Begins a section as [`Machine::critical_section`] does, perhaps from within another one:
    /// then calls from within the new section may use the tensors of both.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = x.relu()?;
    /// let outer = machine.critical_section(&[&x])?;
    /// let inner = machine.critical_section_within(&[&y], Some(&outer))?;
    /// inner.end()?;
    /// outer.end()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Machine::critical_section`].
    #[track_caller]
    pub fn critical_section_within(
        &self,
        tensors: &[&Tensor],
        outer: Option<&Section>,
    ) -> Result<Section> {
        let origin = origin::caller();
        let outer = outer.map(Section::id);
        let stream = self.host_stream(StreamType::CRITICAL_SECTION).map_err(|e| e.at(&origin))?;
        let held: Result<SmallVec<[TensorRef; 4]>> = tensors.iter().map(|t| self.owns(t)).collect();
        let held = held.map_err(|e| e.at(&origin))?;
        let begin = Request::new(Verb::BeginSection { machine: self }, &origin);
        let Sole(id) = request::submit(begin, |_| {
            let id = self.shared.emit(&origin, |e| {
                e.open(stream.id)?;
                let Engine { builder, router, .. } = e;
                let begun = builder.begin_nested_section(router, stream.id, &held, outer, &origin);
                begun.map(Outcome::Done)
            });
            id.map(Sole)
        })?;
        Ok(Section::new(self.clone(), id, origin))
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("number", &self.shared.tables.machine).finish()
    }
}
