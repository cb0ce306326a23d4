//! Launches that were made.

use std::fmt;
use std::sync::Arc;

use millstream_runtime::scope::origin::{self, at_caller};
use millstream_runtime::tapes::run::Run;
use millstream_types::nearest::did_you_mean;
use millstream_types::{Error, ReadId, Result, ScalarId};

use crate::handle::generator::{Generator, GeneratorState};
use crate::handle::{Completion, Tensor};

use super::Executable;

/// A launch that was made: its completion, and its results.
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
/// let launched: Launched = f.launch().input("x", &x).run()?;
/// assert_eq!(launched.output("y")?.to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Launched {
    pub(super) run: Arc<Run>,
    pub(super) completion: Completion,
    pub(super) outputs: Vec<Tensor>,
    /// Whether it overflowed, if that was asked.
    pub(super) overflow: Option<Tensor>,
}

impl Launched {
    /// Returns the tensor of an output. It may not be computed yet; its uses wait for it.
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
    /// assert_eq!(launched.output("y")?.shape(), [2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The executable has no output of this name.
    #[track_caller]
    pub fn output(&self, name: &str) -> Result<&Tensor> {
        let outputs = &self.run.program.outputs;
        let found = outputs.iter().position(|o| o.name == name);
        at_caller(found.map(|k| &self.outputs[k]).ok_or_else(|| Error::Unknown {
            what: "output",
            name: name.to_owned(),
            help: did_you_mean(name, outputs.iter().map(|o| o.name.as_str())),
        }))
    }

    /// Returns a number, of f32 without dimensions: 1 if a float that the launch has written is
    /// infinite or NaN, else 0. It may not be computed yet. [`Optimisers`](crate::optimisers) take
    /// it as `unless`, so the host need not read it.
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
    /// let launched = f.launch().input("x", &x).check_overflow().run()?;
    /// assert_eq!(launched.overflowed()?.item::<f32>()?, 0.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Neither [`LaunchBuilder::check_overflow`](crate::LaunchBuilder) nor
    /// [`Recorder::check_overflow`](crate::Recorder::check_overflow) was called.
    #[track_caller]
    pub fn overflowed(&self) -> Result<&Tensor> {
        let missing = || Error::Invalid {
            what: "launch",
            message: "nothing looked for infinities; launch with `check_overflow()`, or \
                      record with it"
                .to_owned(),
        };
        at_caller(self.overflow.as_ref().ok_or_else(missing))
    }

    /// Returns the tensors of all outputs, in the order in which they were recorded.
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
    /// assert_eq!(f.launch().input("x", &x).run()?.outputs().len(), 1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    /// Returns the generators of the executable, and the launch's draws from each.
    pub(crate) fn draws(
        &self,
        executable: &Executable,
    ) -> impl Iterator<Item = (Generator, Vec<GeneratorState>)> {
        let list = &self.run.program.list;
        let scalar = |id: ScalarId| self.run.words.get(id.index()).copied().unwrap_or(0) as u64;
        list.generators.iter().zip(&executable.0.generators).map(move |(declared, generator)| {
            let (seed, first) = (scalar(declared.seed), scalar(declared.offset));
            let state = |k| GeneratorState { seed, offset: first.wrapping_add(k) };
            (generator.clone(), (0..declared.draws).map(state).collect())
        })
    }

    /// Returns the tensors of all outputs, in the order in which they were recorded.
    pub(crate) fn into_outputs(self) -> Vec<Tensor> {
        self.outputs
    }

    /// Returns the completion of the launch, to be awaited as a future or later.
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
    /// f.launch().input("x", &x).run()?.completion().wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn completion(&self) -> &Completion {
        &self.completion
    }

    /// Blocks until the launch has completed. Failures of other launches are none of its own;
    /// [`Machine::failures`] has them.
    ///
    /// [`Machine::failures`]: crate::Machine::failures
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
    /// f.launch().input("x", &x).run()?.wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Why the first call of this launch failed or was skipped, at every wait.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        self.completion.wait_at(None, origin::caller())
    }

    /// Takes the bytes of a host read of the list; none if the launch has not reached it, or they
    /// were taken.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mut read = None;
    /// let recorded = machine.record(|r| {
    ///     let x = r.input("x", TensorSpec::contiguous(DType::U8, &[2])?)?;
    ///     let s = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    ///     read = Some(r.read(&x, s)?);
    ///     Ok(())
    /// })?;
    /// let x = Tensor::from_slice(&[1u8, 2], 2, &machine)?;
    /// let launched = recorded.compile()?.launch().input("x", &x).run()?;
    /// launched.wait()?;
    /// let bytes = launched.take_read(read.expect("it was recorded"))?;
    /// assert_eq!(bytes, Some(vec![1, 2]));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The list has no such read; or the failure of the read, or of what it reads.
    #[track_caller]
    pub fn take_read(&self, read: ReadId) -> Result<Option<Vec<u8>>> {
        let found = self.run.program.reads.iter().position(|r| *r == read);
        let unknown = || Error::Unknown { what: "read", name: read.to_string(), help: None };
        let found = at_caller(found.ok_or_else(unknown))?;
        at_caller(self.run.take_read(found).transpose())
    }
}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched")
            .field("completion", &self.completion)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}
