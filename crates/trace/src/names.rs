//! The names of tensors while a program is read from top to bottom: what each stands for, and
//! whether it still lives.

use std::collections::{BTreeSet, HashMap};

use millstream_types::nearest::nearest;

use crate::error::TraceError;
use crate::program::{Value, ValueRef};
use crate::source::Place;

/// The names of one block.
pub(crate) struct Names<'n> {
    /// The tensors of the trace. A name in `own` goes before one here.
    tensors: &'n HashMap<String, ValueRef>,
    own: HashMap<String, Binding>,
    values: &'n mut Vec<Value>,
    held: HashMap<ValueRef, Place>,
    /// Whether this is a job, which may use the tensors of the trace but not end them.
    job: bool,
    uses: BTreeSet<ValueRef>,
}

#[derive(Clone, Copy)]
struct Binding {
    value: ValueRef,
    released: Option<Place>,
}

/// What is wrong with a name.
pub(crate) struct Fault {
    message: String,
    nearest: Option<String>,
}

impl Fault {
    fn new(message: String) -> Fault {
        Fault { message, nearest: None }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The error, with the name that was probably meant.
    pub(crate) fn error(&self, error: TraceError) -> TraceError {
        error.meant(self.nearest.clone())
    }
}

impl<'n> Names<'n> {
    pub(crate) fn new(
        tensors: &'n HashMap<String, ValueRef>,
        values: &'n mut Vec<Value>,
        job: bool,
    ) -> Names<'n> {
        let (own, held, uses) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        Names { tensors, own, values, held, job, uses }
    }

    /// The tensors of the trace that were used.
    pub(crate) fn into_uses(self) -> Vec<ValueRef> {
        self.uses.into_iter().collect()
    }

    fn binding(&self, name: &str) -> Option<Binding> {
        let shared = || self.tensors.get(name).map(|&value| Binding { value, released: None });
        self.own.get(name).copied().or_else(shared)
    }

    /// The living tensor of this name.
    pub(crate) fn find(&mut self, name: &str) -> Result<ValueRef, Fault> {
        match self.binding(name) {
            Some(Binding { value, released: None }) => {
                if !self.own.contains_key(name) {
                    self.uses.insert(value);
                }
                Ok(value)
            }
            Some(Binding { released: Some(place), .. }) => {
                Err(Fault::new(format!("the tensor '{name}' was released at {place}")))
            }
            None => {
                let own = self.own.iter().filter(|(_, b)| b.released.is_none()).map(|(n, _)| n);
                let all = self.tensors.keys().filter(|n| !self.own.contains_key(*n)).chain(own);
                let nearest = nearest(name, all.map(String::as_str));
                Err(Fault { message: format!("unknown tensor '{name}'"), nearest })
            }
        }
    }

    /// A new tensor of this name.
    pub(crate) fn define(&mut self, name: &str, place: Place) -> Result<ValueRef, Fault> {
        if let Some(Binding { value, released: None }) = self.binding(name) {
            let given = self.values[value.index()].place;
            let hint = if self.job { "choose another name" } else { "release it first" };
            let message = format!("there is a tensor '{name}' already, from {given}; {hint}");
            return Err(Fault::new(message));
        }
        let value = ValueRef(self.values.len() as u32);
        self.values.push(Value { name: name.to_owned(), place, recorded: None });
        self.own.insert(name.to_owned(), Binding { value, released: None });
        Ok(value)
    }

    /// Ends the tensor of this name.
    pub(crate) fn release(&mut self, name: &str, place: Place) -> Result<ValueRef, Fault> {
        let value = self.find(name)?;
        if self.job && !self.own.contains_key(name) {
            let message = format!("a job cannot release '{name}', which it did not make");
            return Err(Fault::new(message));
        }
        if let Some(held) = self.held.get(&value) {
            let message = format!("'{name}' is held by the critical section at {held}");
            return Err(Fault::new(message));
        }
        self.own.insert(name.to_owned(), Binding { value, released: Some(place) });
        Ok(value)
    }

    /// Holds the tensor of this name for a critical section.
    pub(crate) fn hold(&mut self, name: &str, place: Place) -> Result<ValueRef, Fault> {
        let value = self.find(name)?;
        match self.held.insert(value, place) {
            None => Ok(value),
            Some(held) => {
                Err(Fault::new(format!("'{name}' is held already, by the section at {held}")))
            }
        }
    }

    /// Ends a hold.
    pub(crate) fn let_go(&mut self, value: ValueRef) {
        self.held.remove(&value);
    }
}
