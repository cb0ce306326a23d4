//! Tapes, and the innermost one of a thread.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_ops::{CallSpec, OutputSpec, Signature, args, boxing, derivative};
use millstream_runtime::sync::thread_local;
use millstream_types::{DType, Error, Origin, Result, TensorSpec};

use crate::handle::Tensor;
use crate::handle::machine::Machine;
use crate::handle::request::{self, OpCall, Rank, RawOperand};

use super::buckets;
use super::layer::Gradients;
use super::node::{Node, Source};
use super::notes::{Effects, Notes};

/// The notes of a tape, shared by the tape and its thread.
pub(super) type SharedNotes = Rc<RefCell<Notes>>;

thread_local! {
    /// The tapes of this thread, the innermost last, with the numbers of their machines.
    static TAPES: RefCell<Vec<(u64, SharedNotes)>> = const { RefCell::new(Vec::new()) };
}

thread_local! {
    /// How many scopes without gradients this thread is in.
    static PAUSED: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work` without notes of what its results depend on. Writes are still noted.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
/// let y = no_grad(|| w.mul(2.0))?;
/// assert!(!y.requires_grad());
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub fn no_grad<T>(work: impl FnOnce() -> T) -> T {
    struct Resume;
    impl Drop for Resume {
        fn drop(&mut self) {
            PAUSED.with(|paused| paused.set(paused.get() - 1));
        }
    }
    PAUSED.with(|paused| paused.set(paused.get() + 1));
    let _resume = Resume;
    work()
}

/// Runs `work` with notes, within [`no_grad`] as well.
pub(super) fn with_grad<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            PAUSED.with(|paused| paused.set(self.0));
        }
    }
    let _restore = Restore(PAUSED.with(|paused| paused.replace(0)));
    work()
}

pub(super) fn is_paused() -> bool {
    PAUSED.with(Cell::get) > 0
}

/// The notes of calls on a thread, from which gradients are computed. While it exists, it is the
/// tape of its thread and machine; tapes nest, and the innermost takes the notes.
///
/// Prepared calls, also those of batches, launches of executables, results that are written to
/// given tensors ([`CallBuilder::out`](crate::CallBuilder::out)) and [`Tensor::copy_into`] are not
/// noted. Those whose operands depend on a tensor with a gradient are refused, except within
/// [`no_grad`].
///
/// ```
/// # fn main() -> millstream_types::Result<()> {
/// use millstream_vm::{Machine, MachineConfig, Tensor};
///
/// let machine = Machine::new(MachineConfig::default())?;
/// let w = Tensor::from_slice(&[3.0f32], 1, &machine)?.with_grad()?;
/// let tape = machine.tape();
/// let loss = (&w * &w)?.sum(..)?;
/// tape.backward(&loss)?;
/// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [6.0]);
/// # Ok(())
/// # }
/// ```
pub struct Tape {
    pub(super) machine: Machine,
    pub(super) notes: SharedNotes,
    /// The bytes of gradients that the ranks of a mesh reduce together.
    pub(super) bucket_bytes: Cell<usize>,
    /// A tape belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Machine {
    /// Begins a tape: until it is dropped, this thread's calls that depend on a tensor
    /// [with a gradient](Tensor::with_grad) are noted.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// let tape = machine.tape();
    /// let loss = (&w * &w)?.sum(..)?; // noted
    /// tape.backward(&loss)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn tape(&self) -> Tape {
        let notes = SharedNotes::default();
        let number = self.shared.tables.machine;
        TAPES.with(|tapes| tapes.borrow_mut().push((number, notes.clone())));
        request::install(Rank::Gradient, Some(&Gradients));
        let bucket_bytes = Cell::new(buckets::USUAL_BYTES);
        Tape { machine: self.clone(), notes, bucket_bytes, _thread: PhantomData }
    }
}

impl Tape {
    /// Sets how many bytes of gradients of global tensors the ranks reduce by one collective; 25
    /// MiB by default. A smaller bucket is reduced earlier in a backward pass, a larger one takes
    /// fewer messages.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let tape = machine.tape();
    /// tape.bucket(1 << 20);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn bucket(&self, bytes: usize) {
        self.bucket_bytes.set(bytes);
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        // The notes hold tensors, whose ends are not this function's to interleave with a borrow.
        let ended = TAPES.with(|tapes| {
            let mut tapes = tapes.borrow_mut();
            let at = tapes.iter().rposition(|(_, notes)| Rc::ptr_eq(notes, &self.notes));
            let ended = at.map(|at| tapes.remove(at));
            if tapes.is_empty() {
                request::install(Rank::Gradient, None);
            }
            ended
        });
        drop(ended);
    }
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.notes.try_borrow().map_or(0, |notes| notes.nodes.len());
        write!(f, "Tape({nodes} notes)")
    }
}

/// Returns the innermost tape of this thread and machine.
#[inline]
fn innermost(machine: &Machine) -> Option<SharedNotes> {
    let number = machine.shared.tables.machine;
    TAPES.with(|tapes| {
        let tapes = tapes.borrow();
        tapes.iter().rev().find(|(of, _)| *of == number).map(|(_, notes)| notes.clone())
    })
}

/// Returns whether the thread's innermost tape would note a call of this tensor.
pub(super) fn is_noted(tensor: &Tensor) -> bool {
    let notes = || innermost(tensor.machine());
    !is_paused() && notes().is_some_and(|notes| notes.borrow_mut().value(tensor).is_some())
}

/// A call that a tape notes.
pub(super) struct TapedCall {
    notes: SharedNotes,
    node: Option<Node>,
    effects: Effects,
}

/// Begins the note of a call, if the thread has a tape.
///
/// # Errors
/// The call changes a leaf in place, or would lose a gradient.
pub(super) fn begin_call(call: &OpCall<'_>, origin: &Origin) -> Result<Option<TapedCall>> {
    let OpCall { machine, name, inputs, out, .. } = *call;
    let Some(notes) = innermost(machine) else { return Ok(None) };
    let attrs = &Arc::new(call.attrs.clone());
    let tables = &machine.shared.tables;
    let op = tables.ops.id(name)?;
    let Some(op) = tables.ops.get(op) else { return Ok(None) };
    let specs: SmallVec<[TensorSpec; 4]> = inputs.iter().map(|t| t.spec().clone()).collect();
    // The call itself returns the error of a refusal.
    let spec = CallSpec { inputs: &specs, attrs };
    let Ok(signature) = op.check(spec) else { return Ok(None) };
    let accesses = signature.accesses.iter().enumerate();
    let written: Vec<usize> = accesses.filter(|(_, a)| a.writes()).map(|(k, _)| k).collect();
    let views = signature.outputs.iter().map(|output| match output {
        OutputSpec::View { of, .. } => Some(*of),
        OutputSpec::Fresh(_) | OutputSpec::Same(_) | OutputSpec::Bounded(_) => None,
    });
    let effects = Effects { written, views: views.collect() };
    let mut borrowed = notes.borrow_mut();
    let depends = !is_paused() && name != "detach";
    if let Some(out) = out {
        let mut operands = inputs.iter().chain(out);
        if depends && let Some(tensor) = operands.find(|tensor| borrowed.depends(tensor)) {
            let message = format!(
                "no tape notes results that are written to given tensors, and {} depends on a \
                 tensor with a gradient, which would be lost; let the call make new tensors, or \
                 make it within `no_grad`",
                tensor.spec().brief()
            );
            return Err(Error::Op { op: name.to_owned(), message });
        }
        for target in out {
            borrowed.write(target, name, origin);
        }
        return Ok(None);
    }
    if depends && effects.written.iter().any(|&k| borrowed.is_of_leaf(inputs[k])) {
        let message = "it would change a tensor with a gradient in place, whose gradient would \
                       then be of no value that it has; make the call within `no_grad`, or on a \
                       copy"
            .to_owned();
        return Err(Error::Op { op: name.to_owned(), message });
    }
    let places: SmallVec<[Option<usize>; 8]> = match op.optional() {
        Some(_) => args::input_positions(attrs, op.inputs().len(), inputs.len())?,
        None => (0..inputs.len()).map(Some).collect(),
    };
    let listed: Vec<Option<&Tensor>> =
        places.iter().map(|place| place.map(|at| inputs[at])).collect();
    let any = depends && listed.iter().flatten().any(|tensor| borrowed.value(tensor).is_some());
    if !any {
        drop(borrowed);
        return Ok(Some(TapedCall { notes, node: None, effects }));
    }
    let base = name.strip_suffix('_').unwrap_or(name);
    let is_complex = specs.iter().any(|x| x.dtype.is_complex())
        || fresh_or_viewed(&signature).any(DType::is_complex);
    let rule = derivative::rule(name).or_else(|| derivative::rule(base));
    let rule = rule.filter(|rule| !is_complex || rule.takes_complex());
    let source = rule.map_or(Source::Unknown, Source::Rule);
    let mut node = borrowed.begin(source, name, attrs, &listed, origin);
    drop(borrowed);
    // What a formula needs of a tensor that the call itself changes is copied before, as in
    // PyTorch.
    for (k, tensor) in listed.iter().enumerate() {
        let is_written = effects.written.iter().any(|&w| places[k] == Some(w));
        if let Some(tensor) = tensor.filter(|_| is_written && node.kept_inputs[k].is_some()) {
            let copy = no_grad(|| machine.call("copy", &[tensor]).origin(origin.clone()));
            let stream = crate::handle::stream_of(tensor)?;
            let copy = no_grad(|| copy.on(&stream))?.swap_remove(0);
            let value = node.inputs[k];
            node.kept_inputs[k] = Some(notes.borrow_mut().keep_copy(&copy, value));
        }
    }
    Ok(Some(TapedCall { notes, node: Some(node), effects }))
}

/// Returns the dtypes of new tensors, and of views that have another dtype.
fn fresh_or_viewed(signature: &Signature) -> impl Iterator<Item = DType> + '_ {
    signature.outputs.iter().filter_map(|output| match output {
        OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => Some(spec.dtype),
        OutputSpec::View { dtype, .. } => *dtype,
        OutputSpec::Same(_) => None,
    })
}

impl TapedCall {
    /// Ends the note of a call.
    pub(super) fn end(self, name: &str, inputs: &[&Tensor], results: &[Tensor], origin: &Origin) {
        let TapedCall { notes, node, effects } = self;
        notes.borrow_mut().end(node, inputs, results, &effects, name, origin);
    }
}

/// Notes that a host function or a copy writes a tensor.
pub(super) fn note_write(tensor: &Tensor, what: &str, origin: &Origin) {
    if let Some(notes) = innermost(tensor.machine()) {
        notes.borrow_mut().write(tensor, what, origin);
    }
}

/// Refuses calls that no tape notes, if they would lose a gradient, and notes the writes of the
/// others. `kind` says how the call is made.
///
/// # Errors
/// An operand depends on a leaf.
pub(super) fn check_unnoted(
    machine: &Machine,
    kind: &str,
    operands: &[RawOperand<'_>],
    origin: &Origin,
) -> Result<()> {
    let Some(notes) = innermost(machine) else { return Ok(()) };
    let mut notes = notes.borrow_mut();
    for operand in operands.iter().filter(|_| !is_paused()) {
        let reason = match operand.tensor {
            Some(tensor) if notes.depends(tensor) => {
                format!("{} depends on a tensor with a gradient", tensor.spec().brief())
            }
            Some(_) => continue,
            None => {
                "a handle does not tell whether its tensor depends on one with a gradient".into()
            }
        };
        let message = format!(
            "{kind} is not noted by the tape of this thread, and {reason}, whose gradient would be \
             wrong; make the calls by `Machine::call` or methods, or within `no_grad` if their \
             results are constants"
        );
        return Err(Error::Invalid { what: "gradient", message });
    }
    for RawOperand { address, storage, .. } in operands.iter().filter(|operand| operand.is_written)
    {
        notes.write_at(*address, *storage, kind, origin);
    }
    Ok(())
}

/// Notes a view that no op has made, and that has no derivative.
pub(super) fn note_view(of: &Tensor, view: &Tensor, origin: &Origin) {
    let Some(notes) = innermost(of.machine()) else { return };
    let mut notes = notes.borrow_mut();
    let depends = !is_paused() && view.dtype().is_inexact() && notes.value(of).is_some();
    let op = "Tensor::view_storage";
    let attrs = Arc::default();
    let node = depends.then(|| notes.begin(Source::Unknown, op, &attrs, &[Some(of)], origin));
    let effects = Effects { written: Vec::new(), views: vec![Some(0)] };
    notes.end(node, &[of], std::slice::from_ref(view), &effects, op, origin);
}

/// Notes a copy to another stream's memory as one call.
pub(super) fn note_copy(of: &Tensor, copied: &Tensor, origin: &Origin) {
    let Some(notes) = innermost(of.machine()) else { return };
    let mut notes = notes.borrow_mut();
    if !is_paused() && notes.value(of).is_some() {
        let attrs = Arc::default();
        let source = match of.global() {
            None => Source::Copy(of.device().clone()),
            // Each part of a sum has the gradient of the sum.
            Some(global) => match boxing::reduced(&global.sharding) {
                Ok(held) => Source::Redistribution(Arc::new(held)),
                Err(_) => Source::Unknown,
            },
        };
        let node = notes.begin(source, "a copy", &attrs, &[Some(of)], origin);
        let effects = Effects { written: Vec::new(), views: vec![None] };
        notes.end(Some(node), &[of], std::slice::from_ref(copied), &effects, "a copy", origin);
    }
}

/// Refuses a copy into a tensor that would lose a gradient.
///
/// # Errors
/// One of them depends on a leaf.
pub(super) fn check_copy(of: &Tensor, target: &Tensor) -> Result<()> {
    let Some(notes) = innermost(of.machine()).filter(|_| !is_paused()) else { return Ok(()) };
    let notes = notes.borrow();
    let Some(tensor) = [of, target].into_iter().find(|tensor| notes.depends(tensor)) else {
        return Ok(());
    };
    let message = format!(
        "no tape notes a copy into a tensor, and {} depends on a tensor with a gradient, which \
         would be lost; use `copy_`, or copy within `no_grad`",
        tensor.spec().brief()
    );
    Err(Error::Invalid { what: "gradient", message })
}
