//! What a timeline does not say of order and memory, counted.

/// How much of what touches memory is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Kernels, copies, fills and launches of graphs: how many have no known tensors, of how many.
    pub work: [(usize, usize); 4],
    /// Work whose launch the file lacks.
    pub not_launched: usize,
    /// Launches whose work the file lacks.
    pub no_work: usize,
    /// Ops of the timeline that are no node of the execution trace.
    pub no_node: usize,
    /// Ops of the execution trace that are not in the timeline.
    pub no_op: usize,
    /// Whether the ops of the timeline may be other nodes than those that they were matched with.
    pub is_ambiguous: bool,
    /// Ops on memory of the host whose schema does not say what they write.
    pub effects: usize,
    /// Whether memory that several streams use may have been freed and used again.
    pub reuse: bool,
    /// Events that the reader had to skip.
    pub skipped: usize,
}

impl Unknown {
    /// Returns whether everything is known.
    pub(crate) fn is_nothing(&self) -> bool {
        let known = Unknown { work: self.work.map(|(_, all)| (0, all)), ..Unknown::default() };
        *self == known
    }

    /// Returns what is not known, in words: `2 of 31 kernels have no known tensors`.
    pub fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        let kinds = ["kernels", "copies", "fills", "graph launches"];
        for ((count, all), kind) in self.work.into_iter().zip(kinds).filter(|(work, _)| work.0 > 0)
        {
            let have = if count == 1 { "has" } else { "have" };
            parts.push(format!("{count} of {all} {kind} {have} no known tensors"));
        }
        let mut add = |count: usize, one: &str, more: &str| {
            if count > 0 {
                parts.push(format!("{count} {}", if count == 1 { one } else { more }));
            }
        };
        add(self.not_launched, "kernel or copy has no launch", "kernels or copies have no launch");
        add(self.no_work, "launch has no kernel or copy", "launches have no kernel or copy");
        add(self.no_node, "op has no node", "ops have no node");
        add(self.no_op, "node has no op in the timeline", "nodes have no op in the timeline");
        let one = "op does not say what it writes";
        add(self.effects, one, "ops do not say what they write");
        add(self.skipped, "event could not be read", "events could not be read");
        if self.is_ambiguous {
            parts.push("ops and nodes are matched by name, which is ambiguous".to_owned());
        }
        if self.reuse {
            parts.push("reuse of memory is not known".to_owned());
        }
        parts
    }
}
