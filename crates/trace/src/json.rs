//! JSON with places: each value is kept as the slice of the text that it stands in, and read when
//! its turn comes.
//!
//! A slice of the text knows its place by where it points, so every error can say exactly which
//! value it means, and `serde`'s own lines and columns can be mapped back. Skipping over a value
//! uses no call stack, so depth of nesting costs nothing until somebody reads it.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use millstream_types::Error;
use millstream_types::nearest::nearest;
use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::error::{Result, TraceError, wrap};
use crate::fields::fields_of;
use crate::scan;
use crate::source::{Place, Source};

/// A value of the file that should have the form `T` and has not been read yet.
pub(crate) struct At<'a, T: ?Sized> {
    pub(crate) raw: &'a str,
    form: PhantomData<fn() -> Box<T>>,
}

impl<'a, T: ?Sized> At<'a, T> {
    fn new(raw: &'a str) -> At<'a, T> {
        At { raw, form: PhantomData }
    }

    /// The same value, read as another form.
    pub(crate) fn cast<U: ?Sized>(self) -> At<'a, U> {
        At::new(self.raw)
    }

    /// What kind of value it is, told by its first character.
    pub(crate) fn kind(self) -> &'static str {
        match self.raw.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a text",
            Some(b't' | b'f') => "a truth value",
            Some(b'n') => "null",
            _ => "a number",
        }
    }
}

impl<T: ?Sized> Clone for At<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for At<'_, T> {}

impl<'de: 'a, 'a, T: ?Sized> Deserialize<'de> for At<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'a RawValue>::deserialize(deserializer).map(|raw| At::new(raw.get()))
    }
}

/// A key of an object.
#[derive(Clone)]
pub(crate) struct Key<'a> {
    pub(crate) name: Cow<'a, str>,
    raw: &'a str,
}

/// An object's entries, in the order of the file; no key stands twice.
pub(crate) type Entries<'a, T> = Vec<(Key<'a>, At<'a, T>)>;

/// Reads values of one source, and counts what it has read.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a Arc<Source>,
    left: Cell<usize>,
    most: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: &'a Arc<Source>, max_items: usize) -> Reader<'a> {
        Reader { source, left: Cell::new(max_items), most: max_items }
    }

    /// The whole text as one value.
    pub(crate) fn root<T>(&self) -> Result<At<'a, T>> {
        let text = self.source.text();
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        if body.trim_ascii().is_empty() {
            return Err(self.fail(0..0, "the file is empty".to_owned()));
        }
        serde_json::from_str(body).map_err(|e| self.syntax(body, &e))
    }

    pub(crate) fn place<T: ?Sized>(&self, at: At<'a, T>) -> Place {
        self.source.place(self.range(at.raw))
    }

    pub(crate) fn range(&self, part: &str) -> Range<usize> {
        // Every slice was borrowed from the source's text, so its address gives its offset.
        let start = (part.as_ptr() as usize).wrapping_sub(self.source.text().as_ptr() as usize);
        start..start.saturating_add(part.len())
    }

    fn fail(&self, range: Range<usize>, message: String) -> TraceError {
        TraceError::at(self.source, self.source.place(range), message)
    }

    pub(crate) fn error<T: ?Sized>(&self, at: At<'a, T>, message: impl Into<String>) -> TraceError {
        self.fail(self.range(at.raw), message.into())
    }

    pub(crate) fn key_error(&self, key: &Key<'a>, message: impl Into<String>) -> TraceError {
        self.fail(self.range(key.raw), message.into())
    }

    pub(crate) fn key_place(&self, key: &Key<'a>) -> Place {
        self.source.place(self.range(key.raw))
    }

    pub(crate) fn wrap<T: ?Sized>(&self, at: At<'a, T>, error: &Error) -> TraceError {
        wrap(self.source, self.place(at), error)
    }

    fn expected<T: ?Sized>(&self, at: At<'a, T>, what: &str) -> TraceError {
        self.error(at, format!("expected {what}, got {}", at.kind()))
    }

    /// An error of `serde_json` in this part of the text.
    pub(crate) fn syntax(&self, part: &str, error: &serde_json::Error) -> TraceError {
        let base = self.range(part).start;
        let before: usize =
            part.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let offset = base + (before + error.column().saturating_sub(1)).min(part.len());
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(m, _)| m);
        let failed = self.fail(offset..offset + 1, format!("not valid JSON: {message}"));
        if error.is_eof() { failed.help("the file ends too early") } else { failed }
    }

    /// Counts items against the bound for the whole file.
    pub(crate) fn count<T: ?Sized>(&self, at: At<'a, T>, items: usize) -> Result<()> {
        match self.left.get().checked_sub(items) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(self.too_many(at)),
        }
    }

    fn too_many<T: ?Sized>(&self, at: At<'a, T>) -> TraceError {
        self.error(at, format!("more than {} items in one file", self.most))
    }

    /// The error of a scan: too many parts, or no valid JSON.
    fn unscanned<T: ?Sized>(&self, at: At<'a, T>, error: &serde_json::Error) -> TraceError {
        if scan::is_over(error) { self.too_many(at) } else { self.syntax(at.raw, error) }
    }

    /// The object's entries.
    pub(crate) fn entries<T>(&self, at: At<'a, T>, what: &str) -> Result<Entries<'a, ()>> {
        if !at.raw.starts_with('{') {
            return Err(self.expected(at, what));
        }
        let found = scan::pairs(at.raw, self.left.get()).map_err(|e| self.unscanned(at, &e))?;
        self.count(at, found.len())?;
        let mut entries = Entries::with_capacity(found.len());
        let mut seen = HashSet::new();
        for (raw, value) in found {
            let key = Key { name: self.decode(raw)?, raw };
            let again = if entries.len() < 16 {
                entries.iter().any(|(k, _): &(Key<'_>, _)| k.name == key.name)
            } else {
                if seen.is_empty() {
                    seen.extend(entries.iter().map(|(k, _)| k.name.clone()));
                }
                !seen.insert(key.name.clone())
            };
            if again {
                return Err(self.key_error(&key, format!("'{}' stands here twice", key.name)));
            }
            entries.push((key, At::new(value)));
        }
        Ok(entries)
    }

    /// The object as a form; unknown fields are refused.
    pub(crate) fn object<T: Deserialize<'a>>(&self, at: At<'a, T>, what: &str) -> Result<T> {
        let fields = fields_of::<T>();
        for (key, _) in self.entries(at, what)? {
            if !fields.contains(&&*key.name) {
                let error = self.key_error(&key, format!("unknown field '{}' in {what}", key.name));
                let close = nearest(&key.name, fields.iter().copied());
                return Err(match close {
                    Some(name) => error.meant(Some(name)),
                    None => error.help(format!("known here: {}", fields.join(", "))),
                });
            }
        }
        serde_json::from_str(at.raw).map_err(|e| self.syntax(at.raw, &e))
    }

    /// The entries of an object of named things, or none if it is not there.
    pub(crate) fn optional_entries<T>(
        &self,
        at: Option<At<'a, T>>,
        what: &str,
    ) -> Result<Entries<'a, ()>> {
        let Some(at) = at else { return Ok(Vec::new()) };
        let entries = self.entries(at, what)?;
        for (key, _) in &entries {
            nameable(&key.name).map_err(|why| self.key_error(key, why))?;
        }
        Ok(entries)
    }

    /// A text that is there for readers only.
    pub(crate) fn remark(&self, at: Option<At<'a, String>>) -> Result<()> {
        at.map_or(Ok(()), |at| self.text(at, "a text").map(drop))
    }

    /// A field that has to be there.
    pub(crate) fn need<T, U>(
        &self,
        field: Option<At<'a, T>>,
        within: At<'a, U>,
        name: &str,
        what: &str,
    ) -> Result<At<'a, T>> {
        field.ok_or_else(|| self.error(within, format!("'{name}' is missing in {what}")))
    }

    /// The list's elements.
    pub(crate) fn list<T>(&self, at: At<'a, Vec<T>>, what: &str) -> Result<Vec<At<'a, T>>> {
        if !at.raw.starts_with('[') {
            return Err(self.expected(at, what));
        }
        let found = scan::items(at.raw, self.left.get()).map_err(|e| self.unscanned(at, &e))?;
        self.count(at, found.len())?;
        Ok(found.into_iter().map(At::new).collect())
    }

    fn decode(&self, raw: &'a str) -> Result<Cow<'a, str>> {
        let inner = raw.strip_prefix('"').and_then(|r| r.strip_suffix('"'));
        match inner {
            Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
            _ => serde_json::from_str(raw).map(Cow::Owned).map_err(|e| self.syntax(raw, &e)),
        }
    }

    /// A text.
    pub(crate) fn text<T: ?Sized>(&self, at: At<'a, T>, what: &str) -> Result<Cow<'a, str>> {
        if !at.raw.starts_with('"') {
            return Err(self.expected(at, what));
        }
        self.decode(at.raw)
    }

    /// A text that can name something.
    pub(crate) fn name<T: ?Sized>(&self, at: At<'a, T>, what: &str) -> Result<Cow<'a, str>> {
        let name = self.text(at, what)?;
        nameable(&name).map_err(|why| self.error(at, why))?;
        Ok(name)
    }

    /// A whole number of 0 or more, or any other type that reads as one JSON value.
    pub(crate) fn number<T: Deserialize<'a>>(&self, at: At<'a, T>, what: &str) -> Result<T> {
        serde_json::from_str(at.raw).map_err(|_| {
            let got = if at.kind() == "a number" { short(at.raw) } else { at.kind() };
            self.error(at, format!("expected {what}, got {got}"))
        })
    }

    /// A value that a crate of the workspace reads from text.
    pub(crate) fn parse<T, U>(&self, at: At<'a, U>, what: &str) -> Result<T>
    where
        T: std::str::FromStr<Err = Error>,
    {
        self.text(at, what)?.parse().map_err(|e| self.wrap(at, &e))
    }
}

/// Checks that this can name something.
fn nameable(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("a name cannot be empty"),
        n if n.len() > 255 => Err("a name cannot be longer than 255 bytes"),
        n if n.contains(char::is_control) => Err("a name cannot hold control characters"),
        _ => Ok(()),
    }
}

/// The start of a number's text: enough to recognise it by.
pub(crate) fn short(raw: &str) -> &str {
    raw.get(..32).unwrap_or(raw)
}

/// A mistake in JSON, at its place.
pub(crate) fn syntax(source: &Source, error: &serde_json::Error) -> TraceError {
    let text = source.text();
    let before: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let offset = (before + error.column().saturating_sub(1)).min(text.len());
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(&*message, |(m, _)| m);
    let place = source.place(offset..offset + 1);
    let failed = TraceError::at(source, place, format!("not valid JSON: {message}"));
    if error.is_eof() { failed.help("the file ends too early") } else { failed }
}
