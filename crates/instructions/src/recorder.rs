//! Recording of a machine's emissions as a list.
//!
//! A machine reuses slots of tensors and events once their work has retired, at a moment that
//! depends on the devices. In a list, ids count up in the order of their first appearance, so that
//! the same program gives the same list.
//!
//! A tensor that was made before the list begins is declared as an external when the list first
//! uses it. Other tensors of its storage become views of it, so that the list has their hazards.
//! Slots decide no order here.

use std::convert::Infallible;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{
    CallbackId, DeviceId, EventId, ListId, Origin, ReadId, ScalarId, ScalarValue, StorageId,
    TensorId,
};

use crate::ids::{Id, Remap, Role};
use crate::list::{External, InstructionList, StreamDecl};
use crate::scalar::{GeneratorDecl, ScalarDecl};
use crate::table::{Body, Instruction};
use crate::text::OpNames;

/// A recorder of instructions, which renumbers their ids.
#[derive(Debug, Default)]
pub struct ListRecorder {
    list: InstructionList,
    names: Names,
    /// The storages of the tensors that were made before the list, by slot.
    earlier: FxHashMap<TensorId, StorageId>,
    storages: FxHashMap<StorageId, EarlierStorage>,
}

/// A storage that was made before the list.
#[derive(Debug, Default)]
struct EarlierStorage {
    /// The external that stands for it, by its id in the list.
    base: Option<TensorId>,
    /// The tensors that the list has not used, by slot.
    unused: FxHashMap<TensorId, External>,
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
    pub fn ops(&mut self, names: OpNames) {
        self.list.ops = names;
    }

    /// Declares a tensor that exists before the list. `external.tensor` is the slot's id.
    pub fn external(&mut self, mut external: External) {
        external.tensor = self.names.define_tensor(external.tensor);
        self.list.externals.push(external);
    }

    /// Notes a tensor that exists before the list and has this storage, to be declared when the
    /// list first uses it. `external.tensor` is the slot's id.
    pub fn earlier(&mut self, external: External, storage: StorageId) {
        let slot = external.tensor;
        let of = self.storages.entry(storage).or_default();
        match self.names.known(slot) {
            // Of several that are declared already, the first.
            Some(name) => of.base = Some(of.base.map_or(name, |base| base.min(name))),
            None => drop(of.unused.insert(slot, external)),
        }
        self.earlier.insert(slot, storage);
    }

    /// Declares a free name for a tensor that exists before the list, and the tensor by it.
    pub fn external_unnamed(&mut self, external: External, prefix: &str) {
        let known = &self.list.externals;
        let names = (known.len()..).map(|k| format!("{prefix}{k}"));
        let free = |name: &String| known.iter().all(|external| external.name != *name);
        let name = names.into_iter().find(free).unwrap_or_default();
        self.external(External { name, ..external });
    }

    /// Declares the tensors from before the list that an instruction is the first to use. Returns
    /// whether the instruction belongs to the list: the end of a tensor that the list has not used
    /// does not, nor that of an external that other tensors are yet to be views of.
    fn declare_earlier(&mut self, instruction: &Instruction) -> bool {
        if let Body::ReleaseTensor { tensor } = instruction.body {
            let storage = self.earlier.remove(&tensor);
            let Some(of) = storage.and_then(|of| self.storages.get_mut(&of)) else { return true };
            // The slot may have another owner already, which is in the list.
            let known = self.names.known(tensor);
            let is_unused = of.unused.remove(&tensor).is_some() && known.is_none();
            let is_base = known.is_some() && of.base == known;
            let is_left_out = is_unused || (is_base && !of.unused.is_empty());
            return !is_left_out;
        }
        let mut unknown: SmallVec<[TensorId; 2]> = SmallVec::new();
        instruction.body.visit_ids(&mut |id, role| match id {
            Id::Tensor(slot) if role != Role::Defines && self.names.known(slot).is_none() => {
                unknown.push(slot);
            }
            _ => {}
        });
        unknown.into_iter().for_each(|slot| self.declare(slot));
        true
    }

    fn declare(&mut self, slot: TensorId) {
        let Some(storage) = self.earlier.get(&slot).copied() else { return };
        let of = self.storages.entry(storage).or_default();
        let (Some(external), base) = (of.unused.remove(&slot), of.base) else { return };
        match base {
            Some(of) => {
                let (tensor, spec) = (self.names.define_tensor(slot), Box::new(external.spec));
                let body = Body::ViewTensor { tensor, of, spec };
                self.list.instructions.push(Instruction { body, origin: Origin::Unknown });
            }
            None => {
                self.external_unnamed(external, "earlier");
                self.storages.entry(storage).or_default().base = self.names.known(slot);
            }
        }
    }

    /// Declares a generator, which begins with this seed. Returns its number.
    pub fn generator(&mut self, seed: i64) -> usize {
        let number = self.list.generators.len();
        let seed = self.scalar(format!("seed{number}"), seed.into());
        let offset = self.scalar(format!("offset{number}"), 0.into());
        self.list.generators.push(GeneratorDecl { seed, offset, draws: 0 });
        number
    }

    /// Declares a scalar with the value that it has where a launch gives none. A name that another
    /// one has is extended.
    pub fn scalar(&mut self, mut name: String, value: ScalarValue) -> ScalarId {
        while self.list.scalars.iter().any(|scalar| scalar.name == name) {
            name.push('_');
        }
        self.list.scalars.push(ScalarDecl { name, value });
        ScalarId(self.list.scalars.len() as u32 - 1)
    }

    /// Adds draws to those of a generator. Returns the generator, with the number of its earlier
    /// draws.
    pub fn draw(&mut self, generator: usize, draws: u64) -> GeneratorDecl {
        let declared = &mut self.list.generators[generator];
        let before = *declared;
        declared.draws += draws;
        before
    }

    /// Adds the list of an executable that the machine knows by `id`, if it is not there yet.
    pub fn executable(&mut self, id: ListId, list: &InstructionList) {
        let next = ListId(self.list.executables.len() as u32);
        if *self.names.lists.entry(id).or_insert(next) == next {
            self.list.executables.push(list.clone());
        }
    }

    /// Adds an instruction, behind the views of earlier storages that it is the first to use.
    /// Returns how many were added. The list of an executable is added before its first launch.
    pub fn push(&mut self, instruction: &Instruction) -> usize {
        let before = self.list.instructions.len();
        if self.earlier.is_empty() || self.declare_earlier(instruction) {
            let mut copy = instruction.clone();
            let Ok(()) = copy.body.remap(&mut self.names);
            self.list.instructions.push(copy);
        }
        self.list.instructions.len() - before
    }

    /// Returns the id in the list of the tensor that has a slot now.
    pub fn name_of(&self, slot: TensorId) -> Option<TensorId> {
        self.names.known(slot)
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
    lists: FxHashMap<ListId, ListId>,
    next_tensor: u32,
    next_event: u32,
    next_read: u32,
    next_callback: u32,
}

impl Names {
    fn known(&self, slot: TensorId) -> Option<TensorId> {
        self.tensors.get(slot.index()).copied().flatten()
    }

    fn define_tensor(&mut self, slot: TensorId) -> TensorId {
        let name = TensorId(count(&mut self.next_tensor));
        set(&mut self.tensors, slot.index(), name);
        name
    }
}

impl Remap for Names {
    type Error = Infallible;

    fn tensor(&mut self, slot: TensorId, role: Role) -> Result<TensorId, Infallible> {
        let known = self.known(slot).filter(|_| role != Role::Defines);
        // A tensor without a name was made before the recording, which does not know it.
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
