//! Chakra's traces as JSON, as its `jsonizer` writes them: the metadata, then the nodes, one object
//! after the other. Numbers of 64 bits are texts, and the names of fields have capitals; names with
//! underscores are read too.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::Value;

use super::messages::{Attribute, Node};

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

/// A node, or the metadata.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeForm {
    version: Option<String>,
    #[serde(deserialize_with = "whole")]
    id: Option<u64>,
    name: String,
    #[serde(rename = "type")]
    kind: Value,
    #[serde(alias = "ctrlDeps", deserialize_with = "all_whole")]
    ctrl_deps: Vec<u64>,
    #[serde(alias = "dataDeps", deserialize_with = "all_whole")]
    data_deps: Vec<u64>,
    #[serde(alias = "startTimeMicros", deserialize_with = "whole")]
    start_time_micros: Option<u64>,
    #[serde(alias = "durationMicros", deserialize_with = "whole")]
    duration_micros: Option<u64>,
    attr: Vec<serde_json::Map<String, Value>>,
}

impl NodeForm {
    /// Returns whether it is the metadata, which comes first.
    pub(super) fn is_metadata(&self) -> bool {
        self.version.is_some() || (self.name.is_empty() && self.kind.is_null())
    }

    /// Returns the node.
    pub(super) fn node(self) -> Result<Node, String> {
        let kind = match &self.kind {
            Value::String(name) => KINDS.iter().position(|kind| kind == name).ok_or_else(|| {
                format!("type '{name}' is not known: expected one of {}", KINDS.join(", "))
            })? as i32,
            Value::Number(number) => {
                number.as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0)
            }
            _ => 0,
        };
        Ok(Node {
            id: self.id.unwrap_or(0),
            name: self.name,
            kind,
            ctrl_deps: self.ctrl_deps,
            data_deps: self.data_deps,
            start_time_micros: self.start_time_micros.unwrap_or(0),
            duration_micros: self.duration_micros.unwrap_or(0),
            attr: self.attr.iter().map(attribute).collect(),
        })
    }
}

fn attribute(form: &serde_json::Map<String, Value>) -> Attribute {
    let name = form.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let value = form.iter().find(|(key, _)| key.ends_with("Val") || key.ends_with("_val"));
    let value = value.map(|(_, value)| value);
    Attribute {
        name,
        int64_val: value.and_then(|value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        }),
        bool_val: value.and_then(Value::as_bool),
        ..Attribute::default()
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

fn whole<'de, D: Deserializer<'de>>(json: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(json)?;
    let wrong = || de::Error::custom(format!("{value} is no whole number"));
    number(&value).map(Some).ok_or_else(wrong)
}

fn all_whole<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<u64>, D::Error> {
    let values = Vec::<Value>::deserialize(json)?;
    let one = |value: &Value| {
        number(value).ok_or_else(|| de::Error::custom(format!("{value} is no id of a node")))
    };
    values.iter().map(one).collect()
}
