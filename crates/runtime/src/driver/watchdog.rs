//! The watchdog: pending instructions, and whether the first of them has been pending for too long.
//!
//! # Rules
//! 1. The engine notes every instruction that it gives to a worker; a thread checks the points
//!    regularly. Workers are not involved, and read no clock.
//! 2. Only a first cause is overdue: an instruction at the head of its stream that waits for no
//!    other stream. An instruction that waits, however long, is as fast as the one that it waits
//!    for.
//! 3. An instruction that completes after all is no longer overdue.
//! 4. A tape is one entry. The step at which it stands follows from the points of its stream: on a
//!    machine with a watchdog each step is published.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use millstream_instructions::Kind;
use millstream_types::overdue::{Overdue, StreamProgress, Waiting};
use millstream_types::{Error, OpId, Origin, Point, Result, StreamId, StreamKey};

use crate::sync::points::Milestone;
use crate::sync::{AtomicBool, Builder, JoinHandle, Mutex, MutexGuard, Ordering, park_timeout};
use crate::tables::Tables;
use crate::tapes::place::Place;
use crate::tapes::run::Playing;
use crate::tapes::tape::Program;
use crate::thread_ctx::task::Task;

/// A pending instruction.
struct Submitted {
    seq: u64,
    kind: &'static str,
    op: Option<OpId>,
    origin: Origin,
    /// Points of other streams that it waits for.
    until: Vec<(Point, Milestone)>,
    /// Its steps, if it is a tape: one entry stands for all of them.
    tape: Option<TapeOfLaunch>,
}

/// A tape of a launch.
struct TapeOfLaunch {
    program: Arc<Program>,
    /// All tapes of the launch.
    tapes: SmallVec<[Playing; 4]>,
    tape: usize,
}

#[derive(Default)]
struct WatchedStream {
    key: Option<StreamKey>,
    submitted: VecDeque<Submitted>,
    tail: u64,
    /// The waits of the next instruction.
    gates: Vec<(Point, Milestone)>,
    /// How many instructions had completed at the last check, and since when.
    seen: Option<(u64, Instant)>,
}

/// The pending instructions of all streams, and the thread that checks them.
pub struct Watchdog {
    tables: Arc<Tables>,
    limit: Duration,
    streams: Mutex<HashMap<StreamId, WatchedStream>>,
    overdue: AtomicBool,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How often the thread checks within the limit of one instruction.
const CHECKS: u32 = 4;

impl Watchdog {
    pub fn start(tables: Arc<Tables>, limit: Duration) -> Result<Arc<Watchdog>> {
        let watchdog = Arc::new(Watchdog {
            tables,
            limit,
            streams: Mutex::default(),
            overdue: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let own = watchdog.clone();
        let thread = Builder::new()
            .name("millstream-watchdog".to_owned())
            .spawn(move || {
                while !own.stop.load(Ordering::Acquire) {
                    park_timeout((own.limit / CHECKS).max(Duration::from_millis(1)));
                    own.check_streams();
                }
            })
            .map_err(|e| Error::Internal { message: format!("no thread for a watchdog: {e}") })?;
        *watchdog.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(watchdog)
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // The thread returns nothing.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, WatchedStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a task that is given to a worker.
    pub(crate) fn note(&self, task: &Task) {
        let mut streams = self.lock();
        let stream = streams.entry(task.stream()).or_default();
        match task {
            Task::OpenStream(_, key) => stream.key = Some((**key).clone()),
            Task::Gate(_, point, milestone) => stream.gates.push((*point, *milestone)),
            // With a watchdog, the router submits calls as instructions, and launches in parts.
            Task::Launch(_)
            | Task::BeginLaunch(_)
            | Task::SetCancelScope(..)
            | Task::RecordTimes(..)
            | Task::CloseStream(_)
            | Task::Call(_) => {}
            Task::RecordForWait { until, origin, .. } => {
                stream.submit(until.seq, Kind::StreamWait.name(), None, origin.clone(), None);
            }
            Task::Wait { at, until, origin, .. } => {
                let (kind, until) = (Kind::StreamWaitEvent.name(), (*until, Milestone::Completed));
                stream.submit(at.seq, kind, None, origin.clone(), Some(until));
            }
            Task::RecordEvent { at, origin, .. } => {
                stream.submit(at.seq, Kind::RecordEvent.name(), None, origin.clone(), None);
            }
            Task::Play { tape, run, .. } => {
                stream.gates.push((run.at, Milestone::Launched));
                let end = run.end_of(usize::from(*tape)).seq;
                stream.submit(end, "tape", None, run.origin.clone(), None);
                if let Some(submitted) = stream.submitted.back_mut() {
                    let (program, tapes) = (run.program.clone(), run.tapes.as_slice().into());
                    let tape = usize::from(*tape);
                    submitted.tape = Some(TapeOfLaunch { program, tapes, tape });
                }
            }
            Task::EndLaunch(run) => {
                let ends = (0..run.tapes.len()).map(|tape| run.end_of(tape));
                stream.gates.extend(ends.map(|end| (end, Milestone::Completed)));
                let kind = Kind::LazyJobLauncher.name();
                stream.submit(run.at.seq, kind, None, run.origin.clone(), None);
            }
            Task::Run(instruction) => {
                let (body, origin) = (&instruction.body, instruction.origin.clone());
                let Some(at) = body.at() else { return };
                let until = body.until().map(|until| (until, Milestone::Completed));
                stream.submit(at.seq, body.kind().name(), body.op(), origin, until);
            }
        }
        let done = self.tables.points.stream(task.stream()).completed();
        while stream.submitted.front().is_some_and(|submitted| submitted.seq <= done) {
            stream.submitted.pop_front();
        }
    }

    fn check_streams(&self) {
        let now = Instant::now();
        let mut streams = self.lock();
        for (id, stream) in streams.iter_mut() {
            let done = self.tables.points.stream(*id).completed();
            if stream.seen.is_none_or(|(seen, _)| seen != done) || done >= stream.tail {
                stream.seen = Some((done, now));
            }
        }
        let overdue = streams.iter().any(|(id, stream)| self.is_late(stream, *id));
        self.overdue.store(overdue, Ordering::Release);
        if overdue {
            streams.keys().for_each(|id| self.tables.points.stream(*id).wake_to_recheck());
        }
    }

    /// Returns the last point of a stream whose first instruction is overdue by itself.
    fn first_cause(&self) -> Option<Point> {
        let streams = self.lock();
        let late = streams.iter().filter(|(id, stream)| self.is_late(stream, **id));
        late.map(|(id, stream)| Point::new(*id, stream.tail)).min_by_key(|point| point.stream.0)
    }

    fn is_late(&self, stream: &WatchedStream, id: StreamId) -> bool {
        let late = stream.seen.is_some_and(|(_, since)| since.elapsed() >= self.limit);
        late && self.cause(stream, id).is_none()
    }

    /// Returns an error if something is overdue by itself: for waits without a point.
    pub(crate) fn check_any(&self) -> Result<()> {
        match self.first_cause().filter(|_| self.is_overdue()) {
            Some(point) => self.check(point),
            None => Ok(()),
        }
    }

    /// Returns the first instruction of a stream that has not completed.
    fn head<'a>(&self, stream: &'a WatchedStream, id: StreamId) -> Option<&'a Submitted> {
        let done = self.tables.points.stream(id).completed();
        stream.submitted.iter().find(|submitted| submitted.seq > done)
    }

    /// Returns the point that a stream's first instruction waits for.
    fn cause(&self, stream: &WatchedStream, id: StreamId) -> Option<(Point, Milestone)> {
        let head = self.head(stream, id)?;
        let is_open = |(point, milestone): &(Point, Milestone)| {
            point.stream != id && !self.tables.points.reached(*point, *milestone)
        };
        let step = || {
            let tape = head.tape.as_ref()?;
            let (_, until) = self.awaited(tape, self.step_of(tape, id))?;
            Some((until, Milestone::Completed))
        };
        head.until.iter().copied().find(is_open).or_else(|| step().filter(is_open))
    }

    /// Returns the number of a tape's first step that has not completed.
    fn step_of(&self, tape: &TapeOfLaunch, id: StreamId) -> usize {
        let done = self.tables.points.stream(id).completed();
        done.saturating_sub(tape.tapes[tape.tape].base) as usize
    }

    /// Returns the place that a step of a tape waits for, and its point.
    fn awaited(&self, tape: &TapeOfLaunch, step: usize) -> Option<(Place, Point)> {
        let (source, steps) = tape.program.awaited(tape.tape, step)?;
        let Playing { stream, base } = tape.tapes[source];
        let place = tape.program.place(&self.tables.ops, source, steps as usize - 1);
        Some((place, Point::new(stream.id(), base + u64::from(steps))))
    }

    /// Returns whether something is overdue.
    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    /// Returns an error if `point` comes after something overdue.
    pub(crate) fn check(&self, point: Point) -> Result<()> {
        if !self.is_overdue() || self.tables.points.reached(point, Milestone::Completed) {
            return Ok(());
        }
        let streams = self.lock();
        let mut chain = Vec::new();
        let mut asked = vec![];
        let mut id = point.stream;
        let mut late = false;
        // A stream that is in the chain already closes a cycle, in which each is a cause.
        while let Some(stream) = streams.get(&id).filter(|_| !asked.contains(&id)) {
            asked.push(id);
            let Some(head) = self.head(stream, id) else { break };
            let cause = self.cause(stream, id);
            chain.push(match &head.tape {
                Some(tape)
                    if head.until.iter().all(|(p, m)| self.tables.points.reached(*p, *m)) =>
                {
                    self.waiting_step(tape, (id, stream), head)
                }
                _ => self.waiting(&streams, (id, stream), head, cause),
            });
            let Some((next, _)) = cause else {
                let since = stream.seen.map(|(_, since)| since.elapsed());
                late = since.is_some_and(|since| since >= self.limit);
                break;
            };
            id = next.stream;
        }
        if !late {
            return Ok(());
        }
        let mut all: Vec<_> = streams.iter().filter(|(_, s)| s.tail > 0).collect();
        all.sort_by_key(|(id, _)| id.0);
        let streams = all.iter().map(|(id, stream)| self.progress(**id, stream)).collect();
        Err(Error::Overdue(Arc::new(Overdue { limit: self.limit, chain, streams })))
    }

    fn progress(&self, id: StreamId, stream: &WatchedStream) -> StreamProgress {
        let state = self.tables.points.stream(id);
        let completed = state.completed();
        let launched = state.launched().max(completed);
        StreamProgress { stream: name(stream), submitted: stream.tail, launched, completed }
    }

    /// Describes the step at which a tape stands, and the step of another tape that it waits for.
    fn waiting_step(
        &self,
        tape: &TapeOfLaunch,
        (id, stream): (StreamId, &WatchedStream),
        head: &Submitted,
    ) -> Waiting {
        let step = self.step_of(tape, id);
        let Place { name: step_name, origin } =
            tape.program.place(&self.tables.ops, tape.tape, step);
        let seq = tape.tapes[tape.tape].base + step as u64 + 1;
        let open = self
            .awaited(tape, step)
            .filter(|(_, until)| !self.tables.points.reached(*until, Milestone::Completed));
        let state = match open {
            Some((Place { name, origin }, _)) => format!("waits for {name} at {origin}"),
            None if self.tables.points.stream(id).launched() >= seq => {
                "is with its device".to_owned()
            }
            None => "has begun, or its worker is busy".to_owned(),
        };
        let instruction = format!("{step_name} of the launch at {}", head.origin);
        Waiting { stream: name(stream), seq, instruction, origin, state }
    }

    fn waiting(
        &self,
        streams: &HashMap<StreamId, WatchedStream>,
        (id, stream): (StreamId, &WatchedStream),
        head: &Submitted,
        cause: Option<(Point, Milestone)>,
    ) -> Waiting {
        let launched = |id| self.tables.points.stream(id).launched();
        let state = match cause {
            Some((point, milestone)) => {
                let of = streams.get(&point.stream).map_or_else(String::new, name);
                let what = if milestone == Milestone::Launched { "the launch of " } else { "" };
                format!("waits for {what}number {} of {of}", point.seq)
            }
            None if launched(id) >= head.seq => "is with its device".to_owned(),
            None => "has begun, or its worker is busy".to_owned(),
        };
        let op = head.op.and_then(|op| self.tables.ops.get(op)).map(|op| op.name().to_owned());
        Waiting {
            stream: name(stream),
            seq: head.seq,
            instruction: op.unwrap_or_else(|| head.kind.to_owned()),
            origin: head.origin.clone(),
            state,
        }
    }
}

fn name(stream: &WatchedStream) -> String {
    stream.key.as_ref().map_or_else(String::new, ToString::to_string)
}

impl WatchedStream {
    fn submit(
        &mut self,
        seq: u64,
        kind: &'static str,
        op: Option<OpId>,
        origin: Origin,
        until: Option<(Point, Milestone)>,
    ) {
        let until = self.gates.drain(..).chain(until).collect();
        self.tail = seq;
        self.submitted.push_back(Submitted { seq, kind, op, origin, until, tape: None });
    }
}
