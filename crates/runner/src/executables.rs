//! The executables that a trace declares, compiled.

use millstream_trace::{Executable as Declared, Program};
use millstream_types::{Error, Origin};
use millstream_vm::{Executable, Machine, Recorded, RecordedTensor, Recorder, Tensor, with_origin};

use crate::error::RunError;
use crate::execution::Execution;
use crate::executor::Executor;
use crate::lower::{Lowered, LoweredBlock};
use crate::options::RunOptions;

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
) -> Result<Vec<Executable>, RunError> {
    let one = |(declared, block): (&Declared, &LoweredBlock)| {
        let at = |e: Error| RunError::at(program, declared.span, &e);
        let mut execution =
            Execution::new(Executor::recording(machine), program, lowered, block.events);
        for input in &declared.inputs {
            let span = program.value(input.value).span;
            let device = input.device.as_ref().unwrap_or(&options.device);
            let declare =
                |list: &mut Recorder| list.input_on(&input.name, input.spec.clone(), device);
            let made = execution.executor.formal(declare);
            execution.set(input.value, made.map_err(|e| RunError::at(program, span, &e))?);
        }
        // Arguments name them by their positions.
        for (name, value) in &declared.scalars {
            let recorder = execution.executor.recorder().map_err(at)?;
            recorder.scalar(name, *value).map_err(at)?;
        }
        for &value in &declared.bound {
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
        execution.run(block)?;
        outputs(&mut execution, program, declared)?;
        let recorded = execution.executor.finish().map_err(at)?;
        let better = options
            .planned(recorded, &declared.remat)
            .optimize(options.passes_of_executables(), |_, _| ());
        better.and_then(Recorded::compile_as_is).map_err(at)
    };
    // Places are those of the trace.
    let all = || program.executables.iter().zip(&lowered.executables).map(one).collect();
    with_origin(&Origin::Unknown, all)
}

/// Names the outputs of a recorded executable, which must be what the trace says.
fn outputs(
    execution: &mut Execution<'_>,
    program: &Program,
    declared: &Declared,
) -> Result<(), RunError> {
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
        let recorder = execution.executor.recorder().map_err(at)?;
        recorder.output(&result.name, &RecordedTensor::of(&tensor)).map_err(at)?;
    }
    Ok(())
}
