//! The emission of one instruction.

use smallvec::SmallVec;

use millstream_types::{Access, Error, Origin, Point, Result, StreamId, StreamMode, TensorId};

use crate::builder::{Launch, LaunchOperand, Outcome, SectionId, StatedCall, TensorRef};
use crate::frontier::Frontier;
use crate::instruction::{Class, Operand};
use crate::passes::placement::Owner;
use crate::passes::rebuild::Emitter;
use crate::passes::rebuild::order::Passed;
use crate::passes::rebuild::plan::{Step, Waits};
use crate::table::Body;

impl<'a> Emitter<'a> {
    pub(super) fn origin(&self, step: &Step<'_>) -> &'a Origin {
        &self.facts.list.instructions[step.index].origin
    }

    pub(super) fn stream(&self, step: &Step<'_>, old: StreamId) -> StreamId {
        step.on.unwrap_or(self.plan.stream_of[old.index()])
    }

    pub(super) fn tensor(&self, tensor: TensorId) -> Result<TensorRef> {
        let message = || format!("{tensor} is used, but the plan does not begin it");
        self.refs.get(&tensor).copied().ok_or_else(|| Error::Internal { message: message() })
    }

    pub(super) fn operands(
        &self,
        operands: &[Operand],
    ) -> Result<SmallVec<[(TensorRef, Access); 4]>> {
        operands.iter().map(|o| Ok((self.tensor(o.tensor)?, o.access))).collect()
    }

    /// Returns the newest section that holds one of these tensors.
    pub(super) fn section(&self, tensors: &[(TensorRef, Access)]) -> Result<Option<SectionId>> {
        let mut holders: SmallVec<[SectionId; 2]> = SmallVec::new();
        for (tensor, _) in tensors {
            holders.extend(self.builder.held_by(*tensor)?);
        }
        let newest = self.sections.iter().rev().find(|(_, _, id)| holders.contains(id));
        Ok(newest.map(|(_, _, id)| *id))
    }

    pub(super) fn step(&mut self, step: &Step<'_>) -> Result<()> {
        let origin = self.origin(step);
        self.emit(step).map_err(|e| e.at(origin))
    }

    pub(super) fn emit(&mut self, step: &Step<'_>) -> Result<()> {
        let body = &*step.body;
        self.sink.source = step.index;
        match (body.class(), body.at()) {
            (Class::Begins, _) => {
                // A view lies where its base does.
                let mut stream = StreamId(0);
                if let Some(on) = body.on() {
                    stream = self.stream(step, on);
                    let (points, origin) = (self.points_before(step), self.origin(step));
                    self.builder.wait_points(&mut self.sink, stream, &points, origin)?;
                }
                if let Some((tensor, _)) = body.begins() {
                    self.begin(tensor, stream, step.index)?;
                }
            }
            (Class::Ends, _) => {
                if let Some(tensor) = body.ends() {
                    self.release(tensor, step.index)?;
                }
            }
            (Class::Observes, _) => self.observe(step, body.awaited()),
            (Class::Records, Some(at)) => {
                if self.waits != Waits::Needed && self.recorded.contains(&at) {
                    self.record(step, self.stream(step, at.stream))?;
                }
                self.note(step, None);
            }
            (Class::Waits, Some(at)) => {
                if self.waits != Waits::Needed
                    && let Some(until) = body.until().and_then(|until| self.new_point(until))
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
            (Class::Computes | Class::Orders | Class::Fences, Some(at)) => {
                let stream = self.stream(step, at.stream);
                // A barrier comes after everything as it is.
                if body.class() != Class::Fences {
                    let edges = self.edges(step, stream);
                    let mut points = self.points_before(step);
                    points.retain(|p| p.stream != stream && !edges.covers(*p));
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
            // An annotation is made anew, and nothing else is without a point.
            (Class::Annotates, _) | (_, None) => {}
        }
        Ok(())
    }

    /// Has the host observe what stands for these old points.
    fn observe(&mut self, step: &Step<'_>, points: &[Point]) {
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

    /// Records an event on `stream`, for waits that follow.
    pub(super) fn record(&mut self, step: &Step<'_>, stream: StreamId) -> Result<()> {
        let origin = self.origin(step);
        let event = self.builder.record_event(&mut self.sink, stream, origin)?;
        self.builder.release_event(&event);
        Ok(())
    }

    /// Emits an instruction that has a point and is neither a record nor a wait.
    pub(super) fn work(&mut self, step: &Step<'_>, stream: StreamId) -> Result<Point> {
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
            Body::LazyJobLauncher { list, attrs, .. } => {
                // An overwrite of a part of a storage is stated as a change, which stays one.
                let given: Vec<LaunchOperand<'_>> =
                    operands.iter().map(|(t, access)| LaunchOperand::Given(*t, *access)).collect();
                let attrs = attrs.as_ref();
                let launch =
                    Launch { stream, list: *list, operands: &given, attrs, section, origin };
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
    pub(super) fn note(&mut self, step: &Step<'_>, new: Option<Point>) {
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
    pub(super) fn new_point(&self, old: Point) -> Option<Point> {
        let reached = &self.reached[old.stream.index()];
        let upto = reached.partition_point(|(seq, _)| *seq <= old.seq);
        reached[..upto].last().map(|(_, new)| *new).filter(|new| new.seq > 0)
    }
}
