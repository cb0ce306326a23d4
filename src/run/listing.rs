//! The lists of a program, without a run.

use std::sync::Arc;

use millstream_instructions::InstructionList;
use millstream_trace::{Body, Place, Program};

use crate::run::error::RunError;
use crate::run::options::{Rank, RunOptions};
use crate::run::{list, rehearsal};

/// A list that a program is, or that the builder makes of it.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The name of the job whose list it is; none for the program's own.
    pub job: Option<String>,
    /// The list.
    pub list: InstructionList,
    /// Where its instructions stand in the file, if that is a list of instructions.
    pub places: Vec<Place>,
}

/// The lists of a program: its own, and one for each job. Of a program of statements they are built
/// for these options, and hold what a run with them would emit, except where the run would be short
/// of memory. A job is taken to change all tensors that it names. Opens no device.
///
/// # Errors
/// What is wrong with the program, or a shape that only a run can tell.
pub fn lists(program: &Arc<Program>, options: &RunOptions) -> Result<Vec<Listing>, RunError> {
    if let Body::Instructions(lines) = &program.body {
        let (list, places) = list::parse(program, lines)?;
        return Ok(vec![Listing { job: None, list, places }]);
    }
    let machine = options.machine(Rank::alone()).map_err(|e| RunError::whole(program, &e))?;
    let lists = rehearsal::lists(&machine, program, options)?;
    let listing = |(job, list)| Listing { job, list, places: Vec::new() };
    Ok(lists.into_iter().map(listing).collect())
}
