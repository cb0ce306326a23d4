//! The raw form of an execution trace, in all variants of schemas 1.0.1 to 1.1.1.
//!
//! Source: PyTorch's `ExecutionTraceObserver`,
//! <https://github.com/pytorch/pytorch/blob/main/torch/csrc/profiler/standalone/execution_trace_observer.cpp>.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The whole file.
#[derive(Deserialize)]
pub(crate) struct FileForm<'a> {
    #[serde(borrow)]
    pub(crate) schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) nodes: Option<Vec<NodeForm<'a>>>,
}

/// A node. In 1.0.1 all fields are at the top level; later, inputs and outputs are objects and most
/// other fields are in `attrs`.
#[derive(Deserialize)]
pub(crate) struct NodeForm<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    /// The parent in 1.0.1.
    pub(crate) parent: Option<u64>,
    /// The parent since 1.0.2.
    pub(crate) ctrl_deps: Option<u64>,
    pub(crate) tid: Option<u64>,
    pub(crate) rf_id: Option<u64>,
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

/// A named attribute of a node.
#[derive(Deserialize)]
pub(crate) struct AttrForm<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) value: &'a RawValue,
}

/// The inputs or outputs of a node since 1.0.2.
#[derive(Deserialize)]
pub(crate) struct ValuesForm {
    pub(crate) values: Vec<serde_json::Value>,
    pub(crate) shapes: Vec<serde_json::Value>,
    pub(crate) types: Vec<String>,
    /// Present since 1.1.1.
    pub(crate) strides: Option<Vec<serde_json::Value>>,
}

/// The supported versions, without the suffixes of vendors.
pub(crate) const SCHEMAS: &[&str] = &["1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1"];

impl NodeForm<'_> {
    /// Returns an attribute.
    pub(crate) fn attr<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let attr = self.attrs.as_ref()?.iter().find(|a| a.name == name)?;
        serde_json::from_str(attr.value.get()).ok()
    }

    /// Returns the op's schema; empty for a label.
    pub(crate) fn schema(&self) -> Cow<'_, str> {
        match &self.op_schema {
            Some(schema) => Cow::Borrowed(schema),
            None => Cow::Owned(self.attr::<String>("op_schema").unwrap_or_default()),
        }
    }

    /// Returns the thread that ran the node.
    pub(crate) fn thread(&self) -> u64 {
        self.tid.or_else(|| self.attr("tid")).unwrap_or(0)
    }

    /// Returns the number that PyTorch's profiler calls "Record function id"; 0 if there is none.
    pub(crate) fn record_function(&self) -> u64 {
        self.rf_id.or_else(|| self.attr("rf_id")).unwrap_or(0)
    }

    /// Returns the node that called this one.
    pub(crate) fn caller(&self) -> Option<u64> {
        self.ctrl_deps.or(self.parent)
    }
}
