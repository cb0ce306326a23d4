//! One run of a function, whose calls are noted, or compared with the notes of an earlier run.
//!
//! A session belongs to a thread. The layer of a session compares or notes each request of the
//! thread.
//!
//! Long because each way of asking a machine for something enters here.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use millstream_instructions::TensorRef;
use millstream_runtime::sync::thread_local;
use millstream_types::{Error, Origin, Point, Result, ScalarValue, StreamKey, TensorSpec};

use crate::handle::generator::serial_number;
use crate::handle::global;
use crate::handle::leaf::Leaf;
use crate::handle::machine::Machine;
use crate::handle::request::{self, OpCall, Rank, Reply, Verb};
use crate::handle::{Stream, Tensor, counts};

use super::arguments::Arguments;
use super::draws::{Drawn, Draws};
use super::gradients::{Gradients, Left};
use super::key::created_with;
use super::note::{Action, Note, NoteResult, Place, Returned, StreamName, Value};

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Why a function cannot be captured, and the place of the call.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    reason: String,
    origin: Origin,
    /// Whether the next call may be captured: the first one of a function may make what it keeps.
    pub(super) may_pass: bool,
}

impl Refusal {
    pub(super) const fn new(reason: String, origin: Origin) -> Refusal {
        Refusal { reason, origin, may_pass: false }
    }

    /// Returns the refusal of a function that captures another one.
    pub(super) fn nested(origin: &Origin) -> Refusal {
        Refusal::new("it captures another function".to_owned(), origin.clone())
    }

    /// Returns the refusal as an error.
    pub(super) fn error(self) -> Error {
        Error::Invalid { what: "traced function", message: self.reason }.at(&self.origin)
    }
}

/// A tensor that a function has made and holds.
#[derive(Clone, Debug)]
struct Alive {
    tensor: TensorRef,
    spec: TensorSpec,
    /// The place of the call that made it.
    origin: Origin,
}

/// The values at a guard.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// How many notes lie before it; the read itself is the next one.
    pub(super) notes: usize,
    /// What was read.
    pub(super) bytes: Vec<u8>,
    /// The values that the function had made and still held.
    pub(super) alive: Vec<(Value, Place)>,
    /// How many draws the function had made of each generator.
    pub(super) draws: Vec<usize>,
}

/// The notes that a resumed function has to repeat.
pub(super) struct Prefix {
    pub(super) notes: Vec<Arc<[Note]>>,
    /// The tensors of the replay, by the names of their values.
    pub(super) tensors: HashMap<Value, Tensor>,
    /// The results of the reads, in order.
    pub(super) reads: VecDeque<Result<Vec<u8>>>,
    /// The replay's draws from generators.
    pub(super) draws: Vec<Drawn>,
    /// The values that ended before the guard. Empty tensors stand for them.
    pub(super) ended: BTreeSet<Value>,
    /// Whether it is all of a capture, behind which the function makes no calls.
    pub(super) is_whole: bool,
}

impl Prefix {
    fn note(&self, mut at: usize) -> Option<&Note> {
        for notes in &self.notes {
            match notes.get(at) {
                Some(note) => return Some(note),
                None => at -= notes.len(),
            }
        }
        None
    }
}

/// A run of a function.
pub(super) struct Session {
    machine: Machine,
    pub(super) inputs: Vec<Tensor>,
    /// How many more handles of each input the function has made than dropped.
    handles: Vec<isize>,
    /// The created streams, in the order of their first use.
    pub(super) streams: Vec<StreamKey>,
    /// Generators with a higher number were made by the function.
    pub(super) number: u64,
    pub(super) draws: Draws,
    /// The scalars of the call, by name.
    pub(super) arguments: Vec<(String, ScalarValue)>,
    /// The storages of the inputs.
    input_storages: Vec<u64>,
    /// The newest storage before the run.
    last_storage: u64,
    pub(super) notes: Vec<Note>,
    pub(super) guards: Vec<Guard>,
    pub(super) refusal: Option<Refusal>,
    /// The names of tensors.
    names: HashMap<TensorRef, Value>,
    /// The tensors that were made and are held.
    alive: BTreeMap<Value, Alive>,
    /// The tensors from elsewhere, by number.
    pub(super) outside: Vec<(Tensor, Place)>,
    pub(super) gradients: Gradients,
    /// The number of tensors made.
    made: u32,
    /// The events that were recorded, by the points of their records.
    events: HashMap<Point, u32>,
    prefix: Option<Prefix>,
    /// How many notes of the prefix were repeated.
    repeated: usize,
    /// The empty tensors that stood for values of the prefix.
    stand_ins: HashSet<TensorRef>,
}

impl Session {
    /// Returns a session of a function with these inputs and arguments, which repeats `prefix`
    /// first. `outside` are the tensors that the prefix took from elsewhere.
    pub(super) fn new(
        machine: &Machine,
        inputs: &[Tensor],
        places: &[Place],
        arguments: &Arguments,
        outside: Vec<(Tensor, Place)>,
        mut prefix: Option<Prefix>,
    ) -> Result<Session> {
        let mut names: HashMap<TensorRef, Value> = HashMap::new();
        for (k, tensor) in inputs.iter().enumerate() {
            names.entry(machine.owns(global::part(tensor)?)?).or_insert(Value::Input(k as u32));
        }
        for (k, (tensor, _)) in outside.iter().enumerate() {
            names.entry(tensor.tensor_ref()).or_insert(Value::Outside(k as u32));
        }
        let last_storage = machine.shared.lock()?.builder.last_storage_number();
        let draws = prefix.as_mut().map(|prefix| std::mem::take(&mut prefix.draws));
        Ok(Session {
            machine: machine.clone(),
            number: serial_number(),
            draws: Draws::resumed(arguments.values(), draws.unwrap_or_default()),
            arguments: arguments.scalars.clone(),
            inputs: inputs.to_vec(),
            handles: vec![0; inputs.len()],
            streams: Vec::new(),
            input_storages: places.iter().map(|place| place.storage).collect(),
            last_storage,
            notes: Vec::new(),
            guards: Vec::new(),
            refusal: None,
            names,
            alive: BTreeMap::new(),
            outside,
            gradients: Gradients::default(),
            made: 0,
            events: HashMap::new(),
            prefix,
            repeated: 0,
            stand_ins: HashSet::new(),
        })
    }

    /// Runs `function` with its calls noted. Returns its result, and the session; none if the
    /// function has captured another one on this thread.
    pub(super) fn run<T>(self, function: impl FnOnce() -> T) -> (T, Option<Session>) {
        struct Clear;
        impl Drop for Clear {
            fn drop(&mut self) {
                request::install(Rank::Trace, None);
                counts::end();
                // Dropped outside the borrow, since tensors tell the session of their end.
                drop(SESSION.with(|session| session.borrow_mut().take()));
            }
        }
        SESSION.with(|session| *session.borrow_mut() = Some(self));
        counts::begin(counted);
        let clear = Clear;
        request::install(Rank::Trace, Some(&super::layer::Tracing));
        let result = function();
        request::install(Rank::Trace, None);
        let session = SESSION.with(|session| session.borrow_mut().take());
        drop(clear);
        (result, session)
    }

    /// Returns the names of the values that the function has returned, and the gradients that it
    /// has left in leaves. A replay would keep no tensor, so a function that does is refused.
    pub(super) fn results(
        &mut self,
        results: &[Tensor],
    ) -> std::result::Result<(Vec<Returned>, Vec<Left>), Refusal> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let left = self.gradients.left(&self.inputs).into_iter();
        let left = left.map(|(owner, gradient, set_in)| {
            let returned = gradient.map(|tensor| self.given_back(&tensor)).transpose()?;
            Ok(Left { owner, returned, set_in })
        });
        let left = left.collect::<std::result::Result<Vec<_>, Refusal>>()?;
        let mut names = Vec::with_capacity(results.len());
        for tensor in results {
            let name = self.given_back(tensor)?;
            if let (Value::Made(_), Some(leaf)) = (name.0, tensor.leaf_slot().get()) {
                let reason = "it returns a tensor that it made one with a gradient";
                let origin = self.gradients.own_origin(leaf).unwrap_or(tensor.made_at());
                return Err(Refusal::new(reason.to_owned(), origin.clone()));
            }
            names.push(name);
        }
        let is_given = |value: &Value| {
            let given = left.iter().filter_map(|left| left.returned.as_ref());
            names.iter().chain(given).any(|(given, _)| given == value)
        };
        if let Some((value, Alive { origin, .. })) =
            self.alive.iter().find(|(value, _)| !is_given(value))
        {
            let made = self.describe(*value);
            let reason = format!(
                "the result of {made} outlives the call without being returned; in a replay it \
                 would be that of an earlier call"
            );
            return Err(Refusal { may_pass: true, ..Refusal::new(reason, origin.clone()) });
        }
        match self.kept(results) {
            Some((what, origin)) => {
                let reason = format!("it keeps {what} for later, which a replay would not do");
                Err(Refusal { may_pass: true, ..Refusal::new(reason, origin) })
            }
            None => Ok((names, left)),
        }
    }

    /// Returns the first input or result of which the function has kept a handle, and its place.
    fn kept(&self, results: &[Tensor]) -> Option<(String, Origin)> {
        // The handles that a replay gives, too.
        let given = |tensor: &Tensor| {
            let returned = results.iter().filter(|other| other.is_same(tensor)).count();
            returned + self.gradients.holders(tensor)
        };
        let mut inputs = self.inputs.iter().zip(&self.handles);
        if let Some(k) = inputs.position(|(input, more)| *more > given(input) as isize) {
            return Some((format!("input {k}"), Origin::Unknown));
        }
        let name = |tensor: &Tensor| {
            let part = global::part(tensor).unwrap_or(tensor);
            self.names.get(&part.tensor_ref()).copied()
        };
        let is_made = |tensor: &&Tensor| matches!(name(tensor), Some(Value::Made(_)));
        let mut made = results.iter().filter(is_made);
        let kept = made.find(|tensor| tensor.handles() > given(tensor))?;
        let value = name(kept)?;
        Some((format!("its result {}", self.describe(value)), kept.made_at().clone()))
    }

    /// Describes a value by the call that has made it.
    fn describe(&self, value: Value) -> String {
        let makes = |note: &&Note| note.results.iter().any(|result| result.value == value);
        let note = self.notes.iter().find(makes);
        note.map_or_else(|| value.to_string(), |note| note.action.to_string())
    }

    /// Returns the name of a tensor that the function gives back.
    fn given_back(&mut self, tensor: &Tensor) -> std::result::Result<Returned, Refusal> {
        let part = global::part(tensor).map_err(|e| e.to_string());
        let (name, class) = (part.and_then(|part| self.value(part)), global::class(tensor));
        let refused = |reason| Refusal::new(reason, tensor.made_at().clone());
        match (name, class) {
            (Ok(Value::Outside(_)), Some(_)) => {
                Err(refused("it gives back a global tensor from elsewhere".to_owned()))
            }
            (name, class) => Ok((name.map_err(refused)?, class)),
        }
    }

    /// Checks that the function holds nothing that stands for a tensor that it had dropped.
    ///
    /// # Errors
    /// It does.
    pub(super) fn check_alive(&self, origin: &Origin) -> Result<()> {
        let mut alive = self.alive.values();
        match alive.any(|alive| self.stand_ins.contains(&alive.tensor)) {
            true => Err(kept_stand_in(origin)),
            false => Ok(()),
        }
    }

    pub(super) fn refuse(&mut self, reason: String, origin: &Origin) {
        self.refusal.get_or_insert_with(|| Refusal::new(reason, origin.clone()));
    }

    /// Returns the name of a tensor; one that is new to the session is from elsewhere.
    fn value(&mut self, tensor: &Tensor) -> std::result::Result<Value, String> {
        if let Some(&value) = self.names.get(&tensor.tensor_ref()) {
            return Ok(value);
        }
        let place = Place::of(&self.machine, tensor).map_err(|e| e.to_string())?;
        if place.storage > self.last_storage {
            return Err("it uses a tensor that another thread made meanwhile".to_owned());
        }
        if self.input_storages.contains(&place.storage) {
            return Err("it takes from elsewhere a tensor in the memory of an input".to_owned());
        }
        let value = Value::Outside(self.outside.len() as u32);
        self.names.insert(tensor.tensor_ref(), value);
        self.outside.push((tensor.clone(), place));
        Ok(value)
    }

    fn values(&mut self, tensors: &[&Tensor]) -> std::result::Result<Vec<Value>, String> {
        tensors.iter().map(|tensor| self.value(tensor)).collect()
    }

    /// Returns the name of a stream.
    fn stream(&mut self, stream: &Stream) -> StreamName {
        if created_with(stream).is_none() {
            return StreamName::Key(stream.key.clone());
        }
        let known = self.streams.iter().position(|key| *key == stream.key);
        let number = known.unwrap_or_else(|| {
            self.streams.push(stream.key.clone());
            self.streams.len() - 1
        });
        StreamName::Created(number as u32)
    }

    /// Returns a step by the names of values, or why there are none.
    fn action(
        &mut self,
        verb: &Verb<'_>,
        recorded: Option<Point>,
    ) -> std::result::Result<Action, String> {
        Ok(match (*verb, recorded) {
            (Verb::Op(OpCall { name, inputs, out, attrs, stream, priority, .. }), _) => {
                Action::Call {
                    name: name.to_owned(),
                    inputs: self.values(inputs)?,
                    out: out.map(|out| self.values(out)).transpose()?,
                    attrs: attrs.clone(),
                    stream: self.stream(stream),
                    priority,
                }
            }
            (Verb::Empty { spec, bytes, stream }, _) => {
                Action::Empty { spec: spec.clone(), bytes, stream: self.stream(stream) }
            }
            (Verb::View { of, spec }, _) => {
                Action::View { of: self.value(of)?, spec: spec.clone() }
            }
            (Verb::Upload { spec, bytes, stream }, _) => {
                let (spec, bytes) = (spec.clone(), bytes.borrow().clone());
                Action::Upload { spec, bytes, stream: self.stream(stream) }
            }
            (Verb::Read { tensor }, _) => Action::Read { tensor: self.value(tensor)? },
            (Verb::RecordEvent { stream, .. }, Some(at)) => {
                let next = self.events.len() as u32;
                let event = *self.events.entry(at).or_insert(next);
                Action::RecordEvent { stream: self.stream(stream), event }
            }
            (Verb::WaitEvent { stream, at, .. }, _) => match at.and_then(|at| self.events.get(&at))
            {
                Some(&event) => Action::WaitEvent { stream: self.stream(stream), event },
                None => return Err("it waits for an event from outside".to_owned()),
            },
            (Verb::WaitStream { stream, source }, _) => {
                Action::WaitStream { stream: self.stream(stream), source: self.stream(source) }
            }
            (Verb::Barrier { global, .. }, _) => Action::Barrier { global },
            (Verb::Touch { tensors, stream }, _) => {
                Action::Touch { tensors: self.values(tensors)?, stream: self.stream(stream) }
            }
            _ => unreachable!("never noted"),
        })
    }

    /// Notes a step that was made.
    pub(super) fn note(
        &mut self,
        verb: &Verb<'_>,
        recorded: Option<Point>,
        results: &[Tensor],
        origin: &Origin,
    ) {
        if self.refusal.is_some() {
            return;
        }
        match self.action(verb, recorded) {
            Ok(action) => {
                let result = |tensor| self.result(tensor, origin);
                let results = results.iter().map(result).collect();
                self.notes.push(Note { action, results, origin: origin.clone() });
            }
            Err(reason) => self.refuse(reason, origin),
        }
    }

    /// Returns the name of a result.
    fn result(&mut self, tensor: &Tensor, origin: &Origin) -> NoteResult {
        let (made, spec) = (tensor.tensor_ref(), tensor.spec().clone());
        let value = *self.names.entry(made).or_insert_with(|| {
            let value = Value::Made(self.made);
            self.made += 1;
            let alive = Alive { tensor: made, spec: spec.clone(), origin: origin.clone() };
            self.alive.insert(value, alive);
            value
        });
        NoteResult { value, spec }
    }

    /// Notes the end of a tensor.
    pub(super) fn end(&mut self, tensor: TensorRef) {
        if let Some(value) = self.names.get(&tensor) {
            self.alive.remove(value);
        }
    }

    /// Notes a read, and the values at it.
    fn note_read(&mut self, tensor: &Tensor, bytes: &[u8], origin: &Origin) {
        self.note(&Verb::Read { tensor }, None, &[], origin);
        match self.alive() {
            Ok(alive) if self.refusal.is_none() => {
                let (notes, draws) = (self.notes.len(), self.draws.counts());
                self.guards.push(Guard { notes, bytes: bytes.to_vec(), alive, draws });
            }
            Ok(_) => {}
            Err(error) => self.refuse(error.to_string(), origin),
        }
    }

    fn alive(&self) -> Result<Vec<(Value, Place)>> {
        let engine = self.machine.shared.lock()?;
        let place = |Alive { tensor, spec, .. }: &Alive| Place::of_ref(&engine, *tensor, spec);
        self.alive.iter().map(|(value, alive)| Ok((*value, place(alive)?))).collect()
    }

    /// Refuses tensors that stand for values which ended before the guard.
    fn check_stand_ins(&self, verb: &Verb<'_>, origin: &Origin) -> Result<()> {
        let own = |tensor: &Tensor| global::part(tensor).unwrap_or(tensor).tensor_ref();
        let is_stand_in = |tensor: &Tensor| self.stand_ins.contains(&own(tensor));
        let uses_one = match *verb {
            Verb::Op(OpCall { inputs, out, .. }) => {
                inputs.iter().chain(out.into_iter().flatten()).any(|tensor| is_stand_in(tensor))
            }
            Verb::View { of: tensor, .. } | Verb::Read { tensor } => is_stand_in(tensor),
            Verb::Touch { tensors, .. } => tensors.iter().any(|tensor| is_stand_in(tensor)),
            _ => false,
        };
        match uses_one {
            true => Err(kept_stand_in(origin)),
            false => Ok(()),
        }
    }

    /// Compares a step with the next note of the prefix. Returns the note's results if there is
    /// one.
    ///
    /// # Errors
    /// The function makes another call than it did.
    fn repeat(
        &mut self,
        verb: &Verb<'_>,
        recorded: Option<Point>,
        origin: &Origin,
    ) -> Result<Option<Vec<NoteResult>>> {
        let Some(prefix) = &self.prefix else {
            return self.check_stand_ins(verb, origin).map(|()| None);
        };
        let note = prefix.note(self.repeated).cloned();
        let now = self.action(verb, recorded);
        if let (Ok(action), Some(note)) = (&now, &note)
            && *action == note.action
        {
            self.repeated += 1;
            return Ok(Some(note.results.clone()));
        }
        let now = now.map_or_else(|reason| reason, |action| action.to_string());
        let before = note.map_or_else(|| "nothing more".to_owned(), |note| note.action.to_string());
        Err(changed(&before, &now, origin))
    }

    /// Returns the tensors of a note's results.
    fn tensors(
        &mut self,
        results: Vec<NoteResult>,
        verb: &Verb<'_>,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        let mut tensors = Vec::with_capacity(results.len());
        for NoteResult { value, spec, .. } in results {
            if let Value::Made(k) = value {
                self.made = self.made.max(k + 1);
            }
            let stream = match *verb {
                Verb::Op(OpCall { stream, .. })
                | Verb::Empty { stream, .. }
                | Verb::Upload { stream, .. } => stream.clone(),
                Verb::View { of, .. } => of.made_on().clone(),
                _ => self.machine.current_stream()?,
            };
            let known = self.prefix.as_mut().and_then(|prefix| prefix.tensors.get_mut(&value));
            let tensor = match known {
                Some(tensor) => {
                    if let Value::Input(k) = value {
                        self.handles[k as usize] += 1;
                    }
                    // The launch has made it on another stream.
                    tensor.set_made_on(stream);
                    tensor.clone()
                }
                // It ended before the guard, so nothing but the function's next calls name it.
                None => {
                    let bytes = spec.span_bytes() as u64;
                    let made = self.machine.empty_at(&stream, spec, bytes, origin.clone())?;
                    if let Some(prefix) = &mut self.prefix {
                        prefix.tensors.insert(value, made.clone());
                        prefix.ended.insert(value);
                    }
                    made
                }
            };
            self.names.insert(tensor.tensor_ref(), value);
            tensors.push(tensor);
        }
        Ok(tensors)
    }

    /// Ends the prefix. Returns what it held.
    fn end_prefix(&mut self) -> Option<Prefix> {
        let mut prefix = self.prefix.take()?;
        self.draws.end_repetition();
        let notes = prefix.notes.iter().flat_map(|notes| notes.iter());
        let made = notes.flat_map(|note| note.results.iter().map(|r| (r.value, &note.origin)));
        let made: HashMap<Value, &Origin> = made.collect();
        for (value, tensor) in &prefix.tensors {
            if prefix.ended.contains(value) {
                self.stand_ins.insert(tensor.tensor_ref());
            }
            if matches!(value, Value::Made(_)) {
                let (tensor, spec) = (tensor.tensor_ref(), tensor.spec().clone());
                let origin = made.get(value).copied().cloned().unwrap_or_default();
                self.alive.insert(*value, Alive { tensor, spec, origin });
            }
        }
        // Here, since the drops of the function's own handles are counted.
        prefix.tensors.retain(|value, _| !matches!(value, Value::Input(_)));
        Some(prefix)
    }

    /// Makes a tensor that exists already one from elsewhere.
    pub(super) fn adopt(&mut self, tensor: &Tensor) -> Result<()> {
        let (place, part) = (Place::of(&self.machine, tensor)?, global::part(tensor)?);
        let value = Value::Outside(self.outside.len() as u32);
        self.names.insert(part.tensor_ref(), value);
        self.outside.push((part.clone(), place));
        Ok(())
    }

    /// Notes the use of a leaf; `held` is what the function reads there, if it does.
    fn use_leaf(&mut self, leaf: &Arc<Leaf>, held: Option<Option<&Tensor>>, origin: &Origin) {
        if self.gradients.is_known(leaf) {
            return;
        }
        let place = |tensor| Place::of(&self.machine, tensor);
        let found = match held.map(|held| held.map(place).transpose()).transpose() {
            Ok(found) => found,
            Err(error) => return self.refuse(error.to_string(), origin),
        };
        let segment = self.prefix.is_none().then_some(self.guards.len());
        let value = self.gradients.begin(leaf, found, segment);
        let Some(Some(Ok(part))) = held.map(|held| held.map(global::part)) else { return };
        let name = *self.names.entry(part.tensor_ref()).or_insert(value);
        if let Value::Outside(_) | Value::Made(_) = name {
            let reason = "it takes the gradient of a tensor also from elsewhere".to_owned();
            self.refuse(reason, origin);
        }
    }
}

/// Returns the error of a function that makes another call than it did.
fn changed(before: &str, now: &str, origin: &Origin) -> Error {
    let message = format!(
        "with equal inputs and reads it made {before}, and now {now}; a traced function may depend \
         on its inputs, its arguments, and what it reads from tensors, and on no other value of \
         the host"
    );
    Error::Invalid { what: "traced function", message }.at(origin)
}

fn kept_stand_in(origin: &Origin) -> Error {
    let message = "the function keeps a tensor that it dropped when it was captured; what it does \
                   may depend on nothing but its inputs and what it reads"
        .to_owned();
    Error::Invalid { what: "traced function", message }.at(origin)
}

/// Notes that the thread makes a handle of a tensor, or drops one.
#[cold]
fn counted(tensor: &Tensor, change: isize) {
    // The handles that a session makes are not the function's.
    let _ = SESSION.try_with(|session| {
        let mut session = session.try_borrow_mut().ok()?;
        let session = session.as_mut()?;
        let input = session.inputs.iter().position(|input| input.is_same(tensor))?;
        session.handles[input] += change;
        Some(())
    });
}

/// Uses the session, of whatever machine.
pub(super) fn with_any<T>(work: impl FnOnce(&mut Session) -> Option<T>) -> Option<T> {
    SESSION.with(|session| {
        let mut session = session.try_borrow_mut().ok()?;
        let _inner = request::suspend(&[Rank::Trace]);
        work(session.as_mut()?)
    })
}

/// Ends the repetition of this thread's function, which has returned.
///
/// # Errors
/// It makes fewer calls than it did.
pub(super) fn end_repetition(origin: &Origin) -> Result<()> {
    let ended = with_any(|session| {
        let missing = session.prefix.as_ref().and_then(|prefix| prefix.note(session.repeated));
        Some(match missing {
            Some(note) => Err(changed(&note.action.to_string(), "nothing more", origin)),
            None => Ok(session.end_prefix()),
        })
    });
    // Dropped outside of the session, which notes the ends of tensors.
    ended.unwrap_or(Ok(None)).map(drop)
}

/// Uses the session, if it is one of this machine.
pub(super) fn with<T>(machine: &Machine, work: impl FnOnce(&mut Session) -> T) -> Option<T> {
    with_any(|session| Arc::ptr_eq(&session.machine.shared, &machine.shared).then(|| work(session)))
}

/// Notes that the function reads the gradient of a leaf.
pub(super) fn read_gradient(leaf: &Arc<Leaf>, origin: &Origin) {
    let held = leaf.held();
    with_any(|session| {
        session.use_leaf(leaf, Some(held.as_ref()), origin);
        Some(())
    });
}

/// Notes that the function sets the gradient of a leaf.
pub(super) fn set_gradient(leaf: &Arc<Leaf>, origin: &Origin) {
    with_any(|session| {
        session.use_leaf(leaf, None, origin);
        session.gradients.set(leaf, session.guards.len());
        Some(())
    });
}

/// Notes that a tensor is one with a gradient from now on.
pub(super) fn note_leaf(tensor: &Tensor, leaf: &Arc<Leaf>, origin: &Origin) {
    with(tensor.machine(), |session| {
        let part = global::part(tensor).unwrap_or(tensor);
        if let Some(Value::Made(_)) = session.names.get(&part.tensor_ref()) {
            session.gradients.note_own(leaf, origin);
        }
    });
}

/// Returns the tensors of a step that a replay has made already, if it has.
///
/// # Errors
/// The function makes another call than it did.
pub(super) fn replayed(
    machine: &Machine,
    verb: &Verb<'_>,
    origin: &Origin,
) -> Result<Option<Vec<Tensor>>> {
    let repeated = with(machine, |session| {
        let Some(results) = session.repeat(verb, None, origin)? else { return Ok(None) };
        session.tensors(results, verb, origin).map(Some)
    });
    repeated.unwrap_or(Ok(None))
}

/// Returns the result of a read that a replay has made already, if it has.
///
/// # Errors
/// The function makes another call than it did.
pub(super) fn replayed_read(tensor: &Tensor, origin: &Origin) -> Result<Option<Vec<u8>>> {
    let repeated = with(tensor.machine(), |session| {
        if session.repeat(&Verb::Read { tensor }, None, origin)?.is_none() {
            return Ok((None, None));
        }
        let Some(prefix) = &mut session.prefix else { return Ok((None, None)) };
        let read = prefix.reads.pop_front();
        let is_over = !prefix.is_whole && prefix.note(session.repeated).is_none();
        Ok((read, if is_over { session.end_prefix() } else { None }))
    });
    // What the prefix held is dropped outside the session.
    let (read, _held) = repeated.unwrap_or(Ok((None, None)))?;
    read.transpose()
}

/// Notes a read that was made.
pub(super) fn note_read(tensor: &Tensor, result: &Result<Reply>, origin: &Origin) {
    with(tensor.machine(), |session| match result {
        Ok(Reply::Bytes(bytes)) => session.note_read(tensor, bytes, origin),
        Ok(_) => {}
        Err(error) => session.refuse(format!("a read fails: {error}"), origin),
    });
}

/// Notes or compares a step that only orders, and is made in any case. `recorded` is the point of a
/// record.
///
/// # Errors
/// The function makes another call than it did.
pub(super) fn order(
    machine: &Machine,
    verb: &Verb<'_>,
    recorded: Option<Point>,
    origin: &Origin,
) -> Result<()> {
    let ordered = with(machine, |session| {
        if session.repeat(verb, recorded, origin)?.is_none() {
            session.note(verb, recorded, &[], origin);
        }
        Ok(())
    });
    ordered.unwrap_or(Ok(()))
}
