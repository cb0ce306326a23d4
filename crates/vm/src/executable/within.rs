//! Launches within recorded lists.

use std::fmt;

use smallvec::SmallVec;

use millstream_instructions::builder::{Launch, LaunchOperand};
use millstream_instructions::{Body, Outcome, TensorRef};
use millstream_runtime::engine::Engine;
use millstream_runtime::scope::origin::{self, with_origin};
use millstream_runtime::tapes::tape::FormalKind;
use millstream_types::{
    Access, AttrValue, Error, ListId, Origin, Result, ScalarId, StreamId, StreamType,
};

use super::launch::MadeOutput;
use super::recorder::{RecordedTensor, Recorder, list_of};
use super::{Executable, ExecutableInner};

impl Recorder {
    /// Begins a launch of another executable within the list. The tensors bound to it are bound to
    /// this list, too; its private memory and its outputs are this list's.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let inside = r.launch(&f).input("x", &x).run()?; // outputs that are not given are new
    /// r.output("z", &inside[0])?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn launch<'a>(&'a mut self, executable: &'a Executable) -> RecordedLaunch<'a> {
        RecordedLaunch {
            recorder: self,
            executable,
            given: executable.0.bound.iter().map(|_| None).collect(),
            scalars: Vec::new(),
            stream: None,
            origin: origin::caller(),
            mistake: None,
        }
    }

    /// Adds an executable's list to this one. Its functions become functions of this list.
    fn executable(&mut self, inner: &ExecutableInner) -> ListId {
        let first = self.callbacks.len() as u32;
        let mut list = inner.program.list.clone();
        for instruction in &mut list.instructions {
            if let Body::AccessBlobByCallback { callback, .. } = &mut instruction.body {
                callback.0 += first;
            }
        }
        self.callbacks.extend(inner.program.callbacks.iter().cloned());
        // Each launch has an entry of its own, as its functions are numbered for it.
        let id = ListId(self.executables);
        self.executables += 1;
        list_of(&mut self.engine()).executable(id, &list);
        id
    }
}

/// A launch that is recorded, under construction.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let f = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let mut r = machine.recorder();
/// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let launch: RecordedLaunch<'_> = r.launch(&f).input("x", &x);
/// let inside = launch.run()?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "a launch is recorded by `run`"]
pub struct RecordedLaunch<'a> {
    recorder: &'a mut Recorder,
    executable: &'a Executable,
    /// The tensors given so far, by formal.
    given: SmallVec<[Option<TensorRef>; 8]>,
    scalars: Vec<(ScalarId, AttrValue)>,
    stream: Option<StreamId>,
    origin: Origin,
    /// The first mistake.
    mistake: Option<Error>,
}

impl<'a> RecordedLaunch<'a> {
    /// Gives the tensor of an input.
    pub fn input(self, name: &str, tensor: &RecordedTensor) -> RecordedLaunch<'a> {
        self.give(FormalKind::Input, name, tensor)
    }

    /// Has an output written into a tensor of the list, instead of a new one.
    pub fn output(self, name: &str, tensor: &RecordedTensor) -> RecordedLaunch<'a> {
        self.give(FormalKind::Output, name, tensor)
    }

    /// Gives a scalar: a number, or a scalar of this list. One that is not given has the value of
    /// its declaration.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let factor = r.scalar("factor", 1.0)?;
    /// #     let y = r.call("mul", &[x]).attr("other", factor).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let outer = r.scalar("outer", 2.0)?;
    /// r.launch(&f).input("x", &x).scalar("factor", outer).run()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn scalar(mut self, name: &str, value: impl Into<AttrValue>) -> RecordedLaunch<'a> {
        let value = value.into();
        match self.recorder.scalar_within(&self.executable.0, name, &value) {
            Ok(scalar) => self.scalars.push((scalar, value)),
            Err(mistake) => drop(self.mistake.get_or_insert(mistake)),
        }
        self
    }

    /// Launches on this stream of the list, of type lazy-job. The default is stream 0 of that type.
    pub fn on(mut self, stream: StreamId) -> RecordedLaunch<'a> {
        self.stream = Some(stream);
        self
    }

    /// Sets the origin: the place that errors and lists name.
    pub fn origin(mut self, origin: Origin) -> RecordedLaunch<'a> {
        self.origin = origin;
        self
    }

    fn give(mut self, kind: FormalKind, name: &str, tensor: &RecordedTensor) -> Self {
        let program = &self.executable.0.program;
        if let Err(mistake) = program.give(&mut self.given, (kind, name), tensor.0) {
            self.mistake.get_or_insert(mistake);
        }
        self
    }

    /// Records the launch. Returns the outputs, in the order in which they were recorded.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let inside = r.launch(&f).input("x", &x).run()?;
    /// assert_eq!(r.spec(&inside[0])?.shape(), [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The executable is another machine's, or launches others itself; an input is missing,
    /// unknown, or not what was recorded; two formals share memory that one of them writes; a
    /// tensor was released or is held; the stream runs no launches.
    pub fn run(self) -> Result<Vec<RecordedTensor>> {
        let origin = self.origin.clone();
        with_origin(&origin, || self.recorded()).map_err(|e| e.at(&origin))
    }

    fn recorded(self) -> Result<Vec<RecordedTensor>> {
        let RecordedLaunch { recorder, executable, mut given, scalars, stream, origin, mistake } =
            self;
        let inner = &executable.0;
        recorder.machine.own(inner.machine.shared.tables.machine, "the executable")?;
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        if !inner.program.list.executables.is_empty() {
            let message = "it launches other executables itself, which no list can hold within \
                           another one; launch them from this list"
                .to_owned();
            return Err(Error::Invalid { what: "launch", message });
        }
        if !inner.gradients.is_empty() {
            let message = "it finds or leaves gradients, which is for launches by the program; \
                           drop the gradients within its function, or record both in one function"
                .to_owned();
            return Err(Error::Invalid { what: "launch", message });
        }
        for (given, bound) in given.iter_mut().zip(&inner.bound) {
            if let Some(bound) = bound {
                *given = Some(recorder.bind(bound)?.0);
            }
        }
        let stream = match stream {
            Some(stream) => stream,
            None => recorder.host_stream(StreamType::LAZY_JOB_LAUNCHER)?,
        };
        let list = recorder.executable(inner);
        let section = recorder.sections.last().copied();
        let scalars = recorder.scalars_within(inner, &scalars);
        let mut engine = recorder.engine();
        let Engine { builder, router: sink, .. } = &mut *engine;
        let (program, specs) = (&inner.program, inner.memory_specs()?);
        let mut operands: SmallVec<[LaunchOperand<'_>; 8]> = SmallVec::new();
        for (k, (formal, given)) in program.formals.iter().zip(&given).enumerate() {
            // A formal that the list does not use is only touched.
            let access = formal.access.unwrap_or(Access::Read);
            operands.push(match given {
                Some(tensor) => {
                    program.check(k, builder.spec(*tensor)?, builder.device(*tensor)?)?;
                    LaunchOperand::Given(*tensor, access)
                }
                None if formal.kind == FormalKind::Output => program.fresh(k),
                None => return Err(program.missing(k)),
            });
        }
        inner.check_extents(builder, &given)?;
        let new = program.memory.iter().zip(&specs);
        operands.extend(new.map(|((d, bytes), s)| LaunchOperand::Fresh(d, s, *bytes)));
        let (operands, attrs, origin) = (&operands[..], scalars.as_ref(), &origin);
        let launch = Launch { stream, list, operands, attrs, section, origin };
        let tensors = loop {
            match builder.launch(sink, &launch)? {
                Outcome::Done((_, tensors)) => break tensors,
                Outcome::Need(need) => builder.assume(sink, need, origin)?,
            }
        };
        let (formals, memory) = tensors.split_at(program.formals.len());
        let is_given = |formal: usize| given[formal].is_some();
        let made = inner.results(builder, sink, formals, &is_given, origin)?;
        for private in memory {
            builder.release(sink, *private, None, origin)?;
        }
        let output = |made| match made {
            MadeOutput::Given(formal) => RecordedTensor(formals[formal]),
            MadeOutput::New(tensor) => RecordedTensor(tensor),
        };
        Ok(made.into_iter().map(output).collect())
    }
}

impl fmt::Debug for RecordedLaunch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordedLaunch({})", self.executable.0.list)
    }
}
