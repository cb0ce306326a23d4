//! A whole program as an executable.

use std::cell::OnceCell;
use std::sync::Arc;

use millstream_instructions::InstructionList;
use millstream_instructions::passes::Remat;
use millstream_trace::{Program, ValueRef};
use millstream_types::{Error, Origin};
use millstream_vm::{Executable, Machine, RecordedTensor, Recorder, Tensor, with_origin};

use crate::error::RunError;
use crate::execution::Execution;
use crate::executor::Executor;
use crate::lower::Lowered;
use crate::options::RunOptions;

/// Compiles a program: the tensors of the trace are its inputs, by name, and its outputs are
/// outputs. With `reads`, the outputs of each launch are read: those of a device with graphs then
/// lie in host memory, to which the launch itself copies them.
///
/// # Errors
/// A statement cannot stand in an executable, with its place.
pub(crate) fn compile(
    machine: &Machine,
    program: &Arc<Program>,
    lowered: &Lowered,
    options: &RunOptions,
    reads: bool,
) -> Result<Replayed, RunError> {
    // Places are those of the trace.
    with_origin(&Origin::Unknown, || compiled(machine, program, lowered, options, reads))
}

fn compiled(
    machine: &Machine,
    program: &Arc<Program>,
    lowered: &Lowered,
    options: &RunOptions,
    reads: bool,
) -> Result<Replayed, RunError> {
    let mut execution =
        Execution::new(Executor::recording(machine), program, lowered, lowered.main.events);
    execution.declare_streams()?;
    for (value, tensor) in (0..).zip(&program.tensors) {
        let device = tensor.device.as_ref().unwrap_or(&options.device);
        let (spec, bytes) = (tensor.spec.clone(), tensor.storage_bytes as u64);
        let declare = |list: &mut Recorder| list.input_in(&tensor.name, spec, bytes, device);
        let inner = execution.executor.formal(declare);
        let at = |e: Error| RunError::at(program, tensor.site.span(), &e);
        execution.set(ValueRef(value), inner.map_err(at)?);
    }
    execution.hold_tensors(&options.device, |_| true)?;
    let drawn = program.imported.as_ref().map_or(0, |imported| imported.drawn);
    if drawn > 0 {
        execution.executor.draw();
    }
    execution.run(&lowered.main)?;
    execution.gather_outputs()?;
    execution.executor.end_draws(drawn);
    let graphs = machine.policies().devices().capabilities(&options.device);
    let on_host = reads && options.graphs && graphs.is_ok_and(|can| can.graphs);
    let mut outputs = Vec::with_capacity(program.outputs.len());
    for output in &program.outputs {
        let at = |e: Error| RunError::at(program, output.site.span(), &e);
        let tensor = output.value.and_then(|value| execution.get(value)).map(RecordedTensor::of);
        let unmade = || Error::Internal { message: format!("'{}' was not made", output.name) };
        let tensor = tensor.ok_or_else(unmade).map_err(at)?;
        match on_host {
            true => outputs.push((output.name.as_str(), tensor)),
            false => {
                let recorder = execution.executor.recorder().map_err(at)?;
                recorder.output(&output.name, &tensor).map_err(at)?;
            }
        }
    }
    let whole = |e: Error| RunError::whole(program, &e);
    execution.executor.recorder().and_then(|list| list.outputs_on_host(&outputs)).map_err(whole)?;
    let recorded = execution.executor.finish().map_err(whole)?;
    let mut list = None;
    let recorded = options.planned(recorded, &[]);
    let recorded = recorded.optimize(options.passes_of_executables(), |pass, after| {
        if options.emit_after == Some(pass) {
            list = Some(after.clone());
        }
    });
    let recorded = recorded.map_err(whole)?;
    let remat = recorded.remat_plans().to_vec();
    let executable = recorded.compile_as_is().map_err(whole)?;
    Ok(Replayed { executable, list, remat, tensors: OnceCell::new() })
}

/// A compiled program.
pub(crate) struct Replayed {
    pub(crate) executable: Executable,
    /// The list after the pass that the options name.
    pub(crate) list: Option<InstructionList>,
    /// The plans of its memory on devices with a budget.
    pub(crate) remat: Vec<Remat>,
    /// The tensors of its first launch, in whose memory later ones find theirs.
    pub(crate) tensors: OnceCell<Vec<Tensor>>,
}

/// Launches a compiled program on the tensors of the trace, and gives the outputs their tensors.
///
/// # Errors
/// The launch is refused.
pub(crate) fn launch(
    executable: &Executable,
    program: &Program,
    tensors: &[Tensor],
    execution: &mut Execution<'_>,
) -> Result<(), RunError> {
    let origin = program.origin(program.source.span(0..0));
    let named = program.tensors.iter().zip(tensors);
    let launch = executable.launch().origin(origin);
    let launch =
        named.fold(launch, |launch, (declared, tensor)| launch.input(&declared.name, tensor));
    let launched = launch.run().map_err(|e| RunError::whole(program, &e))?;
    for (output, tensor) in program.outputs.iter().zip(launched.outputs()) {
        if let Some(value) = output.value {
            execution.set(value, tensor.clone());
        }
    }
    Ok(())
}
