//! The lists of a program, without a run where possible.

use std::sync::Arc;

use millstream_instructions::InstructionList;
use millstream_trace::{Body, Program, Span};

use crate::dry_run::Subject;
use crate::error::RunError;
use crate::lower::lower;
use crate::options::RunOptions;
use crate::{dry_run, list, prepare};

/// The list of a program or of one of its executables.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The name of the executable; `None` for the program's own list.
    pub executable: Option<String>,
    /// The list.
    pub list: InstructionList,
    /// The spans of the instructions, if the file holds instructions.
    pub places: Vec<Span>,
}

/// Returns the lists of a program: its own, and one for each executable, as it is compiled. For a
/// program of statements, they are built for these options without a device, as a run with enough
/// memory emits them. Where a shape depends on data, the program runs, and its list is that of the
/// run.
///
/// # Errors
/// The program has a mistake, or failed while running.
pub fn lists(program: &Arc<Program>, options: &RunOptions) -> Result<Vec<Listing>, RunError> {
    if let Body::Instructions(lines) = &program.body {
        let (list, places) = list::parse(program, lines)?;
        return Ok(vec![Listing { executable: None, list, places }]);
    }
    let lowered = &lower(program, options)?;
    let mut lists = dry_run::lists(Subject { program, lowered, options })?;
    if !lists.iter().any(|(executable, _)| executable.is_none()) {
        let options = options.clone().emit(true).repeat(1);
        let report = prepare(program.clone(), &options)?.run()?;
        if !report.failures.is_empty() {
            return Err(RunError { errors: report.failures, runtime: true });
        }
        lists.extend(report.list.map(|list| (None, list)));
    }
    let listing = |(executable, list)| Listing { executable, list, places: Vec::new() };
    Ok(lists.into_iter().map(listing).collect())
}
