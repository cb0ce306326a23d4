//! Explores programs without a real device: many schedules, faults, predicted times.
//!
//! # Contract
//! Every result is a function of the program, the options and a seed. Nothing reads a clock.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | [`simulate`] | runs under many schedules, random programs, faults, shrinking |
//! | [`ranks`] | programs of several ranks under many schedules, with faults |
//! | [`predict`] | the time of a list on devices of given costs |
//! | [`mod@what_if`] | the time of a recorded run with changes |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod predict;
pub mod ranks;
pub mod simulate;
pub mod what_if;
