//! Events.
//!
//! # Rules
//! 1. A handle stands for the newest record. Each record takes an event slot of its own, so a wait
//!    for an earlier record stays a wait for that one.
//! 2. A record is released when neither a handle nor a wait under emission names it.
//! 3. How a timed record gets its time is said in `tables::timed_records`.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use millstream_instructions::Outcome;
use millstream_instructions::builder::EventRef;
use millstream_runtime::engine::leases::Lease;
use millstream_runtime::engine::{Engine, Release};
use millstream_runtime::scope::origin;
use millstream_runtime::scope::reentrancy;
use millstream_runtime::sync::Mutex;
use millstream_runtime::sync::points::{Milestone, Waiter};
use millstream_runtime::tables::timed_records::RecordTime;
use millstream_types::{DeviceId, Error, Origin, Point, Result, StreamId};

use crate::handle::machine::Machine;

use super::request::{self, Answer, Reply, Request, Verb};
use super::{Completion, Stream};

/// A mark in a stream's order, set by the newest record. Clones are the same event.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let event = machine.event();
/// event.record()?;
/// event.synchronize()?;
/// assert!(event.query());
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Event {
    inner: Arc<Inner>,
}

struct Inner {
    machine: Machine,
    timed: bool,
    newest: Mutex<Option<Arc<Record>>>,
}

/// One record of an event.
pub(super) struct Record {
    machine: Machine,
    pub(super) event: EventRef,
    time: Time,
    /// Keeps the stream from being reused.
    lease: Option<Arc<Lease>>,
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Time::Noted(_) = self.time {
            // It is still there if no native event was recorded.
            self.machine.shared.tables.timed_records.take(self.event.at);
        }
        self.machine.shared.release(Release::Event(self.event.clone()));
    }
}

/// The time at which a record completed.
#[derive(Clone)]
enum Time {
    /// The event takes no times.
    Untimed,
    /// The device reports no times.
    Unknown(DeviceId),
    /// Noted here at completion.
    Noted(Arc<RecordTime>),
}

/// A record that was emitted.
struct NewRecord {
    event: EventRef,
    time: Option<Arc<RecordTime>>,
}

/// A record; none if a recording has noted it instead. Layers see its point.
struct Noted(Option<NewRecord>);

impl Answer for Noted {
    fn reply(self, kept: &mut Option<Self>) -> Reply {
        let at = self.0.as_ref().map(|record| record.event.at);
        *kept = Some(self);
        at.map_or(Reply::Done, Reply::Recorded)
    }

    fn of(_: Reply, kept: Option<Self>) -> Option<Self> {
        Some(kept.unwrap_or(Noted(None)))
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::Invalid { what: "event", message: message.into() }
}

impl Event {
    pub(crate) fn new(machine: Machine, timed: bool) -> Event {
        Event { inner: Arc::new(Inner { machine, timed, newest: Mutex::new(None) }) }
    }

    /// Returns whether both are clones of one event.
    pub(crate) fn is_same(&self, other: &Event) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.inner.machine
    }

    /// Returns the newest record, if there is one.
    pub(super) fn newest(&self) -> Option<Arc<Record>> {
        self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the event on the current stream, behind everything submitted to it. Waits for an
    /// earlier record stay waits for that one.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let event = machine.event();
    /// let y = x.relu()?;
    /// event.record()?; // behind the call
    /// event.synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn record(&self) -> Result<()> {
        let origin = origin::caller();
        let stream = self.inner.machine.current_stream().map_err(|e| e.at(&origin))?;
        self.record_at(&stream, origin)
    }

    /// Records the event as [`Event::record`] does, on `stream`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let event = machine.event();
    /// event.record_on(&s)?;
    /// event.synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The stream is another machine's, or the machine has been shut down.
    #[track_caller]
    pub fn record_on(&self, stream: &Stream) -> Result<()> {
        self.record_at(stream, origin::caller())
    }

    pub(crate) fn record_at(&self, stream: &Stream, origin: Origin) -> Result<()> {
        let machine = &self.inner.machine;
        machine.own_stream(stream).map_err(|e| e.at(&origin))?;
        let device = &stream.key.device;
        let can = || machine.policies().devices().capabilities(device).map(Some);
        let can = if self.inner.timed { can().map_err(|e| e.at(&origin))? } else { None };
        let record = Request::new(Verb::RecordEvent { event: self, stream }, &origin);
        let emit = |e: &mut Engine| {
            e.open(stream.id)?;
            let Engine { builder, router, .. } = e;
            let time = can.filter(|can| can.timestamps).map(|_| Arc::<RecordTime>::default());
            let place = Point::new(stream.id, builder.tail(stream.id).seq + 1);
            let tables = router.tables.clone();
            if let Some(time) = &time {
                let waiter = Waiter::Task(Waker::from(time.clone()));
                tables.points.park(place, Milestone::Completed, waiter);
                if can.is_some_and(|can| can.asynchronous) {
                    tables.timed_records.add(place, time.clone());
                }
            }
            let event = builder.record_event(router, stream.id, &origin);
            if event.is_err() {
                tables.timed_records.take(place);
            }
            Ok(Outcome::Done(NewRecord { event: event?, time }))
        };
        let emitted =
            |_: &Request<'_>| machine.shared.emit(&origin, emit).map(|record| Noted(Some(record)));
        let Noted(made) = request::submit(record, emitted)?;
        let Some(NewRecord { event, time }) = made else { return Ok(()) };
        let time = match time {
            Some(time) => Time::Noted(time),
            None if self.inner.timed => Time::Unknown(device.clone()),
            None => Time::Untimed,
        };
        let lease = stream.lease.clone();
        let record = Arc::new(Record { machine: machine.clone(), event, time, lease });
        let mut newest = self.inner.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let former = newest.replace(record);
        drop(newest);
        // Outside the lock, as the release enters the machine.
        drop(former);
        Ok(())
    }

    /// Orders the current stream behind the newest record; does nothing if there is none.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DeviceId;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let event = machine.event();
    /// event.record_on(&s)?;
    /// let other = machine.compute(&DeviceId::cpu(0), 1)?;
    /// with_stream(&other, || event.wait())?; // later calls on `other` come after the record
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        let origin = origin::caller();
        let stream = self.inner.machine.current_stream().map_err(|e| e.at(&origin))?;
        stream.wait_event_at(self, origin)
    }

    /// Returns whether the newest record, and everything before it on its stream, has completed;
    /// true if there is none. Never blocks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let event = machine.event();
    /// assert!(event.query()); // never recorded
    /// event.record()?;
    /// event.synchronize()?;
    /// assert!(event.query());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn query(&self) -> bool {
        self.newest().is_none_or(|r| self.inner.machine.shared.query(r.event.at))
    }

    /// Blocks until the newest record has completed; returns at once if there is none.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let event = machine.event();
    /// event.record()?;
    /// event.synchronize()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Why the first instruction on the stream, up to the record, failed or was skipped since
    /// failures were last cleared.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.completion().wait_at(None, origin::caller())
    }

    /// Blocks as [`Event::synchronize`] does, for no longer than `timeout`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let event = machine.event();
    /// event.record()?;
    /// event.synchronize_for(std::time::Duration::from_secs(60))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Timeout`], or as [`Event::synchronize`].
    #[track_caller]
    pub fn synchronize_for(&self, timeout: Duration) -> Result<()> {
        self.completion().wait_at(Some(timeout), origin::caller())
    }

    /// Returns a completion of the newest record, to be awaited as a future or later. Without a
    /// record it has completed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let event = machine.event();
    /// event.record()?;
    /// event.completion().wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn completion(&self) -> Completion {
        let none = Point::new(StreamId(0), 0);
        let newest = self.newest();
        let (at, lease) = newest.map_or((none, None), |r| (r.event.at, r.lease.clone()));
        self.inner.machine.completion_of(at).keeping(lease)
    }

    /// Returns the milliseconds from this event's newest record to `end`'s, negative if that
    /// completed first. Both events must have been made by [`Machine::timed_event`] and have
    /// completed. The times of two records on one device are those of the device's clock, if it has
    /// one. All others are the host's, when the workers observed the completions: on a device that
    /// computes elsewhere, somewhat later than the completions themselves.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let (start, end) = (machine.timed_event(), machine.timed_event());
    /// start.record()?;
    /// end.record()?;
    /// end.synchronize()?;
    /// assert!(start.elapsed_time(&end)? >= 0.0); // milliseconds
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// An event takes no times, was never recorded, has not completed, lies on a device that
    /// reports no times, or is another machine's.
    #[track_caller]
    pub fn elapsed_time(&self, end: &Event) -> Result<f64> {
        let origin = origin::caller();
        if !Arc::ptr_eq(&self.inner.machine.shared, &end.inner.machine.shared) {
            return Err(Error::Foreign { what: "the event".to_owned() }.at(&origin));
        }
        let (begun, from) = self.completed_at().map_err(|e| e.at(&origin))?;
        let (ended, to) = end.completed_at().map_err(|e| e.at(&origin))?;
        if let (Some(begun), Some(ended)) = (begun.native.get(), ended.native.get()) {
            let by_device = ended.native().since(&**begun.native());
            if let Some(milliseconds) = by_device.map_err(|e| e.at(&origin))? {
                return Ok(milliseconds);
            }
        }
        let milliseconds = |d: Duration| d.as_secs_f64() * 1e3;
        Ok(match to.checked_duration_since(from) {
            Some(later) => milliseconds(later),
            None => -milliseconds(from.duration_since(to)),
        })
    }

    /// Returns the time of the newest record, and when its completion was observed.
    fn completed_at(&self) -> Result<(Arc<RecordTime>, Instant)> {
        let shared = &self.inner.machine.shared;
        let Some(record) = self.newest() else {
            return Err(invalid("it was never recorded, so it has no time; record it first"));
        };
        let time = match &record.time {
            Time::Untimed => {
                return Err(invalid("it takes no times; make it by Machine::timed_event"));
            }
            Time::Unknown(device) => {
                return Err(invalid(format!("{device} does not tell when a record completed")));
            }
            Time::Noted(time) => time.clone(),
        };
        if shared.query(record.event.at) {
            // The worker publishes the point and then notes the time. A worker does not wait for
            // itself in between.
            match time.observed.get().copied() {
                Some(observed) => return Ok((time, observed)),
                None if reentrancy::check(shared.tables.machine, "waiting").is_ok() => {
                    let observed = *time.observed.wait();
                    return Ok((time, observed));
                }
                None => {}
            }
        }
        Err(invalid("its record has not completed, so it has no time; synchronize first"))
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.newest() {
            Some(record) => write!(f, "Event({})", record.event.at),
            None => write!(f, "Event(not recorded)"),
        }
    }
}
