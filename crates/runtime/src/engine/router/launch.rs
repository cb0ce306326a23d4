//! Launches of executables: the streams that run tapes, and the tasks of a launch.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_types::{Error, Point, Result, StreamId, StreamKey};

use crate::driver::Driver;
use crate::tapes::run::{Playing, Run};
use crate::tapes::tape::Tape;
use crate::thread_ctx::task::Task;

use super::{OpenStream, Router};

/// The streams that run tapes. Their ids count down, those of the program up.
#[derive(Default)]
pub(super) struct TapeStreams {
    /// The last point given to each stream, from the highest id down.
    tails: Vec<u64>,
    /// All of them, in the same order.
    pub(super) all: Vec<OpenStream>,
    /// The streams of dropped executables, by key and worker.
    free: HashMap<(StreamKey, usize), Vec<OpenStream>>,
}

impl TapeStreams {
    fn tail(&mut self, stream: StreamId) -> &mut u64 {
        &mut self.tails[usize::from(u16::MAX - stream.0)]
    }
}

impl Router {
    /// Returns streams for the tapes of a new instance, which is first launched on the stream `on`.
    /// The worker of that stream also runs the first tape of the host, so that a launch needs no
    /// other thread; further tapes get the workers after it.
    pub fn open_tapes(&mut self, tapes: &[Tape], on: StreamId) -> Result<Box<[OpenStream]>> {
        if self.only_checks() {
            return Ok(Box::default());
        }
        self.precompile_tapes(tapes);
        let own = self.opened(on).worker();
        let mut opened = Vec::with_capacity(tapes.len());
        for tape in tapes {
            let worker = match tape.on_host {
                Some(0) => own,
                Some(k) => self.driver.host_worker_after(&self.tables, own, usize::from(k))?,
                None => {
                    let key = &tape.key;
                    let group = self.tables.policies.query(key, |p| p.worker_group(key))?;
                    self.driver.own_worker(&self.tables, group)?
                }
            };
            opened.push(self.tape_stream(&tape.key, worker)?);
        }
        Ok(opened.into())
    }

    fn tape_stream(&mut self, key: &StreamKey, worker: usize) -> Result<OpenStream> {
        let free = self.tapes.free.get_mut(&(key.clone(), worker)).and_then(Vec::pop);
        if let Some(free) = free {
            return Ok(free);
        }
        let used = self.tapes.tails.len();
        let id = usize::from(u16::MAX).checked_sub(used).filter(|id| *id > self.streams.len());
        let Some(id) = id else {
            let message = "a machine has no more streams for the tapes of executables".to_owned();
            return Err(Error::Invalid { what: "stream", message });
        };
        let open = self.assign(StreamId(id as u16), key, worker);
        self.tapes.tails.push(0);
        self.tapes.all.push(open);
        Ok(open)
    }

    /// Takes back the streams of a dropped executable. Its launches may not have completed yet: the
    /// next tape of a stream begins after them.
    pub(crate) fn close_tapes(&mut self, tapes: impl IntoIterator<Item = (StreamKey, OpenStream)>) {
        for (key, stream) in tapes {
            self.tapes.free.entry((key, stream.worker())).or_default().push(stream);
        }
    }

    /// Returns where the tapes of the next launch begin.
    pub fn playing(&mut self, tapes: &[OpenStream]) -> SmallVec<[Playing; 4]> {
        let playing =
            |&stream: &OpenStream| Playing { stream, base: *self.tapes.tail(stream.id()) };
        tapes.iter().map(playing).collect()
    }

    /// Gives a launch to the workers: its begin, its tapes, and its end. The instruction itself was
    /// emitted before.
    pub fn launch(&mut self, run: &Arc<Run>) {
        if self.only_checks() {
            return;
        }
        let Point { stream, seq } = run.at;
        if let Some(times) = &self.times {
            times.launch(run);
        }
        let own = self.opened(stream);
        // One entry of the worker's queue instead of three: the worker alone counts references
        // then. A simulated worker takes them one by one, so that others may come between, and the
        // watchdog watches each.
        let at_once = self.watchdog.is_none() && !matches!(self.driver, Driver::Simulated(_));
        if at_once {
            self.submit(stream, seq, Task::Launch(run.clone()));
        } else {
            self.submit(stream, seq, Task::BeginLaunch(run.clone()));
        }
        for (k, playing) in run.tapes.iter().enumerate() {
            let on = playing.stream;
            *self.tapes.tail(on.id()) = run.end_of(k).seq;
            if at_once && on.worker() == own.worker() {
                self.tables.backlog.add();
                continue;
            }
            let (stream, tape) = (on.id(), k as u16);
            self.push(on, Task::Play { stream, tape, next: 0, run: run.clone() });
        }
        if at_once {
            self.tables.backlog.add();
        } else {
            self.push(own, Task::EndLaunch(run.clone()));
        }
    }
}
