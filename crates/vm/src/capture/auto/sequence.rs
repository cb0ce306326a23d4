//! Sequences of calls that repeat: their notes, and the executable that replays them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millstream_types::{DeviceId, Error, Origin, Result, StreamKey, TensorSpec};

use crate::api::handle::{Stream, Tensor};
use crate::api::machine::Machine;
use crate::capture::note::{Action, Note, Place, Step, Value};
use crate::capture::segment::{Draft, Segment};
use crate::capture::session::{Refusal, Session};

use super::held::Held;

/// What a replay needs of a tensor from outside.
struct OutsideKey {
    spec: TensorSpec,
    device: DeviceId,
    /// The first tensor from outside in the same storage, and the bytes from its first element.
    shares: usize,
    distance: i64,
}

/// A tensor that a sequence makes.
struct Made {
    spec: TensorSpec,
    device: DeviceId,
    /// The number of the note that makes it.
    note: usize,
}

/// The calls of a sequence, and the executable that makes them all at once.
pub(super) struct Sequence {
    pub(super) notes: Vec<Note>,
    places: BTreeMap<Value, Place>,
    outside: Vec<OutsideKey>,
    made: Vec<Made>,
    streams: HashMap<StreamKey, Stream>,
    /// The made values that a replay leaves behind.
    pub(super) outputs: BTreeSet<Value>,
    segment: Segment,
}

impl Sequence {
    /// Compiles the calls that a session has noted. Its tensors from elsewhere become inputs.
    ///
    /// # Errors
    /// A call cannot stand in an executable, with its place.
    pub(super) fn new(machine: &Machine, session: &Session) -> Result<Sequence> {
        let inputs = |value: Value| match value {
            Value::Outside(k) => Value::Input(k),
            Value::Input(_) | Value::Made(_) | Value::Gradient(_) => value,
        };
        let notes: Vec<Note> = session.notes.iter().map(|note| note.renamed(inputs)).collect();
        let numbered = session.outside.iter().enumerate();
        let places = numbered.map(|(k, (_, p))| (Value::Input(k as u32), p.clone())).collect();
        let lie: Vec<&Place> = session.outside.iter().map(|(_, place)| place).collect();
        let outside = outside_keys(&lie);
        let mut made: Vec<Option<Made>> = Vec::new();
        let mut streams = HashMap::new();
        for (number, note) in notes.iter().enumerate() {
            if let Some(key) = note.action.stream()
                && !streams.contains_key(key)
            {
                streams.insert(key.clone(), machine.stream(key)?);
            }
            for result in &note.results {
                if let Value::Made(k) = result.value {
                    made.resize_with(made.len().max(k as usize + 1), || None);
                    let (spec, device) = (result.spec.clone(), result.device.clone());
                    made[k as usize].get_or_insert(Made { spec, device, note: number });
                }
            }
        }
        let outputs: BTreeSet<Value> = session.held_values().collect();
        let segment = compile(machine, &notes, &places, &outputs)?;
        let made = made.into_iter().flatten().collect();
        Ok(Sequence { notes, places, outside, made, streams, outputs, segment })
    }

    /// Compiles the sequence again, to leave these values behind as well.
    ///
    /// # Errors
    /// As [`Sequence::new`].
    pub(super) fn keep_also(&mut self, machine: &Machine, values: &[Value]) -> Result<()> {
        let outputs = self.outputs.iter().chain(values).copied().collect();
        self.segment = compile(machine, &self.notes, &self.places, &outputs)?;
        self.outputs = outputs;
        Ok(())
    }

    /// Returns the bytes of private memory of the executable.
    pub(super) fn bytes(&self) -> u64 {
        self.segment.executable.private_memory().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the spec and the device of a made value, and the stream on which it is made.
    pub(super) fn made(&self, number: usize) -> Result<(&TensorSpec, &DeviceId, Option<&Stream>)> {
        let unknown = || Error::Internal { message: format!("a sequence makes no value {number}") };
        let made = self.made.get(number).ok_or_else(unknown)?;
        let stream = self.notes[made.note].action.stream().and_then(|key| self.streams.get(key));
        Ok((&made.spec, &made.device, stream))
    }

    /// Returns how many values the sequence makes.
    pub(super) fn made_count(&self) -> usize {
        self.made.len()
    }

    /// Whether a step is the sequence's next one after those held. Notes the tensors that it takes
    /// from outside.
    pub(super) fn is_next(
        &self,
        machine: &Machine,
        held: &mut Held,
        step: &Step<'_>,
        origin: &Origin,
    ) -> bool {
        let Some(note) = self.notes.get(held.steps()) else { return false };
        let known = held.outside.len();
        let mut are = |tensors: &[&Tensor], values: &[Value]| {
            tensors.len() == values.len()
                && tensors.iter().zip(values).all(|(t, value)| self.is(machine, held, t, *value))
        };
        let is_equal = match (step, &note.action) {
            (
                Step::Call { name, inputs, out, attrs, stream, priority },
                Action::Call {
                    name: noted,
                    inputs: values,
                    out: targets,
                    attrs: arguments,
                    stream: on,
                    priority: rank,
                },
            ) => {
                name == noted
                    && stream.key == *on
                    && priority == rank
                    && attrs == &arguments
                    && are(inputs, values)
                    && match (out, targets) {
                        (Some(out), Some(targets)) => are(out, targets),
                        (None, None) => true,
                        (Some(_), None) | (None, Some(_)) => false,
                    }
            }
            (
                Step::Empty { spec, bytes, stream },
                Action::Empty { spec: noted, bytes: size, stream: on },
            ) => *spec == noted && bytes == size && stream.key == *on,
            (Step::View { of, spec }, Action::View { of: value, spec: noted }) => {
                *spec == noted && are(&[of], &[*value])
            }
            (Step::Release { tensor }, Action::Release { tensor: value }) => {
                are(&[tensor], &[*value])
            }
            _ => false,
        };
        let is_equal = is_equal && *origin == note.origin;
        if !is_equal {
            held.forget_outside(known);
        }
        is_equal
    }

    /// Whether a tensor is this value of the calls held. The next tensor from outside becomes it.
    fn is(&self, machine: &Machine, held: &mut Held, tensor: &Tensor, value: Value) -> bool {
        match value {
            Value::Made(number) => Held::is_made(tensor, number),
            Value::Input(number) => match held.outside.get(number as usize) {
                Some((known, _)) => known.is_same(tensor),
                None if number as usize == held.outside.len() => self.enter(machine, held, tensor),
                None => false,
            },
            Value::Outside(_) | Value::Gradient(_) => false,
        }
    }

    /// Makes a tensor the next one from outside, if it is as the sequence needs it.
    fn enter(&self, machine: &Machine, held: &mut Held, tensor: &Tensor) -> bool {
        let number = held.outside.len();
        if Held::is_waiting(tensor) {
            return false;
        }
        let Some(expected) = self.outside.get(number) else { return false };
        let (spec, layout) = (tensor.spec(), &expected.spec.layout);
        let is_alike = spec.dtype == expected.spec.dtype
            && spec.shape() == expected.spec.shape()
            && spec.layout.strides() == layout.strides()
            && *tensor.device() == expected.device;
        let Some(place) = is_alike.then(|| Place::of(machine, tensor).ok()).flatten() else {
            return false;
        };
        let shares = *held.storages.entry(place.storage).or_insert(number);
        let first = held.outside.get(shares).map_or(&place, |(_, place)| place);
        let is_alike = (shares, distance(&place, first)) == (expected.shares, expected.distance);
        if is_alike {
            held.outside.push((tensor.clone(), place));
        } else if shares == number {
            held.storages.remove(&place.storage);
        }
        is_alike
    }

    /// Replays the sequence: one launch makes all calls. Returns the outputs.
    ///
    /// # Errors
    /// As [`LaunchBuilder::run`](crate::LaunchBuilder::run).
    pub(super) fn launch(&self, held: &Held) -> Result<Vec<(Value, Tensor)>> {
        let outside = |value: Value| match value {
            Value::Input(k) => held.outside.get(k as usize).map(|(tensor, _)| tensor),
            Value::Outside(_) | Value::Made(_) | Value::Gradient(_) => None,
        };
        let origin = self.notes.first().map_or(Origin::Unknown, |note| note.origin.clone());
        self.segment.launch(outside, &[], &origin).map(|left| left.outputs)
    }

    /// Makes the call of one note by itself.
    ///
    /// # Errors
    /// As the call.
    pub(super) fn emit(
        &self,
        machine: &Machine,
        number: usize,
        tensor: impl Fn(Value) -> Result<Tensor>,
    ) -> Result<Vec<Tensor>> {
        let note = &self.notes[number];
        let origin = note.origin.clone();
        let stream = |key: &StreamKey| match self.streams.get(key) {
            Some(stream) => Ok(stream.clone()),
            None => machine.stream(key),
        };
        match &note.action {
            Action::Call { name, inputs, out, attrs, stream: on, priority } => {
                let own = |values: &[Value]| -> Result<Vec<Tensor>> {
                    values.iter().map(|value| tensor(*value)).collect()
                };
                let inputs = own(inputs)?;
                let targets = out.as_deref().map(own).transpose()?;
                let inputs: Vec<&Tensor> = inputs.iter().collect();
                let targets: Option<Vec<&Tensor>> = targets.as_ref().map(|t| t.iter().collect());
                let call = machine.call(name, &inputs).attrs(attrs.clone());
                let call = call.priority(priority.0).origin(origin);
                let call = match &targets {
                    Some(targets) => call.out(targets),
                    None => call,
                };
                call.on(&stream(on)?)
            }
            Action::Empty { spec, bytes, stream: on } => {
                Ok(vec![machine.empty_at(&stream(on)?, spec.clone(), *bytes, origin)?])
            }
            Action::View { of, spec } => {
                Ok(vec![machine.view_now(&tensor(*of)?, spec, &origin)?])
            }
            Action::Release { tensor: value } => {
                machine.release_now(&tensor(*value)?, None, &origin)?;
                Ok(Vec::new())
            }
            Action::Upload { .. }
            | Action::Read { .. }
            | Action::RecordEvent { .. }
            | Action::WaitEvent { .. }
            | Action::WaitStream { .. }
            | Action::Barrier { .. }
            | Action::Touch { .. } => {
                let message = format!("a sequence holds {}", note.action);
                Err(Error::Internal { message }.at(&origin))
            }
        }
    }
}

/// Returns the bytes from the first element of one tensor to that of another one.
fn distance(place: &Place, from: &Place) -> i64 {
    let begin = |p: &Place| (p.spec.layout.offset() * p.spec.dtype.size()) as i64;
    begin(place) - begin(from)
}

/// Returns what a replay needs of the tensors at some places.
fn outside_keys(places: &[&Place]) -> Vec<OutsideKey> {
    let mut storages = HashMap::new();
    let key = |(number, place): (usize, &&Place)| {
        let shares = *storages.entry(place.storage).or_insert(number);
        let (spec, device) = (place.spec.clone(), place.device.clone());
        OutsideKey { spec, device, shares, distance: distance(place, places[shares]) }
    };
    places.iter().enumerate().map(key).collect()
}

fn compile(
    machine: &Machine,
    notes: &[Note],
    before: &BTreeMap<Value, Place>,
    outputs: &BTreeSet<Value>,
) -> Result<Segment> {
    let after: Vec<Value> = outputs.iter().copied().collect();
    let draft = Draft {
        machine,
        notes,
        before,
        outside: &[],
        after: &after,
        gradients: &[],
        number: 0,
        // Its calls have the seeds as numbers.
        generators: &[],
        draws: [&[], &[]],
    };
    let nothing = || Refusal::new("it runs nothing".to_owned(), Origin::Unknown);
    draft.compile()?.ok_or_else(|| nothing().error())
}
