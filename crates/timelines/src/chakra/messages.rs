//! The messages of Chakra's execution traces that a profile needs, with their field numbers.
//!
//! Source: `schema/protobuf/et_def.proto` of <https://github.com/mlcommons/chakra>.

use prost::Message;
use serde::Deserialize;

use super::json;

#[derive(Clone, PartialEq, Message)]
pub(super) struct GlobalMetadata {
    #[prost(string, tag = "1")]
    pub(super) version: String,
}

/// A node. In JSON, the names of fields have capitals or underscores.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    #[prost(uint64, tag = "1")]
    #[serde(deserialize_with = "json::whole")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    #[serde(rename = "type", deserialize_with = "json::kind")]
    pub(super) kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    #[serde(alias = "ctrlDeps", deserialize_with = "json::all_whole")]
    pub(super) ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    #[serde(alias = "dataDeps", deserialize_with = "json::all_whole")]
    pub(super) data_deps: Vec<u64>,
    #[prost(uint64, tag = "6")]
    #[serde(alias = "startTimeMicros", deserialize_with = "json::whole")]
    pub(super) start_time_micros: u64,
    #[prost(uint64, tag = "7")]
    #[serde(alias = "durationMicros", deserialize_with = "json::whole")]
    pub(super) duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    #[serde(deserialize_with = "json::attributes")]
    pub(super) attr: Vec<Attribute>,
}

/// An attribute: of the kinds of values, those that whole numbers have.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, optional, tag = "7")]
    pub(super) int32_val: Option<i32>,
    #[prost(int64, optional, tag = "9")]
    pub(super) int64_val: Option<i64>,
    #[prost(uint32, optional, tag = "11")]
    pub(super) uint32_val: Option<u32>,
    #[prost(uint64, optional, tag = "13")]
    pub(super) uint64_val: Option<u64>,
    #[prost(bool, optional, tag = "27")]
    pub(super) bool_val: Option<bool>,
}

impl Node {
    /// Returns whether the first object of a JSON text is the metadata, which has attributes alone.
    pub(super) fn is_metadata(&self) -> bool {
        self.name.is_empty() && self.kind == 0
    }
}

impl Attribute {
    /// Returns the value as a whole number.
    pub(super) fn whole(&self) -> Option<i64> {
        let wide = self.int64_val.or(self.uint64_val.and_then(|value| i64::try_from(value).ok()));
        let narrow = self.int32_val.map(i64::from).or(self.uint32_val.map(i64::from));
        wide.or(narrow).or(self.bool_val.map(i64::from))
    }
}
