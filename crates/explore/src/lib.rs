//! Explores programs without a real device: many schedules, faults, predicted times.
//!
//! # Contract
//! Every result is a function of the program, the options and a seed. Nothing reads a clock.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | [`simulate`] | runs under many schedules, random programs, faults, shrinking |
//! | [`predict`] | the time of a list on devices of given costs |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod predict;
pub mod simulate;
