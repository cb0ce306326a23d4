//! Shared objects that are made anew once nobody else uses them.
//!
//! A launch is shared by the program's thread and the workers of its tapes, which drop it when it
//! has ended. The oldest one can mostly be used again, so that a launch allocates nothing, and no
//! worker frees what another thread allocated.
//!
//! # Rules
//! 1. An object changes only while this is its only owner. `get_mut` of the pointer checks that,
//!    with acquire order: all uses by those who have dropped it come before.
//! 2. A new owner gets the object through a queue, whose entries are published with release order.

use std::collections::VecDeque;

/// Shared pointers to objects that were in use, the oldest first.
pub struct Recycled<P> {
    objects: VecDeque<P>,
    /// How many there may be.
    most: usize,
}

impl<P: Clone> Recycled<P> {
    pub const fn new(most: usize) -> Recycled<P> {
        Recycled { objects: VecDeque::new(), most }
    }

    /// Returns the oldest object, or one by `make` if it is still in use, after `renew` has changed
    /// it. `get_mut` returns the content of a pointer if there is no other one to it.
    pub fn take<T>(
        &mut self,
        get_mut: impl Fn(&mut P) -> Option<&mut T>,
        make: impl FnOnce() -> P,
        renew: impl FnOnce(&mut T),
    ) -> P {
        let is_free = self.objects.front_mut().is_some_and(|object| get_mut(object).is_some());
        if !is_free && self.objects.len() == self.most {
            // One that a program holds on to is left to it.
            self.objects.pop_front();
        }
        let oldest = if is_free { self.objects.pop_front() } else { None };
        let mut object = oldest.unwrap_or_else(make);
        if let Some(content) = get_mut(&mut object) {
            renew(content);
        }
        self.objects.push_back(object.clone());
        object
    }
}
