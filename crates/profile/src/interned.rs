//! Numbers for values.

use std::collections::HashMap;
use std::hash::Hash;

/// Numbers for values, in the order of their first use.
#[derive(Debug)]
pub struct Interned<T> {
    known: HashMap<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned { known: HashMap::new() }
    }
}

impl<T: Hash + Eq + Clone> Interned<T> {
    /// Returns the number of a value. A new value is added to `all` as well.
    pub fn number(&mut self, value: T, all: &mut Vec<T>) -> u32 {
        *self.known.entry(value).or_insert_with_key(|value| {
            all.push(value.clone());
            all.len() as u32 - 1
        })
    }
}

impl Interned<String> {
    /// Returns the number of a text. Only a new text is copied.
    pub fn number_of(&mut self, text: &str, all: &mut Vec<String>) -> u32 {
        match self.known.get(text) {
            Some(&number) => number,
            None => self.number(text.to_owned(), all),
        }
    }
}
