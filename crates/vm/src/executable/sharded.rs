//! Functions on global tensors, compiled once for all ranks of a mesh.
//!
//! The calls of the function are noted, divided among the ranks together, and recorded on this
//! rank's parts ([`survey`]). All ranks plan alike, so their lists meet in their collectives.
//!
//! Long because its items have examples.

use std::fmt;
use std::sync::Arc;

use millstream_ops::boxing::{Entries, Shardings};
use millstream_runtime::scope::origin::{self, with_origin};
use millstream_types::{Error, Mesh, Origin, Result, Sbp, Sharding, TensorSpec};

use crate::handle::global::survey::{self, Noted};
use crate::handle::global::{self, Class, Layouts, agreement};
use crate::handle::machine::Machine;
use crate::handle::{Stream, Tensor};

use super::{Executable, Recorded};

impl Machine {
    /// Begins to compile a function of global tensors for the ranks of a mesh, which all do so.
    /// What the shardings of its inputs and outputs leave open, and the division of each call,
    /// follow from the whole program: the ranks exchange little, and no work is done twice.
    /// Compilation waits for all ranks of the mesh, which compare their functions.
    ///
    /// The function runs twice, on tensors without elements. Global tensors that it takes from
    /// elsewhere are bound, and stay as they are held. A tensor that it redistributes is held so.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// use millstream_types::{DType, Mesh, TensorSpec, sbp::{OPEN, S}};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let mesh = Mesh::new([0])?; // of one rank
    /// let f = machine
    ///     .shard(&mesh, |inputs| Ok(vec![inputs[0].matmul(&inputs[1])?.relu()?]))
    ///     .input(TensorSpec::contiguous(DType::F32, &[4, 2])?, [S(0)])
    ///     .input(TensorSpec::contiguous(DType::F32, &[2, 3])?, [OPEN])
    ///     .output([S(0)])
    ///     .compile()?;
    /// let x = Tensor::from_slice_global(&[1.0f32; 8], (4, 2), &machine, &mesh, [S(0)])?;
    /// let w = Tensor::from_slice_global(&[0.5f32; 6], (2, 3), &machine, &mesh, [S(1)])?;
    /// let y = f.call(&[&x, &w])?;
    /// assert_eq!(y[0].full_tensor()?.to_vec::<f32>()?, [1.0; 12]);
    /// println!("{}", f.layouts()); // how each call takes and returns its tensors
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn shard<F>(&self, mesh: &Mesh, function: F) -> ShardBuilder<F>
    where
        F: Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    {
        ShardBuilder {
            machine: self.clone(),
            mesh: mesh.clone(),
            function,
            inputs: Vec::new(),
            outputs: Vec::new(),
            origin: origin::caller(),
            scope: origin::scope(),
        }
    }
}

/// A function that is to be compiled for a mesh.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, Mesh, TensorSpec, sbp::{B, OPEN}};
/// # let machine = Machine::new(MachineConfig::default())?;
/// let f = machine
///     .shard(&Mesh::new([0])?, |inputs| Ok(vec![inputs[0].sum(0)?]))
///     .input(TensorSpec::contiguous(DType::F32, &[4, 2])?, [OPEN])
///     .output([B])
///     .compile()?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[must_use = "nothing is compiled before `compile`"]
pub struct ShardBuilder<F> {
    machine: Machine,
    mesh: Mesh,
    function: F,
    inputs: Vec<(TensorSpec, Entries)>,
    outputs: Vec<Entries>,
    origin: Origin,
    /// The program's own origin scope, in which the function runs.
    scope: Option<Origin>,
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> ShardBuilder<F> {
    /// Declares the next input: the spec of the whole, and how the ranks along each axis hold it;
    /// [`OPEN`](millstream_types::sbp::OPEN) where that follows from the program.
    pub fn input(
        mut self,
        spec: TensorSpec,
        sbp: impl IntoIterator<Item = impl Into<Option<Sbp>>>,
    ) -> Self {
        self.inputs.push((spec, sbp.into_iter().map(Into::into).collect()));
        self
    }

    /// Declares how the ranks along each axis hold the next output. Outputs that are not declared
    /// are open.
    pub fn output(mut self, sbp: impl IntoIterator<Item = impl Into<Option<Sbp>>>) -> Self {
        self.outputs.push(sbp.into_iter().map(Into::into).collect());
        self
    }

    /// Compiles the function, with the usual passes.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{Mesh, sbp::B};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mesh = Mesh::new([0])?;
    /// let w = Tensor::from_slice_global(&[1.0f32, 2.0], 2, &machine, &mesh, [B])?; // is bound
    /// let f = machine.shard(&mesh, |_| Ok(vec![w.neg()?])).compile()?;
    /// assert_eq!(f.call(&[])?[0].to_local()?.to_vec::<f32>()?, [-1.0, -2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of the function, or as [`Recorder::function`](super::Recorder::function); the program
    /// lacks a rank of the mesh; an input or output cannot be held as declared; the function
    /// returns a tensor that is not held by the mesh, or makes other calls when it runs again; or
    /// two ranks of the mesh compile different functions.
    pub fn compile(self) -> Result<Sharded> {
        self.compile_with(Recorded::compile)
    }

    /// Compiles the function as `compile` does with this rank's list. It does the same on all
    /// ranks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, DeviceId, Mesh, TensorSpec, sbp::OPEN};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let spec = TensorSpec::contiguous(DType::F32, &[4])?;
    /// let f = machine
    ///     .shard(&Mesh::new([0])?, |inputs| Ok(vec![inputs[0].relu()?]))
    ///     .input(spec, [OPEN])
    ///     .compile_with(|list| list.remat([(DeviceId::cpu(0), 1 << 20)]).compile())?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ShardBuilder::compile`], or that of `compile`.
    pub fn compile_with(
        self,
        compile: impl FnOnce(Recorded) -> Result<Executable>,
    ) -> Result<Sharded> {
        let origin = self.origin.clone();
        with_origin(&origin, || self.compiled(compile)).map_err(|e| e.at(&origin))
    }

    fn compiled(self, compile: impl FnOnce(Recorded) -> Result<Executable>) -> Result<Sharded> {
        global::check_mesh(&self.machine, &self.mesh)?;
        let (machine, mesh) = (self.machine.clone(), self.mesh.clone());
        let mut lines: Vec<String> = self.declarations().collect();
        let made = self.made_of(&mut lines, compile);
        // A rank that fails says so, since the others wait for it.
        lines.extend(
            made.as_ref().err().map(|error| format!("the error: {}", error.without_place())),
        );
        let agreed = agreement::check(&machine, &mesh, &lines);
        made.and_then(|made| agreed.map(|()| made))
    }

    /// Describes the inputs and outputs as declared.
    fn declarations(&self) -> impl Iterator<Item = String> {
        let inputs = self.inputs.iter().enumerate().map(|(k, (spec, entries))| {
            format!("the input {k} {} held as {entries:?}", spec.brief())
        });
        let outputs = self.outputs.iter().enumerate();
        inputs.chain(outputs.map(|(k, entries)| format!("the output {k} held as {entries:?}")))
    }

    /// Compiles the function. Adds its calls to the description that the ranks compare.
    fn made_of(
        self,
        lines: &mut Vec<String>,
        compile: impl FnOnce(Recorded) -> Result<Executable>,
    ) -> Result<Sharded> {
        let stream = self.machine.current_stream()?;
        let (results, noted) = self.note(&stream)?;
        lines.extend(noted.lines(self.inputs.len()));
        lines.push(format!("the results {results:?}"));
        let shardings = self.shardings(&noted, &results)?;
        let Divided { inputs, outputs, list, layouts } =
            self.divided(&noted, shardings, results.len(), &stream)?;
        let executable = list.map(compile).transpose()?;
        let ShardBuilder { machine, mesh, .. } = self;
        Ok(Sharded { machine, mesh, inputs, outputs, executable, layouts })
    }

    /// Returns an input of the function, with this rank's part if it has one.
    fn given(&self, (spec, sharding): Class, part: Option<Tensor>, stream: &Stream) -> Tensor {
        global::wrap(part, spec, sharding, global::Views::default(), stream, &self.origin)
    }

    /// Runs the function. Its results must be held by the mesh.
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let made = origin::in_scope(self.scope.clone(), || (self.function)(inputs))?;
        made.iter().try_for_each(|tensor| tensor.held_by(&self.mesh))?;
        Ok(made)
    }

    /// Runs the function on tensors without parts. Returns its results, by their numbers, and its
    /// calls.
    fn note(&self, stream: &Stream) -> Result<(Vec<usize>, Noted)> {
        let whole = Arc::new(Sharding::broadcast(&self.mesh));
        let inputs = self.inputs.iter().map(|(spec, _)| (Arc::new(spec.clone()), whole.clone()));
        let inputs: Vec<Tensor> = inputs.map(|class| self.given(class, None, stream)).collect();
        let mut noted = None;
        // What the function draws and leaves is undone with this recording.
        self.machine.recorder().function(&[], |_| {
            noted = Some(survey::note(&self.mesh, &inputs, |inputs| self.run(inputs))?);
            Ok(Vec::new())
        })?;
        noted.ok_or_else(|| Error::Internal { message: "a function was not run".to_owned() })
    }

    /// Chooses how the ranks hold the inputs and results, and the division of each call.
    fn shardings(&self, noted: &Noted, results: &[usize]) -> Result<Shardings> {
        let ShardBuilder { mesh, outputs, .. } = self;
        let invalid = |message: String| Error::Invalid { what: "function", message };
        if outputs.len() > results.len() {
            let (declared, made) = (outputs.len(), results.len());
            return Err(invalid(format!("{declared} outputs are declared, and it returns {made}")));
        }
        if let Some(at) = outputs.iter().position(|entries| entries.len() != mesh.rank()) {
            let (axes, named) = (mesh.rank(), outputs[at].len());
            return Err(invalid(format!(
                "mesh {mesh} has {axes} axes, and output {at} names {named}"
            )));
        }
        let open = std::iter::repeat_with(|| mesh.shape().iter().map(|_| None).collect());
        let requests = results.iter().copied().zip(outputs.iter().cloned().chain(open));
        let entries: Vec<Entries> =
            self.inputs.iter().map(|(_, entries)| entries.clone()).collect();
        noted.shardings(&self.machine, &entries, requests)
    }

    /// Runs the function on this rank's parts with the divisions that were chosen, and records its
    /// calls.
    fn divided(
        &self,
        noted: &Noted,
        shardings: Shardings,
        results: usize,
        stream: &Stream,
    ) -> Result<Divided> {
        let Shardings { values, calls: pinned, mut requests, received } = shardings;
        let inputs = self.inputs.iter().zip(values);
        let inputs: Vec<Class> =
            inputs.map(|((spec, _), held)| (Arc::new(spec.clone()), Arc::new(held))).collect();
        // Those of the results come last.
        let targets = requests.split_off(requests.len() - results).into_iter().map(Arc::new);
        let targets: Vec<Arc<Sharding>> = targets.collect();
        let at = global::coordinates(&self.machine, &self.mesh);
        let mut r = self.machine.recorder();
        let mut parts = Vec::new();
        if let Some(at) = &at {
            for (k, (spec, sharding)) in inputs.iter().enumerate() {
                let spec = sharding.local_spec(spec, at)?;
                parts.push(r.input_on(&format!("input {k}"), spec, &stream.key().device)?);
            }
        }
        let (mut outputs, mut calls) = (Vec::new(), Vec::new());
        let recorded = r.function(&parts, |parts| {
            let mut parts = parts.iter().cloned();
            let given = inputs.iter().map(|class| self.given(class.clone(), parts.next(), stream));
            let given: Vec<Tensor> = given.collect();
            let (made, made_calls) = survey::make(noted, pinned, || {
                let made = self.run(&given)?;
                survey::check_results(targets.len(), made.len())?;
                let held = made.iter().zip(&targets).map(|(tensor, target)| {
                    global::held_as(tensor.clone(), target, stream, &self.origin)
                });
                held.collect::<Result<Vec<Tensor>>>()
            })?;
            calls = made_calls;
            outputs.extend(made.iter().filter_map(global::class));
            match &at {
                None => Ok(Vec::new()),
                Some(_) => made.iter().map(|made| global::part(made).cloned()).collect(),
            }
        })?;
        for (k, output) in recorded.iter().enumerate() {
            r.output(&format!("output {k}"), output)?;
        }
        let list = at.map(|_| r.finish()).transpose()?;
        let class = |(spec, held): &Class| (spec.brief(), Sharding::clone(held));
        let [own, made] = [&inputs, &outputs].map(|all| all.iter().map(class).collect());
        let layouts = Layouts { inputs: own, calls, outputs: made, received };
        Ok(Divided { inputs, outputs, list, layouts })
    }
}

/// A function that was divided, and this rank's list of it; none outside of the mesh.
struct Divided {
    inputs: Vec<Class>,
    outputs: Vec<Class>,
    list: Option<Recorded>,
    layouts: Layouts,
}

/// A function that is compiled for the ranks of a mesh.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::{DType, Mesh, TensorSpec, sbp::OPEN};
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let spec = TensorSpec::contiguous(DType::F32, &[2])?;
/// let function = |inputs: &[Tensor]| Ok(vec![inputs[0].relu()?]);
/// let f: Sharded = machine.shard(&Mesh::new([0])?, function).input(spec, [OPEN]).compile()?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct Sharded {
    machine: Machine,
    mesh: Mesh,
    inputs: Vec<Class>,
    outputs: Vec<Class>,
    executable: Option<Executable>,
    layouts: Layouts,
}

impl Sharded {
    /// Makes the call: a launch of this rank's list. An input that is held otherwise is
    /// redistributed before. A rank outside the mesh may make the call too, and launches nothing.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, Mesh, TensorSpec, sbp::{OPEN, S}};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mesh = Mesh::new([0])?;
    /// # let f = machine
    /// #     .shard(&mesh, |inputs| Ok(vec![inputs[0].relu()?]))
    /// #     .input(TensorSpec::contiguous(DType::F32, &[2])?, [OPEN])
    /// #     .compile()?;
    /// let x = Tensor::from_slice_global(&[-1.0f32, 2.0], 2, &machine, &mesh, [S(0)])?;
    /// let y = f.call(&[&x])?.remove(0);
    /// assert_eq!(y.full_tensor()?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An input is not global, on another mesh, or of another dtype or shape; the launch fails.
    #[track_caller]
    pub fn call(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let origin = origin::caller();
        with_origin(&origin, || self.made(inputs, &origin)).map_err(|e| e.at(&origin))
    }

    fn made(&self, inputs: &[&Tensor], origin: &Origin) -> Result<Vec<Tensor>> {
        let invalid = |message: String| Error::Invalid { what: "launch", message };
        if inputs.len() != self.inputs.len() {
            let (expected, given) = (self.inputs.len(), inputs.len());
            return Err(invalid(format!("expected {expected} inputs, got {given}")));
        }
        let stream = self.machine.current_stream()?;
        let mut held = Vec::with_capacity(inputs.len());
        for (k, (input, (spec, sharding))) in inputs.iter().zip(&self.inputs).enumerate() {
            input.held_by(&self.mesh)?;
            if (input.dtype(), input.shape()) != (spec.dtype, spec.shape()) {
                let (expected, given) = (spec.brief(), input.spec().brief());
                return Err(invalid(format!("input {k} is {expected}, got {given}")));
            }
            let input = global::held_as((*input).clone(), sharding, &stream, origin)?;
            held.push(input.contiguous()?);
        }
        let mut parts = Vec::new();
        if let Some(executable) = &self.executable {
            let held = held.iter().map(global::part).collect::<Result<Vec<&Tensor>>>()?;
            let mut launch = executable.launch();
            for (k, part) in held.iter().enumerate() {
                launch = launch.input(&format!("input {k}"), part);
            }
            parts = launch.run()?.outputs()[..self.outputs.len()].to_vec();
        }
        let mut parts = parts.into_iter();
        let outputs = self.outputs.iter().map(|(spec, sharding)| {
            let (spec, views) = (spec.clone(), global::Views::default());
            global::wrap(parts.next(), spec, sharding.clone(), views, &stream, origin)
        });
        Ok(outputs.collect())
    }

    /// Returns this rank's list; `None` outside the mesh. Its inputs and outputs are the parts,
    /// named `input 0`, `output 0` and so on.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, Mesh, TensorSpec, sbp::OPEN};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mesh = Mesh::new([0])?;
    /// # let f = machine
    /// #     .shard(&mesh, |inputs| Ok(vec![inputs[0].relu()?]))
    /// #     .input(TensorSpec::contiguous(DType::F32, &[2])?, [OPEN])
    /// #     .compile()?;
    /// println!("{}", f.executable().unwrap().describe());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn executable(&self) -> Option<&Executable> {
        self.executable.as_ref()
    }

    /// Returns how the ranks hold the tensors of the function, and what they exchange.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, Mesh, TensorSpec, sbp::OPEN};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let mesh = Mesh::new([0])?;
    /// # let f = machine
    /// #     .shard(&mesh, |inputs| Ok(vec![inputs[0].relu()?]))
    /// #     .input(TensorSpec::contiguous(DType::F32, &[2])?, [OPEN])
    /// #     .compile()?;
    /// assert_eq!(f.layouts().received, 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }
}

impl fmt::Debug for Sharded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sharded { mesh, inputs, outputs, .. } = self;
        write!(f, "Sharded({} inputs, {} outputs, on {mesh})", inputs.len(), outputs.len())
    }
}
