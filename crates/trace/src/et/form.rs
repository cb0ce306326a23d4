//! The file as PyTorch writes it, in all spellings of schemas 1.0.1 to 1.1.1.
//!
//! Source: PyTorch's `ExecutionTraceObserver`,
//! <https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/standalone/execution_trace_observer.cpp>.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The whole file.
#[derive(Deserialize)]
pub(crate) struct FileForm<'a> {
    #[serde(borrow)]
    pub(crate) schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) nodes: Option<Vec<NodeForm<'a>>>,
}

/// A node. Up to 1.0.1 all stands at its top; later, values are in objects and most else in
/// `attrs`.
#[derive(Deserialize)]
pub(crate) struct NodeForm<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    /// The parent up to 1.0.1.
    pub(crate) parent: Option<u64>,
    /// The parent from 1.0.2 on.
    pub(crate) ctrl_deps: Option<u64>,
    pub(crate) tid: Option<u64>,
    #[serde(borrow)]
    pub(crate) op_schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) inputs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) input_shapes: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) input_types: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) outputs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) output_shapes: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) output_types: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) attrs: Option<Vec<AttrForm<'a>>>,
}

/// A named property of a node.
#[derive(Deserialize)]
pub(crate) struct AttrForm<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) value: &'a RawValue,
}

/// The inputs or outputs of a node from 1.0.2 on.
#[derive(Deserialize)]
pub(crate) struct ValuesForm {
    pub(crate) values: Vec<serde_json::Value>,
    pub(crate) shapes: Vec<serde_json::Value>,
    pub(crate) types: Vec<String>,
    /// From 1.1.1 on.
    pub(crate) strides: Option<Vec<serde_json::Value>>,
}

/// The versions that are read, without what a vendor appends to them.
pub(crate) const SCHEMAS: &[&str] = &["1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1"];

impl NodeForm<'_> {
    /// A property that is a text.
    fn attr_text(&self, name: &str) -> Option<String> {
        let attr = self.attrs.as_ref()?.iter().find(|a| a.name == name)?;
        serde_json::from_str(attr.value.get()).ok()
    }

    /// The op's schema; empty for a label.
    pub(crate) fn schema(&self) -> Cow<'_, str> {
        match &self.op_schema {
            Some(schema) => Cow::Borrowed(schema),
            None => Cow::Owned(self.attr_text("op_schema").unwrap_or_default()),
        }
    }

    /// The thread that ran it.
    pub(crate) fn thread(&self) -> u64 {
        let attr = || {
            let attr = self.attrs.as_ref()?.iter().find(|a| a.name == "tid")?;
            serde_json::from_str(attr.value.get()).ok()
        };
        self.tid.or_else(attr).unwrap_or(0)
    }

    /// The node that called it.
    pub(crate) fn caller(&self) -> Option<u64> {
        self.ctrl_deps.or(self.parent)
    }
}
