//! A simulated event: a mark, named by number.

use std::any::Any;
use std::sync::Arc;

use millstream_types::Result;

use crate::device::Event;
use crate::sim::simulation::Simulation;

/// An event of a simulated device. The commands that name its mark keep the mark when it is gone.
pub(super) struct SimEvent {
    device: usize,
    mark: usize,
    simulation: Arc<Simulation>,
}

impl SimEvent {
    pub(super) fn new(device: usize, mark: usize, simulation: Arc<Simulation>) -> SimEvent {
        SimEvent { device, mark, simulation }
    }

    /// The event's mark in `simulation`; none if it is another's.
    pub(super) fn mark(&self, simulation: &Arc<Simulation>) -> Option<usize> {
        Arc::ptr_eq(&self.simulation, simulation).then_some(self.mark)
    }

    /// As [`SimEvent::mark`]; none if it is another device's than `device`.
    pub(super) fn mark_on(&self, device: usize, simulation: &Arc<Simulation>) -> Option<usize> {
        self.mark(simulation).filter(|_| self.device == device)
    }
}

impl Event for SimEvent {
    fn query(&self) -> Result<bool> {
        self.simulation.query(self.device, self.mark)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for SimEvent {
    fn drop(&mut self) {
        self.simulation.drop_mark(self.mark);
    }
}
