//! The fault matrix: every fault at every position of small programs.
//!
//! A [`Fixture`] makes machines whose devices fail as planned. [`check`] runs a case on one and
//! compares the outcome with an [`oracle`], which derives from the data flow alone which outputs a
//! failure may affect.

pub mod case;
pub mod check;
pub mod oracle;

use std::fmt::Debug;

use millstream::{DriverKind, Machine};

use case::{Case, Held};

/// A kind of fault.
pub trait FaultKind: Copy + Debug {
    /// No fault.
    const NONE: Self;

    /// Returns the kind for a run without a fault that counts the positions of this kind.
    fn quiet(self) -> Self;

    /// Returns whether the device is lost by it.
    fn loses_device(self) -> bool;

    /// Returns whether calls may be refused with an error of the device.
    fn refuses(self) -> bool;

    /// Returns whether the fault loses no data and is reported all the same.
    fn is_reported_late(self) -> bool;
}

/// A machine on devices that fail as planned.
pub trait Fixture: Sized {
    /// The faults of these devices.
    type Kind: FaultKind;

    /// Returns a machine for `case`, on which `kind` strikes at position `at` of the device of kind
    /// `device`, counted from 1.
    fn new(case: &Case, driver: (DriverKind, u64), kind: Self::Kind, device: &str, at: u64)
    -> Self;

    /// Submits all steps of a case.
    fn submit(&self, case: &Case) -> Held;

    /// Returns the number of positions of `kind` so far.
    fn positions(&self, kind: Self::Kind) -> u64;

    /// Returns whether the fault has struck.
    fn has_struck(&self) -> bool;

    /// Injects no further fault. Earlier failures remain.
    fn disarm(&self);

    /// Returns the machine.
    fn machine(&self) -> &Machine;

    /// Drops a machine whose tensors are gone, and checks that every resource was returned.
    fn end(self, what: &str);
}
