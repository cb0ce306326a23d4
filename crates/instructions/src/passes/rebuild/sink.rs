//! The sink of an emission: the instructions, with the ids that their tensors had.

use std::convert::Infallible;

use millstream_types::{Point, TensorId};
use rustc_hash::FxHashMap;

use crate::builder::Sink;
use crate::ids::{Remap, Role};
use crate::table::Instruction;

/// A sink that collects a list whose tensors keep their ids.
#[derive(Default)]
pub(super) struct ListSink {
    pub(super) instructions: Vec<Instruction>,
    pub(super) annotated: bool,
    pub(super) names: Names,
    /// The old instruction that each instruction was emitted for, by index.
    pub(super) sources: Vec<usize>,
    /// The old instruction that is being emitted.
    pub(super) source: usize,
}

impl Sink for ListSink {
    fn emit(&mut self, mut instruction: Instruction) {
        let Ok(()) = instruction.body.remap(&mut self.names);
        self.instructions.push(instruction);
        self.sources.push(self.source);
    }

    fn reached(&self, _: Point) -> bool {
        false
    }

    fn annotated(&self) -> bool {
        self.annotated
    }
}

/// The ids of a builder's slots.
#[derive(Default)]
pub(super) struct Names {
    pub(super) by_slot: FxHashMap<TensorId, TensorId>,
    /// The id of the tensor that begins next.
    pub(super) next: TensorId,
}

impl Remap for Names {
    type Error = Infallible;

    fn tensor(&mut self, slot: TensorId, role: Role) -> Result<TensorId, Self::Error> {
        if role == Role::Defines {
            self.by_slot.insert(slot, self.next);
        }
        Ok(self.by_slot.get(&slot).copied().unwrap_or(slot))
    }
}
