//! Completion of what was launched.

use millstream_types::Cause;

use crate::sync::points::{Mark, Waiter};
use crate::worker::Core;
use crate::worker::lane::Effect;

impl Core {
    /// Asks a lane's device what has completed, and completes that.
    pub(super) fn poll(&mut self, at: usize) {
        let lane = &mut self.lanes[at];
        let Some(native) = &mut lane.native else { return };
        let reported = &mut lane.reported;
        let polled = native.stream.poll(&mut |ticket, result| reported.push_back((ticket, result)));
        if let Err(error) = polled
            && lane.lost.is_none()
        {
            lane.lost = Some(error);
        }
        self.retire(at);
    }

    /// Completes launched instructions, in order, as far as their commands and points have.
    pub(super) fn retire(&mut self, at: usize) {
        loop {
            let lane = &mut self.lanes[at];
            let Some(front) = lane.flying.front() else { break };
            let mut result = Ok(());
            let mut lost = None;
            if let Some(ticket) = front.ticket {
                if lane.reported.front().is_some_and(|(t, _)| *t == ticket) {
                    if let Some((_, reported)) = lane.reported.pop_front() {
                        result = reported;
                    }
                } else if let Some(error) = &lane.lost {
                    lost = Some(error.to_string());
                } else {
                    break;
                }
            }
            if let Some(until) = front.until
                && !self.engine.points.reached(until, Mark::Completed)
            {
                // The command has been taken note of; what is left to wait for is the point.
                if let Some(front) = lane.flying.front_mut() {
                    front.ticket = None;
                    if let (Effect::Order(wait), Err(error)) = (&front.effect, &result) {
                        let message = format!("{error:#}");
                        front.effect = Effect::Failed(wait.clone(), Cause::Device, message);
                    }
                }
                if lane.watching.is_some() {
                    break;
                }
                let waiter = Waiter::Lane(self.inbox.clone(), lane.id);
                if self.engine.points.park(until, Mark::Completed, waiter) {
                    lane.watching = Some(until);
                    break;
                }
            }
            let Some(front) = self.lanes[at].flying.pop_front() else { break };
            match (front.effect, lost) {
                (Effect::Call(instruction), Some(message)) => {
                    self.fail(at, &instruction, Cause::Device, message);
                }
                (Effect::Failed(instruction, cause, message), _) => {
                    self.fail(at, &instruction, cause, message);
                }
                (Effect::Call(instruction), None) => self.finish_call(at, &instruction, result),
                (Effect::Read(instruction, bytes), Some(message)) => {
                    let result = Err(anyhow::anyhow!(message));
                    self.finish_read(at, &instruction, &bytes, result);
                }
                (Effect::Read(instruction, bytes), None) => {
                    self.finish_read(at, &instruction, &bytes, result);
                }
                (Effect::Order(instruction), None) => {
                    if let Err(error) = result {
                        let (cause, message) = (Cause::Device, format!("{error:#}"));
                        self.fail(at, &instruction, cause, message);
                    }
                }
                (Effect::None | Effect::Order(_), _) => {}
            }
            self.finished += 1;
            self.publish(at, front.seq, Mark::Completed);
        }
        let lane = &mut self.lanes[at];
        if lane.landing && lane.flying.is_empty() {
            lane.landing = false;
            self.drain(at);
        }
    }
}
