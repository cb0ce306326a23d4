//! When commands begin and end on the device, by its own clock, mapped to the host's.
//!
//! # Rules
//! 1. A measured command lies between the records of two timed events.
//! 2. The device's clock is mapped by an anchor: a record, a host function that reads the host's
//!    clock, and a record. The host function runs between the two records, and is taken to run in
//!    the middle. Half of the time between them, some microseconds, bounds the error.
//! 3. The driver compares two records by a floating-point number of milliseconds, whose precision
//!    falls with the distance. Once a command lies further than [`REACH`] from the anchor, its end
//!    becomes the next anchor.
//! 4. An event that the driver refuses costs a measurement, and nothing else.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cuda::driver::{DriverResult, RawEvent, RawStream};
use crate::device::{HostClock, Ticket};

/// The distance from its anchor, in milliseconds, up to which a time is exact to half a
/// microsecond, the resolution of the device.
const REACH: f32 = 4000.0;

/// A record whose time on the host's clock is known, in nanoseconds.
struct Anchor {
    event: RawEvent,
    at: f64,
}

/// An anchor whose records have not completed.
struct Drawn {
    before: RawEvent,
    after: RawEvent,
    host: Arc<Mutex<Option<u64>>>,
}

/// The measured commands of a stream.
pub(super) struct CommandTimes {
    drawn: Option<Drawn>,
    anchor: Option<Anchor>,
    /// The commands on the device, each with the events before and behind it.
    outstanding: VecDeque<(Ticket, [RawEvent; 2])>,
    spare: Vec<RawEvent>,
    times: Vec<(Ticket, [u64; 2])>,
}

impl CommandTimes {
    /// Begins to measure: records an anchor.
    pub(super) fn start(stream: &RawStream, clock: HostClock) -> DriverResult<CommandTimes> {
        let event = || RawEvent::timed(stream.context().clone());
        let (before, after, host) = (event()?, event()?, Arc::new(Mutex::new(None)));
        stream.record(&before)?;
        let to = host.clone();
        let read = move || {
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock());
        };
        stream.call_host(Box::new(read))?;
        stream.record(&after)?;
        Ok(CommandTimes {
            drawn: Some(Drawn { before, after, host }),
            anchor: None,
            outstanding: VecDeque::new(),
            spare: Vec::new(),
            times: Vec::new(),
        })
    }

    /// Records an event before a command. Returns none if the driver refuses.
    pub(super) fn before(&mut self, stream: &RawStream) -> Option<RawEvent> {
        let event = self.event(stream)?;
        stream.record(&event).ok()?;
        Some(event)
    }

    /// Records an event behind a command.
    pub(super) fn behind(&mut self, stream: &RawStream, ticket: Ticket, before: RawEvent) {
        let Some(event) = self.event(stream) else { return };
        if stream.record(&event).is_ok() {
            self.outstanding.push_back((ticket, [before, event]));
        }
    }

    fn event(&mut self, stream: &RawStream) -> Option<RawEvent> {
        self.spare.pop().or_else(|| RawEvent::timed(stream.context().clone()).ok())
    }

    /// Reads the times of all commands up to `ticket`, which have completed.
    pub(super) fn complete(&mut self, ticket: Ticket) {
        // The anchor lies before all commands.
        if let Some(Drawn { before, after, host }) = self.drawn.take() {
            let at = host.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(at), Ok(between)) = (at, after.since(&before)) {
                let at = at as f64 - f64::from(between) * 1e6 / 2.0;
                self.anchor = Some(Anchor { event: before, at });
            }
        }
        while self.outstanding.front().is_some_and(|(own, _)| *own <= ticket) {
            let Some((own, [before, behind])) = self.outstanding.pop_front() else { return };
            let Some(anchor) = &self.anchor else { continue };
            let (Ok(begin), Ok(end)) = (before.since(&anchor.event), behind.since(&anchor.event))
            else {
                continue;
            };
            let ns = |milliseconds: f32| anchor.at + f64::from(milliseconds) * 1e6;
            let times = [ns(begin), ns(end)];
            self.times.push((own, times.map(|ns| ns.max(0.0) as u64)));
            self.spare.push(before);
            if end > REACH {
                self.anchor = Some(Anchor { event: behind, at: times[1] });
            } else {
                self.spare.push(behind);
            }
        }
    }

    /// Takes the times so far.
    pub(super) fn take(&mut self) -> Vec<(Ticket, [u64; 2])> {
        std::mem::take(&mut self.times)
    }
}
