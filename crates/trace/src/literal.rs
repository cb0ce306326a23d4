//! Elements written out in the file. They stay text until they are needed, so that a loaded trace
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

/// A list of numbers in a source, nested or flat. All lists of one depth have the same length.
#[derive(Clone)]
pub struct Literal {
    source: Arc<Source>,
    range: Range<usize>,
    shape: Vec<usize>,
    count: usize,
}

impl Literal {
    /// Reads all elements once, and checks that each fits `dtype` if it is known.
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

    /// Returns the shape of the nesting: one dimension for a flat list, none for a single number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the text on one line.
    pub(crate) fn line(&self) -> String {
        let text = &self.source.text()[self.range.clone()];
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns whether the elements fit this shape: nested like it, or flat with the same number of
    /// elements. Complex ones are pairs, a last dimension of length 2.
    pub fn fits(&self, shape: &[usize], dtype: Option<DType>) -> bool {
        let pair = dtype.filter(|dtype| dtype.is_complex()).map(|_| 2);
        let shape: Vec<usize> = shape.iter().copied().chain(pair).collect();
        self.shape == shape
            || (self.shape.len() <= 1 && self.count == shape.iter().product::<usize>())
    }

    /// Passes each element to `put`, in order.
    pub(crate) fn each(&self, put: impl FnMut(Number) -> Result<(), String>) -> Result<()> {
        self.walk(put).map(drop)
    }

    fn walk(&self, mut put: impl FnMut(Number) -> Result<(), String>) -> Result<Vec<usize>> {
        let text = &self.source.text()[self.range.clone()];
        let mut nesting = Nesting { lengths: Vec::new(), leaf: None };
        let depth = Cell::new(0);
        let mut json = serde_json::Deserializer::from_str(text);
        let walk = Walk { depth: &depth, nesting: &mut nesting, put: &mut put };
        walk.deserialize(&mut json).map_err(|e| self.error(text, &e))?;
        Ok(nesting.lengths.into_iter().map(|n| n.unwrap_or(0)).collect())
    }

    /// Converts an error of `serde_json` to one with the span of the element.
    fn error(&self, text: &str, error: &serde_json::Error) -> TraceError {
        let before: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let end = (before + error.column()).clamp(1, text.len());
        let part = |b: u8| b.is_ascii_alphanumeric() || b"+-.\"".contains(&b);
        let bytes = text.as_bytes();
        let start = (0..end - 1).rev().take_while(|&k| part(bytes[k]) && part(bytes[end - 1]));
        let start = start.last().unwrap_or(end - 1);
        let span = self.source.span(self.range.start + start..self.range.start + end);
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(m, _)| m);
        TraceError::at(&self.source, span, message)
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Literal({:?}, {} elements)", self.shape, self.count)
    }
}

/// The nesting of the lists read so far.
struct Nesting {
    /// The length of the lists of each depth, once one has been read.
    lengths: Vec<Option<usize>>,
    /// The depth of the numbers, once one has been read.
    leaf: Option<usize>,
}

struct Walk<'w, P> {
    depth: &'w Cell<usize>,
    nesting: &'w mut Nesting,
    put: &'w mut P,
}

impl<P: FnMut(Number) -> Result<(), String>> Walk<'_, P> {
    fn number(self, number: Number) -> Result<(), String> {
        let depth = self.depth.get();
        if *self.nesting.leaf.get_or_insert(depth) != depth || self.nesting.lengths.len() > depth {
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
            None => Err(E::invalid_value(serde::de::Unexpected::Other("a string"), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let depth = self.depth.get();
        if depth >= MAX_DIMS {
            return Err(A::Error::custom(format!("lists more than {MAX_DIMS} deep")));
        }
        if self.nesting.leaf.is_some_and(|leaf| leaf <= depth) {
            return Err(A::Error::custom(
                "expected a number here, as elsewhere at this depth, got a list",
            ));
        }
        if self.nesting.lengths.len() == depth {
            self.nesting.lengths.push(None);
        }
        let mut length = 0usize;
        self.depth.set(depth + 1);
        let (nesting, put) = (self.nesting, self.put);
        while seq
            .next_element_seed(Walk { depth: self.depth, nesting: &mut *nesting, put: &mut *put })?
            .is_some()
        {
            length += 1;
        }
        self.depth.set(depth);
        match nesting.lengths[depth].replace(length) {
            Some(other) if other != length => Err(A::Error::custom(format!(
                "the lists at depth {depth} have {other} and {length} elements; expected one length"
            ))),
            _ => Ok(()),
        }
    }
}
