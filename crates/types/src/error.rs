//! The common error type of the libraries.
//!
//! Long because its items have examples.

use std::fmt;
use std::sync::Arc;

use crate::access::Access;
use crate::device::DeviceId;
use crate::dtype::DType;
use crate::layout::{Dims, brief};
use crate::origin::Origin;
use crate::overdue::Overdue;
use crate::panics::Panicked;

/// A result whose error is [`Error`] by default.
///
/// ```
/// # use millstream_types::*;
/// fn half(n: i64) -> Result<i64> {
///     match n % 2 {
///         0 => Ok(n / 2),
///         _ => Err(Error::Invalid { what: "number", message: format!("{n} is odd") }),
///     }
/// }
/// assert!(half(3).is_err());
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the builder or the machine. Clones are cheap: every waiter gets one.
///
/// ```
/// # use millstream_types::*;
/// let error = "f31".parse::<DType>().unwrap_err();
/// assert!(matches!(error, Error::Unknown { what: "dtype", .. }));
/// assert!(error.to_string().contains("did you mean"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is not known.
    #[error("unknown {what} '{name}'{}", after_semicolon(.help))]
    Unknown {
        /// The kind of thing that was named.
        what: &'static str,
        /// The name.
        name: String,
        /// What to write, as a sentence: mostly the name that was probably meant.
        help: Option<String>,
    },
    /// A value is invalid in every program: a shape, a stride, an argument.
    #[error("invalid {what}: {message}")]
    Invalid {
        /// The kind of value.
        what: &'static str,
        /// The value and the expectation.
        message: String,
    },
    /// An op refuses its operands or arguments.
    #[error("{op}: {message}")]
    Op {
        /// The op.
        op: String,
        /// The expectation; behind the name of the operand or argument and a colon, if it is about
        /// one.
        message: String,
    },
    /// A tensor was used, or released again, after its release.
    #[error("{tensor} is used after its release at {released}")]
    Released {
        /// The tensor, as text forms name it.
        tensor: String,
        /// The origin of the release.
        released: Origin,
    },
    /// A tensor is held by a critical section that the caller is not in.
    #[error(
        "{tensor} is held by the critical section begun at {begun}; no call waits for a section, \
         which this thread may have to end: make the call within the section, or after its end"
    )]
    Held {
        /// The tensor.
        tensor: String,
        /// The origin of the section's begin.
        begun: Origin,
    },
    /// A handle of one machine was passed to another machine.
    #[error("{what} belongs to another machine")]
    Foreign {
        /// The kind of handle.
        what: String,
    },
    /// A device does not exist, cannot be opened, or was lost.
    #[error("device {device}: {message}")]
    Device {
        /// The device.
        device: DeviceId,
        /// The cause, and where the device was looked for.
        message: String,
    },
    /// A device's memory is used up.
    #[error(
        "out of memory on {device}: {wanted} bytes wanted for {purpose}, \
         {in_use} of {limit} in use{}",
        held_by(holders)
    )]
    OutOfMemory {
        /// The device.
        device: DeviceId,
        /// The purpose of the allocation.
        purpose: String,
        /// Bytes requested.
        wanted: u64,
        /// Bytes in use.
        in_use: u64,
        /// The device's limit in bytes.
        limit: u64,
        /// The largest holders of the memory, as text.
        holders: Vec<String>,
    },
    /// An instruction failed while it ran, or was skipped because a dependency had failed.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// An instruction was cancelled before it started, or was skipped because a dependency was.
    #[error("{0}")]
    Cancelled(Arc<Failure>),
    /// A wait exceeded its time limit.
    #[error("timed out waiting for {what}")]
    Timeout {
        /// The object of the wait.
        what: String,
    },
    /// A wait cannot end because no step is possible. Only a simulated machine, which knows every
    /// possible step, returns this.
    #[error("nothing can move, and {what} is waited for:\n{state}")]
    Stuck {
        /// The object of the wait.
        what: String,
        /// The instructions that have not completed and the state of each.
        state: String,
    },
    /// A machine that only checks was asked for what a run would tell: the elements of a tensor, or
    /// the size of the result of a call.
    #[error(
        "{} depends on data, and a machine that only checks has none: run it with another driver",
        op.as_ref().map_or("a read".to_owned(), |op| format!("the size of a result of {op}"))
    )]
    NotRun {
        /// The op; none if elements are read.
        op: Option<String>,
    },
    /// The machine's watchdog found that an instruction with a waiter exceeds its time limit.
    #[error("{0}")]
    Overdue(Arc<Overdue>),
    /// A kernel or callback tried to submit or wait on its own machine.
    #[error("{what} from within a kernel or callback would wait for itself")]
    Reentrant {
        /// The attempted operation.
        what: &'static str,
    },
    /// A forked child used a machine of its parent.
    #[error(
        "the process that made the machine has forked this one, which has none of the machine's \
         threads: make a machine in the child"
    )]
    Forked,
    /// The thread used a machine otherwise while it had a batch of calls open there.
    #[error("this thread has a batch of calls open on the machine: end the batch first")]
    InBatch,
    /// The machine has been shut down.
    #[error("the machine has been shut down")]
    Closed,
    /// A list of instructions was refused.
    #[error("the list is refused: {message}")]
    List {
        /// The reason, with the lines concerned.
        message: String,
    },
    /// Code of the program panicked when the machine called it.
    #[error(transparent)]
    Panicked(Panicked),
    /// An invariant of the library does not hold. This is a defect to be reported.
    #[error("internal error: {message}")]
    Internal {
        /// The invariant.
        message: String,
    },
    /// Any other error, with its origin.
    #[error("{origin}: {error}")]
    At {
        /// The origin of the call or instruction.
        origin: Origin,
        /// The error.
        error: Box<Error>,
    },
}

fn after_semicolon(help: &Option<String>) -> String {
    help.as_ref().map_or_else(String::new, |sentence| format!("; {sentence}"))
}

impl Error {
    /// Returns the error for waiters: of the failed instruction, and of the tensors that it would
    /// have written.
    ///
    /// ```
    /// # use millstream_types::*;
    /// # let failure = Failure {
    /// #     cause: Cause::Cancelled, message: "the program cancelled it".to_owned(),
    /// #     instruction: "OpCall", op: Some("relu".to_owned()), operands: Vec::new(),
    /// #     stream: "cpu:0 compute 0".to_owned(), seq: 7, origin: Origin::Unknown, launched: None,
    /// # };
    /// let error = Error::of(failure.into());
    /// assert!(matches!(error, Error::Cancelled(_)));
    /// ```
    pub fn of(failure: Arc<Failure>) -> Error {
        match failure.cause {
            Cause::Cancelled => Error::Cancelled(failure),
            Cause::Error | Cause::Panic | Cause::Device => Error::Failed(failure),
        }
    }

    /// Returns the instruction that failed or was cancelled, if this error is about one.
    ///
    /// ```
    /// # use millstream_types::*;
    /// # let failure = Failure {
    /// #     cause: Cause::Cancelled, message: "the program cancelled it".to_owned(),
    /// #     instruction: "OpCall", op: Some("relu".to_owned()), operands: Vec::new(),
    /// #     stream: "cpu:0 compute 0".to_owned(), seq: 7, origin: Origin::Unknown, launched: None,
    /// # };
    /// let error = Error::of(failure.into());
    /// assert_eq!(error.failure().unwrap().op.as_deref(), Some("relu"));
    /// ```
    pub fn failure(&self) -> Option<&Arc<Failure>> {
        match self.without_place() {
            Error::Failed(failure) | Error::Cancelled(failure) => Some(failure),
            _ => None,
        }
    }

    /// Returns the error with its origin, unless it has one already.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let error = Error::Closed.at(&Origin::caller());
    /// assert!(error.to_string().contains(".rs:"), "{error}");
    /// ```
    #[must_use]
    pub fn at(self, origin: &Origin) -> Error {
        match self {
            Error::At { .. } | Error::Failed(_) | Error::Cancelled(_) => self,
            other if origin.is_unknown() => other,
            other => Error::At { origin: origin.clone(), error: Box::new(other) },
        }
    }

    /// Returns the error without its origin.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let error = Error::Closed.at(&Origin::caller());
    /// assert_eq!(error.without_place(), &Error::Closed);
    /// ```
    pub fn without_place(&self) -> &Error {
        match self {
            Error::At { error, .. } => error.without_place(),
            other => other,
        }
    }

    /// Returns whether a correct program failed while it ran: memory, a kernel, a wait. Every other
    /// error is misuse, which is refused before anything runs.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Error::Timeout { what: "s0:7".to_owned() }.is_runtime());
    /// assert!(!Error::Closed.is_runtime());
    /// ```
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

/// Formats the holders of exhausted memory.
fn held_by(holders: &[String]) -> String {
    match holders {
        [] => String::new(),
        _ => format!("; most of it is held by {}", holders.join("; ")),
    }
}

/// The cause of a failure.
///
/// ```
/// # use millstream_types::*;
/// # let failure = Failure {
/// #     cause: Cause::Cancelled, message: "the program cancelled it".to_owned(),
/// #     instruction: "OpCall", op: Some("relu".to_owned()), operands: Vec::new(),
/// #     stream: "cpu:0 compute 0".to_owned(), seq: 7, origin: Origin::Unknown, launched: None,
/// # };
/// assert_eq!(failure.cause, Cause::Cancelled);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The instruction's kernel or other work returned an error.
    Error,
    /// The instruction's kernel or callback panicked.
    Panic,
    /// The instruction's device failed.
    Device,
    /// The instruction was cancelled before it started.
    Cancelled,
}

/// An operand of a failed instruction.
///
/// ```
/// # use millstream_types::*;
/// let operand = FailedOperand {
///     tensor: "%3".to_owned(),
///     access: Access::Read,
///     dtype: DType::F32,
///     shape: [2, 3].into_iter().collect(),
/// };
/// assert_eq!(operand.shape.as_slice(), [2, 3]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The tensor, as text forms name it.
    pub tensor: String,
    /// The instruction's access to the tensor.
    pub access: Access,
    /// The tensor's dtype.
    pub dtype: DType,
    /// The tensor's shape.
    pub shape: Dims,
}

/// An instruction that failed.
///
/// ```
/// # use millstream_types::*;
/// # let failure = Failure {
/// #     cause: Cause::Cancelled, message: "the program cancelled it".to_owned(),
/// #     instruction: "OpCall", op: Some("relu".to_owned()), operands: Vec::new(),
/// #     stream: "cpu:0 compute 0".to_owned(), seq: 7, origin: Origin::Unknown, launched: None,
/// # };
/// let text = failure.to_string();
/// assert!(text.contains("OpCall of relu() on cpu:0 compute 0 number 7 was cancelled"), "{text}");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The kind of cause.
    pub cause: Cause,
    /// The cause in words.
    pub message: String,
    /// The instruction's kind.
    pub instruction: &'static str,
    /// The op, if the instruction is a call.
    pub op: Option<String>,
    /// The instruction's operands.
    pub operands: Vec<Operand>,
    /// The instruction's stream, as `cpu:0 compute 0`.
    pub stream: String,
    /// The instruction's sequence number on the stream.
    pub seq: u64,
    /// The origin of the instruction. For an instruction of an executable, its place in the
    /// recorded list.
    pub origin: Origin,
    /// For an instruction of an executable, the origin of the launch.
    pub launched: Option<Origin>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        self.describe(f)
    }
}

impl Failure {
    /// Returns the instruction and the cause without the origin, for messages that already have
    /// one.
    ///
    /// ```
    /// # use millstream_types::*;
    /// # let failure = Failure {
    /// #     cause: Cause::Cancelled, message: "the program cancelled it".to_owned(),
    /// #     instruction: "OpCall", op: Some("relu".to_owned()), operands: Vec::new(),
    /// #     stream: "cpu:0 compute 0".to_owned(), seq: 7, origin: Origin::Unknown, launched: None,
    /// # };
    /// assert!(failure.without_place().starts_with("OpCall of relu"));
    /// ```
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
        write!(f, ") on {} number {} {verb}: {}", self.stream, self.seq, self.message)?;
        match &self.launched {
            Some(origin) if !origin.is_unknown() => write!(f, " (launched at {origin})"),
            _ => Ok(()),
        }
    }
}
