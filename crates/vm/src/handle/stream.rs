//! Streams.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_instructions::{Outcome, TensorRef};
use millstream_runtime::engine::Engine;
use millstream_runtime::engine::leases::Lease;
use millstream_runtime::scope::origin;
use millstream_runtime::scope::reentrancy;
use millstream_types::{Error, Origin, Result, StreamId, StreamKey};

use crate::handle::machine::Machine;

use super::Completion;
use super::Event;
use super::Section;
use super::Tensor;
use super::request::{self, Request, Verb};

/// A stream of a machine.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::DeviceId;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let (a, b) = (machine.compute(&DeviceId::cpu(0), 0)?, machine.compute(&DeviceId::cpu(0), 1)?);
/// let x = Tensor::from_slice(&[1.0f32], 1, &a)?;
/// let y = machine.call("relu", &[&x]).on(&b)?.remove(0); // waits for x by itself
/// b.synchronize()?;
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream {
    pub(crate) machine: Machine,
    pub(crate) id: StreamId,
    pub(crate) key: StreamKey,
    /// Keeps a created stream from being reused.
    pub(crate) lease: Option<Arc<Lease>>,
}

impl Stream {
    /// Returns device, type and index.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// assert_eq!(s.key().to_string(), "cpu:0 compute 0");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub const fn key(&self) -> &StreamKey {
        &self.key
    }

    /// Orders the stream behind the newest record of an event; does nothing if there is none.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::DeviceId;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// let event = machine.event();
    /// event.record_on(&s)?;
    /// machine.compute(&DeviceId::cpu(0), 1)?.wait_event(&event)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The event is another machine's.
    #[track_caller]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.wait_event_at(event, origin::caller())
    }

    pub(crate) fn wait_event_at(&self, event: &Event, origin: Origin) -> Result<()> {
        if !Arc::ptr_eq(&event.machine().shared, &self.machine.shared) {
            return Err(Error::Foreign { what: "the event".to_owned() }.at(&origin));
        }
        let newest = event.newest();
        let at = newest.as_ref().map(|record| record.event.at);
        let wait = Request::new(Verb::WaitEvent { event, stream: self, at }, &origin);
        request::submit(wait, |_| {
            let Some(record) = &newest else { return Ok(Some(())) };
            let waited = self.machine.shared.emit(&origin, |e| {
                e.open(self.id)?;
                let Engine { builder, router, .. } = e;
                let waited = builder.wait_event(router, self.id, &record.event, &origin);
                waited.map(Outcome::Done)
            });
            waited.map(Some)
        })?;
        Ok(())
    }

    /// Records a new event, behind everything submitted to the stream.
    ///
    /// ```
    /// # use millstream_types::DeviceId;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let (a, b) = (machine.current_stream()?, machine.create_stream(&DeviceId::cpu(0))?);
    /// let event = a.record_event()?;
    /// b.wait_event(&event)?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The machine has been shut down.
    #[track_caller]
    pub fn record_event(&self) -> Result<Event> {
        let event = self.machine.event();
        event.record_at(self, origin::caller())?;
        Ok(event)
    }

    /// Orders the stream behind everything submitted to `source` so far.
    ///
    /// ```
    /// # use millstream_types::DeviceId;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let (a, b) = (machine.current_stream()?, machine.create_stream(&DeviceId::cpu(0))?);
    /// b.wait_stream(&a)?; // later work of b comes after all earlier work of a
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// `source` is another machine's.
    #[track_caller]
    pub fn wait_stream(&self, source: &Stream) -> Result<()> {
        let origin = origin::caller();
        if !Arc::ptr_eq(&source.machine.shared, &self.machine.shared) {
            return Err(Error::Foreign { what: "the stream".to_owned() }.at(&origin));
        }
        let wait = Request::new(Verb::WaitStream { stream: self, source }, &origin);
        request::submit(wait, |_| {
            let waited = self.machine.shared.emit(&origin, |e| {
                e.open(self.id)?;
                e.open(source.id)?;
                let Engine { builder, router, .. } = e;
                builder.wait_stream(router, self.id, source.id, &origin).map(Outcome::Done)
            });
            waited.map(Some)
        })?;
        Ok(())
    }

    /// Uses tensors without changing or reading them: later instructions of the stream come after
    /// their last writes.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let ready = s.touch(&[&x])?; // complete once x is computed
    /// ready.wait()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor was released, is held, or is another machine's.
    #[track_caller]
    pub fn touch(&self, tensors: &[&Tensor]) -> Result<Completion> {
        self.touch_within(tensors, None)
    }

    /// Uses tensors as [`Stream::touch`] does, perhaps from within a section.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let section = machine.critical_section(&[&x])?;
    /// s.touch_within(&[&x], Some(&section))?;
    /// section.end()?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::touch`].
    #[track_caller]
    pub fn touch_within(
        &self,
        tensors: &[&Tensor],
        section: Option<&Section>,
    ) -> Result<Completion> {
        let origin = origin::caller();
        let at = |e: Error| e.at(&origin);
        let verb = Verb::Touch { tensors, stream: self };
        let touch = Request { verb, is_within: section.is_some(), origin: &origin };
        let point = request::submit(touch, |_| {
            let refs = tensors.iter().map(|t| self.machine.owns(t));
            let refs: Vec<TensorRef> = refs.collect::<Result<_>>().map_err(at)?;
            let section = self.machine.own_section(section).map_err(at)?;
            let touched = self.machine.shared.emit(&origin, |e| {
                e.open(self.id)?;
                let Engine { builder, router, .. } = e;
                builder.touch(router, self.id, &refs, section, &origin).map(Outcome::Done)
            });
            touched.map(Some)
        })?;
        Ok(Completion::new(self.machine.clone(), point).keeping(self.lease.clone()))
    }

    /// Blocks until everything submitted to the stream has completed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let stream = machine.current_stream()?;
    /// stream.synchronize()?;
    /// assert!(stream.query()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Why the first instruction on the stream failed or was skipped since failures were last
    /// cleared.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.synchronize_at(None, origin::caller())
    }

    /// Blocks as [`Stream::synchronize`] does, for no longer than `timeout`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// s.synchronize_for(std::time::Duration::from_secs(60))?;
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Timeout`], or as [`Stream::synchronize`].
    #[track_caller]
    pub fn synchronize_for(&self, timeout: Duration) -> Result<()> {
        self.synchronize_at(Some(timeout), origin::caller())
    }

    pub(crate) fn synchronize_at(&self, timeout: Option<Duration>, origin: Origin) -> Result<()> {
        self.completion_at(&origin)?.wait_at(timeout, origin)
    }

    /// Returns a completion of everything submitted to the stream so far, to be awaited as a future
    /// or later.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// s.completion()?.wait()?; // everything submitted so far
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// Asked from within the machine's own work, or an earlier emission panicked.
    #[track_caller]
    pub fn completion(&self) -> Result<Completion> {
        self.completion_at(&origin::caller())
    }

    fn completion_at(&self, origin: &Origin) -> Result<Completion> {
        let at = |e: Error| e.at(origin);
        reentrancy::check(self.machine.shared.tables.machine, "waiting").map_err(at)?;
        let tail = self.machine.shared.lock().map_err(at)?.builder.tail(self.id);
        Ok(self.machine.completion_of(tail).keeping(self.lease.clone()))
    }

    /// Returns whether everything submitted to the stream has completed. Never blocks.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let s = machine.current_stream()?;
    /// s.synchronize()?;
    /// assert!(s.query()?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::completion`].
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        Ok(self.completion()?.query())
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.key)
    }
}
