//! Tables and files as all of Millstream's commands write them.
//!
//! # Contract
//! A table is as wide as `COLUMNS` says, else as wide as the terminal, else 100 columns. Output
//! that nobody reads any more (a closed pipe) is no error.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`file`](mod@file) | text written to a file, or to standard output for `-` |
//! | [`table`] | tables, their width, numbers of bytes with a unit |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod file;
pub mod table;
