//! The wait of measurements.

use millstream_runtime::scope::reentrancy;
use millstream_types::Result;

use super::Machine;

impl Machine {
    /// Blocks until all submitted instructions have completed, as [`Machine::synchronize`] does,
    /// but notes nothing: later instructions get the waits, lists and counts that they would have
    /// without this call. For clocks that end before results are read.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// x.relu()?;
    /// machine.settle()?; // the clock of a measurement ends here
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A wait cannot end, or it is made from within the machine's own work. Failures of
    /// instructions are no errors of this wait.
    pub fn settle(&self) -> Result<()> {
        reentrancy::check(self.shared.tables.machine, "waiting")?;
        let tails = self.shared.lock()?.router.tails();
        self.wait_for_all(&tails, None)
    }
}
