//! Captures: trees of segments and guards.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{Error, Origin, Result};

use crate::api::handle::Tensor;
use crate::api::machine::Machine;

use super::note::{Note, Place, Value};
use super::segment::{Draft, Segment};
use super::session::{Prefix, Refusal, Session};

/// What a function does up to its next guard, or to its end.
pub(super) struct Node {
    /// Its notes, the read of the guard included.
    notes: Arc<[Note]>,
    segment: Option<Segment>,
    then: Then,
    /// Where the values lie that the next segments may use: the inputs, and those that the function
    /// holds at the guard.
    after: BTreeMap<Value, Place>,
    /// The tensors from elsewhere, up to here.
    outside: Vec<(Tensor, Place)>,
}

/// What follows a segment.
enum Then {
    /// The function returns these values.
    Return(Vec<Value>),
    /// The function reads a value, and goes on by its bytes.
    Read { tensor: Value, branches: Mutex<Vec<Branch>> },
}

/// What a function does after a read.
struct Branch {
    bytes: Vec<u8>,
    /// None if it cannot be captured.
    node: Option<Arc<Node>>,
}

/// What became of a call.
pub(super) enum Outcome {
    /// The function's results.
    Done(Vec<Tensor>),
    /// No launch was made. The function has to run.
    Refused(Error),
    /// The function has to repeat this prefix and then run.
    Resume(Box<Resume>),
}

/// A replay that has left its capture.
pub(super) struct Resume {
    pub(super) prefix: Prefix,
    pub(super) outside: Vec<(Tensor, Place)>,
    before: BTreeMap<Value, Place>,
    /// The guard whose value is new, and the value; none if the branch is not to be captured.
    guard: Option<(Arc<Node>, Vec<u8>)>,
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
    pub(super) fn replay(self: &Arc<Node>, inputs: &[Tensor], origin: &Origin) -> Result<Outcome> {
        let numbered = inputs.iter().enumerate();
        let mut tensors: HashMap<Value, Tensor> =
            numbered.map(|(k, tensor)| (Value::Input(k as u32), tensor.clone())).collect();
        let mut passed: Vec<Arc<Node>> = Vec::new();
        let mut reads = VecDeque::new();
        let mut node = self.clone();
        loop {
            if let Some(segment) = &node.segment {
                match segment.launch(|value| tensors.get(&value), origin) {
                    Ok(outputs) => tensors.extend(outputs),
                    Err(error) => {
                        return match passed.last() {
                            _ if !is_refusal(&error) => Err(error),
                            None => Ok(Outcome::Refused(error)),
                            Some(_) => Ok(resume(passed, tensors, reads, None)),
                        };
                    }
                }
            }
            let tensor_of = |value: &Value| match value {
                Value::Outside(k) => Some(&node.outside[*k as usize].0),
                Value::Input(_) | Value::Made(_) => tensors.get(value),
            };
            let unknown =
                |value: &Value| Error::Internal { message: format!("{value} is unknown") };
            let (tensor, branches) = match &node.then {
                Then::Return(values) => {
                    let results = values.iter();
                    let results = results.map(|v| tensor_of(v).cloned().ok_or_else(|| unknown(v)));
                    return Ok(Outcome::Done(results.collect::<Result<_>>()?));
                }
                Then::Read { tensor, branches } => (tensor, branches),
            };
            let read =
                tensor_of(tensor).ok_or_else(|| unknown(tensor))?.read_at(None, origin.clone());
            let next = match &read {
                Ok(bytes) => {
                    let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
                    let known = branches.iter().find(|b| b.bytes == *bytes);
                    known.map_or_else(|| Err(Some(bytes.clone())), |b| b.node.clone().ok_or(None))
                }
                // The function sees the error.
                Err(_) => Err(None),
            };
            reads.push_back(read);
            passed.push(node.clone());
            match next {
                Ok(next) => node = next,
                Err(bytes) => {
                    let guard = bytes.map(|bytes| (node.clone(), bytes));
                    return Ok(resume(passed, tensors, reads, guard));
                }
            }
        }
    }

    /// Makes the capture of a session, or of its part behind the prefix.
    fn of(
        machine: &Machine,
        session: &Session,
        mut before: BTreeMap<Value, Place>,
        results: &[Value],
    ) -> Result<Node> {
        // From the last segment to the first, as a node holds the one behind it.
        let begins = std::iter::once(0).chain(session.guards.iter().map(|guard| guard.notes));
        let ends = session.guards.iter().map(|g| g.notes).chain([session.notes.len()]);
        let mut parts: Vec<(BTreeMap<Value, Place>, &[Note], usize)> = Vec::new();
        for (number, (begin, end)) in begins.zip(ends).enumerate() {
            parts.push((before.clone(), &session.notes[begin..end], number));
            if let Some(guard) = session.guards.get(number) {
                before.retain(|value, _| matches!(value, Value::Input(_)));
                before.extend(guard.alive.iter().cloned());
            }
        }
        let mut next: Option<Node> = None;
        for (before, notes, number) in parts.into_iter().rev() {
            let guard = session.guards.get(number);
            let after: Vec<Value> = match guard {
                Some(guard) => guard.alive.iter().map(|(value, _)| *value).collect(),
                None => results.iter().copied().collect::<BTreeSet<_>>().into_iter().collect(),
            };
            let outside = &session.outside;
            let draft = Draft { machine, notes, before: &before, outside, after: &after };
            let segment = draft.compile()?;
            let mut known = before;
            let then = match (guard, notes.last()) {
                (Some(guard), Some(read)) => {
                    known.retain(|value, _| matches!(value, Value::Input(_)));
                    known.extend(guard.alive.iter().cloned());
                    let branch =
                        Branch { bytes: guard.bytes.clone(), node: next.take().map(Arc::new) };
                    let branches = Mutex::new(vec![branch]);
                    let read = read.action.uses();
                    let gone = || Error::Internal { message: "a guard reads nothing".to_owned() };
                    Then::Read { tensor: *read.first().ok_or_else(gone)?, branches }
                }
                _ => Then::Return(results.to_vec()),
            };
            let (notes, outside) = (Arc::from(notes), outside.clone());
            next = Some(Node { notes, segment, then, after: known, outside });
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

fn resume(
    passed: Vec<Arc<Node>>,
    tensors: HashMap<Value, Tensor>,
    reads: VecDeque<Result<Vec<u8>>>,
    guard: Option<(Arc<Node>, Vec<u8>)>,
) -> Outcome {
    let last = passed.last();
    let (outside, before) =
        last.map(|node| (node.outside.clone(), node.after.clone())).unwrap_or_default();
    let notes = passed.iter().map(|node| node.notes.clone()).collect();
    // What the function held at the guard; the others ended.
    let is_held = |value: &Value| matches!(value, Value::Input(_)) || before.contains_key(value);
    let tensors = tensors.into_iter().filter(|(value, _)| is_held(value)).collect();
    let prefix = Prefix { notes, tensors, reads, ended: BTreeSet::new() };
    Outcome::Resume(Box::new(Resume { prefix, outside, before, guard }))
}

/// Returns the capture of a run from its start.
///
/// # Errors
/// A call cannot stand in an executable, with its place.
pub(super) fn capture(
    machine: &Machine,
    session: &Session,
    inputs: &[Place],
    results: &[Value],
) -> Result<Arc<Node>> {
    Node::of(machine, session, inputs_of(inputs), results).map(Arc::new)
}

/// Returns where the inputs lie, by name.
fn inputs_of(inputs: &[Place]) -> BTreeMap<Value, Place> {
    let numbered = inputs.iter().cloned().enumerate();
    numbered.map(|(k, place)| (Value::Input(k as u32), place)).collect()
}

/// What a resumed run adds to its capture.
pub(super) struct Addition {
    before: BTreeMap<Value, Place>,
    guard: Option<(Arc<Node>, Vec<u8>)>,
}

impl Resume {
    /// Takes the resume apart: what the function repeats, the tensors from elsewhere, and what the
    /// run adds.
    pub(super) fn parts(self) -> (Prefix, Vec<(Tensor, Place)>, Addition) {
        let Resume { prefix, outside, before, guard } = self;
        (prefix, outside, Addition { before, guard })
    }
}

/// The most values of one read that are followed by captures of their own.
const MAX_BRANCHES: usize = 8;

impl Addition {
    /// Adds the rest of a run as a branch of its guard.
    ///
    /// # Errors
    /// A call cannot stand in an executable, with its place. The branch then stays without one.
    pub(super) fn add(
        self,
        machine: &Machine,
        session: &Session,
        results: std::result::Result<&[Value], Refusal>,
    ) -> Result<bool> {
        let Some((node, bytes)) = self.guard else { return Ok(false) };
        let Then::Read { branches, .. } = &node.then else { return Ok(false) };
        let is_full = || {
            let branches = branches.lock().unwrap_or_else(PoisonError::into_inner);
            branches.len() >= MAX_BRANCHES || branches.iter().any(|b| b.bytes == bytes)
        };
        if is_full() {
            return Ok(false);
        }
        let made = match results {
            Ok(results) => Node::of(machine, session, self.before, results),
            Err(refusal) => Err(refusal.error()),
        };
        let (node, error) = match made {
            Ok(node) => (Some(Arc::new(node)), None),
            Err(error) => (None, Some(error)),
        };
        let branch = Branch { bytes, node };
        branches.lock().unwrap_or_else(PoisonError::into_inner).push(branch);
        error.map_or(Ok(true), Err)
    }
}
