//! The types that a program holds: machines, handles, calls.

pub(crate) mod batch;
pub(crate) mod handle;
pub(crate) mod machine;
pub(crate) mod prepared;
