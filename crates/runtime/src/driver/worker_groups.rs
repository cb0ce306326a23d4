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

    /// Returns the worker for the `count`-th host stream; `start` starts one of that name.
    pub(super) fn host(
        &mut self,
        count: usize,
        start: impl FnOnce(&str) -> Result<usize>,
    ) -> Result<usize> {
        if self.host.len() < self.host_limit {
            let worker = start("host")?;
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
        mut start: impl FnMut(&str) -> Result<usize>,
    ) -> Result<usize> {
        while self.host.len() < self.host_limit.min(count.saturating_add(1)) {
            let started = start("host")?;
            self.host.push(started);
        }
        let at = self.host.iter().position(|host| *host == worker).unwrap_or_default();
        Ok(self.host[(at + count) % self.host.len()])
    }

    /// Returns the one worker of a group; `start` starts one of that name.
    pub(super) fn own(
        &mut self,
        group: WorkerGroup,
        start: impl FnOnce(&str) -> Result<usize>,
    ) -> Result<usize> {
        if let Some(&worker) = self.own.get(&group) {
            return Ok(worker);
        }
        let name = match &group {
            WorkerGroup::Host => "host".to_owned(),
            WorkerGroup::Device(device) => device.to_string(),
            WorkerGroup::Dedicated(ty) => ty.to_string(),
        };
        let worker = start(&name)?;
        self.own.insert(group, worker);
        Ok(worker)
    }
}
