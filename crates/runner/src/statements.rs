//! Reading a program's statements, for any stage.

use std::sync::Arc;

use millstream_trace::{Action, Call, Program, Results, Span, Statement, ValueRef};
use millstream_types::{Error, Origin, SourceFile, StreamKey, StreamMode};

use crate::error::RunError;
use crate::stage::{OpCall, Stage};
use crate::streams::Streams;

/// A program on its way through a stage.
pub(crate) struct Walk<'a, S: Stage> {
    pub(crate) stage: S,
    program: &'a Program,
    streams: Streams,
    file: Arc<SourceFile>,
    values: Vec<Option<S::Tensor>>,
    events: Vec<Option<S::Event>>,
    progress: Option<&'a (dyn Fn() + Send + Sync)>,
}

impl<'a, S: Stage> Walk<'a, S> {
    /// At the start of a block with so many events.
    pub(crate) fn new(
        stage: S,
        program: &'a Program,
        streams: Streams,
        events: usize,
    ) -> Walk<'a, S> {
        let file = program.source.file();
        Walk {
            stage,
            program,
            streams,
            file: Arc::new(file),
            values: vec![None; program.values.len()],
            events: vec![None; events],
            progress: None,
        }
    }

    /// Calling `progress` after each statement.
    pub(crate) fn with_progress(mut self, progress: Option<&'a (dyn Fn() + Send + Sync)>) -> Self {
        self.progress = progress;
        self
    }

    pub(crate) fn set(&mut self, value: ValueRef, tensor: S::Tensor) {
        self.values[value.index()] = Some(tensor);
    }

    pub(crate) fn get(&self, value: ValueRef) -> Option<&S::Tensor> {
        self.values[value.index()].as_ref()
    }

    fn origin(&self, place: Span) -> Origin {
        Origin::Trace(self.file.clone(), place.line)
    }

    /// Runs statements in order, up to the first that is refused.
    pub(crate) fn all(&mut self, statements: &[Statement]) -> Result<(), RunError> {
        for statement in statements {
            self.statement(statement)?;
            if let Some(progress) = self.progress {
                progress();
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), RunError> {
        let place = statement.span;
        let origin = self.origin(place);
        let (program, stage) = (self.program, &mut self.stage);
        let at = |e: Error| RunError::at(program, place, &e);
        let stream_of = |stage: &mut S, (key, mode): (StreamKey, StreamMode)| {
            stage.stream(&key, mode).map_err(at)
        };
        match &statement.action {
            Action::Call(call) => self.call(call, place, &origin)?,
            Action::Release(values) => {
                for &value in values {
                    if let Some(tensor) = self.values[value.index()].take() {
                        stage.release(&tensor, &origin).map_err(at)?;
                    }
                }
            }
            Action::Record { event, stream } => {
                let stream = stream_of(stage, self.streams.named(*stream))?;
                self.events[event.index()] = Some(stage.record(&stream, &origin).map_err(at)?);
            }
            Action::Wait { event, stream } => {
                let stream = stream_of(stage, self.streams.named(*stream))?;
                let recorded = self.events[event.index()].clone();
                let recorded = recorded.ok_or_else(|| at(missing("the event is not recorded")))?;
                stage.wait(&stream, &recorded, &origin).map_err(at)?;
            }
            Action::StreamWait { from, to } => {
                let from = stream_of(stage, self.streams.named(*from))?;
                let to = stream_of(stage, self.streams.named(*to))?;
                stage.stream_wait(&from, &to, &origin).map_err(at)?;
            }
            Action::Read(value) => {
                let tensor = tensor(&self.values, *value).map_err(at)?;
                stage.read(tensor, &origin).map_err(at)?;
            }
            Action::Touch { tensors: named, stream } => {
                let stream = stream_of(stage, self.streams.choose(*stream))?;
                let tensors = tensors(&self.values, named).map_err(at)?;
                stage.touch(&tensors, &stream, &origin).map_err(at)?;
            }
            Action::Barrier => stage.barrier(false, &origin).map_err(at)?,
            Action::GlobalSync => stage.barrier(true, &origin).map_err(at)?,
            Action::Synchronize(stream) => {
                let stream = stream_of(stage, self.streams.named(*stream))?;
                stage.synchronize(&stream, &origin).map_err(at)?;
            }
            Action::CriticalSection { tensors: named, body } => {
                let held = tensors(&self.values, named).map_err(at)?;
                stage.begin_section(&held, &origin).map_err(at)?;
                self.all(body)?;
                self.stage.end_section(&origin).map_err(at)?;
            }
            Action::Job { job, stream } => {
                let stream = match stream {
                    Some(stream) => Some(stream_of(stage, self.streams.named(*stream))?),
                    None => None,
                };
                stage.job(*job, stream.as_ref(), &origin).map_err(at)?;
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Call, place: Span, origin: &Origin) -> Result<(), RunError> {
        let program = self.program;
        let at = |e: Error| {
            // A name that is unknown is shown itself, anything else as the whole call.
            let named = matches!(e.without_place(), Error::Unknown { what: "op", .. });
            RunError::at(program, if named { call.op_span } else { place }, &e)
        };
        let (key, mode) = self.streams.choose(call.stream);
        let stream = self.stage.stream(&key, mode).map_err(at)?;
        let (named, into) = match &call.results {
            Results::New(values) => (values.as_slice(), None),
            Results::Into(targets) => (&[][..], Some(tensors(&self.values, targets).map_err(at)?)),
        };
        let inputs = tensors(&self.values, &call.inputs).map_err(at)?;
        let op = OpCall {
            op: &call.op,
            inputs,
            into,
            attrs: &call.attrs,
            priority: call.priority,
            named: named.len(),
        };
        let results = self.stage.call(&op, &stream, origin).map_err(at)?;
        if results.len() < named.len() {
            let message = format!(
                "{} gives {} result(s), and 'out' names {}",
                call.op,
                results.len(),
                named.len()
            );
            return Err(RunError::input(program.error(place, message)));
        }
        for (&value, result) in named.iter().zip(results) {
            let recorded = program.value(value).recorded.as_ref();
            if let Some((recorded, found)) = recorded.zip(self.stage.spec(&result))
                && (recorded.dtype, recorded.shape()) != (found.dtype, found.shape())
            {
                let (found, recorded) = (found.brief(), recorded.brief());
                let message = format!("its result is {found}, and the trace says {recorded}");
                return Err(RunError::input(program.error(place, message)));
            }
            self.values[value.index()] = Some(result);
        }
        Ok(())
    }
}

fn missing(message: &str) -> Error {
    Error::Internal { message: message.to_owned() }
}

fn tensor<T>(values: &[Option<T>], value: ValueRef) -> Result<&T, Error> {
    // The loader resolves names in straight-line order, so a value is there where it is named.
    values[value.index()].as_ref().ok_or_else(|| missing("a tensor is used before it is made"))
}

fn tensors<'v, T>(values: &'v [Option<T>], named: &[ValueRef]) -> Result<Vec<&'v T>, Error> {
    named.iter().map(|&value| tensor(values, value)).collect()
}
