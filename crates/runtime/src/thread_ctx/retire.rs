//! Completion of launched instructions.

use millstream_types::{Cause, catch_unit};

use crate::sync::points::{Milestone, Waiter};
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::stream::Effect;

impl ThreadCtx {
    /// Polls a stream's device, and completes the reported instructions.
    pub(super) fn poll(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let Some(native) = &mut stream.native else { return };
        let reported = &mut stream.reported;
        let polled = native.stream.poll(&mut |ticket, result| reported.push_back((ticket, result)));
        let timed = stream.samples.as_mut().map_or(Ok(()), |samples| {
            let mut add = |ticket, times| samples.device_time(ticket, times);
            catch_unit(|| native.stream.take_times(&mut add)).map_err(Into::into)
        });
        if let Err(error) = polled.and(timed)
            && stream.lost.is_none()
        {
            stream.lost = Some(error);
        }
        self.retire(at);
    }

    /// Completes launched instructions in order, as far as their commands and points have
    /// completed.
    pub(super) fn retire(&mut self, at: usize) {
        loop {
            let stream = &mut self.streams[at];
            let Some(front) = stream.in_flight.front() else { break };
            let mut result = Ok(());
            let mut lost = None;
            if let Some(ticket) = front.ticket {
                if stream.reported.front().is_some_and(|(t, _)| *t == ticket) {
                    if let Some((_, reported)) = stream.reported.pop_front() {
                        result = reported;
                    }
                } else if let Some(error) = &stream.lost {
                    lost = Some(error.to_string());
                } else {
                    break;
                }
            }
            if let Some(until) = front.until
                && !self.tables.points.reached(until, Milestone::Completed)
            {
                // The command has been reported; only the point is left to wait for.
                if let Some(front) = stream.in_flight.front_mut() {
                    front.ticket = None;
                    if let (Effect::Order(wait), Err(error)) = (&front.effect, &result) {
                        let message = format!("{error:#}");
                        front.effect = Effect::Failed(wait.clone(), Cause::Device, message);
                    }
                }
                if stream.awaited.is_some() {
                    break;
                }
                let waiter = Waiter::Stream(self.inbox.clone(), stream.id);
                if self.tables.points.park(until, Milestone::Completed, waiter) {
                    stream.awaited = Some(until);
                    break;
                }
            }
            let Some(front) = self.streams[at].in_flight.pop_front() else { break };
            match (front.effect, lost) {
                (Effect::Call(instruction) | Effect::Collective(instruction), Some(message)) => {
                    self.fail(at, &instruction, Cause::Device, message);
                }
                (Effect::Failed(instruction, cause, message), _) => {
                    self.fail(at, &instruction, cause, message);
                }
                (Effect::Call(instruction), None) => self.finish_call(at, &instruction, result),
                (Effect::Stored(call), lost) => {
                    if lost.is_some() || result.is_err() || self.tables.poison.any() {
                        self.finish_stored(at, &call, result, lost);
                    }
                }
                (Effect::Collective(instruction), None) => {
                    let failed = self.tables.communicator.error().map(anyhow::Error::from);
                    let result = result.and(failed.map_or(Ok(()), Err));
                    self.finish_call(at, &instruction, result);
                }
                (Effect::Graph(graph), lost) => {
                    self.finish_graph(&graph, result, lost.as_deref());
                }
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
            self.publish(at, front.seq, Milestone::Completed);
        }
        let stream = &mut self.streams[at];
        if stream.draining && stream.in_flight.is_empty() {
            stream.draining = false;
            self.run_pending(at);
        }
    }
}
