//! How far a stream has come, learned from few events.
//!
//! # Rules
//! 1. A marker is recorded by a poll, behind all commands that were handed over so far, if some are
//!    behind the newest marker and fewer than [`MOST`] markers are outstanding.
//! 2. A stream runs in order, so a marker that has completed says so of every command before it.
//! 3. A marker that the driver refuses is tried again by the next poll. The stream goes on: to call it
//!    lost would give away memory that it still uses.
//! 4. A stream's events are made with it and used again and again: learning never needs a new one.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cuda::driver::{Answer, Context, RawEvent, RawStream};
use crate::device::Ticket;

/// Two: one that is waited for, and one behind what was handed over meanwhile.
const MOST: usize = 2;

/// The markers of a stream.
pub(super) struct Markers {
    outstanding: VecDeque<(Ticket, RawEvent)>,
    spare: Vec<RawEvent>,
    /// The last ticket that a marker was recorded behind.
    covered: Ticket,
}

impl Markers {
    pub(super) fn new(context: &Arc<Context>) -> Answer<Markers> {
        let event = |_| RawEvent::new(context.clone());
        let spare = (0..MOST).map(event).collect::<Answer<_>>()?;
        Ok(Markers { outstanding: VecDeque::new(), spare, covered: 0 })
    }

    /// The last ticket up to which everything has completed, if that is news. `last` is that of the
    /// newest command.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) fn poll(&mut self, stream: &RawStream, last: Ticket) -> Answer<Polled> {
        let mut polled = Polled { completed: None, recorded: false, refused: false };
        while let Some((ticket, event)) = self.outstanding.front() {
            if !event.query()? {
                break;
            }
            polled.completed = Some(*ticket);
            self.spare.extend(self.outstanding.pop_front().map(|marker| marker.1));
        }
        if self.covered < last
            && let Some(event) = self.spare.pop()
        {
            match stream.record(&event) {
                Ok(()) => {
                    self.outstanding.push_back((last, event));
                    (self.covered, polled.recorded) = (last, true);
                }
                Err(error) => {
                    self.spare.push(event);
                    // A driver that still answers for the stream has refused this record alone.
                    stream.query().map_err(|_| error)?;
                    polled.refused = true;
                }
            }
        }
        Ok(polled)
    }
}

/// What a poll found and did.
pub(super) struct Polled {
    /// The last ticket up to which everything has completed, if that is news.
    pub(super) completed: Option<Ticket>,
    /// Whether a marker was recorded.
    pub(super) recorded: bool,
    /// Whether the driver refused a marker, which the next poll tries again.
    pub(super) refused: bool,
}
