//! Tables and files as all of Millstream's commands write them.
//!
//! # Contract
//! A table is as wide as `COLUMNS` says, else as wide as the terminal; where there is none, nothing
//! is wrapped. Output that nobody reads any more (a closed pipe) is no error; a full disk is one.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`file`](mod@file) | data written to a file, or to standard output for `-` |
//! | [`outputs`] | the files that options name, and what is printed beside them |
//! | [`table`] | tables, their width, numbers of bytes with a unit |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod file;
pub mod outputs;
pub mod table;
