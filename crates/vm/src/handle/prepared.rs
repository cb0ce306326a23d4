//! Prepared calls: their schema is checked once, and they are made many times.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::builder::PreparedCall;
use millstream_instructions::{Outcome, Sink, TensorRef};
use millstream_runtime::engine::{Engine, Release};
use millstream_runtime::scope::origin;
use millstream_types::{Attrs, Error, Result};

use crate::handle::machine::{CallBuilder, Machine};
use crate::handle::request::{self, RawOperand, Request, Verb};
use crate::handle::{Stream, Tensor};

struct PreparedInner {
    machine: Machine,
    call: PreparedCall,
    refs: SmallVec<[TensorRef; 4]>,
    /// The operands live as long as the call can be made.
    operands: Vec<Tensor>,
}

impl Drop for PreparedInner {
    fn drop(&mut self) {
        if let Some(number) = self.call.number {
            self.machine.shared.release(Release::Call(number));
        }
    }
}

/// A call whose schema was checked: for the operands that it was prepared with, and for all
/// operands of equal dtypes, shapes and layouts. Making it costs only its ordering. Clones are the
/// same call.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::Attrs;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let s = machine.current_stream()?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let double = machine.prepare("mul_", &[&x], Attrs::new().with("other", 2.0))?;
/// for _ in 0..3 {
///     double.on(&s)?; // checked once, above
/// }
/// assert_eq!(x.to_vec::<f32>()?, [8.0, 16.0, 24.0, 32.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Prepared(Arc<PreparedInner>);

/// A tensor, looked up once. It does not keep the tensor alive: using it after the tensor was
/// released is an error.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::Attrs;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let s = machine.current_stream()?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let negate = machine.prepare("neg_", &[&x], Attrs::new())?;
/// let handle = x.handle();
/// machine.batch().call_with(&negate, &[handle], &s)?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorHandle {
    pub(crate) tensor: TensorRef,
    /// That of the tensor's own handle, by which tapes know it.
    pub(crate) address: usize,
    pub(crate) machine: u64,
}

impl Tensor {
    /// Returns the tensor, looked up, for prepared calls.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let handle: TensorHandle = x.handle();
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn handle(&self) -> TensorHandle {
        let machine = self.machine().shared.tables.machine;
        TensorHandle { tensor: self.tensor_ref(), address: self.address(), machine }
    }
}

impl Machine {
    /// Prepares a call of an op that changes tensors in place and makes none.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Attrs;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let negate = machine.prepare("neg_", &[&x], Attrs::new())?;
    /// negate.on(&s)?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, -2.0, -3.0, -4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or makes tensors.
    #[track_caller]
    pub fn prepare(&self, name: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Prepared> {
        self.call(name, inputs).attrs(attrs).prepare()
    }
}

impl CallBuilder<'_> {
    /// Prepares the call, to be made many times: of an op that changes tensors in place and makes
    /// none, outside critical sections.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let double = machine.call("mul_", &[&x]).attr("other", 2.0).prepare()?;
    /// double.on(&s)?;
    /// assert_eq!(x.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or makes tensors; or the call was to write to
    /// given tensors or from within a critical section.
    pub fn prepare(self) -> Result<Prepared> {
        let CallBuilder { machine, name, inputs, out, attrs, priority, section, origin } = self;
        let at = |e: Error| e.at(&origin);
        let op = machine.op(name).map_err(at)?;
        if out.is_some() || section.is_some() {
            let message = "a call into given tensors or from within a critical section cannot be \
                           prepared"
                .to_owned();
            return Err(at(Error::Op { op: name.to_owned(), message }));
        }
        let refs: SmallVec<[TensorRef; 4]> =
            inputs.iter().map(|t| machine.owns(t)).collect::<Result<_>>().map_err(at)?;
        let mut engine = machine.shared.lock().map_err(at)?;
        let Engine { builder, router, .. } = &mut *engine;
        let mut call = builder.prepare(op, &refs, &Arc::new(attrs.into_owned())).map_err(at)?;
        call.priority = priority;
        let specs = refs.iter().map(|tensor| Ok(builder.describe(*tensor)?.0.clone()));
        call.number = router.store_call(&call, specs.collect::<Result<_>>().map_err(at)?);
        drop(engine);
        let (machine, operands) = (machine.clone(), inputs.iter().map(|t| (*t).clone()).collect());
        Ok(Prepared(Arc::new(PreparedInner { machine, call, refs, operands })))
    }
}

impl Prepared {
    /// Makes the call on a stream. To make many in a row, [`Machine::batch`] costs less.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Attrs;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let negate = machine.prepare("neg_", &[&x], Attrs::new())?;
    /// negate.on(&s)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor was released by hand or is held, or the stream is another machine's; or this thread
    /// has a [tape](crate::Tape), and an operand depends on a tensor with a gradient.
    #[track_caller]
    pub fn on(&self, stream: &Stream) -> Result<()> {
        let origin = origin::caller();
        let PreparedInner { machine, call, refs, .. } = &*self.0;
        if !Arc::ptr_eq(&stream.machine.shared, &machine.shared) {
            let what = "the stream".to_owned();
            return Err(Error::Foreign { what }.at(&origin));
        }
        let operands = || {
            let operands = self.0.operands.iter().zip(call.accesses());
            operands.map(|(tensor, access)| RawOperand::new(tensor, access)).collect()
        };
        let verb = Verb::Prepared { machine, in_batch: false, operands: &operands };
        request::submit(Request::new(verb, &origin), |_| {
            let made = machine.shared.emit(&origin, |e| {
                e.open(stream.id)?;
                let Engine { builder, router, .. } = e;
                builder.call_prepared(router, stream.id, call, refs, &origin).map(Outcome::Done)
            });
            made.map(Some)
        })?;
        Ok(())
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.0.machine
    }

    pub(crate) fn operands(&self) -> &[Tensor] {
        &self.0.operands
    }

    pub(crate) fn parts(&self) -> (&PreparedCall, &[TensorRef]) {
        (&self.0.call, &self.0.refs)
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prepared").field(&self.0.call).finish()
    }
}
