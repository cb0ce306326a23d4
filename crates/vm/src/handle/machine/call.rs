//! Calls of ops.
//!
//! Long because its items have examples.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::{Outcome, Priority};
use millstream_runtime::engine::Engine;
use millstream_runtime::scope::origin;
use millstream_types::{AttrValue, Attrs, Error, Origin, Result, Sharding};

use crate::handle::global;
use crate::handle::request::{self, OpCall, Request, Results, Verb};
use crate::handle::{Section, Stream, Tensor, innermost};
use crate::handle::{check_devices, stream_of};

use super::Machine;
use super::emit_call::Emitted;

/// The tensors of a call. Most have few.
pub(crate) type Inputs<'a> = SmallVec<[&'a Tensor; 4]>;

/// A call of an op, under construction.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let s = machine.current_stream()?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let call = machine.call("add", &[&x, &x]).attr("alpha", 10.0);
/// assert_eq!(call.one(&s)?.to_vec::<f32>()?, [11.0, 22.0, 33.0, 44.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "a call does nothing until it is made on a stream"]
pub struct CallBuilder<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) name: &'a str,
    pub(crate) inputs: Inputs<'a>,
    pub(crate) out: Option<SmallVec<[&'a Tensor; 2]>>,
    pub(crate) attrs: Cow<'a, Attrs>,
    pub(crate) priority: Priority,
    pub(crate) section: Option<&'a Section>,
    pub(crate) origin: Origin,
}

impl<'a> CallBuilder<'a> {
    #[inline]
    pub(crate) fn new(
        machine: &'a Machine,
        name: &'a str,
        inputs: Inputs<'a>,
        attrs: Attrs,
        origin: Origin,
    ) -> CallBuilder<'a> {
        let (out, priority, section) = (None, Priority::default(), None);
        let attrs = Cow::Owned(attrs);
        CallBuilder { machine, name, inputs, out, attrs, priority, section, origin }
    }

    /// Sets a named argument.
    pub fn attr(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<AttrValue>,
    ) -> CallBuilder<'a> {
        self.attrs.to_mut().set(name, value);
        self
    }

    /// Sets all named arguments: owned, or borrowed for calls that are made again and again.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Attrs;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let attrs = Attrs::new().with("dim", vec![0i64]).with("keepdim", true);
    /// assert_eq!(machine.call("sum", &[&x]).attrs(&attrs).run()?[0].shape(), [1, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[inline]
    pub fn attrs(mut self, attrs: impl Into<Cow<'a, Attrs>>) -> CallBuilder<'a> {
        self.attrs = attrs.into();
        self
    }

    /// Writes the results to these tensors instead of new ones.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DType;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = Tensor::zeros((2, 2), DType::F32, &machine)?;
    /// machine.call("neg", &[&x]).out(&[&y]).run()?;
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, -2.0, -3.0, -4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[inline]
    pub fn out(mut self, targets: &[&'a Tensor]) -> CallBuilder<'a> {
        self.out = Some(targets.iter().copied().collect());
        self
    }

    /// Sets the priority: of the ready calls of a pool, those of the highest priority run first.
    /// The default is 0; in-order streams ignore it.
    #[inline]
    pub fn priority(mut self, priority: i32) -> CallBuilder<'a> {
        self.priority = Priority(priority);
        self
    }

    /// Makes the call within a critical section.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let section = machine.critical_section(&[&x])?;
    /// machine.call("neg_", &[&x]).within(&section).run()?;
    /// section.end()?;
    /// assert_eq!(x.to_vec::<f32>()?, [-1.0, -2.0, -3.0, -4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[inline]
    pub fn within(mut self, section: &'a Section) -> CallBuilder<'a> {
        self.section = Some(section);
        self
    }

    /// Sets the origin: the place that errors and lists name. The default is the calling line, or
    /// the scope of [`with_origin`](crate::with_origin).
    #[inline]
    pub fn origin(mut self, origin: Origin) -> CallBuilder<'a> {
        self.origin = origin;
        self
    }

    /// Makes the call of a collective on a stream, on dense copies of its inputs where it has to
    /// be: those of devices that neither the host nor the communicator reaches are copied to the
    /// host, and the elements that were changed in place are copied back.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// machine.call("allreduce_", &[&x]).collective_on(&s)?; // of one rank: nothing changes
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CallBuilder::on`], or a copy cannot be made.
    pub fn collective_on(self, stream: &Stream) -> Result<Vec<Tensor>> {
        let CallBuilder { machine, name, inputs, attrs, origin, .. } = &self;
        let submitter = machine.submitter(origin.clone());
        let made = submitter.collective(stream, name, inputs, attrs);
        match made.map_err(|e| e.at(origin))? {
            Some(results) => Ok(results),
            None => self.on(stream),
        }
    }

    /// Makes the call on a stream as [`CallBuilder::on`], with the first result held in a given way
    /// by the ranks of a mesh: that of its operands, if it has some.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, Sharding};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let whole = Sharding::broadcast(&Mesh::new([0])?);
    /// let call = machine.call("full", &[]).attr("shape", vec![2i64]).attr("value", 1.0);
    /// assert_eq!(call.held_on(&s, &whole)?[0].sharding(), Some(&whole));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CallBuilder::on`], or the result cannot be held so.
    pub fn held_on(self, stream: &Stream, sharding: &Sharding) -> Result<Vec<Tensor>> {
        let (to, origin, call) = (Arc::new(sharding.clone()), &self.origin, self.described(stream));
        let mut made = match self.machine.shared.tables.ops.find(self.name) {
            Some(_) => global::make(call, Some(&to), self.section.is_some(), origin)?,
            None => self.expand(stream, Some(&to))?,
        };
        if let Some(first) = made.first_mut() {
            let held = global::held_as(first.clone(), &to, stream, origin);
            *first = held.map_err(|e| e.at(origin))?;
        }
        Ok(made.into_vec())
    }

    /// Makes the call on the stream that [`with_stream`](crate::with_stream) or
    /// [`Stream::set_current`] names. Without one, on the stream of its first operand, as methods
    /// do.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let results = machine.call("max", &[&x]).attr("dim", 1).run()?;
    /// assert_eq!(results[1].to_vec::<i64>()?, [1, 1]); // where they are
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CallBuilder::on`], or operands lie on two devices and no stream is named.
    pub fn run(self) -> Result<Vec<Tensor>> {
        let stream = self.stream().map_err(|e| e.at(&self.origin))?;
        self.on(&stream)
    }

    /// Returns the stream of a call that names none.
    fn stream(&self) -> Result<Stream> {
        let CallBuilder { machine, name, inputs, out, .. } = self;
        let targets = out.as_deref().unwrap_or_default();
        let operands: Inputs<'_> = inputs.iter().chain(targets).copied().collect();
        if let Some(named) = innermost(machine) {
            return Ok(named);
        }
        let Some(&first) = operands.first() else { return machine.current_stream() };
        machine.own(first.machine().shared.tables.machine, "the tensor")?;
        check_devices(name, &operands)?;
        stream_of(first).map(Cow::into_owned)
    }

    /// Makes the call on a stream. The results are the op's outputs in order; an output that is
    /// changed in place is the input itself. Blocks only for an output whose size must be read
    /// first.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = machine.call("relu", &[&x]).on(&s)?.remove(0);
    /// assert_eq!(y.shape(), [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, a tensor was released, the memory is used up. For
    /// an output whose size is read: the failure of the call that makes it.
    #[inline]
    pub fn on(self, stream: &Stream) -> Result<Vec<Tensor>> {
        self.make(stream).map(SmallVec::into_vec)
    }

    /// Makes the call on a stream, as [`CallBuilder::on`], and returns its first result. It costs
    /// less where there is but one.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(machine.call("relu", &[&x]).one(&s)?.shape(), [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CallBuilder::on`], or the op has no results.
    #[inline]
    pub fn one(self, stream: &Stream) -> Result<Tensor> {
        self.make_one(stream)
    }

    /// Makes the call as [`CallBuilder::one`]. Not by value: a builder is large to move.
    pub(crate) fn make_one(&self, stream: &Stream) -> Result<Tensor> {
        if !request::is_any()
            && let Some(op) = self.machine.shared.tables.ops.find(self.name)
        {
            return self.described(stream).emit(op, self.section, &self.origin)?.first(self.name);
        }
        Emitted::Other(self.make(stream)?).first(self.name)
    }

    /// Makes the call, or the calls of a composite op.
    #[inline]
    pub(crate) fn make(&self, stream: &Stream) -> Result<Results> {
        let Some(op) = self.machine.shared.tables.ops.find(self.name) else {
            return self.expand(stream, None);
        };
        let call = self.described(stream);
        // Without layers, the machine finds global tensors.
        if request::is_any() && call.is_global() {
            return global::make(call, None, self.section.is_some(), &self.origin);
        }
        call.submit(op, self.section, &self.origin)
    }

    /// Returns the call as layers see it.
    #[inline]
    pub(crate) fn described<'c>(&'c self, stream: &'c Stream) -> OpCall<'c> {
        let CallBuilder { machine, name, inputs, out, priority, .. } = self;
        let (out, attrs, priority) = (out.as_deref(), &*self.attrs, *priority);
        OpCall { machine, name, inputs, out, attrs, stream, priority }
    }
}

impl Machine {
    /// Begins a call of the op called `name`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let y = machine.call("relu", &[&x]).run()?.remove(0);
    /// assert_eq!(y.shape(), [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn call<'a>(&'a self, name: &'a str, inputs: &[&'a Tensor]) -> CallBuilder<'a> {
        CallBuilder::new(self, name, SmallVec::from_slice(inputs), Attrs::new(), origin::caller())
    }

    /// Reads the count of rows, and makes a view of so many rows. `reason` says why they are waited
    /// for.
    pub(crate) fn fix_bound(
        &self,
        data: &Tensor,
        count: &Tensor,
        stream: &Stream,
        reason: &str,
        origin: &Origin,
    ) -> Result<Tensor> {
        let size = Request::new(Verb::Size { machine: self, reason }, origin);
        let bytes = request::submit(size, |_| count.read_at(None, origin.clone()))?;
        let rows = bytes
            .try_into()
            .map(i64::from_ne_bytes)
            .map_err(|_| Error::Internal { message: "a count is not one number".to_owned() })?;
        let view = self.shared.emit(origin, |e| {
            let Engine { builder, router, .. } = e;
            let view = builder.fix_bound(router, data.tensor_ref(), rows, origin)?;
            e.made(view).map(Outcome::Done)
        })?;
        Ok(self.tensor(view, stream, origin))
    }
}
