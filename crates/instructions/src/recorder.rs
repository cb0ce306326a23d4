//! Recording of a machine's emissions as a list.
//!
//! A machine reuses slots of tensors and events once their work has retired, at a moment that
//! depends on the devices. In a list, ids count up in the order of their first appearance, so that
//! the same program gives the same list.

use std::collections::HashMap;
use std::convert::Infallible;

use millstream_types::{CallbackId, DeviceId, EventId, ListId, ReadId, TensorId};

use crate::ids::{Remap, Role};
use crate::list::{External, InstructionList, StreamDecl};
use crate::table::Instruction;

/// A recorder of instructions, which renumbers their ids.
#[derive(Debug, Default)]
pub struct ListRecorder {
    list: InstructionList,
    names: Names,
}

impl ListRecorder {
    /// Returns a recorder with an empty list.
    pub fn new() -> ListRecorder {
        ListRecorder::default()
    }

    /// Declares a stream. Streams are declared in the order of their ids.
    pub fn stream(&mut self, decl: StreamDecl) {
        self.list.streams.push(decl);
    }

    /// Returns the number of declared streams.
    pub fn streams(&self) -> usize {
        self.list.streams.len()
    }

    /// Declares an arena. Arenas are declared in the order of their ids.
    pub fn arena(&mut self, device: DeviceId) {
        self.list.arenas.push(device);
    }

    /// Returns the number of declared arenas.
    pub fn arenas(&self) -> usize {
        self.list.arenas.len()
    }

    /// Sets the names of ops.
    pub fn ops<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.list.ops = names.into_iter().collect();
    }

    /// Declares a tensor that exists before the list. `external.tensor` is the slot's id.
    pub fn external(&mut self, mut external: External) {
        external.tensor = self.names.define_tensor(external.tensor);
        self.list.externals.push(external);
    }

    /// Adds the list of an executable that the machine knows by `id`, if it is not there yet.
    pub fn executable(&mut self, id: ListId, list: &InstructionList) {
        let next = ListId(self.list.executables.len() as u32);
        if *self.names.lists.entry(id).or_insert(next) == next {
            self.list.executables.push(list.clone());
        }
    }

    /// Adds an instruction. The list of an executable is added before its first launch.
    pub fn push(&mut self, instruction: &Instruction) {
        let mut copy = instruction.clone();
        let Ok(()) = copy.body.remap(&mut self.names);
        self.list.instructions.push(copy);
    }

    /// Returns the id in the list of the tensor that has a slot now.
    pub fn name_of(&self, slot: TensorId) -> Option<TensorId> {
        self.names.tensors.get(slot.index()).copied().flatten()
    }

    /// Returns the list so far.
    pub const fn list(&self) -> &InstructionList {
        &self.list
    }

    /// Returns the list.
    pub fn finish(self) -> InstructionList {
        self.list
    }
}

/// The ids of a machine's slots in a list.
#[derive(Debug, Default)]
struct Names {
    /// By slot: slots are dense.
    tensors: Vec<Option<TensorId>>,
    events: Vec<Option<EventId>>,
    lists: HashMap<ListId, ListId>,
    next_tensor: u32,
    next_event: u32,
    next_read: u32,
    next_callback: u32,
}

impl Names {
    fn define_tensor(&mut self, slot: TensorId) -> TensorId {
        let name = TensorId(count(&mut self.next_tensor));
        set(&mut self.tensors, slot.index(), name);
        name
    }
}

impl Remap for Names {
    type Error = Infallible;

    fn tensor(&mut self, slot: TensorId, role: Role) -> Result<TensorId, Infallible> {
        let known = self.tensors.get(slot.index()).copied().flatten();
        let known = known.filter(|_| role != Role::Defines);
        // A tensor without a name was made before recording began.
        Ok(known.unwrap_or_else(|| self.define_tensor(slot)))
    }

    fn event(&mut self, slot: EventId, role: Role) -> Result<EventId, Infallible> {
        if role != Role::Defines
            && let Some(&Some(name)) = self.events.get(slot.index())
        {
            return Ok(name);
        }
        let name = EventId(count(&mut self.next_event));
        set(&mut self.events, slot.index(), name);
        Ok(name)
    }

    fn list(&mut self, id: ListId) -> Result<ListId, Infallible> {
        Ok(self.lists.get(&id).copied().unwrap_or(id))
    }

    // Each read and each callback has an id of its own.

    fn read(&mut self, _: ReadId) -> Result<ReadId, Infallible> {
        Ok(ReadId(count(&mut self.next_read)))
    }

    fn callback(&mut self, _: CallbackId) -> Result<CallbackId, Infallible> {
        Ok(CallbackId(count(&mut self.next_callback)))
    }
}

/// Sets the name of a slot.
fn set<T: Copy>(names: &mut Vec<Option<T>>, slot: usize, name: T) {
    if names.len() <= slot {
        names.resize(slot + 1, None);
    }
    names[slot] = Some(name);
}

/// Returns the counter's value and adds one.
const fn count(next: &mut u32) -> u32 {
    *next += 1;
    *next - 1
}
