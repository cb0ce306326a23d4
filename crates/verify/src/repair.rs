//! The wait that repairs a violation of order.

use millstream_instructions::{Body, Instruction, InstructionList, Via};
use millstream_types::{Origin, Point, StreamId};

use crate::violation::{Missing, Violation};

/// A wait that orders two unordered uses when inserted into a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Repair {
    /// The index of the instruction to insert the wait before.
    pub before: usize,
    /// The wait.
    pub wait: Instruction,
}

/// Returns the wait that orders the two uses of a race, or of memory that is reused too early. The
/// wait is a StreamWaitEvent if a sequence number is free before the later use. Otherwise, and for
/// an allocation, it is a HostObserved, which has no sequence number.
pub fn repair(list: &InstructionList, violation: &Violation) -> Option<Repair> {
    let (before, missing) = match violation {
        Violation::Race { later, missing, .. } => (later.site.index, missing),
        Violation::ReusedTooEarly { new, missing, .. } => (new.index, missing),
        _ => return None,
    };
    let &Missing { waiter, point, .. } = missing;
    let observed = || Body::HostObserved { points: [point].into_iter().collect() };
    let body = match list.instructions.get(before)?.body.at() {
        Some(at) if at.stream == waiter => match number(list, before, at) {
            Some(seq) => {
                Body::StreamWaitEvent { at: Point::new(waiter, seq), until: point, via: Via::Host }
            }
            None => observed(),
        },
        _ => observed(),
    };
    Some(Repair { before, wait: Instruction { body, origin: Origin::Unknown } })
}

/// Returns a free sequence number before `at`, the point of the instruction at `index`.
fn number(list: &InstructionList, index: usize, at: Point) -> Option<u64> {
    let last = list.instructions[..index].iter().rev().find_map(|i| place(&i.body, at.stream));
    Some(last.unwrap_or(0) + 1).filter(|&seq| seq < at.seq)
}

/// The last place that an instruction takes on a stream.
fn place(body: &Body, stream: StreamId) -> Option<u64> {
    let taken = body.at().into_iter().chain(body.second_point()).filter(|p| p.stream == stream);
    taken.map(|p| p.seq).max()
}
