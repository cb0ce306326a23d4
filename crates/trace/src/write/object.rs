//! Objects of a native trace as text, in one line.

use std::fmt::{self, Display, Write};

use crate::program::Held;

/// An object whose fields are texts in JSON.
#[derive(Default)]
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Object {
        Object::default()
    }

    /// Adds a field.
    pub(super) fn with(mut self, name: &str, value: impl Display) -> Object {
        let comma = if self.0.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{comma}{}: {value}", quoted(name));
        self
    }

    /// Adds a field that may be absent.
    pub(super) fn some(self, name: &str, value: Option<impl Display>) -> Object {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the fields that say how a mesh holds a tensor.
    pub(super) fn held(self, held: Option<&Held>) -> Object {
        let Some(held) = held else { return self };
        let mesh = held.mesh.as_ref().map(|(name, _)| quoted(name));
        self.some("mesh", mesh).with("sbp", list(held.sbp.iter().map(quoted)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: AsRef<str>, V: Display> FromIterator<(N, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Object {
        fields.into_iter().fold(Object::new(), |all, (name, value)| all.with(name.as_ref(), value))
    }
}

impl Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("{}"),
            fields => write!(f, "{{ {fields} }}"),
        }
    }
}

/// Returns a text in quotes.
pub(super) fn quoted(text: impl Display) -> String {
    serde_json::Value::from(text.to_string()).to_string()
}

/// Returns a list of texts in JSON.
pub(super) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}
