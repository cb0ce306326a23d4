//! New events.

use crate::api::handle::Event;

use super::Machine;

impl Machine {
    /// Creates an event without a record. It costs nothing before its first record.
    pub fn event(&self) -> Event {
        Event::new(self.of_handle(), false)
    }

    /// Creates an event that notes when its records complete, for [`Event::elapsed_time`].
    pub fn timed_event(&self) -> Event {
        Event::new(self.of_handle(), true)
    }
}
