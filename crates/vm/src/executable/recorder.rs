//! Lists recorded on formals, to be compiled.
//!
//! Long because the recorder has a method for each kind of instruction.

use std::fmt;
use std::sync::{Arc, PoisonError};

use millstream_instructions::builder::{EventRef, SectionId};
use millstream_instructions::{InstructionsBuilder, ListRecorder, TensorRef};
use millstream_runtime::engine::Engine;
use millstream_runtime::engine::router::Router;
use millstream_runtime::host::{Blob, SharedCallback};
use millstream_runtime::scope::origin::{self, at_caller};
use millstream_runtime::sync::MutexGuard;
use millstream_runtime::tapes::tape::FormalKind;
use millstream_types::{
    Access, CallbackId, DeviceId, Error, Origin, ReadId, Result, StreamId, StreamKey, StreamMode,
    StreamType, TensorSpec,
};

use crate::handle::Tensor;
use crate::handle::generator::Generator;
use crate::handle::lowering;
use crate::handle::machine::Machine;

use super::folded::FoldedCalls;
use super::gradients::RecordedGradients;
use super::recorded::{Recorded, outputs_of};
use super::{Declared, Signature};

/// A tensor of a list that is being recorded.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let mut r = machine.recorder();
/// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let y: RecordedTensor = r.call("relu", &[x]).run()?.remove(0);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedTensor(pub(super) TensorRef);

impl RecordedTensor {
    /// Returns a tensor of the machine that records a list ([`Recorder::list`]) as one of the list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// assert_eq!(RecordedTensor::of(&r.shown(&x)?), x);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn of(tensor: &Tensor) -> RecordedTensor {
        RecordedTensor(tensor.tensor_ref())
    }
}

/// Records a list on formals: inputs that each launch gives, tensors of the machine that are bound
/// to the list, and outputs.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, TensorSpec};
/// # let machine = Machine::new(MachineConfig::default())?;
/// let mut r: Recorder = machine.recorder();
/// let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
/// let y = r.call("relu", &[x]).run()?;
/// r.output("y", &y[0])?;
/// let executable = r.finish()?.compile()?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Recorder {
    pub(super) machine: Machine,
    /// The machine that checks and lists the calls, below its layers.
    pub(super) list: Machine,
    /// Keeps the formals that were shown as tensors of that machine.
    shown: Vec<Tensor>,
    formals: Vec<Declared>,
    /// The tensors that are bound, and whether each may change between launches.
    bound: Vec<(Tensor, RecordedTensor, bool)>,
    pub(super) outputs: Vec<(String, RecordedTensor)>,
    pub(super) sections: Vec<SectionId>,
    pub(super) callbacks: Vec<SharedCallback>,
    pub(super) reads: u32,
    pub(super) executables: u32,
    pub(super) device: DeviceId,
    pub(super) gradients: RecordedGradients,
    /// The numbers of the outputs that are gradients.
    kept: Vec<usize>,
    /// The generators that the list draws from, by number.
    pub(super) generators: Vec<Generator>,
    /// The first mistake of a function that is being recorded.
    pub(super) mistake: Option<Error>,
    /// The greatest magnitudes of results so far, if calls are checked for overflow.
    pub(super) magnitudes: Option<Vec<RecordedTensor>>,
}

impl Machine {
    /// Records a list. `record` declares its formals and makes its calls; nothing runs.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let recorded = machine.record(|r| {
    ///     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    ///     let y = r.call("relu", &[x]).run()?;
    ///     r.output("y", &y[0])
    /// })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of `record`; a name is declared twice; a critical section is left open.
    #[track_caller]
    pub fn record(&self, record: impl FnOnce(&mut Recorder) -> Result<()>) -> Result<Recorded> {
        let mut recorder = self.recorder();
        record(&mut recorder)?;
        recorder.finish()
    }

    /// Begins a recording as [`Machine::record`] does, for callers that cannot use a closure.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mut r = machine.recorder();
    /// let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let recorded = r.finish()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn recorder(&self) -> Recorder {
        Recorder {
            machine: self.clone(),
            list: self.of_list(),
            shown: Vec::new(),
            formals: Vec::new(),
            bound: Vec::new(),
            outputs: Vec::new(),
            sections: Vec::new(),
            callbacks: Vec::new(),
            reads: 0,
            executables: 0,
            device: self.shared.default_device.clone(),
            gradients: RecordedGradients::default(),
            kept: Vec::new(),
            generators: Vec::new(),
            mistake: None,
            magnitudes: None,
        }
    }
}

fn invalid(what: &'static str, message: String) -> Error {
    Error::Invalid { what, message }
}

/// Returns the list so far.
pub(super) fn list_of(engine: &mut Engine) -> &mut ListRecorder {
    engine.router.recorder.get_or_insert_default()
}

impl Recorder {
    /// Returns the state of the list.
    pub(super) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.list.shared.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Emits to the list, from the place of the caller.
    #[track_caller]
    pub(super) fn emit<T>(
        &self,
        emit: impl FnOnce(&mut InstructionsBuilder, &mut Router, &Origin) -> Result<T>,
    ) -> Result<T> {
        let origin = origin::caller();
        let mut engine = self.engine();
        let Engine { builder, router, .. } = &mut *engine;
        emit(builder, router, &origin).map_err(|e| e.at(&origin))
    }

    /// Returns the machine that records the list: calls on it, with tensors of
    /// [`Recorder::shown`], are recorded.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mut r = machine.recorder();
    /// let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let y = r.shown(&x)?.relu()?;
    /// r.output("y", &RecordedTensor::of(&y))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn list(&self) -> &Machine {
        &self.list
    }

    /// Returns a tensor of the list as one of the machine that records it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// assert!(r.shown(&x)?.read().is_err()); // there is nothing to read before a launch
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released.
    pub fn shown(&mut self, tensor: &RecordedTensor) -> Result<Tensor> {
        let made = self.engine().made(tensor.0)?;
        let tensor = self.list.unplaced(made);
        self.shown.push(tensor.clone());
        Ok(tensor)
    }

    /// Returns a stream of the list's own, made as the machine's stream of this key would be.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let second = r.stream(&StreamKey::compute(DeviceId::cpu(0), 1))?;
    /// r.call("relu", &[x]).on(second)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, or no policy serves the stream.
    #[track_caller]
    pub fn stream(&mut self, key: &StreamKey) -> Result<StreamId> {
        at_caller(self.engine().builder.stream(key))
    }

    /// Returns a stream as [`Recorder::stream`] does, in-order or a pool.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, StreamMode, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let key = StreamKey::compute(DeviceId::cpu(0), 1);
    /// let pool = r.stream_with_mode(&key, StreamMode::Pool)?;
    /// r.call("relu", &[x]).on(pool)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Recorder::stream`], or the list has it in another mode.
    #[track_caller]
    pub fn stream_with_mode(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        at_caller(self.engine().builder.stream_with_mode(key, mode))
    }

    /// Returns the stream of a call that names none: compute stream 0 of the machine's default
    /// device, or of the device of the operands, if none lies there.
    pub(super) fn default_stream<'t>(
        &mut self,
        operands: impl Iterator<Item = &'t RecordedTensor>,
    ) -> Result<StreamId> {
        // A tensor of another recorder is refused by the call.
        let devices = operands.filter_map(|tensor| self.device(tensor).ok());
        let devices: Vec<DeviceId> =
            devices.map(|device| lowering::compute_device(&device)).collect();
        let elsewhere = devices.first().filter(|_| !devices.contains(&self.device));
        let key = StreamKey::compute(elsewhere.unwrap_or(&self.device).clone(), 0);
        let builder = &mut self.engine().builder;
        let known = builder.streams().position(|decl| decl.key == key);
        known.map_or_else(|| builder.stream(&key), |at| Ok(StreamId(at as u16)))
    }

    /// Declares an input on the machine's default device.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mut r = machine.recorder();
    /// let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Recorder::input_on`].
    #[track_caller]
    pub fn input(&mut self, name: &str, spec: TensorSpec) -> Result<RecordedTensor> {
        let device = self.device.clone();
        self.input_on(name, spec, &device)
    }

    /// Declares an input: a tensor that each launch gives. The list may also write it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mut r = machine.recorder();
    /// let x = r.input_on("x", TensorSpec::contiguous(DType::F32, &[2])?, &DeviceId::cpu(0))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is another formal of this name, or no such device.
    #[track_caller]
    pub fn input_on(
        &mut self,
        name: &str,
        spec: TensorSpec,
        device: &DeviceId,
    ) -> Result<RecordedTensor> {
        let bytes = spec.span_bytes() as u64;
        self.input_in(name, spec, bytes, device)
    }

    /// Declares an input as [`Recorder::input_on`] does, in a storage of at least `bytes` bytes, of
    /// which the list may make other views.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mut r = machine.recorder();
    /// let spec = TensorSpec::contiguous(DType::F32, &[2])?;
    /// let x = r.input_in("x", spec, 64, &DeviceId::cpu(0))?; // in a storage of 64 bytes
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Recorder::input_on`], or the storage is too small for the layout.
    #[track_caller]
    pub fn input_in(
        &mut self,
        name: &str,
        spec: TensorSpec,
        bytes: u64,
        device: &DeviceId,
    ) -> Result<RecordedTensor> {
        at_caller(self.machine.policies().devices().probe(device))?;
        at_caller(self.formal(name, spec, bytes, device, Declared::new(FormalKind::Input)))
    }

    /// Brings a tensor of the machine into the list: all launches use it. The tensor lives as long
    /// as the executable. A tensor that shares its storage with one that is bound becomes a view of
    /// that one.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let w = Tensor::ones(2, DType::F32, &machine)?;
    /// let w = r.bind(&w)?; // the same in each launch
    /// let y = r.call("mul", &[x, w]).run()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// It is another machine's, or it was released.
    #[track_caller]
    pub fn bind(&mut self, tensor: &Tensor) -> Result<RecordedTensor> {
        at_caller(self.bound_as(tensor, false))
    }

    /// Brings a tensor of the machine into the list, as [`Recorder::bind`] does, whose elements
    /// stay the same: neither the list nor the program writes it from now on. The pass
    /// [`Pass::Fold`] makes calls of such tensors once.
    ///
    /// [`Pass::Fold`]: millstream_instructions::passes::Pass::Fold
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_instructions::passes::Pass;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let w = Tensor::from_slice(&[1.0f32, 2.0], (1, 2), &machine)?;
    /// let recorded = machine.record(|r| {
    ///     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    ///     let w = r.constant(&w)?;
    ///     let squared = r.call("mul", &[w, w]).run()?[0]; // made once
    ///     let y = r.call("mul", &[x, squared]).run()?;
    ///     r.output("y", &y[0])
    /// })?;
    /// let f = recorded.optimize(&[Pass::Fold], |_, _| ())?.compile()?;
    /// assert_eq!(f.folded().calls, 1);
    /// let x = Tensor::ones(2, DType::F32, &machine)?;
    /// let launched = f.launch().input("x", &x).run()?;
    /// assert_eq!(launched.output("y")?.to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Recorder::bind`], or a tensor of the same storage is bound as one that may change.
    #[track_caller]
    pub fn constant(&mut self, tensor: &Tensor) -> Result<RecordedTensor> {
        at_caller(self.bound_as(tensor, true))
    }

    fn bound_as(&mut self, tensor: &Tensor, is_constant: bool) -> Result<RecordedTensor> {
        let made = self.machine.owns(tensor)?;
        let engine = self.machine.shared.lock()?;
        // As formals of their own, tensors of one storage would be ordered as if they were apart.
        let storage = |tensor: TensorRef| engine.router.slot(tensor.id).map(|s| s.storage);
        let own = self.bound.iter().find(|(t, ..)| t.tensor_ref() == made);
        let beside = || self.bound.iter().find(|(t, ..)| storage(t.tensor_ref()) == storage(made));
        if let Some((known, inner, may_change)) = own.or_else(beside) {
            let (is_own, inner, may_change) = (known.tensor_ref() == made, *inner, *may_change);
            drop(engine);
            if is_constant && may_change {
                let message =
                    "its storage is bound already as one that may change; name it a constant first";
                return Err(invalid("constant", message.to_owned()));
            }
            if is_own {
                return Ok(inner);
            }
            let inner = self.view(&inner, tensor.spec().clone())?;
            self.bound.push((tensor.clone(), inner, may_change));
            return Ok(inner);
        }
        let bytes = engine.builder.storage_bytes(made)?;
        drop(engine);
        let kind = if is_constant { "constant" } else { "bound" };
        let name = format!("{kind} {}", self.bound.len());
        let declared = Declared::bound(tensor.clone(), is_constant);
        let spec = tensor.spec().clone();
        let device = tensor.device().clone();
        let inner = self.formal(&name, spec, bytes, &device, declared)?;
        self.bound.push((tensor.clone(), inner, !is_constant));
        Ok(inner)
    }

    /// Returns the number of formals so far.
    pub(super) fn formal_count(&self) -> usize {
        self.formals.len()
    }

    fn formal(
        &mut self,
        name: &str,
        spec: TensorSpec,
        bytes: u64,
        device: &DeviceId,
        declared: Declared,
    ) -> Result<RecordedTensor> {
        let mut engine = self.engine();
        if list_of(&mut engine).list().externals.iter().any(|e| e.name == name) {
            return Err(invalid("list", format!("the formal {name:?} is declared twice")));
        }
        let Engine { builder, router, .. } = &mut *engine;
        let inner = builder.import(router, spec, bytes, device)?;
        let external = builder.external(name, inner)?;
        list_of(&mut engine).external(external);
        drop(engine);
        self.formals.push(declared);
        Ok(RecordedTensor(inner))
    }

    /// Has each launch take so many draws of a generator that no call of the list uses: those that
    /// other parts of the program make.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let random = Generator::new(7);
    /// let mut r = machine.recorder();
    /// r.skip_draws(&random, 2);
    /// r.finish()?.compile()?.launch().run()?;
    /// assert_eq!(random.state(), GeneratorState { seed: 7, offset: 2 });
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn skip_draws(&mut self, generator: &Generator, draws: u64) {
        if draws > 0 {
            self.draws(generator, draws);
        }
    }

    /// Names a tensor as an output: each launch returns it. An output that is an input, or a view
    /// of one, is the given tensor itself or a view of it.
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
    ///
    /// # Errors
    /// There is another output of this name, or the tensor was released.
    #[track_caller]
    pub fn output(&mut self, name: &str, tensor: &RecordedTensor) -> Result<()> {
        at_caller(self.declare_output(name, tensor))
    }

    /// Names a gradient as an output: later launches write its tensor again, where nobody else has
    /// it. Returns its number.
    pub(crate) fn gradient(&mut self, name: &str, tensor: &RecordedTensor) -> Result<usize> {
        self.declare_output(name, tensor)?;
        self.kept.push(self.outputs.len() - 1);
        Ok(self.outputs.len() - 1)
    }

    fn declare_output(&mut self, name: &str, tensor: &RecordedTensor) -> Result<()> {
        self.engine().builder.spec(tensor.0)?;
        if self.outputs.iter().any(|(other, _)| other == name) {
            return Err(invalid("list", format!("the output {name:?} is declared twice")));
        }
        self.outputs.push((name.to_owned(), *tensor));
        Ok(())
    }

    /// Makes a tensor of unspecified content in the memory that a stream works on.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let s = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// let y = r.empty(&TensorSpec::contiguous(DType::F32, &[2])?, s)?;
    /// r.call("neg", &[x]).out(&[y]).run()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The shape exceeds all memory.
    #[track_caller]
    pub fn empty(&mut self, spec: &TensorSpec, stream: StreamId) -> Result<RecordedTensor> {
        let made = self.emit(|builder, list, at| builder.allocate_offline(list, stream, spec, at));
        made.map(RecordedTensor)
    }

    /// Makes a tensor of another dtype, shape or layout on the same storage. It costs no kernel.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let first = r.view(&x, TensorSpec::contiguous(DType::F32, &[1])?)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released or is held, or the view reaches past the storage.
    #[track_caller]
    pub fn view(&mut self, of: &RecordedTensor, spec: TensorSpec) -> Result<RecordedTensor> {
        let made = self.emit(|builder, list, at| builder.view(list, of.0, spec, at));
        made.map(RecordedTensor)
    }

    /// Ends a tensor that the list made: its memory is free for others.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let y = r.call("relu", &[x]).run()?.remove(0);
    /// r.release(y)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// It was released before, is a formal or an output, or is held.
    #[track_caller]
    pub fn release(&mut self, tensor: RecordedTensor) -> Result<()> {
        let origin = origin::caller();
        if self.is_formal(&tensor) {
            let message = "a list cannot release a formal".to_owned();
            return Err(invalid("release", message).at(&origin));
        }
        if let Some((name, _)) = self.outputs.iter().find(|(_, t)| *t == tensor) {
            return Err(invalid("release", format!("it is the output {name:?}")).at(&origin));
        }
        let section = self.sections.last().copied();
        self.emit(|builder, list, at| builder.release(list, tensor.0, section, at))
    }

    /// Returns whether a tensor is an input or was bound.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// assert!(r.is_formal(&x));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn is_formal(&self, tensor: &RecordedTensor) -> bool {
        let mut engine = self.engine();
        let recorder = list_of(&mut engine);
        let id = recorder.name_of(tensor.0.id);
        id.is_some_and(|id| recorder.list().externals.iter().any(|e| e.tensor == id))
    }

    /// Uses tensors without changing or reading them.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let s = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// r.touch(&[x], s)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor was released or is held.
    #[track_caller]
    pub fn touch(&mut self, tensors: &[RecordedTensor], stream: StreamId) -> Result<()> {
        let refs: Vec<TensorRef> = tensors.iter().map(|t| t.0).collect();
        let section = self.sections.last().copied();
        self.emit(|builder, list, at| builder.touch(list, stream, &refs, section, at)).map(drop)
    }

    /// Reads a tensor on the host at each launch; [`Launched::take_read`](super::Launched) returns
    /// the bytes, in row-major order without gaps.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let s = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// let read = r.read(&x, s)?; // for `Launched::take_read`
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released or is held, or the stream runs no reads.
    #[track_caller]
    pub fn read(&mut self, tensor: &RecordedTensor, stream: StreamId) -> Result<ReadId> {
        let read = ReadId(self.reads);
        let section = self.sections.last().copied();
        self.emit(|builder, list, at| {
            builder.sync_read(list, stream, tensor.0, read, section, at)
        })?;
        self.reads += 1;
        Ok(read)
    }

    /// Calls a function with a tensor's memory at each launch, on a host thread.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Access, DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let s = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// r.access(&x, Access::Read, s, |blob| {
    ///     println!("{} bytes", blob.to_bytes()?.len());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released or is held, or lies in memory that the host cannot address.
    #[track_caller]
    pub fn access(
        &mut self,
        tensor: &RecordedTensor,
        access: Access,
        stream: StreamId,
        function: impl Fn(&mut Blob<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let origin = origin::caller();
        let device = self.device(tensor)?;
        let capabilities = self.machine.policies().devices().capabilities(&device);
        if !capabilities.map_err(|e| e.at(&origin))?.host_memory {
            let message = format!("a host function cannot use the memory of {device}");
            return Err(invalid("access", message).at(&origin));
        }
        let callback = CallbackId(self.callbacks.len() as u32);
        let section = self.sections.last().copied();
        self.emit(|builder, list, at| {
            builder.access_blob(list, stream, tensor.0, access, callback, section, at)
        })?;
        self.callbacks.push(Arc::new(function));
        Ok(())
    }

    /// Puts a barrier between all earlier and all later instructions of the list; a `global` one
    /// meets all ranks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// r.barrier(false)?; // of this rank alone
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// No policy serves barriers.
    #[track_caller]
    pub fn barrier(&mut self, global: bool) -> Result<()> {
        let stream = at_caller(self.host_stream(StreamType::BARRIER))?;
        self.emit(|builder, list, at| builder.barrier(list, stream, global, at)).map(drop)
    }

    /// Begins an exclusive hold of tensors: until it ends, only calls within it use them. The list
    /// orders it among its own instructions; a launch as a whole is ordered by its formals.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// r.begin_section(&[x])?;
    /// r.call("neg_", &[x]).run()?;
    /// r.end_section()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor was released or is held.
    #[track_caller]
    pub fn begin_section(&mut self, tensors: &[RecordedTensor]) -> Result<()> {
        let stream = at_caller(self.host_stream(StreamType::CRITICAL_SECTION))?;
        let refs: Vec<TensorRef> = tensors.iter().map(|t| t.0).collect();
        let outer = self.sections.last().copied();
        self.sections.push(self.emit(|builder, list, at| {
            builder.begin_nested_section(list, stream, &refs, outer, at)
        })?);
        Ok(())
    }

    /// Ends the innermost hold.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// r.begin_section(&[x])?;
    /// r.end_section()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// None is open.
    #[track_caller]
    pub fn end_section(&mut self) -> Result<()> {
        let origin = origin::caller();
        let none = || invalid("critical section", "none is open".to_owned()).at(&origin);
        let section = self.sections.pop().ok_or_else(none)?;
        self.emit(|builder, list, at| builder.end_critical_section(list, section, at)).map(drop)
    }

    pub(super) fn host_stream(&mut self, ty: StreamType) -> Result<StreamId> {
        self.engine().builder.stream(&StreamKey::new(DeviceId::cpu(0), ty, 0))
    }

    /// Records an event of the list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let s = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// let event = r.record_event(s)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The stream is not the list's.
    #[track_caller]
    pub fn record_event(&mut self, stream: StreamId) -> Result<EventRef> {
        self.emit(|builder, list, at| builder.record_event(list, stream, at))
    }

    /// Orders a stream behind an event of the list.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let a = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// let b = r.stream(&StreamKey::compute(DeviceId::cpu(0), 1))?;
    /// let event = r.record_event(a)?;
    /// r.wait_event(b, &event)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The stream is not the list's.
    #[track_caller]
    pub fn wait_event(&mut self, stream: StreamId, event: &EventRef) -> Result<()> {
        self.emit(|builder, list, at| builder.wait_event(list, stream, event, at))
    }

    /// Orders a stream behind everything submitted to another one so far.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, StreamKey, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let a = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
    /// let b = r.stream(&StreamKey::compute(DeviceId::cpu(0), 1))?;
    /// r.wait_stream(b, a)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A stream is not the list's.
    #[track_caller]
    pub fn wait_stream(&mut self, stream: StreamId, source: StreamId) -> Result<()> {
        self.emit(|builder, list, at| builder.wait_stream(list, stream, source, at))
    }

    /// Returns dtype, shape and layout of a tensor.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// assert_eq!(r.spec(&x)?.to_string(), "f32[2]");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// It was released.
    #[track_caller]
    pub fn spec(&self, tensor: &RecordedTensor) -> Result<TensorSpec> {
        at_caller(self.engine().builder.spec(tensor.0).cloned())
    }

    /// Returns the device whose memory holds a tensor.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// assert_eq!(r.device(&x)?, DeviceId::cpu(0));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// It was released.
    #[track_caller]
    pub fn device(&self, tensor: &RecordedTensor) -> Result<DeviceId> {
        at_caller(self.engine().builder.device(tensor.0).cloned())
    }

    /// Ends the recording.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mut r = machine.recorder();
    /// # let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    /// let y = r.call("relu", &[x]).run()?;
    /// r.output("y", &y[0])?;
    /// let recorded = r.finish()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A critical section is open, or an output was released.
    #[track_caller]
    pub fn finish(self) -> Result<Recorded> {
        at_caller(self.finished())
    }

    fn finished(mut self) -> Result<Recorded> {
        let gradients = self.finish_gradients()?;
        self.finish_overflow()?;
        let Recorder { machine, list, mut formals, outputs, callbacks, .. } = self;
        let Recorder { kept, generators, .. } = self;
        let mut engine = list.shared.lock()?;
        let Engine { builder, router, .. } = &mut *engine;
        builder.all_sections_ended()?;
        let recorder = router.recorder.take().unwrap_or_default();
        let mut named = Vec::with_capacity(outputs.len());
        for (name, tensor) in outputs {
            let spec = builder.spec(tensor.0)?.clone();
            let id = recorder.name_of(tensor.0.id);
            let unnamed = || Error::Internal { message: format!("{name} is not in the list") };
            named.push((name.clone(), id.ok_or_else(unnamed)?, spec));
        }
        let mut list = builder.finish_list(recorder);
        let outputs = outputs_of(&mut list, named)?;
        formals.resize(list.externals.len(), Declared::new(FormalKind::Output));
        let folded = FoldedCalls::default();
        let signature =
            Signature { formals, folded, outputs, callbacks, gradients, kept, generators };
        Ok(Recorded::new(machine, list, signature))
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("list", list_of(&mut self.engine()).list()).finish()
    }
}
