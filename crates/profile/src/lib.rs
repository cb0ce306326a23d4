//! Profiles of runs: what ran when, what waited for what and why, which tensor held which memory.
//!
//! # Contract
//! A [`Profile`] is plain data. A measured run ([`measured`]), a prediction, and the timeline of
//! another program are the same model, so each has all writers. Times are nanoseconds since the
//! profile's start. A profile that was read is checked: every position in it is that of something.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`model`] | the data |
//! | `from_list`, `measured`, `describe` | from a list, and from the times of a run, to a profile |
//! | `launches` | the instructions within launches of executables, with their times |
//! | `scope`, `causes` | the list that instructions are of; why its waits were made |
//! | `merged` | several ranks in one profile |
//! | [`order`] | what each instruction comes after; the critical path |
//! | [`memory`] | who holds memory, and when |
//! | [`work`] | what calls compute and move |
//! | [`repeats`] | calls that repeat, which a traced function could replay |
//! | [`family`] | the kind of work that an instruction does, by its name |
//! | `spread` | the median of a time that was measured several times |
//! | [`lanes`] | overlapping instructions of a stream, side by side |
//! | [`summary`] | streams, ops, waits, critical path and memory, as tables |
//! | [`columns`] | the file's form, which all files carry |
//! | [`perfetto`], [`page`] | the writers |
//! | [`compare`](mod@compare) | the difference between two profiles |
//! | [`file`](mod@file) | reads any file that holds a profile |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod causes;
pub mod columns;
pub mod compare;
mod describe;
pub mod family;
pub mod file;
mod from_list;
mod interned;
pub mod lanes;
mod launches;
mod measured;
pub mod memory;
mod merged;
pub mod model;
pub mod order;
pub mod page;
pub mod perfetto;
pub mod repeats;
mod scope;
mod spread;
pub mod summary;
pub mod work;

pub use from_list::{ListTimes, of_list};
pub use interned::Interned;
pub use launches::LaunchSteps;
pub use measured::{add_ranges, measured, name_places};
pub use merged::merged;
pub use model::{Outcome, Profile, Runs, Source, Times};
pub use spread::Spread;
