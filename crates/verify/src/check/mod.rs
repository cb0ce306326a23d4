//! The walk over a list, instruction by instruction.

mod launch;
mod scalars;
mod uses;
mod waits;

use std::rc::Rc;

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_instructions::text::Named;
use millstream_instructions::{Body, Class, Instruction, InstructionList, Placement, Via};
use millstream_types::{EventId, Point, ScalarValue, TensorSpec};

use crate::clock::Clock;
use crate::cycle::cycle;
use crate::footprint::Footprint;
use crate::liveness::Liveness;
use crate::memory::Arena;
use crate::needs::Needs;
use crate::regions::Sections;
use crate::rules;
use crate::storage::Storage;
use crate::streams::Streams;
use crate::verdict::{Reason, Verdict, Wait};
use crate::violation::{Site, Violation};

/// The number of violations after which a walk ends.
pub const MOST_VIOLATIONS: usize = 100;

/// The maximum number of characters shown of an instruction's line.
const LONGEST_LINE: usize = 240;

/// The maximum number of unending waits for which the walk searches a cycle.
const MOST_CYCLES: usize = 8;

/// The maximum number of instructions, on up to sixteen streams, of the walks that decide waits
/// which the clocks cannot decide.
const MOST_WALKED: usize = 4_000_000;

/// The number of streams up to which clocks also hold the knowledge without each wait. Their memory
/// grows with the square of the streams.
const MOST_TRACED: usize = 512;

/// The options of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// Whether instructions may name host callbacks.
    pub(crate) callbacks: bool,
    /// Whether conflicts are decided by bytes, or by whole storages.
    pub(crate) bytes: bool,
    /// Whether the walk determines which waits are needed.
    pub(crate) needs: bool,
    /// How many streams, the first ones, are threads of a host: pairs of their uses are presumed to
    /// be ordered.
    pub(crate) threads: usize,
}

pub(crate) struct Walk<'a> {
    list: &'a InstructionList,
    mode: Mode,
    /// The footprint of every tensor where conflicts are decided by whole storages.
    whole: Rc<Footprint>,
    needs: Needs,
    pairs: u64,
    streams: Streams,
    liveness: Liveness,
    arenas: Vec<Arena>,
    sections: Sections,
    /// The newest record of each event: its point and its index.
    records: FxHashMap<EventId, (Point, usize)>,
    found: Vec<Violation>,
    /// The lines shown so far, because one long line may violate many rules.
    lines: RefCell<FxHashMap<usize, String>>,
    /// What each instruction with a point knows that is neither a record nor a wait, if asked for.
    clocks: Option<FxHashMap<usize, Clock>>,
}

/// Walks a list. Returns its violations, up to [`MOST_VIOLATIONS`], and the waits if the mode asks
/// for them.
pub(crate) fn walk(list: &InstructionList, mode: Mode) -> Verdict {
    let mut walk = Walk::new(list, mode);
    let end = walk.instructions();
    let waits = if mode.needs { walk.waits(end) } else { Vec::new() };
    Verdict { violations: walk.found, pairs: walk.pairs, waits }
}

/// Returns the clocks of a list's instructions by their indices: the points that each comes after.
/// Records and waits are left out.
pub(crate) fn clocks(list: &InstructionList) -> FxHashMap<usize, Clock> {
    let mode = Mode { callbacks: true, bytes: false, needs: false, threads: 0 };
    let mut walk = Walk { clocks: Some(FxHashMap::default()), ..Walk::new(list, mode) };
    walk.instructions();
    walk.clocks.unwrap_or_default()
}

/// Returns whether an instruction is a wait, which a list could omit.
pub(crate) const fn is_wait(body: &Body) -> bool {
    matches!(body.class(), Class::Waits | Class::Observes)
}

impl<'a> Walk<'a> {
    fn new(list: &'a InstructionList, mode: Mode) -> Walk<'a> {
        Walk {
            list,
            mode,
            whole: Rc::new(Footprint::dense(0, u64::MAX)),
            needs: Needs::new(mode.needs, list.streams.len() <= MOST_TRACED),
            pairs: 0,
            streams: Streams::new(list),
            liveness: Liveness::default(),
            arenas: list.arenas.iter().map(|_| Arena::default()).collect(),
            sections: Sections::default(),
            records: FxHashMap::default(),
            found: Vec::new(),
            lines: RefCell::default(),
            clocks: None,
        }
    }

    /// Walks over all instructions, up to [`MOST_VIOLATIONS`]. Returns the index of the end.
    fn instructions(&mut self) -> usize {
        self.header();
        self.executables();
        let list = self.list;
        for (index, Instruction { body, .. }) in list.instructions.iter().enumerate() {
            if self.found.len() == MOST_VIOLATIONS {
                return index;
            }
            if self.declared(index, body) {
                self.instruction(index, body);
            }
        }
        let open: Vec<usize> = self.sections.open().collect();
        for index in open {
            self.report(|walk| Violation::NotClosed { site: walk.site(index) });
        }
        list.instructions.len()
    }
}

impl Walk<'_> {
    /// Returns the waits before `end`, each with whether it is needed.
    fn waits(&mut self, end: usize) -> Vec<Wait> {
        if self.found.is_empty() {
            self.walk_without();
        }
        let waits = self.list.instructions[..end].iter().enumerate();
        waits
            .filter(|(_, i)| is_wait(&i.body))
            .map(|(index, _)| {
                let (needed, reason) = self.needs.reason(index);
                Wait { index, needed, reason }
            })
            .collect()
    }

    /// Decides each wait that the clocks cannot decide by a walk over the list without it, within a
    /// budget of instructions.
    fn walk_without(&mut self) {
        let lost: Vec<usize> = match self.needs.traced() {
            true => self.streams.lost().iter().copied().collect(),
            false => {
                let all = self.list.instructions.iter().enumerate();
                all.filter(|(_, i)| is_wait(&i.body)).map(|(index, _)| index).collect()
            }
        };
        // A clock of sixteen streams is one leaf.
        let cost = self.list.instructions.len() * (1 + self.list.streams.len() / 16);
        let mut left = MOST_WALKED;
        for wait in self.needs.undecided(lost) {
            let Some(less) = left.checked_sub(cost) else {
                self.needs.mark_needed(wait, Reason::Undecided);
                continue;
            };
            left = less;
            let mut fewer = self.list.clone();
            fewer.instructions.remove(wait);
            let mode = Mode { needs: false, ..self.mode };
            self.needs.decide(wait, !walk(&fewer, mode).violations.is_empty());
        }
    }

    /// Returns the footprint of a tensor.
    fn footprint(&self, spec: &TensorSpec) -> Rc<Footprint> {
        match self.mode.bytes {
            true => Rc::new(Footprint::of(spec)),
            false => self.whole.clone(),
        }
    }

    /// Returns the footprint of a whole storage.
    fn all_of(&self, bytes: u64) -> Rc<Footprint> {
        match self.mode.bytes {
            true => Rc::new(Footprint::dense(0, bytes)),
            false => self.whole.clone(),
        }
    }

    /// Returns the cycle that a wait is part of.
    fn cycle(&self, index: usize, until: Point) -> Vec<usize> {
        if self.found.len() < MOST_CYCLES { cycle(self.list, index, until) } else { Vec::new() }
    }

    fn site(&self, index: usize) -> Site {
        let mut lines = self.lines.borrow_mut();
        let line = lines.entry(index).or_insert_with(|| {
            let mut line = Named(&self.list.instructions[index], &self.list.ops).to_string();
            if let Some((end, _)) = line.char_indices().nth(LONGEST_LINE) {
                line.truncate(end);
                line.push('…');
            }
            line
        });
        Site { index, line: line.clone() }
    }

    /// Reports a violation, up to the limit: a bad list can violate rules without end.
    fn report(&mut self, violation: impl FnOnce(&Self) -> Violation) {
        if self.found.len() < MOST_VIOLATIONS {
            let violation = violation(self);
            self.found.push(violation);
        }
    }

    fn header(&mut self) {
        for external in &self.list.externals {
            let site = || format!("external {} {:?}", external.tensor, external.name);
            if external.arena.index() >= self.arenas.len() {
                let what = external.arena.to_string();
                self.report(|_| Violation::NotDeclared { site: site(), what });
            }
            if external.spec.span_bytes() as u64 > external.bytes {
                let (spec, bytes) = (Box::new(external.spec.clone()), external.bytes);
                self.report(|_| Violation::PastStorage { site: site(), spec, bytes });
            }
            let storage = Storage::new(external.tensor, external.bytes, None);
            self.liveness.insert_storage(external.tensor, self.footprint(&external.spec), storage);
        }
        for (number, generator) in self.list.generators.iter().enumerate() {
            for scalar in [generator.seed, generator.offset] {
                let what = match self.list.scalars.get(scalar.index()).map(|s| s.value) {
                    Some(ScalarValue::Int(_)) => continue,
                    Some(ScalarValue::Float(_)) => format!("{scalar} as a whole number"),
                    None => scalar.to_string(),
                };
                let site = format!("generator {number}");
                self.report(|_| Violation::NotDeclared { site, what });
            }
        }
    }

    /// Whether all that an instruction names is declared, and its stream is one that can run it.
    fn declared(&mut self, index: usize, body: &Body) -> bool {
        let mut missing: SmallVec<[String; 2]> = SmallVec::new();
        for stream in rules::streams(body) {
            if !self.streams.is_declared(stream) {
                missing.push(stream.to_string());
            }
        }
        if let Some(Placement { arena, .. }) = body.placement()
            && arena.index() >= self.arenas.len()
        {
            missing.push(arena.to_string());
        }
        if let Body::OpCall { op, .. } = body
            && self.list.ops.get(*op).is_none()
        {
            missing.push(op.to_string());
        }
        if let Body::LazyJobLauncher { list, .. } = body
            && list.index() >= self.list.executables.len()
        {
            missing.push(list.to_string());
        }
        if let Body::OpCall { attrs: Some(attrs), .. }
        | Body::LazyJobLauncher { attrs: Some(attrs), .. } = body
        {
            missing.extend(scalars::undeclared(self.list, body, attrs));
        }
        if !missing.is_empty() {
            for what in missing {
                let site = |walk: &Self| walk.site(index).to_string();
                self.report(|walk| Violation::NotDeclared { site: site(walk), what });
            }
            return false;
        }
        let runs_on = body.kind().runs_on();
        if let Some(at) = body.at() {
            let (stream, found) = (at.stream, self.streams.ty(at.stream));
            if !runs_on.allows(self.streams.work(stream)) {
                let expected = runs_on.to_string();
                self.report(|walk| Violation::WrongStream {
                    site: walk.site(index),
                    stream,
                    found,
                    expected,
                });
                return false;
            }
        }
        true
    }

    fn instruction(&mut self, index: usize, body: &Body) {
        match body {
            // An annotation: it gives the reason for a wait, and orders nothing.
            Body::SoftSyncStream { .. } => {}
            Body::AllocateTensor { on, tensor, spec, placement } => {
                self.allocate(index, *on, *tensor, spec, placement);
            }
            Body::ViewTensor { tensor, of, spec } => self.view(index, *tensor, *of, spec),
            Body::ReleaseTensor { tensor } => {
                if self.live(index, *tensor).is_some() {
                    self.liveness.release(*tensor, index);
                    self.sections.release(*tensor);
                }
            }
            Body::HostObserved { points } => self.observe(index, points),
            Body::Barrier { at } | Body::GlobalSync { at } => {
                self.counts_up(index, *at);
                if let Some(clocks) = &mut self.clocks {
                    clocks.insert(index, self.streams.latest().clone());
                }
                self.streams.barrier(*at);
            }
            Body::RecordEvent { at, event } => self.record(index, *at, *event),
            Body::StreamWaitEvent { at, until, via } => self.wait(index, *at, *until, *via),
            Body::StreamWait { at, until, via } => {
                // A wait by the device has a point on both streams, and records on the source.
                if let Via::Device(event) = via {
                    self.record_half(index, *until, *event);
                }
                self.wait(index, *at, *until, *via);
            }
            Body::OpCall { at, workspace, .. } => self.work(index, *at, body, workspace.as_deref()),
            Body::AccessBlobByCallback { at, .. } => {
                if !self.mode.callbacks {
                    self.report(|walk| Violation::Callback { site: walk.site(index) });
                }
                self.work(index, *at, body, None);
            }
            Body::TouchTensors { at, .. } | Body::SyncRead { at, .. } => {
                self.work(index, *at, body, None);
            }
            Body::LazyJobLauncher { at, list, operands, attrs } => {
                self.launch(index, *list, operands, attrs.as_deref());
                self.work(index, *at, body, None);
            }
            Body::CriticalSectionBegin { at, operands } => {
                self.work(index, *at, body, None);
                let tensors = operands.iter().map(|o| o.tensor);
                let taken = self.sections.begin(at.stream, index, tensors, &mut self.liveness);
                for (tensor, begun) in taken {
                    self.report(|walk| Violation::Held {
                        site: walk.site(index),
                        tensor,
                        begun: walk.site(begun),
                    });
                }
            }
            Body::CriticalSectionEnd { at, operands } => {
                self.work(index, *at, body, None);
                let tensors = operands.iter().map(|o| o.tensor).collect();
                if !self.sections.end(at.stream, tensors, &mut self.liveness) {
                    self.report(|walk| Violation::NotOpen { site: walk.site(index) });
                }
            }
        }
    }
}
