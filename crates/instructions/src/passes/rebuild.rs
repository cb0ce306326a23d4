//! The one way in which passes change streams, waits, events and memory: the instructions of a list
//! are emitted again through a fresh [`Builder`], which finds the waits anew.
//!
//! A pass decides; its [`Plan`] says which instructions are emitted, in which order, on which
//! stream, and what they are replaced by. Accesses are those that the instructions state. A tensor
//! keeps its id, reads and callbacks keep theirs.
//!
//! # Order
//! Waits that the data need are the builder's. With [`Waits::Needed`] the list's own waits go,
//! except for the order between instructions with side effects: for each of them the emission waits
//! for the side effects that it came after in the old list. With [`Waits::Kept`] each old wait is
//! requested again at its place, for the last instruction that is left of those that it waited for;
//! the builder leaves out those that are known.
//!
//! # Memory
//! With [`Memory::Kept`] placements stay, and a new owner of bytes waits for the last uses by their
//! earlier owners, as the planner has it wait when memory is full. With [`Memory::Planned`] the
//! emission ignores memory, and all offsets are found when the whole order is known. A list that is
//! complete needs no online planner: that one serves each request before it sees the next, reserves
//! chunks, and may have the host wait.
//!
//! Long because each kind of instruction is emitted again in its own way.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_ops::OpRegistry;
use millstream_types::{
    Access, DeviceId, Error, Origin, Point, Result, StreamId, StreamKey, StreamMode, TensorId,
};

use crate::builder::{
    Builder, BuilderConfig, Launch, LaunchOperand, Outcome, SectionId, Sink, StatedCall,
    SyncPolicy, TensorRef,
};
use crate::catalog::{StreamCatalog, StreamFacts};
use crate::frontier::Frontier;
use crate::ids::{Remap, Role};
use crate::instruction::{Effect, Operand, Placement, Via};
use crate::list::{InstructionList, StreamDecl};
use crate::passes::facts::Facts;
use crate::passes::placement::{self, Owner};
use crate::table::{Body, Instruction};
use crate::text::OpNames;

/// The old waits of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Each is emitted at its place, unless it is known there. Nothing of the order is lost; on a
    /// pool a wait may be there twice, for the program and for the data.
    Replayed,
    /// Each is requested again.
    Kept,
    /// Only the order of side effects is.
    Needed,
}

/// The placements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// The old ones.
    Kept,
    /// New ones, found together.
    Planned,
}

/// The places at which tensors begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetimes {
    /// Those of the steps that begin and release them.
    Kept,
    /// Right before the first use and right after the last. Tensors without a use are left out.
    Tight,
}

/// An instruction to be emitted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step<'a> {
    /// The index of the old instruction, whose origin it has.
    pub(super) index: usize,
    /// Its kind and operands, with the old ids.
    pub(super) body: Cow<'a, Body>,
    /// Its new stream, if it is not the one that [`Plan::stream_of`] gives.
    pub(super) on: Option<StreamId>,
    /// Old instructions that it waits for besides.
    pub(super) after: Vec<usize>,
}

/// The new list, as far as a pass decides it.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    /// The streams.
    pub(super) streams: Vec<StreamDecl>,
    /// The new id of each old stream.
    pub(super) stream_of: Vec<StreamId>,
    /// The ops.
    pub(super) ops: Arc<OpNames>,
    /// The instructions, in their order.
    pub(super) steps: Vec<Step<'a>>,
    pub(super) waits: Waits,
    pub(super) memory: Memory,
    pub(super) lifetimes: Lifetimes,
    /// Whether instructions have changed their streams or their order within them. Waits are not
    /// kept then.
    pub(super) reordered: bool,
    /// Whether all waits are by the host, so that each names the very point that it is for.
    pub(super) by_host: bool,
    /// Old instructions behind which an event is recorded, for the waits that find none newer.
    pub(super) records: HashSet<usize>,
    /// For each instruction with a side effect, by index, the earlier side effects that it comes
    /// after.
    pub(super) side_effects: Arc<SideEffectOrder>,
}

/// For each instruction with a side effect, by index, those that it came after in the old list.
/// For each observation of the host, those that it was behind.
pub(super) type SideEffectOrder = HashMap<usize, Vec<usize>>;

impl<'a> Plan<'a> {
    /// Returns the plan that changes nothing, with the order of side effects.
    ///
    /// # Errors
    /// The list is not one that the checker accepts.
    pub(super) fn unchanged(facts: &Facts<'a>) -> Result<Plan<'a>> {
        let list = facts.list;
        let step = |(index, i): (usize, &'a Instruction)| Step {
            index,
            body: Cow::Borrowed(&i.body),
            on: None,
            after: Vec::new(),
        };
        let mut plan = Plan {
            streams: list.streams.clone(),
            stream_of: (0..list.streams.len()).map(|s| StreamId(s as u16)).collect(),
            ops: Arc::new(list.ops.clone()),
            steps: list.instructions.iter().enumerate().map(step).collect(),
            waits: Waits::Replayed,
            memory: Memory::Kept,
            lifetimes: Lifetimes::Kept,
            reordered: false,
            by_host: false,
            records: HashSet::new(),
            side_effects: Arc::default(),
        };
        let side_effects =
            list.instructions.iter().filter(|i| facts.has_side_effect(&i.body)).count();
        if side_effects > 1 {
            plan.side_effects = Arc::new(side_effect_order(&rebuild(facts, &plan)?));
        }
        plan.waits = Waits::Kept;
        Ok(plan)
    }

    /// Whether two side effects on one pool are in an order. A pool cannot wait for itself, so only
    /// the old waits, through other streams and to calls that share operands, can express it. A
    /// pass that removes or moves calls leaves such a list as it is.
    pub(super) fn orders_within_pools(&self, facts: &Facts<'_>) -> bool {
        let pool_of = |index: usize| {
            let old = Facts::stream_of(&facts.list.instructions[index].body)?;
            let new = self.stream_of[old.index()];
            (self.streams[new.index()].mode == StreamMode::Pool).then_some(new)
        };
        self.side_effects.iter().any(|(&later, earlier)| {
            let pool = pool_of(later);
            pool.is_some() && earlier.iter().any(|&e| pool_of(e) == pool)
        })
    }
}

/// A rebuilt list.
#[derive(Debug)]
pub(super) struct Rebuilt {
    pub(super) list: InstructionList,
    /// The old instruction that each instruction was emitted for, by index: itself, or the one that
    /// a wait stands before.
    pub(super) sources: Vec<usize>,
    /// The owners of memory that have no place yet.
    owners: Vec<Owner>,
    /// The instructions with a side effect.
    side_effects: Vec<Passed>,
}

/// An instruction with a side effect, or an observation of the host, emitted again.
#[derive(Debug)]
struct Passed {
    /// The index of the old one.
    index: usize,
    /// The point of a side effect.
    at: Option<Point>,
    /// The points that it comes after.
    knows: Frontier,
    /// The last point of its own stream, if that is a pool, that a fence is behind.
    fenced: u64,
}

impl Rebuilt {
    /// Returns the list with a place for each storage and workspace.
    pub(super) fn placed(self) -> InstructionList {
        let Rebuilt { mut list, owners, .. } = self;
        let offsets = placement::offsets(&owners, list.streams.len());
        let mut generations = vec![0; list.arenas.len()];
        for (owner, offset) in owners.iter().zip(offsets).filter(|(o, _)| o.bytes > 0) {
            generations[owner.arena.index()] += 1;
            let generation = generations[owner.arena.index()];
            let new = Placement { arena: owner.arena, offset, size: owner.bytes, generation };
            let body = &mut list.instructions[owner.instruction].body;
            if let Body::AllocateTensor { placement, .. } = body {
                **placement = new;
            } else if let Body::OpCall { workspace, .. } = body {
                *workspace = Some(Box::new(new));
            }
        }
        list
    }
}

/// Returns the order of the side effects of a list that was rebuilt unchanged.
fn side_effect_order(rebuilt: &Rebuilt) -> SideEffectOrder {
    let mut on: HashMap<StreamId, Vec<(u64, usize)>> = HashMap::new();
    let mut order = SideEffectOrder::new();
    for &Passed { index, at, ref knows, fenced } in &rebuilt.side_effects {
        let mut earlier: Vec<usize> = Vec::new();
        for point in knows.iter() {
            let Some(before) = on.get(&point.stream) else { continue };
            let known = &before[..before.partition_point(|(seq, _)| *seq <= point.seq)];
            let decl = &rebuilt.list.streams[point.stream.index()];
            match decl.mode {
                // The last one comes after the others.
                StreamMode::InOrder => earlier.extend(known.last().map(|(_, k)| *k)),
                // Those behind a fence stay behind it.
                StreamMode::Pool => {
                    let is_own = at.is_some_and(|at| at.stream == point.stream);
                    let fenced = if is_own { fenced } else { 0 };
                    let open = known.iter().filter(|(seq, _)| *seq > fenced);
                    earlier.extend(open.map(|(_, k)| *k));
                }
            }
        }
        earlier.sort_unstable();
        order.insert(index, earlier);
        if let Some(at) = at {
            on.entry(at.stream).or_default().push((at.seq, index));
        }
    }
    order
}

/// Emits a plan.
///
/// # Errors
/// The list is not one that the checker accepts, or the plan contradicts itself.
pub(super) fn rebuild(facts: &Facts<'_>, plan: &Plan<'_>) -> Result<Rebuilt> {
    let waits = if plan.orders_within_pools(facts) { Waits::Replayed } else { plan.waits };
    let mut emitter = Emitter::new(facts, plan, waits)?;
    match plan.lifetimes {
        Lifetimes::Kept => {
            for step in &plan.steps {
                emitter.step(step)?;
            }
        }
        Lifetimes::Tight => emitter.tight()?,
    }
    emitter.builder.all_sections_ended()?;
    Ok(emitter.finish())
}

/// A catalog of the streams that a list declares.
pub(super) struct ListCatalog {
    streams: Vec<StreamDecl>,
    /// Whether a wait of a stream for another one is by the device, where the list has such a wait.
    by_device: HashMap<(StreamKey, StreamKey), bool>,
    /// Whether every wait is by the host.
    by_host: bool,
}

impl ListCatalog {
    pub(super) fn of(list: &InstructionList, plan: &Plan<'_>) -> ListCatalog {
        let mut by_device = HashMap::new();
        for instruction in &list.instructions {
            if let Body::StreamWaitEvent { at, until, via } | Body::StreamWait { at, until, via } =
                &instruction.body
            {
                let key = |s: StreamId| list.streams[s.index()].key.clone();
                let device = matches!(via, Via::Device(_));
                by_device.insert((key(at.stream), key(until.stream)), device);
            }
        }
        ListCatalog { streams: plan.streams.clone(), by_device, by_host: plan.by_host }
    }
}

impl StreamCatalog for ListCatalog {
    fn describe(&self, key: &StreamKey) -> Result<StreamFacts> {
        let decl = self.streams.iter().find(|decl| decl.key == *key);
        let decl = decl.ok_or_else(|| Error::Internal { message: format!("{key}: no stream") })?;
        // The memories that it reads do not matter: stated calls are not asked where they lie.
        Ok(StreamFacts::on(key.device.clone()).accepting(decl.work))
    }

    /// Answers as the list does; where it has no such wait, streams of one device other than the
    /// host wait on the device.
    fn waits_on_device(&self, waiter: &StreamKey, source: &StreamKey) -> bool {
        match self.by_device.get(&(waiter.clone(), source.clone())) {
            _ if self.by_host => false,
            Some(&answer) => answer,
            None => waiter.device == source.device && waiter.device.kind() != "cpu",
        }
    }
}

/// A sink that collects a list whose tensors keep their ids.
#[derive(Default)]
struct ListSink {
    instructions: Vec<Instruction>,
    annotated: bool,
    names: Names,
    /// The old instruction that each instruction was emitted for, by index.
    sources: Vec<usize>,
    /// The old instruction that is being emitted.
    source: usize,
}

impl Sink for ListSink {
    fn emit(&mut self, mut instruction: Instruction) {
        let Ok(()) = instruction.body.remap(&mut self.names);
        self.instructions.push(instruction);
        self.sources.push(self.source);
    }

    fn reached(&self, _: Point) -> bool {
        false
    }

    fn annotated(&self) -> bool {
        self.annotated
    }
}

/// The ids of a builder's slots.
#[derive(Default)]
struct Names {
    by_slot: HashMap<TensorId, TensorId>,
    /// The id of the tensor that begins next.
    next: TensorId,
}

impl Remap for Names {
    type Error = std::convert::Infallible;

    fn tensor(&mut self, slot: TensorId, role: Role) -> Result<TensorId, Self::Error> {
        if role == Role::Defines {
            self.by_slot.insert(slot, self.next);
        }
        Ok(self.by_slot.get(&slot).copied().unwrap_or(slot))
    }
}

/// The newest owner of some bytes: their end, and the owner's number.
type Region = (u64, usize);

struct Emitter<'a> {
    facts: &'a Facts<'a>,
    plan: &'a Plan<'a>,
    waits: Waits,
    builder: Builder,
    sink: ListSink,
    refs: HashMap<TensorId, TensorRef>,
    /// For each old stream, the old sequence numbers so far, each with the new tail behind it.
    reached: Vec<Vec<(u64, Point)>>,
    /// For each old stream, the new points of all its instructions so far.
    passed: Vec<Frontier>,
    /// The new points of old instructions.
    points: HashMap<usize, Point>,
    owners: Vec<Owner>,
    /// The owner of each storage, and the number of the storage's live tensors.
    storages: HashMap<usize, (usize, u32)>,
    /// For each arena, the newest owner of all bytes, by first byte.
    regions: Vec<BTreeMap<u64, Region>>,
    /// The open sections: the old stream of each, and its held tensors.
    sections: Vec<(StreamId, SmallVec<[TensorId; 4]>, SectionId)>,
    side_effects: Vec<Passed>,
    /// For each storage and pool, what the pool's writers of it came after, and what its readers
    /// did: the pool's workers have later users of the storage come after both.
    in_pools: HashMap<(usize, StreamId), [Frontier; 2]>,
    /// The old records that waits by the device name.
    recorded: HashSet<Point>,
    /// For each pool, what has passed with its old waits since its last work: the next work comes
    /// after that.
    bound: HashMap<StreamId, Frontier>,
}

impl<'a> Emitter<'a> {
    fn new(facts: &'a Facts<'a>, plan: &'a Plan<'a>, waits: Waits) -> Result<Emitter<'a>> {
        let list = facts.list;
        let config = BuilderConfig { sync: SyncPolicy::Frontier, whole_history: true };
        let catalog = Box::new(ListCatalog::of(list, plan));
        let mut builder = Builder::new(&config, Arc::new(OpRegistry::new()), catalog);
        for (number, decl) in plan.streams.iter().enumerate() {
            if builder.stream_with_mode(&decl.key, decl.mode)?.index() != number {
                let message = format!("stream {} is declared twice", decl.key);
                return Err(Error::List { message });
            }
        }
        let is_annotation = |i: &Instruction| i.body.effect() == Effect::Annotates;
        let annotated = list.instructions.iter().any(is_annotation);
        let mut emitter = Emitter {
            facts,
            plan,
            waits,
            builder,
            sink: ListSink { annotated, ..ListSink::default() },
            refs: HashMap::new(),
            reached: vec![Vec::new(); list.streams.len()],
            passed: vec![Frontier::new(); list.streams.len()],
            points: HashMap::new(),
            owners: Vec::new(),
            storages: HashMap::new(),
            regions: vec![BTreeMap::new(); list.arenas.len()],
            sections: Vec::new(),
            side_effects: Vec::new(),
            in_pools: HashMap::new(),
            recorded: (list.instructions.iter())
                .filter(|i| matches!(i.body, Body::StreamWaitEvent { via: Via::Device(_), .. }))
                .filter_map(|i| i.body.until())
                .collect(),
            bound: HashMap::new(),
        };
        let nowhere = DeviceId::cpu(0);
        for external in &list.externals {
            let device = list.arenas.get(external.arena.index()).unwrap_or(&nowhere);
            let (spec, bytes) = (external.spec.clone(), external.bytes);
            let made = emitter.builder.import(&emitter.sink, spec, bytes, device)?;
            emitter.sink.names.by_slot.insert(made.id, external.tensor);
            emitter.refs.insert(external.tensor, made);
        }
        Ok(emitter)
    }

    fn finish(self) -> Rebuilt {
        let Emitter { facts, plan, sink, owners, side_effects, .. } = self;
        let list = InstructionList {
            streams: plan.streams.clone(),
            ops: (*plan.ops).clone(),
            arenas: facts.list.arenas.clone(),
            externals: facts.list.externals.clone(),
            executables: facts.list.executables.clone(),
            instructions: sink.instructions,
        };
        let owners = if plan.memory == Memory::Planned { owners } else { Vec::new() };
        Rebuilt { list, sources: sink.sources, owners, side_effects }
    }

    fn origin(&self, step: &Step<'_>) -> &'a Origin {
        &self.facts.list.instructions[step.index].origin
    }

    fn stream(&self, step: &Step<'_>, old: StreamId) -> StreamId {
        step.on.unwrap_or(self.plan.stream_of[old.index()])
    }

    fn tensor(&self, tensor: TensorId) -> Result<TensorRef> {
        let message = || format!("{tensor} is used, but the plan does not begin it");
        self.refs.get(&tensor).copied().ok_or_else(|| Error::Internal { message: message() })
    }

    fn operands(&self, operands: &[Operand]) -> Result<SmallVec<[(TensorRef, Access); 4]>> {
        operands.iter().map(|o| Ok((self.tensor(o.tensor)?, o.access))).collect()
    }

    /// Returns the newest section that holds one of these tensors.
    fn section(&self, tensors: &[(TensorRef, Access)]) -> Result<Option<SectionId>> {
        let mut holders: SmallVec<[SectionId; 2]> = SmallVec::new();
        for (tensor, _) in tensors {
            holders.extend(self.builder.held_by(*tensor)?);
        }
        let newest = self.sections.iter().rev().find(|(_, _, id)| holders.contains(id));
        Ok(newest.map(|(_, _, id)| *id))
    }

    fn step(&mut self, step: &Step<'_>) -> Result<()> {
        let origin = self.origin(step);
        self.emit(step).map_err(|e| e.at(origin))
    }

    fn emit(&mut self, step: &Step<'_>) -> Result<()> {
        let body = &*step.body;
        self.sink.source = step.index;
        match body {
            Body::AllocateTensor { on, tensor, .. } => {
                let stream = self.stream(step, *on);
                let (points, origin) = (self.points_before(step), self.origin(step));
                self.builder.wait_points(&mut self.sink, stream, &points, origin)?;
                self.begin(*tensor, stream, step.index)?;
            }
            Body::ViewTensor { tensor, .. } => {
                self.begin(*tensor, StreamId(0), step.index)?;
            }
            Body::ReleaseTensor { tensor } => self.release(*tensor, step.index)?,
            Body::HostObserved { points } => {
                let mut new = Frontier::new();
                for &point in points {
                    if self.plan.reordered {
                        // All of the stream so far.
                        new.join(&self.passed[point.stream.index()]);
                    } else if let Some(point) = self.new_point(point) {
                        new.add(point);
                    }
                }
                let mut knows = Frontier::new();
                new.iter().for_each(|p| _ = knows.join(&self.builder.passed_with(p)));
                // What was known of side effects through calls that are gone.
                for effect in self.points_before(step) {
                    if !knows.covers(effect) {
                        new.add(effect);
                    }
                }
                new.iter().for_each(|p| _ = knows.join(&self.builder.passed_with(p)));
                let new: Vec<Point> = new.iter().collect();
                let origin = self.origin(step);
                self.builder.observe(&mut self.sink, &new, origin);
                let (index, at, fenced) = (step.index, None, 0);
                self.side_effects.push(Passed { index, at, knows, fenced });
            }
            Body::SoftSyncStream { .. } => {}
            Body::RecordEvent { at, .. } => {
                if self.waits != Waits::Needed && self.recorded.contains(at) {
                    self.record(step, self.stream(step, at.stream))?;
                }
                self.note(step, None);
            }
            Body::StreamWaitEvent { at, until, .. } | Body::StreamWait { at, until, .. } => {
                if self.waits != Waits::Needed
                    && let Some(until) = self.new_point(*until)
                {
                    let stream = self.stream(step, at.stream);
                    let origin = self.origin(step);
                    let mode = self.plan.streams[stream.index()].mode;
                    if mode == StreamMode::Pool {
                        let passed = self.builder.passed_with(until);
                        self.bound.entry(stream).or_default().join(&passed);
                    }
                    if self.waits == Waits::Kept && mode == StreamMode::Pool {
                        // Only the next instruction waits, and for some points of its own.
                        self.builder.wait_with_next(stream, &[until])?;
                    } else {
                        self.builder.wait_points(&mut self.sink, stream, &[until], origin)?;
                    }
                }
                self.note(step, None);
            }
            Body::OpCall { at, .. }
            | Body::TouchTensors { at, .. }
            | Body::Barrier { at }
            | Body::GlobalSync { at }
            | Body::AccessBlobByCallback { at, .. }
            | Body::SyncRead { at, .. }
            | Body::CriticalSectionBegin { at, .. }
            | Body::CriticalSectionEnd { at, .. }
            | Body::LazyJobLauncher { at, .. } => {
                let stream = self.stream(step, at.stream);
                // A barrier comes after everything as it is.
                if body.effect() != Effect::Fences {
                    let edges = self.edges(step, stream);
                    let mut points = self.points_before(step);
                    points.retain(|p| !edges.covers(*p));
                    self.builder.wait_with_next(stream, &points)?;
                }
                let first = self.sink.instructions.len();
                let at = self.work(step, stream)?;
                let knows = self.knowledge(step, at, first)?;
                if self.facts.has_side_effect(&self.facts.list.instructions[step.index].body) {
                    let fenced = self.builder.clock_of(stream)?.get(stream);
                    let at = Some(at);
                    self.side_effects.push(Passed { index: step.index, at, knows, fenced });
                }
                for operand in body.operands() {
                    self.used(operand.tensor, at);
                }
                self.note(step, Some(at));
                if self.plan.records.contains(&step.index) {
                    self.record(step, stream)?;
                }
            }
        }
        Ok(())
    }

    /// Records an event on `stream`, for waits that follow.
    fn record(&mut self, step: &Step<'_>, stream: StreamId) -> Result<()> {
        let origin = self.origin(step);
        let event = self.builder.record_event(&mut self.sink, stream, origin)?;
        self.builder.release_event(&event);
        Ok(())
    }

    /// Returns the points that the plan and the order of side effects have a step wait for.
    fn points_before(&self, step: &Step<'_>) -> Vec<Point> {
        let side_effects = self.plan.side_effects.get(&step.index).map_or(&[][..], Vec::as_slice);
        let before = step.after.iter().chain(side_effects);
        before.filter_map(|k| self.points.get(k).copied()).collect()
    }

    /// Returns the points that the instruction at `at` comes after. The waits before it begin at
    /// the instruction `first`.
    fn knowledge(&mut self, step: &Step<'_>, at: Point, first: usize) -> Result<Frontier> {
        if self.plan.streams[at.stream.index()].mode == StreamMode::InOrder {
            return Ok(self.builder.passed_with(at));
        }
        // On a pool: the fences, its own waits, and those of instructions that share an operand.
        let mut knows = self.builder.clock_of(at.stream)?;
        knows.join(&self.bound.remove(&at.stream).unwrap_or_default());
        for instruction in &self.sink.instructions[first..] {
            if let Body::StreamWaitEvent { at: wait, until, .. } = &instruction.body
                && wait.stream == at.stream
            {
                knows.join(&self.builder.passed_with(*until));
            }
        }
        knows.join(&self.edges(step, at.stream));
        for operand in step.body.operands() {
            let storage = self.facts.storage_of(operand.tensor);
            let shared = self.in_pools.entry((storage, at.stream)).or_default();
            shared[usize::from(!operand.access.writes())].join(&knows);
        }
        Ok(knows)
    }

    /// Returns the points that a step comes after on a pool because it shares operands with earlier
    /// instructions of the pool.
    fn edges(&self, step: &Step<'_>, pool: StreamId) -> Frontier {
        let mut knows = Frontier::new();
        for operand in step.body.operands() {
            let storage = self.facts.storage_of(operand.tensor);
            if let Some([writers, readers]) = self.in_pools.get(&(storage, pool)) {
                knows.join(writers);
                if operand.access.writes() {
                    knows.join(readers);
                }
            }
        }
        knows
    }

    /// Emits an instruction that has a point and is neither a record nor a wait.
    fn work(&mut self, step: &Step<'_>, stream: StreamId) -> Result<Point> {
        let origin = self.origin(step);
        let operands = self.operands(step.body.operands())?;
        let section = self.section(&operands)?;
        let tensors: SmallVec<[TensorRef; 4]> = operands.iter().map(|(t, _)| *t).collect();
        let Emitter { builder, sink, .. } = self;
        match &*step.body {
            Body::OpCall { op, attrs, workspace, priority, .. } => {
                let claimed = match workspace {
                    None => None,
                    Some(wanted) => Some(self.claim(**wanted, stream, origin)?),
                };
                let workspace = claimed.as_ref().map(|(placement, _)| *placement);
                let call = StatedCall {
                    op: *op,
                    operands: &operands,
                    attrs: attrs.clone(),
                    workspace,
                    stream,
                    priority: *priority,
                    section,
                    origin,
                };
                let at = self.builder.call_stated(&mut self.sink, &call)?;
                if let Some((placement, owner)) = claimed {
                    let instruction = self.sink.instructions.len() - 1;
                    let uses = [at].into_iter().collect();
                    let owner = Owner { instruction, end: Some(instruction), uses, ..owner };
                    self.own(placement, owner);
                }
                Ok(at)
            }
            Body::TouchTensors { .. } => builder.touch(sink, stream, &tensors, section, origin),
            Body::Barrier { .. } => builder.barrier(sink, stream, false, origin),
            Body::GlobalSync { .. } => builder.barrier(sink, stream, true, origin),
            Body::AccessBlobByCallback { callback, operand, .. } => {
                let (tensor, access) = (tensors[0], operand.access);
                builder.access_blob(sink, stream, tensor, access, *callback, section, origin)
            }
            Body::SyncRead { into, .. } => {
                builder.sync_read(sink, stream, tensors[0], *into, section, origin)
            }
            Body::CriticalSectionBegin { at, operands } => {
                let outer = self.sections.last().map(|(_, _, id)| *id);
                let id = builder.begin_nested_section(sink, stream, &tensors, outer, origin)?;
                let held = operands.iter().map(|o| o.tensor).collect();
                self.sections.push((at.stream, held, id));
                Ok(builder.tail(stream))
            }
            Body::CriticalSectionEnd { at, operands } => {
                // The newest section of the stream that holds all that the end names.
                let ends = |(on, held, _): &(StreamId, SmallVec<[TensorId; 4]>, SectionId)| {
                    *on == at.stream && operands.iter().all(|o| held.contains(&o.tensor))
                };
                let Some(open) = self.sections.iter().rposition(ends) else {
                    let message = "no critical section of these tensors is open".to_owned();
                    return Err(Error::List { message });
                };
                let (.., id) = self.sections.remove(open);
                builder.end_critical_section(sink, id, origin)
            }
            Body::LazyJobLauncher { list, .. } => {
                // An overwrite of a part of a storage is stated as a change, which stays one.
                let given: Vec<LaunchOperand<'_>> =
                    operands.iter().map(|(t, access)| LaunchOperand::Given(*t, *access)).collect();
                let launch = Launch { stream, list: *list, operands: &given, section, origin };
                match builder.launch(sink, &launch)? {
                    Outcome::Done((at, _)) => Ok(at),
                    Outcome::Need(_) => {
                        let message = "a launch on given tensors needs memory".to_owned();
                        Err(Error::Internal { message })
                    }
                }
            }
            Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::RecordEvent { .. }
            | Body::StreamWaitEvent { .. }
            | Body::StreamWait { .. }
            | Body::HostObserved { .. } => {
                Err(Error::Internal { message: "this instruction is no work".to_owned() })
            }
        }
    }

    /// Records that the emission has passed an old instruction, which has a new point if it was
    /// emitted as one of its own.
    fn note(&mut self, step: &Step<'_>, new: Option<Point>) {
        if let Some(at) = new {
            self.points.insert(step.index, at);
        }
        let old = [step.body.at(), step.body.second_point()];
        for old in old.into_iter().flatten() {
            let stream = match new {
                Some(at) => at.stream,
                None => self.plan.stream_of[old.stream.index()],
            };
            let tail = self.builder.tail(stream);
            self.passed[old.stream.index()].add(tail);
            self.reached[old.stream.index()].push((old.seq, tail));
        }
    }

    /// Returns the new point behind the last instruction that is left of those up to an old point.
    fn new_point(&self, old: Point) -> Option<Point> {
        let reached = &self.reached[old.stream.index()];
        let upto = reached.partition_point(|(seq, _)| *seq <= old.seq);
        reached[..upto].last().map(|(_, new)| *new).filter(|new| new.seq > 0)
    }

    /// Records a use of a tensor's storage.
    fn used(&mut self, tensor: TensorId, at: Point) {
        if let Some((owner, _)) = self.storages.get(&self.facts.storage_of(tensor)) {
            self.owners[*owner].uses.add(at);
        }
    }

    /// Begins the tensor that the old instruction at `index` begins; a storage on `stream`.
    fn begin(&mut self, tensor: TensorId, stream: StreamId, index: usize) -> Result<()> {
        let Instruction { body, origin } = &self.facts.list.instructions[index];
        self.sink.source = index;
        self.sink.names.next = tensor;
        let made = if let Body::AllocateTensor { spec, placement, .. } = body {
            let (placement, owner) = self.claim(**placement, stream, origin)?;
            let tail = self.builder.tail(stream);
            let Emitter { builder, sink, .. } = self;
            let spec = (**spec).clone();
            let made = builder.begin_placed(sink, stream, spec, placement, origin)?;
            let instruction = self.sink.instructions.len() - 1;
            let uses = [tail].into_iter().collect();
            let owner = self.own(placement, Owner { instruction, uses, ..owner });
            self.storages.insert(self.facts.storage_of(tensor), (owner, 1));
            made
        } else if let Body::ViewTensor { of, spec, .. } = body {
            let base = self.tensor(*of)?;
            if let Some((_, live)) = self.storages.get_mut(&self.facts.storage_of(tensor)) {
                *live += 1;
            }
            self.builder.view(&mut self.sink, base, (**spec).clone(), origin)?
        } else {
            let message = format!("{} begins no tensor", body.kind().name());
            return Err(Error::Internal { message });
        };
        self.refs.insert(tensor, made);
        Ok(())
    }

    fn release(&mut self, tensor: TensorId, index: usize) -> Result<()> {
        let origin = &self.facts.list.instructions[index].origin;
        let made = self.tensor(tensor)?;
        let section = self.builder.held_by(made)?;
        self.builder.release(&mut self.sink, made, section, origin)?;
        self.refs.remove(&tensor);
        if let Some((owner, live)) = self.storages.get_mut(&self.facts.storage_of(tensor)) {
            *live -= 1;
            if *live == 0 {
                self.owners[*owner].end = Some(self.sink.instructions.len() - 1);
            }
        }
        Ok(())
    }

    /// Returns the placement of a new owner of memory on `stream`, and the owner, but for its
    /// instruction and its uses. Where placements are kept, the stream waits for the last uses by
    /// earlier owners.
    fn claim(
        &mut self,
        wanted: Placement,
        stream: StreamId,
        origin: &Origin,
    ) -> Result<(Placement, Owner)> {
        let is_kept = self.plan.memory == Memory::Kept && wanted.size > 0;
        if is_kept {
            self.wait_for_owners(&wanted, stream, origin)?;
        }
        let all = (0..self.plan.streams.len()).map(|s| self.builder.tail(StreamId(s as u16)));
        let tails = if is_kept { Frontier::new() } else { all.collect() };
        let owner = Owner {
            instruction: 0,
            arena: wanted.arena,
            bytes: wanted.size,
            on: stream,
            tails,
            known: self.builder.clock_of(stream)?,
            end: None,
            uses: Frontier::new(),
        };
        let offset = if is_kept || wanted.size == 0 { wanted.offset } else { 0 };
        Ok((Placement { offset, ..wanted }, owner))
    }

    /// Has `stream` wait for the last uses of a placement's bytes.
    fn wait_for_owners(
        &mut self,
        wanted: &Placement,
        stream: StreamId,
        origin: &Origin,
    ) -> Result<()> {
        let known = self.builder.clock_of(stream)?;
        let mut open = Frontier::new();
        for owner in self.owners_within(wanted) {
            let Owner { uses, end, .. } = &self.owners[owner];
            if end.is_none() {
                let message = "its memory has a live owner".to_owned();
                return Err(Error::List { message });
            }
            uses.iter().filter(|p| !known.covers(*p)).for_each(|p| _ = open.add(p));
        }
        let open: Vec<Point> = open.iter().collect();
        if open.is_empty() {
            return Ok(());
        }
        match self.plan.streams[stream.index()].mode {
            StreamMode::InOrder => self.builder.wait_points(&mut self.sink, stream, &open, origin),
            // A wait on a pool orders the next instruction alone.
            StreamMode::Pool => {
                self.builder.observe(&mut self.sink, &open, origin);
                Ok(())
            }
        }
    }

    /// Returns the newest owners of a placement's bytes.
    fn owners_within(&self, place: &Placement) -> SmallVec<[usize; 4]> {
        let regions = &self.regions[place.arena.index()];
        let end = place.offset.saturating_add(place.size);
        let first = regions.range(..place.offset).next_back();
        let first = first.filter(|(_, (to, _))| *to > place.offset).map(|(_, (_, owner))| *owner);
        let rest = regions.range(place.offset..end).map(|(_, (_, owner))| *owner);
        first.into_iter().chain(rest).collect()
    }

    /// Adds an owner of memory. Returns its number.
    fn own(&mut self, place: Placement, owner: Owner) -> usize {
        let number = self.owners.len();
        self.owners.push(owner);
        if self.plan.memory == Memory::Kept && place.size > 0 {
            let regions = &mut self.regions[place.arena.index()];
            let (start, end) = (place.offset, place.offset.saturating_add(place.size));
            let before = regions.range(..start).next_back().map(|(from, region)| (*from, *region));
            if let Some((from, (to, owner))) = before.filter(|(_, (to, _))| *to > start) {
                regions.insert(from, (start, owner));
                if to > end {
                    regions.insert(end, (to, owner));
                }
            }
            let covered: Vec<(u64, Region)> =
                regions.range(start..end).map(|(from, region)| (*from, *region)).collect();
            for (from, (to, owner)) in covered {
                regions.remove(&from);
                if to > end {
                    regions.insert(end, (to, owner));
                }
            }
            regions.insert(start, (end, number));
        }
        number
    }

    /// Emits the steps with tight lifetimes.
    fn tight(&mut self) -> Result<()> {
        let lifetimes = TightLifetimes::of(self.facts, &self.plan.steps);
        for (k, step) in self.plan.steps.iter().enumerate() {
            let lifetimes_only = matches!(
                &*step.body,
                Body::AllocateTensor { .. } | Body::ViewTensor { .. } | Body::ReleaseTensor { .. }
            );
            if lifetimes_only {
                continue;
            }
            for &(index, tensor) in lifetimes.begin.get(&k).into_iter().flatten() {
                let Instruction { body, origin } = &self.facts.list.instructions[index];
                // The stream of the first use need not wait for the one that made it.
                let mut on = StreamId(0);
                if let Body::OpCall { at, .. } = &*step.body {
                    on = self.stream(step, at.stream);
                } else if let Body::AllocateTensor { on: old, .. } = body {
                    on = self.plan.stream_of[old.index()];
                }
                self.begin(tensor, on, index).map_err(|e| e.at(origin))?;
            }
            self.step(step)?;
            for &(index, tensor) in lifetimes.end.get(&k).into_iter().flatten() {
                self.release(tensor, index)?;
            }
        }
        Ok(())
    }
}

/// For each step, the old instructions that begin and release tensors right before and after it.
struct TightLifetimes {
    begin: HashMap<usize, Vec<(usize, TensorId)>>,
    end: HashMap<usize, Vec<(usize, TensorId)>>,
}

impl TightLifetimes {
    fn of(facts: &Facts<'_>, steps: &[Step<'_>]) -> TightLifetimes {
        let mut uses: HashMap<TensorId, (usize, usize)> = HashMap::new();
        for (k, step) in steps.iter().enumerate() {
            for operand in step.body.operands() {
                uses.entry(operand.tensor).or_insert((k, k)).1 = k;
            }
        }
        // A tensor is used where a view of it begins. Views come after their bases.
        let mut tensors: Vec<(Option<usize>, TensorId)> =
            facts.tensors().map(|(id, tensor)| (tensor.begun, id)).collect();
        tensors.sort_unstable();
        for &(_, id) in tensors.iter().rev() {
            if let (Some(of), Some(&(first, _))) = (facts.tensor(id).of, uses.get(&id)) {
                let base = uses.entry(of).or_insert((first, first));
                *base = (base.0.min(first), base.1.max(first));
            }
        }
        let mut lifetimes = TightLifetimes { begin: HashMap::new(), end: HashMap::new() };
        for (begun, id) in tensors {
            let Some(&(first, last)) = uses.get(&id) else { continue };
            if let Some(begun) = begun {
                lifetimes.begin.entry(first).or_default().push((begun, id));
            }
            if let Some(released) = facts.tensor(id).released {
                lifetimes.end.entry(last).or_default().push((released, id));
            }
        }
        lifetimes
    }
}
