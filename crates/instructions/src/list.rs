//! A list of instructions with its header.

use millstream_types::{DeviceId, OpId, StreamKey, StreamMode, TensorId, TensorSpec};

use crate::planner::ArenaId;
use crate::table::{Body, Instruction};
use crate::text::OpNames;

/// A stream that a list uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDecl {
    /// Which stream.
    pub key: StreamKey,
    /// In-order or a pool. The list is made for this.
    pub mode: StreamMode,
}

/// A tensor that exists before the list and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Its id within the list.
    pub tensor: TensorId,
    /// The name by which it is given to the list.
    pub name: String,
    /// Dtype, shape and layout.
    pub spec: TensorSpec,
    /// The bytes of its storage.
    pub bytes: u64,
    /// The arena that the storage lies in.
    pub arena: ArenaId,
}

/// A list of instructions and what their ids stand for: stream `s0` is the first of `streams`,
/// arena `a0` the first of `arenas`.
///
/// Two lists are the same if they read the same: ops are compared by name, as the order of their
/// ids is not written down.
#[derive(Clone, Debug, Default)]
pub struct InstructionList {
    /// The streams, by id.
    pub streams: Vec<StreamDecl>,
    /// The devices whose memory the arenas are, by id.
    pub arenas: Vec<DeviceId>,
    /// The tensors from outside.
    pub externals: Vec<External>,
    /// The ops, by id.
    pub ops: OpNames,
    /// The instructions, in program order.
    pub instructions: Vec<Instruction>,
}

impl PartialEq for InstructionList {
    fn eq(&self, other: &InstructionList) -> bool {
        let same_op = |a: OpId, b: OpId| match (self.ops.get(a), other.ops.get(b)) {
            (None, None) => a == b,
            (a, b) => a == b,
        };
        let same = |a: &Instruction, b: &Instruction| {
            a.origin == b.origin
                && match (&a.body, &b.body) {
                    (
                        Body::OpCall { at, op, operands, attrs, workspace, priority },
                        Body::OpCall {
                            at: at2,
                            op: op2,
                            operands: operands2,
                            attrs: attrs2,
                            workspace: workspace2,
                            priority: priority2,
                        },
                    ) => {
                        (at, operands, attrs) == (at2, operands2, attrs2)
                            && (workspace, priority) == (workspace2, priority2)
                            && same_op(*op, *op2)
                    }
                    (a, b) => a == b,
                }
        };
        (&self.streams, &self.arenas, &self.externals)
            == (&other.streams, &other.arenas, &other.externals)
            && self.instructions.len() == other.instructions.len()
            && self.instructions.iter().zip(&other.instructions).all(|(a, b)| same(a, b))
    }
}

/// A list of which it has been shown that conflicting uses are ordered, that memory is not used
/// before, after or beside its owner's life, and that every wait has its record.
#[derive(Clone, Debug)]
pub struct CheckedList(InstructionList);

impl CheckedList {
    /// Takes the list's soundness on trust. The checker of `millstream_verify` is the one caller
    /// that knows.
    ///
    /// # Safety
    /// Every two conflicting uses of a storage, as the list writes them down, are ordered by it;
    /// each use lies within the life of its tensor; placements are given out again only after the
    /// last use of their previous owner; and every wait stands behind its record. What a list does
    /// not say, how large arenas are and what ops really access, is for who runs it to compare.
    pub unsafe fn assume_checked(list: InstructionList) -> CheckedList {
        CheckedList(list)
    }

    /// The list.
    pub const fn list(&self) -> &InstructionList {
        &self.0
    }
}
