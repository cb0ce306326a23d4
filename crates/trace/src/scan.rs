//! Splits a list or an object into slices of the text, up to a bound.

use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Returns the keys and values of an object, or the elements of a list with empty keys: at most one
/// more than the bound, so that the rest of a huge file is not kept.
pub(crate) fn parts(raw: &str, bound: usize) -> serde_json::Result<Vec<(&str, &str)>> {
    let mut parts = Parts { bound, found: Vec::new() };
    let mut json = serde_json::Deserializer::from_str(raw);
    json.deserialize_any(&mut parts)?;
    json.end().map(|()| parts.found)
}

struct Parts<'de> {
    bound: usize,
    found: Vec<(&'de str, &'de str)>,
}

impl<'de> Parts<'de> {
    fn add(&mut self, key: &'de str, value: &'de RawValue) {
        if self.found.len() <= self.bound {
            self.found.push((key, value.get()));
        }
    }
}

impl<'de> Visitor<'de> for &mut Parts<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            self.add(key.get(), value);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(value) = seq.next_element()? {
            self.add("", value);
        }
        Ok(())
    }
}
