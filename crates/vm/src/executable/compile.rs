//! From a list to tapes.
//!
//! Streams become tapes: those that only order others have none, those of a synchronous host device
//! share a few, every other one has its own. The compiler walks the list once and keeps, for each
//! stream, how many steps of each tape have completed when the stream's next instruction runs. That
//! is the list's own order, projected to tapes: a wait between streams of one tape vanishes, since
//! a tape keeps the order of the list, and a wait between tapes is made only where no earlier wait
//! of the tape implies it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::passes::arena_bytes;
use millstream_instructions::{Body, InstructionList, Kind, Operand, Placement, StreamDecl, Via};
use millstream_kernels::{KernelSpec, PreparedKernel};
use millstream_types::{
    Attrs, DeviceId, Error, EventId, Origin, Point, Result, StreamId, TensorId, TensorSpec,
    WorkKind,
};

use crate::tables::Tables;

use super::tape::{Action, Address, Formal, StepCall, StepOperand, Tape};

/// For each tape, how many of its steps have completed.
type Clock = SmallVec<[u32; 4]>;

/// The number of operands up to which a prepared kernel is called. A tape gathers the addresses of
/// a call on its stack.
pub(crate) const MAX_OPERANDS: usize = 16;

/// How many addresses are resolved together. Each call has full groups.
pub(crate) const GROUP: usize = 4;

/// The result of compiling: everything of a program that depends on the list's instructions.
pub(crate) struct Compiled {
    pub(crate) tapes: Vec<Tape>,
    pub(crate) memory: Vec<(DeviceId, u64)>,
    pub(crate) events: u16,
    pub(crate) reads: Vec<millstream_types::ReadId>,
}

/// Compiles a checked list. `formals` are its externals in order; their accesses and extents are
/// filled in. Streams of the host share at most `host_tapes` tapes.
///
/// # Errors
/// An instruction cannot stand in an executable, or a number exceeds what tapes can hold.
pub(crate) fn compile(
    tables: &Tables,
    list: &InstructionList,
    formals: &mut [Formal],
    host_tapes: usize,
) -> Result<Compiled> {
    for (formal, access) in formals.iter_mut().zip(list.external_uses()) {
        formal.access = access;
    }
    let mut compiler = Compiler::new(tables, list, formals, host_tapes)?;
    for instruction in &list.instructions {
        let compiled = compiler.instruction(&instruction.body, &instruction.origin);
        compiled.map_err(|e| e.at(&instruction.origin))?;
    }
    Ok(compiler.finish())
}

/// A tensor of the list.
#[derive(Clone)]
struct Known {
    storage: u32,
    /// The storage's first byte.
    start: Address,
    spec: TensorSpec,
}

/// A tape under construction.
struct Draft {
    tape: Tape,
    steps: Vec<Action>,
    publishes: Vec<bool>,
    addresses: Vec<Address>,
    calls: Vec<StepCall>,
    is_asynchronous: bool,
    /// What has completed before the tape's next step.
    known: Clock,
    /// `known` from a number of steps on, each time that it has grown.
    history: Vec<(u32, Clock)>,
}

struct Compiler<'a> {
    tables: &'a Tables,
    list: &'a InstructionList,
    formals: &'a mut [Formal],
    tensors: HashMap<TensorId, Known>,
    tapes: Vec<Draft>,
    /// The tape of each stream; none for those that only order others.
    tape_of: Vec<Option<u16>>,
    /// For each stream, what has completed before its next instruction.
    clocks: Vec<Clock>,
    /// The clocks at the points that instructions wait for, the point included.
    at: HashMap<Point, Clock>,
    /// The points that instructions wait for.
    awaited: HashSet<Point>,
    /// The native event of each event that is awaited on a device, and its step.
    events: HashMap<EventId, (u16, u16, u32)>,
    on_device: HashSet<EventId>,
    next_event: u16,
    storages: u32,
    reads: Vec<millstream_types::ReadId>,
}

fn too_many(what: &str) -> Error {
    Error::List { message: format!("an executable has at most 65,535 {what}") }
}

impl<'a> Compiler<'a> {
    fn new(
        tables: &'a Tables,
        list: &'a InstructionList,
        formals: &'a mut [Formal],
        host_tapes: usize,
    ) -> Result<Compiler<'a>> {
        let mut tensors = HashMap::new();
        for (k, external) in list.externals.iter().enumerate() {
            let start = Address { base: k as u32, offset: 0 };
            let spec = external.spec.clone();
            tensors.insert(external.tensor, Known { storage: k as u32, start, spec });
        }
        let (awaited, on_device) = awaited(list);
        let mut compiler = Compiler {
            tables,
            list,
            storages: formals.len() as u32,
            formals,
            tensors,
            tapes: Vec::new(),
            tape_of: Vec::new(),
            clocks: Vec::new(),
            at: HashMap::new(),
            awaited,
            events: HashMap::new(),
            on_device,
            next_event: 0,
            reads: Vec::new(),
        };
        compiler.open_tapes(host_tapes.max(1))?;
        Ok(compiler)
    }

    /// Decides which streams share tapes.
    fn open_tapes(&mut self, host_tapes: usize) -> Result<()> {
        let list = self.list;
        // A stream that only orders others has a tape if it meets other ranks.
        let syncs: HashSet<StreamId> = list
            .instructions
            .iter()
            .filter_map(|i| match i.body {
                Body::GlobalSync { at } => Some(at.stream),
                _ => None,
            })
            .collect();
        let mut shared: Vec<u16> = Vec::new();
        let mut next = 0;
        for (k, decl) in list.streams.iter().enumerate() {
            let policy = self.tables.policies.policy(&decl.key)?;
            let syncs = syncs.contains(&StreamId(k as u16));
            if !policy.runs_native() && !syncs {
                self.tape_of.push(None);
                continue;
            }
            let is_asynchronous = policy.runs_native()
                && self.tables.policies.devices().capabilities(&decl.key.device)?.asynchronous;
            // A collective holds its tape until the other ranks have come, and a rank barrier too.
            let can_share = !is_asynchronous && !syncs && !decl.work.contains(WorkKind::Collective);
            if can_share && shared.len() == host_tapes {
                self.tape_of.push(Some(shared[next % host_tapes]));
                next += 1;
                continue;
            }
            let tape = u16::try_from(self.tapes.len()).map_err(|_| too_many("tapes"))?;
            if can_share {
                shared.push(tape);
            }
            self.tape_of.push(Some(tape));
            let on_host = (!is_asynchronous).then_some(tape);
            self.tapes.push(Draft::new(decl, on_host, is_asynchronous));
        }
        let none = Clock::from_elem(0, self.tapes.len());
        self.clocks = vec![none.clone(); list.streams.len()];
        for draft in &mut self.tapes {
            draft.known = none.clone();
        }
        Ok(())
    }

    fn instruction(&mut self, body: &Body, origin: &Origin) -> Result<()> {
        match body {
            Body::AllocateTensor { tensor, spec, placement, .. } => {
                let start = self.place(placement)?;
                let storage = self.storages;
                self.storages += 1;
                let spec = (**spec).clone();
                self.tensors.insert(*tensor, Known { storage, start, spec });
            }
            Body::ViewTensor { tensor, of, spec } => {
                let whole = self.tensor(*of)?.clone();
                self.tensors.insert(*tensor, Known { spec: (**spec).clone(), ..whole });
            }
            Body::ReleaseTensor { .. } | Body::SoftSyncStream { .. } => {}
            Body::OpCall { at, op, operands, attrs, workspace, .. } => {
                let workspace = workspace.as_deref().map(|p| Ok((self.place(p)?, p.size)));
                let op = self.tables.ops.id(self.list.ops.name(*op))?;
                let operands = self.operands(operands)?;
                let call = StepCall {
                    kind: body.kind().name(),
                    op: Some(op),
                    operands,
                    attrs: attrs.clone(),
                    workspace: workspace.transpose()?,
                    origin: origin.clone(),
                };
                let tape = self.ready(at.stream)?;
                let kernel = self.prepare(tape, &call);
                let draft = &mut self.tapes[usize::from(tape)];
                let (first, count) = match kernel {
                    Some(_) => draft.gather(&call.operands),
                    None => (0, 0),
                };
                let call = draft.call(call);
                self.step(*at, tape, Action::Call { kernel, first, count, call });
            }
            Body::SyncRead { at, operand, into } => {
                let into_at = u16::try_from(self.reads.len()).map_err(|_| too_many("reads"))?;
                self.reads.push(*into);
                let call = self.host_call(body, &[*operand], origin)?;
                let tape = self.ready(at.stream)?;
                let call = self.tapes[usize::from(tape)].call(call);
                self.step(*at, tape, Action::Read { call, into: into_at });
            }
            Body::AccessBlobByCallback { at, operand, callback } => {
                // The recorder numbers the functions of a list from 0.
                let callback = u16::try_from(callback.0).map_err(|_| too_many("callbacks"))?;
                let call = self.host_call(body, &[*operand], origin)?;
                let tape = self.ready(at.stream)?;
                let call = self.tapes[usize::from(tape)].call(call);
                self.step(*at, tape, Action::Callback { call, callback });
            }
            Body::RecordEvent { at, event } => self.record(*at, *event, origin)?,
            Body::StreamWaitEvent { at, until, via } => {
                self.wait(at.stream, *until, *via, origin)?;
                self.note(*at);
            }
            Body::StreamWait { at, until, via } => {
                if let Via::Device(event) = via {
                    self.record(*until, *event, origin)?;
                }
                self.wait(at.stream, *until, *via, origin)?;
                self.note(*at);
            }
            Body::HostObserved { points } => {
                for point in points {
                    let clock = self.clock_at(*point);
                    self.clocks.iter_mut().for_each(|own| join(own, &clock));
                }
            }
            Body::Barrier { at } | Body::GlobalSync { at } => {
                let all = self.clocks.iter().fold(
                    self.clocks[at.stream.index()].clone(),
                    |mut all, one| {
                        join(&mut all, one);
                        all
                    },
                );
                self.clocks[at.stream.index()] = all;
                if matches!(body, Body::GlobalSync { .. }) {
                    let call = self.host_call(body, &[], origin)?;
                    let tape = self.ready(at.stream)?;
                    let call = self.tapes[usize::from(tape)].call(call);
                    self.step(*at, tape, Action::GlobalSync { call });
                }
                self.note(*at);
                let all = self.clocks[at.stream.index()].clone();
                self.clocks.iter_mut().for_each(|own| join(own, &all));
            }
            Body::TouchTensors { at, .. }
            | Body::CriticalSectionBegin { at, .. }
            | Body::CriticalSectionEnd { at, .. } => self.note(*at),
            Body::LazyJobLauncher { .. } => {
                let message = "an executable cannot be launched from a list of instructions that \
                               becomes an executable; record its calls instead"
                    .to_owned();
                return Err(Error::List { message });
            }
        }
        Ok(())
    }

    fn place(&mut self, placement: &Placement) -> Result<Address> {
        let arena = placement.arena.index();
        let undeclared = || Error::List { message: format!("{} is not declared", placement.arena) };
        self.list.arenas.get(arena).ok_or_else(undeclared)?;
        if placement.offset.checked_add(placement.size).is_none() {
            let message = "a placement ends past all memory".to_owned();
            return Err(Error::List { message });
        }
        // Arenas without bytes have no base; `finish` renumbers the others.
        Ok(Address { base: (self.formals.len() + arena) as u32, offset: placement.offset })
    }

    fn tensor(&self, tensor: TensorId) -> Result<&Known> {
        let unknown = || Error::List { message: format!("{tensor} is used before it begins") };
        self.tensors.get(&tensor).ok_or_else(unknown)
    }

    fn operands(&mut self, operands: &[Operand]) -> Result<SmallVec<[StepOperand; 3]>> {
        let mut made = SmallVec::new();
        for &Operand { tensor, access } in operands {
            let Known { storage, start, spec } = self.tensor(tensor)?.clone();
            let offset = (spec.layout.offset() * spec.dtype.size()) as u64;
            if let Some(formal) = self.formals.get_mut(storage as usize) {
                formal.begin = formal.begin.min(offset);
                formal.end = formal.end.max(spec.span_bytes() as u64);
            }
            let address = Address { base: start.base, offset: start.offset + offset };
            made.push(StepOperand { tensor, storage, access, address, spec });
        }
        Ok(made)
    }

    fn host_call(
        &mut self,
        body: &Body,
        operands: &[Operand],
        origin: &Origin,
    ) -> Result<StepCall> {
        Ok(StepCall {
            kind: body.kind().name(),
            op: None,
            operands: self.operands(operands)?,
            attrs: None,
            workspace: None,
            origin: origin.clone(),
        })
    }

    /// Adds the rest of a record or a wait.
    fn order_call(&mut self, kind: Kind, tape: u16, origin: &Origin) -> u32 {
        self.tapes[usize::from(tape)].call(StepCall {
            kind: kind.name(),
            op: None,
            operands: SmallVec::new(),
            attrs: None,
            workspace: None,
            origin: origin.clone(),
        })
    }

    /// Prepares the kernel of a call on a device whose streams run work at once.
    fn prepare(&self, tape: u16, call: &StepCall) -> Option<Arc<dyn PreparedKernel>> {
        let draft = &self.tapes[usize::from(tape)];
        if draft.is_asynchronous || call.operands.len() > MAX_OPERANDS {
            return None;
        }
        let device = self.tables.policies.devices().device(&draft.tape.key.device).ok()?;
        let op = self.tables.ops.get(call.op?)?;
        let kernel = self.tables.kernels.get(device.kernel_kind(), op.name())?;
        let operands: SmallVec<[TensorSpec; 4]> =
            call.operands.iter().map(|o| o.spec.clone()).collect();
        let none = Attrs::new();
        let attrs = call.attrs.as_deref().unwrap_or(&none);
        kernel.prepare(KernelSpec { operands: &operands, attrs })
    }

    /// Makes the waits that the next instruction of a stream needs, and returns the stream's tape.
    fn ready(&mut self, stream: StreamId) -> Result<u16> {
        let none = || Error::List { message: format!("{stream} runs no work") };
        let tape = self.tape_of[stream.index()].ok_or_else(none)?;
        let needs = self.clocks[stream.index()].clone();
        for (source, &steps) in needs.iter().enumerate() {
            if source == usize::from(tape) || self.tapes[usize::from(tape)].known[source] >= steps {
                continue;
            }
            self.tapes[source].publishes[steps as usize - 1] = true;
            let brought = self.tapes[source].known_at(steps);
            let draft = &mut self.tapes[usize::from(tape)];
            draft.push(Action::Wait { tape: source as u16, steps });
            draft.learn(source, steps, brought.as_ref());
        }
        Ok(tape)
    }

    /// Adds a step at a point of a stream.
    fn step(&mut self, at: Point, tape: u16, action: Action) {
        let draft = &mut self.tapes[usize::from(tape)];
        draft.push(action);
        let done = draft.steps.len() as u32;
        self.clocks[at.stream.index()][usize::from(tape)] = done;
        self.note(at);
    }

    /// Keeps the clock at a point that an instruction waits for.
    fn note(&mut self, at: Point) {
        if self.awaited.contains(&at) {
            self.at.insert(at, self.clocks[at.stream.index()].clone());
        }
    }

    /// Returns the clock at a point. A list that was taken on trust may lack the instruction there;
    /// then it is the clock of what the stream has so far.
    fn clock_at(&self, point: Point) -> Clock {
        if point.seq == 0 {
            return Clock::from_elem(0, self.tapes.len());
        }
        self.at.get(&point).unwrap_or(&self.clocks[point.stream.index()]).clone()
    }

    fn record(&mut self, at: Point, event: EventId, origin: &Origin) -> Result<()> {
        let tape = self.tape_of[at.stream.index()];
        let Some(tape) = tape.filter(|_| self.on_device.contains(&event)) else {
            self.note(at);
            return Ok(());
        };
        if !self.tapes[usize::from(tape)].is_asynchronous {
            self.note(at);
            return Ok(());
        }
        let slot = self.next_event;
        self.next_event = slot.checked_add(1).ok_or_else(|| too_many("events"))?;
        // What the stream waits for by the host comes before the record.
        self.ready(at.stream)?;
        let call = self.order_call(Kind::RecordEvent, tape, origin);
        self.step(at, tape, Action::Record { event: slot, call });
        let steps = self.tapes[usize::from(tape)].steps.len() as u32;
        self.events.insert(event, (slot, tape, steps));
        Ok(())
    }

    fn wait(&mut self, stream: StreamId, until: Point, via: Via, origin: &Origin) -> Result<()> {
        let clock = self.clock_at(until);
        if let Via::Device(event) = via
            && let Some(&(slot, source, steps)) = self.events.get(&event)
            && let Some(tape) = self.tape_of[stream.index()]
            && self.tapes[usize::from(tape)].is_asynchronous
            && tape != source
            && self.tapes[usize::from(tape)].known[usize::from(source)] < steps
        {
            self.ready(stream)?;
            let brought = self.tapes[usize::from(source)].known_at(steps);
            let call = self.order_call(Kind::StreamWaitEvent, tape, origin);
            let draft = &mut self.tapes[usize::from(tape)];
            draft.push(Action::WaitOnDevice { event: slot, tape: source, steps, call });
            draft.learn(usize::from(source), steps, brought.as_ref());
            let done = draft.steps.len() as u32;
            self.clocks[stream.index()][usize::from(tape)] = done;
        }
        join(&mut self.clocks[stream.index()], &clock);
        Ok(())
    }

    fn finish(self) -> Compiled {
        // Bases are numbered without the arenas that hold nothing.
        let mut memory = Vec::new();
        let mut numbers = Vec::new();
        for (device, bytes) in self.list.arenas.iter().zip(arena_bytes(self.list)) {
            numbers.push((self.formals.len() + memory.len()) as u32);
            if bytes > 0 {
                memory.push((device.clone(), bytes));
            }
        }
        // A tensor of no bytes in an empty arena gets any base: no byte is accessed.
        let last = (self.formals.len() + memory.len()).saturating_sub(1) as u32;
        let formals = self.formals.len();
        let renumber = |address: &mut Address| {
            if let Some(arena) = (address.base as usize).checked_sub(formals) {
                address.base = numbers[arena].min(last);
            }
        };
        let tapes = self.tapes.into_iter().map(|mut draft| {
            draft.addresses.iter_mut().for_each(renumber);
            for call in &mut draft.calls {
                call.operands.iter_mut().for_each(|o| renumber(&mut o.address));
                call.workspace.iter_mut().for_each(|(address, _)| renumber(address));
            }
            draft.finish()
        });
        Compiled { tapes: tapes.collect(), memory, events: self.next_event, reads: self.reads }
    }
}

/// Returns the points that instructions of a list wait for, and the events that they wait for on
/// the device.
fn awaited(list: &InstructionList) -> (HashSet<Point>, HashSet<EventId>) {
    let (mut points, mut events) = (HashSet::new(), HashSet::new());
    for instruction in &list.instructions {
        points.extend(instruction.body.until());
        if let Body::HostObserved { points: observed } = &instruction.body {
            points.extend(observed.iter().copied());
        }
        if let Body::StreamWaitEvent { via: Via::Device(event), .. }
        | Body::StreamWait { via: Via::Device(event), .. } = &instruction.body
        {
            events.insert(*event);
        }
    }
    (points, events)
}

/// Joins `other` to a clock.
fn join(own: &mut Clock, other: &Clock) {
    for (own, other) in own.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

impl Draft {
    fn new(decl: &StreamDecl, on_host: Option<u16>, is_asynchronous: bool) -> Draft {
        let tape = Tape {
            key: decl.key.clone(),
            on_host,
            steps: Box::default(),
            publishes: Box::default(),
            addresses: Box::default(),
            calls: Box::default(),
        };
        Draft {
            tape,
            steps: Vec::new(),
            publishes: Vec::new(),
            addresses: Vec::new(),
            calls: Vec::new(),
            is_asynchronous,
            known: Clock::new(),
            history: Vec::new(),
        }
    }

    fn push(&mut self, action: Action) {
        self.steps.push(action);
        self.publishes.push(false);
    }

    /// Adds the addresses of a prepared call, in full groups. Returns where they are, and how many.
    fn gather(&mut self, operands: &[StepOperand]) -> (u32, u8) {
        let first = self.addresses.len();
        self.addresses.extend(operands.iter().map(|o| o.address));
        let padded = first + operands.len().next_multiple_of(GROUP);
        self.addresses.resize(padded, Address { base: 0, offset: 0 });
        (first as u32, operands.len() as u8)
    }

    /// Adds the rest of a call, and returns its number.
    fn call(&mut self, call: StepCall) -> u32 {
        self.calls.push(call);
        self.calls.len() as u32 - 1
    }

    /// Notes that from the next step on so many steps of another tape have completed.
    fn learn(&mut self, source: usize, steps: u32, brought: Option<&Clock>) {
        self.known[source] = self.known[source].max(steps);
        if let Some(brought) = brought {
            join(&mut self.known, brought);
        }
        self.history.push((self.steps.len() as u32, self.known.clone()));
    }

    /// Returns what had completed once the tape had made so many steps.
    fn known_at(&self, steps: u32) -> Option<Clock> {
        let later = self.history.partition_point(|(from, _)| *from <= steps);
        Some(self.history.get(later.checked_sub(1)?)?.1.clone())
    }

    fn finish(self) -> Tape {
        let Draft { tape, steps, publishes, addresses, calls, .. } = self;
        Tape {
            steps: steps.into(),
            publishes: publishes.into(),
            addresses: addresses.into(),
            calls: calls.into(),
            ..tape
        }
    }
}
