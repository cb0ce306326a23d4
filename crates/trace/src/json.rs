//! JSON values with spans. A value stays a slice of the source's text until it is read.
//!
//! The address of a slice gives its span, so every error names the exact value, and `serde`'s lines
//! and columns can be mapped to the source. Skipping a value uses no call stack, so deep nesting
//! costs nothing until the value is read.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::str::FromStr;
use std::sync::Arc;

use millstream_types::Error;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{MAX_ERRORS, Result, Site, TraceError, wrap};
use crate::field::{Expected, Field, Fields};
use crate::scan;
use crate::schema_types::{Map, Name, Names};
use crate::source::{Source, Span};
use crate::syntax::syntax;

/// An unread value of the file that should have the form `T`.
pub(crate) struct Raw<'a, T: ?Sized> {
    pub(crate) text: &'a str,
    form: PhantomData<fn() -> Box<T>>,
}

impl<'a, T: ?Sized> Raw<'a, T> {
    pub(crate) fn new(text: &'a str) -> Raw<'a, T> {
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

/// A value with the part of the text that it was read from.
#[derive(Clone)]
pub(crate) struct At<'a, T> {
    pub(crate) text: &'a str,
    pub(crate) value: T,
}

impl<T> At<'_, T> {
    /// Returns the value without its place.
    pub(crate) fn take(self) -> T {
        self.value
    }
}

impl<T> Deref for At<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A key of an object.
pub(crate) type Key<'a> = At<'a, Cow<'a, str>>;

impl Key<'_> {
    pub(crate) fn name(&self) -> &str {
        &self.value
    }
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
        let whole: &RawValue = serde_json::from_str(body).map_err(|e| self.syntax(body, &e))?;
        Ok(Raw::new(whole.get()))
    }

    pub(crate) fn span(&self, part: &str) -> Span {
        self.source.span(self.range(part))
    }

    pub(crate) fn site(&self, part: &str) -> Site {
        Site { source: self.source.clone(), span: self.span(part) }
    }

    pub(crate) fn range(&self, part: &str) -> Range<usize> {
        // Every slice is borrowed from the source's text, so its address gives its offset.
        let start = (part.as_ptr() as usize).wrapping_sub(self.source.text().as_ptr() as usize);
        start..start.saturating_add(part.len())
    }

    fn fail(&self, range: Range<usize>, message: String) -> TraceError {
        TraceError::at(self.source, self.source.span(range), message)
    }

    /// Returns an error at a part of the text.
    pub(crate) fn error(&self, part: &str, message: impl Into<String>) -> TraceError {
        self.fail(self.range(part), message.into())
    }

    pub(crate) fn wrap(&self, part: &str, error: &Error) -> TraceError {
        wrap(self.source, self.span(part), error)
    }

    pub(crate) fn mismatch(&self, raw: Raw<'a, ()>, what: impl Display) -> TraceError {
        self.error(raw.text, format!("expected {what}, got {}", raw.kind()))
    }

    /// Converts an error of `serde_json` in this part of the text.
    fn syntax(&self, part: &str, error: &serde_json::Error) -> TraceError {
        syntax(self.source, (self.range(part).start, part), error)
    }

    /// Counts items against the bound of the whole file.
    pub(crate) fn count(&self, part: &str, items: usize) -> Result<()> {
        match self.remaining.get().checked_sub(items) {
            Some(remaining) => {
                self.remaining.set(remaining);
                Ok(())
            }
            None => {
                self.remaining.set(0);
                Err(self.error(part, format!("more than {} items in one file", self.max_items)))
            }
        }
    }

    /// Returns the keys and values of an object, or the elements of a list without keys.
    fn parts(
        &self,
        raw: Raw<'a, ()>,
        open: char,
        what: impl Display,
    ) -> Result<Vec<(&'a str, Raw<'a, ()>)>> {
        if !raw.text.starts_with(open) {
            return Err(self.mismatch(raw, what));
        }
        let found =
            scan::parts(raw.text, self.remaining.get()).map_err(|e| self.syntax(raw.text, &e))?;
        self.count(raw.text, found.len())?;
        Ok(found.into_iter().map(|(key, value)| (key, Raw::new(value))).collect())
    }

    /// Returns the entries of an object.
    pub(crate) fn entries(&self, raw: Raw<'a, ()>, what: impl Display) -> Result<Entries<'a, ()>> {
        let found = self.parts(raw, '{', what)?;
        let mut entries = Entries::with_capacity(found.len());
        let mut seen = HashSet::with_capacity(found.len());
        for (text, value) in found {
            let key = At { text, value: self.decode(text)? };
            if !seen.insert(key.value.clone()) {
                return Err(self.error(text, format!("duplicate key '{}'", key.value)));
            }
            entries.push((key, value));
        }
        Ok(entries)
    }

    /// Returns the fields of an object.
    pub(crate) fn fields<T>(&self, raw: Raw<'a, T>, what: impl Display) -> Result<Fields<'_, 'a>> {
        let entries = self.entries(raw.cast(), what)?;
        Ok(Fields { reader: self, whole: raw.text, entries })
    }

    /// Returns the entries of an object whose keys are names, or nothing if the object is missing.
    pub(crate) fn map<T>(
        &self,
        raw: Option<Raw<'a, Map<T>>>,
        what: impl Display,
    ) -> Result<Entries<'a, T>> {
        let Some(raw) = raw else { return Ok(Vec::new()) };
        let named = |(key, value): (Key<'a>, Raw<'a, ()>)| {
            check_name(&key).map_err(|why| self.error(key.text, why))?;
            Ok((key, value.cast()))
        };
        self.entries(raw.cast(), what)?.into_iter().map(named).collect()
    }

    /// Returns the elements of a list.
    pub(crate) fn list<T>(
        &self,
        raw: Raw<'a, Vec<T>>,
        what: impl Display,
    ) -> Result<Vec<Raw<'a, T>>> {
        let found = self.parts(raw.cast(), '[', what)?;
        Ok(found.into_iter().map(|(_, value)| value.cast()).collect())
    }

    /// Returns the names of a list, or one name alone.
    pub(crate) fn names(
        &self,
        raw: Raw<'a, Names>,
        what: impl Display,
    ) -> Result<Vec<Raw<'a, Name>>> {
        match raw.kind() {
            "a string" => Ok(vec![raw.cast()]),
            _ => self.list(raw.cast(), what),
        }
    }

    fn decode(&self, text: &'a str) -> Result<Cow<'a, str>> {
        let inner = text.strip_prefix('"').and_then(|r| r.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
            _ => serde_json::from_str(text).map(Cow::Owned).map_err(|e| self.syntax(text, &e)),
        }
    }

    /// Reads a value.
    pub(crate) fn read<T: Field<'a>>(&self, raw: Raw<'a, T>) -> Result<T> {
        T::read(self, raw, Expected { what: T::WHAT, field: "" })
    }

    /// Reads a string.
    pub(crate) fn text<T: ?Sized>(
        &self,
        raw: Raw<'a, T>,
        what: impl Display,
    ) -> Result<Cow<'a, str>> {
        if !raw.text.starts_with('"') {
            return Err(self.mismatch(raw.cast(), what));
        }
        self.decode(raw.text)
    }

    /// Reads a string that is a valid name.
    pub(crate) fn name<T: ?Sized>(
        &self,
        raw: Raw<'a, T>,
        what: impl Display,
    ) -> Result<Cow<'a, str>> {
        let name = self.text(raw, what)?;
        check_name(&name).map_err(|why| self.error(raw.text, why))?;
        Ok(name)
    }

    /// Reads a string that a type of the workspace parses.
    pub(crate) fn parse<T: FromStr<Err = Error>>(
        &self,
        raw: Raw<'a, T>,
        what: impl Display,
    ) -> Result<T> {
        self.text(raw, what)?.parse().map_err(|e| self.wrap(raw.text, &e))
    }

    /// Reads a length.
    pub(crate) fn size(&self, raw: Raw<'a, usize>, what: impl Display) -> Result<usize> {
        let value: u64 = self.number(raw.cast(), what)?;
        let large = |_| format!("{} is more than any memory holds", short(raw.text));
        usize::try_from(value).map_err(large).map_err(|why| self.error(raw.text, why))
    }

    /// Reads a number, or any other type that deserializes from one JSON value.
    pub(crate) fn number<T: Deserialize<'a>>(
        &self,
        raw: Raw<'a, T>,
        what: impl Display,
    ) -> Result<T> {
        serde_json::from_str(raw.text).map_err(|_| {
            let got = if raw.kind() == "a number" { short(raw.text) } else { raw.kind() };
            self.error(raw.text, format!("expected {what}, got {got}"))
        })
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
fn short(text: &str) -> &str {
    text.get(..32).unwrap_or(text)
}
