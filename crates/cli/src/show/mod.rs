//! What the command line shows.

pub(crate) mod memory;
pub(crate) mod report;
pub(crate) mod snippet;
pub(crate) mod tables;
pub(crate) mod values;
pub(crate) mod violations;
