//! Critical sections: what is held, and by which.

use std::collections::{BTreeMap, HashMap};

use millstream_types::{StreamId, TensorId};

use crate::life::Lives;

/// An open critical section.
#[derive(Debug)]
struct Section {
    stream: StreamId,
    /// How many of the tensors that it holds are not released.
    live: usize,
    /// The numbers of the storages that it holds.
    storages: Vec<usize>,
}

/// The open sections.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// By the index of their begin.
    open: BTreeMap<usize, Section>,
    /// The section that holds a tensor.
    holders: HashMap<TensorId, usize>,
    /// By stream, the sections of which nothing is left to name.
    emptied: HashMap<StreamId, Vec<usize>>,
}

impl Sections {
    /// A section begins that holds these live tensors. Returns those that another one holds, and
    /// where that begins.
    pub(crate) fn begin(
        &mut self,
        stream: StreamId,
        index: usize,
        tensors: impl Iterator<Item = TensorId>,
        lives: &mut Lives,
    ) -> Vec<(TensorId, usize)> {
        let mut taken = Vec::new();
        let mut section = Section { stream, live: 0, storages: Vec::new() };
        for id in tensors {
            let Ok(number) = lives.live(id).map(|tensor| tensor.storage) else { continue };
            let storage = lives.storage_mut(number);
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

    /// A tensor is released: the end of its section does not name it.
    pub(crate) fn release(&mut self, id: TensorId) {
        let Some(index) = self.holders.remove(&id) else { return };
        let Some(section) = self.open.get_mut(&index) else { return };
        section.live -= 1;
        if section.live == 0 {
            self.emptied.entry(section.stream).or_default().push(index);
        }
    }

    /// A section ends that holds just these tensors. Returns whether there is such a section.
    pub(crate) fn end(
        &mut self,
        stream: StreamId,
        mut tensors: Vec<TensorId>,
        lives: &mut Lives,
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
            let storage = lives.storage_mut(number);
            if storage.held == Some(index) {
                storage.held = None;
            }
        }
        true
    }

    /// Where the sections begin that are still open.
    pub(crate) fn open(&self) -> impl Iterator<Item = usize> {
        self.open.keys().copied()
    }
}
