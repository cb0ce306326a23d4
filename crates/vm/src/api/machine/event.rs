//! Events: made, and recorded at once.

use millstream_types::{Origin, Result};

use crate::api::handle::{Event, Stream};

use super::Machine;

impl Machine {
    /// An event that has not been recorded. It costs nothing before its first record.
    pub fn event(&self) -> Event {
        Event::new(self.clone(), false)
    }

    /// An event that notes when its records complete, for [`Event::elapsed_time`].
    pub fn timed_event(&self) -> Event {
        Event::new(self.clone(), true)
    }

    /// Records a new event on a stream, behind all that it was given.
    ///
    /// # Errors
    /// The stream is another machine's, or the machine has been shut down.
    #[track_caller]
    pub fn record(&self, stream: &Stream) -> Result<Event> {
        self.record_from(stream, Origin::caller())
    }

    /// As [`Machine::record`], asked for at `origin`.
    ///
    /// # Errors
    /// As [`Machine::record`].
    pub fn record_from(&self, stream: &Stream, origin: Origin) -> Result<Event> {
        let event = self.event();
        event.record_from(stream, origin)?;
        Ok(event)
    }
}
