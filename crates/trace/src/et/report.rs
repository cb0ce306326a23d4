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
        let outputs = match &self.not_compared[..] {
            [] => "no output depends on them".to_owned(),
            names => format!("NOT COMPARED, since they depend on them: {}", names.join(", ")),
        };
        let of = format!("of {} skipped, though they compute", self.ops);
        let drawn = format!("of random numbers that are not PyTorch's; {outputs}");
        // The count, what precedes it, and what it is of.
        let all: [(usize, &str, &str, &str); 6] = [
            (self.missing_scalars, "", "number", "that the trace lost: substituted"),
            (self.skipped.len(), "", "node", &of),
            (self.random_inputs, "RANDOM ELEMENTS in ", "tensor", ": no output was compared"),
            (self.made_up, "", "tensor", "with unknown elements: synthesized, or zero"),
            (self.drawn, "", "draw", &drawn),
            (self.relaid, "", "result", "copied to get the recorded strides"),
        ];
        let found = all.into_iter().filter(|(count, ..)| *count > 0);
        let line = |(count, before, of, rest): (usize, &str, &str, &str)| {
            let plural = if count == 1 { "" } else { "s" };
            let space = if rest.starts_with(':') { "" } else { " " };
            format!("{before}{count} {of}{plural}{space}{rest}")
        };
        found.map(line).collect()
    }

    /// Returns the number of executed nodes.
    pub fn executed(&self) -> usize {
        self.ops - self.skipped.len()
    }
}
