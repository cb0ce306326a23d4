//! The shardings of tensors of one dtype and shape, and the costs between them.

use rustc_hash::FxHashMap;

use millstream_types::{DType, Dims, NdSbp, Sharding};

use super::NEVER;
use crate::boxing::path;

/// The shardings of tensors of one dtype and shape, by number, and the costs between them.
pub(super) struct Class {
    pub(super) dtype: DType,
    pub(super) shape: Dims,
    pub(super) shardings: Vec<Sharding>,
    pub(super) numbers: FxHashMap<NdSbp, u32>,
    /// By the sharding before: the elements received on the way to others.
    pub(super) received: FxHashMap<u32, FxHashMap<NdSbp, u64>>,
}

impl Class {
    pub(super) fn number(&mut self, sharding: &Sharding) -> u32 {
        if let Some(known) = self.numbers.get(sharding.sbp()) {
            return *known;
        }
        let number = self.shardings.len() as u32;
        self.numbers.insert(sharding.sbp().into(), number);
        self.shardings.push(sharding.clone());
        number
    }

    /// Returns about the bytes that the ranks receive.
    pub(super) fn received(&mut self, from: u32, to: u32) -> u64 {
        if from == to {
            return 0;
        }
        let Class { dtype, shape, shardings, received, .. } = self;
        let [own, target] = [from, to].map(|number| &shardings[number as usize]);
        let of_own = received.entry(from).or_insert_with(|| path::received(*dtype, shape, own));
        let found = match of_own.get(target.sbp()) {
            Some(elements) => Some(*elements),
            None => path::path(*dtype, shape, own, target).map(|path| path.received),
        };
        found.map_or(NEVER, |elements| elements * dtype.size() as u64)
    }

    /// Returns the bytes that the ranks receive on the path that the calls take.
    pub(super) fn path_bytes(&self, from: u32, to: u32) -> u64 {
        let [from, to] = [from, to].map(|number| &self.shardings[number as usize]);
        let path = path::path(self.dtype, &self.shape, from, to);
        path.map_or(0, |path| path.received * self.dtype.size() as u64)
    }

    /// Returns the bytes of all ranks' parts.
    pub(super) fn bytes(&self, number: u32) -> u64 {
        let sharding = &self.shardings[number as usize];
        let axes = sharding.sbp().iter().zip(sharding.mesh().shape());
        let copies = axes.filter(|(sbp, _)| sbp.dim().is_none()).map(|(_, ranks)| *ranks as u64);
        let elements: u64 = self.shape.iter().map(|length| *length as u64).product();
        elements.saturating_mul(self.dtype.size() as u64).saturating_mul(copies.product())
    }
}
