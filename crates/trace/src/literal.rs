//! Elements written out in the file. They stay text until they are asked for, so a loaded trace
//! takes no more memory than its text.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_types::DType;
use millstream_types::layout::MAX_DIMS;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};

use crate::error::{Result, TraceError};
use crate::number::Number;
use crate::source::Source;

/// A list of numbers in a source, nested or flat, of a regular shape.
#[derive(Clone)]
pub struct Literal {
    source: Arc<Source>,
    range: Range<usize>,
    shape: Vec<usize>,
    count: usize,
}

impl Literal {
    /// Reads through the elements once, and checks that each is one of `dtype` if that is known.
    pub(crate) fn scan(
        source: &Arc<Source>,
        range: Range<usize>,
        dtype: Option<DType>,
    ) -> Result<Literal> {
        let mut literal = Literal { source: source.clone(), range, shape: Vec::new(), count: 0 };
        let mut count = 0;
        literal.shape = literal.walk(|number| {
            count += 1;
            dtype.map_or(Ok(()), |d| number.element(d).map(drop))
        })?;
        literal.count = count;
        Ok(literal)
    }

    /// The shape that the nesting says: one dimension if it is flat, none for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The text, on one line.
    pub(crate) fn line(&self) -> String {
        let text = &self.source.text()[self.range.clone()];
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the elements fit this shape: nested as it says, or flat and as many.
    pub fn fits(&self, shape: &[usize]) -> bool {
        self.shape == shape
            || (self.shape.len() <= 1 && self.count == shape.iter().product::<usize>())
    }

    /// Gives each element to `put`, in order.
    pub(crate) fn each(&self, put: impl FnMut(Number) -> Result<(), String>) -> Result<()> {
        self.walk(put).map(drop)
    }

    fn walk(&self, mut put: impl FnMut(Number) -> Result<(), String>) -> Result<Vec<usize>> {
        let text = &self.source.text()[self.range.clone()];
        let mut form = Form { lengths: Vec::new(), leaf: None };
        let depth = Cell::new(0);
        let mut json = serde_json::Deserializer::from_str(text);
        let walk = Walk { depth: &depth, form: &mut form, put: &mut put };
        walk.deserialize(&mut json).map_err(|e| self.error(text, &e))?;
        Ok(form.lengths.into_iter().map(|n| n.unwrap_or(0)).collect())
    }

    /// The error, placed at the element that it was found at.
    fn error(&self, text: &str, error: &serde_json::Error) -> TraceError {
        let before: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let end = (before + error.column()).clamp(1, text.len());
        let part = |b: u8| b.is_ascii_alphanumeric() || b"+-.\"".contains(&b);
        let bytes = text.as_bytes();
        let start = (0..end - 1).rev().take_while(|&k| part(bytes[k]) && part(bytes[end - 1]));
        let start = start.last().unwrap_or(end - 1);
        let place = self.source.place(self.range.start + start..self.range.start + end);
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(m, _)| m);
        TraceError::at(&self.source, place, message)
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Literal({:?}, {} elements)", self.shape, self.count)
    }
}

/// What is known of the nesting so far.
struct Form {
    /// The length of the lists at each depth, once one has been read.
    lengths: Vec<Option<usize>>,
    /// The depth of the numbers.
    leaf: Option<usize>,
}

struct Walk<'w, P> {
    depth: &'w Cell<usize>,
    form: &'w mut Form,
    put: &'w mut P,
}

impl<P: FnMut(Number) -> Result<(), String>> Walk<'_, P> {
    fn number(self, number: Number) -> Result<(), String> {
        let depth = self.depth.get();
        if *self.form.leaf.get_or_insert(depth) != depth || self.form.lengths.len() > depth {
            return Err("expected a list here, as elsewhere at this depth, got a number".to_owned());
        }
        (self.put)(number)
    }
}

impl<'de, P: FnMut(Number) -> Result<(), String>> DeserializeSeed<'de> for Walk<'_, P> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, P: FnMut(Number) -> Result<(), String>> Visitor<'de> for Walk<'_, P> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, true, false, \"inf\", \"-inf\", \"nan\" or a list of them")
    }

    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<(), E> {
        self.number(Number::Bool(v)).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<(), E> {
        self.number(Number::Int(v.into())).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<(), E> {
        self.number(Number::Int(v.into())).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<(), E> {
        self.number(Number::Float(v)).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<(), E> {
        match Number::parse_word(v) {
            Some(number) => self.number(number).map_err(E::custom),
            None => Err(E::invalid_value(serde::de::Unexpected::Other("a text"), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let depth = self.depth.get();
        if depth >= MAX_DIMS {
            return Err(A::Error::custom(format!("lists more than {MAX_DIMS} deep")));
        }
        if self.form.leaf.is_some_and(|leaf| leaf <= depth) {
            return Err(A::Error::custom(
                "expected a number here, as elsewhere at this depth, got a list",
            ));
        }
        if self.form.lengths.len() == depth {
            self.form.lengths.push(None);
        }
        let mut length = 0usize;
        self.depth.set(depth + 1);
        let (form, put) = (self.form, self.put);
        while seq
            .next_element_seed(Walk { depth: self.depth, form: &mut *form, put: &mut *put })?
            .is_some()
        {
            length += 1;
        }
        self.depth.set(depth);
        match form.lengths[depth].replace(length) {
            Some(other) if other != length => Err(A::Error::custom(format!(
                "the lists at depth {depth} have {other} and {length} elements; expected one length"
            ))),
            _ => Ok(()),
        }
    }
}
