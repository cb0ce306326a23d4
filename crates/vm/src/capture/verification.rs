//! Replays beside which the function runs, to find where they differ.
//!
//! A capture sees the machine's calls. A number that the function computes without the machine is
//! in the notes as it was at the capture. So the function runs again, its calls are compared with
//! the notes, and what it computes is compared with what the replay has computed. The memory that
//! the replay writes is set back before the function runs, so that it changes once: all of each
//! storage, since the function may write more of it than the tensors that it is given cover.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use millstream_runtime::scope::origin::with_origin;
use millstream_types::{DType, Error, Origin, Result, TensorSpec};

use crate::gradient::no_grad;
use crate::handle::Tensor;
use crate::handle::global;
use crate::handle::leaf::Leaf;

use super::arguments::Arguments;
use super::draws::{Drawn, Draws};
use super::note::{Note, Place, Value};
use super::replay::{Done, Entry, Node, Outcome, Then};
use super::session::Session;
use super::traced::Traced;

/// A storage that a replay and the function change.
struct Written {
    /// A tensor in it.
    tensor: Tensor,
    /// All of it, as elements of the tensor.
    memory: Tensor,
    before: Tensor,
}

impl Written {
    /// Copies the storage of a tensor.
    fn new(tensor: Tensor, origin: &Origin) -> Result<Written> {
        let machine = tensor.machine();
        let bytes = machine.shared.lock()?.builder.storage_bytes(tensor.resolved()?)? as usize;
        let (dtype, count) = match bytes % tensor.dtype().size() {
            0 => (tensor.dtype(), bytes / tensor.dtype().size()),
            _ => (DType::U8, bytes),
        };
        let memory = TensorSpec::contiguous(dtype, &[count])?;
        let memory = machine.view_now(&tensor, &memory, origin)?;
        let before = no_grad(|| memory.copy())?;
        Ok(Written { tensor, memory, before })
    }

    /// Sets the storage back.
    fn restore(&self) -> Result<()> {
        no_grad(|| self.memory.copy_(&self.before).map(drop))
    }
}

/// What a replay has computed.
struct Replayed {
    results: Vec<Vec<u8>>,
    /// The storages that it has written, all of each.
    written: Vec<Vec<u8>>,
    gradients: Vec<Option<Vec<u8>>>,
    draws: Vec<Drawn>,
}

/// The outcome of a replay beside which the function has run.
pub(super) enum Verified {
    /// The function's results.
    Equal(Vec<Tensor>),
    /// The replay has left its capture, so there is nothing to compare.
    Left(Outcome),
}

fn differs(what: &str, expected: &str, actual: &str, origin: &Origin) -> Error {
    let message = format!(
        "the function and its replay differ at {what}: the function gives {expected}, the replay \
         {actual}; a traced function may depend on its inputs, its arguments, and what it reads \
         from tensors, and on no other value of the host"
    );
    Error::Invalid { what: "traced function", message }.at(origin)
}

/// Reads a tensor; of a global one this rank's part.
fn read(tensor: &Tensor) -> Result<Vec<u8>> {
    global::part(tensor)?.read()
}

/// Compares the elements that the function and the replay give.
fn compare(
    name: &str,
    (expected, actual): (&Tensor, &[u8]),
    maker: Option<&Note>,
    origin: &Origin,
) -> Result<()> {
    let bytes = read(expected)?;
    if bytes == actual {
        return Ok(());
    }
    let size = expected.dtype().size().max(1);
    let at = bytes.iter().zip(actual).position(|(a, b)| a != b).unwrap_or(0) / size;
    let element = |bytes: &[u8]| {
        let one = bytes.get(at * size..(at + 1) * size).unwrap_or_default().to_vec();
        let machine = expected.machine();
        let element = machine.current_stream().and_then(|stream| {
            let spec = TensorSpec::contiguous(expected.dtype(), &[1])?;
            machine.upload(&stream, spec, one)
        });
        element.map_or_else(|e| e.to_string(), |element| element.to_string())
    };
    let (what, place) = match maker {
        Some(note) => (format!("{name}, element {at}, of {}", note.action), &note.origin),
        None => (format!("{name}, element {at}"), origin),
    };
    Err(differs(&what, &element(&bytes), &element(actual), place))
}

impl Node {
    /// Collects the tensors that the capture uses and that exist before a call, and the storages
    /// that it writes.
    fn operands(&self, inputs: &[Tensor], all: &mut Vec<Tensor>, written: &mut BTreeSet<u64>) {
        let found = self.found.iter().filter_map(|found| found.held(inputs));
        let gradients: HashMap<Value, Tensor> = found.collect();
        all.extend(self.outside.iter().map(|(tensor, _)| tensor.clone()));
        all.extend(gradients.values().cloned());
        if let Some(segment) = &self.segment {
            let tensor = |value: &Value| match value {
                Value::Input(k) => inputs.get(*k as usize),
                Value::Gradient(_) => gradients.get(value),
                Value::Outside(_) | Value::Made(_) => None,
            };
            let inputs = segment.written_inputs().filter_map(|value| tensor(&value));
            let outside = self.outside.iter().map(|(tensor, _)| tensor);
            let bound = outside.filter(|tensor| segment.executable.writes_bound(tensor));
            written.extend(inputs.chain(bound).filter_map(Tensor::storage_number));
        }
        self.branches().iter().for_each(|node| node.operands(inputs, all, written));
    }

    /// Returns the leaves that the capture sets.
    fn leaves(&self, inputs: &[Tensor]) -> Vec<Arc<Leaf>> {
        let mut leaves: Vec<Arc<Leaf>> = Vec::new();
        if let Then::Return(_, left) = &self.then {
            leaves.extend(left.iter().map(|left| left.leaf(inputs)));
        }
        let later = self.branches();
        for leaf in later.iter().flat_map(|node| node.leaves(inputs)) {
            if !leaves.iter().any(|known| Arc::ptr_eq(known, &leaf)) {
                leaves.push(leaf);
            }
        }
        leaves
    }

    /// Returns the first note of a session that differs from the capture's, and the capture's. Both
    /// name tensors from elsewhere by the capture's numbers.
    fn first_difference(
        self: &Arc<Node>,
        session: &Session,
    ) -> Option<(Option<Note>, Option<Note>)> {
        let (mut node, mut at, mut guard) = (self.clone(), 0, 0);
        loop {
            let outside = &node.outside;
            let name = |value: Value| {
                let Value::Outside(k) = value else { return value };
                let tensor = session.outside.get(k as usize).map(|(tensor, _)| tensor);
                let is_same =
                    |(known, _): &(Tensor, Place)| tensor.is_some_and(|t| t.is_same(known));
                let known = outside.iter().position(is_same);
                Value::Outside(known.unwrap_or(outside.len() + k as usize) as u32)
            };
            for known in node.notes.iter() {
                let note = session.notes.get(at).map(|note| note.renamed(name));
                if note.as_ref().is_none_or(|note| note.action != known.action) {
                    return Some((note, Some(known.clone())));
                }
                at += 1;
            }
            let Some(bytes) = session.guards.get(guard).map(|guard| &guard.bytes) else {
                return session.notes.get(at).map(|note| (Some(note.clone()), None));
            };
            guard += 1;
            // Behind a value that is new a replay would not go on.
            node = node.branch(bytes)?;
        }
    }
}

impl Traced {
    /// Replays a capture, runs the function beside it, and compares both.
    ///
    /// # Errors
    /// Both differ; or that of either.
    pub(super) fn verify(
        &self,
        node: &Arc<Node>,
        entry: Entry,
        (inputs, lie, arguments): (&[Tensor], &[Place], &Arguments),
        origin: &Origin,
    ) -> Result<Verified> {
        let parts = inputs.iter().map(|input| global::part(input).cloned());
        let mut all = parts.collect::<Result<Vec<Tensor>>>().map_err(|e| e.at(origin))?;
        let mut storages = BTreeSet::new();
        node.operands(inputs, &mut all, &mut storages);
        // One tensor for each storage.
        all.retain(|tensor| tensor.storage_number().is_some_and(|own| storages.remove(&own)));
        let copied = all.into_iter().map(|tensor| Written::new(tensor, origin));
        let written = with_origin(origin, || copied.collect::<Result<Vec<Written>>>())?;
        let leaves = node.leaves(inputs);
        let held: Vec<Option<Tensor>> = leaves.iter().map(|leaf| leaf.held()).collect();
        let done = match node.replay(inputs, &arguments.values(), entry, origin)? {
            Outcome::Done(done) => done,
            left => return Ok(Verified::Left(left)),
        };
        let replayed = with_origin(origin, || {
            let replayed = Replayed::read(done, &written, &leaves)?;
            written.iter().try_for_each(Written::restore)?;
            Ok(replayed)
        })?;
        leaves.iter().zip(held).for_each(|(leaf, held)| leaf.hold(held));

        let session = Session::new(&self.machine, inputs, lie, arguments, Vec::new(), None);
        let mut session = session.map_err(|e| e.at(origin))?;
        // The function draws what the replay has drawn.
        session.draws = Draws::resumed(arguments.values(), replayed.draws.clone());
        let (made, session) = session.run(|| self.call_function(inputs, &arguments.attrs));
        let (made, session) = (made?, session);
        let session = session.ok_or_else(|| differs("its start", "a capture", "none", origin))?;
        if let Some((expected, actual)) = node.first_difference(&session) {
            let place = expected.as_ref().or(actual.as_ref()).map_or(origin, |note| &note.origin);
            let text = |note: &Option<Note>| match note {
                Some(note) => format!("`{}`", note.action),
                None => "no call".to_owned(),
            };
            return Err(differs("a call", &text(&expected), &text(&actual), place));
        }
        let compare = || replayed.compare(&made, &written, &leaves, &session, origin);
        with_origin(origin, compare)?;
        Ok(Verified::Equal(made))
    }
}

impl Replayed {
    /// Reads what a replay has computed.
    fn read(done: Done, written: &[Written], leaves: &[Arc<Leaf>]) -> Result<Replayed> {
        let gradient = |leaf: &Arc<Leaf>| leaf.held().map(|gradient| read(&gradient)).transpose();
        Ok(Replayed {
            results: done.results.iter().map(read).collect::<Result<_>>()?,
            written: written.iter().map(|one| one.memory.read()).collect::<Result<_>>()?,
            gradients: leaves.iter().map(gradient).collect::<Result<_>>()?,
            draws: done.draws,
        })
    }

    /// Compares what the replay has computed with what the function has.
    fn compare(
        &self,
        made: &[Tensor],
        written: &[Written],
        leaves: &[Arc<Leaf>],
        session: &Session,
        origin: &Origin,
    ) -> Result<()> {
        for (k, (expected, actual)) in made.iter().zip(&self.results).enumerate() {
            let maker = session.maker(expected);
            compare(&format!("result {k}"), (expected, actual), maker, origin)?;
        }
        for (Written { tensor, memory, .. }, actual) in written.iter().zip(&self.written) {
            let name = format!("the memory of {} that both change", tensor.spec().brief());
            compare(&name, (memory, actual), None, origin)?;
        }
        for (k, (leaf, actual)) in leaves.iter().zip(&self.gradients).enumerate() {
            let name = format!("the gradient of leaf {k}");
            match (leaf.held(), actual) {
                (Some(expected), Some(actual)) => {
                    compare(&name, (&expected, actual), session.maker(&expected), origin)?;
                }
                (None, None) => {}
                (Some(_), None) => return Err(differs(&name, "one", "none", origin)),
                (None, Some(_)) => return Err(differs(&name, "none", "one", origin)),
            }
        }
        Ok(())
    }
}
