//! Statistics of a machine: counts, memory, threads.

use std::sync::Arc;

use millstream_comm::Communicator;
use millstream_instructions::Protection;
use millstream_instructions::builder::{InferenceStats, Stats};
use millstream_instructions::planner::ArenaUse;
use millstream_stream_policy::PolicyTable;
use millstream_types::overdue::StreamProgress;
use millstream_types::{DeviceId, Error, Result, StreamKey};

use crate::driver::Schedule;

use super::Machine;

impl Machine {
    /// Returns counts of the emitted instructions.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stats(&self) -> Result<Stats> {
        Ok(self.lock()?.builder.stats().clone())
    }

    /// Returns how many calls were emitted without asking their schema, because an equal call had
    /// asked it before, and how many were not.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn inference_stats(&self) -> Result<InferenceStats> {
        Ok(self.lock()?.builder.inference_stats())
    }

    /// Returns the use of each device's memory: how much, by which tensors, and how it was found.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn memory(&self) -> Result<Vec<ArenaUse>> {
        Ok(self.lock()?.builder.memory())
    }

    /// Returns the error with which a device was lost, once a worker has found it; none for a
    /// device that was not opened. Neither blocks nor asks the device, so a program can look before
    /// it waits.
    ///
    /// ```
    /// use millstream_types::DeviceId;
    /// use millstream_vm::{Machine, MachineConfig};
    ///
    /// # fn main() -> millstream_types::Result<()> {
    /// let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(machine.async_error(&DeviceId::cpu(0))?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such device.
    pub fn async_error(&self, device: &DeviceId) -> Result<Option<Error>> {
        let devices = self.policies().devices();
        devices.probe(device)?;
        let opened = devices.opened().into_iter().find(|opened| opened.id() == device);
        Ok(opened.and_then(|opened| opened.async_error()))
    }

    /// Returns the keys of all requested streams, by id.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stream_keys(&self) -> Result<Vec<StreamKey>> {
        Ok(self.lock()?.builder.streams().map(|s| s.key.clone()).collect())
    }

    /// Returns the keys of the streams with instructions.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn streams_used(&self) -> Result<Vec<StreamKey>> {
        let emission = self.lock()?;
        let used = emission.router.tails();
        let keys = emission.builder.streams().enumerate();
        let is_used = |k: usize| used.iter().any(|p| p.stream.index() == k);
        Ok(keys.filter(|(k, _)| is_used(*k)).map(|(_, s)| s.key.clone()).collect())
    }

    /// Returns the progress of each stream with instructions.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn progress(&self) -> Result<Vec<StreamProgress>> {
        let loads = self.stream_loads()?;
        let ids: Vec<_> = self.lock()?.router.tails().iter().map(|p| p.stream).collect();
        let of = |(id, (key, given)): (_, (StreamKey, u64))| {
            let state = self.shared.tables.points.stream(id);
            let completed = state.completed();
            let launched = state.launched().max(completed);
            StreamProgress { stream: key.to_string(), submitted: given, launched, completed }
        };
        Ok(ids.into_iter().zip(loads).map(of).collect())
    }

    /// Returns how many instructions each stream was given, for streams with any.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stream_loads(&self) -> Result<Vec<(StreamKey, u64)>> {
        let emission = self.lock()?;
        let keys: Vec<&StreamKey> = emission.builder.streams().map(|s| &s.key).collect();
        let tails = emission.router.tails();
        Ok(tails.iter().map(|p| (keys[p.stream.index()].clone(), p.seq)).collect())
    }

    /// Returns how often the critical section was entered before this call.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn emission_entries(&self) -> Result<u64> {
        Ok(self.lock()?.entries - 1)
    }

    /// Returns how many worker threads have been started, without the threads of host functions and
    /// kernels.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn worker_threads(&self) -> Result<usize> {
        Ok(self.lock()?.router.driver.threads())
    }

    /// Returns the steps of the simulated driver so far; none with another driver.
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn schedule(&self) -> Result<Option<Schedule>> {
        let mut emission = self.lock()?;
        Ok(emission.router.driver.simulated_mut().map(|simulated| simulated.schedule()))
    }

    /// Returns the hazards that the machine prevents by itself.
    pub fn protection(&self) -> Protection {
        self.shared.protection
    }

    /// Returns how many threads for host functions and for kernels have been started.
    pub fn helper_threads(&self) -> (usize, usize) {
        let tables = &self.shared.tables;
        (tables.host_workers.threads(), tables.threads.started())
    }

    /// Returns how many host callbacks have not been run or dropped.
    pub fn pending_callbacks(&self) -> usize {
        self.shared.tables.host.callbacks()
    }

    /// Returns the policies, and through them the opened devices.
    pub fn policies(&self) -> &Arc<PolicyTable> {
        &self.shared.tables.policies
    }

    /// Returns the connection to the program's other ranks.
    pub fn communicator(&self) -> &Arc<dyn Communicator> {
        &self.shared.tables.communicator
    }
}
