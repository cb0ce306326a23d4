//! The columns of a profile's tables: the numbers of a row, and a row from its numbers.

use crate::model::{Instruction, NONE, Operand, Outcome, Resolution, Role, Storage, Times, Wait};

/// A number of a row: how it is read from the row, and how it is put into one.
pub(super) enum Cell<R> {
    U8(fn(&R) -> u8, fn(&mut R, u8)),
    U32(fn(&R) -> u32, fn(&mut R, u32)),
    /// A position that files of earlier versions lack: [`NONE`] there.
    Newer(fn(&R) -> u32, fn(&mut R, u32)),
    /// A whole number, or none.
    F64(fn(&R) -> Option<u64>, fn(&mut R, Option<u64>)),
}

use Cell::{F64, Newer, U8, U32};

/// A row of a table.
pub(super) trait Row: Default + 'static {
    /// The name of each column, with its number of a row.
    const COLUMNS: &[(&str, Cell<Self>)];
}

impl Row for Instruction {
    const COLUMNS: &[(&str, Cell<Instruction>)] = &[
        ("name", U32(|i| i.name, |i, name| i.name = name)),
        ("role", U8(|i| i.role as u8, |i, k| i.role = of(&Role::ALL, k))),
        ("stream", U32(|i| i.stream, |i, stream| i.stream = stream)),
        ("seq", F64(|i| Some(i.seq), |i, seq| i.seq = seq.unwrap_or(0))),
        ("place", U32(|i| i.place, |i, place| i.place = place)),
        ("issued", F64(|i| i.issued, |i, issued| i.issued = issued)),
        (
            "ready",
            F64(
                |i| i.times.map(|t| t.ready),
                |i, at| i.times = at.map(|ready| Times { ready, ..Times::default() }),
            ),
        ),
        (
            "start",
            F64(
                |i| i.times.map(|t| t.start),
                |i, at| i.times = i.times.zip(at).map(|(t, start)| Times { start, ..t }),
            ),
        ),
        (
            "end",
            F64(
                |i| i.times.map(|t| t.end),
                |i, at| {
                    i.times = i.times.zip(at).map(|(t, end)| Times { end: end.max(t.start), ..t });
                },
            ),
        ),
        ("outcome", U8(|i| i.outcome as u8, |i, k| i.outcome = of(&Outcome::ALL, k))),
        ("operandsFrom", U32(|i| i.operands[0], |i, from| i.operands[0] = from)),
        ("operandsTo", U32(|i| i.operands[1], |i, to| i.operands[1] = to)),
        ("parent", U32(|i| i.parent, |i, parent| i.parent = parent)),
        ("submitter", Newer(|i| i.submitter.unwrap_or(NONE), |i, k| i.submitter = known(k))),
        ("argument", Newer(|i| i.arguments.unwrap_or(NONE), |i, k| i.arguments = known(k))),
    ];
}

impl Row for Operand {
    const COLUMNS: &[(&str, Cell<Operand>)] = &[
        ("operandTensor", U32(|o| o.tensor, |o, tensor| o.tensor = tensor)),
        (
            "operandAccess",
            U8(
                |o| u8::from(o.reads) | u8::from(o.writes) << 1,
                |o, bits| (o.reads, o.writes) = (bits & 1 != 0, bits & 2 != 0),
            ),
        ),
    ];
}

/// The tensors of waits are two columns of their own: the count of each wait, and all together.
impl Row for Wait {
    const COLUMNS: &[(&str, Cell<Wait>)] = &[
        ("waitWaiter", U32(|w| w.waiter, |w, waiter| w.waiter = waiter)),
        ("waitUntil", U32(|w| w.until, |w, until| w.until = until)),
        ("waitUser", U32(|w| w.user, |w, user| w.user = user)),
        (
            "waitResolution",
            U8(|w| w.resolution as u8, |w, k| w.resolution = of(&Resolution::ALL, k)),
        ),
        ("waitCoveredBy", U32(|w| w.covered_by, |w, by| w.covered_by = by)),
    ];
}

impl Row for Storage {
    const COLUMNS: &[(&str, Cell<Storage>)] = &[
        ("storageArena", U32(|s| s.arena, |s, arena| s.arena = arena)),
        ("storageOffset", F64(|s| Some(s.offset), |s, at| s.offset = at.unwrap_or(u64::MAX))),
        ("storageSize", F64(|s| Some(s.size), |s, size| s.size = size.unwrap_or(0))),
        ("storageGeneration", F64(|s| Some(s.generation), |s, k| s.generation = k.unwrap_or(0))),
        ("storageTensor", U32(|s| s.tensor, |s, tensor| s.tensor = tensor)),
        ("storageAllocated", U32(|s| s.allocated, |s, by| s.allocated = by)),
        ("storageReleased", U32(|s| s.released, |s, by| s.released = by)),
        ("storageLastUse", U32(|s| s.last_use, |s, by| s.last_use = by)),
    ];
}

/// Returns a position, if it is one.
fn known(position: u32) -> Option<u32> {
    Some(position).filter(|k| *k != NONE)
}

/// Returns the value of a number in a file; the default if there is none.
fn of<T: Copy + Default>(all: &[T], number: u8) -> T {
    all.get(usize::from(number)).copied().unwrap_or_default()
}
