//! A simulated event.

use std::any::Any;
use std::sync::Arc;

use millstream_types::Result;

use crate::device::Event;
use crate::sim::simulation::Simulation;

/// An event of a simulated device. Its state is in the simulation's `EventTable`, and stays there
/// until the last command that refers to it has run.
pub(super) struct SimEvent {
    device: usize,
    /// The event's index in the `EventTable`.
    index: usize,
    timed: bool,
    simulation: Arc<Simulation>,
}

impl SimEvent {
    pub(super) fn new(
        device: usize,
        index: usize,
        timed: bool,
        simulation: Arc<Simulation>,
    ) -> SimEvent {
        SimEvent { device, index, timed, simulation }
    }

    /// Returns the event's index in the table of `simulation`. None if the event belongs to another
    /// simulation.
    pub(super) fn index_in(&self, simulation: &Arc<Simulation>) -> Option<usize> {
        Arc::ptr_eq(&self.simulation, simulation).then_some(self.index)
    }

    /// Does as [`SimEvent::index_in`]. None if the event belongs to another device than `device`.
    pub(super) fn index_on(&self, device: usize, simulation: &Arc<Simulation>) -> Option<usize> {
        self.index_in(simulation).filter(|_| self.device == device)
    }
}

impl Event for SimEvent {
    fn query(&self) -> Result<bool> {
        self.simulation.query(self.device, self.index)
    }

    fn since(&self, earlier: &dyn Event) -> Result<Option<f64>> {
        let earlier = earlier.as_any().downcast_ref::<SimEvent>();
        let comparable = |e: &&SimEvent| {
            self.timed && e.timed && e.index_on(self.device, &self.simulation).is_some()
        };
        Ok(earlier.filter(comparable).map(|earlier| {
            let [from, to] = [earlier, self].map(|event| self.simulation.time_of(event.index));
            (to as f64 - from as f64) * 1e-3
        }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for SimEvent {
    fn drop(&mut self) {
        self.simulation.release_event(self.index);
    }
}
