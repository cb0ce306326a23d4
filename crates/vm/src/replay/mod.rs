//! From lists to tapes: compilation, and the private memory of launches.
//!
//! | module | holds |
//! |---|---|
//! | `compile` | from a list to tapes |
//! | `instance` | private memory and streams, for launches that overlap |
//! | `overlap` | formals of a launch that share memory |

pub(crate) mod compile;
pub(crate) mod instance;
pub(crate) mod overlap;
