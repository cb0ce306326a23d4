//! Fields of objects: how values of each type are read, with or without their objects.

use std::fmt::{self, Display};

use millstream_types::nearest::nearest;
use schemars::JsonSchema;

use crate::error::Result;
use crate::json::{At, Entries, Key, Raw, Reader};

/// What is expected of a value, and the field that has the value, if that is one.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'n> {
    pub(crate) what: &'static str,
    pub(crate) field: &'n str,
}

impl Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            "" => f.write_str(self.what),
            field => write!(f, "{} for '{field}'", self.what),
        }
    }
}

/// A type of values in the file: how they are read, and their JSON Schema.
pub(crate) trait Field<'a>: Sized {
    type Schema: JsonSchema;
    /// What is expected, for errors.
    const WHAT: &'static str;
    fn read(reader: &Reader<'a>, raw: Raw<'a, Self>, what: Expected<'_>) -> Result<Self>;
}

/// A type of objects with certain fields.
pub(crate) trait Form<'a>: JsonSchema + Sized {
    const NAME: &'static str;
    fn of(fields: &Fields<'_, 'a>) -> Result<Self>;
}

impl<'a, F: Form<'a>> Field<'a> for F {
    type Schema = F;
    const WHAT: &'static str = F::NAME;

    fn read(reader: &Reader<'a>, raw: Raw<'a, Self>, what: Expected<'_>) -> Result<Self> {
        F::of(&reader.fields(raw, what)?)
    }
}

/// What a field of a form holds: a value, one that is read later, or either of them if the field
/// may be absent.
pub(crate) trait Slot<'a>: Sized {
    fn fill(fields: &Fields<'_, 'a>, name: &str) -> Result<Option<Self>>;
}

impl<'a, T> Slot<'a> for Raw<'a, T> {
    fn fill(fields: &Fields<'_, 'a>, name: &str) -> Result<Option<Self>> {
        // A field that is null is absent.
        let is_it = |(key, raw): &&(Key<'a>, Raw<'a, ()>)| key.name() == name && raw.text != "null";
        Ok(fields.entries.iter().find(is_it).map(|(_, raw)| raw.cast()))
    }
}

impl<'a, T: Field<'a>> Slot<'a> for At<'a, T> {
    fn fill(fields: &Fields<'_, 'a>, name: &str) -> Result<Option<Self>> {
        let Some(raw) = Raw::fill(fields, name)? else { return Ok(None) };
        let what = Expected { what: T::WHAT, field: name };
        T::read(fields.reader, raw, what).map(|value| Some(At { text: raw.text, value }))
    }
}

impl<'a, S: Slot<'a>> Slot<'a> for Option<S> {
    fn fill(fields: &Fields<'_, 'a>, name: &str) -> Result<Option<Self>> {
        S::fill(fields, name).map(Some)
    }
}

/// The fields of an object that is read as a form.
pub(crate) struct Fields<'r, 'a> {
    pub(crate) reader: &'r Reader<'a>,
    pub(crate) whole: &'a str,
    pub(crate) entries: Entries<'a, ()>,
}

impl<'a> Fields<'_, 'a> {
    /// Refuses other fields than these.
    pub(crate) fn check(&self, what: &str, known: &[&'static str]) -> Result<()> {
        let unknown = self.entries.iter().find(|(key, _)| !known.contains(&key.name()));
        let Some((key, _)) = unknown else { return Ok(()) };
        let error = self.reader.error(key.text, format!("unknown field '{}' in {what}", key.value));
        Err(match nearest(key, known.iter().copied()) {
            Some(name) => error.meant(Some(name)),
            None => error.help(format!("known here: {}", known.join(", "))),
        })
    }

    /// Reads the field of this name.
    pub(crate) fn take<S: Slot<'a>>(&self, name: &str, what: &str) -> Result<S> {
        S::fill(self, name)?
            .ok_or_else(|| self.reader.error(self.whole, format!("'{name}' is missing in {what}")))
    }
}
