//! Critical sections and the tensors that they hold.

use std::collections::BTreeMap;

use millstream_types::{StreamId, TensorId};
use rustc_hash::FxHashMap;

use crate::liveness::Liveness;

/// An open critical section.
#[derive(Debug)]
struct Section {
    stream: StreamId,
    /// The number of held tensors that are not released.
    live: usize,
    /// The numbers of the held storages.
    storages: Vec<usize>,
}

/// The open sections.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// By the index of the instruction that begins the section.
    open: BTreeMap<usize, Section>,
    /// The section that holds each tensor.
    holders: FxHashMap<TensorId, usize>,
    /// By stream, the sections whose tensors are all released, so that their end names none.
    emptied: FxHashMap<StreamId, Vec<usize>>,
}

impl Sections {
    /// Begins a section that holds these live tensors. Returns the tensors that another section
    /// holds, each with the index of that section's begin.
    pub(crate) fn begin(
        &mut self,
        stream: StreamId,
        index: usize,
        tensors: impl Iterator<Item = TensorId>,
        liveness: &mut Liveness,
    ) -> Vec<(TensorId, usize)> {
        let mut taken = Vec::new();
        let mut section = Section { stream, live: 0, storages: Vec::new() };
        for id in tensors {
            let Ok(number) = liveness.live(id).map(|tensor| tensor.storage) else { continue };
            let storage = liveness.storage_mut(number);
            match storage.held {
                Some(other) if other != index => {
                    taken.push((id, other));
                    continue;
                }
                _ => storage.held = Some(index),
            }
            section.storages.push(number);
            if self.holders.insert(id, index).is_none() {
                section.live += 1;
            }
        }
        if section.live == 0 {
            self.emptied.entry(stream).or_default().push(index);
        }
        self.open.insert(index, section);
        taken
    }

    /// Releases a tensor. The end of its section does not name it any more.
    pub(crate) fn release(&mut self, id: TensorId) {
        let Some(index) = self.holders.remove(&id) else { return };
        let Some(section) = self.open.get_mut(&index) else { return };
        section.live -= 1;
        if section.live == 0 {
            self.emptied.entry(section.stream).or_default().push(index);
        }
    }

    /// Ends the section that holds exactly these tensors. Returns whether one exists.
    pub(crate) fn end(
        &mut self,
        stream: StreamId,
        mut tensors: Vec<TensorId>,
        liveness: &mut Liveness,
    ) -> bool {
        tensors.sort_unstable();
        tensors.dedup();
        let found = match tensors.first() {
            None => self.emptied.get_mut(&stream).and_then(Vec::pop),
            Some(first) => self.holders.get(first).copied(),
        };
        let Some(index) = found else { return false };
        let fits = |s: &Section| s.stream == stream && s.live == tensors.len();
        let held = tensors.iter().all(|id| self.holders.get(id) == Some(&index));
        if !held || !self.open.get(&index).is_some_and(fits) {
            return false;
        }
        for id in &tensors {
            self.holders.remove(id);
        }
        for number in self.open.remove(&index).map_or_else(Vec::new, |s| s.storages) {
            let storage = liveness.storage_mut(number);
            if storage.held == Some(index) {
                storage.held = None;
            }
        }
        true
    }

    /// Returns the indices of the begins of all open sections.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> {
        self.open.keys().copied()
    }
}
