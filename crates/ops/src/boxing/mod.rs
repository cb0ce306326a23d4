//! Boxing: from one sharding of a global tensor to another.
//!
//! # Contract
//! Everything here is a pure function of shapes, shardings and meshes, so all ranks of a program
//! plan alike, without a message. A [`Step`] changes how the ranks along *one* axis hold the
//! tensor, by one collective of each group of ranks along this axis, or by no message at all. A
//! [`path`] is the cheapest sequence of steps; [`Choice`] divides a call among the ranks such that
//! the paths of its operands are the cheapest together, and a [`Plan`] has the calls of each rank.
//!
//! # Costs
//! The cost of a step is the number of bytes that the ranks receive, exact also for uneven parts.
//! For a tensor of T bytes in a group of k ranks, each rank receives on average
//!
//! | step | bytes |
//! |---|---|
//! | S → B, P → S | T (k − 1) / k |
//! | P → B | 2 T (k − 1) / k |
//! | S → S′ | T (k − 1) / k² |
//! | B → S, B → P, S → P | 0 |
//!
//! Source: J. Yuan et al., "OneFlow: Redesign the Distributed Deep Learning Framework from
//! Scratch", 2021, table 2; its costs are those of all ranks together. Where several axes split one
//! dimension, the earlier is the major one, so a step can only add or remove the split of the last
//! of them: the others' parts are not contiguous.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `states` | the shardings that a tensor may take, the steps between them, their costs |
//! | `path` | the cheapest path |
//! | `step` | the calls that one rank makes for a step |
//! | `meshes` | messages between the ranks of two meshes |
//! | `choice` | how a call is divided, so that its operands move the fewest bytes |
//! | `program` | the divisions of all calls of a program together |
//! | `plan` | what a call does: on which shardings it is made, and the calls of one rank |

mod choice;
mod meshes;
mod path;
mod plan;
mod program;
mod states;
mod step;

pub use choice::{Choice, Operand, Pinned};
pub use meshes::{Transfer, exchange, reduced, transfers};
pub use path::{Path, Step, path};
pub use plan::{Made, Plan, Taken, between};
pub use program::{Call, Entries, PER_BYTE, Program, Shardings, Source, Value};
pub use step::{calls, is_identity};
