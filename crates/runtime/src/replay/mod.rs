//! From instruction lists to tapes, and the private memory of launches.
//!
//! | module | holds |
//! |---|---|
//! | `compile` | from a list to tapes |
//! | `instance` | private memory and streams, for launches that overlap |
//! | `overlap` | formals of a launch that share memory |

pub mod compile;
pub mod instance;
pub mod overlap;
