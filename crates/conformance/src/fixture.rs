//! The fixture of a check: an open device, and the means to drive it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, ensure};
use millstream_backoff::{Backoff, POLLS};
use millstream_ep::device::{Backend, Device, Event, Progress, Stream, Ticket, Work, WorkResult};
use millstream_ep::graph::Graph;

use crate::{Call, Harness};

/// A device under test, with its harness.
pub struct Fixture<'a> {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// The backend's device 0, or 1 for `second_device`.
    pub device: Arc<dyn Device>,
    /// The means to drive the device.
    pub harness: &'a dyn Harness,
}

/// A stream under test, with the results that it has reported. It checks tickets and the order of
/// completions.
pub(super) struct TestStream<'a> {
    pub(super) harness: &'a dyn Harness,
    pub(super) stream: Box<dyn Stream>,
    /// The tickets of the commands without a reported completion.
    pending: Vec<Ticket>,
    /// The number of submitted commands.
    submitted: u64,
    /// Results in the order of completion.
    pub(super) results: Vec<WorkResult>,
    /// The number of calls of the notify function.
    pub(super) notified: Arc<AtomicUsize>,
}

/// The entries of the works that have run, in order. Shared with the works.
#[derive(Clone, Default)]
pub(super) struct RunLog(Arc<Mutex<Vec<u64>>>);

impl RunLog {
    /// Returns a call that appends `entry`.
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

impl<'a> Fixture<'a> {
    /// Opens device 0 of a backend.
    ///
    /// # Errors
    /// The backend has no devices, or the device cannot be opened.
    pub fn open(
        backend: &Arc<dyn Backend>,
        harness: &'a dyn Harness,
    ) -> anyhow::Result<Fixture<'a>> {
        ensure!(backend.count()? > 0, "the backend has no devices");
        Ok(Fixture { backend: backend.clone(), device: backend.open(0)?, harness })
    }

    pub(super) fn stream(&self) -> anyhow::Result<TestStream<'a>> {
        let notified = Arc::new(AtomicUsize::new(0));
        let count = notified.clone();
        let notify = Arc::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        Ok(TestStream {
            harness: self.harness,
            stream: self.device.create_stream(notify).context("create_stream")?,
            pending: Vec::new(),
            submitted: 0,
            results: Vec::new(),
            notified,
        })
    }

    /// Returns a fixture of device 1, if there is one.
    pub(super) fn second_device(&self) -> anyhow::Result<Option<Fixture<'a>>> {
        if self.backend.count()? < 2 {
            return Ok(None);
        }
        let (backend, device) = (self.backend.clone(), self.backend.open(1)?);
        Ok(Some(Fixture { backend, device, harness: self.harness }))
    }

    pub(super) fn event(&self) -> anyhow::Result<Arc<dyn Event>> {
        self.device.create_event().context("create_event")
    }
}

impl TestStream<'_> {
    /// Submits a call of a host function.
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

    pub(super) fn launch(&mut self, graph: &mut dyn Graph, words: &[i64]) -> anyhow::Result<()> {
        let graphs = self.stream.graphs().context("the stream has no graphs")?;
        let progress = graphs.launch(graph, words).context("launch")?;
        self.account(progress)
    }

    /// Checks and stores the progress of a new command. A command that is done at once must not
    /// overtake a pending one.
    fn account(&mut self, progress: Progress) -> anyhow::Result<()> {
        self.submitted += 1;
        match progress {
            Progress::Pending(ticket) => {
                let number = self.submitted;
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

    /// Polls once. Checks that completions are reported in order, each once.
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

    /// Drives the device until the stream has reported all its commands.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let harness = self.harness;
        drive_until(harness, "the stream's commands", || {
            self.poll()?;
            Ok(self.pending.is_empty())
        })?;
        ensure!(self.results.len() as u64 == self.submitted, "a result is missing");
        // A completion that is reported again fails here.
        self.poll()
    }

    /// Does as [`TestStream::finish`], and checks that every command has succeeded.
    pub(super) fn finish_ok(&mut self) -> anyhow::Result<()> {
        self.finish()?;
        match self.results.iter().find_map(|r| r.as_ref().err()) {
            None => Ok(()),
            Some(error) => anyhow::bail!("a command failed: {error:#}"),
        }
    }
}

/// Drives the device until `reached` returns true.
pub(super) fn drive_until(
    harness: &dyn Harness,
    what: &str,
    mut reached: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let (start, mut backoff) = (Instant::now(), Backoff::new(POLLS));
    while !reached()? {
        let most = harness.patience();
        ensure!(start.elapsed() < most, "{what} did not complete within {most:?}");
        harness.progress();
        backoff.snooze();
    }
    Ok(())
}
