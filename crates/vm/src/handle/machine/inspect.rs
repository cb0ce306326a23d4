//! Statistics of a machine: counts, memory, threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_comm::Communicator;
use millstream_instructions::Protection;
use millstream_instructions::builder::{InferenceStats, Stats};
use millstream_instructions::planner::ArenaUse;
use millstream_runtime::driver::Schedule;
use millstream_stream_policy::PolicyTable;
use millstream_types::overdue::StreamProgress;
use millstream_types::{DeviceId, Error, Result, StreamKey};

use super::Machine;

impl Machine {
    /// Returns counts of the emitted instructions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?;
    /// println!("{:?}", machine.stats()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stats(&self) -> Result<Stats> {
        Ok(self.shared.lock()?.builder.stats().clone())
    }

    /// Returns how many calls were emitted without asking their schema, because an equal call had
    /// asked it before, and how many were not.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?;
    /// x.relu()?; // not inferred again
    /// println!("{:?}", machine.inference_stats()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn inference_stats(&self) -> Result<InferenceStats> {
        Ok(self.shared.lock()?.builder.inference_stats())
    }

    /// Returns the counts of [`Machine::inference_stats`] for each op that was called, by name.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?;
    /// x.relu()?;
    /// let relu = machine.inference_stats_of_ops()?["relu"];
    /// assert_eq!(relu.hits, 1); // the second call
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn inference_stats_of_ops(&self) -> Result<BTreeMap<String, InferenceStats>> {
        Ok(self.shared.lock()?.builder.inference_stats_of_ops())
    }

    /// Returns the use of each device's memory: how much, by which tensors, and how it was found.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let memory = machine.memory()?;
    /// assert!(memory[0].to_string().starts_with("cpu:0: "));
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn memory(&self) -> Result<Vec<ArenaUse>> {
        Ok(self.shared.lock()?.builder.memory())
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// assert_eq!(machine.stream_keys()?[0].to_string(), "cpu:0 compute 0");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stream_keys(&self) -> Result<Vec<StreamKey>> {
        Ok(self.shared.lock()?.builder.streams().map(|s| s.key.clone()).collect())
    }

    /// Returns the keys of the streams with instructions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(machine.streams_used()?[0].to_string(), "cpu:0 compute 0");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn streams_used(&self) -> Result<Vec<StreamKey>> {
        let engine = self.shared.lock()?;
        let used = engine.router.tails();
        let keys = engine.builder.streams().enumerate();
        let is_used = |k: usize| used.iter().any(|p| p.stream.index() == k);
        Ok(keys.filter(|(k, _)| is_used(*k)).map(|(_, s)| s.key.clone()).collect())
    }

    /// Returns the progress of each stream with instructions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.synchronize()?;
    /// println!("{:?}", machine.progress()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
            StreamProgress { stream: key.to_string(), submitted: given, launched, completed }
        };
        Ok(ids.into_iter().zip(loads).map(of).collect())
    }

    /// Returns how many instructions each stream was given, for streams with any.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?;
    /// println!("{:?}", machine.stream_loads()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn stream_loads(&self) -> Result<Vec<(StreamKey, u64)>> {
        let engine = self.shared.lock()?;
        let keys: Vec<&StreamKey> = engine.builder.streams().map(|s| &s.key).collect();
        let tails = engine.router.tails();
        Ok(tails.iter().map(|p| (keys[p.stream.index()].clone(), p.seq)).collect())
    }

    /// Returns how often the critical section was entered before this call.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let before = machine.emission_entries()?;
    /// x.relu()?;
    /// assert!(machine.emission_entries()? > before);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn emission_entries(&self) -> Result<u64> {
        Ok(self.shared.lock()?.entries - 1)
    }

    /// Returns how many worker threads have been started, without the threads of host functions and
    /// kernels.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(machine.worker_threads()?, 0); // none before the first call
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn worker_threads(&self) -> Result<usize> {
        Ok(self.shared.lock()?.router.driver.threads())
    }

    /// Returns the steps of the simulated driver so far; none with another driver.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert!(machine.schedule()?.is_none()); // the machine is not simulated
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An earlier emission panicked.
    pub fn schedule(&self) -> Result<Option<Schedule>> {
        let mut engine = self.shared.lock()?;
        Ok(engine.router.driver.simulated_mut().map(|simulated| simulated.schedule()))
    }

    /// Returns the hazards that the machine prevents by itself.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert!(machine.protection().waits());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn protection(&self) -> Protection {
        self.shared.protection
    }

    /// Returns how many threads for host functions and for kernels have been started.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(machine.helper_threads(), (0, 0)); // none before they are needed
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn helper_threads(&self) -> (usize, usize) {
        let tables = &self.shared.tables;
        (tables.host_workers.threads(), tables.threads.started())
    }

    /// Returns how many host callbacks have not been run or dropped.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::Access;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.access(Access::Read, |_| Ok(()))?.wait()?;
    /// assert_eq!(machine.pending_callbacks(), 0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn pending_callbacks(&self) -> usize {
        self.shared.tables.host.callbacks()
    }

    /// Returns the policies, and through them the opened devices.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DeviceId, StreamKey, StreamType};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let key = StreamKey::compute(DeviceId::cpu(0), 0);
    /// assert_eq!(machine.policies().query(&key, |p| p.stream_type())?, StreamType::COMPUTE);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn policies(&self) -> &Arc<PolicyTable> {
        &self.shared.tables.policies
    }

    /// Returns the connection to the program's other ranks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// assert_eq!(machine.communicator().ranks(), 1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn communicator(&self) -> &Arc<dyn Communicator> {
        &self.shared.tables.communicator
    }
}
