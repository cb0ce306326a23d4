//! Runs a loaded trace on a machine and compares its outputs with the expected ones.
//!
//! # Contract
//! [`prepare`] builds the whole program without a device: every op, shape, stream and device is
//! checked, and what is wrong comes back with its place. Only then does [`Prepared::run`] open
//! anything. What can be known only from data (a shape that an op like `masked_select` finds out)
//! is checked when it is there.
//!
//! Results do not change by a bit with the options. Repeated runs are compared with the first.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`options`] | on what, and how |
//! | [`error`] | what was wrong, with its place |
//! | [`report`] | what a run gave and what it cost |
//! | [`ranks`], `meeting` | programs of several ranks, and where they meet |
//! | `statements` | reading a program's statements, for any stage |
//! | `stage` | what statements act on |
//! | `rehearsal` | the stage without a device |
//! | `live` | the stage that is a machine |
//! | `collective` | collectives of devices that the host cannot reach |
//! | `jobs` | the stage that is a list to be stored |
//! | `program`, `list` | running statements; running a list of instructions |
//! | [`certificate`](mod@certificate) | the hash of a list |
//! | [`listing`] | a program's lists, without a run |
//! | [`timed`] | runs for their time alone |
//! | `upload`, `outputs`, `measure` | tensors in, tensors out, counts |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod certificate;
mod collective;
pub mod error;
mod jobs;
mod list;
pub mod listing;
mod live;
mod measure;
mod meeting;
pub mod options;
mod outputs;
mod program;
pub mod ranks;
mod rehearsal;
pub mod report;
mod stage;
mod statements;
mod streams;
pub mod timed;
mod upload;

use std::sync::Arc;

use millstream_trace::{Body, Program};

pub use certificate::certificate;
pub use error::RunError;
pub use listing::{Listing, lists};
pub use options::{RunOptions, Steps};
pub use ranks::run_ranks;
pub use report::{MemoryReport, OutputReport, RunReport, StreamReport};
pub use timed::{Taken, Timed};

/// A trace that has been checked and can run.
pub struct Prepared {
    program: Arc<Program>,
    options: RunOptions,
    kind: Kind,
}

enum Kind {
    Statements,
    List(Box<list::Checked>),
}

impl Prepared {
    /// Runs it, as often as the options say.
    ///
    /// # Errors
    /// Something that only the data could tell was wrong with the program. Whatever fails while
    /// running stands in the report.
    pub fn run(&self) -> Result<RunReport, RunError> {
        self.run_among(options::Rank::alone())
    }

    pub(crate) fn run_among(&self, rank: options::Rank) -> Result<RunReport, RunError> {
        self.run_as(rank, &self.options)
    }

    /// Runs it with other options than it was checked with: another driver, or another seed.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn run_with(&self, options: &RunOptions) -> Result<RunReport, RunError> {
        self.run_as(options::Rank::alone(), options)
    }

    fn run_as(&self, rank: options::Rank, options: &RunOptions) -> Result<RunReport, RunError> {
        let machine = options.machine(rank).map_err(|e| RunError::whole(&self.program, &e))?;
        match &self.kind {
            Kind::Statements => program::run(&machine, &self.program, options),
            Kind::List(checked) => list::run(&machine, &self.program, checked, options),
        }
    }

    /// The trace.
    pub const fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

/// Checks a trace for a run with these options. Opens no device and starts no thread.
///
/// # Errors
/// What is wrong with it, with its place.
pub fn prepare(program: Arc<Program>, options: &RunOptions) -> Result<Prepared, RunError> {
    // A machine that is given nothing opens nothing; here it answers what streams and ops it has.
    let machine =
        options.machine(options::Rank::alone()).map_err(|e| RunError::whole(&program, &e))?;
    let kind = match &program.body {
        Body::Statements(_) => {
            rehearsal::rehearse(&machine, &program, options)?;
            Kind::Statements
        }
        Body::Instructions(lines) => Kind::List(Box::new(list::check(&machine, &program, lines)?)),
    };
    Ok(Prepared { program, options: options.clone(), kind })
}

/// Takes a program of statements as checked, without a check. For generated programs that are valid
/// by construction.
pub fn take_as_checked(program: Arc<Program>, options: &RunOptions) -> Prepared {
    Prepared { program, options: options.clone(), kind: Kind::Statements }
}

/// Checks and runs a trace.
///
/// # Errors
/// As [`prepare`] and [`Prepared::run`].
pub fn run(program: Arc<Program>, options: &RunOptions) -> Result<RunReport, RunError> {
    prepare(program, options)?.run()
}
