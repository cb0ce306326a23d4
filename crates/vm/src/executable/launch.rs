//! Launches: the operands, the instance, and the instruction.
//!
//! Long because its items have examples.

use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;

use millstream_instructions::builder::{Launch, LaunchOperand, SectionId};
use millstream_instructions::{InstructionsBuilder, Outcome, Sink, TensorRef};
use millstream_runtime::engine::MadeTensor;
use millstream_runtime::engine::router::Router;
use millstream_runtime::replay::instance::{Instance, Instances};
use millstream_runtime::replay::overlap::{Extent, conflict};
use millstream_runtime::scope::origin::{self, with_origin};
use millstream_runtime::tapes::graph::InstanceGraphs;
use millstream_runtime::tapes::recycled::Recycled;
use millstream_runtime::tapes::run::{Base, Playing, Run};
use millstream_runtime::tapes::tape::{FormalKind, OutputSpec};
use millstream_types::{
    Access, DType, Error, Layout, Origin, Point, Result, ScalarId, ScalarValue, TensorSpec,
};

use crate::gradient::no_grad;
use crate::handle::leaf::Leaf;
use crate::handle::request::{self, RawOperand, Request, Verb};
use crate::handle::{Completion, Section, Stream, Tensor};

use super::gradients::LaunchedLeaf;
use super::kept::{KeptOutput, WrittenAgain};
use super::launched::Launched;
use super::overflow::OVERFLOW_ON;
use super::{Executable, ExecutableInner, overflow, workspace};

/// How many launches an instance keeps to be used again.
const MAX_RUNS: usize = 64;

/// A launch of an executable, under construction.
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
/// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
/// let launch: LaunchBuilder<'_> = f.launch().input("x", &x);
/// assert_eq!(launch.run()?.output("y")?.to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "nothing is launched before `run`"]
pub struct LaunchBuilder<'a> {
    executable: &'a Executable,
    /// The tensors given so far, by formal.
    given: SmallVec<[Option<&'a Tensor>; 8]>,
    stream: Option<&'a Stream>,
    section: Option<&'a Section>,
    origin: Origin,
    /// The scalars of no generator.
    scalars: SmallVec<[(ScalarId, ScalarValue); 4]>,
    /// The memory that the caller gives.
    workspaces: SmallVec<[&'a Tensor; 1]>,
    /// The leaves of which the launch sets the gradients, with the numbers of the outputs.
    replaced: SmallVec<[(usize, Arc<Leaf>); 4]>,
    checks_overflow: bool,
    /// The first mistake.
    mistake: Option<Error>,
}

impl Executable {
    /// Returns the number of an input among the formals, for launches.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn input_number(&self, name: &str) -> Result<usize> {
        self.0.program.formal(FormalKind::Input, name)
    }

    /// Gives up the gradients that later launches would write again.
    pub(crate) fn end_kept(&self) {
        let ended: SmallVec<[Tensor; 4]> = {
            let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter_mut().flat_map(KeptOutput::end).collect()
        };
        // No tensor may end under a lock.
        drop(ended);
    }

    /// Begins a launch.
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
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let launched = f.launch().input("x", &x).run()?;
    /// assert_eq!(launched.output("y")?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn launch(&self) -> LaunchBuilder<'_> {
        LaunchBuilder {
            executable: self,
            given: self.0.bound.iter().map(Option::as_ref).collect(),
            stream: None,
            section: None,
            origin: origin::caller(),
            scalars: SmallVec::new(),
            workspaces: SmallVec::new(),
            replaced: SmallVec::new(),
            checks_overflow: false,
            mistake: None,
        }
    }
}

impl<'a> LaunchBuilder<'a> {
    /// Gives the tensor of an input. It has the recorded dtype, shape, strides and device; its
    /// offset in its storage may differ.
    pub fn input(self, name: &str, tensor: &'a Tensor) -> LaunchBuilder<'a> {
        self.give(FormalKind::Input, name, tensor)
    }

    /// Has an output written into a tensor of the program, instead of a new one. The tensor has
    /// the recorded dtype, shape, strides and device.
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
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let y = Tensor::zeros(2, DType::F32, &machine)?;
    /// f.launch().input("x", &x).output("y", &y).run()?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn output(self, name: &str, tensor: &'a Tensor) -> LaunchBuilder<'a> {
        self.give(FormalKind::Output, name, tensor)
    }

    /// Gives the number of a [scalar](super::Recorder::scalar). One that is not given has the value
    /// of its declaration.
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
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let launched = f.launch().input("x", &x).scalar("factor", 0.5).run()?;
    /// assert_eq!(launched.output("y")?.to_vec::<f32>()?, [-0.5, 1.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn scalar(mut self, name: &str, value: impl Into<ScalarValue>) -> LaunchBuilder<'a> {
        let value = value.into();
        let found = self.executable.0.scalar(name, value).and_then(|scalar| {
            let twice = || Error::Invalid {
                what: "launch",
                message: format!("the scalar {name:?} is given twice"),
            };
            let is_given = self.scalars.iter().any(|(known, _)| *known == scalar);
            if is_given { Err(twice()) } else { Ok(scalar) }
        });
        match found {
            Ok(scalar) => self.scalars.push((scalar, value)),
            Err(mistake) => drop(self.mistake.get_or_insert(mistake)),
        }
        self
    }

    /// Launches on this stream of type lazy-job. The default is stream 0 of that type.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, StreamType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let key = StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, 0);
    /// let stream = machine.stream(&key)?;
    /// f.launch().input("x", &x).on(&stream).run()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn on(mut self, stream: &'a Stream) -> LaunchBuilder<'a> {
        self.stream = Some(stream);
        self
    }

    /// Launches from within a critical section, whose tensors may be operands.
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
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let section = machine.critical_section(&[&x])?;
    /// f.launch().input("x", &x).within(&section).run()?;
    /// section.end()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn within(mut self, section: &'a Section) -> LaunchBuilder<'a> {
        self.section = Some(section);
        self
    }

    /// Gives the private memory of the launch on the tensor's device, in place of that of an
    /// instance: a contiguous tensor of u8, of at least the bytes of [`Executable::workspace`], at
    /// a multiple of 512 bytes in its storage. Its content is lost. It is an operand like any
    /// other, so launches and calls that use it follow one another. A launch takes either one on
    /// each device with private memory, or none.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("cumsum", &[x]).attr("dim", 0).run()?;
    /// #     let y = r.call("cumsum", &[y[0]]).attr("dim", 0).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let bytes = f.workspace()[0].bytes;
    /// let memory = Tensor::zeros(bytes as usize, DType::U8, &machine)?;
    /// f.launch().input("x", &x).workspace(&memory).run()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn workspace(mut self, memory: &'a Tensor) -> LaunchBuilder<'a> {
        self.workspaces.push(memory);
        self
    }

    /// Has the machine look, behind the launch, whether a float that it has written is infinite or
    /// NaN: an element of an output, or of a tensor that it changes. [`Launched::overflowed`] says
    /// so, without a wait. [`Recorder::check_overflow`](crate::Recorder::check_overflow) checks the
    /// results of all calls.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let f = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("log", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// let x = Tensor::from_slice(&[0.0f32, 2.0], 2, &machine)?;
    /// let launched = f.launch().input("x", &x).check_overflow().run()?; // logarithms
    /// assert_eq!(launched.overflowed()?.item::<f32>()?, 1.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn check_overflow(mut self) -> LaunchBuilder<'a> {
        self.checks_overflow = true;
        self
    }

    /// Sets the origin: the place that errors and lists name. The default is the calling line, or
    /// the scope of [`with_origin`](crate::with_origin).
    pub fn origin(mut self, origin: Origin) -> LaunchBuilder<'a> {
        self.origin = origin;
        self
    }

    /// Gives the tensor of a formal, by its number.
    pub(crate) fn formal(mut self, number: usize, tensor: &'a Tensor) -> LaunchBuilder<'a> {
        self.given[number] = Some(tensor);
        self
    }

    /// Gives a scalar, by its number.
    pub(crate) fn scalar_number(
        mut self,
        scalar: ScalarId,
        value: ScalarValue,
    ) -> LaunchBuilder<'a> {
        self.scalars.push((scalar, value));
        self
    }

    /// Has an output become the gradient of a leaf, from which the launch takes none.
    pub(crate) fn replacing(mut self, output: usize, leaf: Arc<Leaf>) -> LaunchBuilder<'a> {
        self.replaced.push((output, leaf));
        self
    }

    fn give(mut self, kind: FormalKind, name: &str, tensor: &'a Tensor) -> LaunchBuilder<'a> {
        let program = &self.executable.0.program;
        if let Err(mistake) = program.give(&mut self.given, (kind, name), tensor) {
            self.mistake.get_or_insert(mistake);
        }
        self
    }

    /// Launches the executable. Does not wait for it.
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
    /// # let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let launched = f.launch().input("x", &x).run()?; // does not wait
    /// launched.wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An input is missing or given twice, or a tensor is not what was recorded; a scalar is
    /// unknown, of the other kind, or one that a call refuses; a tensor was released or is held;
    /// two formals share memory that one of them writes; the stream runs no launches; the memory is
    /// used up; this thread has a [tape](crate::Tape), and a tensor depends on one with a gradient.
    pub fn run(self) -> Result<Launched> {
        self.pass_layers()?;
        let program = self.executable.0.program.clone();
        let is_check = |output: &OutputSpec| output.name.starts_with(OVERFLOW_ON);
        if !self.checks_overflow && !program.outputs.iter().any(is_check) {
            return self.make();
        }
        let formals = program.formals.iter().zip(&self.given).filter(|_| self.checks_overflow);
        let changed = formals.filter(|(formal, _)| formal.access.is_some_and(Access::writes));
        let mut written: Vec<Tensor> = changed.filter_map(|(_, given)| given.cloned()).collect();
        let (looks, section, origin) = (self.checks_overflow, self.section, self.origin.clone());
        let mut launched = self.make()?;
        let mut known = Vec::new();
        for (output, spec) in launched.outputs.iter().zip(&program.outputs) {
            if is_check(spec) {
                known.push(output.clone());
            } else if looks && !written.iter().any(|tensor| tensor.is_same(output)) {
                written.push(output.clone());
            }
        }
        let check = || no_grad(|| overflow::check(&written, &known, section));
        launched.overflow = with_origin(&origin, check)?;
        Ok(launched)
    }

    /// Lets the layers of this thread note the launch, or refuse it.
    fn pass_layers(&self) -> Result<()> {
        let operands = || {
            let formals = self.executable.0.program.formals.iter().zip(&self.given);
            let operands = formals.filter_map(|(formal, tensor)| {
                Some(RawOperand::new((*tensor)?, formal.access.unwrap_or(Access::Read)))
            });
            let workspaces = self.workspaces.iter();
            let workspaces = workspaces.map(|memory| RawOperand::new(memory, workspace::ACCESS));
            operands.chain(workspaces).collect()
        };
        let verb = Verb::Launch { machine: self.executable.machine(), operands: &operands };
        let is_within = self.section.is_some();
        let launch = Request { verb, is_within, origin: &self.origin };
        request::submit(launch, |_| Ok(Some(()))).map(drop)
    }

    /// Launches the executable for a segment of calls that tapes note themselves.
    pub(crate) fn make(self) -> Result<Launched> {
        let LaunchBuilder { executable, given, stream, section, origin, .. } = self;
        let LaunchBuilder { scalars, workspaces, mut replaced, mistake, .. } = self;
        let inner = &executable.0;
        let at = |e: Error| e.at(&origin);
        if let Some(mistake) = mistake {
            return Err(at(mistake));
        }
        let machine = &inner.machine;
        let found = inner.gradients.iter().map(LaunchedLeaf::find);
        let found: SmallVec<[Option<(usize, Tensor)>; 8]> =
            found.collect::<Result<_>>().map_err(at)?;
        let mut given: SmallVec<[Option<&Tensor>; 8]> = given.iter().copied().collect();
        for (formal, gradient) in found.iter().flatten() {
            given[*formal] = Some(gradient);
        }
        let of_launches;
        let stream = match stream {
            Some(stream) => stream,
            None => {
                of_launches = machine.launch_stream().map_err(at)?;
                &of_launches
            }
        };
        machine.own_stream(stream).map_err(at)?;
        let section = machine.own_section(section).map_err(at)?;
        replaced.extend(inner.gradients.iter().filter_map(LaunchedLeaf::replaced));
        let again = inner.written_again(&given, &replaced).map_err(at)?;
        let mut all: SmallVec<[Option<&Tensor>; 8]> = given.iter().copied().collect();
        again.iter().for_each(|one| all[one.formal] = Some(&one.tensor));
        let described = workspaces.iter();
        let described = described.map(|t| Ok((machine.owns(t)?, t.spec(), t.device())));
        let described: SmallVec<[_; 1]> = described.collect::<Result<_>>().map_err(at)?;
        let lent = inner.workspaces(&described).map_err(at)?;
        let launched = inner.launch(&all, &scalars, lent.as_deref(), stream, section, &origin);
        again.iter().for_each(WrittenAgain::hold);
        let (run, outputs) = launched.map_err(at)?;
        inner.keep(&given, &outputs);
        inner.gradients.iter().for_each(|leaf| leaf.leave(&outputs));
        let completion = Completion::of_launch(machine.clone(), run.clone());
        Ok(Launched { run, completion, outputs, overflow: None })
    }
}

/// The tensor of an output.
pub(super) enum MadeOutput<T> {
    /// The tensor that was given for this formal.
    Given(usize),
    New(T),
}

impl ExecutableInner {
    /// Takes the kept tensors that a launch writes again, for outputs without a given one.
    fn written_again(
        &self,
        given: &[Option<&Tensor>],
        replaced: &[(usize, Arc<Leaf>)],
    ) -> Result<SmallVec<[WrittenAgain; 4]>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return Ok(SmallVec::new());
        }
        let mut ended = Vec::new();
        let engine = self.machine.shared.lock()?;
        let free = kept.iter_mut().filter(|output| !output.is_given(given));
        let take = |output: &mut KeptOutput| output.take(&engine.builder, replaced, &mut ended);
        let again = free.filter_map(take).collect();
        drop((engine, kept));
        Ok(again)
    }

    /// Keeps the tensors that a launch has written for outputs without a given one.
    fn keep(&self, given: &[Option<&Tensor>], outputs: &[Tensor]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let free = kept.iter_mut().filter(|output| !output.is_given(given));
        let ended: SmallVec<[Tensor; 4]> = free.filter_map(|output| output.keep(outputs)).collect();
        // No tensor may end under a lock.
        drop(kept);
        drop(ended);
    }

    /// Launches the executable with tensors for formals, and numbers for scalars. Returns the
    /// launch and its outputs.
    fn launch(
        &self,
        given: &[Option<&Tensor>],
        numbers: &[(ScalarId, ScalarValue)],
        lent: Option<&[TensorRef]>,
        stream: &Stream,
        section: Option<SectionId>,
        origin: &Origin,
    ) -> Result<(Arc<Run>, Vec<Tensor>)> {
        let (inner, machine) = (self, &self.machine);
        let operands = inner.operands(given)?;
        inner.check_numbers(numbers)?;
        let refs: SmallVec<[Option<TensorRef>; 8]> =
            given.iter().map(|tensor| tensor.map(Tensor::tensor_ref)).collect();
        // Kept where the emission waits for memory and begins again.
        let mut scalars = None;
        let (run, made) = machine.shared.emit(origin, |e| {
            e.open(stream.id)?;
            inner.check_extents(&e.builder, &refs)?;
            let mut instances = inner.instances.lock().unwrap_or_else(PoisonError::into_inner);
            let chosen = match lent {
                None => instances.choose(e, stream.id)?,
                Some(lent) => {
                    inner.check_workspaces(&e.builder, lent, &refs)?;
                    None
                }
            };
            let is_new = chosen.is_none() && lent.is_none();
            let memory = if is_new { inner.memory_specs()? } else { SmallVec::new() };
            let mut all: SmallVec<[LaunchOperand<'_>; 8]> = operands.iter().copied().collect();
            let own = lent.or(chosen.map(|k| &instances.all[k].memory[..]));
            match own {
                Some(own) => {
                    all.extend(own.iter().map(|t| LaunchOperand::Given(*t, workspace::ACCESS)));
                }
                None => {
                    let new = inner.program.memory.iter().zip(&memory);
                    all.extend(new.map(|((d, bytes), s)| LaunchOperand::Fresh(d, s, *bytes)));
                }
            }
            let (builder, router) = (&mut e.builder, &mut e.router);
            let scalars = scalars.get_or_insert_with(|| inner.draw(numbers));
            let mut named = None;
            if let Some(recorder) = &mut router.recorder {
                recorder.executable(inner.list, &inner.program.list);
                named = inner.named(scalars);
            }
            let launch = Launch {
                stream: stream.id,
                list: inner.list,
                operands: &all,
                attrs: named.as_ref(),
                section,
                origin,
            };
            let (point, tensors) = match builder.launch(router, &launch)? {
                Outcome::Done(launched) => launched,
                Outcome::Need(need) => return Ok(Outcome::Need(need)),
            };
            let formals = inner.program.formals.len();
            let new = |memory: &[TensorRef], router: &mut Router| {
                let memory = SmallVec::from_slice(memory);
                let tapes = router.open_tapes(&inner.program.tapes, stream.id)?;
                let runs = Recycled::new(MAX_RUNS);
                let graphs = Arc::new(InstanceGraphs::new(&inner.program));
                Ok::<_, Error>(Box::new(Instance { memory, tapes, graphs, runs, last: 0 }))
            };
            if lent.is_some() && instances.lent.is_none() {
                instances.lent = Some(new(&[], router)?);
            } else if is_new {
                let made = new(&tensors[formals..], router)?;
                instances.all.push(made);
            }
            let Instances { all, lent: of_lent, .. } = &mut *instances;
            let instance = match (lent, of_lent, chosen) {
                (Some(_), Some(of_lent), _) => &mut **of_lent,
                (_, _, Some(k)) => &mut *all[k],
                (_, _, None) => match all.last_mut() {
                    Some(last) => &mut **last,
                    None => {
                        let message = "a launch without an instance".to_owned();
                        return Err(Error::Internal { message });
                    }
                },
            };
            let run = inner.run(router, point, &tensors, scalars, instance, origin);
            router.launch(&run);
            if lent.is_none() {
                instances.note_launch(chosen);
            }
            let is_given = |formal: usize| given[formal].is_some();
            let (builder, router) = (&mut e.builder, &mut e.router);
            let made = inner.results(builder, router, &tensors[..formals], &is_given, origin)?;
            // Described under the lock that made them.
            let described = made.into_iter().map(|output| {
                Ok(match output {
                    MadeOutput::Given(formal) => MadeOutput::Given(formal),
                    MadeOutput::New(tensor) => MadeOutput::New(e.made(tensor)?),
                })
            });
            let made = described.collect::<Result<Vec<MadeOutput<MadeTensor>>>>()?;
            Ok(Outcome::Done((run, made)))
        })?;
        let result = |made| match made {
            MadeOutput::Given(formal) => given[formal].cloned(),
            MadeOutput::New(made) => Some(machine.tensor(made, stream, origin)),
        };
        let outputs = made.into_iter().map(result).collect::<Option<Vec<Tensor>>>();
        let missing = || Error::Internal { message: "an output has no tensor".to_owned() };
        Ok((run, outputs.ok_or_else(missing)?))
    }

    /// Returns the operands for the formals.
    fn operands<'a>(
        &'a self,
        given: &[Option<&'a Tensor>],
    ) -> Result<SmallVec<[LaunchOperand<'a>; 8]>> {
        let mut operands = SmallVec::new();
        for (k, (formal, tensor)) in self.program.formals.iter().zip(given).enumerate() {
            // A formal that the list does not use is only touched.
            let access = formal.access.unwrap_or(Access::Read);
            operands.push(match tensor {
                Some(tensor) => {
                    let made = self.machine.owns(tensor)?;
                    self.program.check(k, tensor.spec(), tensor.device())?;
                    LaunchOperand::Given(made, access)
                }
                None if formal.kind == FormalKind::Output => self.program.fresh(k),
                None => return Err(self.program.missing(k)),
            });
        }
        Ok(operands)
    }

    /// Checks that what the list uses of each given formal lies in its storage, and that no two
    /// formals of which one is written share bytes. What was bound was checked when it was.
    pub(super) fn check_extents(
        &self,
        builder: &InstructionsBuilder,
        given: &[Option<TensorRef>],
    ) -> Result<()> {
        let formals = &self.program.formals;
        let mut extents: SmallVec<[Extent; 8]> = SmallVec::new();
        for (formal, (declared, tensor)) in formals.iter().zip(given).enumerate() {
            let Some(tensor) = *tensor else { continue };
            let bytes = builder.storage_bytes(tensor)?;
            extents.push(Extent {
                formal,
                storage: builder.storage_of(tensor)?,
                bytes: self.program.extent(formal, builder.spec(tensor)?, bytes)?,
                is_written: declared.access.is_some_and(Access::writes),
                is_bound: declared.kind == FormalKind::Bound,
            });
        }
        let Some((one, other)) = conflict(&mut extents) else { return Ok(()) };
        let message = format!(
            "{:?} and {:?} share memory, and the list writes one of them; record one as a view of \
             the other",
            self.program.name(one),
            self.program.name(other)
        );
        Err(Error::Invalid { what: "launch", message })
    }

    /// Describes the private memory, for allocations.
    pub(super) fn memory_specs(&self) -> Result<SmallVec<[Arc<TensorSpec>; 1]>> {
        let bytes = self.program.memory.iter().map(|(_, bytes)| *bytes);
        bytes
            .map(|bytes| {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                TensorSpec::contiguous(DType::U8, &[bytes]).map(Arc::new)
            })
            .collect()
    }

    /// Puts a launch together, now that all its tensors exist.
    fn run(
        &self,
        router: &mut Router,
        at: Point,
        tensors: &[TensorRef],
        scalars: &[ScalarValue],
        instance: &mut Instance,
        origin: &Origin,
    ) -> Arc<Run> {
        let cancel_scope = router.cancel_scope.clone();
        let channels = self.program.channels.iter();
        let numbers: SmallVec<[u64; 2]> =
            channels.map(|(channel, count)| router.take_numbers(channel, *count)).collect();
        let formals = self.program.formals.len();
        let declared = self.program.formals.iter().map(|f| Some(&f.spec));
        let tapes: SmallVec<[Playing; 4]> = router.playing(&instance.tapes);
        let slots = || tensors.iter().filter_map(|t| router.slot(t.id));
        let bases = slots().zip(declared.chain(std::iter::repeat(None))).map(|(slot, declared)| {
            // The list's offsets count from the declared one.
            let size = slot.spec.dtype.size();
            // Private memory is declared to begin where its tensor does.
            let declared = declared.map_or(0, |declared| declared.layout.offset());
            let moved = slot.spec.layout.offset().wrapping_sub(declared).wrapping_mul(size);
            Base::new(slot.base.as_ptr().wrapping_add(moved))
        });
        let storages = slots().take(formals).map(|slot| slot.storage);
        let make = || Arc::new(Run::new(self.program.clone(), instance.graphs.clone()));
        instance.runs.take(Arc::get_mut, make, |run| {
            let (tapes, numbers) = (tapes.into_iter(), numbers.into_iter());
            run.renew((at, origin), bases, storages, tapes, cancel_scope, numbers);
            run.set_scalars(scalars);
        })
    }

    /// Returns the tensors of the outputs, and ends those that were made for none.
    pub(super) fn results(
        &self,
        builder: &mut InstructionsBuilder,
        sink: &mut dyn Sink,
        tensors: &[TensorRef],
        is_given: &dyn Fn(usize) -> bool,
        origin: &Origin,
    ) -> Result<SmallVec<[MadeOutput<TensorRef>; 4]>> {
        let mut made = SmallVec::with_capacity(self.program.outputs.len());
        let mut kept: SmallVec<[usize; 4]> = SmallVec::new();
        for OutputSpec { formal, spec, .. } in &self.program.outputs {
            let (declared, whole) = (&self.program.formals[*formal].spec, tensors[*formal]);
            if spec == declared && is_given(*formal) {
                made.push(MadeOutput::Given(*formal));
            } else if spec == declared && !kept.contains(formal) {
                kept.push(*formal);
                made.push(MadeOutput::New(whole));
            } else {
                let actual = builder.spec(whole)?.layout.offset();
                let moved = moved(spec, declared.layout.offset(), actual)?;
                made.push(MadeOutput::New(builder.view(sink, whole, moved, origin)?));
            }
        }
        for (k, formal) in self.program.formals.iter().enumerate() {
            if formal.kind == FormalKind::Output && !is_given(k) && !kept.contains(&k) {
                builder.release(sink, tensors[k], None, origin)?;
            }
        }
        Ok(made)
    }
}

/// Returns a view's layout in a storage where the tensor lies at another offset than declared.
fn moved(spec: &TensorSpec, declared: usize, actual: usize) -> Result<TensorSpec> {
    if declared == actual {
        return Ok(spec.clone());
    }
    let layout = &spec.layout;
    let offset = (layout.offset() + actual).checked_sub(declared).ok_or_else(|| {
        let message = format!("{spec} begins before its storage");
        Error::Invalid { what: "output", message }
    })?;
    TensorSpec::new(spec.dtype, Layout::strided(layout.shape(), layout.strides(), offset)?)
}
