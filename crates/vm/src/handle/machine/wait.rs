//! Waits of the host, and failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_runtime::engine::Engine;
use millstream_runtime::engine::ShutdownReport;
use millstream_runtime::scope::origin;
use millstream_runtime::scope::reentrancy;
use millstream_runtime::sync::Ordering;
use millstream_types::{Error, Failure, Origin, Point, Result};

use crate::handle::Completion;

use super::Machine;

impl Machine {
    /// Shuts down: refuses new work, completes submitted work, ends the threads. Instructions that
    /// do not complete within `timeout` are reported, and left behind with their threads and
    /// memory.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let report = machine.shutdown(std::time::Duration::from_secs(60));
    /// assert_eq!(report, ShutdownReport::default()); // nothing hangs
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn shutdown(self, timeout: Duration) -> ShutdownReport {
        self.shared.shutdown(timeout)
    }

    /// Blocks until all submitted instructions have completed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.add_(1.0)?; // returns at once
    /// machine.synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first failure since failures were last cleared; every time until they are.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.synchronize_at(None, origin::caller())
    }

    /// Blocks as [`Machine::synchronize`] does, for no longer than `timeout`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// machine.synchronize_for(std::time::Duration::from_secs(60))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Timeout`], or as [`Machine::synchronize`].
    #[track_caller]
    pub fn synchronize_for(&self, timeout: Duration) -> Result<()> {
        self.synchronize_at(Some(timeout), origin::caller())
    }

    pub(crate) fn synchronize_at(&self, timeout: Option<Duration>, origin: Origin) -> Result<()> {
        self.wait_for_submitted(timeout, origin)?;
        self.first_failure()
    }

    /// Blocks until all submitted instructions have completed, however they ended.
    pub(crate) fn wait_for_submitted(
        &self,
        timeout: Option<Duration>,
        origin: Origin,
    ) -> Result<()> {
        let at = |e: Error| e.at(&origin);
        reentrancy::check(self.shared.tables.machine, "waiting").map_err(at)?;
        let start = Instant::now();
        let nested = || self.shared.nested_pushes.load(Ordering::Acquire);
        let tails = loop {
            let pushed = nested();
            let tails = self.shared.lock().map_err(at)?.router.tails();
            let left = timeout.map(|all| all.saturating_sub(start.elapsed()));
            self.wait_for_all(&tails, left)?;
            // What functions have pushed meanwhile belongs to them.
            if nested() == pushed {
                break tails;
            }
        };
        let mut engine = self.shared.lock().map_err(at)?;
        let Engine { builder, router, .. } = &mut *engine;
        builder.observe(router, &tails, &origin);
        let poison = &self.shared.tables.poison;
        // Released storages leave no poison behind, unless another thread has submitted readers of
        // one meanwhile.
        if poison.any() && router.tails() == tails {
            let live: std::collections::HashSet<u64> =
                builder.live_tensors().filter_map(|t| Some(router.slot(t)?.storage)).collect();
            poison.retain(|storage| live.contains(&storage));
        }
        Ok(())
    }

    /// Returns a completion of all instructions submitted so far, to be awaited as a future or
    /// later.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?;
    /// machine.completion()?.wait()?; // everything submitted so far
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Asked from within the machine's own work, or an earlier emission panicked.
    #[track_caller]
    pub fn completion(&self) -> Result<Completion> {
        let origin = origin::caller();
        let at = |e: Error| e.at(&origin);
        reentrancy::check(self.shared.tables.machine, "waiting").map_err(at)?;
        let tails = self.shared.lock().map_err(at)?.router.tails();
        Ok(Completion::new(self.clone(), tails))
    }

    pub(crate) fn wait_for_all(&self, points: &[Point], timeout: Option<Duration>) -> Result<()> {
        let start = Instant::now();
        for &point in points {
            let left = timeout.map(|all| all.saturating_sub(start.elapsed()));
            self.shared.wait_point(point, left).map_err(|e| self.name_stream(e, point))?;
        }
        Ok(())
    }

    /// Replaces the stream's number in a time-out with its key.
    fn name_stream(&self, error: Error, point: Point) -> Error {
        match (error, self.shared.lock()) {
            (Error::Timeout { .. }, Ok(engine)) => {
                let key = engine.builder.streams().nth(point.stream.index());
                let key = key.map_or_else(String::new, |s| s.key.to_string());
                Error::Timeout { what: format!("number {} of {key}", point.seq) }
            }
            (other, _) => other,
        }
    }

    fn first_failure(&self) -> Result<()> {
        self.shared.tables.failures.first().map_or(Ok(()), |f| Err(Error::of(f)))
    }

    /// Returns free memory to the devices: the memory that the machine keeps for later tensors.
    /// Waits until its last uses have completed. Returns the number of bytes. OneFlow's
    /// `ShrinkAllMem`; PyTorch's `empty_cache`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// drop(x);
    /// assert!(machine.empty_cache()? > 0); // bytes
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Asked from within the machine's own work, or the machine has been shut down.
    #[track_caller]
    pub fn empty_cache(&self) -> Result<u64> {
        let origin = origin::caller();
        let at = |e: Error| e.at(&origin);
        reentrancy::check(self.shared.tables.machine, "waiting").map_err(at)?;
        self.shared.return_free_memory(&origin).map_err(at)
    }

    /// Returns the failures since they were last cleared: the first 64 in full, and the number of
    /// all. [`Machine::clear_failures`] empties the log.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let wrong = Tensor::from_slice(&[7i64], 1, &machine)?;
    /// let _row = x.index_select(&wrong, 0)?; // there is no row 7
    /// assert!(machine.synchronize().is_err());
    /// assert_eq!(machine.failures().1, 1);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn failures(&self) -> (Vec<Arc<Failure>>, u64) {
        self.shared.tables.failures.all()
    }

    /// Clears all failures so far: [`Machine::synchronize`] reports only later ones. Poisoned
    /// storages stay poisoned until they are overwritten or released.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let wrong = Tensor::from_slice(&[7i64], 1, &machine)?;
    /// x.index_select(&wrong, 0)?; // fails
    /// assert!(machine.synchronize().is_err());
    /// machine.clear_failures();
    /// machine.synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn clear_failures(&self) {
        self.shared.tables.failures.clear();
    }
}
