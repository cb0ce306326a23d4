//! Gives a new tensor the storage of an operand that has its last use in the same call.
//!
//! The new tensor becomes a view of that operand: `AllocateTensor %2`, `relu (%1 read, %2 write)`
//! becomes `ViewTensor %2 of %1` with the same call. So memory has one owner at any time, both
//! accesses are in one storage for the checker, and values are followed as for any view. This is
//! *in-place* operation, as of TVM's storage rewriting and of MXNet's `FInplaceOption`.
//!
//! # Conditions
//! 1. The op allows its result to overwrite an operand ([`Op::overwrites`]); where it is a standard
//!    one, its kernels are, too.
//! 2. The call is on an in-order stream, which all other readers of the operand are on as well, so
//!    that no new wait is needed.
//! 3. Operand and result are private, whole storages, of the same dtype, shape and strides, on one
//!    device. Nothing but calls uses the operand's storage, the last one here; the result begins
//!    here. The call has no view of that storage with another layout.
//!
//! [`Op::overwrites`]: millstream_ops::Op::overwrites

use millstream_types::{Access, StreamId, StreamMode, TensorId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::instruction::Operand;
use crate::list::InstructionList;
use crate::passes::PassOptions;
use crate::passes::facts::Facts;
use crate::planner::ArenaId;
use crate::table::{Body, Instruction};

/// How a list uses a storage.
#[derive(Default)]
struct Uses {
    /// The instruction that begins it and its arena, unless it is an external.
    begun: Option<(usize, ArenaId)>,
    /// The first and the last instruction that names a tensor of it, beginnings and releases of
    /// tensors aside; a view counts where it begins.
    first: Option<usize>,
    last: usize,
    /// The streams of the calls that only read it.
    readers: FxHashSet<StreamId>,
    /// Whether something other than calls uses it.
    escapes: bool,
}

impl Uses {
    fn at(&mut self, index: usize) {
        self.first.get_or_insert(index);
        self.last = index;
    }

    /// Returns the uses of each storage of a list.
    fn of(facts: &Facts<'_>) -> Vec<Uses> {
        let mut all: Vec<Uses> = facts.storages.iter().map(|_| Uses::default()).collect();
        for (index, Instruction { body, .. }) in facts.list.instructions.iter().enumerate() {
            if let Body::AllocateTensor { tensor, placement, .. } = body {
                all[facts.storage_of(*tensor)].begun = Some((index, placement.arena));
            }
            if let Some(of) = body.view_of() {
                all[facts.storage_of(of)].at(index);
            }
            let call = if let Body::OpCall { at, .. } = body { Some(at.stream) } else { None };
            for operand in body.operands() {
                let uses = &mut all[facts.storage_of(operand.tensor)];
                uses.at(index);
                uses.escapes |= call.is_none();
                uses.readers.extend(call.filter(|_| operand.access == Access::Read));
            }
        }
        all
    }
}

/// Returns the list with a view in place of each new tensor for which the conditions hold; none if
/// there is none. The memory of the result has to be planned anew.
pub(super) fn reused(facts: &Facts<'_>, options: &PassOptions<'_>) -> Option<InstructionList> {
    let list = facts.list;
    let uses = Uses::of(facts);
    let mut views: FxHashMap<usize, Instruction> = FxHashMap::default();
    let mut replaced: FxHashSet<usize> = FxHashSet::default();
    for (index, Instruction { body, .. }) in list.instructions.iter().enumerate() {
        let Some((tensor, of)) = pair(facts, &uses, index, body, options) else { continue };
        let Some((begun, _)) = uses[facts.storage_of(tensor)].begun else { continue };
        let spec = Box::new(facts.tensor(tensor).spec.clone());
        let origin = list.instructions[begun].origin.clone();
        views.insert(index, Instruction { body: Body::ViewTensor { tensor, of, spec }, origin });
        replaced.insert(begun);
    }
    if views.is_empty() {
        return None;
    }
    let kept = list.instructions.iter().enumerate().filter(|(index, _)| !replaced.contains(index));
    let instructions = kept
        .flat_map(|(index, instruction)| {
            views.remove(&index).into_iter().chain([instruction.clone()])
        })
        .collect();
    Some(InstructionList { instructions, ..list.clone() })
}

/// Returns the result of a call, and the operand whose storage it can have.
fn pair(
    facts: &Facts<'_>,
    uses: &[Uses],
    index: usize,
    body: &Body,
    options: &PassOptions<'_>,
) -> Option<(TensorId, TensorId)> {
    let Body::OpCall { at, op, operands, .. } = body else { return None };
    let name = facts.list.ops.name(*op);
    let op = options.ops.find(name).and_then(|id| options.ops.get(id))?;
    // A kernel of the program need not keep the promise of a standard op.
    let is_kept = !options.ops.is_standard(name) || (options.standard_kernels)(name);
    let is_in_order = facts.list.streams[at.stream.index()].mode == StreamMode::InOrder;
    if !(op.overwrites() && is_kept && is_in_order) {
        return None;
    }
    let (result, inputs) = operands.split_last()?;
    let spec = facts.tensor(result.tensor).spec;
    let made = &uses[facts.storage_of(result.tensor)];
    let (_, arena) = made.begun.filter(|_| {
        let reads = |o: &Operand| o.access == Access::Read;
        made.first == Some(index)
            && result.access == Access::Write
            && facts.is_whole(result.tensor)
            && inputs.iter().all(reads)
    })?;
    let is_free = |input: &&Operand| {
        let storage = facts.storage_of(input.tensor);
        let of_storage = |other: &&Operand| facts.storage_of(other.tensor) == storage;
        let uses = &uses[storage];
        uses.last == index
            && !uses.escapes
            && uses.readers.iter().all(|reader| *reader == at.stream)
            && uses.begun.is_some_and(|(_, begun_in)| begun_in == arena)
            && facts.is_whole(input.tensor)
            && inputs.iter().filter(of_storage).all(|o| facts.tensor(o.tensor).spec == spec)
    };
    inputs.iter().find(is_free).map(|input| (result.tensor, input.tensor))
}
