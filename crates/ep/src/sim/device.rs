//! A simulated device.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Capabilities, Device, Event, Memory, Notify, Stream};
use crate::host_memory::HostMemory;
use crate::sim::event::SimEvent;
use crate::sim::simulation::Simulation;
use crate::sim::stream::SimStream;

/// A device of a [`SimBackend`](crate::sim::SimBackend).
pub struct SimDevice {
    id: DeviceId,
    simulation: Arc<Simulation>,
}

impl SimDevice {
    pub(super) fn new(index: u32, simulation: Arc<Simulation>) -> SimDevice {
        SimDevice { id: DeviceId::sim(index), simulation }
    }

    fn index(&self) -> usize {
        self.id.index() as usize
    }

    fn event(&self, timed: bool) -> Result<Arc<dyn Event>> {
        let event = self.simulation.create_event(self.index())?;
        Ok(Arc::new(SimEvent::new(self.index(), event, timed, self.simulation.clone())))
    }
}

impl Device for SimDevice {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        super::CAPABILITIES
    }

    fn kernel_kind(&self) -> &str {
        "cpu"
    }

    fn default_memory_limit(&self) -> u64 {
        self.simulation.account(self.index()).limit()
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        self.simulation.check(self.index())?;
        let account = self.simulation.account(self.index());
        Ok(Box::new(HostMemory::new(bytes, &account, &self.id)?))
    }

    fn create_stream(&self, notify: Notify) -> Result<Box<dyn Stream>> {
        let number = self.simulation.create_stream(self.index(), notify)?;
        Ok(Box::new(SimStream::new(self.index(), number, self.simulation.clone())))
    }

    fn async_error(&self) -> Option<Error> {
        self.simulation.check(self.index()).err()
    }

    fn create_event(&self) -> Result<Arc<dyn Event>> {
        self.event(false)
    }

    fn create_timed_event(&self) -> Result<Arc<dyn Event>> {
        self.event(true)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDevice({})", self.id)
    }
}
