//! The gradients that a function reads and sets: state of the host that a replay reads and sets
//! too.
//!
//! A gradient that the function finds in a leaf is an input of its capture, which depends on
//! whether there is one, and on its layout. The gradient that the function leaves there is a
//! result.

use std::sync::{Arc, Weak};

use millstream_types::Origin;

use crate::handle::Tensor;
use crate::handle::global;
use crate::handle::leaf::Leaf;

use super::key::InputKey;
use super::note::{Place, Returned, Value};

/// Where a replay finds a leaf.
#[derive(Clone)]
pub(super) enum Owner {
    /// The input of this number has it.
    Input(u32),
    /// It is the same in every call.
    Outside(Arc<Leaf>),
}

impl PartialEq for Owner {
    fn eq(&self, other: &Owner) -> bool {
        match (self, other) {
            (Owner::Input(a), Owner::Input(b)) => a == b,
            (Owner::Outside(a), Owner::Outside(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Owner {
    /// Returns the owner of a leaf in a call with these inputs.
    fn of(leaf: &Arc<Leaf>, inputs: &[Tensor]) -> Owner {
        let has = |tensor: &Tensor| tensor.leaf_slot().get().is_some_and(|l| Arc::ptr_eq(l, leaf));
        match inputs.iter().position(has) {
            Some(input) => Owner::Input(input as u32),
            None => Owner::Outside(leaf.clone()),
        }
    }

    /// Returns the leaf in a call with these inputs.
    pub(super) fn leaf<'a>(&'a self, inputs: &'a [Tensor]) -> &'a Arc<Leaf> {
        match self {
            Owner::Input(number) => inputs[*number as usize].leaf_slot().get_or_init(Arc::default),
            Owner::Outside(leaf) => leaf,
        }
    }
}

/// A leaf that a run has read or set.
struct Slot {
    leaf: Arc<Leaf>,
    /// The gradient that the run found there; none if it set the gradient before it read one.
    found: Option<Option<Place>>,
    /// The number of guards before the run first set the gradient, if it did; 0 within a prefix.
    set_in: Option<usize>,
    /// The number of guards before the first use; none within a prefix.
    segment: Option<usize>,
}

/// The leaves of a run, in the order of their first use.
#[derive(Default)]
pub(super) struct Gradients {
    slots: Vec<Slot>,
    /// The leaves of tensors that the run has made, with the places that made them leaves. They end
    /// with these, and their gradients too.
    own: Vec<(Weak<Leaf>, Origin)>,
}

impl Gradients {
    /// Notes the leaf of a tensor that the run has made.
    pub(super) fn note_own(&mut self, leaf: &Arc<Leaf>, origin: &Origin) {
        self.own.push((Arc::downgrade(leaf), origin.clone()));
    }

    /// Returns the place that made a tensor of the run one with a gradient.
    pub(super) fn own_origin(&self, leaf: &Arc<Leaf>) -> Option<&Origin> {
        let own = self.own.iter().find(|(own, _)| std::ptr::eq(own.as_ptr(), Arc::as_ptr(leaf)));
        own.map(|(_, origin)| origin)
    }

    /// Returns whether the run has used the leaf before, or it is of a tensor that the run made.
    pub(super) fn is_known(&self, leaf: &Arc<Leaf>) -> bool {
        let is_same = |other: &Arc<Leaf>| Arc::ptr_eq(other, leaf);
        self.own_origin(leaf).is_some() || self.slots.iter().any(|slot| is_same(&slot.leaf))
    }

    /// Notes the first use of a leaf. Returns the name of the gradient in it.
    pub(super) fn begin(
        &mut self,
        leaf: &Arc<Leaf>,
        found: Option<Option<Place>>,
        segment: Option<usize>,
    ) -> Value {
        self.slots.push(Slot { leaf: leaf.clone(), found, set_in: None, segment });
        Value::Gradient(self.slots.len() as u32 - 1)
    }

    /// Notes that the run sets the gradient of a leaf behind a number of guards.
    pub(super) fn set(&mut self, leaf: &Arc<Leaf>, segment: usize) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.leaf, leaf)) {
            slot.set_in.get_or_insert(segment);
        }
    }

    /// Returns the gradients that the run has found behind a number of guards, as conditions.
    /// `places` are those of the inputs, and of gradients that were found before.
    pub(super) fn found(
        &self,
        segment: usize,
        inputs: &[Tensor],
        places: &mut Vec<Place>,
    ) -> Vec<Found> {
        let own = self.slots.iter().enumerate().filter(|(_, slot)| slot.segment == Some(segment));
        let found = own.filter_map(|(number, slot)| {
            let place = slot.found.as_ref()?.clone();
            let key = place.as_ref().map(|place| InputKey::new(place, places));
            places.extend(place);
            let owner = Owner::of(&slot.leaf, inputs);
            Some(Found { value: Value::Gradient(number as u32), owner, key })
        });
        found.collect()
    }

    /// Returns where the gradients lie that the run has found behind a number of guards.
    pub(super) fn places(&self, segment: usize) -> impl Iterator<Item = (Value, Place)> + '_ {
        let own = self.slots.iter().enumerate().filter(move |(_, s)| s.segment == Some(segment));
        own.filter_map(|(number, slot)| {
            Some((Value::Gradient(number as u32), slot.found.clone()??))
        })
    }

    /// Returns how many leaves hold a tensor as their gradient.
    pub(super) fn holders(&self, tensor: &Tensor) -> usize {
        let holds = |slot: &&Slot| slot.leaf.held().is_some_and(|held| held.is_same(tensor));
        self.slots.iter().filter(holds).count()
    }

    /// Returns the leaves that the run has set, with their present gradients, and the number of
    /// guards before it first did.
    pub(super) fn left(&self, inputs: &[Tensor]) -> Vec<(Owner, Option<Tensor>, usize)> {
        let set = self.slots.iter().filter_map(|slot| Some((slot, slot.set_in?)));
        set.map(|(slot, segment)| (Owner::of(&slot.leaf, inputs), slot.leaf.held(), segment))
            .collect()
    }
}

/// A gradient that a capture depends on.
#[derive(Clone, PartialEq)]
pub(super) struct Found {
    value: Value,
    owner: Owner,
    /// None if there was none.
    key: Option<InputKey>,
}

impl Found {
    /// Returns the gradient's name and the gradient, if a call finds one such as the capture did;
    /// none otherwise. `places` are those of the inputs, and of gradients that were found before.
    pub(super) fn find(
        &self,
        inputs: &[Tensor],
        places: &mut Vec<Place>,
    ) -> Option<Option<(Value, Tensor)>> {
        let found = self.owner.leaf(inputs).held();
        match (&self.key, found) {
            (None, None) => Some(None),
            (Some(key), Some(tensor)) => {
                let place = Place::of(tensor.machine(), &tensor).ok()?;
                if InputKey::new(&place, places) != *key {
                    return None;
                }
                places.push(place);
                Some(Some((self.value, global::part(&tensor).ok()?.clone())))
            }
            _ => None,
        }
    }
}

/// A gradient that a capture leaves in a leaf.
#[derive(PartialEq)]
pub(super) struct Left {
    pub(super) owner: Owner,
    pub(super) returned: Option<Returned>,
    /// The number of guards before the function first sets it.
    pub(super) set_in: usize,
}

impl Left {
    /// Returns the name of the gradient, or of its part on this rank.
    pub(super) fn value(&self) -> Option<Value> {
        self.returned.as_ref().map(|(value, _)| *value)
    }

    /// Gives a leaf its gradient.
    pub(super) fn set(&self, inputs: &[Tensor], gradient: Option<Tensor>) {
        self.owner.leaf(inputs).hold(gradient);
    }
}
