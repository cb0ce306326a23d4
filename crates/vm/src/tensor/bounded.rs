//! Results whose number of rows depends on data, used before that number is known.

use std::fmt;

use smallvec::SmallVec;

use millstream_instructions::builder::Output;
use millstream_instructions::{Call, Outcome};
use millstream_ops::{CallSpec, OutputSpec};
use millstream_runtime::engine::{Engine, MadeTensor};
use millstream_runtime::scope::origin;
use millstream_types::{Attrs, Error, OpId, Origin, Result, TensorSpec};

use crate::handle::machine::CallBuilder;
use crate::handle::request::{self, RawOperand, Request, Sole, Verb};
use crate::handle::{Stream, Tensor};

use super::{Number, call};

/// A result whose number of rows depends on data, and is known at most: nothing has waited for it.
///
/// Calls that need no more than the bound go on from [`Bounded::filled`], whose shape is known;
/// [`Bounded::exact`] waits.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
/// let positive = x.masked_select_bounded(&x.gt(0)?)?; // up to 3 elements
/// let mean = (positive.filled(0)?.sum(..)? / positive.count())?; // nothing has waited
/// assert_eq!(mean.item::<f32>()?, 2.0);
/// assert_eq!(positive.exact()?.to_vec::<f32>()?, [1.0, 3.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Bounded {
    /// As many rows as there may be. Those from the count on are of unspecified content.
    rows: Tensor,
    count: Tensor,
    made_on: Stream,
}

impl Bounded {
    /// Returns the most rows that there may be.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// assert_eq!(x.nonzero_bounded()?.most(), 3);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn most(&self) -> usize {
        self.rows.shape()[0]
    }

    /// Returns the number of rows, as a tensor of i64 without dimensions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// let found = x.masked_select_bounded(&x.gt(0)?)?;
    /// assert_eq!(found.count().item::<i64>()?, 2);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn count(&self) -> &Tensor {
        &self.count
    }

    /// Returns which of the rows exist, as bools: the first [`Bounded::count`] are true. Waits for
    /// nothing.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// let found = x.masked_select_bounded(&x.gt(0)?)?;
    /// assert_eq!(found.mask()?.to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn mask(&self) -> Result<Tensor> {
        let origin = origin::caller();
        crate::with_origin(&origin, || {
            Tensor::arange(0..self.most() as i64, &self.rows)?.lt(&self.count)
        })
    }

    /// Returns a tensor of the most rows: those that there are, and rows of `value` behind them.
    /// Waits for nothing. Choose the value that the next call ignores: 0 for a sum, -∞ for a
    /// maximum, an index of a row that does no harm.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// let found = x.masked_select_bounded(&x.gt(0)?)?;
    /// assert_eq!(found.filled(-1)?.to_vec::<f32>()?, [1.0, 3.0, -1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The dtype cannot hold the value, or the memory is used up.
    #[track_caller]
    pub fn filled(&self, value: impl Into<Number>) -> Result<Tensor> {
        let origin = origin::caller();
        let value = value.into();
        crate::with_origin(&origin, || {
            let mut shape = vec![1; self.rows.rank()];
            shape[0] = self.most();
            let filler = Tensor::full(1, value, &self.rows)?.cast(self.rows.dtype())?;
            self.mask()?.reshape(shape)?.where_cond(&self.rows, &filler)
        })
    }

    /// Returns the rows that there are: what the call itself returns, had it waited. Blocks until
    /// the number is known.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// let found = x.masked_select_bounded(&x.gt(0)?)?;
    /// assert_eq!(found.exact()?.shape(), [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The failure of the call that makes it.
    #[track_caller]
    pub fn exact(&self) -> Result<Tensor> {
        let origin = origin::caller();
        let machine = self.rows.machine();
        let reason = "the size of a result depends on data";
        machine.fix_bound(&self.rows, &self.count, &self.made_on, reason, &origin)
    }
}

impl fmt::Debug for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bounded({:?})", self.rows)
    }
}

impl CallBuilder<'_> {
    /// Makes the call on a stream, as [`CallBuilder::on`], but does not wait for the sizes of
    /// results that depend on data. Returns these, and the other results. No tape notes the call:
    /// operands that depend on a tensor with a gradient are refused, except within
    /// [`no_grad`](crate::no_grad).
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2i64, 1, 2], 3, &machine)?;
    /// let call = machine.call("unique", &[&x]).attr("return_inverse", true);
    /// let (sized, others) = call.bounded(&x.stream()?)?;
    /// assert_eq!(sized[0].filled(9)?.to_vec::<i64>()?, [1, 2, 9]);
    /// assert_eq!(others[0].to_vec::<i64>()?, [1, 0, 1]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// No size of a result depends on data, the call has tensors for its results, or is one of a
    /// function that is recorded; or as [`CallBuilder::on`].
    pub fn bounded(self, stream: &Stream) -> Result<(Vec<Bounded>, Vec<Tensor>)> {
        let origin = self.origin.clone();
        self.make_bounded(stream, &origin).map_err(|e| e.at(&origin))
    }

    fn make_bounded(self, stream: &Stream, origin: &Origin) -> Result<(Vec<Bounded>, Vec<Tensor>)> {
        let CallBuilder { machine, name, inputs, out, attrs, .. } = &self;
        let refused =
            |message: &str| Error::Op { op: (*name).to_owned(), message: message.to_owned() };
        if out.is_some() {
            return Err(refused("a result whose size is not known yet is always a new tensor"));
        }
        machine.own_stream(stream)?;
        let op = machine.op(name)?;
        let specs: Vec<TensorSpec> = inputs.iter().map(|tensor| tensor.spec().clone()).collect();
        let schema =
            machine.shared.tables.ops.get(op).ok_or_else(|| refused("it has no schema"))?;
        let signature = schema.signature(CallSpec { inputs: &specs, attrs })?;
        if !signature.outputs.iter().any(|output| matches!(output, OutputSpec::Bounded(_))) {
            return Err(refused("no size of a result depends on data; make the call by `on`"));
        }
        let operands = || {
            let operands = inputs.iter().zip(&signature.accesses);
            operands.map(|(tensor, access)| RawOperand::new(tensor, *access)).collect()
        };
        let verb = Verb::Bounded { call: self.described(stream), operands: &operands };
        let is_within = self.section.is_some();
        let request = Request { verb, is_within, origin };
        let Sole(made) =
            request::submit(request, |_| self.emit_bounded(op, stream, origin).map(Sole))?;
        Ok(made)
    }

    fn emit_bounded(
        &self,
        op: OpId,
        stream: &Stream,
        origin: &Origin,
    ) -> Result<(Vec<Bounded>, Vec<Tensor>)> {
        let CallBuilder { machine, inputs, attrs, priority, section, .. } = self;
        let given = inputs.iter().map(|tensor| machine.owns(tensor));
        let given = given.collect::<Result<SmallVec<[_; 4]>>>()?;
        let call = Call {
            op,
            inputs: &given,
            into: None,
            attrs,
            stream: stream.id,
            priority: *priority,
            section: machine.own_section(*section)?,
            origin,
        };
        let made = machine.shared.emit(origin, |e| {
            e.open(stream.id)?;
            let Engine { builder, router, .. } = &mut *e;
            let outputs = match builder.call(router, &call)? {
                Outcome::Done(outputs) => outputs,
                Outcome::Need(need) => return Ok(Outcome::Need(need)),
            };
            let describe = |output| match output {
                Output::Same(input) => Ok(Made::Input(input)),
                Output::Tensor(made) => e.made(made).map(Made::Tensor),
                Output::Bounded { data, count } => Ok(Made::Bounded(e.made(data)?, e.made(count)?)),
            };
            outputs.into_iter().map(describe).collect::<Result<Vec<Made>>>().map(Outcome::Done)
        })?;
        let (mut sized, mut others) = (Vec::new(), Vec::new());
        let tensor = |made| machine.tensor(made, stream, origin);
        for made in made {
            match made {
                Made::Input(input) => others.push(inputs[input].clone()),
                Made::Tensor(made) => others.push(tensor(made)),
                Made::Bounded(rows, count) => {
                    let (rows, count) = (tensor(rows), tensor(count));
                    sized.push(Bounded { rows, count, made_on: stream.clone() });
                }
            }
        }
        Ok((sized, others))
    }
}

/// A result, described under the lock that made it.
enum Made {
    /// The input of this number, changed in place.
    Input(usize),
    Tensor(MadeTensor),
    /// The most rows, and their count.
    Bounded(MadeTensor, MadeTensor),
}

impl Tensor {
    /// Returns the elements where the mask, a bool tensor whose shape broadcasts with this one's,
    /// is true, without a wait for their number. PyTorch's `masked_select`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, -2.0, 3.0], 3, &machine)?;
    /// let found = x.masked_select_bounded(&x.gt(0)?)?; // nothing has waited
    /// let greatest = found.filled(f64::NEG_INFINITY)?.amax(..)?;
    /// assert_eq!(greatest.item::<f32>()?, 3.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CallBuilder::bounded`].
    #[track_caller]
    pub fn masked_select_bounded(&self, mask: &Tensor) -> Result<Bounded> {
        first("masked_select", &[self, mask])
    }

    /// Returns the indices of the nonzero elements, a row for each, without a wait for their
    /// number. PyTorch's `nonzero`; `nonzero_static` is for a number that is known.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[0.0f32, 2.0, 3.0], 3, &machine)?;
    /// let places = x.nonzero_bounded()?;
    /// assert_eq!(places.filled(0)?.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CallBuilder::bounded`].
    #[track_caller]
    pub fn nonzero_bounded(&self) -> Result<Bounded> {
        first("nonzero", &[self])
    }
}

/// Makes a call on the stream of its first operand, and returns its first result of unknown size.
#[track_caller]
fn first(op: &str, inputs: &[&Tensor]) -> Result<Bounded> {
    let (call, stream) = call::begin(op, inputs, Attrs::new())?;
    let (sized, _) = call.bounded(&stream)?;
    let none = || Error::Internal { message: format!("{op} has no result of unknown size") };
    sized.into_iter().next().ok_or_else(none)
}
