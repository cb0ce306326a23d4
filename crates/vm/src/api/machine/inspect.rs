//! What a machine has done and has: counts, memory, threads.

use std::sync::Arc;

use millstream_instructions::Protection;
use millstream_instructions::builder::Stats;
use millstream_instructions::planner::ArenaUse;
use millstream_stream_policy::PolicyTable;
use millstream_types::overdue::StreamProgress;
use millstream_types::{Result, StreamKey};

use crate::driver::Schedule;

use super::Machine;

impl Machine {
    /// Counts of what was emitted.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stats(&self) -> Result<Stats> {
        Ok(self.shared.lock()?.builder.stats().clone())
    }

    /// How much memory of each device is used, by whom, and how it was found.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn memory(&self) -> Result<Vec<ArenaUse>> {
        Ok(self.shared.lock()?.builder.memory())
    }

    /// The keys of all streams that were asked for, by id.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stream_keys(&self) -> Result<Vec<StreamKey>> {
        Ok(self.shared.lock()?.builder.streams().map(|s| s.key.clone()).collect())
    }

    /// The keys of the streams that were given anything.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn streams_used(&self) -> Result<Vec<StreamKey>> {
        let emission = self.shared.lock()?;
        let used = emission.router.tails();
        let keys = emission.builder.streams().enumerate();
        let is_used = |k: usize| used.iter().any(|p| p.stream.index() == k);
        Ok(keys.filter(|(k, _)| is_used(*k)).map(|(_, s)| s.key.clone()).collect())
    }

    /// How far each stream has come, of those that were given anything.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn progress(&self) -> Result<Vec<StreamProgress>> {
        let loads = self.stream_loads()?;
        let ids: Vec<_> = self.shared.lock()?.router.tails().iter().map(|p| p.stream).collect();
        let of = |(id, (key, given)): (_, (StreamKey, u64))| {
            let state = self.shared.tables.points.stream(id);
            let completed = state.completed();
            let launched = state.launched().max(completed);
            StreamProgress { stream: key.to_string(), given, launched, completed }
        };
        Ok(ids.into_iter().zip(loads).map(of).collect())
    }

    /// How many instructions each stream was given, of those that were given any.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stream_loads(&self) -> Result<Vec<(StreamKey, u64)>> {
        let emission = self.shared.lock()?;
        let keys: Vec<&StreamKey> = emission.builder.streams().map(|s| &s.key).collect();
        let tails = emission.router.tails();
        Ok(tails.iter().map(|p| (keys[p.stream.index()].clone(), p.seq)).collect())
    }

    /// How many worker threads have been started, host workers and kernels' threads apart.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn worker_threads(&self) -> Result<usize> {
        Ok(self.shared.lock()?.router.driver.threads())
    }

    /// What the simulated driver has done so far; none if another one runs the machine.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn schedule(&self) -> Result<Option<Schedule>> {
        let mut emission = self.shared.lock()?;
        Ok(emission.router.driver.simulated_mut().map(|simulated| simulated.schedule()))
    }

    /// What the machine sees to by itself.
    pub fn protection(&self) -> Protection {
        self.shared.protection
    }

    /// How many threads for host functions and for kernels have been started.
    pub fn helper_threads(&self) -> (usize, usize) {
        let tables = &self.shared.tables;
        (tables.host_workers.threads(), tables.threads.started())
    }

    /// How many host callbacks have not been run or dropped.
    pub fn pending_callbacks(&self) -> usize {
        self.shared.tables.host.callbacks()
    }

    /// The policies, and through them the devices that were opened.
    pub fn policies(&self) -> &Arc<PolicyTable> {
        &self.shared.tables.policies
    }
}
