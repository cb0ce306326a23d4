//! The executable of the notes between two guards.
//!
//! Long because each kind of note is recorded here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use std::ops::Range;

use millstream_instructions::GeneratorDecl;
use millstream_instructions::builder::EventRef;
use millstream_instructions::passes::Pass;
use millstream_runtime::scope::origin::with_origin;
use millstream_types::{
    Attrs, Error, Origin, Result, ScalarId, ScalarUse, ScalarValue, StreamId, StreamKey, StreamMode,
};

use crate::executable::scalars::uses;
use crate::executable::{Executable, RecordedTensor, Recorder};
use crate::handle::Tensor;
use crate::handle::generator::{Generator, GeneratorState};
use crate::handle::machine::Machine;

use super::draws::{Drawn, Source, source};
use super::gradients::{Left as LeftGradient, Owner};
use super::note::{Action, Note, Place, StreamName, Value};
use super::run::Run;

/// The usual passes but the one that removes dead calls: their failures are the program's.
const PASSES: &[Pass] = &[Pass::Fuse, Pass::Waits, Pass::Memory];

/// The executable of a segment.
pub(super) struct Segment {
    pub(super) executable: Executable,
    /// The values of its inputs, by number of their formals.
    inputs: Vec<(usize, Value)>,
    /// The values of its outputs, in order.
    outputs: Vec<Value>,
    /// The outputs that become gradients of leaves that the function has set by then.
    replaced: Vec<(usize, Owner)>,
    /// The draws of earlier segments that its calls use, and their scalars.
    earlier: Vec<(ScalarId, EarlierDraw)>,
}

/// A number of a draw of an earlier segment.
#[derive(Clone)]
struct EarlierDraw {
    generator: Generator,
    /// The number of the draw among the generator's.
    number: usize,
    is_offset: bool,
}

/// What a launch of a segment leaves: the values of its outputs, and what it drew.
pub(super) struct Left {
    pub(super) outputs: Vec<(Value, Tensor)>,
    pub(super) draws: Vec<Drawn>,
}

/// What a segment is made of.
pub(super) struct Draft<'a> {
    pub(super) machine: &'a Machine,
    /// The whole run.
    pub(super) run: &'a Run,
    /// The calls of the segment.
    pub(super) notes: &'a [Note],
    /// Where the values before the segment lie: the inputs, and what earlier segments left.
    pub(super) before: &'a BTreeMap<Value, Place>,
    /// The values that are used after the segment, or that may be.
    pub(super) after: &'a [Value],
    /// The number of guards before the segment.
    pub(super) number: usize,
    /// How many draws of each generator come before the segment, and how many with it.
    pub(super) draws: [&'a [usize]; 2],
}

impl Draft<'_> {
    /// Compiles the segment; none if there is nothing to run.
    ///
    /// # Errors
    /// A call cannot stand in an executable, with its place.
    pub(super) fn compile(&self) -> Result<Option<Segment>> {
        let is_read = |note: &&Note| matches!(note.action, Action::Read { .. });
        let draws_none = (0..self.run.generators.len()).all(|k| self.drawn(k).is_empty());
        if self.notes.iter().all(|note| is_read(&note)) && draws_none {
            return Ok(None);
        }
        let mut emitter = Emitter {
            recorder: self.machine.recorder(),
            draft: self,
            known: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            changed: changed(self.notes, self.after),
            draws: Vec::new(),
            earlier: Vec::new(),
        };
        // So the scalars have the same numbers in the segment and in the notes.
        for (name, value) in &self.run.arguments {
            emitter.recorder.scalar(name, *value)?;
        }
        for (k, drawn) in self.run.generators.iter().enumerate() {
            let count = self.drawn(k).len() as u64;
            let declared = (count > 0).then(|| emitter.recorder.draws(&drawn.generator, count));
            emitter.draws.push(declared);
        }
        let inputs = emitter.declare()?;
        for note in self.notes {
            with_origin(&note.origin, || emitter.emit(note)).map_err(|e| e.at(&note.origin))?;
        }
        let (mut outputs, mut replaced) = (Vec::new(), Vec::new());
        for value in self.after {
            if let (Value::Made(_), Some(tensor)) = (value, emitter.known.get(value))
                && !self.before.contains_key(value)
            {
                let name = value.to_string();
                match self.run.left.iter().find(|gradient| gradient.value() == Some(*value)) {
                    Some(LeftGradient { owner, set_in, .. }) => {
                        let output = emitter.recorder.gradient(&name, tensor)?;
                        let is_set = *set_in <= self.number;
                        replaced.extend(is_set.then(|| (output, owner.clone())));
                    }
                    None => emitter.recorder.output(&name, tensor)?,
                }
                outputs.push(*value);
            }
        }
        let earlier = emitter.earlier.into_iter().filter_map(|(used, scalar)| {
            let (generator, is_offset) = self.draw(used)?;
            let generator = self.run.generators.get(generator)?.generator.clone();
            let number = usize::try_from(used.plus).ok()?;
            Some((scalar, EarlierDraw { generator, number, is_offset }))
        });
        let earlier = earlier.collect();
        let recorded = emitter.recorder.finish()?.optimize(PASSES, |_, _| ())?;
        let executable = recorded.compile_as_is()?;
        let formal = |(name, value): (String, Value)| Ok((executable.input_number(&name)?, value));
        let inputs = inputs.into_iter().map(formal).collect::<Result<_>>()?;
        Ok(Some(Segment { executable, inputs, outputs, replaced, earlier }))
    }

    /// Returns the number of the generator that a use names, and whether it names the offset.
    fn draw(&self, used: ScalarUse) -> Option<(usize, bool)> {
        match source(used, self.run.arguments.len()) {
            Source::Argument(_) => None,
            Source::Seed(k) => Some((k, false)),
            Source::Offset(k) => Some((k, true)),
        }
    }

    /// Returns the numbers of the segment's draws of a generator.
    fn drawn(&self, generator: usize) -> Range<usize> {
        let count = |counts: &[usize]| counts.get(generator).copied().unwrap_or(0);
        count(self.draws[0])..count(self.draws[1])
    }
}

/// Returns the uploads that must be new in each launch: those that are changed, or that are seen
/// from outside.
fn changed(notes: &[Note], after: &[Value]) -> BTreeSet<Value> {
    let mut changed: BTreeSet<Value> = after.iter().copied().collect();
    for note in notes {
        let uses = note.action.uses();
        let shares = match &note.action {
            // A view may be changed in its place.
            Action::View { .. } => true,
            Action::Call { out, .. } => {
                out.is_some() || note.results.iter().any(|result| uses.contains(&result.value))
            }
            _ => false,
        };
        if shares {
            changed.extend(uses);
        }
    }
    changed
}

struct Emitter<'a> {
    recorder: Recorder,
    draft: &'a Draft<'a>,
    known: HashMap<Value, RecordedTensor>,
    streams: HashMap<StreamName, StreamId>,
    events: HashMap<u32, EventRef>,
    changed: BTreeSet<Value>,
    /// The generators of the list, by those of the function.
    draws: Vec<Option<GeneratorDecl>>,
    /// The scalars of the list for draws of earlier segments.
    earlier: Vec<(ScalarUse, ScalarId)>,
}

impl Emitter<'_> {
    /// Declares the formals of the values that the notes use. Values in one storage are views of
    /// the first. Returns the inputs.
    fn declare(&mut self) -> Result<Vec<(String, Value)>> {
        let Draft { run, notes, before, after, .. } = *self.draft;
        let used: BTreeSet<Value> =
            notes.iter().flat_map(|n| n.action.uses()).chain(after.iter().copied()).collect();
        let mut inputs = Vec::new();
        let mut roots: HashMap<u64, RecordedTensor> = HashMap::new();
        for value in used {
            let (place, tensor) = match value {
                Value::Outside(k) => {
                    let (tensor, place) = &run.outside[k as usize];
                    (place, Some(tensor))
                }
                Value::Input(_) | Value::Made(_) | Value::Gradient(_) => match before.get(&value) {
                    Some(place) => (place, None),
                    // The segment makes it.
                    None => continue,
                },
            };
            let formal = match (roots.get(&place.storage), tensor) {
                (Some(root), _) => self.recorder.view(root, place.spec.clone())?,
                (None, Some(tensor)) => self.recorder.bind(tensor)?,
                (None, None) => {
                    let (name, spec) = (value.to_string(), place.spec.clone());
                    inputs.push((name.clone(), value));
                    self.recorder.input_in(&name, spec, place.bytes, &place.device)?
                }
            };
            roots.entry(place.storage).or_insert(formal);
            self.known.insert(value, formal);
        }
        Ok(inputs)
    }

    fn key(&self, stream: &StreamName) -> Result<StreamKey> {
        let unknown = || Error::Internal { message: format!("{stream} is not in the segment") };
        match stream {
            StreamName::Key(key) => Ok(key.clone()),
            StreamName::Created(k) => {
                self.draft.run.streams.get(*k as usize).cloned().ok_or_else(unknown)
            }
        }
    }

    fn stream(&mut self, name: &StreamName) -> Result<StreamId> {
        if let Some(&known) = self.streams.get(name) {
            return Ok(known);
        }
        let key = &self.key(name)?;
        let mode = {
            let engine = self.draft.machine.shared.lock()?;
            let mut streams = engine.builder.streams();
            streams.find(|decl| decl.key == *key).map_or(StreamMode::InOrder, |decl| decl.mode)
        };
        let stream = self.recorder.stream_with_mode(key, mode)?;
        self.streams.insert(name.clone(), stream);
        Ok(stream)
    }

    fn tensor(&self, value: Value) -> Result<RecordedTensor> {
        let unknown = || Error::Internal { message: format!("{value} is not in the segment") };
        self.known.get(&value).copied().ok_or_else(unknown)
    }

    fn tensors(&self, values: &[Value]) -> Result<Vec<RecordedTensor>> {
        values.iter().map(|value| self.tensor(*value)).collect()
    }

    /// Returns arguments with the draws of the function as those of the list. Draws of earlier
    /// segments are scalars that a launch gives.
    fn attrs(&mut self, attrs: &Attrs) -> Attrs {
        let Emitter { recorder, draft, draws, earlier, .. } = self;
        let own = |used: ScalarUse| {
            let Some((generator, is_offset)) = draft.draw(used) else { return Some(used) };
            let declared = draws.get(generator).copied().flatten()?;
            let number = usize::try_from(used.plus).ok()?;
            let drawn = draft.drawn(generator);
            let [seed, mut offset] = uses(declared);
            offset.plus = drawn.contains(&number).then(|| number - drawn.start)? as i64;
            Some(if is_offset { offset } else { seed })
        };
        let mut of_earlier = |used: ScalarUse| {
            let scalar = match earlier.iter().find(|(known, _)| *known == used) {
                Some((_, scalar)) => *scalar,
                None => {
                    let scalar = recorder.numbered_scalar(format!("earlier{}", earlier.len()));
                    earlier.push((used, scalar));
                    scalar
                }
            };
            ScalarUse { scalar, plus: 0 }
        };
        attrs.with_scalars(|used| own(used).unwrap_or_else(|| of_earlier(used)).into())
    }

    fn emit(&mut self, note: &Note) -> Result<()> {
        let made = match &note.action {
            Action::Call { name, inputs, out, attrs, stream, priority } => {
                let stream = self.stream(stream)?;
                let inputs = self.tensors(inputs)?;
                let out = out.as_ref().map(|out| self.tensors(out)).transpose()?;
                let attrs = self.attrs(attrs);
                let call = self.recorder.call(name, &inputs).attrs(attrs);
                let call = call.priority(priority.0).origin(note.origin.clone());
                match &out {
                    Some(out) => call.out(out).on(stream)?,
                    None => call.on(stream)?,
                }
            }
            Action::Empty { spec, bytes, stream } => {
                if *bytes != spec.span_bytes() as u64 {
                    let message = "a tensor in a larger storage cannot be captured".to_owned();
                    return Err(Error::Invalid { what: "traced function", message });
                }
                let stream = self.stream(stream)?;
                vec![self.recorder.empty(spec, stream)?]
            }
            Action::View { of, spec } => {
                let of = self.tensor(*of)?;
                vec![self.recorder.view(&of, spec.clone())?]
            }
            Action::Upload { spec, bytes, stream } => {
                let machine = self.draft.machine;
                let on = machine.stream(&self.key(stream)?)?;
                let origin = note.origin.clone();
                let elements = machine.upload_at(&on, spec.clone(), bytes.clone(), origin)?;
                let constant = self.recorder.bind(&elements)?;
                let is_changed = note.results.iter().any(|r| self.changed.contains(&r.value));
                if is_changed {
                    let compute = StreamKey::compute(elements.device().clone(), 0);
                    let on = self.stream(&StreamName::Key(compute))?;
                    let call = self.recorder.call("clone", std::slice::from_ref(&constant));
                    call.attrs(Attrs::new()).origin(note.origin.clone()).on(on)?
                } else {
                    vec![constant]
                }
            }
            Action::RecordEvent { stream, event } => {
                let stream = self.stream(stream)?;
                let record = self.recorder.record_event(stream)?;
                self.events.insert(*event, record);
                Vec::new()
            }
            Action::WaitEvent { stream, event } => {
                // What an earlier segment did is ordered by the tensors.
                if let Some(record) = self.events.get(event).cloned() {
                    let stream = self.stream(stream)?;
                    self.recorder.wait_event(stream, &record)?;
                }
                Vec::new()
            }
            Action::WaitStream { stream, source } => {
                let (stream, source) = (self.stream(stream)?, self.stream(source)?);
                self.recorder.wait_stream(stream, source)?;
                Vec::new()
            }
            Action::Barrier { global } => {
                self.recorder.barrier(*global)?;
                Vec::new()
            }
            Action::Touch { tensors, stream } => {
                let stream = self.stream(stream)?;
                let tensors = self.tensors(tensors)?;
                self.recorder.touch(&tensors, stream)?;
                Vec::new()
            }
            // The replay reads and releases by itself.
            Action::Read { .. } => Vec::new(),
        };
        for (result, tensor) in note.results.iter().zip(made) {
            let made = self.recorder.spec(&tensor)?;
            if made != result.spec {
                // The notes are of another size.
                let message = format!("{} gives {made}, not {}", note.action, result.spec);
                return Err(Error::Invalid { what: "traced function", message });
            }
            self.known.insert(result.value, tensor);
        }
        Ok(())
    }
}

impl Segment {
    /// Returns the segment with the executable of the same calls with other sizes.
    pub(super) fn resized(&self, executable: Executable) -> Segment {
        Segment {
            executable,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            replaced: self.replaced.clone(),
            earlier: self.earlier.clone(),
        }
    }

    /// Returns how many tensors a launch takes and returns.
    pub(super) const fn operands(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }

    /// Launches the segment with the scalars of a call, after others that have drawn `drawn`.
    ///
    /// # Errors
    /// As [`LaunchBuilder::run`](crate::LaunchBuilder::run).
    pub(super) fn launch<'a>(
        &'a self,
        tensor: impl Fn(Value) -> Option<&'a Tensor>,
        inputs: &[Tensor],
        arguments: &[ScalarValue],
        drawn: &[Drawn],
        origin: &Origin,
    ) -> Result<Left> {
        let mut launch = self.executable.launch().origin(origin.clone());
        for (output, owner) in &self.replaced {
            launch = launch.replacing(*output, owner.leaf(inputs).clone());
        }
        for (formal, value) in &self.inputs {
            let gone = || Error::Internal { message: format!("{value} is not known") };
            launch = launch.formal(*formal, tensor(*value).ok_or_else(gone)?);
        }
        for (k, value) in arguments.iter().enumerate() {
            launch = launch.scalar_number(ScalarId(k as u32), *value);
        }
        for (scalar, draw) in &self.earlier {
            let of = drawn.iter().find(|of| of.generator.is_same(&draw.generator));
            let state = of.and_then(|of| of.states.get(draw.number));
            let gone = || Error::Internal { message: "a draw is not known".to_owned() };
            let GeneratorState { seed, offset } = *state.ok_or_else(gone)?;
            let number = if draw.is_offset { offset } else { seed } as i64;
            launch = launch.scalar_number(*scalar, number.into());
        }
        let launched = launch.make()?;
        let draws = launched.draws(&self.executable);
        let draws = draws.map(|(generator, states)| Drawn { generator, states }).collect();
        let machine = self.executable.machine();
        let own = |(value, output): (Value, Tensor)| {
            let mut inputs = self.inputs.iter().filter_map(|(_, value)| tensor(*value));
            // A view of all of an input is a tensor of its own, which may outlive the input.
            Ok(match inputs.any(|input| input.is_same(&output)) {
                true => (value, machine.view_now(&output, output.spec(), origin)?),
                false => (value, output),
            })
        };
        let outputs = self.outputs.iter().copied().zip(launched.into_outputs());
        Ok(Left { outputs: outputs.map(own).collect::<Result<_>>()?, draws })
    }
}
