//! JSON values with spans. A value stays a slice of the source's text until it is read.
//!
//! The address of a slice gives its span, so every error names the exact value, and `serde`'s lines
//! and columns can be mapped to the source. Skipping a value uses no call stack, so deep nesting
//! costs nothing until the value is read.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use millstream_types::Error;
use millstream_types::nearest::nearest;
use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::{MAX_ERRORS, Result, TraceError, wrap};
use crate::raw_form::Form;
use crate::scan;
use crate::schema_types::{Name, Names};
use crate::source::{Source, Span};
use crate::syntax::syntax;

/// An unread value of the file that should have the form `T`.
pub(crate) struct Raw<'a, T: ?Sized> {
    pub(crate) text: &'a str,
    form: PhantomData<fn() -> Box<T>>,
}

impl<'a, T: ?Sized> Raw<'a, T> {
    fn new(text: &'a str) -> Raw<'a, T> {
        Raw { text, form: PhantomData }
    }

    /// Returns the same value as another form.
    pub(crate) fn cast<U: ?Sized>(self) -> Raw<'a, U> {
        Raw::new(self.text)
    }

    /// Returns the JSON type of the value, which its first character determines.
    pub(crate) fn kind(self) -> &'static str {
        match self.text.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        }
    }
}

impl<T: ?Sized> Clone for Raw<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Raw<'_, T> {}

impl<'de: 'a, 'a, T: ?Sized> Deserialize<'de> for Raw<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'a RawValue>::deserialize(deserializer).map(|raw| Raw::new(raw.get()))
    }
}

/// A key of an object.
#[derive(Clone)]
pub(crate) struct Key<'a> {
    pub(crate) name: Cow<'a, str>,
    text: &'a str,
}

/// The entries of an object, in the order of the file, with unique keys.
pub(crate) type Entries<'a, T> = Vec<(Key<'a>, Raw<'a, T>)>;

/// Reads the values of one source and counts the items that it has read.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a Arc<Source>,
    remaining: Cell<usize>,
    max_items: usize,
    /// The errors after which reading went on.
    errors: RefCell<Vec<TraceError>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: &'a Arc<Source>, max_items: usize) -> Reader<'a> {
        let (remaining, errors) = (Cell::new(max_items), RefCell::default());
        Reader { source, remaining, max_items, errors }
    }

    /// Notes the error of a part of the file, so that its other parts can be read.
    ///
    /// # Errors
    /// There are too many errors, or too many items.
    pub(crate) fn recover<T>(&self, part: Result<T>) -> Result<Option<T>> {
        let error = match part {
            Ok(part) => return Ok(Some(part)),
            Err(error) => error,
        };
        let mut errors = self.errors.borrow_mut();
        if self.remaining.get() == 0 || errors.len() + 1 >= MAX_ERRORS {
            return Err(error);
        }
        errors.push(error);
        Ok(None)
    }

    /// Returns what was read, if no part had an error.
    pub(crate) fn finish<T>(&self, read: Result<T>) -> Result<T> {
        let mut errors = self.errors.take();
        let read = read.map_err(|error| errors.push(error)).ok();
        match (TraceError::several(errors), read) {
            (None, Some(read)) => Ok(read),
            (Some(error), _) => Err(error),
            (None, None) => Err(self.fail(0..0, "the file cannot be read".to_owned())),
        }
    }

    /// Returns the whole text as one value.
    pub(crate) fn root<T>(&self) -> Result<Raw<'a, T>> {
        let text = self.source.text();
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        if body.trim_ascii().is_empty() {
            return Err(self.fail(0..0, "the file is empty".to_owned()));
        }
        serde_json::from_str(body).map_err(|e| self.syntax(body, &e))
    }

    pub(crate) fn span<T: ?Sized>(&self, raw: Raw<'a, T>) -> Span {
        self.source.span(self.range(raw.text))
    }

    pub(crate) fn range(&self, part: &str) -> Range<usize> {
        // Every slice is borrowed from the source's text, so its address gives its offset.
        let start = (part.as_ptr() as usize).wrapping_sub(self.source.text().as_ptr() as usize);
        start..start.saturating_add(part.len())
    }

    fn fail(&self, range: Range<usize>, message: String) -> TraceError {
        TraceError::at(self.source, self.source.span(range), message)
    }

    pub(crate) fn error<T: ?Sized>(
        &self,
        raw: Raw<'a, T>,
        message: impl Into<String>,
    ) -> TraceError {
        self.fail(self.range(raw.text), message.into())
    }

    pub(crate) fn key_error(&self, key: &Key<'a>, message: impl Into<String>) -> TraceError {
        self.fail(self.range(key.text), message.into())
    }

    pub(crate) fn key_span(&self, key: &Key<'a>) -> Span {
        self.source.span(self.range(key.text))
    }

    pub(crate) fn wrap<T: ?Sized>(&self, raw: Raw<'a, T>, error: &Error) -> TraceError {
        wrap(self.source, self.span(raw), error)
    }

    fn mismatch<T: ?Sized>(&self, raw: Raw<'a, T>, what: &str) -> TraceError {
        self.error(raw, format!("expected {what}, got {}", raw.kind()))
    }

    /// Converts an error of `serde_json` in this part of the text.
    pub(crate) fn syntax(&self, part: &str, error: &serde_json::Error) -> TraceError {
        syntax(self.source, (self.range(part).start, part), error)
    }

    /// Counts items against the bound of the whole file.
    pub(crate) fn count<T: ?Sized>(&self, raw: Raw<'a, T>, items: usize) -> Result<()> {
        match self.remaining.get().checked_sub(items) {
            Some(remaining) => {
                self.remaining.set(remaining);
                Ok(())
            }
            None => {
                self.remaining.set(0);
                Err(self.too_many(raw))
            }
        }
    }

    fn too_many<T: ?Sized>(&self, raw: Raw<'a, T>) -> TraceError {
        self.error(raw, format!("more than {} items in one file", self.max_items))
    }

    /// Converts an error of a scan: too many parts, or invalid JSON.
    fn scan_error<T: ?Sized>(&self, raw: Raw<'a, T>, error: &serde_json::Error) -> TraceError {
        if scan::is_over(error) { self.too_many(raw) } else { self.syntax(raw.text, error) }
    }

    /// Returns the entries of an object.
    pub(crate) fn entries<T>(&self, raw: Raw<'a, T>, what: &str) -> Result<Entries<'a, ()>> {
        self.pairs(raw.cast(), what)
    }

    // As `items` and `check_fields`, compiled once for all forms.
    fn pairs(&self, raw: Raw<'a, ()>, what: &str) -> Result<Entries<'a, ()>> {
        if !raw.text.starts_with('{') {
            return Err(self.mismatch(raw, what));
        }
        let found =
            scan::pairs(raw.text, self.remaining.get()).map_err(|e| self.scan_error(raw, &e))?;
        self.count(raw, found.len())?;
        let mut entries = Entries::with_capacity(found.len());
        let mut seen = HashSet::new();
        for (text, value) in found {
            let key = Key { name: self.decode(text)?, text };
            let duplicate = if entries.len() < 16 {
                entries.iter().any(|(k, _): &(Key<'_>, _)| k.name == key.name)
            } else {
                if seen.is_empty() {
                    seen.extend(entries.iter().map(|(k, _)| k.name.clone()));
                }
                !seen.insert(key.name.clone())
            };
            if duplicate {
                return Err(self.key_error(&key, format!("duplicate key '{}'", key.name)));
            }
            entries.push((key, Raw::new(value)));
        }
        Ok(entries)
    }

    /// Reads an object as a form; refuses unknown fields.
    pub(crate) fn object<T: Form<'a>>(&self, raw: Raw<'a, T>, what: &str) -> Result<T> {
        self.check_fields(raw.cast(), T::FIELDS, what)?;
        serde_json::from_str(raw.text).map_err(|e| self.syntax(raw.text, &e))
    }

    /// Refuses an object with other fields than these, or a remark that is no string.
    fn check_fields(&self, raw: Raw<'a, ()>, fields: &[&'static str], what: &str) -> Result<()> {
        for (key, value) in self.pairs(raw, what)? {
            if !fields.contains(&&*key.name) {
                let error = self.key_error(&key, format!("unknown field '{}' in {what}", key.name));
                let close = nearest(&key.name, fields.iter().copied());
                return Err(match close {
                    Some(name) => error.meant(Some(name)),
                    None => error.help(format!("known here: {}", fields.join(", "))),
                });
            }
            if ["note", "$schema"].contains(&&*key.name) {
                self.text(value, "a string")?;
            }
        }
        Ok(())
    }

    /// Returns the entries of an object whose keys are names, or nothing if the object is missing.
    pub(crate) fn optional_entries<T>(
        &self,
        raw: Option<Raw<'a, T>>,
        what: &str,
    ) -> Result<Entries<'a, ()>> {
        let Some(raw) = raw else { return Ok(Vec::new()) };
        let entries = self.entries(raw, what)?;
        for (key, _) in &entries {
            check_name(&key.name).map_err(|why| self.key_error(key, why))?;
        }
        Ok(entries)
    }

    /// Returns a required field.
    pub(crate) fn require<T, U>(
        &self,
        field: Option<Raw<'a, T>>,
        within: Raw<'a, U>,
        name: &str,
        what: &str,
    ) -> Result<Raw<'a, T>> {
        field.ok_or_else(|| self.error(within, format!("'{name}' is missing in {what}")))
    }

    /// Returns the elements of a list.
    pub(crate) fn list<T>(&self, raw: Raw<'a, Vec<T>>, what: &str) -> Result<Vec<Raw<'a, T>>> {
        Ok(self.items(raw.cast(), what)?.into_iter().map(Raw::new).collect())
    }

    /// Returns the names of a list, or one name alone.
    pub(crate) fn names(&self, raw: Raw<'a, Names>, what: &str) -> Result<Vec<Raw<'a, Name>>> {
        match raw.kind() {
            "a string" => Ok(vec![raw.cast()]),
            _ => self.list(raw.cast(), what),
        }
    }

    fn items(&self, raw: Raw<'a, ()>, what: &str) -> Result<Vec<&'a str>> {
        if !raw.text.starts_with('[') {
            return Err(self.mismatch(raw, what));
        }
        let found =
            scan::items(raw.text, self.remaining.get()).map_err(|e| self.scan_error(raw, &e))?;
        self.count(raw, found.len())?;
        Ok(found)
    }

    fn decode(&self, text: &'a str) -> Result<Cow<'a, str>> {
        let inner = text.strip_prefix('"').and_then(|r| r.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
            _ => serde_json::from_str(text).map(Cow::Owned).map_err(|e| self.syntax(text, &e)),
        }
    }

    /// Reads a string.
    pub(crate) fn text<T: ?Sized>(&self, raw: Raw<'a, T>, what: &str) -> Result<Cow<'a, str>> {
        if !raw.text.starts_with('"') {
            return Err(self.mismatch(raw, what));
        }
        self.decode(raw.text)
    }

    /// Reads a string that is a valid name.
    pub(crate) fn name<T: ?Sized>(&self, raw: Raw<'a, T>, what: &str) -> Result<Cow<'a, str>> {
        let name = self.text(raw, what)?;
        check_name(&name).map_err(|why| self.error(raw, why))?;
        Ok(name)
    }

    /// Reads a number, or any other type that deserializes from one JSON value.
    pub(crate) fn number<T: Deserialize<'a>>(&self, raw: Raw<'a, T>, what: &str) -> Result<T> {
        serde_json::from_str(raw.text).map_err(|_| {
            let got = if raw.kind() == "a number" { short(raw.text) } else { raw.kind() };
            self.error(raw, format!("expected {what}, got {got}"))
        })
    }

    /// Reads a string that a type of the workspace parses.
    pub(crate) fn parse<T, U>(&self, raw: Raw<'a, U>, what: &str) -> Result<T>
    where
        T: std::str::FromStr<Err = Error>,
    {
        self.text(raw, what)?.parse().map_err(|e| self.wrap(raw, &e))
    }
}

/// Checks that a string is a valid name.
fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("a name cannot be empty"),
        n if n.len() > 255 => Err("a name cannot be longer than 255 bytes"),
        n if n.contains(char::is_control) => Err("a name cannot contain control characters"),
        _ => Ok(()),
    }
}

/// Returns the start of a number's text, enough to recognise the number.
pub(crate) fn short(text: &str) -> &str {
    text.get(..32).unwrap_or(text)
}
