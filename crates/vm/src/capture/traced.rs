//! Traced functions: the entries of their keys, and their bounds.
//!
//! Long because its items have examples.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use millstream_runtime::scope::origin::{self, with_origin};
use millstream_types::{AttrValue, Attrs, Error, Origin, Result};

use crate::handle::Tensor;
use crate::handle::global;
use crate::handle::machine::Machine;
use crate::handle::request::{self, Rank};

use super::arguments::Arguments;
use super::comparison::Sample;
use super::gradients::Left;
use super::key::Key;
use super::limits::CaptureLimits;
use super::note::Place;
use super::replay::{Node, Outcome, Resume, Then};
use super::report::TracedReport;
use super::run::Run;
use super::session::{Refusal, Session, end_repetition};
use super::symbolic::Templates;

type Function = dyn Fn(&[Tensor], &Attrs) -> Result<Vec<Tensor>> + Send + Sync;

/// A function whose calls are captured and replayed. See [`Machine::traced`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?.mul(2.0)?]));
/// for _ in 0..3 {
///     f.call(&[&x]).run()?; // the first call is captured, the others are launches
/// }
/// assert_eq!(f.report().replays, 2);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Traced {
    pub(super) machine: Machine,
    function: Box<Function>,
    is_strict: bool,
    /// The function runs beside each replay of this number; never for 0.
    verify_every: u64,
    /// The symbolic sizes with which it makes the same calls, as the program says.
    sizes: Option<RangeInclusive<usize>>,
    state: Mutex<State>,
}

/// What is known of a key.
struct Entry {
    key: Key,
    /// Its capture, or why the function cannot be captured.
    node: Result<Arc<Node>>,
    /// Whether the next call may be captured.
    may_pass: bool,
    /// How many replays have left the capture since the last one that has not.
    left: u32,
}

#[derive(Default)]
struct State {
    limits: CaptureLimits,
    /// The entries, the one used last at the end.
    entries: Vec<Entry>,
    templates: Templates,
    report: TracedReport,
    /// How much the last calls have lost by captures and replays.
    loss: u32,
    /// The replays that were asked whether they are verified.
    verifiable: u64,
}

/// The loss by a capture or a resumption. A replay that pays takes 1 away.
const LOSS_OF_A_RUN: i32 = 4;

/// The loss at which a function is given up: that of 32 such calls without a replay.
const MAX_LOSS: u32 = 128;

/// How often in a row replays may leave a capture, before the function is captured anew.
const MAX_LEFT: u32 = 2;

impl Machine {
    /// Returns a function whose calls are captured and replayed.
    ///
    /// The first call runs `function` and notes the calls that it makes. Later calls with inputs of
    /// the same dtypes, shapes, strides, devices and common memory, equal arguments, and the same
    /// current stream launch what was noted, as executables, and do not run it. Where `function`
    /// reads a tensor, a launch goes on only for values that were read before; for any other value,
    /// `function` runs from there on.
    ///
    /// What `function` does may depend on its inputs, its arguments, and what it reads from
    /// tensors. Tensors that it takes from elsewhere, such as parameters, are always those of the
    /// first call. A value that the program computes without the machine, such as a number in a
    /// variable, stays the one of the first call: give it as an argument or in a tensor.
    /// [`Traced::verify_replays`] finds such values.
    ///
    /// Gradients of leaves, and the states and rates of [`optimisers`](crate::optimisers), are
    /// state that a replay reads and sets as the calls would. Where `function` keeps a handle of
    /// another tensor that it made or was given, also of a result, or notes its calls on a tape
    /// outside of it, it runs without a capture.
    ///
    /// Where far more calls run `function` than are replayed, or replays cost more than its few
    /// calls, captures are given up, and [`Traced::report`] has the reason.
    ///
    /// ```
    /// use millstream_types::{DType, DeviceId, TensorSpec};
    /// use millstream_vm::{Machine, MachineConfig};
    ///
    /// # fn main() -> millstream_types::Result<()> {
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let inner = machine.clone();
    /// let scale = machine.traced(move |inputs, arguments| {
    ///     let scaled = inner.call("mul", &[&inputs[0]]).attrs(arguments.clone()).run()?;
    ///     inner.call("relu", &[&scaled[0]]).run()
    /// });
    /// let stream = machine.current_stream()?;
    /// for k in 0..10 {
    ///     let spec = TensorSpec::contiguous(DType::F32, &[1])?;
    ///     let x = machine.upload(&stream, spec, (k as f32).to_ne_bytes().into())?;
    ///     let y = scale.call(&[&x]).attr("other", 3.0).run()?;
    ///     assert_eq!(y[0].read()?, (3.0 * k as f32).to_ne_bytes());
    /// }
    /// assert_eq!(scale.report().replays, 9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn traced(
        &self,
        function: impl Fn(&[Tensor], &Attrs) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> Traced {
        Traced {
            machine: self.clone(),
            function: Box::new(function),
            is_strict: false,
            verify_every: 0,
            sizes: None,
            state: Mutex::default(),
        }
    }
}

/// A call of a traced function, under construction.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?]));
/// let call: TracedCall<'_> = f.call(&[&x]);
/// assert_eq!(call.run()?[0].shape(), [2, 2]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "nothing is called before `run`"]
pub struct TracedCall<'a> {
    traced: &'a Traced,
    inputs: SmallVec<[&'a Tensor; 4]>,
    attrs: Attrs,
    scalars: BTreeMap<Cow<'static, str>, f64>,
    dims: SmallVec<[(usize, usize); 2]>,
    origin: Origin,
}

impl Traced {
    /// Sets the bounds of the captures. Those used longest ago are given up first.
    #[must_use]
    pub fn limits(self, limits: CaptureLimits) -> Traced {
        self.lock().limits = limits;
        self
    }

    /// Makes each call that cannot be captured an error, with its reason and its place. A strict
    /// function is never given up for its cost.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Access;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let f = machine.traced(|inputs, _| {
    ///     inputs[0].access(Access::Read, |_| Ok(()))?; // cannot be captured
    ///     Ok(vec![inputs[0].clone()])
    /// });
    /// assert!(f.strict().call(&[&x]).run().is_err());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn strict(mut self) -> Traced {
        self.is_strict = true;
        self
    }

    /// Verifies replays: at each `every`-th one the function runs, too. Its calls are compared with
    /// the captured ones, and return the tensors of the replay, so nothing is computed twice. The
    /// first difference is an error that names both calls, with the place. That finds what captures
    /// cannot see: values of the host, such as a number in a variable, from which the function
    /// makes its calls, and tensors that it keeps.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// static FACTOR: AtomicI32 = AtomicI32::new(2);
    /// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].mul(FACTOR.load(Relaxed))?]));
    /// let f = f.verify_replays(2);
    /// f.call(&[&x]).run()?; // captured
    /// FACTOR.store(3, Relaxed);
    /// f.call(&[&x]).run()?; // replayed, with the factor 2
    /// let error = f.call(&[&x]).run().unwrap_err(); // verified
    /// assert!(error.to_string().contains("other=3"));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn verify_replays(mut self, every: u64) -> Traced {
        self.verify_every = every;
        self
    }

    /// States the symbolic sizes ([`TracedCall::dim`]) with which the function makes the same
    /// calls. Without it a capture for a size that lies outside of those that the function ran
    /// with is made by running it.
    ///
    /// The function must not branch on a size in the range: replays would go the way that they
    /// know. [`Traced::verify_replays`] finds it if it does.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].softmax(0)?])).sizes(1..=512);
    /// for size in 1..=64 {
    ///     let x = Tensor::ones(size, DType::F32, &machine)?;
    ///     f.call(&[&x]).dim(0, 0).run()?; // runs for 1, 2 and 3
    /// }
    /// assert_eq!((f.report().captures, f.report().derived), (3, 61));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn sizes(mut self, sizes: RangeInclusive<usize>) -> Traced {
        self.sizes = Some(sizes);
        self
    }

    /// Begins a call.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?]));
    /// assert_eq!(f.call(&[&x]).run()?[0].shape(), [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn call<'a>(&'a self, inputs: &[&'a Tensor]) -> TracedCall<'a> {
        let (inputs, origin) = (SmallVec::from_slice(inputs), origin::caller());
        let (attrs, scalars, dims) = (Attrs::new(), BTreeMap::new(), SmallVec::new());
        TracedCall { traced: self, inputs, attrs, scalars, dims, origin }
    }

    /// Returns what became of the calls so far.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?]));
    /// f.call(&[&x]).run()?;
    /// println!("{}", f.report());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn report(&self) -> TracedReport {
        let state = self.lock();
        let mut report = state.report.clone();
        report.entries = state.entries.iter().filter(|e| e.node.is_ok()).count();
        report.bytes = state.bytes();
        report
    }

    /// Gives up all captures, and switches capturing on again.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?]));
    /// f.call(&[&x]).run()?;
    /// f.clear();
    /// assert_eq!(f.report().entries, 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn clear(&self) {
        let mut state = self.lock();
        state.loss = 0;
        state.report.switched_off = None;
        let ended = (std::mem::take(&mut state.entries), std::mem::take(&mut state.templates));
        drop(state);
        // Outside the lock, as executables end.
        drop(ended);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(
        &self,
        inputs: &[Tensor],
        arguments: &Arguments,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        let plainly = || (self.function)(inputs, &arguments.plain());
        // The calls of a function within another one are that one's.
        if request::is_on(Rank::Trace) {
            return plainly();
        }
        if request::is_on(Rank::Gradient) {
            return self.run_on_a_tape(plainly, origin);
        }
        if self.is_given_up() {
            return plainly();
        }
        // A rank outside of a mesh has nothing to replay.
        if inputs.iter().any(|input| global::part(input).is_err()) {
            self.lock().report.plain += 1;
            return plainly();
        }
        let at = |e: Error| e.at(origin);
        let lie = inputs.iter().map(|tensor| Place::of(&self.machine, tensor));
        let lie = lie.collect::<Result<Vec<_>>>().map_err(at)?;
        let stream = self.machine.current_stream().map_err(at)?;
        let key = Key::new(&lie, &arguments.attrs, &stream);
        let found = self.lock().find(&key);
        let captures = match found {
            Found::Captures(captures) => captures,
            Found::Never(error) if self.is_strict => return Err(error),
            Found::Never(_) => {
                let mut state = self.lock();
                state.report.plain += 1;
                state.count_loss(1, "it cannot be captured");
                drop(state);
                return plainly();
            }
            Found::Nothing => SmallVec::new(),
        };
        let enter = |node: Arc<Node>| Some((node.enter(inputs, &lie)?, node));
        let known = captures.into_iter().find_map(enter);
        let known = known.or_else(|| self.derive(&key, inputs, &lie, arguments).and_then(enter));
        let Some((entry, node)) = known else {
            return self.capture(key, inputs, &lie, arguments, origin);
        };
        let is_verified = self.is_verified_now();
        let outcome = node.replay(inputs, &arguments.values(), entry, is_verified, origin)?;
        match outcome {
            Outcome::Done(results) => {
                self.lock().count_replay(&node, self.is_strict);
                Ok(results)
            }
            Outcome::Refused(error) if self.is_strict => Err(error),
            Outcome::Refused(error) => {
                let mut state = self.lock();
                state.report.plain += 1;
                state.report.count(error.without_place().to_string());
                drop(state);
                plainly()
            }
            Outcome::Resume(resume) => self.resume(&node, *resume, inputs, &lie, arguments, origin),
        }
    }

    /// Makes a capture for a symbolic size by the runs with others, if they have a template.
    fn derive(
        &self,
        key: &Key,
        inputs: &[Tensor],
        lie: &[Place],
        arguments: &Arguments,
    ) -> Option<Arc<Node>> {
        let (size, key_of_all) = arguments.size(inputs, key)?;
        let templates = self.lock().templates.of(&key_of_all, size, self.sizes.as_ref());
        templates.into_iter().find_map(|template| {
            let made = template.capture(&self.machine, size, inputs, lie);
            let mut state = self.lock();
            let (node, ended) = match made {
                Ok(Some(node)) => {
                    state.report.derived += 1;
                    let ended = state.insert(key.clone(), Ok(node.clone()), false);
                    (Some(node), ended)
                }
                Ok(None) => (None, Vec::new()),
                Err(error) => {
                    let reason = state.templates.refuse(&template, size, &error);
                    reason.into_iter().for_each(|reason| state.report.count(reason));
                    (None, Vec::new())
                }
            };
            drop(state);
            drop(ended);
            node
        })
    }

    /// Returns whether captures are given up, and counts the call if they are.
    fn is_given_up(&self) -> bool {
        let mut state = self.lock();
        let is_off = state.report.switched_off.is_some();
        state.report.plain += u64::from(is_off);
        is_off
    }

    /// Counts a replay. Returns whether the function is to run beside it.
    fn is_verified_now(&self) -> bool {
        if self.verify_every == 0 {
            return false;
        }
        let mut state = self.lock();
        state.verifiable += 1;
        state.verifiable.is_multiple_of(self.verify_every)
    }

    /// Runs the function for a tape that exists outside of it, which notes the calls.
    ///
    /// # Errors
    /// The function is strict.
    fn run_on_a_tape(
        &self,
        plainly: impl FnOnce() -> Result<Vec<Tensor>>,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        let reason = "a tape outside of the function notes its calls, and replays make none; begin \
                      the tape within the function";
        let message = reason.to_owned();
        let refused = Error::Invalid { what: "traced function", message }.at(origin);
        if self.is_strict {
            return Err(refused);
        }
        let mut state = self.lock();
        state.report.plain += 1;
        state.report.count(format!("not captured: {refused}"));
        drop(state);
        plainly()
    }

    /// Runs the function, and makes a capture of it for its key.
    fn capture(
        &self,
        key: Key,
        inputs: &[Tensor],
        lie: &[Place],
        arguments: &Arguments,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        self.lock().count_difference(&key);
        let session = Session::new(&self.machine, inputs, lie, arguments, Vec::new(), None);
        let session = session.map_err(|e| e.at(origin))?;
        let (results, session) = session.run(|| (self.function)(inputs, &arguments.attrs));
        // A run that fails is not a function's usual one.
        let results = results?;
        let node = match session {
            Some(mut session) => session.results(&results).map(|names| {
                let run = Run::of(&mut session, lie, names);
                let make = || Node::of(&self.machine, &run, Vec::new(), lie);
                let made = with_origin(origin, make).map_err(|error| (error.at(origin), false))?;
                Ok((made, run))
            }),
            None => Err(Refusal::nested(origin)),
        };
        let node = node.unwrap_or_else(|refusal| {
            let may_pass = refusal.may_pass;
            Err((refusal.error().at(origin), may_pass))
        });
        let (node, run, may_pass) = match node {
            Ok((node, run)) => (Ok(node), Some(run), false),
            Err((error, may_pass)) => (Err(error), None, may_pass),
        };
        let error = node.as_ref().err().cloned();
        let sample = run.and_then(|run| {
            let (size, key) = arguments.size(inputs, &key)?;
            let node = node.as_ref().ok()?.clone();
            Some((key, Sample { size, inputs: lie.to_vec(), run, node }))
        });
        let ended = {
            let mut state = self.lock();
            match &error {
                None => {
                    state.report.captures += 1;
                    state.count_run(self.is_strict);
                }
                Some(error) => {
                    state.report.plain += 1;
                    state.report.count(format!("not captured: {error}"));
                }
            }
            if let Some((key, sample)) = sample {
                let most = state.limits.entries;
                let reason = state.templates.add(key, sample, most);
                reason.into_iter().for_each(|reason| state.report.count(reason));
            }
            state.insert(key, node, may_pass)
        };
        drop(ended);
        match error {
            Some(error) if self.is_strict => Err(error),
            _ => Ok(results),
        }
    }

    /// Runs the function beside a replay that has left its capture, or is verified.
    fn resume(
        &self,
        node: &Arc<Node>,
        Resume { prefix, outside, end }: Resume,
        inputs: &[Tensor],
        lie: &[Place],
        arguments: &Arguments,
        origin: &Origin,
    ) -> Result<Vec<Tensor>> {
        let session = Session::new(&self.machine, inputs, lie, arguments, outside, Some(prefix));
        let session = session.map_err(|e| e.at(origin))?;
        let (results, session) = session.run(|| {
            let results = (self.function)(inputs, &arguments.attrs)?;
            end_repetition(origin).map(|()| results)
        });
        let mut session = session.ok_or_else(|| Refusal::nested(origin).error())?;
        let results = results?;
        session.check_alive(origin)?;
        let refused = |refusal: Refusal| refusal.error().at(origin);
        let Some(end) = end else {
            let names = session.results(&results).map_err(refused);
            let mut state = self.lock();
            state.report.resumptions += 1;
            state.count_run(self.is_strict);
            // The rest could not be captured either.
            let ended = if names.is_ok() { state.count_left(node) } else { None };
            drop(state);
            drop(ended);
            return if self.is_strict { names.map(|_| results) } else { Ok(results) };
        };
        let (values, left) = session.results(&results).map_err(refused)?;
        let owned = |left: &[Left]| -> Vec<_> {
            left.iter().map(|left| (left.owner.clone(), left.returned.clone())).collect()
        };
        let is_equal = matches!(&end.then, Then::Return(returned, known)
            if *returned == values && owned(known) == owned(&left));
        if !is_equal {
            let message = "with equal inputs and reads it returned other tensors, or set other \
                           gradients, than it does now"
                .to_owned();
            return Err(Error::Invalid { what: "traced function", message }.at(origin));
        }
        self.lock().report.verified += 1;
        Ok(results)
    }
}

enum Found {
    /// Captures for the key, which differ in the gradients that they find.
    Captures(SmallVec<[Arc<Node>; 1]>),
    Never(Error),
    Nothing,
}

impl State {
    /// Returns what is known of a key, and makes it the one used last.
    fn find(&mut self, key: &Key) -> Found {
        let Some(at) = self.entries.iter().rposition(|entry| entry.key == *key) else {
            return Found::Nothing;
        };
        self.entries[at..].rotate_left(1);
        let of_key = || self.entries.iter().rev().filter(|entry| entry.key == *key);
        let refused = of_key().filter(|entry| !entry.may_pass).find_map(|e| e.node.as_ref().err());
        match refused {
            Some(error) => Found::Never(error.clone()),
            None => Found::Captures(of_key().filter_map(|entry| entry.node.clone().ok()).collect()),
        }
    }

    /// Counts how a key differs from that of the last call, if there was one.
    fn count_difference(&mut self, key: &Key) {
        if let Some(last) = self.entries.last() {
            let reason = key.difference(&last.key);
            self.report.count(format!("captured again: {reason}"));
        }
    }

    /// Adds an entry. Returns the entries that are given up for it.
    fn insert(&mut self, key: Key, node: Result<Arc<Node>>, may_pass: bool) -> Vec<Entry> {
        let refused = |known: &Entry| known.key == key && known.node.is_err();
        let was_refused = self.entries.iter().any(refused);
        self.entries.retain(|known| !refused(known));
        let may_pass = may_pass && !was_refused;
        self.entries.push(Entry { key, node, may_pass, left: 0 });
        self.shrink()
    }

    /// Gives up entries until the limits hold.
    fn shrink(&mut self) -> Vec<Entry> {
        let mut ended = Vec::new();
        while self.entries.len() > self.limits.entries.max(1)
            || (self.entries.len() > 1 && self.bytes() > self.limits.bytes)
        {
            let entry = self.entries.remove(0);
            self.report.evictions += u64::from(entry.node.is_ok());
            ended.push(entry);
        }
        ended
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().filter_map(|e| e.node.as_ref().ok()).map(|node| node.bytes()).sum()
    }

    /// Counts a call that was captured or resumed.
    fn count_run(&mut self, is_strict: bool) {
        if !is_strict {
            let why = "of the last calls far more were captured or resumed than replayed";
            self.count_loss(LOSS_OF_A_RUN, why);
        }
    }

    /// Counts a replay.
    fn count_replay(&mut self, node: &Arc<Node>, is_strict: bool) {
        self.report.replays += 1;
        if let Some(entry) = self.entry(node) {
            entry.left = 0;
        }
        if !node.is_loss() {
            self.loss = self.loss.saturating_sub(1);
        } else if !is_strict {
            self.count_loss(1, "replays cost more than the few calls that they stand for");
        }
    }

    /// Counts a replay that has left its capture. Returns the entry if it is given up for that.
    fn count_left(&mut self, node: &Arc<Node>) -> Option<Entry> {
        let entry = self.entry(node)?;
        entry.left += 1;
        if entry.left < MAX_LEFT {
            return None;
        }
        let at = self.entries.iter().position(|entry| entry.is_of(node))?;
        Some(self.entries.remove(at))
    }

    fn entry(&mut self, node: &Arc<Node>) -> Option<&mut Entry> {
        self.entries.iter_mut().rev().find(|entry| entry.is_of(node))
    }

    /// Adds to the loss. Gives captures up if it is too large.
    fn count_loss(&mut self, loss: i32, why: &str) {
        self.loss = self.loss.saturating_add_signed(loss);
        if self.loss >= MAX_LOSS {
            let often = self.report.reasons.iter().max_by_key(|(_, count)| **count);
            let often = often.map_or(String::new(), |(reason, _)| format!("; mostly {reason}"));
            let message = format!("{why}{often}. `clear` switches it on again");
            self.report.switched_off = Some(message);
        }
    }
}

impl Entry {
    fn is_of(&self, node: &Arc<Node>) -> bool {
        self.node.as_ref().is_ok_and(|own| Arc::ptr_eq(own, node))
    }
}

impl<'a> TracedCall<'a> {
    /// Sets a number that a replay gives its calls anew: a change of it is no new capture.
    ///
    /// The function gets it by [`Number::of`](crate::Number::of), and passes it to patchable
    /// arguments of calls, such as `alpha`. While it is captured the function does not see the
    /// number, so it cannot compute with it: give as many numbers as the calls need.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// # let gradient = w.ones_like()?;
    /// let step = machine.traced(|inputs, arguments| {
    ///     let scaled = options::Add::default().alpha(Number::of(arguments, "minus_lr")?);
    ///     inputs[0].add_with_(&inputs[1], scaled)?;
    ///     Ok(vec![])
    /// });
    /// for lr in [0.5, 0.25, 0.125] {
    ///     step.call(&[&w, &gradient]).scalar("minus_lr", -lr).run()?;
    /// }
    /// assert_eq!(w.to_vec::<f32>()?, [1.125, 2.125]);
    /// assert_eq!((step.report().captures, step.report().replays), (1, 2));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn scalar(mut self, name: impl Into<Cow<'static, str>>, value: f64) -> TracedCall<'a> {
        self.scalars.insert(name.into(), value);
        self
    }

    /// Marks the size of dimension `dim` of an input as symbolic: it changes from call to call, and
    /// captures for new sizes are made from those of others, without running the function.
    ///
    /// All marked sizes of a call follow from the first one. Runs with three sizes have to make the
    /// same calls, on lengths, strides, offsets and integer arguments that are linear functions of
    /// the size. Then sizes between the smallest and the largest of a run, and those of
    /// [`Traced::sizes`], run the function no more. Where runs differ, each size has a capture of
    /// its own, and [`Traced::report`] names the call.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].matmul(&inputs[1])?.relu()?]));
    /// for size in [1, 9, 4, 5, 6, 7, 8] {
    ///     let x = Tensor::ones((2, size), DType::F32, &machine)?;
    ///     let y = f.call(&[&x, &x.t()?]).dim(0, 1).dim(1, 0).run()?;
    ///     assert_eq!(y[0].to_vec::<f32>()?, [size as f32; 4]);
    /// }
    /// assert_eq!((f.report().captures, f.report().derived), (3, 4));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn dim(mut self, input: usize, dim: usize) -> TracedCall<'a> {
        self.dims.push((input, dim));
        self
    }

    /// Sets a named argument.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let f = machine.traced(|inputs, arguments| {
    ///     inputs[0].machine().call("mul", &[&inputs[0]]).attrs(arguments.clone()).run()
    /// });
    /// let y = f.call(&[&x]).attr("other", 2.0).run()?;
    /// assert_eq!(y[0].to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn attr(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<AttrValue>,
    ) -> TracedCall<'a> {
        self.attrs.set(name, value);
        self
    }

    /// Sets all named arguments.
    pub fn attrs(mut self, attrs: Attrs) -> TracedCall<'a> {
        self.attrs = attrs;
        self
    }

    /// Makes the call. Blocks only where the function reads.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?]));
    /// let results = f.call(&[&x]).run()?;
    /// assert_eq!(results.len(), 1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of the function, or of a launch; the function does something else than before; or the
    /// function is strict, and cannot be captured.
    pub fn run(self) -> Result<Vec<Tensor>> {
        let inputs = self.inputs.iter().map(|tensor| (*tensor).clone());
        let inputs: SmallVec<[Tensor; 4]> = inputs.collect();
        for &(input, dim) in &self.dims {
            let rank = inputs.get(input).map(|tensor| tensor.spec().layout.rank());
            if rank.is_none_or(|rank| dim >= rank) {
                let message = match rank {
                    Some(rank) => format!("dimension {dim} of input {input}, which has {rank}"),
                    None => format!("a dimension of input {input} of {}", inputs.len()),
                };
                return Err(Error::Invalid { what: "symbolic size", message }.at(&self.origin));
            }
            if let Some(held) = inputs[input].global() {
                let error = held.unsupported(inputs[input].spec());
                return Err(error.at(&self.origin));
            }
        }
        let arguments = Arguments::new(self.attrs, self.scalars, self.dims);
        self.traced.run(&inputs, &arguments, &self.origin)
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traced").field(&self.report()).finish()
    }
}
