//! Runs a loaded trace on a machine and compares its outputs with the expected ones.
//!
//! # Contract
//! [`prepare`] builds the whole program without a device: it checks every op, shape, stream and
//! device, and returns mistakes with their places. Only then does [`Prepared::run`] open anything.
//! Shapes that depend on data (the result of an op like `masked_select`) are checked at run time.
//!
//! Results do not change by a bit with the options. Repeated runs are compared with the first.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`options`] | the options of a run |
//! | [`error`] | errors with their places |
//! | [`report`] | the results and costs of a run |
//! | [`ranks`] | programs of several ranks |
//! | `lower` | from statements to steps: the one place that reads statements |
//! | `comparison` | the comparison of the ranks' collectives before their programs run |
//! | `exchange` | the exchange of values between ranks, apart from their programs |
//! | `execution`, `executor` | executes steps; the machine that runs, checks or records them |
//! | `dry_run` | a program on a machine that only checks: errors, and lists without a run |
//! | `executables` | the executables that a trace declares, compiled |
//! | `replay` | a whole program as an executable |
//! | `program`, `list` | runs lowered statements; checks and runs a list of instructions |
//! | [`assigner`] | the streams of a program that names none |
//! | [`certificate`](mod@certificate) | the hash of a list |
//! | [`loading`] | traces and lists from files |
//! | [`listing`] | a program's lists, without a run |
//! | `names` | the program's names of the streams and tensors of its list |
//! | [`timed`], `straight` | runs for their time alone; a program's calls as straight code |
//! | `upload`, `outputs`, `measure` | tensors in, tensors out, counts |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod assigner;
pub mod certificate;
mod comparison;
mod dry_run;
pub mod error;
mod exchange;
mod executables;
mod execution;
mod executor;
mod list;
pub mod listing;
pub mod loading;
mod lower;
mod measure;
mod names;
pub mod options;
mod outputs;
mod program;
pub mod ranks;
mod recorded;
mod replay;
pub mod report;
mod straight;
pub mod timed;
mod upload;

use std::borrow::Cow;
use std::sync::Arc;

use millstream_instructions::InstructionList;
use millstream_trace::{Body, Program};
use millstream_types::{StreamKey, StreamMode, StreamType};
use millstream_vm::DriverKind;

use dry_run::Subject;
use lower::{Lowered, lower, lower_known};

pub use certificate::certificate;
pub use comparison::program_hash;
pub use error::RunError;
pub use listing::{Listing, lists};
pub use loading::{Loading, is_list_file, load};
pub use lower::assignment;
pub use names::{Names, names};
pub use options::{Assigner, CollectiveChecks, Progress, RunOptions, Steps};
pub use ranks::{run_rank, run_ranks};
pub use recorded::RecordedRun;
pub use report::{MemoryReport, OutputReport, ReadReport, ReadReports, RunReport, StreamReport};
pub use timed::{Taken, Timed};

/// A trace that has been checked and can run.
pub struct Prepared {
    program: Arc<Program>,
    options: RunOptions,
    kind: Kind,
}

enum Kind {
    Statements(Lowered),
    List(Box<list::Checked>),
}

impl Prepared {
    /// Runs it, as often as the options say.
    ///
    /// # Errors
    /// The program has a mistake that depends on data. Failures of instructions stand in the
    /// report.
    pub fn run(&self) -> Result<RunReport, RunError> {
        self.run_with(&self.options)
    }

    /// Runs it with other options than it was checked with: another driver, seed or fault. The
    /// device, the streams and the ops must be the same.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn run_with(&self, options: &RunOptions) -> Result<RunReport, RunError> {
        let machine = options.open().map_err(|e| RunError::whole(&self.program, &e))?;
        match &self.kind {
            Kind::Statements(lowered) => program::run(&machine, &self.program, lowered, options),
            Kind::List(checked) => list::run(&machine, &self.program, checked, options),
        }
    }

    /// Returns the program's own list, if it is known without a run.
    fn own_list(&self) -> Option<Cow<'_, InstructionList>> {
        match &self.kind {
            Kind::Statements(lowered) => {
                let (program, options) = (&self.program, &self.options);
                dry_run::list(Subject { program, lowered, options }).ok()?.map(Cow::Owned)
            }
            Kind::List(checked) => Some(Cow::Borrowed(checked.list())),
        }
    }

    /// Returns the trace.
    pub const fn program(&self) -> &Arc<Program> {
        &self.program
    }
}

/// Checks a trace for a run with these options, on a machine that runs nothing. Opens no device and
/// starts no thread.
///
/// # Errors
/// A mistake in the trace, with its place.
pub fn prepare(program: Arc<Program>, options: &RunOptions) -> Result<Prepared, RunError> {
    let kind = match &program.body {
        Body::Statements(_) => {
            let (lowered, refused) = lower_known(&program, options)?;
            let subject = Subject { program: &program, lowered: &lowered, options };
            dry_run::check(subject, refused)?;
            Kind::Statements(lowered)
        }
        Body::Instructions(lines) => {
            let machine = options.checking().map_err(|e| RunError::whole(&program, &e))?;
            Kind::List(Box::new(list::check(&machine, &options.machine.ops, &program, lines)?))
        }
    };
    let is_serial = options.machine.communicator.ranks() == 1
        && match &kind {
            Kind::Statements(lowered) => lowered.is_serial(options),
            Kind::List(checked) => checked.is_serial(),
        };
    let mut options = options.clone();
    if options.inline_if_serial && is_serial {
        options = options.machine(|config| config.driver(DriverKind::Inline));
    }
    Ok(Prepared { program, options, kind })
}

/// Returns whether a program that uses these streams alone has nothing to run side by side: they
/// are one compute stream of the host.
fn is_serial<'s>(mut streams: impl Iterator<Item = (&'s StreamKey, StreamMode)>) -> bool {
    let Some(first) = streams.next() else { return true };
    let (key, mode) = first;
    let is_host = key.device.is_host() && key.ty == StreamType::COMPUTE;
    is_host && mode == StreamMode::InOrder && streams.all(|other| other == first)
}

/// Takes a program of statements as checked, without a check. For generated programs that are valid
/// by construction.
///
/// # Errors
/// The program is a list of instructions, or names an op that does not exist.
pub fn take_as_checked(program: Arc<Program>, options: &RunOptions) -> Result<Prepared, RunError> {
    let kind = Kind::Statements(lower(&program, options)?);
    Ok(Prepared { program, options: options.clone(), kind })
}

/// Checks and runs a trace.
///
/// # Errors
/// As [`prepare`] and [`Prepared::run`].
pub fn run(program: Arc<Program>, options: &RunOptions) -> Result<RunReport, RunError> {
    prepare(program, options)?.run()
}
