//! Tables, reports and messages of the command line.

pub(crate) mod memory;
pub(crate) mod report;
pub(crate) mod snippet;
pub(crate) mod tables;
pub(crate) mod values;
pub(crate) mod violations;
