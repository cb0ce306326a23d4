//! A stream whose commands fail as planned.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use millstream_types::{Error, Result};

use crate::device::{Event, Progress, Stream, Ticket, Work, WorkResult};

use super::plan::{Fault, Site};
use super::state::DeviceState;

/// An event. Its newest record may stand on a stream that never completes.
pub(super) struct FaultyEvent {
    pub(super) inner: Arc<dyn Event>,
    pub(super) device: Arc<DeviceState>,
    pub(super) stuck: AtomicBool,
}

impl Event for FaultyEvent {
    fn query(&self) -> Result<bool> {
        self.device.check()?;
        Ok(!self.stuck.load(Ordering::SeqCst) && self.inner.query()?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A stream.
pub(super) struct FaultyStream {
    inner: Box<dyn Stream>,
    device: Arc<DeviceState>,
    /// The ticket of the newest command.
    last: Ticket,
    /// Whether it takes commands and completes none of them.
    stuck: bool,
    /// The commands that are to be reported as failed.
    late: Vec<Ticket>,
}

impl FaultyStream {
    pub(super) fn new(inner: Box<dyn Stream>, device: Arc<DeviceState>) -> FaultyStream {
        FaultyStream { inner, device, last: 0, stuck: false, late: Vec::new() }
    }

    /// A command is handed over: the faults that any command can meet, and those of its own site.
    fn command(&mut self, site: Site) -> Result<Option<Fault>> {
        let any = self.device.at(Site::Command);
        let own = self.device.at(site);
        match any {
            Some(Fault::DeviceLost) => self.device.lose(),
            Some(Fault::NeverCompletes) => self.stick(),
            _ => {}
        }
        self.device.check()?;
        Ok(own)
    }

    fn stick(&mut self) {
        self.stuck = true;
        self.device.stick();
    }

    /// Takes a command that will never complete.
    fn keep(&mut self) -> Result<Progress> {
        if !self.device.asynchronous {
            self.device.plan.block();
            self.device.lose();
            return Err(self.device.error("is lost"));
        }
        self.last += 1;
        Ok(Progress::Pending(self.last))
    }

    fn note(&mut self, progress: Progress) -> Progress {
        if let Progress::Pending(ticket) = progress {
            self.last = ticket;
        }
        progress
    }

    /// Notes that a record or a wait is to be reported as failed.
    fn fail_late(&mut self, progress: Progress, what: &str) -> Progress {
        match progress {
            Progress::Pending(ticket) => {
                self.late.push(ticket);
                progress
            }
            Progress::Done(_) => Progress::Done(Err(failed_late(&self.device, what))),
        }
    }

    fn own<'a>(&self, event: &'a Arc<dyn Event>) -> Result<&'a FaultyEvent> {
        let event = known(event)?;
        if !Arc::ptr_eq(&event.device, &self.device) {
            let message = format!("it belongs to another device than {}", self.device.id);
            return Err(Error::Invalid { what: "event", message });
        }
        Ok(event)
    }
}

/// An event of this backend's; whether its device is one to wait for, what is wrapped knows.
fn known(event: &Arc<dyn Event>) -> Result<&FaultyEvent> {
    event.as_any().downcast_ref::<FaultyEvent>().ok_or_else(|| Error::Invalid {
        what: "event",
        message: "it belongs to another backend".to_owned(),
    })
}

impl Stream for FaultyStream {
    fn submit(&mut self, work: &mut dyn Work) -> Result<Progress> {
        let fault = self.command(Site::Launch)?;
        if self.stuck {
            return self.keep();
        }
        if fault == Some(Fault::LaunchRefused) {
            return Err(self.device.error("refuses the launch"));
        }
        let mut work = Borrowed { work, fault, device: &self.device };
        let progress = self.inner.submit(&mut work)?;
        Ok(self.note(progress))
    }

    fn record(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let own = self.own(event)?;
        let fault = self.command(Site::Record)?;
        if fault == Some(Fault::RecordRefused) {
            return Err(self.device.error("refuses the record"));
        }
        own.stuck.store(self.stuck, Ordering::SeqCst);
        if self.stuck {
            return self.keep();
        }
        let progress = self.inner.record(&own.inner)?;
        let progress = self.note(progress);
        Ok(match fault {
            Some(Fault::RecordFailsLate) => self.fail_late(progress, "record"),
            _ => progress,
        })
    }

    fn wait(&mut self, event: &Arc<dyn Event>) -> Result<Progress> {
        let event = known(event)?;
        let fault = self.command(Site::Wait)?;
        if fault == Some(Fault::WaitRefused) {
            return Err(self.device.error("refuses the wait"));
        }
        if event.stuck.load(Ordering::SeqCst) {
            self.stick();
        }
        if self.stuck {
            return self.keep();
        }
        let progress = self.inner.wait(&event.inner)?;
        let progress = self.note(progress);
        Ok(match fault {
            Some(Fault::WaitFailsLate) => self.fail_late(progress, "wait"),
            _ => progress,
        })
    }

    fn poll(&mut self, done: &mut dyn FnMut(Ticket, WorkResult)) -> Result<()> {
        if self.device.is_lost() {
            // What was handed over does nothing any more, but holds on to its operands until the
            // device has got to it.
            let drained = self.inner.poll(&mut |_, _| {});
            return if self.device.is_lost_and_quiet() { self.device.check() } else { drained };
        }
        let FaultyStream { inner, device, late, .. } = self;
        inner.poll(&mut |ticket, result| match late.iter().position(|t| *t == ticket) {
            Some(at) => {
                late.swap_remove(at);
                done(ticket, Err(failed_late(device, "command")));
            }
            None => done(ticket, result),
        })
    }
}

fn failed_late(device: &DeviceState, what: &str) -> anyhow::Error {
    device.error(&format!("reports that a {what} has failed")).into()
}

/// Work that fails as planned, as it is handed over.
struct Borrowed<'a> {
    work: &'a mut dyn Work,
    fault: Option<Fault>,
    device: &'a Arc<DeviceState>,
}

/// Work that fails as planned, run later.
struct Owned {
    work: Box<dyn Work>,
    fault: Option<Fault>,
    device: Arc<DeviceState>,
}

fn run(
    device: &DeviceState,
    fault: Option<Fault>,
    work: &mut dyn Work,
    native: &dyn Any,
) -> WorkResult {
    let Some(_running) = device.begin() else { bail!("{}", device.error("is lost")) };
    match fault {
        Some(Fault::WorkError) => bail!("the work fails (a planned fault)"),
        // `resume_unwind` does not call the panic hook, so a planned panic prints nothing.
        Some(Fault::WorkPanic) => resume_unwind(Box::new("the work panics (a planned fault)")),
        Some(Fault::WorkErrorAfterAll) => {
            work.run(native)?;
            bail!("the work fails after all (a planned fault)")
        }
        _ => work.run(native),
    }
}

impl Work for Borrowed<'_> {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        run(self.device, self.fault, self.work, native)
    }

    fn runs_on_host(&self) -> bool {
        self.work.runs_on_host()
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let device = self.device.clone();
        Box::new(Owned { work: self.work.detach(), fault: self.fault, device })
    }
}

impl Work for Owned {
    fn run(&mut self, native: &dyn Any) -> WorkResult {
        run(&self.device, self.fault, &mut *self.work, native)
    }

    fn runs_on_host(&self) -> bool {
        self.work.runs_on_host()
    }

    fn detach(&mut self) -> Box<dyn Work> {
        let (fault, device) = (self.fault, self.device.clone());
        Box::new(Owned { work: self.work.detach(), fault, device })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use millstream_types::DeviceId;

    use super::*;
    use crate::faults::FaultPlan;
    use crate::run::caught;

    struct Nothing;

    impl Work for Nothing {
        fn run(&mut self, _: &dyn Any) -> WorkResult {
            Ok(())
        }

        fn detach(&mut self) -> Box<dyn Work> {
            Box::new(Nothing)
        }
    }

    #[test]
    fn work_panics_as_planned() {
        let device = DeviceState::new(DeviceId::cpu(0), FaultPlan::new(), false);
        let panicked = caught(|| run(&device, Some(Fault::WorkPanic), &mut Nothing, &()));
        assert!(panicked.unwrap_err().to_string().contains("a planned fault"));
    }

    #[test]
    fn a_planned_panic_prints_nothing() {
        let tests = std::env::current_exe().unwrap();
        let planned = "faults::stream::tests::work_panics_as_planned";
        let mut command = Command::new(tests);
        let command = command.args(["--exact", planned, "--nocapture"]).env("RUST_BACKTRACE", "1");
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}
