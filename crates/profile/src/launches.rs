//! The instructions within launches of executables, with their times.
//!
//! The list of an executable becomes instructions of the profile as any other list does, once for
//! each launch. They stand before the launch, which ends when the last of them has ended.
//!
//! A tape makes a wait where its next step needs one, and none where it keeps the order anyway. So
//! a wait of the list has the time of the tape's wait before the next step of its stream, and no
//! time if there is none.

use std::collections::HashMap;

use millstream_instructions::{Body, Class, Instruction as Noted, InstructionList};
use millstream_types::{Point, StreamId};
use millstream_vm::{LaunchTimes, Outcome as Ended, StepTimes};

use crate::causes::Causes;
use crate::from_list::{Building, ListTimes};
use crate::model::{Instruction, NONE, Outcome, Resolution, Role, Stream, Times, Wait};
use crate::scope::Scope;

/// The instruction that a step is made for: its index in the executable's list; within another
/// executable that this one launches, the index of the launch, and its own.
type Source = (u32, Option<u32>);

/// The times of the steps of a launch, by their instructions.
pub struct LaunchSteps {
    own: HashMap<Source, (Times, Outcome)>,
    /// The waits of a tape before a step, each with the step that it is for.
    waits: HashMap<Source, Vec<(Times, Option<Source>)>>,
    /// The tape of each stream, by the launch within the list and the stream's number, and its
    /// worker.
    tapes: HashMap<(Option<u32>, StreamId), (u32, Option<u32>)>,
    /// Which instance of its private memory the launch has, from 0.
    instance: usize,
    begin: u64,
}

impl LaunchSteps {
    /// Returns the steps of a launch of a list that all begin and end with it; none if the list is
    /// empty. A launch among them spans its own steps.
    pub fn untimed(list: &InstructionList) -> Option<LaunchSteps> {
        let mut own = HashMap::new();
        let placed = |k: &(u32, &Noted)| k.1.body.at().is_some();
        for (index, instruction) in (0..).zip(&list.instructions).filter(placed) {
            let inner = instruction.body.list().and_then(|id| list.executables.get(id.index()));
            let inner = inner.map(|list| (0..).zip(&list.instructions).filter(placed));
            let sources: Vec<Source> = match inner {
                Some(steps) => steps.map(|(step, _)| (index, Some(step))).collect(),
                None => vec![(index, None)],
            };
            own.extend(sources.into_iter().map(|step| (step, (moment(0), Outcome::Completed))));
        }
        let (waits, tapes) = (HashMap::new(), HashMap::new());
        (!own.is_empty()).then_some(LaunchSteps { own, waits, tapes, instance: 0, begin: 0 })
    }

    /// Returns the steps of a launch of a list; none if it has no times, as a graph of a device.
    /// `tape` numbers the machine's streams that run tapes.
    pub(crate) fn of(
        list: &InstructionList,
        launch: &LaunchTimes,
        instance: usize,
        mut tape: impl FnMut(StreamId) -> u32,
    ) -> Option<LaunchSteps> {
        let source = |step: &StepTimes| (step.instruction, step.inner);
        let begin = launch.steps.iter().map(|step| step.ready).min()?;
        let (own, waits, tapes) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut steps = LaunchSteps { own, waits, tapes, instance, begin };
        for step in &launch.steps {
            let StepTimes { ready, start, end, .. } = *step;
            let times = Times { ready, start, end };
            let Some(body) = body_of(list, source(step)) else { continue };
            let until = step.until.and_then(|k| launch.steps.get(k as usize)).map(source);
            if step.waits && body.until().is_none() {
                steps.waits.entry(source(step)).or_default().push((times, until));
                continue;
            }
            // A wait on a device comes after those of its worker.
            if let Some((times, _)) = steps.own.insert(source(step), (times, outcome(step.outcome)))
            {
                steps.waits.entry(source(step)).or_default().push((times, None));
            }
            let Some(at) = body.at() else { continue };
            let Some(of) = launch.tapes.get(usize::from(step.tape)) else { continue };
            let within = step.inner.map(|_| step.instruction);
            let worker = of.worker.map(|worker| worker as u32);
            steps.tapes.entry((within, at.stream)).or_insert_with(|| (tape(of.stream), worker));
        }
        Some(steps)
    }
}

/// Returns how an instruction ended.
pub(crate) const fn outcome(ended: Ended) -> Outcome {
    match ended {
        Ended::Completed => Outcome::Completed,
        Ended::Failed => Outcome::Failed,
        Ended::Skipped => Outcome::Skipped,
    }
}

fn body_of(list: &InstructionList, (instruction, inner): Source) -> Option<&Body> {
    let body = &list.instructions.get(instruction as usize)?.body;
    let Some(inner) = inner else { return Some(body) };
    let list = list.executables.get(body.list()?.index())?;
    Some(&list.instructions.get(inner as usize)?.body)
}

/// The times of a launched list.
struct Launched<'a> {
    list: &'a InstructionList,
    steps: &'a LaunchSteps,
    /// The launch within the outermost launched list, if this is its list.
    within: Option<u32>,
    issued: Option<u64>,
}

impl Launched<'_> {
    fn source(&self, index: usize) -> Source {
        match self.within {
            Some(launch) => (launch, Some(index as u32)),
            None => (index as u32, None),
        }
    }

    fn own(&self, index: usize) -> Option<(Times, Outcome)> {
        self.steps.own.get(&self.source(index)).copied()
    }
}

impl ListTimes for Launched<'_> {
    fn issued(&self, _: usize) -> Option<u64> {
        self.issued
    }

    fn at(&self, index: usize, _: Point) -> Option<(Times, Outcome)> {
        self.own(index)
    }
}

/// A wait of the list that no step of its stream has followed.
struct Pending {
    waiter: u32,
    until: u32,
    /// When the tape's wait for it ended, if it made one.
    ended: Option<u64>,
}

/// A launched list on its way into the profile.
struct Embedding<'a> {
    times: Launched<'a>,
    pending: HashMap<usize, Vec<Pending>>,
    /// The streams with calls whose times are not known.
    unknown: Vec<StreamId>,
    /// The uses of its tensors, if the list has no notes of its needs to wait.
    causes: Option<Causes>,
}

impl Building {
    /// Adds the instructions of a launch, with their times.
    pub(crate) fn launch(
        &mut self,
        list: &InstructionList,
        body: &Body,
        steps: &LaunchSteps,
        issued: Option<u64>,
    ) {
        self.step_positions.clear();
        self.launched(list, body, (steps, None), issued);
    }

    fn launched(
        &mut self,
        list: &InstructionList,
        body: &Body,
        (steps, within): (&LaunchSteps, Option<u32>),
        issued: Option<u64>,
    ) {
        let inner = body.list().and_then(|id| list.executables.get(id.index()));
        let Some((inner, id)) = inner.zip(body.list()) else { return };
        let instance = match steps.instance {
            0 => String::new(),
            instance => format!(", instance {}", instance + 1),
        };
        let suffix = format!(" in {id}{}{instance}", self.scope.suffix);
        let mut scope = Scope::of(inner, suffix);
        for (external, operand) in inner.externals.iter().zip(body.operands()) {
            let Some(&given) = self.scope.tensors.get(&operand.tensor) else { continue };
            scope.tensors.insert(external.tensor, given);
            let tensor = &mut self.profile.tensors[given as usize];
            let storage = &self.profile.storages[tensor.storage as usize];
            // A new tensor has the name of the result that it is for.
            if storage.last_use == NONE && storage.allocated != NONE && !operand.access.reads() {
                tensor.name.clone_from(&external.name);
            }
        }
        let tapes = (0..inner.streams.len())
            .map(|k| steps.tapes.get(&(within, StreamId(k as u16))).copied());
        scope.tapes = tapes.collect();
        let times = Launched { list: inner, steps, within, issued };
        let is_unknown = |index: usize| {
            let body = &inner.instructions[index].body;
            let works = matches!(body, Body::OpCall { .. } | Body::SyncRead { .. });
            body.at().filter(|_| works && times.own(index).is_none()).map(|at| at.stream)
        };
        let unknown = (0..inner.instructions.len()).filter_map(is_unknown).collect();
        let is_noted = |i: &Noted| matches!(i.body, Body::SoftSyncStream { .. });
        let causes = (!inner.instructions.iter().any(is_noted)).then(Causes::default);
        let mut embedding = Embedding { times, pending: HashMap::new(), unknown, causes };
        let outer = std::mem::replace(&mut self.scope, scope);
        let made = self.profile.storages.len();
        for index in 0..inner.instructions.len() {
            self.embed(&mut embedding, index);
        }
        // Private memory ends with the launch.
        let last = self.profile.instructions.len() as u32 - 1;
        let unreleased = self.profile.storages[made..].iter_mut().filter(|s| s.released == NONE);
        unreleased.for_each(|storage| storage.released = last);
        self.scope = outer;
    }

    fn embed(&mut self, embedding: &mut Embedding<'_>, index: usize) {
        let Launched { list, steps, within, issued } = embedding.times;
        let body = &list.instructions[index].body;
        let source = embedding.times.source(index);
        let at = body.at();
        if let Some(at) = at.filter(|_| body.until().is_none()) {
            self.waits_before(embedding, index, at);
        }
        let before = at.and_then(|at| self.last_of(at.stream.index()));
        let first = self.profile.instructions.len();
        if body.list().is_some() && within.is_none() {
            self.launched(list, body, (steps, Some(index as u32)), issued);
        }
        let from = self.profile.instructions.len();
        let open = at.and_then(|at| self.scope.tracks.get(at.stream.index()));
        let open = open.map_or_else(Vec::new, |track| track.open.clone());
        self.instruction(list, index, &embedding.times);
        // A need to wait is no instruction.
        let Some(own) = self.profile.instructions.len().checked_sub(1).filter(|own| *own >= from)
        else {
            return;
        };
        self.own_steps(first, own);
        self.step_positions.insert(source, own as u32);
        let Some(at) = at else { return };
        let uses = matches!(body.class(), Class::Computes | Class::Orders);
        if let Some(causes) = embedding.causes.as_mut().filter(|_| uses) {
            self.explain(causes, own as u32, at, &open);
        }
        if self.profile.instructions[own].times.is_some() {
            return;
        }
        if from > first {
            self.profile.instructions[own].times = self.span(first..own);
            return;
        }
        let until = body.until().map_or(NONE, |point| self.at(point));
        let works = self.profile.instructions[own].role == Role::Work;
        if works || embedding.unknown.contains(&at.stream) {
            // A device has run it in a graph.
            self.profile.instructions[own].stream = NONE;
            return;
        }
        // It takes no time of its own.
        let end = |k: u32| self.profile.instructions.get(k as usize)?.times.map(|times| times.end);
        let ended = before.and_then(end).max(end(until)).unwrap_or(steps.begin);
        self.profile.instructions[own].times = Some(moment(ended));
        if body.until().is_some() {
            let pending = Pending { waiter: own as u32, until, ended: None };
            embedding.pending.entry(at.stream.index()).or_default().push(pending);
        }
    }

    /// Gives the waits before an instruction their times. The tape has waited for other tapes, for
    /// all that the stream was to wait for since its instruction before.
    fn waits_before(&mut self, embedding: &mut Embedding<'_>, index: usize, at: Point) {
        let Launched { list, steps, issued, .. } = embedding.times;
        let stream = at.stream.index();
        let made = steps.waits.get(&embedding.times.source(index)).map_or(&[][..], |all| all);
        let own = embedding.times.own(index).map(|(times, _)| times);
        let mut reached = match (made.first(), own) {
            (Some((times, _)), _) => times.ready,
            (None, Some(times)) => times.ready,
            // An instruction that the tape has no step for.
            (None, None) => return,
        };
        let mut pending = embedding.pending.remove(&stream).unwrap_or_default();
        for (times, until) in made {
            let until = until.and_then(|until| self.step_positions.get(&until).copied());
            let tape = |k: u32| self.tape_of(k);
            let same = pending.iter().rposition(|wait| {
                until.is_some_and(|until| tape(wait.until).is_some_and(|t| Some(t) == tape(until)))
            });
            match same.or(pending.len().checked_sub(1)) {
                Some(k) => pending[k].ended = pending[k].ended.max(Some(times.end)),
                None => {
                    let origin = &list.instructions[index].origin;
                    self.wait_of_tape(stream, origin, issued, *times, until);
                    reached = times.end;
                }
            }
        }
        for wait in pending {
            let end = wait.ended.map_or(reached, |ended| ended.max(reached));
            let times = Times { ready: reached, start: reached, end };
            self.profile.instructions[wait.waiter as usize].times = Some(times);
            reached = end;
        }
    }

    /// Adds a wait that the list does not have: what it is for follows from a barrier, or from what
    /// the host has observed.
    fn wait_of_tape(
        &mut self,
        stream: usize,
        origin: &millstream_types::Origin,
        issued: Option<u64>,
        times: Times,
        until: Option<u32>,
    ) {
        let waiter = self.profile.instructions.len() as u32;
        let (name, place) = (self.name("wait"), self.place(origin));
        let stream_number = self.stream(stream);
        self.profile.instructions.push(Instruction {
            name,
            role: Role::Wait,
            stream: stream_number,
            place,
            issued,
            times: Some(times),
            parent: NONE,
            ..Instruction::default()
        });
        let until = until.unwrap_or(NONE);
        let open = &mut self.scope.tracks[stream].open;
        open.push(self.profile.waits.len() as u32);
        let resolution = Resolution::Host;
        self.profile.waits.push(Wait { waiter, until, resolution, ..Wait::default() });
    }

    /// Makes the instructions from `first` to `own` steps of `own`, unless they are those of
    /// another launch.
    pub(crate) fn own_steps(&mut self, first: usize, own: usize) {
        let steps = &mut self.profile.instructions[first..own];
        steps.iter_mut().filter(|i| i.parent == NONE).for_each(|i| i.parent = own as u32);
    }

    /// Returns the time from the first begin to the last end of instructions.
    fn span(&self, all: std::ops::Range<usize>) -> Option<Times> {
        let times = || self.profile.instructions[all.clone()].iter().filter_map(|i| i.times);
        let start = times().map(|times| times.start).min()?;
        let end = times().map(|times| times.end).max()?;
        Some(Times { ready: start, start, end })
    }

    /// Returns the tape of an instruction.
    fn tape_of(&self, instruction: u32) -> Option<u32> {
        let instruction = self.profile.instructions.get(instruction as usize)?;
        self.profile.streams.get(instruction.stream as usize)?.tape
    }
}

/// Returns the times of what takes none.
const fn moment(at: u64) -> Times {
    Times { ready: at, start: at, end: at }
}

/// Returns a stream of an executable.
pub(crate) fn stream_of(stream: Stream, tape: Option<(u32, Option<u32>)>) -> Stream {
    Stream {
        tape: tape.map(|(tape, _)| tape),
        worker: tape.and_then(|(_, worker)| worker),
        ..stream
    }
}
