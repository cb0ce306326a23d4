//! Captures: trees of segments and guards.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{Error, Origin, Result, ScalarValue};

use crate::handle::Tensor;
use crate::handle::global;
use crate::handle::machine::Machine;

use super::draws::Drawn;
use super::gradients::{Found, Left};
use super::note::{Note, Place, Returned, Value};
use super::resumption::Resume;
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
    /// The tensors from elsewhere, up to here.
    pub(super) outside: Vec<(Tensor, Place)>,
}

/// What follows a segment.
pub(super) enum Then {
    /// The function returns these values, and leaves gradients.
    Return(Vec<Returned>, Arc<[Left]>),
    /// The function reads a value, and goes on by its bytes.
    Read { tensor: Value, branches: Mutex<Vec<Branch>> },
}

/// What a function does after a read.
pub(super) struct Branch {
    pub(super) bytes: Vec<u8>,
    /// None if it cannot be captured.
    pub(super) node: Option<Arc<Node>>,
}

/// The gradients that a segment finds.
pub(super) struct Entry {
    gradients: Vec<(Value, Tensor)>,
    /// Where the inputs and all gradients lie.
    places: Vec<Place>,
}

/// The values that a function has returned, and the gradients that it has left.
pub(super) type Results = (Vec<Returned>, Vec<Left>);

/// A replay of a whole capture.
pub(super) struct Done {
    pub(super) results: Vec<Tensor>,
    /// Its draws from generators.
    pub(super) draws: Vec<Drawn>,
}

/// What became of a call.
pub(super) enum Outcome {
    Done(Done),
    /// No launch was made. The function has to run.
    Refused(Error),
    /// The function has to repeat this prefix and then run.
    Resume(Box<Resume>),
}

/// What a part of a function finds: at its start, or behind a guard.
#[derive(Default)]
pub(super) struct Before {
    /// Where the values lie that it may use.
    pub(super) values: BTreeMap<Value, Place>,
    /// Where the inputs lie, and the gradients that were found before.
    pub(super) places: Vec<Place>,
    /// How many draws were made of each generator.
    pub(super) drawn: Vec<usize>,
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
    /// Replays a capture.
    ///
    /// # Errors
    /// A launch fails.
    pub(super) fn replay(
        self: &Arc<Node>,
        inputs: &[Tensor],
        arguments: &[ScalarValue],
        entry: Entry,
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
                            Some(_) => Ok(resume(trail, tensors, None)),
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
            let (tensor, branches) = match &node.then {
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
                    let Trail { draws, .. } = trail;
                    return Ok(Outcome::Done(Done { results, draws }));
                }
                Then::Read { tensor, branches } => (tensor, branches),
            };
            let read =
                tensor_of(tensor).ok_or_else(|| unknown(tensor))?.read_at(None, origin.clone());
            let next = match &read {
                Ok(bytes) => next_of(branches, bytes, inputs, &trail.places),
                // The function sees the error.
                Err(_) => Err(None),
            };
            trail.reads.push_back(read);
            trail.passed.push(node.clone());
            match next {
                Ok((next, entry)) => {
                    tensors.extend(entry.gradients);
                    (node, trail.places) = (next, entry.places);
                }
                Err(bytes) => {
                    let guard = bytes.map(|bytes| (node.clone(), bytes));
                    return Ok(resume(trail, tensors, guard));
                }
            }
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

    /// Returns the captures behind the node's read.
    pub(super) fn branches(&self) -> Vec<Arc<Node>> {
        match &self.then {
            Then::Return(..) => Vec::new(),
            Then::Read { branches, .. } => {
                let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
                branches.iter().filter_map(|branch| branch.node.clone()).collect()
            }
        }
    }

    /// Returns the capture behind a read of this value.
    pub(super) fn branch(&self, bytes: &[u8]) -> Option<Arc<Node>> {
        let Then::Read { branches, .. } = &self.then else { return None };
        let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
        branches.iter().find(|branch| branch.bytes == bytes)?.node.clone()
    }

    /// Makes the capture of a run, or of its part behind a prefix. Compiles those of its segments
    /// that `known` does not have, by the number of guards before.
    pub(super) fn of(
        machine: &Machine,
        run: &Run,
        mut known: Vec<Option<Segment>>,
        Before { values: mut before, drawn, .. }: Before,
    ) -> Result<Node> {
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
        let mut next: Option<Node> = None;
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
            let outside = &run.outside;
            let generators = &run.generators[..];
            let all: Vec<usize> = generators.iter().map(|drawn| drawn.states.len()).collect();
            let earlier = number.checked_sub(1).and_then(|number| run.guards.get(number));
            let draws = [
                earlier.map_or(&drawn[..], |guard| &guard.draws),
                guard.map_or(&all[..], |guard| &guard.draws),
            ];
            let (after, from) = (&after[..], &before);
            let draft = Draft {
                machine,
                notes,
                before: from,
                outside,
                after,
                gradients: left,
                number,
                generators,
                draws,
                arguments: &run.arguments,
            };
            let segment = match known.get_mut(number).and_then(Option::take) {
                Some(segment) => Some(segment),
                None => draft.compile()?,
            };
            let mut values = before;
            let then = match (guard, notes.last()) {
                (Some(guard), Some(read)) => {
                    values.retain(|value, _| value.is_given());
                    values.extend(guard.alive.iter().cloned());
                    let branch =
                        Branch { bytes: guard.bytes.clone(), node: next.take().map(Arc::new) };
                    let branches = Mutex::new(vec![branch]);
                    let read = read.action.uses();
                    let gone = || Error::Internal { message: "a guard reads nothing".to_owned() };
                    Then::Read { tensor: *read.first().ok_or_else(gone)?, branches }
                }
                _ => Then::Return(run.results.clone(), left.clone()),
            };
            let (notes, outside) = (Arc::from(notes), outside.clone());
            next = Some(Node { notes, found, segment, then, after: values, outside });
        }
        next.ok_or_else(|| Error::Internal { message: "a capture without notes".to_owned() })
    }

    /// Returns the bytes of private memory, for each instance, and the number of executables.
    pub(super) fn size(&self) -> (u64, usize) {
        let own = self.segment.as_ref().map_or(0, |segment| {
            segment.executable.private_memory().iter().map(|(_, bytes)| bytes).sum()
        });
        let mut size = (own, usize::from(self.segment.is_some()));
        if let Then::Read { branches, .. } = &self.then {
            let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
            for node in branches.iter().filter_map(|branch| branch.node.as_ref()) {
                let (bytes, count) = node.size();
                size = (size.0 + bytes, size.1 + count);
            }
        }
        size
    }
}

/// Returns the segment behind a read. Without one: the value that was read, if what follows may be
/// captured.
fn next_of(
    branches: &Mutex<Vec<Branch>>,
    bytes: &[u8],
    inputs: &[Tensor],
    places: &[Place],
) -> std::result::Result<(Arc<Node>, Entry), Option<Vec<u8>>> {
    let known: Vec<Option<Arc<Node>>> = {
        let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
        branches.iter().filter(|b| b.bytes == bytes).map(|b| b.node.clone()).collect()
    };
    let mut nodes = known.iter().flatten();
    let next = nodes.find_map(|node| Some((node.clone(), node.enter(inputs, places)?)));
    next.ok_or_else(|| known.iter().all(Option::is_some).then(|| bytes.to_vec()))
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

fn resume(
    trail: Trail,
    tensors: HashMap<Value, Tensor>,
    guard: Option<(Arc<Node>, Vec<u8>)>,
) -> Outcome {
    let Trail { passed, reads, places, draws } = trail;
    // The function that repeats the calls ends the tensors.
    let segments = passed.iter().filter_map(|node| node.segment.as_ref());
    segments.for_each(|segment| segment.executable.end_kept());
    let last = passed.last();
    let (outside, values) =
        last.map(|node| (node.outside.clone(), node.after.clone())).unwrap_or_default();
    let notes = passed.iter().map(|node| node.notes.clone()).collect();
    // What the function held at the guard; the others ended.
    let is_held = |value: &Value| value.is_given() || values.contains_key(value);
    let tensors = tensors.into_iter().filter(|(value, _)| is_held(value)).collect();
    let drawn = draws.iter().map(|drawn| drawn.states.len()).collect();
    let prefix = Prefix { notes, tensors, reads, draws, ended: BTreeSet::new() };
    let before = Before { values, places, drawn };
    Outcome::Resume(Box::new(Resume { prefix, outside, before, guard }))
}

/// Returns the capture of a run from its start. `known` are segments that are compiled already.
///
/// # Errors
/// A call cannot stand in an executable, with its place.
pub(super) fn capture(
    machine: &Machine,
    run: &Run,
    known: Vec<Option<Segment>>,
    inputs: &[Place],
) -> Result<Arc<Node>> {
    let before = Before { values: inputs_of(inputs), places: inputs.to_vec(), drawn: Vec::new() };
    Node::of(machine, run, known, before).map(Arc::new)
}

/// Returns where the inputs lie, by name.
fn inputs_of(inputs: &[Place]) -> BTreeMap<Value, Place> {
    let numbered = inputs.iter().cloned().enumerate();
    numbered.map(|(k, place)| (Value::Input(k as u32), place)).collect()
}
