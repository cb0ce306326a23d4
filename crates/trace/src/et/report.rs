//! The report of an import.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

/// The report of an import: the nodes of the trace, executed and skipped, and the synthesized data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// The version of the format, as written in the file.
    pub schema: String,
    /// The number of all nodes of the file, including labels and nodes below executed ops.
    pub nodes: usize,
    /// The number of nodes that compute: the executed and the skipped ones.
    pub ops: usize,
    /// The number of bytes of the inputs and outputs of these nodes.
    pub bytes: u64,
    /// The number of bytes of the inputs and outputs of the skipped nodes.
    pub bytes_skipped: u64,
    /// The nodes that are not executed.
    pub skipped: Vec<Skipped>,
    /// The number of executed nodes of each op, by PyTorch's name of the op.
    pub executed: BTreeMap<String, usize>,
    /// The number of lost numbers that were substituted.
    pub missing_scalars: usize,
    /// The number of tensors with unknown elements: synthesized, or zero until an op writes them.
    pub made_up: usize,
    /// The number of tensors whose elements are random, because no file holds them. If there are
    /// any, no output is compared.
    pub random_inputs: usize,
    /// The number of results that are copied because the recorded strides differ from those of
    /// Millstream's op.
    pub relaid: usize,
    /// The number of draws of own random numbers, by `--random` or for the structure.
    pub drawn: usize,
    /// The outputs with expected elements that depend on own random numbers.
    pub not_compared: Vec<String>,
    /// The labels of the program, with the nodes below them: PyTorch's `record_function`.
    pub labels: Vec<Label>,
    /// The module and the line of the program for each node, if the recorder noted them.
    pub places: BTreeMap<u64, Arc<str>>,
    /// The time that PyTorch took, if the recorder measured it.
    pub eager: Option<Eager>,
}

/// The time of a recorded program's calls by PyTorch, outside the recording.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Eager {
    /// The median of some calls.
    pub seconds: f64,
    /// The processor or the CUDA device; empty if it is not known.
    #[serde(default)]
    pub on: String,
}

/// A label, and the nodes that ran within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: String,
    /// The id of its own node, which comes before those below it.
    pub first: u64,
    /// The highest id of a node below it.
    pub last: u64,
}

/// A node that is not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The node's id.
    pub node: u64,
    /// The op, by PyTorch's name.
    pub op: String,
    /// The reason.
    pub reason: String,
}

impl Imported {
    /// Returns one message for each kind of data that came neither from the trace nor from its
    /// sidecar notes. A complete trace has none.
    pub fn diagnostics(&self) -> Vec<String> {
        let mut diagnostics = Vec::new();
        let many = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        if self.missing_scalars > 0 {
            let count = many(self.missing_scalars, "number", "numbers");
            diagnostics.push(format!("{count} that the trace lost: substituted"));
        }
        if !self.skipped.is_empty() {
            let count = many(self.skipped.len(), "node", "nodes");
            diagnostics.push(format!("{count} of {} skipped, though they compute", self.ops));
        }
        if self.random_inputs > 0 {
            let count = many(self.random_inputs, "tensor", "tensors");
            diagnostics.push(format!("RANDOM ELEMENTS in {count}: no output was compared"));
        }
        if self.made_up > 0 {
            let count = many(self.made_up, "tensor", "tensors");
            diagnostics.push(format!("{count} with unknown elements: synthesized, or zero"));
        }
        if self.drawn > 0 {
            let count = many(self.drawn, "draw", "draws");
            let outputs = match &self.not_compared[..] {
                [] => "no output depends on them".to_owned(),
                names => format!("NOT COMPARED, since they depend on them: {}", names.join(", ")),
            };
            diagnostics
                .push(format!("{count} of random numbers that are not PyTorch's; {outputs}"));
        }
        if self.relaid > 0 {
            let count = many(self.relaid, "result", "results");
            diagnostics.push(format!("{count} copied to get the recorded strides"));
        }
        diagnostics
    }

    /// Returns the number of executed nodes.
    pub fn executed(&self) -> usize {
        self.ops - self.skipped.len()
    }
}
