//! A machine's emissions as a list.
//!
//! A machine gives slots of tensors and events out again once their work has retired, at a moment
//! that depends on the devices. In a list, ids count up in the order of their first appearance, so
//! that the same program gives the same list.

use std::collections::HashMap;

use millstream_types::{CallbackId, DeviceId, EventId, ReadId, TensorId};

use crate::instruction::{Operand, Via};
use crate::list::{External, InstructionList, StreamDecl};
use crate::table::{Body, Instruction};

/// Collects instructions, with ids made anew.
#[derive(Debug, Default)]
pub struct ListRecorder {
    list: InstructionList,
    tensors: HashMap<TensorId, TensorId>,
    events: HashMap<EventId, EventId>,
    next_tensor: u32,
    next_event: u32,
    next_read: u32,
    next_callback: u32,
}

impl ListRecorder {
    /// An empty list.
    pub fn new() -> ListRecorder {
        ListRecorder::default()
    }

    /// Declares a stream. They are declared in the order of their ids.
    pub fn stream(&mut self, decl: StreamDecl) {
        self.list.streams.push(decl);
    }

    /// How many streams have been declared.
    pub fn streams(&self) -> usize {
        self.list.streams.len()
    }

    /// Declares an arena. They are declared in the order of their ids.
    pub fn arena(&mut self, device: DeviceId) {
        self.list.arenas.push(device);
    }

    /// How many arenas have been declared.
    pub fn arenas(&self) -> usize {
        self.list.arenas.len()
    }

    /// Sets the names of ops.
    pub fn ops<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.list.ops = names.into_iter().collect();
    }

    /// Declares a tensor that exists before the list. `external.tensor` is the slot's id.
    pub fn external(&mut self, mut external: External) {
        external.tensor = self.name_tensor(external.tensor);
        self.list.externals.push(external);
    }

    fn name_tensor(&mut self, slot: TensorId) -> TensorId {
        let name = TensorId(self.next_tensor);
        self.next_tensor += 1;
        self.tensors.insert(slot, name);
        name
    }

    fn tensor(&mut self, slot: TensorId) -> TensorId {
        match self.tensors.get(&slot) {
            Some(&name) => name,
            // Made before recording began.
            None => self.name_tensor(slot),
        }
    }

    fn new_event(&mut self, slot: EventId) -> EventId {
        let name = EventId(self.next_event);
        self.next_event += 1;
        self.events.insert(slot, name);
        name
    }

    fn event(&mut self, slot: EventId) -> EventId {
        match self.events.get(&slot) {
            Some(&name) => name,
            None => self.new_event(slot),
        }
    }

    /// Adds an instruction.
    pub fn push(&mut self, instruction: &Instruction) {
        let mut copy = instruction.clone();
        match &mut copy.body {
            Body::AllocateTensor { tensor, .. } => *tensor = self.name_tensor(*tensor),
            Body::ViewTensor { tensor, of, .. } => {
                *of = self.tensor(*of);
                *tensor = self.name_tensor(*tensor);
            }
            Body::ReleaseTensor { tensor } => *tensor = self.tensor(*tensor),
            Body::SoftSyncStream { tensors, .. } => {
                for tensor in tensors {
                    *tensor = self.tensor(*tensor);
                }
            }
            Body::RecordEvent { event, .. } => *event = self.new_event(*event),
            Body::StreamWait { via: Via::Device(event), .. } => *event = self.new_event(*event),
            Body::StreamWaitEvent { via: Via::Device(event), .. } => *event = self.event(*event),
            Body::OpCall { operands, .. }
            | Body::TouchTensors { operands, .. }
            | Body::CriticalSectionBegin { operands, .. }
            | Body::CriticalSectionEnd { operands, .. }
            | Body::LazyJobLauncher { operands, .. } => self.rename(operands),
            // Each read and each callback has an id of its own.
            Body::SyncRead { operand, into, .. } => {
                self.rename(std::slice::from_mut(operand));
                *into = ReadId(self.next_read);
                self.next_read += 1;
            }
            Body::AccessBlobByCallback { operand, callback, .. } => {
                self.rename(std::slice::from_mut(operand));
                *callback = CallbackId(self.next_callback);
                self.next_callback += 1;
            }
            Body::StreamWaitEvent { via: Via::Host, .. }
            | Body::StreamWait { via: Via::Host, .. }
            | Body::Barrier { .. }
            | Body::GlobalSync { .. }
            | Body::HostObserved { .. } => {}
        }
        self.list.instructions.push(copy);
    }

    fn rename(&mut self, operands: &mut [Operand]) {
        for operand in operands {
            operand.tensor = self.tensor(operand.tensor);
        }
    }

    /// The list so far.
    pub const fn list(&self) -> &InstructionList {
        &self.list
    }

    /// The list.
    pub fn finish(self) -> InstructionList {
        self.list
    }
}
