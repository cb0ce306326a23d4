//! New events.

use crate::handle::Event;

use super::Machine;

impl Machine {
    /// Creates an event without a record. It costs nothing before its first record.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let event = machine.event();
    /// event.record()?;
    /// event.synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn event(&self) -> Event {
        Event::new(self.clone(), false)
    }

    /// Creates an event that notes when its records complete, for [`Event::elapsed_time`].
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let (start, end) = (machine.timed_event(), machine.timed_event());
    /// start.record()?;
    /// x.matmul(&x)?;
    /// end.record()?;
    /// end.synchronize()?;
    /// println!("{} ms", start.elapsed_time(&end)?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn timed_event(&self) -> Event {
        Event::new(self.clone(), true)
    }
}
