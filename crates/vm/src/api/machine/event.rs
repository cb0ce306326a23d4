//! Events: created, or created and recorded.

use millstream_types::Result;

use crate::api::handle::{Event, Stream};
use crate::emission::origin;

use super::Machine;

impl Machine {
    /// Creates an event without a record. It costs nothing before its first record.
    pub fn event(&self) -> Event {
        Event::new(self.clone(), false)
    }

    /// Creates an event that notes when its records complete, for [`Event::elapsed_time`].
    pub fn timed_event(&self) -> Event {
        Event::new(self.clone(), true)
    }

    /// Records a new event on a stream, behind everything submitted to it.
    ///
    /// # Errors
    /// The stream is another machine's, or the machine has been shut down.
    #[track_caller]
    pub fn record(&self, stream: &Stream) -> Result<Event> {
        let event = self.event();
        event.record_at(stream, origin::caller())?;
        Ok(event)
    }
}
