//! A CUDA stream: launches what it is given, and reports what has completed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{DeviceId, Error, Result};

use crate::cuda::abroad::Abroad;
use crate::cuda::driver::{Answer, DriverError};
use crate::cuda::event::CudaEvent;
use crate::cuda::markers::{Markers, Polled};
use crate::cuda::native::Native;
use crate::cuda::verdict::Verdict;
use crate::cuda::{Completion, device_error};
use crate::device::{Event, Notify, Progress, Stream, Ticket, Work, WorkResult};
use crate::run::run_caught;

/// What a command came to, told when it has completed.
enum Outcome {
    /// Known since it was launched.
    Known(WorkResult),
    /// Said by kernels that have run; unless it was known before.
    Judged(WorkResult, Vec<Verdict>),
    /// The host's work, which writes it down when the stream gets there.
    Host(Arc<Mutex<Option<WorkResult>>>),
}

/// A stream of a device.
pub(super) struct CudaStream {
    native: Native,
    completion: Completion,
    notify: Notify,
    last: Ticket,
    /// Handed over and not reported, in order; the last has the ticket `last`.
    commands: VecDeque<Outcome>,
    markers: Markers,
    abroad: Abroad,
    /// Whether nobody calls when the newest marker has completed.
    unannounced: bool,
    /// Why nothing runs on the stream any more.
    lost: Option<Error>,
}

impl CudaStream {
    pub(super) fn new(
        native: Native,
        completion: Completion,
        notify: Notify,
    ) -> Answer<CudaStream> {
        Ok(CudaStream {
            markers: Markers::new(native.raw().context())?,
            native,
            completion,
            notify,
            last: 0,
            commands: VecDeque::new(),
            abroad: Abroad::default(),
            unannounced: false,
            lost: None,
        })
    }

    fn device(&self) -> &DeviceId {
        self.native.device()
    }

    fn error(&self, error: &DriverError) -> Error {
        device_error(self.device(), error)
    }

    fn pending(&mut self, outcome: Outcome) -> Progress {
        self.last += 1;
        self.commands.push_back(outcome);
        Progress::Pending(self.last)
    }

    /// An event of any device's, and whether it is one of the stream's own.
    fn known<'a>(&self, event: &'a Arc<dyn Event>) -> Result<(&'a CudaEvent, bool)> {
        let event = event.as_any().downcast_ref::<CudaEvent>().ok_or_else(|| Error::Invalid {
            what: "event",
            message: "it belongs to another backend".to_owned(),
        })?;
        Ok((event, event.is_of(self.native.opened())))
    }

    /// Has the host do work when the stream gets there.
    fn host(&mut self, work: &mut dyn Work) -> Result<Outcome> {
        let result = Arc::new(Mutex::new(None));
        let (mut work, to) = (work.detach(), result.clone());
        let run = move || {
            let result = run_caught(&mut *work, &());
            // What the work holds is let go of before anybody hears of its end.
            drop(work);
            *to.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        };
        self.native.raw().host(Box::new(run)).map_err(|e| self.error(&e))?;
        Ok(Outcome::Host(result))
    }

    /// Has the driver call behind a new marker. If it refuses, or has refused the marker, the worker
    /// is told at once to poll again, for as long as nothing has come of it.
    fn announce(&mut self, polled: &Polled) -> Result<()> {
        if polled.completed.is_some() {
            self.unannounced = false;
        }
        if polled.recorded {
            let notify = self.notify.clone();
            if let Err(error) = self.native.raw().host(Box::new(move || notify())) {
                self.native.raw().query().map_err(|_| self.error(&error))?;
                self.unannounced = true;
            }
        }
        if self.unannounced || polled.refused {
            (self.notify)();
        }
        Ok(())
    }

    /// Reports what has completed.
    fn look(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        let polled = self.markers.poll(self.native.raw(), self.last).map_err(|e| self.error(&e))?;
        if self.completion == Completion::Called {
            self.announce(&polled)?;
        }
        if let Some(ticket) = polled.completed {
            self.abroad.passed(ticket);
            self.report(ticket, done);
        }
        Ok(())
    }

    /// Reports what has completed. Returns why the stream is lost, if it is.
    fn look_for_loss(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Option<Error> {
        if let Err(error) = self.look(done) {
            // Those of other devices that wait for this one look here.
            let _ = self.native.opened().lost.set(error.clone());
            return Some(error);
        }
        let stuck = self.abroad.stuck(self.native.device())?;
        // To free something the driver would wait for this stream.
        self.native.raw().context().give_up();
        Some(stuck)
    }

    /// Reports all commands up to `ticket`.
    fn report(&mut self, ticket: Ticket, done: &mut dyn FnMut(Ticket, WorkResult)) {
        let mut next = self.last - self.commands.len() as Ticket + 1;
        while next <= ticket {
            let Some(outcome) = self.commands.pop_front() else { return };
            let result = match outcome {
                Outcome::Known(result) => result,
                Outcome::Judged(known, asked) => {
                    let judged = self.native.judge(asked);
                    known.and(judged)
                }
                Outcome::Host(result) => {
                    let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
                    result.unwrap_or_else(|| Err(anyhow::anyhow!("the driver never called it")))
                }
            };
            done(next, result);
            next += 1;
        }
    }
}

impl Stream for CudaStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        let outcome = match work.runs_on_host() {
            true => self.host(work)?,
            false => {
                let result = run_caught(work, &self.native);
                let asked = self.native.asked();
                match asked.is_empty() {
                    true => Outcome::Known(result),
                    false => Outcome::Judged(result, asked),
                }
            }
        };
        Ok(self.pending(outcome))
    }

    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let (event, is_own) = self.known(event)?;
        if !is_own {
            let message = format!("it belongs to another device than {}", self.device());
            return Err(Error::Invalid { what: "event", message });
        }
        self.native.raw().record(event.raw()).map_err(|e| self.error(&e))?;
        event.note_record(self.abroad.devices());
        Ok(self.pending(Outcome::Known(Ok(()))))
    }

    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let (event, _) = self.known(event)?;
        if !event.is_recorded() {
            let message = format!("the event of {} has never been recorded", self.device());
            return Err(Error::Invalid { what: "wait", message });
        }
        self.native.raw().wait(event.raw()).map_err(|e| self.error(&e))?;
        let progress = self.pending(Outcome::Known(Ok(())));
        self.abroad.wait(self.last, event.abroad(self.native.opened()));
        Ok(progress)
    }

    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        if self.commands.is_empty() {
            return Ok(());
        }
        if self.lost.is_none() {
            self.lost = self.look_for_loss(done);
        }
        let Some(error) = &self.lost else { return Ok(()) };
        if self.native.raw().withdraw() {
            return Err(error.clone());
        }
        // A function of the host's still runs. The engine gives its tensors and memory to others
        // once it knows of the loss. Nobody notifies the engine when the function ends.
        if self.completion == Completion::Called {
            (self.notify)();
        }
        Ok(())
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if !self.commands.is_empty() {
            self.native.abandon();
        }
    }
}
