//! A device whose allocations, streams and events fail as planned.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Capabilities, Device, Event, Memory, Notify, Stream};
use crate::graph::Graph;

use super::event::FaultyEvent;
use super::plan::Site;
use super::state::FaultState;
use super::stream::FaultyStream;

/// A device of a [`FaultyBackend`](super::FaultyBackend).
pub(super) struct FaultyDevice {
    pub(super) inner: Arc<dyn Device>,
    pub(super) state: Arc<FaultState>,
}

impl FaultyDevice {
    /// Returns an event that `create` makes, unless a fault is planned.
    fn event_of(
        &self,
        create: impl FnOnce(&dyn Device) -> Result<Arc<dyn Event>>,
    ) -> Result<Arc<dyn Event>> {
        let fault = self.state.count_call(Site::Event);
        self.state.check()?;
        if fault.is_some() {
            return Err(self.state.error("refuses an event"));
        }
        let inner = create(&*self.inner)?;
        let stuck = AtomicBool::new(false);
        Ok(Arc::new(FaultyEvent { inner, state: self.state.clone(), stuck }))
    }
}

impl Device for FaultyDevice {
    fn id(&self) -> &DeviceId {
        self.inner.id()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn kernel_kind(&self) -> &str {
        self.inner.kernel_kind()
    }

    fn default_memory_limit(&self) -> u64 {
        self.inner.default_memory_limit()
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        let fault = self.state.count_call(Site::Allocation);
        self.state.check()?;
        if fault.is_some() {
            return Err(Error::OutOfMemory {
                device: self.id().clone(),
                purpose: "an allocation that fails as planned".to_owned(),
                wanted: bytes as u64,
                in_use: 0,
                limit: self.default_memory_limit(),
                holders: Vec::new(),
            });
        }
        self.inner.allocate(bytes)
    }

    fn create_stream(&self, notify: Notify) -> Result<Box<dyn Stream>> {
        self.create_stream_with_priority(0, notify)
    }

    fn create_stream_with_priority(
        &self,
        priority: i32,
        notify: Notify,
    ) -> Result<Box<dyn Stream>> {
        let fault = self.state.count_call(Site::Stream);
        self.state.check()?;
        if fault.is_some() {
            return Err(self.state.error("refuses a stream"));
        }
        let stream = self.inner.create_stream_with_priority(priority, notify.clone())?;
        self.state.add_notify(notify);
        Ok(Box::new(FaultyStream::new(stream, self.state.clone())))
    }

    fn async_error(&self) -> Option<Error> {
        self.state.check().err().or_else(|| self.inner.async_error())
    }

    fn create_event(&self) -> Result<Arc<dyn Event>> {
        self.event_of(|inner| inner.create_event())
    }

    fn create_timed_event(&self) -> Result<Arc<dyn Event>> {
        self.event_of(|inner| inner.create_timed_event())
    }

    fn create_graph(&self, positions: usize, words: usize) -> Result<Box<dyn Graph>> {
        self.state.check()?;
        self.inner.create_graph(positions, words)
    }

    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}
