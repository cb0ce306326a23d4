//! A simulated stream: hands commands over, and reports what has completed.

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
    /// Taken from the device and not yet reported; kept for its memory, too.
    completed: VecDeque<(Ticket, WorkResult)>,
}

impl SimStream {
    pub(super) fn new(device: usize, number: usize, simulation: Arc<Simulation>) -> SimStream {
        SimStream { device, number, simulation, completed: VecDeque::new() }
    }

    fn id(&self) -> DeviceId {
        DeviceId::sim(self.device as u32)
    }

    /// The mark of an event of this device, or of `any` of the simulation's.
    fn mark(&self, event: &Arc<dyn Event>, any: bool) -> Result<usize> {
        let event = event.as_any().downcast_ref::<SimEvent>();
        let mark = event.and_then(|event| match any {
            true => event.mark(&self.simulation),
            false => event.mark_on(self.device, &self.simulation),
        });
        mark.ok_or_else(|| Error::Invalid {
            what: "event",
            message: format!("it belongs to another device than {}", self.id()),
        })
    }
}

impl Stream for SimStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        self.simulation.check(self.device)?;
        // Detached without the lock: it is the caller's code.
        let work = work.detach();
        let action = Action::Work(work);
        let ticket = self.simulation.hand_over(self.device, self.number, |_| Ok(action))?;
        Ok(Progress::Pending(ticket))
    }

    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let mark = self.mark(event, false)?;
        let ticket =
            self.simulation.hand_over(self.device, self.number, |marks| Ok(marks.record(mark)))?;
        Ok(Progress::Pending(ticket))
    }

    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let mark = self.mark(event, self.simulation.direct_waits)?;
        let never = || Error::Invalid {
            what: "wait",
            message: format!("the event of {} has never been recorded", self.id()),
        };
        let ticket = self
            .simulation
            .hand_over(self.device, self.number, |marks| marks.wait(mark).ok_or_else(never))?;
        Ok(Progress::Pending(ticket))
    }

    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        self.simulation.collect(self.device, self.number, &mut self.completed)?;
        // The lock is not held here: `done` may query an event.
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
