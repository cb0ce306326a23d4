//! Calls that are recorded.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::builder::Output;
use millstream_instructions::{Call, Priority, TensorRef};
use millstream_ops::random::{OFFSET, SEED};
use millstream_runtime::scope::origin::{self, with_origin};
use millstream_types::{AttrValue, Attrs, Error, Origin, Result, StreamId, TensorSpec};

use crate::handle::generator::Generator;
use crate::handle::lowering::InnerCalls;

use super::recorder::{RecordedTensor, Recorder};

impl Recorder {
    /// Begins a call of the op called `name`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let y = r.call("relu", &[x]).run()?;
    /// r.output("y", &y[0])?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn call<'a>(&'a mut self, name: &'a str, inputs: &'a [RecordedTensor]) -> RecordedCall<'a> {
        RecordedCall {
            recorder: self,
            name,
            inputs,
            out: None,
            attrs: Attrs::new(),
            priority: Priority::default(),
            origin: origin::caller(),
        }
    }
}

/// A call that is recorded, under construction.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let mut r = machine.recorder();
/// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let y = r.call("mul", &[x]).attr("other", 2.0).run()?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "a call is recorded by `run` or `on`"]
pub struct RecordedCall<'a> {
    recorder: &'a mut Recorder,
    name: &'a str,
    inputs: &'a [RecordedTensor],
    out: Option<&'a [RecordedTensor]>,
    attrs: Attrs,
    priority: Priority,
    origin: Origin,
}

impl<'a> RecordedCall<'a> {
    /// Sets a named argument.
    pub fn attr(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<AttrValue>,
    ) -> RecordedCall<'a> {
        self.attrs.set(name, value);
        self
    }

    /// Sets the seed and the offset of a random call: each launch draws the generator's next
    /// numbers.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let random = Generator::new(7);
    /// let mut r = machine.recorder();
    /// let y = r.call("uniform", &[]).attr("shape", vec![3]).draw(&random).run()?;
    /// r.output("y", &y[0])?;
    /// let f = r.finish()?.compile()?;
    /// let first = f.launch().run()?.output("y")?.to_vec::<f32>()?;
    /// assert_ne!(first, f.launch().run()?.output("y")?.to_vec::<f32>()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn draw(mut self, generator: &Generator) -> RecordedCall<'a> {
        let [seed, offset] = self.recorder.draw(generator);
        self.attrs.set(SEED, seed);
        self.attrs.set(OFFSET, offset);
        self
    }

    /// Sets all named arguments.
    pub fn attrs(mut self, attrs: Attrs) -> RecordedCall<'a> {
        self.attrs = attrs;
        self
    }

    /// Writes the results to these tensors instead of new ones.
    pub fn out(mut self, targets: &'a [RecordedTensor]) -> RecordedCall<'a> {
        self.out = Some(targets);
        self
    }

    /// Sets the priority among the calls of a pool.
    pub fn priority(mut self, priority: i32) -> RecordedCall<'a> {
        self.priority = Priority(priority);
        self
    }

    /// Sets the origin: the place that errors and lists name.
    pub fn origin(mut self, origin: Origin) -> RecordedCall<'a> {
        self.origin = origin;
        self
    }

    /// Records the call on compute stream 0 of the machine's default device.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let y = r.call("relu", &[x]).run()?;
    /// assert_eq!(r.spec(&y[0])?.shape(), [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`RecordedCall::on`].
    pub fn run(self) -> Result<Vec<RecordedTensor>> {
        let operands = self.inputs.iter().chain(self.out.unwrap_or_default());
        let stream = self.recorder.default_stream(operands).map_err(|e| e.at(&self.origin))?;
        self.on(stream)
    }

    /// Records the call on a stream of the list. The results are the op's outputs in order; an
    /// output that is changed in place is the input itself.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let second = r.stream(&StreamKey::compute(DeviceId::cpu(0), 1))?;
    /// let y = r.call("relu", &[x]).on(second)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, a tensor was released or is held; or the size of
    /// a result is known only by running the op.
    pub fn on(self, stream: StreamId) -> Result<Vec<RecordedTensor>> {
        let RecordedCall { recorder, name, inputs, out, attrs, priority, origin } = self;
        let ops = recorder.machine.shared.tables.ops.clone();
        if let Some(op) = ops.composite(name) {
            let mut calling = Calling { recorder, stream, priority, origin: &origin };
            let made = calling.composite(op, inputs, &attrs, out);
            return made.map_err(|e| e.at(&origin));
        }
        let op = ops.id(name).map_err(|e| e.at(&origin))?;
        let refs: SmallVec<[TensorRef; 4]> = inputs.iter().map(|t| t.0).collect();
        let targets: Option<SmallVec<[TensorRef; 2]>> =
            out.map(|targets| targets.iter().map(|t| t.0).collect());
        let attrs = Arc::new(attrs);
        let call = Call {
            op,
            inputs: &refs,
            into: targets.as_deref(),
            attrs: &attrs,
            stream,
            priority,
            section: recorder.sections.last().copied(),
            origin: &origin,
        };
        let outputs = with_origin(&origin, || {
            recorder.emit(|builder, list, _| builder.call_offline(list, &call))
        });
        let outputs = outputs?;
        let result = |output| match output {
            Output::Tensor(tensor) => Ok(RecordedTensor(tensor)),
            Output::Same(input) => Ok(inputs[input]),
            Output::Bounded { .. } => {
                let message = "its result's size is known only by running it, so it cannot stand \
                               in an executable"
                    .to_owned();
                Err(Error::Op { op: name.to_owned(), message }.at(&origin))
            }
        };
        let results: Vec<RecordedTensor> =
            outputs.into_iter().map(result).collect::<Result<_>>()?;
        recorder.check_results(inputs, &results, stream, &origin)?;
        Ok(results)
    }
}

/// The call of a composite op on a stream.
struct Calling<'a> {
    recorder: &'a mut Recorder,
    stream: StreamId,
    priority: Priority,
    origin: &'a Origin,
}

impl InnerCalls for Calling<'_> {
    type Tensor = RecordedTensor;

    fn spec(&self, tensor: &RecordedTensor) -> Result<TensorSpec> {
        self.recorder.spec(tensor)
    }

    fn call(
        &mut self,
        op: &str,
        inputs: &[&RecordedTensor],
        attrs: Attrs,
    ) -> Result<Vec<RecordedTensor>> {
        let inputs: Vec<RecordedTensor> = inputs.iter().map(|x| **x).collect();
        let call = self.recorder.call(op, &inputs).attrs(attrs).priority(self.priority.0);
        call.origin(self.origin.clone()).on(self.stream)
    }

    fn is_same(&self, a: &RecordedTensor, b: &RecordedTensor) -> bool {
        a == b
    }

    fn release(&mut self, tensor: RecordedTensor) -> Result<()> {
        with_origin(self.origin, || self.recorder.release(tensor))
    }
}

impl fmt::Debug for RecordedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordedCall({})", self.name)
    }
}
