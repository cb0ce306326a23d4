//! The shardings of tensors of one dtype and shape, and the costs between them.

use rustc_hash::FxHashMap;

use millstream_types::{DType, Dims, NdSbp, Sharding};

use super::NEVER;
use crate::boxing::path;
use crate::boxing::states::{States, Way};

/// The shardings of tensors of one dtype and shape, by number, and the costs between them.
pub(super) struct Class {
    pub(super) dtype: DType,
    pub(super) shape: Dims,
    pub(super) shardings: Vec<Sharding>,
    numbers: FxHashMap<NdSbp, u32>,
    /// Tables of the shardings on the way: one for the usual shardings, others for unusual starts.
    states: Vec<States>,
    /// By the sharding before.
    ways: FxHashMap<u32, Ways>,
    /// About the bytes that the ranks receive between two shardings.
    received: FxHashMap<(u32, u32), u64>,
}

/// The best ways from a sharding to those of `states` at this place.
struct Ways {
    states: usize,
    to: Vec<Option<Way>>,
}

impl Class {
    pub(super) fn new(dtype: DType, shape: Dims) -> Class {
        let (shardings, numbers, states, ways, received) = Default::default();
        Class { dtype, shape, shardings, numbers, states, ways, received }
    }

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
        if let Some(known) = self.received.get(&(from, to)) {
            return *known;
        }
        let Class { dtype, shape, shardings, states, ways, .. } = self;
        let [own, target] = [from, to].map(|number| &shardings[number as usize]);
        let ways = ways.entry(from).or_insert_with(|| {
            let choices = path::usual_choices(*dtype, shape, own);
            let known = states.iter().position(|known| known.choices == choices);
            let at = known.unwrap_or(states.len());
            if known.is_none() {
                states.push(States::new(own.mesh(), shape, choices));
            }
            let start = states[at].number(own.sbp());
            Ways { states: at, to: start.map_or(Vec::new(), |start| states[at].ways(start, None)) }
        });
        let number = states[ways.states].number(target.sbp());
        let way = number.and_then(|number| ways.to.get(number).copied().flatten());
        let elements = match way {
            Some(way) => Some(way.received),
            None => path::path(*dtype, shape, own, target).map(|path| path.received),
        };
        let bytes = elements.map_or(NEVER, |elements| elements.saturating_mul(dtype.size() as u64));
        self.received.insert((from, to), bytes);
        bytes
    }

    /// Returns the bytes that the ranks receive on the path that the calls take.
    pub(super) fn path_bytes(&self, from: u32, to: u32) -> u64 {
        let [from, to] = [from, to].map(|number| &self.shardings[number as usize]);
        let path = path::path(self.dtype, &self.shape, from, to);
        path.map_or(0, |path| path.received.saturating_mul(self.dtype.size() as u64))
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
