//! Executables: lists that are captured once, compiled to tapes, and launched many times.
//!
//! Long because its items have examples.
//!
//! A launch is one instruction, [`LazyJobLauncher`](millstream_instructions::Body). Its operands
//! are the tensors for the list's formals and the private memory of an instance, so hazards order
//! it among all other instructions like any call, and two launches never share memory unordered.
//!
//! | module | holds |
//! |---|---|
//! | `recorder` | lists recorded on formals |
//! | `recorded_call`, `within` | the calls of such lists, and launches within them |
//! | `overflow` | whether a launch has written floats that are not finite |
//! | `recorded` | recorded lists: passes and compilation |
//! | `cached` | lists that were compiled before |
//! | `folded` | calls of constants, made once |
//! | `foreign` | lists made elsewhere, and their checks |
//! | `launch` | the launch of an executable: its operands and its instruction |
//! | `layer` | what the recording of a function does with each request |
//! | `function` | functions of tensors, recorded without running them |
//! | `gradients` | gradients that such functions find and leave, as state of launches |
//! | `kept` | memory of gradients that launches write again |
//! | `scalars` | the numbers that each launch gives: generators' draws |
//! | `launched` | a launch that was made: its completion and its results |
//! | `sharded` | functions on global tensors, compiled for the ranks of a mesh |
//! | `show` | the text of tapes |
//! | `workspace` | the private memory as a number, and as a tensor of the caller |
//!
//! Long because its items have examples.
//!
//! # Rules
//! 1. A tape keeps the order of the list, and every wait of a step is for an earlier instruction of
//!    the list. So the first unfinished instruction of a launch can always run.
//! 2. Launches are given to all their tapes' streams under the emission's lock. So two launches are
//!    in the same order on all streams that they share.
//! 3. The streams of a dropped executable's tapes serve later executables, also before its last
//!    launch has completed: what comes later on a stream waits for what came before.

mod cached;
mod folded;
mod foreign;
mod function;
mod gradients;
mod host_outputs;
mod kept;
mod launch;
mod launched;
mod layer;
mod overflow;
mod recorded;
mod recorded_call;
mod recorder;
mod resized;
pub(crate) mod scalars;
mod sharded;
mod show;
mod within;
mod workspace;

use std::fmt;
use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;

use millstream_instructions::InstructionList;
use millstream_runtime::driver::DriverKind;
use millstream_runtime::engine::Release;
use millstream_runtime::host::SharedCallback;
use millstream_runtime::replay::compile::{self, SharedSpecs};
use millstream_runtime::replay::instance::Instances;
use millstream_runtime::sync::Mutex;
use millstream_runtime::tapes::Ended;
use millstream_runtime::tapes::graph::GraphStatus;
use millstream_runtime::tapes::tape::{Formal, FormalKind, OutputSpec, Program};
use millstream_types::{DeviceId, Error, ListId, Result};

use crate::handle::Tensor;
use crate::handle::generator::Generator;
use crate::handle::machine::Machine;

pub use folded::FoldedCalls;
pub use foreign::accepts;
use gradients::LaunchedLeaf;
use kept::KeptOutput;
pub use launch::LaunchBuilder;
pub use launched::Launched;
pub use recorded::{Recorded, USUAL_PASSES};
pub use recorded_call::RecordedCall;
pub use recorder::{RecordedTensor, Recorder};
pub use sharded::{ShardBuilder, Sharded};
pub use within::RecordedLaunch;
pub use workspace::Workspace;

/// A compiled list. Clones are the same executable.
///
/// Its memory, streams and ids are free for others once the last clone is dropped and the last
/// launch has completed.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let f = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// for _ in 0..3 {
///     f.launch().input("x", &x).run()?; // checked and compiled once
/// }
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Executable(Arc<ExecutableInner>);

struct ExecutableInner {
    machine: Machine,
    program: Arc<Program>,
    list: ListId,
    /// The tensors that were bound when the list was recorded, one for each formal.
    bound: Box<[Option<Tensor>]>,
    folded: FoldedCalls,
    /// The leaves that launches read and set.
    gradients: Box<[LaunchedLeaf]>,
    /// The outputs whose tensors later launches write again.
    kept: Mutex<Box<[KeptOutput]>>,
    /// The generators that its launches draw from, by number.
    generators: Box<[Generator]>,
    instances: Mutex<Instances>,
}

impl Executable {
    /// Returns the machine.
    pub(crate) fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// Sets how many launches may be under way at the same time, each with private memory of its
    /// own. The memory is allocated when a launch first needs it. The default is 1; at least 1.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// f.set_instances(2); // at most two launches overlap
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn set_instances(&self, most: usize) {
        self.0.instances.lock().unwrap_or_else(PoisonError::into_inner).most = most.max(1);
    }

    /// Returns the bytes of private memory that each instance takes, by device.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// println!("{:?}", f.private_memory());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn private_memory(&self) -> &[(DeviceId, u64)] {
        &self.0.program.memory
    }

    /// Returns how many instances have private memory.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// f.launch().input("x", &x).run()?.wait()?;
    /// println!("{} in use", f.instances());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn instances(&self) -> usize {
        self.0.instances.lock().unwrap_or_else(PoisonError::into_inner).all.len()
    }

    /// Returns the list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(f.list().externals.len(), 2);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn list(&self) -> &InstructionList {
        &self.0.program.list
    }

    /// Returns the id by which lists name the executable.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// println!("{}", f.id());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn id(&self) -> ListId {
        self.0.list
    }

    /// Describes the tapes: a line for each step, with its operands as base and offset, a line for
    /// the calls of constants that were made once, and one for each device with graphs.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// assert!(f.describe().contains("relu"));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn describe(&self) -> String {
        let Executable(inner) = self;
        let ops = &*inner.machine.shared.tables.ops;
        let mut text = show::Shown { program: &inner.program, ops }.to_string();
        if inner.folded.calls > 0 {
            text += &format!("{}\n", inner.folded);
        }
        for status in self.graphs() {
            text += &format!("{status}\n");
        }
        text
    }

    /// Returns how its tapes are launched on each device with graphs: as a graph, or call by call
    /// and why.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// assert!(f.graphs().is_empty()); // the host has no graphs
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn graphs(&self) -> Vec<GraphStatus> {
        let instances = self.0.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |(number, plan)| {
            let all = instances.all.iter().chain(&instances.lent);
            GraphStatus::of(plan, number, all.map(|one| &*one.graphs))
        };
        self.0.program.graphs.iter().enumerate().map(status).collect()
    }

    /// Returns how many steps each of its tapes has.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// println!("{:?} steps", f.tapes());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn tapes(&self) -> Vec<usize> {
        self.0.program.tapes.iter().map(|tape| tape.steps.len()).collect()
    }
}

impl Drop for ExecutableInner {
    fn drop(&mut self) {
        let instances = self.instances.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut ended = Ended { memory: SmallVec::new(), tapes: SmallVec::new() };
        for instance in instances.all.drain(..).chain(instances.lent.take()) {
            ended.memory.extend(instance.memory);
            let keys = self.program.tapes.iter().map(|tape| tape.key.clone());
            ended.tapes.extend(keys.zip(instance.tapes));
        }
        if !ended.memory.is_empty() || !ended.tapes.is_empty() {
            self.machine.shared.release(Release::Executable(Box::new(ended)));
        }
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable({}, tapes of {:?} steps)", self.0.list, self.tapes())
    }
}

/// A formal that was declared.
#[derive(Clone)]
struct Declared {
    kind: FormalKind,
    bound: Option<Tensor>,
    /// Whether its content is the same in all launches.
    is_constant: bool,
}

impl Declared {
    const fn new(kind: FormalKind) -> Declared {
        Declared { kind, bound: None, is_constant: false }
    }

    const fn bound(tensor: Tensor, is_constant: bool) -> Declared {
        Declared { kind: FormalKind::Bound, bound: Some(tensor), is_constant }
    }
}

/// The parts of a list that its instructions do not say.
#[derive(Default)]
struct Signature {
    formals: Vec<Declared>,
    /// The calls that are no longer in the list.
    folded: FoldedCalls,
    outputs: Vec<OutputSpec>,
    callbacks: Vec<SharedCallback>,
    /// The leaves that launches read and set.
    gradients: Vec<LaunchedLeaf>,
    /// The numbers of the outputs that are gradients.
    kept: Vec<usize>,
    /// The generators of the list, by number.
    generators: Vec<Generator>,
}

impl Machine {
    /// Compiles a list that is known to be sound.
    fn compile_sound(
        &self,
        mut list: InstructionList,
        mut signature: Signature,
    ) -> Result<Executable> {
        let Signature { formals: declared, outputs, callbacks, .. } = &mut signature;
        let (mut outputs, callbacks) = (std::mem::take(outputs), std::mem::take(callbacks));
        // It lives as long as the executable.
        list.streams.shrink_to_fit();
        list.arenas.shrink_to_fit();
        list.externals.shrink_to_fit();
        list.instructions.shrink_to_fit();
        let mut specs = SharedSpecs::default();
        let formal = |(external, declared): (&millstream_instructions::External, &Declared)| {
            if external.arena.index() >= list.arenas.len() {
                let message = format!("{} is not declared", external.arena);
                return Err(Error::List { message });
            }
            Ok(Formal {
                kind: declared.kind,
                spec: specs.share(&external.spec),
                access: None,
                begin: u64::MAX,
                end: 0,
            })
        };
        let formals: Result<Box<[Formal]>> =
            list.externals.iter().zip(&*declared).map(formal).collect();
        let mut formals = formals?;
        for output in &mut outputs {
            output.spec = specs.share(&output.spec);
        }
        let tables = &self.shared.tables;
        let host_tapes = match self.shared.driver {
            DriverKind::Threaded => self.shared.host_workers,
            DriverKind::Inline | DriverKind::Check => 1,
            // Each order that the list allows is to be tried.
            DriverKind::Simulated => usize::MAX,
        };
        let mut compiled = compile::compile(tables, &list, &mut formals, specs, host_tapes)?;
        if self.shared.watchdog.is_some() {
            // Its reports name the step at which a tape stands.
            compiled.tapes.iter_mut().for_each(|tape| tape.publishes.fill(true));
        }
        let program = Arc::new(Program {
            list,
            formals,
            outputs: outputs.into(),
            memory: compiled.memory,
            tapes: compiled.tapes,
            graphs: compiled.graphs,
            events: compiled.events,
            reads: compiled.reads,
            callbacks: callbacks.into(),
            channels: compiled.channels,
            given: compiled.given,
        });
        self.executable_of(program, signature)
    }

    /// Returns an executable of a program, with the tensors, leaves and generators of a signature.
    fn executable_of(&self, program: Arc<Program>, signature: Signature) -> Result<Executable> {
        let Signature { formals, folded, gradients, kept, generators, .. } = signature;
        let list = {
            let mut engine = self.shared.lock()?;
            let next = engine.next_list.checked_add(1);
            let full = || Error::Invalid {
                what: "executable",
                message: "a machine numbers at most 2^32 - 1 executables".to_owned(),
            };
            ListId(std::mem::replace(&mut engine.next_list, next.ok_or_else(full)?))
        };
        let instances =
            Mutex::new(Instances { all: SmallVec::new(), lent: None, most: 1, launches: 0 });
        let machine = self.clone();
        let bound = formals.into_iter().map(|formal| formal.bound).collect();
        let gradients = gradients.into();
        let generators = generators.into();
        let kept = kept.into_iter().filter_map(|output| KeptOutput::new(&program, output));
        let kept = Mutex::new(kept.collect());
        let inner = ExecutableInner {
            machine,
            program,
            list,
            bound,
            folded,
            gradients,
            kept,
            generators,
            instances,
        };
        Ok(Executable(Arc::new(inner)))
    }
}
