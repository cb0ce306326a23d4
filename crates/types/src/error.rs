//! The one error type of the libraries.

use std::fmt;
use std::sync::Arc;

use crate::access::Access;
use crate::device::DeviceId;
use crate::dtype::DType;
use crate::layout::{Dims, brief};
use crate::origin::Origin;
use crate::overdue::Overdue;

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Clones are cheap enough to be given to every waiter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that means nothing here.
    #[error("unknown {what} '{name}'{}", did_you_mean(.nearest))]
    Unknown {
        /// What kind of thing was named.
        what: &'static str,
        /// The name.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// A value that can never be right: a shape, a stride, an argument.
    #[error("invalid {what}: {message}")]
    Invalid {
        /// What kind of value.
        what: &'static str,
        /// The value, what was expected of it.
        message: String,
    },
    /// An op refuses its operands or arguments.
    #[error("{op}: {message}")]
    Op {
        /// The op.
        op: String,
        /// What it got and what it expected.
        message: String,
    },
    /// A tensor was used, or released again, after its release.
    #[error("{tensor} is used after its release at {released}")]
    Released {
        /// The tensor, as text forms name it.
        tensor: String,
        /// Where it was released.
        released: Origin,
    },
    /// A tensor is held by a critical section that the caller is not in.
    #[error("{tensor} is held by the critical section begun at {begun}; use it after that ends")]
    Held {
        /// The tensor.
        tensor: String,
        /// Where the section begins.
        begun: Origin,
    },
    /// A handle of one machine was given to another.
    #[error("{what} belongs to another machine")]
    Foreign {
        /// What was given.
        what: String,
    },
    /// A device that is not there, cannot be opened, or is lost.
    #[error("device {device}: {message}")]
    Device {
        /// The device.
        device: DeviceId,
        /// What is wrong with it and where it was looked for.
        message: String,
    },
    /// A device's memory is used up.
    #[error(
        "out of memory on {device}: {wanted} bytes wanted for {purpose}, {in_use} of {limit} in use{}",
        held_by(holders)
    )]
    OutOfMemory {
        /// The device.
        device: DeviceId,
        /// What the memory was for.
        purpose: String,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes in use.
        in_use: u64,
        /// The device's limit in bytes.
        limit: u64,
        /// Those that hold the most of it, as text.
        holders: Vec<String>,
    },
    /// An instruction failed while running, or was skipped because one it depends on had.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// An instruction was cancelled before it started, or was skipped because one it depends on was.
    #[error("{0}")]
    Cancelled(Arc<Failure>),
    /// A wait took longer than it was allowed to.
    #[error("timed out waiting for {what}")]
    Timeout {
        /// What was waited for.
        what: String,
    },
    /// Nothing could move any more, and something was still waited for. Only a simulated machine,
    /// which knows all that can move, can tell.
    #[error("nothing can move, and {what} is waited for:\n{state}")]
    Stuck {
        /// What was waited for.
        what: String,
        /// What has not completed and where it stands.
        state: String,
    },
    /// The machine's watchdog found an instruction that takes too long, and it is waited for.
    #[error("{0}")]
    Overdue(Arc<Overdue>),
    /// A kernel or callback tried to submit or wait on its own machine.
    #[error("{what} from within a kernel or callback would wait for itself")]
    Reentrant {
        /// What was tried.
        what: &'static str,
    },
    /// The thread asked something else of a machine while it had a batch of calls open there.
    #[error("this thread has a batch of calls open on the machine: end the batch first")]
    InBatch,
    /// The machine has been shut down.
    #[error("the machine has been shut down")]
    Closed,
    /// A list of instructions was refused.
    #[error("the list is refused: {message}")]
    List {
        /// Why, with the lines concerned.
        message: String,
    },
    /// Something the library promises did not hold; a defect to be reported.
    #[error("internal error: {message}")]
    Internal {
        /// What did not hold.
        message: String,
    },
    /// Any other error, with the place that it came from.
    #[error("{origin}: {error}")]
    At {
        /// The place.
        origin: Origin,
        /// The error.
        error: Box<Error>,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean '{n}'?"))
}

impl Error {
    /// What who waits for an instruction that failed, or for what it would have written, gets.
    pub fn of(failure: Arc<Failure>) -> Error {
        match failure.cause {
            Cause::Cancelled => Error::Cancelled(failure),
            Cause::Error | Cause::Panic | Cause::Device => Error::Failed(failure),
        }
    }

    /// The instruction that failed or was cancelled, if that is what went wrong.
    pub fn failure(&self) -> Option<&Arc<Failure>> {
        match self.without_place() {
            Error::Failed(failure) | Error::Cancelled(failure) => Some(failure),
            _ => None,
        }
    }

    /// The error with the place it came from, unless it names one already.
    #[must_use]
    pub fn at(self, origin: &Origin) -> Error {
        match self {
            Error::At { .. } | Error::Failed(_) | Error::Cancelled(_) => self,
            other if origin.is_unknown() => other,
            other => Error::At { origin: origin.clone(), error: Box::new(other) },
        }
    }

    /// The error without the place it came from.
    pub fn without_place(&self) -> &Error {
        match self {
            Error::At { error, .. } => error.without_place(),
            other => other,
        }
    }

    /// Whether the program was right and running it failed: memory, a kernel, a wait. Everything
    /// else is misuse, refused before anything ran.
    pub fn is_runtime(&self) -> bool {
        matches!(
            self.without_place(),
            Error::OutOfMemory { .. }
                | Error::Failed(_)
                | Error::Cancelled(_)
                | Error::Timeout { .. }
                | Error::Stuck { .. }
                | Error::Overdue(_)
        )
    }
}

/// Who holds a memory that is used up.
fn held_by(holders: &[String]) -> String {
    match holders {
        [] => String::new(),
        _ => format!("; most of it is held by {}", holders.join("; ")),
    }
}

/// What made an instruction fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Its kernel, or the work it stands for, returned an error.
    Error,
    /// Its kernel or callback panicked.
    Panic,
    /// Its device failed.
    Device,
    /// It was cancelled before it started.
    Cancelled,
}

/// An operand of a failed instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The tensor, as text forms name it.
    pub tensor: String,
    /// How the instruction used it.
    pub access: Access,
    /// Its dtype.
    pub dtype: DType,
    /// Its shape.
    pub shape: Dims,
}

/// An instruction that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What made it fail.
    pub cause: Cause,
    /// The cause in words.
    pub message: String,
    /// The instruction's kind.
    pub instruction: &'static str,
    /// The op, if it was a call.
    pub op: Option<String>,
    /// Its operands.
    pub operands: Vec<Operand>,
    /// Its stream, as `cpu:0 compute 0`.
    pub stream: String,
    /// Its sequence number there.
    pub seq: u64,
    /// Where it came from.
    pub origin: Origin,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        self.describe(f)
    }
}

impl Failure {
    /// What failed and why, for a message that has its place already.
    pub fn without_place(&self) -> String {
        struct Described<'a>(&'a Failure);
        impl fmt::Display for Described<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.describe(f)
            }
        }
        Described(self).to_string()
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.cause {
            Cause::Error => "failed",
            Cause::Panic => "panicked",
            Cause::Device => "was lost with its device",
            Cause::Cancelled => "was cancelled",
        };
        f.write_str(self.instruction)?;
        if let Some(op) = &self.op {
            write!(f, " of {op}")?;
        }
        f.write_str("(")?;
        for (k, o) in self.operands.iter().enumerate() {
            let comma = if k == 0 { "" } else { ", " };
            write!(f, "{comma}{} {} {}", o.tensor, o.access, brief(o.dtype, &o.shape))?;
        }
        write!(f, ") on {} number {} {verb}: {}", self.stream, self.seq, self.message)
    }
}
