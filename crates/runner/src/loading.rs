//! Loads what a command runs: a trace, or a list of instructions with its inputs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_instructions::text::is_list;
use millstream_trace::{
    Body, ErrorKind, Inputs, LoadOptions, MAX_ERRORS, Program, Tolerance, TraceError, assign,
    load_list, load_partial, project,
};

use crate::error::RunError;
use crate::options::RunOptions;
use crate::{list, prepare};

/// What is loaded besides a trace, and how.
#[derive(Clone, Debug, Default)]
pub struct Loading {
    /// The options of traces. The seed for random inputs holds for lists of instructions as well.
    pub trace: LoadOptions,
    /// The elements of the tensors that a list of instructions needs: a trace or a safetensors
    /// file.
    pub inputs: Option<PathBuf>,
    /// The assignments of ops to streams, of which a later one counts before an earlier one.
    pub assign: Vec<PathBuf>,
    /// The rank whose part of the program is loaded, and the number of ranks; the only one by
    /// default.
    pub rank: Option<(u32, u32)>,
    /// The tolerance of all outputs; a bound that is `None` is that of each output.
    pub tolerance: Tolerance,
}

impl Loading {
    /// Returns these options for one of so many ranks.
    #[must_use]
    pub fn of_rank(&self, rank: usize, ranks: usize) -> Loading {
        let number = |n| u32::try_from(n).unwrap_or(u32::MAX);
        Loading { rank: Some((number(rank), number(ranks))), ..self.clone() }
    }

    /// Returns the part of a program that the rank runs.
    fn project(&self, program: Program, options: &RunOptions) -> Result<Program, TraceError> {
        let (rank, ranks) = self.rank.unwrap_or((0, 1));
        if let Some(of) = &program.rank
            && (of.rank, of.ranks) != (rank, ranks)
        {
            let message = format!(
                "it is the list of rank {} of {}, and is read as that of rank {rank} of {ranks}",
                of.rank, of.ranks
            );
            let error = program.error(program.source.span(0..0), message);
            return Err(error.help("run the folder with the lists of all ranks"));
        }
        project(program, rank, ranks, &options.machine.ops)
    }

    /// Returns the files that are read for every program.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.inputs.iter().chain(&self.assign).map(PathBuf::as_path)
    }
}

/// Loads a trace, or a list of instructions as `--emit` writes it.
///
/// # Errors
/// The mistakes of the file: if it is a native trace, all that can be found without a run with
/// these options.
pub fn load(path: &Path, loading: &Loading, options: &RunOptions) -> Result<Program, RunError> {
    let mut program = as_it_is(path, loading, options)?;
    for assignment in &loading.assign {
        assign(&mut program, assignment, &loading.trace)?;
    }
    for output in &mut program.outputs {
        output.tolerance = loading.tolerance.or(output.tolerance);
    }
    Ok(loading.project(program, options)?)
}

fn as_it_is(path: &Path, loading: &Loading, options: &RunOptions) -> Result<Program, RunError> {
    let all = loading;
    let Loading { trace: loading, inputs, .. } = loading;
    if is_list_file(path) {
        let inputs = match (inputs, loading.et.random_inputs) {
            (Some(inputs), _) => match Inputs::open(inputs, loading)? {
                Inputs::Trace(whole) => Inputs::Trace(Box::new(all.project(*whole, options)?)),
                other => other,
            },
            (None, Some(seed)) => Inputs::Random(seed),
            (None, None) => Inputs::None,
        };
        return of_list(load_list(path, loading)?, &inputs);
    }
    if let Some(inputs) = inputs {
        let message = format!("--inputs {}: a trace has its own inputs", inputs.display());
        return Err(TraceError::of_file(path.display().to_string(), message).into());
    }
    let loaded = millstream_trace::load(path, loading);
    loaded.map_err(|error| mistakes(path, error, all, options))
}

/// Returns whether a file is a list of instructions: whether it begins as lists do.
pub fn is_list_file(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    // What is read of a pipe is gone.
    if !is_file {
        return false;
    }
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut says = lines.filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#'));
    says.next().is_some_and(|line| is_list(&line))
}

fn of_list(mut program: Program, inputs: &Inputs) -> Result<Program, RunError> {
    let Body::Instructions(lines) = &program.body else { return Ok(program) };
    let lines = lines.clone();
    let (parsed, _) = list::parse(&program, &lines)?;
    let mut errors = Vec::new();
    for (k, external) in parsed.externals.iter().enumerate() {
        let span = list::header_place(&lines, "external", k);
        let span = span.unwrap_or_else(|| program.source.span(0..0));
        let wanted = (&external.spec, external.bytes);
        errors.extend(program.add_input(inputs, &external.name, wanted, span).err());
    }
    program.expect_outputs_of(inputs);
    errors.truncate(MAX_ERRORS);
    TraceError::several(errors).map_or(Ok(program), |error| Err(error.into()))
}

/// Returns the mistakes of a trace that could not be loaded: those that the loader found, and those
/// that the check of what remains finds.
fn mistakes(path: &Path, loaded: TraceError, loading: &Loading, options: &RunOptions) -> RunError {
    let runtime = loaded.kind() == ErrorKind::Memory;
    let mut errors = loaded.all();
    let (rank, ranks) = loading.rank.unwrap_or((0, 1));
    let of_rank = options.checked_on_rank(rank as usize, ranks as usize);
    let check = |partial| prepare(Arc::new(loading.project(partial, options)?), &of_rank).map(drop);
    if let Some(partial) = load_partial(path, &loading.trace)
        && let Err(further) = check(partial)
        && !further.runtime
    {
        errors.extend(further.errors.into_iter().flat_map(TraceError::all));
        errors.truncate(MAX_ERRORS);
    }
    RunError { errors: TraceError::several(errors).into_iter().collect(), runtime }
}
