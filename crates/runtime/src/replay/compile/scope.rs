//! A list on its way through the compiler.

use std::sync::Arc;

use millstream_instructions::{InstructionList, Placement, Via};
use millstream_types::{
    AttrValue, Attrs, Error, EventId, Point, Result, ScalarUse, ScalarValue, StreamId, TensorId,
    TensorSpec,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::tapes::tape::Address;

/// A list on its way through the compiler: the compiled one, or that of an executable that it
/// launches.
pub(super) struct Scope<'a> {
    pub(super) list: &'a InstructionList,
    pub(super) tensors: FxHashMap<TensorId, Known>,
    /// What a launch gives for each scalar, by those of the compiled list; none if it is that.
    pub(super) scalars: Option<Vec<AttrValue>>,
    /// The number of the list's first stream among all.
    pub(super) first_stream: u16,
    /// Where each arena begins.
    pub(super) arenas: Vec<Address>,
    /// The native event of each event that is awaited on a device, its tape and its step.
    pub(super) events: FxHashMap<EventId, (u16, u16, u32)>,
    pub(super) on_device: FxHashSet<EventId>,
}

impl Scope<'_> {
    /// Returns a point with the number of its stream among all.
    pub(super) fn point(&self, at: Point) -> Point {
        Point::new(StreamId(self.first_stream + at.stream.0), at.seq)
    }

    pub(super) fn tensor(&self, tensor: TensorId) -> Result<&Known> {
        let unknown = || Error::List { message: format!("{tensor} is used before it begins") };
        self.tensors.get(&tensor).ok_or_else(unknown)
    }

    /// Returns an argument by the scalars of the compiled list.
    pub(super) fn value(&self, value: &AttrValue) -> AttrValue {
        let (AttrValue::Scalar(used), Some(scalars)) = (value, &self.scalars) else {
            return value.clone();
        };
        let given = scalars.get(used.scalar.index());
        match (given, given.and_then(ScalarValue::of)) {
            (_, Some(number)) => number.plus(used.plus).into(),
            (Some(AttrValue::Scalar(ScalarUse { scalar, plus })), None) => {
                AttrValue::Scalar(ScalarUse { scalar: *scalar, plus: plus.wrapping_add(used.plus) })
            }
            // The checker refuses both.
            (Some(other), None) => other.clone(),
            (None, None) => value.clone(),
        }
    }

    /// Returns the arguments of a call by the scalars of the compiled list.
    pub(super) fn attrs(&self, attrs: &Arc<Attrs>) -> Arc<Attrs> {
        if self.scalars.is_none() || attrs.scalars().next().is_none() {
            return attrs.clone();
        }
        Arc::new(attrs.with_scalars(|used| self.value(&AttrValue::Scalar(used))))
    }

    pub(super) fn place(&self, placement: &Placement) -> Result<Address> {
        let undeclared = || Error::List { message: format!("{} is not declared", placement.arena) };
        let arena = self.arenas.get(placement.arena.index()).ok_or_else(undeclared)?;
        let end = placement.offset.checked_add(placement.size);
        if end.and_then(|end| end.checked_add(arena.offset)).is_none() {
            let message = "a placement ends past all memory".to_owned();
            return Err(Error::List { message });
        }
        Ok(Address { base: arena.base, offset: arena.offset + placement.offset })
    }
}

/// A tensor of the list.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) storage: u32,
    /// The storage's first byte.
    pub(super) start: Address,
    pub(super) spec: Arc<TensorSpec>,
}

/// Returns the events that a list waits for on a device.
pub(super) fn on_device(list: &InstructionList) -> FxHashSet<EventId> {
    let waits = list.instructions.iter().filter_map(|instruction| match instruction.body.via() {
        Some(Via::Device(event)) => Some(event),
        Some(Via::Host) | None => None,
    });
    waits.collect()
}
