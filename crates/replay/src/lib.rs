//! From instruction lists to tapes, and the private memory of launches.
//!
//! What is public here serves the crate above, and may change with any version.
//!
//! | module | holds |
//! |---|---|
//! | `compile` | from a list to tapes |
//! | `instance` | private memory and streams, for launches that overlap |
//! | `overlap` | formals of a launch that share memory |
#![deny(missing_docs)]

pub mod compile;
pub mod instance;
pub mod overlap;
