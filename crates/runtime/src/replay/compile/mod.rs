//! From a list to tapes.
//!
//! Long because one match compiles all kinds of instructions.
//!
//! Streams become tapes: those that only order others have none, those of a synchronous host device
//! share a few, every other one has its own. The compiler walks the list once and keeps, for each
//! stream, how many steps of each tape have completed when the stream's next instruction runs. That
//! is the list's own order, projected to tapes: a wait between streams of one tape vanishes, since
//! a tape keeps the order of the list, and a wait between tapes is made only where no earlier wait
//! of the tape implies it.
//!
//! A launch within the list is replaced by the instructions of its executable, on streams of their
//! own, which begin with what the launch comes after and end before what comes after the launch.
//!
//! | module | holds |
//! |---|---|
//! | `scope` | a list on its way through the compiler |
//! | `streams` | the tape of each stream; waits between tapes |
//! | `draft` | tapes under construction |
//! | `bases` | the bases of a launch, once all arenas are known |
//! | `graphs` | the tapes that are launched as graphs |
//! | `numbers` | the numbers of collectives |

mod bases;
mod draft;
mod graphs;
#[cfg(test)]
mod graphs_tests;
mod numbers;
mod scope;
mod streams;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use millstream_instructions::passes::arena_bytes;
use millstream_instructions::{Body, Instruction, InstructionList, Operand, ScalarDecl, Via};
use millstream_kernels::{KernelSpec, PreparedKernel};
use millstream_ops::collective::Channel;
use millstream_types::{
    Attrs, DeviceId, Error, ListId, Origin, Point, ReadId, Result, TensorSpec, catch_panic,
};

use draft::{Clock, Draft, Source, join};
use scope::{Known, Scope, on_device};
use streams::SharedTapes;

use crate::tables::Tables;
use crate::tapes::MAX_OPERANDS;
use crate::tapes::graph::GraphPlan;
use crate::tapes::tape::{Action, Address, Formal, StepCall, StepOperand, Tape};

/// The result of compiling: everything of a program that depends on the list's instructions.
pub struct Compiled {
    /// The tapes.
    pub tapes: Box<[Tape]>,
    /// The tapes that are launched as graphs.
    pub graphs: Box<[GraphPlan]>,
    /// The private memory of an instance: for each device, so many bytes.
    pub memory: Box<[(DeviceId, u64)]>,
    /// How many native events a launch needs.
    pub events: u16,
    /// The host reads, by their ids in the list.
    pub reads: Box<[ReadId]>,
    /// The channels of the collectives, each with the number of its calls.
    pub channels: Box<[(Channel, u64)]>,
    /// The arguments of the calls to which each launch gives some.
    pub given: Box<[Arc<Attrs>]>,
}

/// Compiles a checked list. `formals` are its externals in order; their accesses and extents are
/// filled in, and their `specs` shared. Streams of the host share at most `host_tapes` tapes.
///
/// # Errors
/// An instruction cannot stand in an executable, or a number exceeds what tapes can hold.
pub fn compile(
    tables: &Tables,
    list: &InstructionList,
    formals: &mut [Formal],
    specs: SharedSpecs,
    host_tapes: usize,
) -> Result<Compiled> {
    for (formal, access) in formals.iter_mut().zip(list.external_uses()) {
        formal.access = access;
    }
    let mut compiler = Compiler::new(tables, formals, specs);
    let mut shared = SharedTapes { tapes: Vec::new(), most: host_tapes.max(1), next: 0 };
    let streams = compiler.open_tapes(list, &mut shared)?;
    for executable in &list.executables {
        let streams = compiler.open_tapes(executable, &mut shared)?;
        compiler.executables.push((executable, streams));
    }
    compiler.start_clocks();
    let mut scope = compiler.outermost(list, streams)?;
    compiler.instructions(&mut scope)?;
    Ok(compiler.finish(list))
}

/// Specs of a program, each of them once: of a thousand tensors most are like others.
#[derive(Default)]
pub struct SharedSpecs(FxHashSet<Arc<TensorSpec>>);

impl SharedSpecs {
    /// Returns a spec, shared with all equal ones.
    pub fn share(&mut self, spec: &TensorSpec) -> Arc<TensorSpec> {
        if let Some(known) = self.0.get(spec) {
            return known.clone();
        }
        let new = Arc::new(spec.clone());
        self.0.insert(new.clone());
        new
    }
}

struct Compiler<'a> {
    tables: &'a Tables,
    formals: &'a mut [Formal],
    specs: SharedSpecs,
    tapes: Vec<Draft>,
    /// The executables that the list launches, each with the tapes of its streams.
    executables: Vec<(&'a InstructionList, Vec<Option<u16>>)>,
    /// The tape of each stream; none for those that only order others.
    tape_of: Vec<Option<u16>>,
    /// For each stream, what has completed before its next instruction.
    clocks: Vec<Clock>,
    /// The clocks at the points that instructions wait for, the point included.
    at: FxHashMap<Point, Clock>,
    /// The points that instructions wait for.
    awaited: FxHashSet<Point>,
    host_tapes: u16,
    next_event: u16,
    storages: u32,
    reads: Vec<ReadId>,
    /// The channels of the collectives, each with the number of its calls so far.
    channels: Vec<(Channel, u64)>,
    /// The arguments of the calls to which each launch gives some.
    given: Vec<Arc<Attrs>>,
    /// The instruction that is compiled.
    source: Source,
}

fn too_many(what: &str) -> Error {
    Error::List { message: format!("an executable has at most 65,535 {what}") }
}

impl<'a> Compiler<'a> {
    fn new(tables: &'a Tables, formals: &'a mut [Formal], specs: SharedSpecs) -> Compiler<'a> {
        Compiler {
            tables,
            storages: formals.len() as u32,
            formals,
            specs,
            tapes: Vec::new(),
            executables: Vec::new(),
            tape_of: Vec::new(),
            clocks: Vec::new(),
            at: FxHashMap::default(),
            awaited: FxHashSet::default(),
            host_tapes: 0,
            next_event: 0,
            reads: Vec::new(),
            channels: Vec::new(),
            given: Vec::new(),
            source: (0, None),
        }
    }

    /// Begins the compiled list.
    fn outermost(
        &mut self,
        list: &'a InstructionList,
        tapes: Vec<Option<u16>>,
    ) -> Result<Scope<'a>> {
        let externals = list.externals.iter().enumerate().map(|(k, external)| {
            let start = Address { base: k as u32, offset: 0 };
            let spec = self.formals[k].spec.clone();
            (external.tensor, Known { storage: k as u32, start, spec })
        });
        let tensors = externals.collect();
        let none = self.no_steps();
        let first_stream = self.add_streams(list, tapes, &none)?;
        // Arenas without bytes have no base; `finish` renumbers the others.
        let arena = |k: usize| Address { base: (self.formals.len() + k) as u32, offset: 0 };
        let arenas = (0..list.arenas.len()).map(arena).collect();
        let (events, on_device) = (FxHashMap::default(), on_device(list));
        Ok(Scope { list, tensors, scalars: None, first_stream, arenas, events, on_device })
    }

    fn instructions(&mut self, scope: &mut Scope<'a>) -> Result<()> {
        for (index, Instruction { body, origin }) in scope.list.instructions.iter().enumerate() {
            self.source = match scope.first_stream {
                0 => (index as u32, None),
                _ => (self.source.0, Some(index as u32)),
            };
            self.instruction(scope, body, origin).map_err(|e| e.at(origin))?;
        }
        Ok(())
    }

    /// Compiles a launch: the instructions of the executable, with the operands for its externals
    /// and its arenas, and what the launch gives for its scalars.
    fn launch(
        &mut self,
        outer: &Scope<'a>,
        at: Point,
        list: ListId,
        operands: &[Operand],
        attrs: Option<&Attrs>,
    ) -> Result<()> {
        let undeclared = || Error::List { message: format!("{list} is not declared") };
        let (inner, tapes) = self.executables.get(list.index()).ok_or_else(undeclared)?;
        let (inner, tapes) = (*inner, tapes.clone());
        let (formals, memory) = operands.split_at(inner.externals.len().min(operands.len()));
        let mut tensors = FxHashMap::default();
        for (external, operand) in inner.externals.iter().zip(formals) {
            let given = outer.tensor(operand.tensor)?;
            // The list's offsets count from the declared one.
            let size = external.spec.dtype.size();
            let moved = given.spec.layout.offset().wrapping_sub(external.spec.layout.offset());
            let start = Address {
                offset: given.start.offset.wrapping_add(moved.wrapping_mul(size) as u64),
                ..given.start
            };
            let spec = self.specs.share(&external.spec);
            tensors.insert(external.tensor, Known { storage: given.storage, start, spec });
        }
        let mut memory = memory.iter();
        let mut arenas = Vec::new();
        for bytes in arena_bytes(inner) {
            let operand = if bytes > 0 { memory.next() } else { None };
            arenas.push(match operand {
                Some(operand) => outer.tensor(operand.tensor)?.start,
                None => Address { base: u32::MAX, offset: 0 },
            });
        }
        let before = self.clocks[at.stream.index()].clone();
        let first_stream = self.add_streams(inner, tapes, &before)?;
        let (events, on_device) = (FxHashMap::default(), on_device(inner));
        let given = |scalar: &ScalarDecl| {
            let given = attrs.and_then(|attrs| attrs.get(&scalar.name));
            given.map_or(scalar.value.into(), |given| outer.value(given))
        };
        let scalars = Some(inner.scalars.iter().map(given).collect());
        let list = inner;
        let mut scope = Scope { list, tensors, scalars, first_stream, arenas, events, on_device };
        self.instructions(&mut scope)?;
        let first = usize::from(first_stream);
        let mut after = before;
        self.clocks[first..first + inner.streams.len()].iter().for_each(|c| join(&mut after, c));
        self.clocks[at.stream.index()] = after;
        self.note(at);
        Ok(())
    }

    fn instruction(
        &mut self,
        scope: &mut Scope<'a>,
        body: &'a Body,
        origin: &Origin,
    ) -> Result<()> {
        match body {
            Body::AllocateTensor { tensor, spec, placement, .. } => {
                let start = scope.place(placement)?;
                let storage = self.storages;
                self.storages += 1;
                let spec = self.specs.share(spec);
                scope.tensors.insert(*tensor, Known { storage, start, spec });
            }
            Body::ViewTensor { tensor, of, spec } => {
                let whole = scope.tensor(*of)?.clone();
                scope.tensors.insert(*tensor, Known { spec: self.specs.share(spec), ..whole });
            }
            Body::ReleaseTensor { .. } | Body::SoftSyncStream { .. } => {}
            Body::OpCall { at, op, operands, attrs, workspace, .. } => {
                let workspace = workspace.as_deref().map(|p| Ok((scope.place(p)?, p.size)));
                let op = self.tables.ops.id(scope.list.ops.name(*op))?;
                let operands = self.operands(scope, operands)?;
                let number = self.number(op, attrs.as_deref())?;
                let attrs = attrs.as_ref().map(|attrs| scope.attrs(attrs));
                let call = StepCall {
                    kind: body.kind().name(),
                    op: Some(op),
                    operands,
                    given: self.given(attrs.as_ref()),
                    attrs,
                    workspace: workspace.transpose()?.map(Box::new),
                    origin: origin.clone(),
                    number: number.map(Box::new),
                };
                let at = scope.point(*at);
                let tape = self.ready(at.stream)?;
                let kernel = catch_panic(|| Ok(self.prepare(tape, &call)))
                    .map_err(|error: Error| error.at(origin))?;
                let draft = &mut self.tapes[usize::from(tape)];
                let (first, count) = match kernel {
                    Some(_) => draft.gather(&call),
                    None => (0, 0),
                };
                let call = draft.call(call);
                self.step(at, tape, Action::Call { kernel, first, count, call });
            }
            Body::SyncRead { at, operand, into } => {
                let into_at = u16::try_from(self.reads.len()).map_err(|_| too_many("reads"))?;
                // The reads of an executable within are nobody's.
                let own = scope.first_stream == 0;
                self.reads.push(if own { *into } else { ReadId(u32::MAX - u32::from(into_at)) });
                let call = self.host_call(scope, body, &[*operand], origin)?;
                let at = scope.point(*at);
                let tape = self.ready(at.stream)?;
                let call = self.tapes[usize::from(tape)].call(call);
                self.step(at, tape, Action::Read { call, into: into_at });
            }
            Body::AccessBlobByCallback { at, operand, callback } => {
                // The recorder numbers the functions of a list from 0.
                let callback = u16::try_from(callback.0).map_err(|_| too_many("callbacks"))?;
                let call = self.host_call(scope, body, &[*operand], origin)?;
                let at = scope.point(*at);
                let tape = self.ready(at.stream)?;
                let call = self.tapes[usize::from(tape)].call(call);
                self.step(at, tape, Action::Callback { call, callback });
            }
            Body::RecordEvent { at, event } => self.record(scope, *at, *event, origin)?,
            Body::StreamWaitEvent { at, until, via } => {
                self.wait(scope, at.stream, *until, *via, origin)?;
                self.note(scope.point(*at));
            }
            Body::StreamWait { at, until, via } => {
                if let Via::Device(event) = via {
                    self.record(scope, *until, *event, origin)?;
                }
                self.wait(scope, at.stream, *until, *via, origin)?;
                self.note(scope.point(*at));
            }
            Body::HostObserved { points } => {
                for point in points {
                    let clock = self.clock_at(scope.point(*point));
                    self.clocks_of(scope).iter_mut().for_each(|own| join(own, &clock));
                }
            }
            Body::Barrier { at } | Body::GlobalSync { at } => {
                let at = scope.point(*at);
                let mut all = self.no_steps();
                self.clocks_of(scope).iter().for_each(|one| join(&mut all, one));
                self.clocks[at.stream.index()] = all;
                if matches!(body, Body::GlobalSync { .. }) {
                    let call = self.host_call(scope, body, &[], origin)?;
                    let tape = self.ready(at.stream)?;
                    let call = self.tapes[usize::from(tape)].call(call);
                    self.step(at, tape, Action::GlobalSync { call });
                }
                self.note(at);
                let all = self.clocks[at.stream.index()].clone();
                self.clocks_of(scope).iter_mut().for_each(|own| join(own, &all));
            }
            Body::TouchTensors { at, .. }
            | Body::CriticalSectionBegin { at, .. }
            | Body::CriticalSectionEnd { at, .. } => self.note(scope.point(*at)),
            Body::LazyJobLauncher { at, list, operands, attrs } => {
                self.launch(scope, scope.point(*at), *list, operands, attrs.as_deref())?;
            }
        }
        Ok(())
    }

    /// Returns the clocks of a list's streams.
    fn clocks_of(&mut self, scope: &Scope<'_>) -> &mut [Clock] {
        let first = usize::from(scope.first_stream);
        &mut self.clocks[first..first + scope.list.streams.len()]
    }

    fn operands(&mut self, scope: &Scope<'_>, operands: &[Operand]) -> Result<Box<[StepOperand]>> {
        let mut made = Vec::with_capacity(operands.len());
        for &Operand { tensor, access } in operands {
            let Known { storage, start, spec } = scope.tensor(tensor)?.clone();
            let offset = (spec.layout.offset() * spec.dtype.size()) as u64;
            if let Some(formal) = self.formals.get_mut(storage as usize) {
                // Within a launch, offsets count from the tensor that is given there.
                let span = spec.span_bytes() as u64 - offset.min(spec.span_bytes() as u64);
                let begin = start.offset.wrapping_add(offset);
                formal.begin = formal.begin.min(begin);
                formal.end = formal.end.max(begin.wrapping_add(span));
            }
            let address = Address { base: start.base, offset: start.offset.wrapping_add(offset) };
            made.push(StepOperand { tensor, storage, access, address, spec });
        }
        Ok(made.into())
    }

    fn host_call(
        &mut self,
        scope: &Scope<'_>,
        body: &Body,
        operands: &[Operand],
        origin: &Origin,
    ) -> Result<StepCall> {
        Ok(StepCall {
            kind: body.kind().name(),
            op: None,
            operands: self.operands(scope, operands)?,
            attrs: None,
            given: None,
            workspace: None,
            origin: origin.clone(),
            number: None,
        })
    }

    /// Prepares the kernel of a call on a device whose streams run work at once.
    fn prepare(&self, tape: u16, call: &StepCall) -> Option<Arc<dyn PreparedKernel>> {
        let draft = &self.tapes[usize::from(tape)];
        // A prepared kernel holds its arguments, so they are the same in all launches.
        let addresses = call.operands.len() + usize::from(call.workspace.is_some());
        if draft.is_asynchronous || addresses > MAX_OPERANDS || call.given.is_some() {
            return None;
        }
        let device = self.tables.policies.devices().device(&draft.tape.key.device).ok()?;
        let op = self.tables.ops.get(call.op?)?;
        let kernel = self.tables.kernels.get(device.kernel_kind(), op.name())?;
        let operands: SmallVec<[Arc<TensorSpec>; 4]> =
            call.operands.iter().map(|o| o.spec.clone()).collect();
        let none = Attrs::new();
        let attrs = call.attrs.as_deref().unwrap_or(&none);
        let workspace = call.workspace.as_ref().map_or(0, |memory| memory.1 as usize);
        kernel.prepare(KernelSpec { operands: &operands, attrs, workspace })
    }
}
