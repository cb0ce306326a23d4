//! What became of a trace's nodes.

use std::collections::BTreeMap;

/// What an import found and what it made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The version of the format, as the file says it.
    pub schema: String,
    /// All nodes of the file, labels and what ops call included.
    pub nodes: usize,
    /// The nodes that compute: those that are executed and those that are skipped.
    pub ops: usize,
    /// Bytes of the tensors that those nodes take and give.
    pub bytes: u64,
    /// Of those, bytes of the nodes that are skipped.
    pub bytes_skipped: u64,
    /// The nodes that are not executed.
    pub skipped: Vec<Skipped>,
    /// How many nodes are executed, by the name that the trace has for the op.
    pub executed: BTreeMap<String, usize>,
    /// Numbers that the trace lost, and for which a stand-in was taken.
    pub missing_scalars: usize,
    /// Tensors whose elements are not known: made up, or zero until something writes them.
    pub made_up: usize,
    /// Results that had to be copied because the trace has them lie otherwise than our op does.
    pub relaid: usize,
}

/// A node that is not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its id.
    pub node: u64,
    /// The op, as the trace names it.
    pub op: String,
    /// Why.
    pub reason: String,
}

impl Imported {
    /// What a reader of results has to know: all that did not come from the trace and the files
    /// beside it. Nothing for a trace that was whole.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let many = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        if self.missing_scalars > 0 {
            let count = many(self.missing_scalars, "number", "numbers");
            remarks.push(format!("{count} that the trace lost: a stand-in was taken"));
        }
        if !self.skipped.is_empty() {
            let count = many(self.skipped.len(), "node", "nodes");
            remarks.push(format!("{count} of {} left out, which compute something", self.ops));
        }
        if self.made_up > 0 {
            let count = many(self.made_up, "tensor", "tensors");
            remarks.push(format!("{count} without known elements: made up, or zero"));
        }
        if self.relaid > 0 {
            let count = many(self.relaid, "result", "results");
            remarks.push(format!("{count} copied, to lie in memory as recorded"));
        }
        remarks
    }

    /// How many nodes are executed.
    pub fn executed(&self) -> usize {
        self.ops - self.skipped.len()
    }
}
