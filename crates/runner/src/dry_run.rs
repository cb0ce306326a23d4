//! A program on a machine that only checks, so that a whole program is checked before anything
//! runs, and so that its lists can be had without a run.
//!
//! A tensor whose shape depends on data is unknown here, and so are all results of calls on it:
//! such calls are checked no further than lowering does.

use millstream_instructions::InstructionList;
use millstream_trace::{Program, TraceError, ValueRef};
use millstream_types::Error;
use millstream_vm::Machine;

use crate::error::RunError;
use crate::executables::{self, Compiled};
use crate::execution::Execution;
use crate::executor::Executor;
use crate::lower::Lowered;
use crate::options::RunOptions;

/// A lowered program, and the options that it is checked with.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) program: &'a Program,
    pub(crate) lowered: &'a Lowered,
    pub(crate) options: &'a RunOptions,
}

/// A list, and the name of the executable that it belongs to; none for the program's own.
pub(crate) type Named = (Option<String>, InstructionList);

/// Checks a program of statements. `refused` holds the errors of those that could not be lowered.
pub(crate) fn check(subject: Subject<'_>, refused: Vec<TraceError>) -> Result<(), RunError> {
    subject.lists(false, refused).map(drop)
}

/// Returns the lists of a program of statements: first its own, if all its shapes are known, then
/// those of its executables.
pub(crate) fn lists(subject: Subject<'_>) -> Result<Vec<Named>, RunError> {
    subject.lists(true, Vec::new())
}

/// Returns the own list of a program of statements, if all its shapes are known.
pub(crate) fn list(subject: Subject<'_>) -> Result<Option<InstructionList>, RunError> {
    let lists = lists(subject)?;
    Ok(lists.into_iter().find_map(|(executable, list)| executable.is_none().then_some(list)))
}

impl<'a> Subject<'a> {
    /// Returns a machine for [`Subject::begin`].
    pub(crate) fn machine(self) -> Result<Machine, RunError> {
        self.options.checking().map_err(|e| RunError::whole(self.program, &e))
    }

    /// Compiles the executables and makes the tensors of the program, whose statements have not
    /// been executed. Begins a list if one is `wanted`.
    pub(crate) fn begin(self, machine: &Machine, wanted: bool) -> Result<Execution<'a>, RunError> {
        let Subject { program, lowered, options } = self;
        let whole = |e: Error| RunError::whole(program, &e);
        let executables = executables::compile(machine, program, lowered, options, None)?;
        let mut executor = Executor::new(machine);
        (executor.executables, executor.binds) = (executables, false);
        let mut execution = Execution::new(executor, program, lowered, lowered.main.events);
        execution.declare_streams()?;
        if wanted {
            machine.start_recording(&[]).map_err(whole)?;
        }
        for (value, tensor) in (0..).map(ValueRef).zip(&program.tensors) {
            let device = tensor.device.as_ref().unwrap_or(&options.device);
            let (spec, bytes) = (tensor.spec.clone(), tensor.storage_bytes as u64);
            let made = machine.declare(&tensor.name, spec, bytes, device);
            let at = |e: Error| RunError::at(program, tensor.site.span(), &e);
            execution.set(value, made.map_err(at)?);
        }
        execution.hold_tensors(&options.device, |_| true)?;
        Ok(execution)
    }

    /// Executes the program. Returns the lists of its executables if they are `wanted`, and its own
    /// if all shapes are known.
    fn lists(self, wanted: bool, mut refused: Vec<TraceError>) -> Result<Vec<Named>, RunError> {
        let Subject { program, lowered, options } = self;
        if !program.executables.is_empty() && !refused.is_empty() {
            // They could not be compiled, and their launches not be checked.
            return Err(RunError { errors: refused, runtime: false });
        }
        let machine = self.machine()?;
        let mut execution = self.begin(&machine, wanted)?;
        let named = program.executables.iter().zip(&execution.executor.executables);
        let of = |(e, made): (&millstream_trace::Executable, &Compiled)| {
            Some((Some(e.name.clone()), made.executable.as_ref()?.list().clone()))
        };
        let mut lists: Vec<Named> =
            if wanted { named.filter_map(of).collect() } else { Vec::new() };
        match execution.check(&lowered.main, &options.machine.ops, &mut refused) {
            _ if !refused.is_empty() => {
                let errors = TraceError::several(refused).into_iter().collect();
                return Err(RunError { errors, runtime: false });
            }
            // The program is valid as far as it goes; its run will find how far that is.
            Err(e) if e.runtime && !wanted => return Ok(lists),
            done => done?,
        }
        if !wanted {
            let wrong = program.outputs.iter().filter_map(|output| {
                let tensor = execution.get(output.value?)?;
                let mismatch = output.mismatch(tensor.spec())?;
                Some(program.error(output.site.span(), format!("{}: {mismatch}", output.name)))
            });
            return match TraceError::several(wrong.collect()) {
                None => Ok(lists),
                Some(error) => Err(RunError { errors: vec![error], runtime: false }),
            };
        }
        execution.gather_outputs()?;
        for output in &program.outputs {
            let span = output.site.span();
            if let Some(tensor) = output.value.and_then(|v| execution.get(v)).cloned() {
                let read = execution.executor.read(&tensor, &program.origin(span));
                read.map_err(|e| RunError::at(program, span, &e))?;
            }
        }
        if !execution.is_incomplete {
            let own = machine.finish_recording().map_err(|e| RunError::whole(program, &e))?;
            lists.insert(0, (None, own));
        }
        Ok(lists)
    }
}
