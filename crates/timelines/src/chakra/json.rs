//! Chakra's traces as JSON, as its `jsonizer` writes them: the metadata, then the nodes, one object
//! after the other. Numbers of 64 bits are texts, and the names of fields have capitals; names with
//! underscores are read too.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::Value;

use super::messages::Attribute;

/// The kinds of nodes, by number.
const KINDS: [&str; 8] = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
];

/// Reads the kind of a node: its name, or its number.
pub(super) fn kind<'de, D: Deserializer<'de>>(json: D) -> Result<i32, D::Error> {
    match Value::deserialize(json)? {
        Value::String(name) => KINDS.iter().zip(0..).find(|(kind, _)| **kind == name).map_or_else(
            || {
                let known = KINDS.join(", ");
                let message = format!("type '{name}' is not known: expected one of {known}");
                Err(de::Error::custom(message))
            },
            |(_, kind)| Ok(kind),
        ),
        other => Ok(other.as_i64().and_then(|number| number.try_into().ok()).unwrap_or(0)),
    }
}

/// Reads attributes, each with the value of whatever kind.
pub(super) fn attributes<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<Attribute>, D::Error> {
    let all = Vec::<serde_json::Map<String, Value>>::deserialize(json)?;
    let attribute = |form: serde_json::Map<String, Value>| {
        let name = form.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let value = form.iter().find(|(key, _)| key.ends_with("Val") || key.ends_with("_val"));
        let value = value.map(|(_, value)| value);
        let int64_val = value.and_then(|value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        });
        let bool_val = value.and_then(Value::as_bool);
        Attribute { name, int64_val, bool_val, ..Attribute::default() }
    };
    Ok(all.into_iter().map(attribute).collect())
}

fn number<E: de::Error>(value: &Value, what: &str) -> Result<u64, E> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    number.ok_or_else(|| E::custom(format!("{value} is no {what}")))
}

/// Reads a whole number.
pub(super) fn whole<'de, D: Deserializer<'de>>(json: D) -> Result<u64, D::Error> {
    number(&Value::deserialize(json)?, "whole number")
}

/// Reads ids of nodes.
pub(super) fn all_whole<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<u64>, D::Error> {
    let values = Vec::<Value>::deserialize(json)?;
    values.iter().map(|value| number(value, "id of a node")).collect()
}
