//! Critical sections, host reads and callbacks.

use smallvec::SmallVec;

use millstream_types::{Access, CallbackId, Error, Origin, Point, ReadId, Result, StreamId};

use crate::builder::{InstructionsBuilder, Sink, TensorRef};
use crate::instruction::{Operand, Operands};
use crate::table::{Body, Kind};

/// An open critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectionId(u32);

impl SectionId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(super) struct Section {
    pub(super) begun: Origin,
    stream: StreamId,
    /// The tensors that it holds; empty once it has ended.
    operands: SmallVec<[TensorRef; 4]>,
    /// The section that it was begun from, whose tensors may be used from this one too.
    outer: Option<SectionId>,
}

impl InstructionsBuilder {
    /// Begins an exclusive hold of `tensors`, on a `stream` that accepts critical sections. Until
    /// the hold ends, only calls that name the section can use them.
    ///
    /// # Errors
    /// No tensor is given, one was released or is held already, or the stream is of another type.
    pub fn begin_critical_section(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        tensors: &[TensorRef],
        origin: &Origin,
    ) -> Result<SectionId> {
        self.begin_nested_section(sink, stream, tensors, None, origin)
    }

    /// Does the same as [`InstructionsBuilder::begin_critical_section`] within another section.
    /// Calls that name the inner section may use the tensors of both.
    ///
    /// # Errors
    /// As [`InstructionsBuilder::begin_critical_section`].
    pub fn begin_nested_section(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        tensors: &[TensorRef],
        outer: Option<SectionId>,
        origin: &Origin,
    ) -> Result<SectionId> {
        self.runs(stream, Kind::CriticalSectionBegin)?;
        if tensors.is_empty() {
            let message = "a critical section holds at least one tensor".to_owned();
            return Err(Error::Invalid { what: "critical section", message });
        }
        for &tensor in tensors {
            self.usable(tensor, None)?;
        }
        let free = self.sections.iter().position(|s| s.operands.is_empty());
        let operands = SmallVec::from_slice(tensors);
        let section = Section { begun: origin.clone(), stream, operands, outer };
        let id = match free {
            Some(at) => {
                self.sections[at] = section;
                SectionId(at as u32)
            }
            None => {
                self.sections.push(section);
                SectionId((self.sections.len() - 1) as u32)
            }
        };
        let operands = self.exclusive(tensors);
        self.wait_for_operands(sink, stream, &operands, origin);
        let at = self.next(stream);
        self.note_uses(at, &operands);
        for tensor in tensors {
            let storage = self.slots.storage_of(tensor.id);
            self.slots.storage_mut(storage).held = Some(id);
        }
        self.emit(sink, Body::CriticalSectionBegin { at, operands }, origin);
        Ok(id)
    }

    /// Ends an exclusive hold.
    ///
    /// # Errors
    /// It has ended before, or one of its tensors was released within.
    pub fn end_critical_section(
        &mut self,
        sink: &mut dyn Sink,
        section: SectionId,
        origin: &Origin,
    ) -> Result<Point> {
        let Some(open) = self.sections.get_mut(section.index()) else {
            return Err(ended());
        };
        let stream = open.stream;
        let tensors = std::mem::take(&mut open.operands);
        if tensors.is_empty() {
            return Err(ended());
        }
        // The number may be reused for another section, which is not the outer one of these.
        for inner in &mut self.sections {
            inner.outer = inner.outer.filter(|outer| *outer != section);
        }
        // A tensor that was released within the section is left out.
        let alive: SmallVec<[TensorRef; 4]> =
            tensors.iter().copied().filter(|t| self.slots.live(*t).is_ok()).collect();
        let operands = self.exclusive(&alive);
        self.wait_for_operands(sink, stream, &operands, origin);
        let at = self.next(stream);
        self.note_uses(at, &operands);
        for tensor in &alive {
            let storage = self.slots.storage_of(tensor.id);
            self.slots.storage_mut(storage).held = None;
        }
        self.emit(sink, Body::CriticalSectionEnd { at, operands }, origin);
        Ok(at)
    }

    /// Whether calls from `section` may use the tensors that `holder` holds.
    pub(super) fn is_within(&self, section: Option<SectionId>, holder: SectionId) -> bool {
        let mut at = section;
        while let Some(section) = at {
            if section == holder {
                return true;
            }
            at = self.sections.get(section.index()).and_then(|s| s.outer);
        }
        false
    }

    fn exclusive(&self, tensors: &[TensorRef]) -> Operands {
        tensors.iter().map(|t| Operand { tensor: t.id, access: Access::ReadWrite }).collect()
    }

    /// Refuses a list that leaves a critical section open.
    ///
    /// # Errors
    /// Names the place at which the first open one begins.
    pub fn all_sections_ended(&self) -> Result<()> {
        match self.sections.iter().find(|s| !s.operands.is_empty()) {
            None => Ok(()),
            Some(open) => {
                let message = "the critical section begun here is never ended".to_owned();
                Err(Error::Invalid { what: "list", message }.at(&open.begun))
            }
        }
    }

    /// Calls a function of the program with a tensor's memory.
    ///
    /// # Errors
    /// The tensor was released or is held, or the stream runs no functions of the program.
    #[expect(clippy::too_many_arguments, reason = "one for each field of the instruction")]
    pub fn access_blob(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        tensor: TensorRef,
        access: Access,
        callback: CallbackId,
        section: Option<SectionId>,
        origin: &Origin,
    ) -> Result<Point> {
        self.runs(stream, Kind::AccessBlobByCallback)?;
        self.usable(tensor, section)?;
        // Overwriting a part of a storage keeps the content of the rest.
        let access = if access == Access::Write { self.write_access(tensor) } else { access };
        let operand = Operand { tensor: tensor.id, access };
        self.wait_for_operands(sink, stream, &[operand], origin);
        let at = self.next(stream);
        self.note_uses(at, &[operand]);
        self.emit(sink, Body::AccessBlobByCallback { at, operand, callback }, origin);
        Ok(at)
    }

    /// Copies a tensor's data to the host.
    ///
    /// # Errors
    /// The tensor was released or is held, or the stream reads nothing.
    pub fn sync_read(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        tensor: TensorRef,
        into: ReadId,
        section: Option<SectionId>,
        origin: &Origin,
    ) -> Result<Point> {
        self.runs(stream, Kind::SyncRead)?;
        self.usable(tensor, section)?;
        let operand = Operand { tensor: tensor.id, access: Access::Read };
        self.wait_for_operands(sink, stream, &[operand], origin);
        let at = self.next(stream);
        self.note_uses(at, &[operand]);
        self.emit(sink, Body::SyncRead { at, operand, into }, origin);
        Ok(at)
    }
}

fn ended() -> Error {
    let message = "it has ended before".to_owned();
    Error::Invalid { what: "critical section", message }
}
