//! The watchdog: what is on its way, and whether the first of it has been there for too long.
//!
//! # Rules
//! 1. The emission notes every instruction as it gives it to a worker; a thread looks at the points
//!    now and then. Workers and cores know nothing of either, and read no clock.
//! 2. Only a first cause is overdue: an instruction at the head of its stream that waits for no
//!    other stream. One that waits, however long, is as quick as what it waits for.
//! 3. What completes after all is no longer overdue.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use millstream_instructions::{Body, Kind};
use millstream_types::overdue::{Overdue, StreamProgress, Waiting};
use millstream_types::{Error, OpId, Origin, Point, Result, StreamId, StreamKey};

use crate::engine::Engine;
use crate::points::Mark;
use crate::sync::{AtomicBool, Builder, JoinHandle, Mutex, MutexGuard, Ordering, park_timeout};
use crate::task::Task;

/// An instruction on its way.
struct Given {
    seq: u64,
    kind: &'static str,
    op: Option<OpId>,
    origin: Origin,
    /// Other streams' points that it comes after and that its own stream has to wait for.
    until: Vec<(Point, Mark)>,
}

#[derive(Default)]
struct Watched {
    key: Option<StreamKey>,
    given: VecDeque<Given>,
    tail: u64,
    /// What the next instruction is to wait for.
    gates: Vec<(Point, Mark)>,
    /// How many had completed when the thread last looked, and since when.
    seen: Option<(u64, Instant)>,
}

/// What the emission notes and the thread looks at.
pub(crate) struct Watch {
    engine: Arc<Engine>,
    limit: Duration,
    streams: Mutex<HashMap<StreamId, Watched>>,
    overdue: AtomicBool,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How often the thread looks while an instruction may take its time.
const LOOKS: u32 = 4;

impl Watch {
    pub(crate) fn start(engine: Arc<Engine>, limit: Duration) -> Result<Arc<Watch>> {
        let watch = Arc::new(Watch {
            engine,
            limit,
            streams: Mutex::default(),
            overdue: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let own = watch.clone();
        let thread = Builder::new()
            .name("millstream-watchdog".to_owned())
            .spawn(move || {
                while !own.stop.load(Ordering::Acquire) {
                    park_timeout((own.limit / LOOKS).max(Duration::from_millis(1)));
                    own.look();
                }
            })
            .map_err(|e| Error::Internal { message: format!("no thread for a watchdog: {e}") })?;
        *watch.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(watch)
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            // It has nothing to give.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, Watched>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task is given to a worker.
    pub(crate) fn note(&self, task: &Task) {
        let mut streams = self.lock();
        let stream = streams.entry(task.lane()).or_default();
        match task {
            Task::Open(_, key) => stream.key = Some((**key).clone()),
            Task::Hold(_, point, mark) => stream.gates.push((*point, *mark)),
            Task::Enter(_, launcher, _) => stream.gates.push((*launcher, Mark::Launched)),
            // Where there is a watchdog, calls are given as instructions.
            Task::Begin(..) | Task::Within(..) | Task::Call(_) => {}
            Task::Record { until, origin, .. } => {
                stream.give(until.seq, "StreamWait", None, origin.clone(), None);
            }
            Task::Wait { at, until, origin, .. } => {
                let (kind, until) = (Kind::StreamWaitEvent.name(), (*until, Mark::Completed));
                stream.give(at.seq, kind, None, origin.clone(), Some(until));
            }
            Task::Mark { at, origin, .. } => {
                stream.give(at.seq, Kind::RecordEvent.name(), None, origin.clone(), None);
            }
            Task::Run(instruction) => {
                let (body, origin) = (&instruction.body, instruction.origin.clone());
                let Some(at) = body.at() else { return };
                let op = if let Body::OpCall { op, .. } = body { Some(*op) } else { None };
                let until = body.until().map(|until| (until, Mark::Completed));
                stream.give(at.seq, body.kind().name(), op, origin, until);
            }
        }
        let done = self.engine.points.stream(task.lane()).completed();
        while stream.given.front().is_some_and(|given| given.seq <= done) {
            stream.given.pop_front();
        }
    }

    fn look(&self) {
        let now = Instant::now();
        let mut streams = self.lock();
        for (id, stream) in streams.iter_mut() {
            let done = self.engine.points.stream(*id).completed();
            if stream.seen.is_none_or(|(seen, _)| seen != done) || done >= stream.tail {
                stream.seen = Some((done, now));
            }
        }
        let overdue = streams.iter().any(|(id, stream)| self.is_late(stream, *id));
        self.overdue.store(overdue, Ordering::Release);
        if overdue {
            streams.keys().for_each(|id| self.engine.points.stream(*id).nudge());
        }
    }

    /// The end of a stream of which the first instruction is overdue by itself.
    fn first_cause(&self) -> Option<Point> {
        let streams = self.lock();
        let late = streams.iter().filter(|(id, stream)| self.is_late(stream, **id));
        late.map(|(id, stream)| Point::new(*id, stream.tail)).min_by_key(|point| point.stream.0)
    }

    fn is_late(&self, stream: &Watched, id: StreamId) -> bool {
        let late = stream.seen.is_some_and(|(_, since)| since.elapsed() >= self.limit);
        late && self.cause(stream, id).is_none()
    }

    /// An error if something is overdue by itself: for who waits for nothing in particular.
    pub(crate) fn refuse_any(&self) -> Result<()> {
        match self.first_cause().filter(|_| self.is_overdue()) {
            Some(point) => self.refuse(point),
            None => Ok(()),
        }
    }

    /// The first instruction of a stream that has not completed.
    fn head<'a>(&self, stream: &'a Watched, id: StreamId) -> Option<&'a Given> {
        let done = self.engine.points.stream(id).completed();
        stream.given.iter().find(|given| given.seq > done)
    }

    /// What a stream's first instruction waits for.
    fn cause(&self, stream: &Watched, id: StreamId) -> Option<(Point, Mark)> {
        let head = self.head(stream, id)?;
        let mut until = head.until.iter().copied();
        until.find(|(point, mark)| point.stream != id && !self.engine.points.reached(*point, *mark))
    }

    /// Whether something is overdue.
    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Acquire)
    }

    /// An error if something is overdue that `point` comes after.
    pub(crate) fn refuse(&self, point: Point) -> Result<()> {
        if !self.is_overdue() || self.engine.points.reached(point, Mark::Completed) {
            return Ok(());
        }
        let streams = self.lock();
        let mut chain = Vec::new();
        let mut asked = vec![];
        let mut id = point.stream;
        let mut late = false;
        // A stream that stands in the chain already closes a circle, of which each is a cause.
        while let Some(stream) = streams.get(&id).filter(|_| !asked.contains(&id)) {
            asked.push(id);
            let Some(head) = self.head(stream, id) else { break };
            let cause = self.cause(stream, id);
            chain.push(self.waiting(&streams, (id, stream), head, cause));
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

    fn progress(&self, id: StreamId, stream: &Watched) -> StreamProgress {
        let state = self.engine.points.stream(id);
        let completed = state.completed();
        let launched = state.launched().max(completed);
        StreamProgress { stream: name(stream), given: stream.tail, launched, completed }
    }

    fn waiting(
        &self,
        streams: &HashMap<StreamId, Watched>,
        (id, stream): (StreamId, &Watched),
        head: &Given,
        cause: Option<(Point, Mark)>,
    ) -> Waiting {
        let launched = |id| self.engine.points.stream(id).launched();
        let state = match cause {
            Some((point, mark)) => {
                let of = streams.get(&point.stream).map_or_else(String::new, name);
                let what = if mark == Mark::Launched { "the launch of " } else { "" };
                format!("waits for {what}number {} of {of}", point.seq)
            }
            None if launched(id) >= head.seq => "is with its device".to_owned(),
            None => "has begun, or its worker is busy".to_owned(),
        };
        let op = head.op.and_then(|op| self.engine.ops.get(op)).map(|op| op.name().to_owned());
        Waiting {
            stream: name(stream),
            seq: head.seq,
            instruction: op.unwrap_or_else(|| head.kind.to_owned()),
            origin: head.origin.clone(),
            state,
        }
    }
}

fn name(stream: &Watched) -> String {
    stream.key.as_ref().map_or_else(String::new, ToString::to_string)
}

impl Watched {
    fn give(
        &mut self,
        seq: u64,
        kind: &'static str,
        op: Option<OpId>,
        origin: Origin,
        until: Option<(Point, Mark)>,
    ) {
        let until = self.gates.drain(..).chain(until).collect();
        self.tail = seq;
        self.given.push_back(Given { seq, kind, op, origin, until });
    }
}
