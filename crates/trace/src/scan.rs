//! Splits a list or an object into slices of the text, up to a bound.

use std::fmt;

use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The message of the error that stops a scan at its bound, so that the rest of a huge file is not
/// read.
const OVER: &str = "more parts than the bound";

/// Returns whether a scan stopped at its bound.
pub(crate) fn is_over(error: &serde_json::Error) -> bool {
    error.is_data() && error.to_string().starts_with(OVER)
}

/// Returns the keys and values of an object.
pub(crate) fn pairs(raw: &str, bound: usize) -> serde_json::Result<Vec<(&str, &str)>> {
    let mut json = serde_json::Deserializer::from_str(raw);
    let found = json.deserialize_map(Pairs { bound })?;
    json.end().map(|()| found)
}

/// Returns the elements of a list.
pub(crate) fn items(raw: &str, bound: usize) -> serde_json::Result<Vec<&str>> {
    let mut json = serde_json::Deserializer::from_str(raw);
    let found = json.deserialize_seq(Items { bound })?;
    json.end().map(|()| found)
}

struct Pairs {
    bound: usize,
}

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(&'de str, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while found.len() < self.bound {
            match map.next_entry::<&'de RawValue, &'de RawValue>()? {
                Some((key, value)) => found.push((key.get(), value.get())),
                None => return Ok(found),
            }
        }
        match map.next_entry::<IgnoredAny, IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(OVER)),
            None => Ok(found),
        }
    }
}

struct Items {
    bound: usize,
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while found.len() < self.bound {
            match seq.next_element::<&'de RawValue>()? {
                Some(value) => found.push(value.get()),
                None => return Ok(found),
            }
        }
        match seq.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(OVER)),
            None => Ok(found),
        }
    }
}
