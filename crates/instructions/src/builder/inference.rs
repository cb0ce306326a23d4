//! The inference cache: what schemas said of earlier calls.
//!
//! Long because entries are kept, found and emitted in one place.
//!
//! A schema is a function of its operands' dtypes, shapes and layouts and of the call's arguments,
//! and of nothing else. So a later call of the same op with operands of the same classes and equal
//! arguments has the same accesses, results and scratch memory, and is emitted without asking the
//! schema. OneFlow's eager interpreter keeps such a cache for each op.
//!
//! The cache has a fixed number of places. A call whose places are taken replaces the older entry.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::FixedState;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use millstream_ops::{OutputSpec, Signature};
use millstream_types::{Access, Attrs, OpId, Result, TensorSpec};

use crate::builder::memory::{Allocation, Allocations};
use crate::builder::slot::SpecClass;
use crate::builder::{
    Call, InferenceStats, InstructionsBuilder, NotKept, Outcome, Output, Outputs, PreparedCall,
    Sink, SyncPolicy, TensorRef,
};
use crate::frontier::Frontier;
use crate::instruction::Priority;
use crate::planner::ArenaId;
use crate::table::Kind;

/// The usual number of places.
const PLACES: usize = 4096;

/// The inputs of a usual call, whose classes need no memory of their own.
const USUAL_INPUTS: usize = 8;

/// The most inputs of a call that the cache keeps: those of a step of an optimiser are many.
const MAX_INPUTS: usize = 4096;

/// The most operands of a simple call, with its result.
pub(super) const SIMPLE: usize = 4;

/// A result of a kept call.
#[derive(Debug)]
pub(super) enum InferredOutput {
    /// The input of this number, changed in place.
    Same(usize),
    /// A new tensor, in a storage of this many bytes.
    Fresh { spec: Arc<TensorSpec>, bytes: u64, class: SpecClass },
    /// A view of the input of this number, which reaches this many bytes into the storage.
    View { of: usize, spec: Arc<TensorSpec>, bytes: u64, class: SpecClass },
}

/// A kept call.
#[derive(Debug)]
pub(super) struct Inferred {
    hash: u64,
    /// The classes of its inputs.
    classes: Classes,
    pub(super) inputs: usize,
    /// The call: its inputs, then its new tensors.
    pub(super) call: PreparedCall,
    pub(super) outputs: SmallVec<[InferredOutput; 2]>,
    /// Whether all results are views, so that no kernel runs.
    is_view: bool,
    /// Whether the sink was asked to store the call.
    pub(super) is_stored: bool,
    /// Whether it has one result, few operands and no scratch memory, as most calls do.
    pub(super) is_simple: bool,
}

/// The key of a call.
struct Key<'a> {
    hash: u64,
    op: OpId,
    classes: Classes,
    attrs: &'a Attrs,
    priority: Priority,
}

/// The classes of a call's inputs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Classes {
    /// The first, and zeros behind them, which are no class: compared as a whole.
    first: [u32; USUAL_INPUTS],
    /// The others.
    more: Box<[u32]>,
}

impl Classes {
    fn iter(&self) -> impl Iterator<Item = SpecClass> {
        self.first.iter().chain(&self.more).map(|class| SpecClass::of(*class))
    }

    fn of(&self, input: usize) -> SpecClass {
        SpecClass::of(match input.checked_sub(USUAL_INPUTS) {
            None => self.first[input],
            Some(further) => self.more[further],
        })
    }
}

impl Key<'_> {
    #[inline]
    fn is_of(&self, entry: &Inferred) -> bool {
        entry.hash == self.hash
            && entry.classes == self.classes
            && entry.call.op() == self.op
            && entry.call.priority == self.priority
            && match entry.call.attrs() {
                Some(attrs) => **attrs == *self.attrs,
                None => self.attrs.is_empty(),
            }
    }
}

/// The calls that are kept, each in one of two neighbouring places that its hash names.
#[derive(Debug)]
pub(super) struct InferenceCache {
    /// As many as `mask` and one, once a call is kept.
    pub(super) places: Vec<Option<Box<Inferred>>>,
    /// The number of places, a power of two, less one.
    mask: usize,
    /// The counts of each op.
    stats: Vec<InferenceStats>,
}

impl Default for InferenceCache {
    fn default() -> InferenceCache {
        InferenceCache { places: Vec::new(), mask: PLACES - 1, stats: Vec::new() }
    }
}

impl InferenceCache {
    #[inline]
    const fn places_of(&self, hash: u64) -> [usize; 2] {
        // `FxHasher` moves the better bits of its product down.
        let place = hash as usize & self.mask;
        [place, place ^ 1]
    }

    /// Returns the place of a call's entry.
    #[inline]
    fn find(&self, key: &Key<'_>) -> Option<usize> {
        let is_there = |&place: &usize| {
            self.places.get(place).is_some_and(|at| at.as_ref().is_some_and(|at| key.is_of(at)))
        };
        self.places_of(key.hash).into_iter().find(is_there)
    }

    /// Counts a look-up.
    #[inline]
    pub(super) fn count(&mut self, op: OpId, found: &Lookup) {
        let stats = self.stats_of(op);
        match found {
            Lookup::Found(..) => stats.hits += 1,
            Lookup::Missed(..) => stats.misses += 1,
            Lookup::Passed(reason) => stats.passed[*reason as usize] += 1,
        }
    }

    #[inline]
    fn stats_of(&mut self, op: OpId) -> &mut InferenceStats {
        if op.index() >= self.stats.len() {
            self.stats.resize_with(op.index() + 1, InferenceStats::default);
        }
        &mut self.stats[op.index()]
    }

    /// Adds an entry in its first place, and moves what was there to the second. Returns the entry
    /// that gave way, if both were taken.
    fn add(&mut self, entry: Box<Inferred>) -> Option<Box<Inferred>> {
        if self.places.is_empty() {
            self.places.resize_with(self.mask + 1, || None);
        }
        let [first, second] = self.places_of(entry.hash);
        let moved = self.places[first].replace(entry)?;
        let replaced = self.places[second].replace(moved)?;
        self.stats_of(replaced.call.op()).replaced += 1;
        Some(replaced)
    }
}

/// Whether the order of a call's stream is known to suffice for all its inputs: no wait has to be
/// looked for.
pub(super) type Ordered = bool;

/// What the cache says of a call.
pub(super) enum Lookup {
    /// It is in this place; and whether its inputs are ordered.
    Found(usize, Ordered),
    /// It is not there, and may be kept by this hash and these classes.
    Missed(u64, Classes),
    /// It is never kept.
    Passed(NotKept),
}

impl InstructionsBuilder {
    /// Sets the number of calls that the inference cache has room for, rounded up to a power of
    /// two. Called before the first call.
    pub fn set_inference_places(&mut self, places: usize) {
        debug_assert!(self.inference.places.is_empty(), "calls are kept already");
        self.inference.mask = places.clamp(2, 1 << 24).next_power_of_two() - 1;
    }

    /// Returns how often calls were found in the inference cache.
    pub fn inference_stats(&self) -> InferenceStats {
        let all = self.inference.stats.iter();
        all.fold(InferenceStats::default(), |sum, stats| sum.plus(*stats))
    }

    /// Returns the same for each op that was called, by name.
    pub fn inference_stats_of_ops(&self) -> BTreeMap<String, InferenceStats> {
        let stats = self.inference.stats.iter().enumerate();
        let called = stats.filter(|(_, stats)| **stats != InferenceStats::default());
        let named = called.filter_map(|(id, stats)| {
            let op = self.ops.get(OpId(id as u32))?;
            Some((op.name().to_owned(), *stats))
        });
        named.collect()
    }

    /// Looks a call up.
    pub(super) fn look_up(&mut self, call: &Call<'_>) -> Lookup {
        let (classes, ordered) = match self.classes_of(call) {
            Ok(found) => found,
            Err(reason) => return Lookup::Passed(reason),
        };
        let mut hasher = FxHasher::default();
        (call.op.0, call.priority.0).hash(&mut hasher);
        let usual = call.inputs.len().min(USUAL_INPUTS);
        classes.first[..usual]
            .iter()
            .chain(&classes.more)
            .for_each(|class| class.hash(&mut hasher));
        if !call.attrs.is_empty() {
            // Not by `FxHasher`, which multiplies and adds: floats with few digits differ in their
            // upper bits alone, and so would sums of their products.
            FixedState::default().hash_one(call.attrs).hash(&mut hasher);
        }
        let Call { op, attrs, priority, .. } = *call;
        let key = Key { hash: hasher.finish(), op, classes, attrs, priority };
        match self.inference.find(&key) {
            Some(place) => Lookup::Found(place, ordered || self.are_uses_ordered(call, place)),
            None => Lookup::Missed(key.hash, key.classes),
        }
    }

    /// Whether the stream's order suffices for the accesses of a call that was found. A read comes
    /// after no other read: inputs that a launch or another stream has read stay ordered.
    fn are_uses_ordered(&self, call: &Call<'_>, place: usize) -> bool {
        let is_current = self.streams[call.stream.index()].fence_epoch == self.fence_epoch;
        let Some(found) = &self.inference.places[place] else { return false };
        let mut uses = call.inputs.iter().zip(found.call.accesses());
        is_current
            && self.policy == SyncPolicy::Frontier
            && uses.all(|(input, access)| {
                let storage = self.slots.storage(self.slots.storage_of(input.id));
                storage.is_ordered_by(call.stream, access.writes())
            })
    }

    /// Returns the classes of the inputs of a call that may be kept, and whether they are ordered
    /// however the call uses them.
    /// So all inputs are live, in the stream's own memory, and not held.
    #[inline]
    fn classes_of(&mut self, call: &Call<'_>) -> std::result::Result<(Classes, Ordered), NotKept> {
        let track = &self.streams[call.stream.index()];
        if call.into.is_some() {
            return Err(NotKept::Into);
        }
        if call.section.is_some() {
            return Err(NotKept::Section);
        }
        if call.inputs.len() > MAX_INPUTS {
            return Err(NotKept::Inputs);
        }
        if !track.requested.is_empty() {
            return Err(NotKept::Requested);
        }
        let memory = track.memory;
        let mut ordered =
            track.fence_epoch == self.fence_epoch && self.policy == SyncPolicy::Frontier;
        let mut classes = Classes::default();
        let mut class_of = |input: TensorRef| {
            // What is wrong with an operand, if anything is, shows when the schema is asked.
            let found = self.slots.class_if_free(input, memory, call.stream);
            let (known, is_ordered) = found.ok_or(NotKept::Operand)?;
            ordered &= is_ordered;
            Ok(known.number())
        };
        for (class, &input) in classes.first.iter_mut().zip(call.inputs) {
            *class = class_of(input)?;
        }
        if let Some(further) = call.inputs.get(USUAL_INPUTS..).filter(|more| !more.is_empty()) {
            classes.more =
                further.iter().map(|&input| class_of(input)).collect::<Result<_, _>>()?;
        }
        Ok((classes, ordered))
    }

    /// Keeps what a schema said of a call that was emitted with these new tensors.
    pub(super) fn keep_inferred(
        &mut self,
        sink: &mut dyn Sink,
        (hash, classes): (u64, Classes),
        call: &Call<'_>,
        attrs: Option<Arc<Attrs>>,
        signature: &Signature,
        made: &[TensorRef],
    ) {
        let is_view = signature.is_view();
        let accesses = call.inputs.iter().zip(&signature.accesses);
        let accesses = accesses.map(|(&input, &access)| match access {
            Access::Write => self.write_access(input),
            other => other,
        });
        let mut operands: SmallVec<[(SpecClass, Access); 4]> =
            classes.iter().zip(accesses).collect();
        let mut made = made.iter();
        let mut outputs = SmallVec::new();
        for output in &signature.outputs {
            outputs.push(match output {
                OutputSpec::Same(input) => InferredOutput::Same(*input),
                OutputSpec::Fresh(_) => {
                    let Some(&tensor) = made.next() else { return };
                    let Some(class) = self.slots.class_if_known(tensor.id) else { return };
                    let spec = self.slots.shared_spec(tensor.id).clone();
                    operands.push((class, Access::Write));
                    InferredOutput::Fresh { bytes: spec.span_bytes() as u64, spec, class }
                }
                OutputSpec::View { of, .. } if is_view => {
                    let Some(&tensor) = made.next() else { return };
                    // Whether a view of a part of a storage covers the storage depends on more than
                    // the part's class.
                    let whole = self.slots.is_whole_class(classes.of(*of));
                    let class = whole.then(|| self.slots.class_if_known(tensor.id)).flatten();
                    let class = class.unwrap_or_default();
                    let spec = self.slots.shared_spec(tensor.id).clone();
                    let bytes = spec.span_bytes() as u64;
                    InferredOutput::View { of: *of, spec, bytes, class }
                }
                // Rare.
                OutputSpec::View { .. } | OutputSpec::Bounded(_) => return,
            });
        }
        let (workspace, inputs) = (signature.workspace as u64, call.inputs.len());
        let call = PreparedCall::new(call.op, operands, attrs, call.priority, workspace);
        let is_stored = is_view;
        let is_simple = outputs.len() == 1 && inputs < SIMPLE && workspace == 0 && !is_view;
        let entry =
            Inferred { hash, classes, call, inputs, outputs, is_view, is_stored, is_simple };
        let replaced = self.inference.add(Box::new(entry));
        if let Some(number) = replaced.and_then(|old| old.call.number) {
            sink.forget_call(number);
        }
    }

    /// Emits a call that was found, as [`InstructionsBuilder::call`] would.
    pub(super) fn call_inferred<S: Sink>(
        &mut self,
        sink: &mut S,
        call: &Call<'_>,
        (place, ordered): (usize, Ordered),
    ) -> Result<Outcome<Outputs>> {
        // Taken out while it is used, as the builder changes meanwhile.
        let Some(mut found) = self.inference.places[place].take() else {
            return self.call_anew(sink, call, None);
        };
        let outcome = if found.is_view {
            self.inferred_views(sink, call, &found).map(Outcome::Done)
        } else {
            self.emit_inferred(sink, call, &mut found, ordered)
        };
        self.inference.places[place] = Some(found);
        outcome
    }

    fn inferred_views(
        &mut self,
        sink: &mut impl Sink,
        call: &Call<'_>,
        found: &Inferred,
    ) -> Result<Outputs> {
        // All views or none: every check comes before the first emission.
        for output in &found.outputs {
            if let InferredOutput::View { of, spec, bytes, .. } = output {
                self.check_view(call.inputs[*of], spec, *bytes)?;
            }
        }
        let views = found.outputs.iter().map(|output| match output {
            InferredOutput::View { of, spec, class, .. } => {
                Output::Tensor(self.begin_view(sink, call.inputs[*of], spec, *class, call.origin))
            }
            InferredOutput::Same(input) => Output::Same(*input),
            InferredOutput::Fresh { .. } => unreachable!("a view makes no storage"),
        });
        Ok(views.collect())
    }

    fn emit_inferred<S: Sink>(
        &mut self,
        sink: &mut S,
        call: &Call<'_>,
        found: &mut Inferred,
        ordered: Ordered,
    ) -> Result<Outcome<Outputs>> {
        let Call { stream, origin, .. } = *call;
        let arena = self.streams[stream.index()].memory;
        let scratch = found.call.workspace();
        // Most calls make one tensor, in memory that their stream has free: nothing is collected.
        if let [InferredOutput::Fresh { spec, bytes, class }] = &found.outputs[..]
            && (scratch == 0 && found.is_stored && found.inputs < USUAL_INPUTS)
            && let Some(memory) = self.place_idle(stream, arena, *bytes)
        {
            let made = self.begin_classified(sink, stream, spec, *class, memory, origin);
            let mut tensors = [made; USUAL_INPUTS];
            tensors[..found.inputs].copy_from_slice(call.inputs);
            let tensors = &tensors[..=found.inputs];
            self.emit_found(sink, call, &found.call, tensors, None, ordered);
            let mut outputs = Outputs::new();
            outputs.push(Output::Tensor(made));
            return Ok(Outcome::Done(outputs));
        }
        let fresh = found.outputs.iter().filter_map(|output| match output {
            InferredOutput::Fresh { spec, bytes, class } => Some((spec, *bytes, *class)),
            _ => None,
        });
        let mut sizes: SmallVec<[(ArenaId, u64); 4]> =
            fresh.clone().map(|(_, bytes, _)| (arena, bytes)).collect();
        if scratch > 0 {
            sizes.push((arena, scratch));
        }
        let mut memory = Allocations::new();
        if let [(arena, bytes)] = sizes[..]
            && let Some(idle) = self.place_idle(stream, arena, bytes)
        {
            memory.push(idle);
        } else if !sizes.is_empty() {
            let purpose = |builder: &InstructionsBuilder, k: usize| {
                let name = builder.ops.get(call.op).map_or("?", |op| op.name());
                match fresh.clone().nth(k) {
                    Some((spec, ..)) => format!("{}, a result of {name}", spec.brief()),
                    None => format!("the scratch memory of {name}"),
                }
            };
            memory = match self.place(sink, stream, &sizes, purpose, origin)? {
                Outcome::Need(need) => return Ok(Outcome::Need(need)),
                Outcome::Done(memory) => memory,
            };
        }
        let workspace = if scratch > 0 { memory.pop() } else { None };
        let mut tensors: SmallVec<[TensorRef; USUAL_INPUTS]> = SmallVec::from_slice(call.inputs);
        for ((spec, _, class), memory) in fresh.zip(memory) {
            let made = self.begin_classified(sink, stream, spec, class, memory, origin);
            tensors.push(made);
        }
        let mut made = tensors[found.inputs..].iter();
        let outputs = found.outputs.iter().filter_map(|output| match output {
            InferredOutput::Same(input) => Some(Output::Same(*input)),
            _ => made.next().map(|tensor| Output::Tensor(*tensor)),
        });
        let outputs = outputs.collect();
        if !found.is_stored {
            let specs = tensors.iter().map(|tensor| self.slots.shared_spec(tensor.id).clone());
            found.call.number = sink.store_call(&found.call, specs.collect());
            found.is_stored = true;
        }
        self.emit_found(sink, call, &found.call, &tensors, workspace, ordered);
        Ok(Outcome::Done(outputs))
    }

    /// Emits a call on live tensors of its classes, none of which is held, with its waits.
    #[inline]
    fn emit_found(
        &mut self,
        sink: &mut impl Sink,
        Call { stream, origin, .. }: &Call<'_>,
        call: &PreparedCall,
        tensors: &[TensorRef],
        workspace: Option<Allocation>,
        ordered: Ordered,
    ) {
        let stream = *stream;
        if !ordered {
            let uses = tensors.iter().map(|tensor| tensor.id).zip(call.accesses());
            self.wait_for_uses(sink, stream, uses, origin);
        }
        let at = self.next(stream);
        for (tensor, access) in tensors.iter().zip(call.accesses()) {
            self.slots.used(tensor.id, at, access);
        }
        self.stats.count(Kind::OpCall);
        let placement = workspace.as_ref().map(|workspace| &workspace.placement);
        sink.emit_prepared(at, call, tensors, placement, origin);
        if let Some(workspace) = workspace {
            self.release_block(sink, workspace.block, Frontier::of(at), origin);
        }
    }
}
