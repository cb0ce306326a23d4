//! The bases of a launch: the formals, and the arenas that hold something.

use millstream_instructions::InstructionList;
use millstream_instructions::passes::arena_bytes;
use millstream_types::DeviceId;

use super::{Compiled, Compiler, graphs};
use crate::tapes::tape::{Address, Tape};

impl Compiler<'_> {
    /// Ends the compilation of a list.
    pub(super) fn finish(self, list: &InstructionList) -> Compiled {
        // Bases are numbered without the arenas that hold nothing.
        let mut memory = Vec::new();
        let mut numbers = Vec::new();
        for (device, bytes) in list.arenas.iter().zip(arena_bytes(list)) {
            numbers.push((self.formals.len() + memory.len()) as u32);
            if bytes > 0 {
                memory.push((device.clone(), bytes));
            }
        }
        // A tensor of no bytes in an empty arena gets any base: no byte is accessed.
        let last = (self.formals.len() + memory.len()).saturating_sub(1) as u32;
        let formals = self.formals.len();
        let renumber = |address: &mut Address| {
            if let Some(arena) = (address.base as usize).checked_sub(formals) {
                address.base = numbers.get(arena).map_or(last, |number| last.min(*number));
            }
        };
        let tapes = self.tapes.into_iter().map(|mut draft| {
            draft.addresses.iter_mut().for_each(renumber);
            for call in &mut draft.calls {
                call.operands.iter_mut().for_each(|o| renumber(&mut o.address));
                call.workspace.iter_mut().for_each(|memory| renumber(&mut memory.0));
            }
            draft.finish()
        });
        let tapes: Box<[Tape]> = tapes.collect();
        let devices = self.tables.policies.devices();
        let has_graphs =
            |device: &DeviceId| devices.capabilities(device).is_ok_and(|can| can.graphs);
        let graphs = graphs::plan(&tapes, &list.scalars, has_graphs);
        Compiled {
            tapes,
            graphs: graphs.into(),
            memory: memory.into(),
            events: self.next_event,
            reads: self.reads.into(),
            channels: self.channels.into(),
            given: self.given.into(),
        }
    }
}
