//! Liveness of tensors, and the storage of each.

use std::rc::Rc;

use millstream_types::TensorId;
use rustc_hash::FxHashMap;

use crate::footprint::Footprint;
use crate::storage::Storage;

#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// The number of the tensor's storage.
    pub(crate) storage: usize,
    /// The bytes that the tensor occupies in its storage.
    pub(crate) footprint: Rc<Footprint>,
    /// The index of the instruction that begins the tensor; none for an external.
    pub(crate) begun: Option<usize>,
    /// The index of the instruction that releases the tensor.
    pub(crate) released: Option<usize>,
}

/// All tensors and storages of the instructions walked so far.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    tensors: FxHashMap<TensorId, Tensor>,
    storages: Vec<Storage>,
}

impl Liveness {
    /// Returns the live tensor of this id.
    ///
    /// # Errors
    /// No tensor of this id is live; the index of the last one's release, if one was released.
    pub(crate) fn live(&self, id: TensorId) -> Result<&Tensor, Option<usize>> {
        match self.tensors.get(&id) {
            Some(tensor) if tensor.released.is_none() => Ok(tensor),
            Some(tensor) => Err(tensor.released),
            None => Err(None),
        }
    }

    pub(crate) fn storage(&self, number: usize) -> &Storage {
        &self.storages[number]
    }

    pub(crate) fn storage_mut(&mut self, number: usize) -> &mut Storage {
        &mut self.storages[number]
    }

    /// Begins a tensor in a storage of its own. Returns the storage's number.
    pub(crate) fn insert_storage(
        &mut self,
        id: TensorId,
        footprint: Rc<Footprint>,
        storage: Storage,
    ) -> usize {
        let number = self.storages.len();
        let tensor = Tensor { storage: number, footprint, begun: storage.begun, released: None };
        self.storages.push(storage);
        self.tensors.insert(id, tensor);
        number
    }

    /// Begins a tensor that is a view of an existing storage.
    pub(crate) fn insert_view(
        &mut self,
        id: TensorId,
        footprint: Rc<Footprint>,
        storage: usize,
        index: usize,
    ) {
        self.storages[storage].tensors += 1;
        let tensor = Tensor { storage, footprint, begun: Some(index), released: None };
        self.tensors.insert(id, tensor);
    }

    /// Releases a live tensor, and its storage with the last tensor.
    pub(crate) fn release(&mut self, id: TensorId, index: usize) {
        let Some(tensor) = self.tensors.get_mut(&id) else { return };
        tensor.released = Some(index);
        let storage = &mut self.storages[tensor.storage];
        storage.tensors -= 1;
        if storage.tensors == 0 {
            storage.released = Some(index);
        }
    }
}
