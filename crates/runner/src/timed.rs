//! Runs a program repeatedly for its time alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_trace::{Action, Block, Body, Program, ValueRef};
use millstream_types::{Error, StreamKey, TensorSpec};
use millstream_vm::{Executable, Machine, Tensor};

use crate::dry_run::Subject;
use crate::error::{RunError, placed};
use crate::execution::Execution;
use crate::lower::{Lowered, lower};
use crate::machine_executor::MachineExecutor;
use crate::options::{Rank, RunOptions};
use crate::{dry_run, executables, upload};

/// A program of statements whose tensors exist, ready for its runs.
pub struct Timed {
    machine: Machine,
    program: Arc<Program>,
    lowered: Lowered,
    /// The program's tensors, each with a copy of its first content.
    tensors: Vec<[Tensor; 2]>,
    executables: Vec<Executable>,
}

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The time from the first statement until everything has completed.
    pub wall: Duration,
    /// The time from the first statement until the last one was submitted.
    pub issued: Duration,
}

impl Timed {
    /// Checks the program and makes its tensors. Its outputs are not read, and its own tensors live
    /// until the end.
    ///
    /// # Errors
    /// A mistake in the program, or a list of instructions.
    pub fn new(program: &Program, options: &RunOptions) -> Result<Timed, RunError> {
        let mut program = program.clone();
        program.outputs.clear();
        let there = program.tensors.len();
        let Body::Statements(Block { statements, .. }) = &mut program.body else {
            return Err(RunError::whole(&program, &unfit("a list of instructions")));
        };
        for statement in statements.iter_mut() {
            if let Action::Release(values) = &mut statement.action {
                values.retain(|value| value.index() >= there);
            }
        }
        let program = Arc::new(program);
        let whole = |e: Error| RunError::whole(&program, &e);
        let lowered = lower(&program, options)?;
        let policies = &options.policies().map_err(whole)?;
        dry_run::check(Subject { program: &program, lowered: &lowered, options, policies })?;
        let machine = options.open(Rank::single()).map_err(whole)?;
        Execution::new(MachineExecutor::new(&machine), &program, &lowered, 0).declare_streams()?;
        let device =
            |k: usize| program.tensors[k].device.clone().unwrap_or_else(|| options.device.clone());
        let made = upload::all(&machine, &program, device)?;
        let before = upload::all(&machine, &program, device)?;
        let executables = executables::compile(&machine, &program, &lowered, options, Some(&made))?;
        let tensors = made.into_iter().zip(before).map(|(tensor, as_it_was)| [tensor, as_it_was]);
        Ok(Timed { machine, tensors: tensors.collect(), program, lowered, executables })
    }

    /// Runs it once. The tensors get their first content before the clock starts.
    ///
    /// # Errors
    /// The refusal of a statement, or the failure of an instruction.
    pub fn run(&self) -> Result<Taken, RunError> {
        let program = &*self.program;
        let whole = |e: Error| RunError::whole(program, &e);
        for [tensor, before] in &self.tensors {
            // No op writes to a tensor whose elements share memory.
            if !is_spread(tensor.spec()) {
                let home = StreamKey::compute(tensor.device().clone(), 0);
                let home = self.machine.stream(&home).map_err(whole)?;
                let copied = self.machine.call("copy", &[before]).out(&[tensor]).on(&home);
                copied.map_err(whole)?;
            }
        }
        self.machine.synchronize().map_err(whole)?;
        let main = &self.lowered.main;
        let start = Instant::now();
        let mut executor = MachineExecutor::new(&self.machine);
        executor.executables.clone_from(&self.executables);
        let mut execution = Execution::new(executor, program, &self.lowered, main.events);
        for (value, [tensor, _]) in (0..).zip(&self.tensors) {
            execution.set(ValueRef(value), tensor.clone());
        }
        execution.run(main)?;
        let issued = start.elapsed();
        self.machine.synchronize().map_err(whole)?;
        let wall = start.elapsed();
        match execution.executor.failures.first() {
            Some(failure) => {
                let place = program.source.span(0..0);
                Err(RunError { errors: vec![placed(program, place, failure)], runtime: true })
            }
            None => Ok(Taken { wall, issued }),
        }
    }
}

/// Returns whether elements share memory along a dimension.
fn is_spread(spec: &TensorSpec) -> bool {
    let strides = spec.layout.strides().iter();
    spec.shape().iter().zip(strides).any(|(&n, &stride)| n > 1 && stride == 0)
}

fn unfit(what: &str) -> Error {
    Error::Invalid { what: "a program to be timed", message: format!("{what} is not served") }
}
