//! Which tensors live, and in which storage.

use std::collections::HashMap;
use std::rc::Rc;

use millstream_types::TensorId;

use crate::footprint::Footprint;
use crate::storage::Storage;

#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// The number of its storage.
    pub(crate) storage: usize,
    /// The bytes that it has there.
    pub(crate) footprint: Rc<Footprint>,
    /// Where it begins in the list; nowhere if it exists before.
    pub(crate) begun: Option<usize>,
    /// Where it was released.
    pub(crate) released: Option<usize>,
}

/// All tensors and storages of a list so far.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    tensors: HashMap<TensorId, Tensor>,
    storages: Vec<Storage>,
}

impl Lives {
    /// The tensor that lives under this id; if none does, where the last one was released.
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

    /// A tensor in a storage of its own begins.
    pub(crate) fn begin(
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

    /// A tensor in the storage of another begins.
    pub(crate) fn view(
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

    /// A live tensor is released.
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
