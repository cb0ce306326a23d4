//! A stream whose commands fail as planned.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream_types::{Error, Result};

use crate::device::{Event, Progress, Stream, Ticket, Work, WorkResult};
use crate::graph::GraphStream;

use super::event::FaultyEvent;
use super::plan::{Fault, Site};
use super::state::FaultState;
use super::work::FaultyWork;

/// A stream of a faulty device.
pub(super) struct FaultyStream {
    pub(super) inner: Box<dyn Stream>,
    pub(super) device: Arc<FaultState>,
    /// The ticket of the newest command.
    last: Ticket,
    /// Whether the stream accepts commands and completes none of them.
    pub(super) stuck: bool,
    /// The pending commands that will be reported as failed.
    fail_late: Vec<Ticket>,
}

impl FaultyStream {
    pub(super) fn new(inner: Box<dyn Stream>, device: Arc<FaultState>) -> FaultyStream {
        FaultyStream { inner, device, last: 0, stuck: false, fail_late: Vec::new() }
    }

    /// Counts a submission. Applies a fault of [`Site::Command`] and returns a fault of `site`.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) fn count_command(&mut self, site: Site) -> Result<Option<Fault>> {
        let of_any_command = self.device.count_call(Site::Command);
        let of_site = self.device.count_call(site);
        match of_any_command {
            Some(Fault::DeviceLost) => self.device.mark_lost(),
            Some(Fault::NeverCompletes) => self.mark_stuck(),
            _ => {}
        }
        self.device.check()?;
        Ok(of_site)
    }

    fn mark_stuck(&mut self) {
        self.stuck = true;
        self.device.mark_stuck();
    }

    /// Accepts a command on a stuck stream: it never completes.
    pub(super) fn accept_stuck(&mut self) -> Result<Progress> {
        if !self.device.asynchronous {
            self.device.plan.block_until_released();
            self.device.mark_lost();
            return Err(self.device.error("is lost"));
        }
        self.last += 1;
        Ok(Progress::Pending(self.last))
    }

    pub(super) fn keep_ticket(&mut self, progress: Progress) -> Progress {
        if let Progress::Pending(ticket) = progress {
            self.last = ticket;
        }
        progress
    }

    /// Makes a record or a wait be reported as failed.
    pub(super) fn report_as_failed(&mut self, progress: Progress, what: &str) -> Progress {
        match progress {
            Progress::Pending(ticket) => {
                self.fail_late.push(ticket);
                progress
            }
            Progress::Done(_) => Progress::Done(Err(failed_late(&self.device, what))),
        }
    }

    /// Returns `event` as an event of this stream's device.
    fn own_event<'a>(&self, event: &'a Arc<dyn Event>) -> Result<&'a FaultyEvent> {
        let event = FaultyEvent::downcast(event)?;
        if !Arc::ptr_eq(&event.state, &self.device) {
            let message = format!("it belongs to another device than {}", self.device.id);
            return Err(Error::Invalid { what: "event", message });
        }
        Ok(event)
    }
}

impl Stream for FaultyStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        let fault = self.count_command(Site::Launch)?;
        if self.stuck {
            return self.accept_stuck();
        }
        if fault == Some(Fault::LaunchRefused) {
            return Err(self.device.error("refuses the launch"));
        }
        let mut work = FaultyWork { work, fault, device: self.device.clone() };
        let progress = self.inner.submit(&mut work)?;
        Ok(self.keep_ticket(progress))
    }

    fn native(&self) -> &dyn Any {
        self.inner.native()
    }

    fn share_native(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.inner.share_native()
    }

    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let event = self.own_event(event)?;
        let fault = self.count_command(Site::Record)?;
        if fault == Some(Fault::RecordRefused) {
            return Err(self.device.error("refuses the record"));
        }
        event.stuck.store(self.stuck, Ordering::SeqCst);
        if self.stuck {
            return self.accept_stuck();
        }
        let progress = self.inner.record(&event.inner)?;
        let progress = self.keep_ticket(progress);
        Ok(match fault {
            Some(Fault::RecordFailsLate) => self.report_as_failed(progress, "record"),
            _ => progress,
        })
    }

    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let event = FaultyEvent::downcast(event)?;
        let fault = self.count_command(Site::Wait)?;
        if fault == Some(Fault::WaitRefused) {
            return Err(self.device.error("refuses the wait"));
        }
        if event.stuck.load(Ordering::SeqCst) {
            self.mark_stuck();
        }
        if self.stuck {
            return self.accept_stuck();
        }
        let progress = self.inner.wait(&event.inner)?;
        let progress = self.keep_ticket(progress);
        Ok(match fault {
            Some(Fault::WaitFailsLate) => self.report_as_failed(progress, "wait"),
            _ => progress,
        })
    }

    fn graphs(&mut self) -> Option<&mut dyn GraphStream> {
        self.inner.graphs()?;
        Some(self)
    }

    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        if self.device.is_lost() {
            // Submitted work has no effect any more, but holds its operands until the wrapped
            // device has run it, so the wrapped stream is drained first.
            let drained = self.inner.poll(&mut |_, _| {});
            return if self.device.is_lost_and_idle() { self.device.check() } else { drained };
        }
        let FaultyStream { inner, device, fail_late, .. } = self;
        inner.poll(&mut |ticket, result| match fail_late.iter().position(|t| *t == ticket) {
            Some(index) => {
                fail_late.swap_remove(index);
                done(ticket, Err(failed_late(device, "command")));
            }
            None => done(ticket, result),
        })
    }
}

fn failed_late(device: &FaultState, what: &str) -> anyhow::Error {
    device.error(&format!("reports that a {what} has failed")).into()
}
