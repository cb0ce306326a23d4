//! Placement: one program for several ranks, each of which runs its part.
//!
//! A call or a tensor names the ranks that it is on; without a list it is on all. Every rank reads
//! the whole program and keeps its own part ([`project`]). A tensor lives where its producer ran.
//! A call on another rank takes a copy: a send on the first of the tensor's ranks and a receive on
//! the other, with the span of the call that needs it. The copy serves later calls until the tensor
//! changes.
//!
//! A tensor on several ranks is *equal* if the program alone shows that all ranks have the same
//! elements: it was declared, or computed from equal tensors without [`PARALLEL_ID`], or it is the
//! result of an allreduce, a broadcast or an allgather over its ranks. Otherwise each rank has
//! elements of its own, and a rank that has none cannot take a copy, since it is not defined whose.
//!
//! | module | holds |
//! |---|---|
//! | `walk` | the tensors' ranks and copies while the program is read |
//! | `global` | statements on tensors that the ranks of a mesh hold together, which stay whole |
//! | `part` | the part of one rank: its tensors and outputs, renumbered |

mod global;
mod part;
mod walk;

use millstream_ops::OpRegistry;
use millstream_types::AttrValue;

use crate::error::{Result, TraceError};
use crate::field::{Expected, Field};
use crate::json::{Raw, Reader};
use crate::program::{Action, Call, Placement, Program};

/// The argument that stands for the position of a rank among the ranks of the call.
pub const PARALLEL_ID: &str = "parallel_id";

/// The argument that stands for the number of ranks of the call.
pub const PARALLEL_COUNT: &str = "parallel_count";

impl<'a> Field<'a> for Placement {
    type Schema = Vec<u32>;
    const WHAT: &'static str = "the ranks, a list of integers";

    fn read(reader: &Reader<'a>, raw: Raw<'a, Self>, what: Expected<'_>) -> Result<Self> {
        let mut ranks: Vec<u32> = Vec::new();
        for rank in reader.list::<u32>(raw.cast(), what)? {
            let next = reader.number(rank, "a rank, an integer of 0 or more")?;
            if ranks.last().is_some_and(|last| *last >= next) {
                let message = "expected ranks in ascending order, each once";
                return Err(reader.error(rank.text, message));
            }
            ranks.push(next);
        }
        if ranks.is_empty() {
            let error = reader.error(raw.text, "expected at least one rank");
            return Err(error.help("without 'ranks', all ranks take part"));
        }
        Ok(Placement { ranks, span: reader.span(raw.text) })
    }
}

/// Returns the part of a program that one of so many ranks runs. A program that names no ranks is
/// the same on all.
///
/// # Errors
/// The program names a rank that does not exist, a call needs a tensor of another rank that cannot
/// be copied, or a statement cannot be split.
pub fn project(program: Program, rank: u32, ranks: u32, ops: &OpRegistry) -> Result<Program> {
    if !names_ranks(&program) {
        return Ok(program);
    }
    let walked = walk::walk(&program, rank, ranks, ops);
    match TraceError::several(walked.errors) {
        Some(error) => Err(error),
        None => Ok(part::part(program, rank, walked.part)),
    }
}

/// Returns whether any part of a program depends on the rank that runs it.
fn names_ranks(program: &Program) -> bool {
    let mut inputs = program.executables.iter().flat_map(|e| &e.inputs);
    program.tensors.iter().any(|tensor| tensor.ranks.is_some() || tensor.held.is_some())
        || inputs.any(|input| input.held.is_some())
        || program.statements().any(|statement| match &statement.action {
            Action::Call(call) => call.ranks.is_some() || call.held.is_some() || is_parallel(call),
            _ => false,
        })
}

/// Returns whether a call has an argument that stands for a position or number of ranks.
fn is_parallel(call: &Call) -> bool {
    let is_name = |text: &str| text == PARALLEL_ID || text == PARALLEL_COUNT;
    call.attrs.iter().any(|(_, value)| matches!(value, AttrValue::Str(text) if is_name(text)))
}
