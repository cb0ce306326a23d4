//! Batches: many calls in one critical section.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::TensorRef;
use millstream_runtime::engine::Engine;
use millstream_runtime::engine::guard::EngineGuard;
use millstream_runtime::scope::cancel;
use millstream_runtime::scope::origin;
use millstream_runtime::scope::reentrancy::{self, BatchGuard};
use millstream_types::{Error, Origin, Result};

use crate::handle::machine::Machine;
use crate::handle::prepared::{Prepared, TensorHandle};
use crate::handle::request::{self, RawOperand, Request, Verb};
use crate::handle::{Stream, Tensor};

/// How many calls are made before other threads get the lock.
const CALLS_PER_ENTRY: u64 = 64;

/// Up to so many operands lie on the stack.
const INLINE_OPERANDS: usize = 4;

/// Calls in close succession. See [`Machine::batch`].
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::Attrs;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let s = machine.current_stream()?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let double = machine.prepare("mul_", &[&x], Attrs::new().with("other", 2.0))?;
/// let mut batch = machine.batch();
/// batch.call(&double, &s)?;
/// batch.call(&double, &s)?;
/// drop(batch);
/// assert_eq!(x.to_vec::<f32>()?, [4.0, 8.0, 12.0, 16.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "a batch does nothing before its first call"]
pub struct Batch<'a> {
    machine: &'a Machine,
    entry: Option<Entry<'a>>,
}

/// One entry into the critical section.
struct Entry<'a> {
    engine: EngineGuard<'a>,
    _guard: BatchGuard,
    left: u64,
}

impl Machine {
    /// Begins a batch of calls. The calls share the cost of entering the machine: use a batch where
    /// a thread makes many calls in a row. Each call is given to its worker at once; none waits for
    /// the end of the batch.
    ///
    /// ```
    /// use millstream_types::{Attrs, DType, DeviceId, TensorSpec};
    /// use millstream_vm::{Machine, MachineConfig, Tensor};
    ///
    /// # fn main() -> millstream_types::Result<()> {
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    /// let spec = TensorSpec::contiguous(DType::F32, &[1])?;
    /// let one = || machine.upload(&stream, spec.clone(), 1f32.to_ne_bytes().into());
    /// let (x, y) = (one()?, one()?);
    /// // The schema is checked once, and the operands are looked up.
    /// let add = machine.prepare("add_", &[&x, &y], Attrs::new())?;
    /// let (a, b) = (x.handle(), y.handle());
    /// let mut batch = machine.batch();
    /// for _ in 0..10 {
    ///     batch.call_with(&add, &[a, b], &stream)?; // x += y
    ///     batch.call_with(&add, &[b, a], &stream)?; // y += x
    /// }
    /// drop(batch);
    /// assert_eq!(x.read()?, 10946f32.to_ne_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Other submitting threads wait for a few dozen calls, or until the batch ends. This thread
    /// would wait for itself: every other request to the machine before the batch ends, except
    /// dropping handles, gets [`Error::InBatch`]. So drop a batch after its last call.
    #[track_caller]
    pub fn batch(&self) -> Batch<'_> {
        let origin = origin::caller();
        let begin = Request::new(Verb::Batch { machine: self }, &origin);
        // No layer refuses it: they refuse calls.
        let _ = request::submit(begin, |_| Ok(Some(())));
        Batch { machine: self, entry: None }
    }
}

impl Batch<'_> {
    /// Makes a call on a stream, on the operands that it was prepared with.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Attrs;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let negate = machine.prepare("neg_", &[&x], Attrs::new())?;
    /// let mut batch = machine.batch();
    /// batch.call(&negate, &s)?;
    /// drop(batch); // the batch holds the machine
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, -2.0, -3.0, -4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor was released by hand or is held, or the call or the stream is another machine's; or
    /// this thread has a [tape](crate::Tape), and an operand depends on a tensor with a gradient.
    #[track_caller]
    pub fn call(&mut self, call: &Prepared, stream: &Stream) -> Result<()> {
        let origin = Origin::caller();
        let (_, tensors) = call.parts();
        let operand = |k: usize| {
            let tensor = &call.operands()[k];
            (tensors[k], Some(tensor), tensor.address())
        };
        self.pass_layers(call, tensors.len(), operand, &origin)?;
        self.make(call, tensors, stream, &origin).map_err(|e| e.at(&origin))
    }

    /// Makes a call on a stream, on operands like the prepared ones: of equal dtypes, shapes and
    /// layouts.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Attrs;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let negate = machine.prepare("neg_", &[&x], Attrs::new())?;
    /// let y = x.mul(10.0)?; // of the same shape and dtype
    /// let mut batch = machine.batch();
    /// batch.call_with(&negate, &[y.handle()], &s)?;
    /// drop(batch);
    /// assert_eq!(y.to_vec::<f32>()?, [-10.0, -20.0, -30.0, -40.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor differs from the prepared one, was released or is held; or an argument is another
    /// machine's; or this thread has a [tape](crate::Tape) and is not within
    /// [`no_grad`](crate::no_grad), since handles do not tell whether their tensors depend on one
    /// with a gradient.
    #[track_caller]
    pub fn call_with(
        &mut self,
        call: &Prepared,
        operands: &[TensorHandle],
        stream: &Stream,
    ) -> Result<()> {
        let origin = Origin::caller();
        let machine = self.machine.shared.tables.machine;
        let operand = |k: usize| (operands[k].tensor, None, operands[k].address);
        self.pass_layers(call, operands.len(), operand, &origin)?;
        let made = if operands.iter().any(|operand| operand.machine != machine) {
            Err(Error::Foreign { what: "an operand".to_owned() })
        } else if let Some(first) = operands.first().filter(|_| operands.len() <= INLINE_OPERANDS) {
            let mut tensors = [first.tensor; INLINE_OPERANDS];
            for (tensor, operand) in tensors.iter_mut().zip(operands) {
                *tensor = operand.tensor;
            }
            self.make(call, &tensors[..operands.len()], stream, &origin)
        } else {
            let tensors: Vec<TensorRef> = operands.iter().map(|operand| operand.tensor).collect();
            self.make(call, &tensors, stream, &origin)
        };
        made.map_err(|e| e.at(&origin))
    }

    /// Lets the layers of this thread note a call, or refuse it.
    #[inline(always)]
    fn pass_layers<'t>(
        &self,
        call: &'t Prepared,
        count: usize,
        operand: impl Fn(usize) -> (TensorRef, Option<&'t Tensor>, usize),
        origin: &Origin,
    ) -> Result<()> {
        let storage = |tensor: TensorRef| match &self.entry {
            Some(entry) => entry.engine.builder.storage_number(tensor).ok(),
            None => self.machine.shared.lock().ok()?.builder.storage_number(tensor).ok(),
        };
        let operands = || {
            let operands = call.parts().0.accesses().take(count).enumerate();
            let operands = operands.map(|(k, access)| {
                let (reference, tensor, address) = operand(k);
                let storage = storage(reference);
                RawOperand { tensor, address, storage, is_written: access.writes() }
            });
            operands.collect()
        };
        let verb = Verb::Prepared { machine: self.machine, in_batch: true, operands: &operands };
        request::submit(Request::new(verb, origin), |_| Ok(Some(()))).map(drop)
    }

    #[inline(always)]
    fn make(
        &mut self,
        call: &Prepared,
        tensors: &[TensorRef],
        stream: &Stream,
        origin: &Origin,
    ) -> Result<()> {
        let shared = &self.machine.shared;
        if !Arc::ptr_eq(&stream.machine.shared, shared) {
            return Err(Error::Foreign { what: "the stream".to_owned() });
        }
        if !Arc::ptr_eq(&call.machine().shared, shared) {
            return Err(Error::Foreign { what: "the call".to_owned() });
        }
        let stays = |entry: &Entry<'_>| {
            entry.left > 0 && cancel::is_current(entry.engine.router.cancel_scope.as_ref())
        };
        if !self.entry.as_ref().is_some_and(stays) {
            self.begin_entry()?;
        }
        let Some(entry) = &mut self.entry else { return Ok(()) };
        entry.left -= 1;
        entry.engine.between_calls = false;
        let made = entry.engine.open(stream.id).and_then(|()| {
            let Engine { builder, router, .. } = &mut *entry.engine;
            let (call, _) = call.parts();
            builder.call_prepared(router, stream.id, call, tensors, origin)
        });
        entry.engine.between_calls = true;
        made.map(drop)
    }

    fn begin_entry(&mut self) -> Result<()> {
        self.end_entry();
        let shared = &self.machine.shared;
        let engine = shared.enter()?;
        let _guard = reentrancy::enter_batch(shared.tables.machine);
        // At most as many as may be pending.
        let left = shared.watermark.min(CALLS_PER_ENTRY);
        self.entry = Some(Entry { engine, _guard, left });
        Ok(())
    }

    fn end_entry(&mut self) {
        let Some(Entry { engine, _guard, .. }) = self.entry.take() else { return };
        self.machine.shared.leave(engine);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.end_entry();
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("machine", self.machine).finish_non_exhaustive()
    }
}
