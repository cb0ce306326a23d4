//! The reading of a list as a program: which storages it uses where, and which calls may be made
//! again.
//!
//! A call may be made again if it is a function of its operands and changes nothing else: it has no
//! side effect, its kernels are the standard ones, and all that it writes is private. Batch
//! normalisation in training may, although it updates running statistics: the call made again
//! leaves them out.

use millstream_ops::batch_norm;
use millstream_ops::closure::CLOSURE;
use millstream_types::{Access, Attrs};
use rustc_hash::FxHashMap;

use super::program::{Buffer, Program, Work, Writer};
use crate::instruction::{Accesses, Class, Operand};
use crate::passes::PassOptions;
use crate::passes::facts::Facts;
use crate::passes::placement::rounded;
use crate::passes::timeline::time;
use crate::table::Body;

/// A list as a program.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) program: Program,
    /// The index of the instruction of each step.
    pub(super) steps: Vec<usize>,
    /// The storage of each buffer.
    pub(super) storages: Vec<usize>,
}

/// The uses of storages that decide which calls may be made again.
struct Uses {
    /// The buffer of each private storage.
    buffers: FxHashMap<usize, usize>,
    /// For each storage, the steps that write it, or hold it.
    writes: FxHashMap<usize, Vec<usize>>,
    /// The storages that a critical section holds at some time.
    held: Vec<usize>,
}

/// Reads a list.
pub(super) fn read(facts: &Facts<'_>, options: &PassOptions<'_>, budgets: Vec<u64>) -> Reading {
    let list = facts.list;
    let mut reading = Reading {
        program: Program { budgets, ..Program::default() },
        steps: Vec::new(),
        storages: Vec::new(),
    };
    let mut uses =
        Uses { buffers: FxHashMap::default(), writes: FxHashMap::default(), held: Vec::new() };
    for (index, instruction) in list.instructions.iter().enumerate() {
        let body = &instruction.body;
        if let Body::AllocateTensor { tensor, placement, .. } = body {
            let storage = facts.storage_of(*tensor);
            uses.buffers.insert(storage, reading.storages.len());
            reading.storages.push(storage);
            let (arena, bytes) = (placement.arena.index(), rounded(placement.size));
            reading.program.buffers.push(Buffer { arena, bytes, ..Buffer::default() });
        }
        if body.operands().is_empty() {
            continue;
        }
        let step = reading.steps.len();
        reading.steps.push(index);
        let mut work = Work { time: time(facts, options.costs, body), ..Work::default() };
        if let (Body::OpCall { .. }, Some(scratch)) = (body, body.placement()) {
            work.scratch = Some((scratch.arena.index(), rounded(scratch.size)));
        }
        let holds = body.kind().accesses() == Accesses::Holds;
        for &Operand { tensor, access } in body.operands() {
            let storage = facts.storage_of(tensor);
            if holds {
                uses.held.push(storage);
            }
            let steps = uses.writes.entry(storage).or_default();
            if (access.writes() || holds) && steps.last() != Some(&step) {
                steps.push(step);
            }
            let Some(&buffer) = uses.buffers.get(&storage) else { continue };
            let used = &mut reading.program.buffers[buffer].uses;
            if used.last() != Some(&step) {
                used.push(step);
            }
            if (access.reads() || holds) && !work.reads.contains(&buffer) {
                work.reads.push(buffer);
            }
            if (access.writes() || holds) && !work.writes.contains(&buffer) {
                work.writes.push(buffer);
            }
        }
        reading.program.steps.push(work);
    }
    reading.writers(facts, options, &uses);
    reading
}

impl Reading {
    /// Finds the writers of all buffers.
    fn writers(&mut self, facts: &Facts<'_>, options: &PassOptions<'_>, uses: &Uses) {
        for (step, &index) in self.steps.iter().enumerate() {
            let body = &facts.list.instructions[index].body;
            let again = operands_again(facts, options, body);
            for &buffer in &self.program.steps[step].writes {
                let number = self.program.buffers[buffer].writers.len();
                let before = self.program.buffers[buffer].writers.last();
                let mut writer = Writer { step, deadline: usize::MAX, ..Writer::default() };
                let of_buffer =
                    |o: &&Operand| uses.buffers.get(&facts.storage_of(o.tensor)) == Some(&buffer);
                let own: Vec<&Operand> = body.operands().iter().filter(of_buffer).collect();
                let reads = own.iter().any(|o| o.access.reads());
                let is_whole = |o: &&Operand| o.access == Access::Write && facts.is_whole(o.tensor);
                let begins = !reads && (before.is_none() || own.iter().any(is_whole));
                match before {
                    _ if begins => writer.first = Some(number),
                    Some(before) => {
                        (writer.first, writer.deadline) = (before.first, before.deadline)
                    }
                    None => {}
                }
                let fits = again.as_ref().is_some_and(|all| {
                    // It is one of those that the call made again writes.
                    let writes = all.iter().any(|o| o.access.writes() && of_buffer(&o));
                    writes && writer.inputs_of(facts, uses, all, buffer)
                });
                if !fits {
                    writer.first = None;
                }
                self.program.buffers[buffer].writers.push(writer);
            }
        }
    }
}

impl Writer {
    /// Adds the inputs of a call with these operands. Returns whether it may be made again for the
    /// content of `buffer`.
    fn inputs_of(
        &mut self,
        facts: &Facts<'_>,
        uses: &Uses,
        operands: &[Operand],
        buffer: usize,
    ) -> bool {
        for &Operand { tensor, access } in operands {
            let storage = facts.storage_of(tensor);
            let private = uses.buffers.get(&storage).copied();
            if private == Some(buffer) {
                continue;
            }
            if uses.held.contains(&storage) || access.writes() && private.is_none() {
                return false;
            }
            if !access.reads() {
                continue;
            }
            let writes = uses.writes.get(&storage).map_or(&[][..], Vec::as_slice);
            let later = writes[writes.partition_point(|&step| step < self.step)..].first();
            match (private, later) {
                // A private input has its last content: it can be computed again itself.
                (Some(_), Some(_)) => return false,
                (Some(input), None) if !self.inputs.contains(&input) => self.inputs.push(input),
                (None, Some(&changed)) => self.deadline = self.deadline.min(changed),
                _ => {}
            }
        }
        true
    }
}

/// Returns the operands of a call made again; none if it may not be made again.
fn operands_again(
    facts: &Facts<'_>,
    options: &PassOptions<'_>,
    body: &Body,
) -> Option<Vec<Operand>> {
    let Body::OpCall { op, operands, attrs, .. } = body else { return None };
    let name = facts.list.ops.name(*op);
    if facts.has_side_effect(body) || name == CLOSURE || !(options.standard_kernels)(name) {
        return None;
    }
    debug_assert_eq!(body.class(), Class::Computes);
    let (left_out, _) = left_out(name, attrs.as_deref(), operands.len());
    let kept = operands.iter().enumerate().filter(|(k, _)| !left_out.contains(k));
    Some(kept.map(|(_, operand)| *operand).collect())
}

/// Returns the positions of the operands that a call made again leaves out, and its arguments if
/// they are others.
pub(super) fn left_out(
    op: &str,
    attrs: Option<&Attrs>,
    operands: usize,
) -> (Vec<usize>, Option<Attrs>) {
    match attrs.and_then(|attrs| batch_norm::again(op, attrs, operands)) {
        Some((left_out, attrs)) => (left_out.to_vec(), Some(attrs)),
        None => (Vec::new(), None),
    }
}
