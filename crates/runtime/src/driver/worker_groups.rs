//! The assignment of streams to workers.

use std::collections::HashMap;

use millstream_stream_policy::WorkerGroup;
use millstream_types::Result;

/// The workers by group. Each is started for its first stream.
pub(super) struct WorkerGroups {
    /// The workers of host streams.
    host: Vec<usize>,
    host_limit: usize,
    own: HashMap<WorkerGroup, usize>,
}

impl WorkerGroups {
    pub(super) fn new(host_workers: usize) -> WorkerGroups {
        WorkerGroups { host: Vec::new(), host_limit: host_workers.max(1), own: HashMap::new() }
    }

    /// Returns the worker for the `count`-th host stream; `start` starts one of the group.
    pub(super) fn host(
        &mut self,
        count: usize,
        start: impl FnOnce(WorkerGroup) -> Result<usize>,
    ) -> Result<usize> {
        if self.host.len() < self.host_limit {
            let worker = start(WorkerGroup::Host)?;
            self.host.push(worker);
            return Ok(worker);
        }
        Ok(self.host[count % self.host_limit])
    }

    /// Returns the host worker that comes `count` after `worker`, in a circle, or after the first
    /// if that is none of the host's; `start` starts the missing ones.
    pub(super) fn host_after(
        &mut self,
        worker: usize,
        count: usize,
        mut start: impl FnMut(WorkerGroup) -> Result<usize>,
    ) -> Result<usize> {
        while self.host.len() < self.host_limit.min(count.saturating_add(1)) {
            let started = start(WorkerGroup::Host)?;
            self.host.push(started);
        }
        let at = self.host.iter().position(|host| *host == worker).unwrap_or_default();
        Ok(self.host[(at + count) % self.host.len()])
    }

    /// Returns the one worker of a group; `start` starts it.
    pub(super) fn own(
        &mut self,
        group: WorkerGroup,
        start: impl FnOnce(WorkerGroup) -> Result<usize>,
    ) -> Result<usize> {
        if let Some(&worker) = self.own.get(&group) {
            return Ok(worker);
        }
        let worker = start(group.clone())?;
        self.own.insert(group, worker);
        Ok(worker)
    }
}
