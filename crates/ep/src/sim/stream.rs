//! A simulated stream: submits commands to the simulation and reports completed ones.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Event, Progress, Stream, Ticket, Work, WorkResult};
use crate::sim::event::SimEvent;
use crate::sim::simulation::Simulation;
use crate::sim::state::Action;

/// A stream of a simulated device.
pub(super) struct SimStream {
    device: usize,
    number: usize,
    simulation: Arc<Simulation>,
    /// Completed and not yet reported. Also a buffer: its memory is reused by every poll.
    completed: VecDeque<(Ticket, WorkResult)>,
}

impl SimStream {
    pub(super) fn new(device: usize, number: usize, simulation: Arc<Simulation>) -> SimStream {
        SimStream { device, number, simulation, completed: VecDeque::new() }
    }

    fn id(&self) -> DeviceId {
        DeviceId::sim(self.device as u32)
    }

    /// Returns the index of an event of this device, or of any device if `any_device`.
    fn event_index(&self, event: &Arc<dyn Event>, any_device: bool) -> Result<usize> {
        let event = event.as_any().downcast_ref::<SimEvent>();
        let index = event.and_then(|event| match any_device {
            true => event.index_in(&self.simulation),
            false => event.index_on(self.device, &self.simulation),
        });
        index.ok_or_else(|| Error::Invalid {
            what: "event",
            message: format!("it belongs to another device than {}", self.id()),
        })
    }
}

impl Stream for SimStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        self.simulation.check(self.device)?;
        // Detached before the lock is taken: `detach` is code of the caller.
        let work = work.detach();
        let action = Action::Work(work);
        let ticket = self.simulation.enqueue(self.device, self.number, |_| Ok(action))?;
        Ok(Progress::Pending(ticket))
    }

    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let event = self.event_index(event, false)?;
        let ticket =
            self.simulation.enqueue(self.device, self.number, |events| Ok(events.record(event)))?;
        Ok(Progress::Pending(ticket))
    }

    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let event = self.event_index(event, self.simulation.direct_waits)?;
        let never_recorded = || Error::Invalid {
            what: "wait",
            message: format!("the event of {} has never been recorded", self.id()),
        };
        let ticket = self.simulation.enqueue(self.device, self.number, |events| {
            events.wait(event).ok_or_else(never_recorded)
        })?;
        Ok(Progress::Pending(ticket))
    }

    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        self.simulation.collect(self.device, self.number, &mut self.completed)?;
        // The simulation's lock is not held: `done` may query an event.
        while let Some((ticket, result)) = self.completed.pop_front() {
            done(ticket, result);
        }
        Ok(())
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.simulation.close_stream(self.device, self.number);
    }
}
