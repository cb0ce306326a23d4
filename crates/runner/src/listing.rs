//! The lists of a program, without a run where that can be.

use std::sync::Arc;

use millstream_instructions::InstructionList;
use millstream_trace::{Body, Program, Span};

use crate::dry_run::Subject;
use crate::error::RunError;
use crate::lower::lower;
use crate::options::RunOptions;
use crate::{dry_run, list, prepare};

/// A list that a program is, or that the builder makes of it.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The name of the job whose list it is; none for the program's own.
    pub job: Option<String>,
    /// The list.
    pub list: InstructionList,
    /// Where its instructions stand in the file, if that is a list of instructions.
    pub places: Vec<Span>,
}

/// The lists of a program: its own, and one for each job. Of a program of statements they are built
/// for these options without a device, as a run would emit them that has memory enough; a job is
/// taken to change all tensors that it names. Where a shape is known only from data, the program is
/// run, and the list is that of the run.
///
/// # Errors
/// What is wrong with the program, or kept it from running to its end.
pub fn lists(program: &Arc<Program>, options: &RunOptions) -> Result<Vec<Listing>, RunError> {
    if let Body::Instructions(lines) = &program.body {
        let (list, places) = list::parse(program, lines)?;
        return Ok(vec![Listing { job: None, list, places }]);
    }
    let policies = &options.policies().map_err(|e| RunError::whole(program, &e))?;
    let lowered = &lower(program, options)?;
    let mut lists = dry_run::lists(Subject { program, lowered, options, policies })?;
    if !lists.iter().any(|(job, _)| job.is_none()) {
        let options = RunOptions { emit: true, repeat: 1, ..options.clone() };
        let report = prepare(program.clone(), &options)?.run()?;
        if !report.failures.is_empty() {
            return Err(RunError { errors: report.failures, runtime: true });
        }
        lists.extend(report.list.map(|list| (None, list)));
    }
    let listing = |(job, list)| Listing { job, list, places: Vec::new() };
    Ok(lists.into_iter().map(listing).collect())
}
