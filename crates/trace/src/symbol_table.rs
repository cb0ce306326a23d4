//! The symbol table of tensors. While a program is read from top to bottom, it maps each name to
//! its current value and records where the value was released.

use std::collections::{BTreeSet, HashMap, HashSet};

use millstream_types::nearest::nearest;

use crate::error::TraceError;
use crate::program::{Value, ValueRef};
use crate::source::Span;

/// The symbol table of one block.
pub(crate) struct SymbolTable<'n> {
    /// The tensors of the trace. A name in `local` shadows a name here.
    tensors: &'n HashMap<String, ValueRef>,
    local: HashMap<String, Binding>,
    values: &'n mut Vec<Value>,
    held: HashMap<ValueRef, Span>,
    /// Whether the block is an executable's, which may use the tensors of the trace and its inputs
    /// but not release them.
    in_executable: bool,
    inputs: HashSet<ValueRef>,
    /// The tensors of the trace that the block uses.
    uses: BTreeSet<ValueRef>,
}

#[derive(Clone, Copy)]
struct Binding {
    value: ValueRef,
    released: Option<Span>,
}

/// An invalid use of a name.
pub(crate) struct NameError {
    message: String,
    nearest: Option<String>,
}

impl NameError {
    fn new(message: String) -> NameError {
        NameError { message, nearest: None }
    }

    /// Returns the error of `at`, a function of the message, with the name that the user probably
    /// meant.
    pub(crate) fn at(self, at: impl FnOnce(String) -> TraceError) -> TraceError {
        at(self.message).meant(self.nearest)
    }
}

impl<'n> SymbolTable<'n> {
    pub(crate) fn new(
        tensors: &'n HashMap<String, ValueRef>,
        values: &'n mut Vec<Value>,
        in_executable: bool,
    ) -> SymbolTable<'n> {
        let (local, held, uses) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        let inputs = HashSet::new();
        SymbolTable { tensors, local, values, held, in_executable, inputs, uses }
    }

    /// Returns the tensors of the trace that the block uses.
    pub(crate) fn into_uses(self) -> Vec<ValueRef> {
        self.uses.into_iter().collect()
    }

    fn binding(&self, name: &str) -> Option<Binding> {
        let shared = || self.tensors.get(name).map(|&value| Binding { value, released: None });
        self.local.get(name).copied().or_else(shared)
    }

    /// Returns the current value of a name, which must not have been released.
    pub(crate) fn find(&mut self, name: &str) -> Result<ValueRef, NameError> {
        match self.binding(name) {
            Some(Binding { value, released: None }) => {
                if !self.local.contains_key(name) {
                    self.uses.insert(value);
                }
                Ok(value)
            }
            Some(Binding { released: Some(span), .. }) => {
                Err(NameError::new(format!("the tensor '{name}' was released at {span}")))
            }
            None => {
                let unreleased = |(_, b): &(&String, &Binding)| b.released.is_none();
                let local = self.local.iter().filter(unreleased).map(|(n, _)| n);
                let all = self.tensors.keys().filter(|n| !self.local.contains_key(*n)).chain(local);
                let nearest = nearest(name, all.map(String::as_str));
                Err(NameError { message: format!("unknown tensor '{name}'"), nearest })
            }
        }
    }

    /// Binds a name to a new value.
    pub(crate) fn define(&mut self, name: &str, span: Span) -> Result<ValueRef, NameError> {
        if let Some(Binding { value, released: None }) = self.binding(name) {
            let defined = self.values[value.index()].span;
            let hint = if self.in_executable { "choose another name" } else { "release it first" };
            let message = format!("there is a tensor '{name}' already, from {defined}; {hint}");
            return Err(NameError::new(message));
        }
        Ok(self.bind(name, span))
    }

    /// Binds the name of an input, which may be that of a tensor of the trace.
    pub(crate) fn input(&mut self, name: &str, span: Span) -> ValueRef {
        let value = self.bind(name, span);
        self.inputs.insert(value);
        value
    }

    fn bind(&mut self, name: &str, span: Span) -> ValueRef {
        let value = ValueRef(self.values.len() as u32);
        self.values.push(Value { name: name.to_owned(), span, recorded: None });
        self.local.insert(name.to_owned(), Binding { value, released: None });
        value
    }

    /// Releases the current value of a name.
    pub(crate) fn release(&mut self, name: &str, span: Span) -> Result<ValueRef, NameError> {
        let value = self.find(name)?;
        if self.in_executable && (self.inputs.contains(&value) || !self.local.contains_key(name)) {
            let what =
                if self.inputs.contains(&value) { "its input" } else { "a tensor of the trace" };
            let message = format!("an executable cannot release '{name}', {what}");
            return Err(NameError::new(message));
        }
        if let Some(held) = self.held.get(&value) {
            let message = format!("'{name}' is held by the critical section at {held}");
            return Err(NameError::new(message));
        }
        self.local.insert(name.to_owned(), Binding { value, released: Some(span) });
        Ok(value)
    }

    /// Marks the current value of a name as held by a critical section.
    pub(crate) fn hold(&mut self, name: &str, span: Span) -> Result<ValueRef, NameError> {
        let value = self.find(name)?;
        match self.held.insert(value, span) {
            None => Ok(value),
            Some(held) => {
                Err(NameError::new(format!("'{name}' is held already by the section at {held}")))
            }
        }
    }

    /// Ends the hold of a critical section.
    pub(crate) fn end_hold(&mut self, value: ValueRef) {
        self.held.remove(&value);
    }
}
