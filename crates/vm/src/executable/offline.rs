//! Launches emitted to a builder without a machine: in a list that is recorded, and in a dry run.

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::builder::{Launch, LaunchOperand, SectionId};
use millstream_instructions::{InstructionsBuilder, Outcome, Sink, TensorRef};
use millstream_types::{
    Access, Attrs, Layout, ListId, Origin, Result, ScalarId, ScalarValue, StreamId, TensorSpec,
};

use millstream_runtime::tapes::tape::{FormalKind, OutputSpec};
use millstream_types::Error;

use super::{Executable, ExecutableInner};

/// The place of a launch that is emitted without a machine.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{DType, DeviceId, ListId, Origin};
/// # use millstream_types::{StreamKey, StreamType, TensorSpec};
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let executable = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let catalog = Box::new(Catalog(machine.policies().clone()));
/// # let config = BuilderConfig::default();
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let mut sink = OfflineSink::default();
/// # let spec = TensorSpec::contiguous(DType::F32, &[2])?;
/// # let cpu = DeviceId::cpu(0);
/// # let computes = builder.stream(&StreamKey::compute(cpu.clone(), 0))?;
/// # let x = builder.allocate_offline(&mut sink, computes, &spec, &Origin::Unknown)?;
/// let key = StreamKey::new(cpu, StreamType::LAZY_JOB_LAUNCHER, 0);
/// let stream = builder.stream(&key)?;
/// let (list, origin) = (ListId(0), &Origin::Unknown);
/// let launch = OfflineLaunch { stream, list, section: None, workspaces: &[], origin };
/// let mut launches = OfflineLaunches::new(executable);
/// let made = launches.launch(&mut builder, &mut sink, &[("x", x)], &[], &[], launch)?;
/// assert_eq!(builder.spec(made[0])?.to_string(), "f32[2]");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OfflineLaunch<'a> {
    /// The stream of the launch, of type lazy-job.
    pub stream: StreamId,
    /// The name of the executable in the list.
    pub list: ListId,
    /// The section that the launch belongs to.
    pub section: Option<SectionId>,
    /// The tensors in whose memory it computes; none if it has memory of its own.
    pub workspaces: &'a [TensorRef],
    /// The origin of the launch.
    pub origin: &'a Origin,
}

/// Launches of an executable for a dry run. All formals are inputs or outputs: an executable with
/// bound tensors belongs to a machine.
///
/// The private memory is allocated by the first launch and serves all others, as on a machine.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_instructions::builder::OfflineSink;
/// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
/// # use millstream_stream_policy::Catalog;
/// # use millstream_types::{DType, DeviceId, ListId, Origin};
/// # use millstream_types::{StreamKey, StreamType, TensorSpec};
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let executable = machine.record(|r| {
/// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// #     let y = r.call("relu", &[x]).run()?;
/// #     r.output("y", &y[0])
/// # })?.compile()?;
/// # let catalog = Box::new(Catalog(machine.policies().clone()));
/// # let config = BuilderConfig::default();
/// # let ops = Arc::new(millstream_ops::standard());
/// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
/// # let mut sink = OfflineSink::default();
/// # let spec = TensorSpec::contiguous(DType::F32, &[2])?;
/// # let cpu = DeviceId::cpu(0);
/// # let computes = builder.stream(&StreamKey::compute(cpu.clone(), 0))?;
/// # let x = builder.allocate_offline(&mut sink, computes, &spec, &Origin::Unknown)?;
/// let key = StreamKey::new(cpu, StreamType::LAZY_JOB_LAUNCHER, 0);
/// let stream = builder.stream(&key)?;
/// let (list, origin) = (ListId(0), &Origin::Unknown);
/// let launch = OfflineLaunch { stream, list, section: None, workspaces: &[], origin };
/// let mut launches = OfflineLaunches::new(executable);
/// let made = launches.launch(&mut builder, &mut sink, &[("x", x)], &[], &[], launch)?;
/// assert_eq!(builder.spec(made[0])?.to_string(), "f32[2]");
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct OfflineLaunches {
    executable: Executable,
    memory: SmallVec<[TensorRef; 1]>,
}

impl OfflineLaunches {
    /// Returns an executable without a launch.
    ///
    /// ```
    /// # use millstream_types::{DType, TensorSpec};
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let executable = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// let launches = OfflineLaunches::new(executable);
    /// assert!(launches.executable().list().instructions.len() > 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn new(executable: Executable) -> OfflineLaunches {
        OfflineLaunches { executable, memory: SmallVec::new() }
    }

    /// Returns the executable.
    ///
    /// ```
    /// # use millstream_types::{DType, TensorSpec};
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let executable = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// let launches = OfflineLaunches::new(executable);
    /// assert!(launches.executable().list().instructions.len() > 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn executable(&self) -> &Executable {
        &self.executable
    }

    /// Launches with tensors for inputs and outputs, and numbers for scalars, by name. Returns the
    /// outputs, in the order in which they were recorded.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_instructions::builder::OfflineSink;
    /// # use millstream_instructions::{InstructionsBuilder, BuilderConfig};
    /// # use millstream_stream_policy::Catalog;
    /// # use millstream_types::{DType, DeviceId, ListId, Origin};
    /// # use millstream_types::{StreamKey, StreamType, TensorSpec};
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let executable = machine.record(|r| {
    /// #     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// #     let y = r.call("relu", &[x]).run()?;
    /// #     r.output("y", &y[0])
    /// # })?.compile()?;
    /// # let catalog = Box::new(Catalog(machine.policies().clone()));
    /// # let config = BuilderConfig::default();
    /// # let ops = Arc::new(millstream_ops::standard());
    /// # let mut builder = InstructionsBuilder::new(&config, ops, catalog);
    /// # let mut sink = OfflineSink::default();
    /// # let spec = TensorSpec::contiguous(DType::F32, &[2])?;
    /// # let cpu = DeviceId::cpu(0);
    /// # let computes = builder.stream(&StreamKey::compute(cpu.clone(), 0))?;
    /// # let x = builder.allocate_offline(&mut sink, computes, &spec, &Origin::Unknown)?;
    /// let key = StreamKey::new(cpu, StreamType::LAZY_JOB_LAUNCHER, 0);
    /// let stream = builder.stream(&key)?;
    /// let (list, origin) = (ListId(0), &Origin::Unknown);
    /// let launch = OfflineLaunch { stream, list, section: None, workspaces: &[], origin };
    /// let mut launches = OfflineLaunches::new(executable);
    /// let made = launches.launch(&mut builder, &mut sink, &[("x", x)], &[], &[], launch)?;
    /// assert_eq!(builder.spec(made[0])?.to_string(), "f32[2]");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`LaunchBuilder::run`](super::LaunchBuilder::run), without those of a machine's memory.
    pub fn launch(
        &mut self,
        builder: &mut InstructionsBuilder,
        sink: &mut dyn Sink,
        inputs: &[(&str, TensorRef)],
        outputs: &[(&str, TensorRef)],
        scalars: &[(&str, ScalarValue)],
        launch: OfflineLaunch<'_>,
    ) -> Result<Vec<TensorRef>> {
        let made = self.make(builder, sink, [inputs, outputs], scalars, launch);
        made.map_err(|e| e.at(launch.origin))
    }

    fn make(
        &mut self,
        builder: &mut InstructionsBuilder,
        sink: &mut dyn Sink,
        [inputs, outputs]: [&[(&str, TensorRef)]; 2],
        scalars: &[(&str, ScalarValue)],
        launch: OfflineLaunch<'_>,
    ) -> Result<Vec<TensorRef>> {
        let inner = &self.executable.0;
        let mut given: SmallVec<[Option<TensorRef>; 8]> = SmallVec::new();
        given.resize(inner.program.formals.len(), None);
        for (kind, named) in [(FormalKind::Input, inputs), (FormalKind::Output, outputs)] {
            for (name, tensor) in named {
                given[inner.program.formal(kind, name)?] = Some(*tensor);
            }
        }
        let numbered =
            scalars.iter().map(|(name, value)| Ok((inner.scalar(name, *value)?, *value)));
        let numbered: SmallVec<[(ScalarId, ScalarValue); 4]> = numbered.collect::<Result<_>>()?;
        inner.check_numbers(&numbered)?;
        let scalars = inner.program.list.given_scalars(|k, declared| {
            let given = numbered.iter().find(|(scalar, _)| scalar.index() == k);
            given.map_or(declared.value, |(_, value)| *value).into()
        });
        let scalars = scalars.map(Arc::new);
        let scalars = scalars.as_ref();
        if let Some(lent) = inner.lent_offline(builder, launch.workspaces, &given)? {
            let made = inner.launch_offline(builder, sink, &given, &lent, scalars, launch)?;
            return Ok(made.0);
        }
        let (outputs, memory) =
            inner.launch_offline(builder, sink, &given, &self.memory, scalars, launch)?;
        self.memory = memory;
        Ok(outputs)
    }
}

impl ExecutableInner {
    /// Returns the workspaces of a launch in the order of the devices with private memory; none if
    /// it names none.
    fn lent_offline(
        &self,
        builder: &InstructionsBuilder,
        given: &[TensorRef],
        formals: &[Option<TensorRef>],
    ) -> Result<Option<SmallVec<[TensorRef; 1]>>> {
        let described = given.iter().map(|&t| Ok((t, builder.spec(t)?, builder.device(t)?)));
        let lent = self.workspaces(&described.collect::<Result<SmallVec<[_; 1]>>>()?)?;
        if let Some(lent) = &lent {
            self.check_workspaces(builder, lent, formals)?;
        }
        Ok(lent)
    }

    /// Emits a launch with these tensors for the formals and `attrs` for the scalars. The private
    /// memory is `memory`, or new if that is empty. Returns the outputs and the private memory.
    pub(super) fn launch_offline(
        &self,
        builder: &mut InstructionsBuilder,
        sink: &mut dyn Sink,
        given: &[Option<TensorRef>],
        memory: &[TensorRef],
        attrs: Option<&Arc<Attrs>>,
        launch: OfflineLaunch<'_>,
    ) -> Result<(Vec<TensorRef>, SmallVec<[TensorRef; 1]>)> {
        let OfflineLaunch { stream, list, section, origin, .. } = launch;
        let formals = &self.program.formals;
        let specs = self.memory_specs()?;
        let mut operands: SmallVec<[LaunchOperand<'_>; 8]> = SmallVec::new();
        for (k, (formal, given)) in formals.iter().zip(given).enumerate() {
            // A formal that the list does not use is only touched.
            let access = formal.access.unwrap_or(Access::Read);
            operands.push(match given {
                Some(tensor) => {
                    self.program.check(k, builder.spec(*tensor)?, builder.device(*tensor)?)?;
                    LaunchOperand::Given(*tensor, access)
                }
                None if formal.kind == FormalKind::Output => self.program.fresh(k),
                None => return Err(self.program.missing(k)),
            });
        }
        self.check_extents(builder, given)?;
        if memory.is_empty() {
            let new = self.program.memory.iter().zip(&specs);
            operands.extend(new.map(|((d, bytes), s)| LaunchOperand::Fresh(d, s, *bytes)));
        } else {
            operands.extend(memory.iter().map(|t| LaunchOperand::Given(*t, Access::Write)));
        }
        let launch = Launch { stream, list, operands: &operands, attrs, section, origin };
        let tensors = loop {
            match builder.launch(sink, &launch)? {
                Outcome::Done((_, tensors)) => break tensors,
                Outcome::Need(need) => builder.assume(sink, need, origin)?,
            }
        };
        let mut outputs = Vec::with_capacity(self.program.outputs.len());
        let mut kept: SmallVec<[usize; 4]> = SmallVec::new();
        for OutputSpec { formal, spec, .. } in &self.program.outputs {
            let (declared, whole) = (&formals[*formal].spec, tensors[*formal]);
            let is_new = given[*formal].is_none();
            outputs.push(if spec == declared && !(is_new && kept.contains(formal)) {
                kept.push(*formal);
                whole
            } else {
                let actual = builder.spec(whole)?.layout.offset();
                let moved = moved(spec, declared.layout.offset(), actual)?;
                builder.view(sink, whole, moved, origin)?
            });
        }
        for (k, formal) in formals.iter().enumerate() {
            if formal.kind == FormalKind::Output && given[k].is_none() && !kept.contains(&k) {
                builder.release(sink, tensors[k], None, origin)?;
            }
        }
        Ok((outputs, tensors[formals.len()..].iter().copied().collect()))
    }
}

/// Returns a view's layout in a storage where the tensor lies at another offset than declared.
pub(super) fn moved(spec: &TensorSpec, declared: usize, actual: usize) -> Result<TensorSpec> {
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
