//! How instructions end: what completes, fails and is skipped, and what that does to their outputs.

use millstream_ep::{Progress, WorkResult};
use millstream_types::{Cause, Error, Panicked, Point, Result};

use crate::profile::Outcome;
use crate::scope::cancel::Cancelled;
use crate::sync::points::Milestone;
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::stream::{Effect, ExternalCompletion, InFlight};
use crate::thread_ctx::subject::Subject;

/// Returns the cause and the message of a failure of work.
pub(super) fn cause_of(error: &anyhow::Error) -> (Cause, String) {
    if let Some(cancelled) = error.downcast_ref::<Cancelled>() {
        return (Cause::Cancelled, cancelled.to_string());
    }
    match error.downcast_ref::<Panicked>() {
        Some(panic) => (Cause::Panic, panic.message.clone()),
        None => (Cause::Error, format!("{error:#}")),
    }
}

/// Returns the cause and the message of a backend's refusal.
pub(super) fn refusal_of(error: &Error) -> (Cause, String) {
    match error {
        Error::Panicked(panic) => (Cause::Panic, panic.message.clone()),
        other => (Cause::Device, other.to_string()),
    }
}

impl ThreadCtx {
    /// Notes how the stream's next completed instruction ended, for a recording of times.
    pub(super) fn note_outcome(&mut self, at: usize, outcome: Outcome) {
        if let Some(samples) = &mut self.streams[at].samples {
            samples.outcome(outcome);
        }
    }

    /// Handles a launched instruction: it has completed if nothing is outstanding.
    pub(super) fn launched(
        &mut self,
        at: usize,
        seq: u64,
        ticket: Option<u64>,
        until: Option<Point>,
        effect: Effect,
    ) {
        let stream = &mut self.streams[at];
        if stream.in_flight.is_empty() && ticket.is_none() && until.is_none() {
            self.finished += 1;
            self.publish(at, seq, Milestone::Completed);
            return;
        }
        if let (Some(samples), Some(ticket)) = (&mut stream.samples, ticket) {
            samples.command(seq, ticket);
        }
        stream.in_flight.push_back(InFlight { seq, ticket, until, effect });
        self.publish(at, seq, Milestone::Launched);
        // If nothing is outstanding on the device, no notification follows.
        self.retire(at);
    }

    /// Handles a launched instruction with nothing outstanding of its own.
    #[inline]
    pub(super) fn completed(&mut self, at: usize, seq: u64) {
        if self.streams[at].in_flight.is_empty() {
            self.finished += 1;
            self.publish(at, seq, Milestone::Completed);
        } else {
            self.launched(at, seq, None, None, Effect::None);
        }
    }

    /// Handles the result of `submit`. If the kernel took the completion token, the token completes
    /// the call.
    pub(super) fn submitted(
        &mut self,
        at: usize,
        seq: u64,
        subject: Subject,
        progress: Result<Progress>,
        token: bool,
    ) {
        match progress {
            Ok(Progress::Done(so_far)) if token => {
                self.streams[at].external = Some(ExternalCompletion { subject, so_far });
            }
            Ok(Progress::Pending(ticket)) => {
                self.launched(at, seq, Some(ticket), None, Effect::Call(subject));
            }
            Ok(Progress::Done(result)) => {
                self.finish_call(at, &subject, result);
                self.launched(at, seq, None, None, Effect::None);
            }
            Err(error) => self.refused(at, seq, subject, refusal_of(&error)),
        }
    }

    pub(super) fn refused(
        &mut self,
        at: usize,
        seq: u64,
        subject: Subject,
        (cause, message): (Cause, String),
    ) {
        // An earlier instruction in flight may heal what this one poisons.
        if !self.streams[at].in_flight.is_empty() {
            self.launched(at, seq, None, None, Effect::Failed(subject, cause, message));
            return;
        }
        self.fail(at, &subject, cause, message);
        self.launched(at, seq, None, None, Effect::None);
    }

    /// Poisons the outputs of an instruction with poison that it read, or else with its own
    /// failure.
    pub(super) fn fail(&mut self, at: usize, subject: &Subject, cause: Cause, message: String) {
        // It may have been launched before the failure was known that left it nothing to read.
        let poison = subject.poison(&self.tables);
        let is_own = poison.is_none();
        self.note_outcome(at, if is_own { Outcome::Failed } else { Outcome::Skipped });
        let failure = poison.unwrap_or_else(|| {
            subject.failure(&self.tables, &self.streams[at].key, cause, message)
        });
        subject.skip(&self.tables, &failure);
    }

    /// Heals the outputs of a call, or poisons them with its failure or with poison that it read.
    pub(super) fn finish_call(&mut self, at: usize, subject: &Subject, result: WorkResult) {
        match result {
            Err(error) => {
                let (cause, message) = cause_of(&error);
                self.fail(at, subject, cause, message);
            }
            Ok(()) => match subject.poison(&self.tables) {
                // It was launched behind a wait on the device, before the failure was known.
                Some(cause) => {
                    subject.skip(&self.tables, &cause);
                    self.note_outcome(at, Outcome::Skipped);
                }
                None => subject.heal(&self.tables),
            },
        }
    }

    /// Handles the external completion of instruction `seq`.
    pub(super) fn external_done(&mut self, at: usize, seq: u64, result: WorkResult) {
        let awaits = |h: &mut ExternalCompletion| h.subject.point().is_some_and(|at| at.seq == seq);
        // A device that refused a call after its kernel had run does not wait for the token.
        let Some(ExternalCompletion { subject, so_far }) =
            self.streams[at].external.take_if(awaits)
        else {
            return;
        };
        match so_far.and(result) {
            Ok(()) if self.is_launched_collective(at, &subject) => {
                self.follow(at, seq, subject, Effect::Collective);
            }
            // The function may have launched work on its native stream.
            Ok(()) if self.is_launched_function(at, &subject) => {
                self.follow(at, seq, subject, Effect::Call);
            }
            Err(error) if !self.streams[at].in_flight.is_empty() => {
                self.refused(at, seq, subject, cause_of(&error));
            }
            result => {
                self.finish_call(at, &subject, result);
                self.launched(at, seq, None, None, Effect::None);
            }
        }
    }
}
