//! Runs a program repeatedly for its time alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_trace::{Action, Block, Body, Program, ValueRef};
use millstream_types::{Error, StreamKey, TensorSpec};
use millstream_vm::{Executable, GraphStatus, Machine, Tensor};

use crate::dry_run::Subject;
use crate::error::{RunError, placed};
use crate::executables::Compiled;
use crate::execution::Execution;
use crate::executor::Executor;
use crate::lower::{Lowered, Step, StepAction, lower};
use crate::options::RunOptions;
use crate::outputs::{Read, compare};
use crate::report::{OutputReport, RunReport};
use crate::straight::{Slots, Straight};
use crate::{dry_run, executables, replay, upload};

/// A program of statements whose tensors exist, ready for its runs.
pub struct Timed {
    machine: Machine,
    program: Arc<Program>,
    lowered: Lowered,
    options: RunOptions,
    /// The program's tensors, each with a copy of its first content.
    tensors: Vec<[Tensor; 2]>,
    executables: Vec<Compiled>,
    /// The program's straight code, if it only calls, reads and releases.
    straight: Option<Straight>,
    /// The program as an executable, once it was launched.
    replayed: Option<Executable>,
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
    /// Checks the program and makes its tensors. Its own tensors live until the end.
    ///
    /// # Errors
    /// A mistake in the program, or a list of instructions.
    pub fn new(program: &Program, options: &RunOptions) -> Result<Timed, RunError> {
        let mut program = program.clone();
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
        let subject = Subject { program: &program, lowered: &lowered, options };
        dry_run::check(subject, Vec::new())?;
        let machine = options.open().map_err(whole)?;
        Execution::new(Executor::new(&machine), &program, &lowered, 0).declare_streams()?;
        let device =
            |k: usize| program.tensors[k].device.clone().unwrap_or_else(|| options.device.clone());
        let made = upload::all(&machine, &program, device)?;
        let before = upload::all(&machine, &program, device)?;
        let executables = executables::compile(&machine, &program, &lowered, options, Some(&made))?;
        let tensors = made.into_iter().zip(before).map(|(tensor, as_it_was)| [tensor, as_it_was]);
        let straight = match program.wholes.as_deref() {
            None | Some([]) => Straight::new(&machine, &lowered),
            Some(_) => Ok(None),
        };
        let straight = straight.map_err(whole)?;
        let (tensors, options, replayed) = (tensors.collect(), options.clone(), None);
        Ok(Timed { machine, tensors, program, lowered, options, executables, straight, replayed })
    }

    /// Returns the number of calls of a program that only calls, reads and releases.
    pub fn calls(&self) -> Option<usize> {
        let is_call = |step: &&Step| matches!(step.action, StepAction::Call(_));
        self.straight.as_ref().map(|_| self.lowered.main.steps.iter().filter(is_call).count())
    }

    /// Runs it once, call by call. The tensors get their first content before the clock starts.
    /// A program of calls, reads and releases runs as straight code of the public API would.
    ///
    /// # Errors
    /// The refusal of a statement, or the failure of an instruction.
    pub fn run(&self) -> Result<Taken, RunError> {
        self.run_once().map(|(taken, _)| taken)
    }

    /// Runs it once, and compares its outputs with the expected ones.
    ///
    /// # Errors
    /// As [`Timed::run`], or an output cannot be read.
    pub fn check(&self) -> Result<Vec<OutputReport>, RunError> {
        let (_, slots) = self.run_once()?;
        let outputs: Vec<Option<&Tensor>> = self
            .program
            .outputs
            .iter()
            .map(|output| output.value.and_then(|value| slots.get(value.index())?.as_ref()))
            .collect();
        self.compare(&outputs)
    }

    /// Compiles it to an executable, if that was not done before.
    ///
    /// # Errors
    /// A statement cannot stand in an executable.
    pub fn compile(&mut self) -> Result<(), RunError> {
        if self.replayed.is_none() {
            let Timed { machine, program, options, .. } = &*self;
            let options = &options.clone().replay(true);
            let lowered = lower(program, options)?;
            let compiled = replay::compile(machine, program, &lowered, options, false)?;
            self.replayed = Some(compiled.executable);
        }
        Ok(())
    }

    /// Launches it once, compiled to an executable.
    ///
    /// # Errors
    /// It cannot be compiled, the launch is refused, or an instruction fails.
    pub fn launch(&mut self) -> Result<Taken, RunError> {
        self.launch_once().map(|(taken, _)| taken)
    }

    /// Returns how launches were executed on devices with graphs; nothing before it is compiled.
    pub fn graphs(&self) -> Vec<GraphStatus> {
        self.replayed.as_ref().map(Executable::graphs).unwrap_or_default()
    }

    /// Launches it once, and compares its outputs with the expected ones.
    ///
    /// # Errors
    /// As [`Timed::launch`], or an output cannot be read.
    pub fn check_launch(&mut self) -> Result<Vec<OutputReport>, RunError> {
        let (_, outputs) = self.launch_once()?;
        self.compare(&outputs.iter().map(Some).collect::<Vec<_>>())
    }

    /// Returns the time of a run's walk over its steps, in which no call is made. It is part of the
    /// time of a run.
    ///
    /// # Errors
    /// The program does more than calls, reads and releases.
    pub fn walk(&self) -> Result<Duration, RunError> {
        let whole = |e: Error| RunError::whole(&self.program, &e);
        let straight = self.straight.as_ref().ok_or_else(|| whole(unfit("a launch or a wait")))?;
        let mut slots = self.slots();
        let start = Instant::now();
        straight.run(None, &self.lowered.main.steps, &mut slots).map_err(whole)?;
        Ok(start.elapsed())
    }

    fn run_once(&self) -> Result<(Taken, Slots), RunError> {
        let program = &*self.program;
        let whole = |e: Error| RunError::whole(program, &e);
        self.reset()?;
        let main = &self.lowered.main;
        let mut slots = self.slots();
        if let Some(straight) = &self.straight {
            let start = Instant::now();
            straight.run(Some(&self.machine), &main.steps, &mut slots).map_err(whole)?;
            return Ok((self.finish(start)?, slots));
        }
        let start = Instant::now();
        let mut executor = Executor::new(&self.machine);
        executor.executables.clone_from(&self.executables);
        let mut execution = Execution::new(executor, program, &self.lowered, main.events);
        for (value, tensor) in (0..).zip(slots.drain(..)) {
            tensor.into_iter().for_each(|tensor| execution.set(ValueRef(value), tensor));
        }
        execution.hold_tensors(&self.options.device, |_| true)?;
        execution.run(main)?;
        execution.gather_outputs()?;
        let taken = self.finish(start)?;
        let values = (0..program.values.len() as u32).map(ValueRef);
        slots.extend(values.map(|value| execution.get(value).cloned()));
        match execution.executor.failures.first() {
            Some(failure) => Err(self.failed(failure)),
            None => Ok((taken, slots)),
        }
    }

    /// Returns the tensors before a run, by number.
    fn slots(&self) -> Slots {
        let mut slots: Slots =
            self.tensors.iter().map(|[tensor, _]| Some(tensor.clone())).collect();
        slots.resize(self.program.values.len().max(slots.len()), None);
        slots
    }

    fn launch_once(&mut self) -> Result<(Taken, Vec<Tensor>), RunError> {
        self.compile()?;
        let whole = |e: Error| RunError::whole(&self.program, &e);
        self.reset()?;
        let executable = self.replayed.as_ref();
        let executable = executable.ok_or_else(|| whole(unfit("an executable without a list")))?;
        let start = Instant::now();
        let named = self.program.tensors.iter().zip(&self.tensors);
        let launch = named.fold(executable.launch(), |launch, (declared, [tensor, _])| {
            launch.input(&declared.name, tensor)
        });
        let launched = launch.run().map_err(whole)?;
        let taken = self.finish(start)?;
        Ok((taken, launched.outputs().to_vec()))
    }

    /// Gives the tensors their first content.
    fn reset(&self) -> Result<(), RunError> {
        let whole = |e: Error| RunError::whole(&self.program, &e);
        for [tensor, before] in &self.tensors {
            // No op writes to a tensor whose elements share memory.
            if !is_spread(tensor.spec()) {
                let home = StreamKey::compute(tensor.device().clone(), 0);
                let home = self.machine.stream(&home).map_err(whole)?;
                let copied = self.machine.call("copy", &[before]).out(&[tensor]).on(&home);
                copied.map_err(whole)?;
            }
        }
        self.machine.synchronize().map_err(whole)
    }

    /// Waits for everything, and stops the clock.
    fn finish(&self, start: Instant) -> Result<Taken, RunError> {
        let issued = start.elapsed();
        let done = self.machine.synchronize();
        let wall = start.elapsed();
        done.map_err(|failure| self.failed(&failure))?;
        Ok(Taken { wall, issued })
    }

    fn failed(&self, failure: &Error) -> RunError {
        let place = self.program.source.span(0..0);
        RunError { errors: vec![placed(&self.program, place, failure)], runtime: true }
    }

    fn compare(&self, outputs: &[Option<&Tensor>]) -> Result<Vec<OutputReport>, RunError> {
        let whole = |e: Error| RunError::whole(&self.program, &e);
        let read = |tensor: &Option<&Tensor>| -> Result<Read, Error> {
            let Some(tensor) = tensor else { return Ok(None) };
            let spec = tensor.spec();
            let dense = TensorSpec::contiguous(spec.dtype, spec.shape())?;
            Ok(Some((dense, tensor.read()?)))
        };
        let reads = outputs.iter().map(read).collect::<Result<_, _>>().map_err(whole)?;
        let mut report = RunReport::default();
        compare(&self.program, reads, &mut report);
        match report.failures.is_empty() {
            true => Ok(report.outputs),
            false => Err(RunError { errors: report.failures, runtime: true }),
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
