//! The fault matrix: every fault at every position of small programs.
//!
//! A [`Fixture`] makes machines whose devices fail as planned; [`check`] runs a case on one and
//! compares the outcome with an [`oracle`], which derives from the data flow alone what a failure
//! may affect.

pub mod case;
pub mod check;
pub mod oracle;

use std::fmt::Debug;

use millstream::{DriverKind, Machine};

use case::{Case, Held};

/// What fails.
pub trait FaultKind: Copy + Debug {
    /// Nothing.
    const NONE: Self;

    /// Returns the kind of a run that counts the positions of this one, and in which nothing fails.
    fn quiet(self) -> Self;

    /// Returns whether the device is lost by it.
    fn loses_device(self) -> bool;

    /// Returns whether a call may be refused with an error of the device.
    fn refuses(self) -> bool;

    /// Returns whether nothing is lost by it, and the failure is reported all the same.
    fn is_reported_late(self) -> bool;
}

/// A machine on devices that fail as planned.
pub trait Fixture: Sized {
    /// What can fail on them.
    type Kind: FaultKind;

    /// Returns a machine for `case`, on which `kind` strikes at position `at` of the device of kind
    /// `device`, counted from 1.
    fn new(case: &Case, driver: (DriverKind, u64), kind: Self::Kind, device: &str, at: u64)
    -> Self;

    /// Submits all steps of a case.
    fn submit(&self, case: &Case) -> Held;

    /// Returns how many positions of `kind` there were so far.
    fn positions(&self, kind: Self::Kind) -> u64;

    /// Returns whether the fault has struck.
    fn has_struck(&self) -> bool;

    /// Lets nothing more fail. What has failed stays so.
    fn disarm(&self);

    /// Returns the machine.
    fn machine(&self) -> &Machine;

    /// Ends a machine whose tensors are gone, and checks that everything has come back.
    fn end(self, what: &str);
}
