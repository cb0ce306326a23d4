//! The test bed of a check: an open device, and the means to drive it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::conformance::{Call, Harness};
use crate::device::{Backend, Device, Event, Progress, Stream, Ticket, Work, WorkResult};

/// After this long without an end a device is taken to hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// A device and how to drive it.
pub struct Bed<'a> {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// Its device 0.
    pub device: Arc<dyn Device>,
    /// How to drive it.
    pub harness: &'a dyn Harness,
}

/// A stream under test, with what it has reported.
pub(super) struct Lane<'a> {
    pub(super) harness: &'a dyn Harness,
    pub(super) stream: Box<dyn Stream>,
    /// Commands handed over whose completion was not reported, by ticket.
    pending: Vec<Ticket>,
    /// The number of commands handed over.
    handed_over: u64,
    /// Results in the order of completion.
    pub(super) results: Vec<WorkResult>,
    pub(super) notified: Arc<AtomicUsize>,
}

/// What ran, in order. Shared with the works.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    /// A call that writes `entry` down.
    pub(super) fn entry(&self, entry: u64) -> Call {
        let log = self.clone();
        Box::new(move || log.0.lock().expect("no entry panics").push(entry))
    }

    pub(super) fn entries(&self) -> Vec<u64> {
        self.0.lock().expect("no entry panics").clone()
    }

    pub(super) fn has(&self, entry: u64) -> bool {
        self.entries().contains(&entry)
    }
}

impl<'a> Bed<'a> {
    /// Opens device 0 of a backend.
    ///
    /// # Errors
    /// There is none.
    pub fn open(backend: &Arc<dyn Backend>, harness: &'a dyn Harness) -> anyhow::Result<Bed<'a>> {
        ensure!(backend.count()? > 0, "the backend has no devices");
        Ok(Bed { backend: backend.clone(), device: backend.open(0)?, harness })
    }

    pub(super) fn lane(&self) -> anyhow::Result<Lane<'a>> {
        let notified = Arc::new(AtomicUsize::new(0));
        let count = notified.clone();
        let notify = Arc::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        Ok(Lane {
            harness: self.harness,
            stream: self.device.create_stream(notify).context("create_stream")?,
            pending: Vec::new(),
            handed_over: 0,
            results: Vec::new(),
            notified,
        })
    }

    /// A bed on device 1, if there is one.
    pub(super) fn second(&self) -> anyhow::Result<Option<Bed<'a>>> {
        if self.backend.count()? < 2 {
            return Ok(None);
        }
        let (backend, device) = (self.backend.clone(), self.backend.open(1)?);
        Ok(Some(Bed { backend, device, harness: self.harness }))
    }

    pub(super) fn event(&self) -> anyhow::Result<Arc<dyn Event>> {
        self.device.create_event().context("create_event")
    }
}

impl Lane<'_> {
    /// Hands over a call to the host.
    pub(super) fn call(&mut self, call: Call) -> anyhow::Result<()> {
        let mut work = self.harness.call(call);
        self.submit(&mut *work)
    }

    pub(super) fn submit(&mut self, work: &mut dyn Work) -> anyhow::Result<()> {
        let progress = self.stream.submit(work).context("submit")?;
        self.account(progress)
    }

    pub(super) fn record(&mut self, event: &Arc<dyn Event>) -> anyhow::Result<()> {
        let progress = self.stream.record(event).context("record")?;
        self.account(progress)
    }

    pub(super) fn wait(&mut self, event: &Arc<dyn Event>) -> anyhow::Result<()> {
        let progress = self.stream.wait(event).context("wait")?;
        self.account(progress)
    }

    /// Notes what became of a command. A command done at once must not overtake a pending one.
    fn account(&mut self, progress: Progress) -> anyhow::Result<()> {
        self.handed_over += 1;
        match progress {
            Progress::Pending(ticket) => {
                let number = self.handed_over;
                ensure!(ticket == number, "command {number} was given ticket {ticket}");
                self.pending.push(ticket);
            }
            Progress::Done(result) => {
                ensure!(self.pending.is_empty(), "done before the commands {:?}", self.pending);
                self.results.push(result);
            }
        }
        Ok(())
    }

    /// Polls once. Completions must come in order, each once.
    pub(super) fn poll(&mut self) -> anyhow::Result<()> {
        let mut reported = Vec::new();
        self.stream.poll(&mut |ticket, result| reported.push((ticket, result))).context("poll")?;
        for (ticket, result) in reported {
            let expected = self.pending.first().copied();
            ensure!(expected == Some(ticket), "{ticket} was reported, {expected:?} is next");
            self.pending.remove(0);
            self.results.push(result);
        }
        Ok(())
    }

    /// Drives the device until all commands of the stream have been reported.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let harness = self.harness;
        until(harness, "the stream's commands", || {
            self.poll()?;
            Ok(self.pending.is_empty())
        })?;
        ensure!(self.results.len() as u64 == self.handed_over, "a result is missing");
        // Nothing may be reported twice.
        self.poll()
    }

    /// [`Lane::finish`], with every command having succeeded.
    pub(super) fn finish_well(&mut self) -> anyhow::Result<()> {
        self.finish()?;
        match self.results.iter().find_map(|r| r.as_ref().err()) {
            None => Ok(()),
            Some(error) => anyhow::bail!("a command failed: {error:#}"),
        }
    }
}

/// Drives the device until `enough` says so.
pub(super) fn until(
    harness: &dyn Harness,
    what: &str,
    mut enough: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let start = Instant::now();
    while !enough()? {
        ensure!(start.elapsed() < PATIENCE, "no end of {what} after {PATIENCE:?}");
        harness.progress();
        std::thread::yield_now();
    }
    Ok(())
}
