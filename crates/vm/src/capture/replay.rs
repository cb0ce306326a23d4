//! Captures: chains of segments and guards.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use millstream_types::{Error, Origin, Result, ScalarValue};

use crate::handle::Tensor;
use crate::handle::global;
use crate::handle::machine::Machine;

use super::draws::Drawn;
use super::gradients::{Found, Left};
use super::note::{Note, Place, Returned, Value};
use super::run::Run;
use super::segment::{Draft, Segment};
use super::session::Prefix;

/// What a function does up to its next guard, or to its end.
pub(super) struct Node {
    /// Its notes, the read of the guard included.
    pub(super) notes: Arc<[Note]>,
    /// The gradients that it finds. Other ones need another capture.
    pub(super) found: Vec<Found>,
    pub(super) segment: Option<Segment>,
    pub(super) then: Then,
    /// Where the values lie that the next segments may use: the inputs, and those that the function
    /// holds at the guard.
    after: BTreeMap<Value, Place>,
    /// The tensors from elsewhere.
    pub(super) outside: Vec<(Tensor, Place)>,
}

/// What follows a segment.
pub(super) enum Then {
    /// The function returns these values, and leaves gradients.
    Return(Vec<Returned>, Arc<[Left]>),
    /// The function reads a value, and goes on so if these are its bytes.
    Read { tensor: Value, bytes: Vec<u8>, next: Arc<Node> },
}

/// The gradients that a segment finds.
pub(super) struct Entry {
    gradients: Vec<(Value, Tensor)>,
    /// Where the inputs and all gradients lie.
    places: Vec<Place>,
}

/// The values that a function has returned, and the gradients that it has left.
pub(super) type Results = (Vec<Returned>, Vec<Left>);

/// What became of a call.
pub(super) enum Outcome {
    /// The results of a replay.
    Done(Vec<Tensor>),
    /// No launch was made. The function has to run.
    Refused(Error),
    /// The function has to repeat a prefix and then run.
    Resume(Box<Resume>),
}

/// A replay beside which the function runs: it has left its capture, or is verified.
pub(super) struct Resume {
    pub(super) prefix: Prefix,
    pub(super) outside: Vec<(Tensor, Place)>,
    /// The end of the capture; none if the replay has left it.
    pub(super) end: Option<Arc<Node>>,
}

/// What a replay has done so far.
#[derive(Default)]
struct Trail {
    passed: Vec<Arc<Node>>,
    reads: VecDeque<Result<Vec<u8>>>,
    places: Vec<Place>,
    draws: Vec<Drawn>,
}

/// Whether a launch was refused for its operands, before it did anything.
fn is_refusal(error: &Error) -> bool {
    matches!(error.without_place(), Error::Invalid { what: "launch", .. })
}

impl Node {
    /// Replays a capture. The function makes the results of a replay that `is_verified`.
    ///
    /// # Errors
    /// A launch fails.
    pub(super) fn replay(
        self: &Arc<Node>,
        inputs: &[Tensor],
        arguments: &[ScalarValue],
        entry: Entry,
        is_verified: bool,
        origin: &Origin,
    ) -> Result<Outcome> {
        let Entry { gradients, places } = entry;
        let numbered = inputs.iter().enumerate();
        let part = |(k, tensor)| Ok((Value::Input(k as u32), global::part(tensor)?.clone()));
        let mut tensors: HashMap<Value, Tensor> = numbered.map(part).collect::<Result<_>>()?;
        tensors.extend(gradients);
        let mut trail = Trail { places, ..Trail::default() };
        let mut node = self.clone();
        loop {
            if let Some(segment) = &node.segment {
                let tensor = |value| tensors.get(&value);
                match segment.launch(tensor, inputs, arguments, &trail.draws, origin) {
                    Ok(left) => {
                        tensors.extend(left.outputs);
                        add_draws(&mut trail.draws, left.draws);
                    }
                    Err(error) => {
                        return match trail.passed.last() {
                            _ if !is_refusal(&error) => Err(error),
                            None => Ok(Outcome::Refused(error)),
                            Some(_) => Ok(resume(trail, tensors, false)),
                        };
                    }
                }
            }
            let tensor_of = |value: &Value| match value {
                Value::Outside(k) => Some(&node.outside[*k as usize].0),
                Value::Input(_) | Value::Made(_) | Value::Gradient(_) => tensors.get(value),
            };
            let unknown =
                |value: &Value| Error::Internal { message: format!("{value} is unknown") };
            let (tensor, expected, next) = match &node.then {
                Then::Return(..) if is_verified => {
                    trail.passed.push(node);
                    return Ok(resume(trail, tensors, true));
                }
                Then::Return(values, left) => {
                    let tensor = |(value, class): &Returned| match (value, class) {
                        (Value::Input(k), class)
                            if *class == global::class(&inputs[*k as usize]) =>
                        {
                            Ok(inputs[*k as usize].clone())
                        }
                        _ => {
                            let part = tensor_of(value).cloned().ok_or_else(|| unknown(value))?;
                            Ok(global::of_class(part, class.as_ref()))
                        }
                    };
                    let results = values.iter().map(tensor).collect::<Result<_>>()?;
                    for gradient in left.iter() {
                        let made = gradient.returned.as_ref().map(tensor).transpose()?;
                        gradient.set(inputs, made);
                    }
                    return Ok(Outcome::Done(results));
                }
                Then::Read { tensor, bytes, next } => (tensor, bytes, next),
            };
            let read =
                tensor_of(tensor).ok_or_else(|| unknown(tensor))?.read_at(None, origin.clone());
            // The function sees the error of a read that fails.
            let is_expected = read.as_ref().is_ok_and(|bytes| bytes == expected);
            let entry = is_expected.then(|| next.enter(inputs, &trail.places)).flatten();
            trail.reads.push_back(read);
            trail.passed.push(node.clone());
            let Some(entry) = entry else { return Ok(resume(trail, tensors, false)) };
            tensors.extend(entry.gradients);
            (node, trail.places) = (next.clone(), entry.places);
        }
    }

    /// Returns the gradients of a call, if they are such as the capture depends on. `places` are
    /// those of the inputs, and of gradients that earlier segments have found.
    pub(super) fn enter(&self, inputs: &[Tensor], places: &[Place]) -> Option<Entry> {
        let mut places = places.to_vec();
        let found = self.found.iter().map(|found| found.find(inputs, &mut places));
        let gradients = found.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
        Some(Entry { gradients, places })
    }

    /// Returns what the function does behind the node's read.
    pub(super) const fn next(&self) -> Option<&Arc<Node>> {
        match &self.then {
            Then::Return(..) => None,
            Then::Read { next, .. } => Some(next),
        }
    }

    /// Returns the nodes of the capture.
    pub(super) fn all(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(self), |node| node.next().map(|next| &**next))
    }

    /// Makes the capture of a run. Compiles those of its segments that `known` does not have, by
    /// the number of guards before. `inputs` are the places of the inputs.
    ///
    /// # Errors
    /// A call cannot stand in an executable, with its place.
    pub(super) fn of(
        machine: &Machine,
        run: &Run,
        mut known: Vec<Option<Segment>>,
        inputs: &[Place],
    ) -> Result<Arc<Node>> {
        let numbered = (0..).map(Value::Input).zip(inputs.iter().cloned());
        let mut before: BTreeMap<Value, Place> = numbered.collect();
        // From the last segment to the first, as a node holds the one behind it.
        let begins = std::iter::once(0).chain(run.guards.iter().map(|guard| guard.notes));
        let ends = run.guards.iter().map(|g| g.notes).chain([run.notes.len()]);
        let mut parts = Vec::new();
        for (number, (begin, end)) in begins.zip(ends).enumerate() {
            let gradients = &run.gradients[number];
            before.extend(gradients.places.iter().cloned());
            let found = gradients.conditions.clone();
            parts.push((before.clone(), &run.notes[begin..end], number, found));
            if let Some(guard) = run.guards.get(number) {
                before.retain(|value, _| value.is_given());
                before.extend(guard.alive.iter().cloned());
            }
        }
        let left = &run.left;
        let mut next: Option<Arc<Node>> = None;
        for (before, notes, number, found) in parts.into_iter().rev() {
            let guard = run.guards.get(number);
            let after: Vec<Value> = match guard {
                Some(guard) => guard.alive.iter().map(|(value, _)| *value).collect(),
                None => {
                    let left = left.iter().filter_map(Left::value);
                    let returned = run.results.iter().map(|(value, _)| *value);
                    let after: BTreeSet<Value> = returned.chain(left).collect();
                    after.into_iter().collect()
                }
            };
            let all: Vec<usize> = run.generators.iter().map(|drawn| drawn.states.len()).collect();
            let earlier = number.checked_sub(1).and_then(|number| run.guards.get(number));
            let draws = [
                earlier.map_or(&[][..], |guard| &guard.draws),
                guard.map_or(&all[..], |guard| &guard.draws),
            ];
            let draft =
                Draft { machine, run, notes, before: &before, after: &after, number, draws };
            let segment = match known.get_mut(number).and_then(Option::take) {
                Some(segment) => Some(segment),
                None => draft.compile()?,
            };
            let mut values = before;
            let then = match (guard, notes.last(), next.take()) {
                (Some(guard), Some(read), Some(next)) => {
                    values.retain(|value, _| value.is_given());
                    values.extend(guard.alive.iter().cloned());
                    let read = read.action.uses();
                    let gone = || Error::Internal { message: "a guard reads nothing".to_owned() };
                    let (tensor, bytes) = (*read.first().ok_or_else(gone)?, guard.bytes.clone());
                    Then::Read { tensor, bytes, next }
                }
                _ => Then::Return(run.results.clone(), left.clone()),
            };
            let (notes, outside) = (Arc::from(notes), run.outside.clone());
            let node = Node { notes, found, segment, then, after: values, outside };
            next = Some(Arc::new(node));
        }
        next.ok_or_else(|| Error::Internal { message: "a capture without notes".to_owned() })
    }

    /// Returns the bytes of private memory, for each instance.
    pub(super) fn bytes(&self) -> u64 {
        let segments = self.all().filter_map(|node| node.segment.as_ref());
        segments.flat_map(|segment| segment.executable.private_memory()).map(|(_, own)| own).sum()
    }

    /// Whether a replay costs more than the calls that it stands for. A launch costs about as much
    /// as five calls, and each tensor that it takes or returns as one.
    pub(super) fn is_loss(&self) -> bool {
        let cost = |segment: &Segment| 5 + segment.operands();
        let costs = self.all().filter_map(|node| node.segment.as_ref()).map(cost).sum::<usize>();
        costs >= self.all().map(|node| node.notes.len()).sum()
    }
}

/// Adds a segment's draws to the replay's.
fn add_draws(draws: &mut Vec<Drawn>, new: Vec<Drawn>) {
    for Drawn { generator, states } in new {
        match draws.iter_mut().find(|drawn| drawn.generator.is_same(&generator)) {
            Some(drawn) => drawn.states.extend(states),
            None => draws.push(Drawn { generator, states }),
        }
    }
}

/// Returns what the function repeats of a replay; `is_whole` if that is all of the capture.
fn resume(trail: Trail, tensors: HashMap<Value, Tensor>, is_whole: bool) -> Outcome {
    let Trail { passed, reads, draws, .. } = trail;
    // The function that repeats the calls ends the tensors.
    let segments = passed.iter().filter_map(|node| node.segment.as_ref());
    segments.for_each(|segment| segment.executable.end_kept());
    let last = passed.last();
    let outside = last.map(|node| node.outside.clone()).unwrap_or_default();
    let notes = passed.iter().map(|node| node.notes.clone()).collect();
    // What the function held at the guard, or at its end; the others ended.
    let is_held = |value: &Value| {
        is_whole || value.is_given() || last.is_some_and(|node| node.after.contains_key(value))
    };
    let tensors = tensors.into_iter().filter(|(value, _)| is_held(value)).collect();
    let prefix = Prefix { notes, tensors, reads, draws, ended: BTreeSet::new(), is_whole };
    let end = last.filter(|_| is_whole).cloned();
    Outcome::Resume(Box::new(Resume { prefix, outside, end }))
}
