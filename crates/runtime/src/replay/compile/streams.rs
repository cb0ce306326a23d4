//! Streams become tapes, and their order waits between tapes.

use millstream_instructions::{Body, Instruction, InstructionList, Kind, Via};
use millstream_ops::collective;
use millstream_types::{Error, EventId, Origin, Point, Result, StreamId, WorkKind};
use rustc_hash::FxHashSet;

use super::draft::{Clock, Draft, join};
use super::scope::Scope;
use super::{Compiler, too_many};
use crate::tapes::tape::Action;

/// The tapes that streams of the host share.
pub(super) struct SharedTapes {
    pub(super) tapes: Vec<u16>,
    pub(super) most: usize,
    pub(super) next: usize,
}

impl Compiler<'_> {
    /// Decides which streams of a list share tapes. Returns the tape of each stream; none for those
    /// that only order others.
    pub(super) fn open_tapes(
        &mut self,
        list: &InstructionList,
        shared: &mut SharedTapes,
    ) -> Result<Vec<Option<u16>>> {
        // A stream that only orders others has a tape if it meets other ranks.
        let meets = |i: &Instruction| match &i.body {
            Body::GlobalSync { at } => Some(at.stream),
            Body::OpCall { at, op, .. } => collective::is(list.ops.name(*op)).then_some(at.stream),
            _ => None,
        };
        let meets: FxHashSet<StreamId> = list.instructions.iter().filter_map(meets).collect();
        let mut tapes = Vec::with_capacity(list.streams.len());
        for (k, decl) in list.streams.iter().enumerate() {
            let runs_native = self.tables.policies.query(&decl.key, |p| p.runs_native())?;
            let meets = meets.contains(&StreamId(k as u16));
            if !runs_native && !meets {
                tapes.push(None);
                continue;
            }
            let is_asynchronous = runs_native
                && self.tables.policies.devices().capabilities(&decl.key.device)?.asynchronous;
            // A collective holds its tape until the other ranks have come, and a rank barrier too.
            let can_share = !is_asynchronous && !meets && !decl.work.contains(WorkKind::Collective);
            if can_share && shared.tapes.len() == shared.most {
                tapes.push(Some(shared.tapes[shared.next % shared.most]));
                shared.next += 1;
                continue;
            }
            let tape = u16::try_from(self.tapes.len()).map_err(|_| too_many("tapes"))?;
            if can_share {
                shared.tapes.push(tape);
            }
            tapes.push(Some(tape));
            let on_host = (!is_asynchronous).then_some(self.host_tapes);
            self.host_tapes += u16::from(!is_asynchronous);
            self.tapes.push(Draft::new(decl, on_host, is_asynchronous));
        }
        Ok(tapes)
    }

    /// Starts the clocks, once all tapes are known.
    pub(super) fn start_clocks(&mut self) {
        let none = self.no_steps();
        for draft in &mut self.tapes {
            draft.known = none.clone();
        }
    }

    pub(super) fn no_steps(&self) -> Clock {
        Clock::from_elem(0, self.tapes.len())
    }

    /// Adds the streams of a list, each with what has completed before its first instruction.
    /// Returns the number of the first one.
    pub(super) fn add_streams(
        &mut self,
        list: &InstructionList,
        tapes: Vec<Option<u16>>,
        before: &Clock,
    ) -> Result<u16> {
        let first = self.clocks.len();
        let last = first + tapes.len();
        let first = u16::try_from(first).map_err(|_| too_many("streams"))?;
        u16::try_from(last).map_err(|_| too_many("streams"))?;
        self.clocks.resize(last, before.clone());
        self.tape_of.extend(tapes);
        let all = |at: Point| Point::new(StreamId(first + at.stream.0), at.seq);
        for instruction in &list.instructions {
            self.awaited.extend(instruction.body.awaited().iter().copied().map(all));
        }
        Ok(first)
    }

    /// Makes the waits that the next instruction of a stream needs, and returns the stream's tape.
    pub(super) fn ready(&mut self, stream: StreamId) -> Result<u16> {
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
            draft.push(Action::Wait { tape: source as u16, steps }, self.source);
            draft.learn(source, steps, brought.as_ref());
        }
        Ok(tape)
    }

    /// Adds a step at a point of a stream.
    pub(super) fn step(&mut self, at: Point, tape: u16, action: Action) {
        let draft = &mut self.tapes[usize::from(tape)];
        draft.push(action, self.source);
        let done = draft.steps.len() as u32;
        self.clocks[at.stream.index()][usize::from(tape)] = done;
        self.note(at);
    }

    /// Keeps the clock at a point that an instruction waits for.
    pub(super) fn note(&mut self, at: Point) {
        if self.awaited.contains(&at) {
            self.at.insert(at, self.clocks[at.stream.index()].clone());
        }
    }

    /// Returns the clock at a point. A list that was taken on trust may lack the instruction there;
    /// then it is the clock of what the stream has so far.
    pub(super) fn clock_at(&self, point: Point) -> Clock {
        if point.seq == 0 {
            return self.no_steps();
        }
        self.at.get(&point).unwrap_or(&self.clocks[point.stream.index()]).clone()
    }

    pub(super) fn record(
        &mut self,
        scope: &mut Scope<'_>,
        at: Point,
        event: EventId,
        origin: &Origin,
    ) -> Result<()> {
        let at = scope.point(at);
        let tape = self.tape_of[at.stream.index()];
        let Some(tape) = tape.filter(|_| scope.on_device.contains(&event)) else {
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
        let call = self.tapes[usize::from(tape)].order_call(Kind::RecordEvent, origin);
        self.step(at, tape, Action::Record { event: slot, call });
        let steps = self.tapes[usize::from(tape)].steps.len() as u32;
        scope.events.insert(event, (slot, tape, steps));
        Ok(())
    }

    pub(super) fn wait(
        &mut self,
        scope: &Scope<'_>,
        stream: StreamId,
        until: Point,
        via: Via,
        origin: &Origin,
    ) -> Result<()> {
        let stream = scope.point(Point::new(stream, 0)).stream;
        let clock = self.clock_at(scope.point(until));
        if let Via::Device(event) = via
            && let Some(&(slot, source, steps)) = scope.events.get(&event)
            && let Some(tape) = self.tape_of[stream.index()]
            && self.tapes[usize::from(tape)].is_asynchronous
            && tape != source
            && self.tapes[usize::from(tape)].known[usize::from(source)] < steps
        {
            self.ready(stream)?;
            let brought = self.tapes[usize::from(source)].known_at(steps);
            let call = self.tapes[usize::from(tape)].order_call(Kind::StreamWaitEvent, origin);
            let draft = &mut self.tapes[usize::from(tape)];
            let action = Action::WaitOnDevice { event: slot, tape: source, steps, call };
            draft.push(action, self.source);
            draft.learn(usize::from(source), steps, brought.as_ref());
            let done = draft.steps.len() as u32;
            self.clocks[stream.index()][usize::from(tape)] = done;
        }
        join(&mut self.clocks[stream.index()], &clock);
        Ok(())
    }
}
