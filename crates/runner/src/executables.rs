//! The executables that a trace declares, compiled.

use millstream_trace::{Executable as Declared, Program, ValueRef};
use millstream_types::{Error, Origin};
use millstream_vm::{
    Executable, GlobalFormals, Machine, Recorded, RecordedTensor, Recorder, Tensor, with_origin,
};

use crate::error::RunError;
use crate::execution::Execution;
use crate::executor::Executor;
use crate::lower::{Lowered, LoweredBlock};
use crate::options::RunOptions;

/// A compiled executable.
#[derive(Clone)]
pub(crate) struct Compiled {
    /// None on a rank outside of its mesh.
    pub(crate) executable: Option<Executable>,
    /// Its global tensors, if it is on a mesh: inputs, then those that it is bound to; and results.
    pub(crate) formals: Option<GlobalFormals>,
}

/// Compiles the executables of a program. Those tensors of the trace that they use are bound to
/// them, if they are given; otherwise they are inputs, by name.
///
/// # Errors
/// A statement cannot stand in an executable, or an output is not what the trace says, with its
/// place.
pub(crate) fn compile(
    machine: &Machine,
    program: &Program,
    lowered: &Lowered,
    options: &RunOptions,
    tensors: Option<&[Tensor]>,
) -> Result<Vec<Compiled>, RunError> {
    let rank = machine.communicator().rank() as u32;
    let one = |(declared, block): (&Declared, &LoweredBlock)| {
        let at = |e: Error| RunError::at(program, declared.span, &e);
        let mut execution =
            Execution::new(Executor::recording(machine), program, lowered, block.events);
        for input in &declared.inputs {
            let span = program.value(input.value).span;
            let device = input.device.as_ref().unwrap_or(&options.device);
            let own = input.held.as_ref().map_or(Ok(Some(input.spec.clone())), |held| {
                let (held, spec) = (held.sharding()?, &input.spec);
                held.mesh().coordinates(rank).map(|at| held.local_spec(spec, &at)).transpose()
            });
            if let Some(spec) = own.map_err(at)? {
                let declare = |list: &mut Recorder| list.input_on(&input.name, spec, device);
                let made = execution.executor.formal(declare);
                execution.set(input.value, made.map_err(|e| RunError::at(program, span, &e))?);
            }
            if let Some(held) = &input.held {
                execution.hold(input.value, &input.spec, held, device)?;
            }
        }
        // Arguments name them by their positions.
        for (name, value) in &declared.scalars {
            let recorder = execution.executor.recorder().map_err(at)?;
            recorder.scalar(name, *value).map_err(at)?;
        }
        let has = |value: &&ValueRef| value.index() < program.tensors.len();
        for &value in declared.bound.iter().filter(has) {
            let made = execution.executor.formal(|list| match tensors {
                Some(tensors) => list.bind(&tensors[value.index()]),
                None => {
                    let tensor = &program.tensors[value.index()];
                    let device = tensor.device.as_ref().unwrap_or(&options.device);
                    let (spec, bytes) = (tensor.spec.clone(), tensor.storage_bytes as u64);
                    list.input_in(&tensor.name, spec, bytes, device)
                }
            });
            execution.set(value, made.map_err(at)?);
        }
        execution.hold_tensors(&options.device, |value| declared.bound.contains(&value))?;
        let inputs = declared.inputs.iter().map(|input| &input.value).chain(&declared.bound);
        let inputs: Vec<Tensor> =
            inputs.filter_map(|value| execution.get(*value)).cloned().collect();
        execution.run(block)?;
        let (outputs, _parts) = outputs(&mut execution, program, declared)?;
        let mesh = inputs.iter().chain(&outputs).find_map(Tensor::mesh);
        let is_outside = mesh.is_some_and(|mesh| mesh.coordinates(rank).is_none());
        let formals = mesh.is_some().then_some(GlobalFormals { inputs, outputs });
        if is_outside {
            return Ok(Compiled { executable: None, formals });
        }
        let recorded = execution.executor.finish().map_err(at)?;
        let better = options
            .planned(recorded, &declared.remat)
            .optimize(options.passes_of_executables(), |_, _| ());
        let executable = Some(better.and_then(Recorded::compile_as_is).map_err(at)?);
        Ok(Compiled { executable, formals })
    };
    // Places are those of the trace.
    let all = || program.executables.iter().zip(&lowered.executables).map(one).collect();
    with_origin(&Origin::Unknown, all)
}

/// Names the outputs of a recorded executable, which must be what the trace says. Returns them,
/// and those of the list, which live until it ends.
fn outputs(
    execution: &mut Execution<'_>,
    program: &Program,
    declared: &Declared,
) -> Result<(Vec<Tensor>, Vec<Tensor>), RunError> {
    let (mut outputs, mut named) = (Vec::new(), Vec::<Tensor>::new());
    for result in &declared.results {
        let at = |e: Error| RunError::at(program, result.span, &e);
        let unmade = || Error::Internal { message: format!("'{}' was not made", result.name) };
        let tensor = execution.get(result.value).ok_or_else(unmade).map_err(at)?.clone();
        let device = tensor.device();
        result.check(program, tensor.spec())?;
        if let Some(said) = result.device.as_ref().filter(|said| *said != device) {
            let name = &result.name;
            let message = format!("the output '{name}' is on {device}, and the trace says {said}");
            return Err(RunError::input(program.error(result.span, message)));
        }
        if let Some(mut own) = execution.own(result.value) {
            // Each output of a list is named after its tensor, so two outputs have two tensors.
            let is_named = named.iter().any(|other| other.tensor_ref() == own.tensor_ref());
            if tensor.sharding().is_some() && is_named {
                own = own.view_storage(own.spec().clone()).map_err(at)?;
            }
            let recorder = execution.executor.recorder().map_err(at)?;
            recorder.output(&result.name, &RecordedTensor::of(&own)).map_err(at)?;
            named.push(own);
        }
        outputs.push(tensor);
    }
    Ok((outputs, named))
}
