//! Tables as all of Millstream's commands print them.
//!
//! # Contract
//! A table is as wide as `COLUMNS` says, else as wide as the terminal; where there is none, nothing
//! is wrapped.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`table`] | tables and messages, their width, numbers of bytes with a unit |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod table;
