//! A program as the planner sees it: calls on buffers, and how each buffer can be computed again.

/// The calls of a list and the private storages that they use.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    /// The instructions with operands, in their order.
    pub(super) steps: Vec<Work>,
    pub(super) buffers: Vec<Buffer>,
    /// The most bytes of each arena.
    pub(super) budgets: Vec<u64>,
}

/// An instruction with operands.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// Its time, in nanoseconds.
    pub(super) time: u64,
    /// The arena and the bytes of its workspace.
    pub(super) scratch: Option<(usize, u64)>,
    /// The buffers that it reads, each once.
    pub(super) reads: Vec<usize>,
    /// The buffers that it writes, each once; some may be among those that it reads.
    pub(super) writes: Vec<usize>,
}

/// A private storage.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    pub(super) arena: usize,
    /// Its bytes, as its arena counts them.
    pub(super) bytes: u64,
    /// The steps that use it.
    pub(super) uses: Vec<usize>,
    /// The calls that write it, in their order.
    pub(super) writers: Vec<Writer>,
}

/// A call that writes a buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer {
    pub(super) step: usize,
    /// The other buffers that it reads, each once.
    pub(super) inputs: Vec<usize>,
    /// The first of the writers that compute the buffer's content behind this one, in a row; none
    /// if they cannot be called again.
    pub(super) first: Option<usize>,
    /// The last step before which they can be, because later one of their inputs changes.
    pub(super) deadline: usize,
}

impl Program {
    /// Returns the buffers of a step, each once.
    pub(super) fn operands(&self, step: usize) -> impl Iterator<Item = usize> + '_ {
        let Work { reads, writes, .. } = &self.steps[step];
        reads.iter().chain(writes.iter().filter(|b| !reads.contains(b))).copied()
    }

    /// Returns the time of all calls, each made once.
    pub(super) fn time(&self) -> u64 {
        self.steps.iter().map(|step| step.time).sum()
    }
}

impl Buffer {
    /// Returns the writers that compute the buffer's content behind the first `written` ones; none
    /// if they cannot be called again.
    pub(super) fn recipe(&self, written: usize) -> Option<&[Writer]> {
        let last = self.writers[..written].last()?;
        Some(&self.writers[last.first?..written])
    }
}
