//! The markers of a stream: a few events that show how far it has progressed.
//!
//! # Rules
//! 1. A poll records a marker after all commands submitted so far, if the newest marker does not
//!    cover them and fewer than [`MAX_OUTSTANDING`] markers are outstanding.
//! 2. A stream runs in order, so a completed marker means that every command before it has
//!    completed.
//! 3. A marker that the driver refuses is recorded by the next poll instead. The stream is not
//!    lost: a lost stream's memory would be freed while the stream still uses it.
//! 4. A stream's events are created with it and reused, so a poll never creates an event.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cuda::driver::{Context, DriverResult, RawEvent, RawStream};
use crate::device::Ticket;

/// One marker that is being waited for, and one after the commands submitted meanwhile.
const MAX_OUTSTANDING: usize = 2;

/// The markers of a stream.
pub(super) struct Markers {
    outstanding: VecDeque<(Ticket, RawEvent)>,
    spare: Vec<RawEvent>,
    /// The last ticket before the newest marker.
    covered: Ticket,
}

impl Markers {
    pub(super) fn new(context: &Arc<Context>) -> DriverResult<Markers> {
        let event = |_| RawEvent::new(context.clone());
        let spare = (0..MAX_OUTSTANDING).map(event).collect::<DriverResult<_>>()?;
        Ok(Markers { outstanding: VecDeque::new(), spare, covered: 0 })
    }

    /// Returns the newest marker that is outstanding.
    pub(super) fn newest(&self) -> Option<&RawEvent> {
        self.outstanding.back().map(|(_, event)| event)
    }

    /// Queries the outstanding markers and records a new one where rule 1 says so. `last` is the
    /// ticket of the newest command.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) fn poll(&mut self, stream: &RawStream, last: Ticket) -> DriverResult<PollOutcome> {
        let mut outcome = PollOutcome { completed: None, recorded: false, refused: false };
        while let Some((ticket, event)) = self.outstanding.front() {
            if !event.query()? {
                break;
            }
            outcome.completed = Some(*ticket);
            self.spare.extend(self.outstanding.pop_front().map(|marker| marker.1));
        }
        if self.covered < last
            && let Some(event) = self.spare.pop()
        {
            match stream.record(&event) {
                Ok(()) => {
                    self.outstanding.push_back((last, event));
                    (self.covered, outcome.recorded) = (last, true);
                }
                Err(error) => {
                    self.spare.push(event);
                    // If the driver still answers a query of the stream, it has refused only this
                    // record.
                    stream.query().map_err(|_| error)?;
                    outcome.refused = true;
                }
            }
        }
        Ok(outcome)
    }
}

/// The outcome of [`Markers::poll`].
pub(super) struct PollOutcome {
    /// The last ticket up to which all commands have completed, if it has advanced.
    pub(super) completed: Option<Ticket>,
    /// Whether the poll has recorded a marker.
    pub(super) recorded: bool,
    /// Whether the driver has refused a marker. The next poll records it instead.
    pub(super) refused: bool,
}
