//! Reading statements, in order, with every name resolved.

use std::borrow::Cow;
use std::collections::HashMap;

use millstream_types::nearest::nearest;

use crate::attrs::attrs;
use crate::error::{Result, TraceError};
use crate::form::{
    BarrierForm, CriticalSectionForm, GlobalSyncForm, KINDS, OpForm, ReadForm, RecordForm,
    ReleaseForm, RunJobForm, StatementForm, StreamWaitForm, SynchronizeForm, TouchForm, WaitForm,
};
use crate::jobs::Jobs;
use crate::json::{At, Reader};
use crate::names::{Fault, Names};
use crate::program::{
    Action, Block, Call, EventRef, JobRef, Results, Statement, StreamRef, ValueRef,
};
use crate::source::Place;
use crate::streams::StreamNames;
use crate::words::{Name, Names as NamesForm, True};

/// How deep critical sections may lie within each other.
const MAX_DEPTH: usize = 8;

/// Reads one block: the program or a job.
pub(crate) struct Statements<'r, 'a> {
    reader: &'r Reader<'a>,
    streams: &'r StreamNames,
    names: Names<'r>,
    /// The jobs that may be run; none within a job.
    jobs: Option<&'r Jobs>,
    /// The jobs that can no longer run, with the tensor that they miss.
    dead: HashMap<JobRef, (String, Place)>,
    events: HashMap<String, EventRef>,
    event_names: Vec<String>,
}

type List<'a> = At<'a, Vec<StatementForm<'a>>>;

impl<'r, 'a> Statements<'r, 'a> {
    pub(crate) fn new(
        reader: &'r Reader<'a>,
        streams: &'r StreamNames,
        names: Names<'r>,
        jobs: Option<&'r Jobs>,
    ) -> Statements<'r, 'a> {
        let (dead, events, event_names) = (HashMap::new(), HashMap::new(), Vec::new());
        Statements { reader, streams, names, jobs, dead, events, event_names }
    }

    pub(crate) fn into_names(self) -> Names<'r> {
        self.names
    }

    pub(crate) fn block(&mut self, at: List<'a>) -> Result<Block> {
        let statements = self.list(at, 0)?;
        Ok(Block { statements, events: std::mem::take(&mut self.event_names) })
    }

    fn list(&mut self, at: List<'a>, depth: usize) -> Result<Vec<Statement>> {
        let list = self.reader.list(at, "a program, a list of statements")?;
        list.into_iter().map(|at| self.statement(at, depth)).collect()
    }

    fn statement(&mut self, at: At<'a, StatementForm<'a>>, depth: usize) -> Result<Statement> {
        let entries = self.reader.entries(at, "a statement, which is an object")?;
        let kind = entries.iter().find_map(|(key, _)| KINDS.iter().find(|k| **k == key.name));
        let Some(&kind) = kind else {
            return Err(self.unknown_kind(at, entries.into_iter().map(|(key, _)| key.name)));
        };
        if self.jobs.is_none()
            && !["op", "release", "touch", "record", "wait", "stream_wait"].contains(&kind)
        {
            return Err(self.reader.error(at, format!("'{kind}' cannot stand in a job")));
        }
        let action = self.action(kind, at, depth)?;
        Ok(Statement { place: self.reader.place(at), action })
    }

    fn unknown_kind(
        &self,
        at: At<'a, StatementForm<'a>>,
        fields: impl Iterator<Item = Cow<'a, str>>,
    ) -> TraceError {
        let known = format!("a statement has one of: {}", KINDS.join(", "));
        let mut first = None;
        for field in fields {
            if let Some(close) = nearest(&field, KINDS.iter().copied()) {
                let error = self.reader.error(at, format!("unknown statement '{field}'"));
                return error.meant(Some(close));
            }
            first.get_or_insert(field);
        }
        match first {
            Some(field) => {
                self.reader.error(at, format!("unknown statement '{field}'")).help(known)
            }
            None => self.reader.error(at, "an empty statement").help(known),
        }
    }

    fn action(
        &mut self,
        kind: &str,
        at: At<'a, StatementForm<'a>>,
        depth: usize,
    ) -> Result<Action> {
        let reader = self.reader;
        Ok(match kind {
            "op" => Action::Call(Box::new(self.call(at.cast())?)),
            "release" => {
                let form = reader.object(at.cast::<ReleaseForm<'a>>(), "a release")?;
                reader.remark(form.note)?;
                Action::Release(self.each(form.release, |s, name, place| {
                    let value = s.names.release(name, place)?;
                    if let Some(users) = s.jobs.and_then(|jobs| jobs.users.get(&value)) {
                        for job in users {
                            s.dead.insert(*job, (name.to_owned(), place));
                        }
                    }
                    Ok(value)
                })?)
            }
            "record" => {
                let form = reader.object(at.cast::<RecordForm<'a>>(), "a record")?;
                reader.remark(form.note)?;
                let event = self.record(form.record.unwrap_or(at.cast()))?;
                Action::Record { event, stream: self.stream(form.stream, at, "a record")? }
            }
            "wait" => {
                let form = reader.object(at.cast::<WaitForm<'a>>(), "a wait")?;
                reader.remark(form.note)?;
                let event = self.recorded(form.wait.unwrap_or(at.cast()))?;
                Action::Wait { event, stream: self.stream(form.stream, at, "a wait")? }
            }
            "stream_wait" => {
                let form = reader.object(at.cast::<StreamWaitForm<'a>>(), "a stream_wait")?;
                reader.remark(form.note)?;
                let at = form.stream_wait.unwrap_or(at.cast());
                let pair = reader.object(at, "a stream_wait")?;
                let from = self.stream(pair.from, at, "a stream_wait")?;
                Action::StreamWait { from, to: self.stream(pair.to, at, "a stream_wait")? }
            }
            "read" => {
                let form = reader.object(at.cast::<ReadForm<'a>>(), "a read")?;
                reader.remark(form.note)?;
                Action::Read(self.tensor(form.read.unwrap_or(at.cast()))?)
            }
            "touch" => {
                let form = reader.object(at.cast::<TouchForm<'a>>(), "a touch")?;
                reader.remark(form.note)?;
                let tensors = self.each(form.touch, |s, name, _| s.names.find(name))?;
                Action::Touch { tensors, stream: self.optional_stream(form.stream)? }
            }
            "barrier" => {
                let form = reader.object(at.cast::<BarrierForm<'a>>(), "a barrier")?;
                reader.remark(form.note)?;
                self.truth(form.barrier)?;
                Action::Barrier
            }
            "global_sync" => {
                let form = reader.object(at.cast::<GlobalSyncForm<'a>>(), "a global_sync")?;
                reader.remark(form.note)?;
                self.truth(form.global_sync)?;
                Action::GlobalSync
            }
            "synchronize" => {
                let form = reader.object(at.cast::<SynchronizeForm<'a>>(), "a synchronize")?;
                reader.remark(form.note)?;
                Action::Synchronize(self.stream(form.synchronize, at, "a synchronize")?)
            }
            "critical_section" => self.critical_section(at.cast(), depth)?,
            _ => {
                let form = reader.object(at.cast::<RunJobForm<'a>>(), "a job's run")?;
                reader.remark(form.note)?;
                let job = self.job(form.job.unwrap_or(at.cast()))?;
                Action::Job { job, stream: self.optional_stream(form.stream)? }
            }
        })
    }

    fn call(&mut self, at: At<'a, OpForm<'a>>) -> Result<Call> {
        let reader = self.reader;
        let form = reader.object(at, "an op call")?;
        reader.remark(form.note)?;
        let op_at = form.op.unwrap_or(at.cast());
        let op = reader.name(op_at, "an op's name")?.into_owned();
        let inputs = self.each(form.input, |s, name, _| s.names.find(name))?;
        let results = match (form.out, form.into) {
            (Some(_), Some(both)) => {
                return Err(reader.error(both, "an op call has 'out' or 'into', not both"));
            }
            (out, None) => {
                Results::New(self.each(out, |s, name, place| s.names.define(name, place))?)
            }
            (None, into) => Results::Into(self.each(into, |s, name, _| s.names.find(name))?),
        };
        let attrs = attrs(reader, form.attrs)?;
        let stream = self.optional_stream(form.stream)?;
        let priority =
            form.priority.map(|at| reader.number(at, "a priority, a whole number of 32 bits"));
        let (op_place, priority) = (reader.place(op_at), priority.transpose()?.unwrap_or_default());
        Ok(Call { op, op_place, inputs, results, attrs, stream, priority })
    }

    fn critical_section(
        &mut self,
        at: At<'a, CriticalSectionForm<'a>>,
        depth: usize,
    ) -> Result<Action> {
        if depth == MAX_DEPTH {
            let message = format!("critical sections lie more than {MAX_DEPTH} deep");
            return Err(self.reader.error(at, message));
        }
        let form = self.reader.object(at, "a critical section")?;
        self.reader.remark(form.note)?;
        let body = self.reader.need(form.body, at, "body", "a critical section")?;
        let tensors =
            self.each(form.critical_section, |s, name, place| s.names.hold(name, place))?;
        let body = self.list(body, depth + 1)?;
        for tensor in &tensors {
            self.names.let_go(*tensor);
        }
        Ok(Action::CriticalSection { tensors, body })
    }

    /// Does something with each of a list of tensors' names, or with one name alone.
    fn each(
        &mut self,
        at: Option<At<'a, NamesForm>>,
        mut use_it: impl FnMut(&mut Self, &str, Place) -> Result<ValueRef, Fault>,
    ) -> Result<Vec<ValueRef>> {
        let list: Vec<At<'a, Name>> = match at {
            None => Vec::new(),
            Some(at) if at.kind() == "a text" => vec![at.cast()],
            Some(at) => self.reader.list(at.cast(), "the name of a tensor or a list of them")?,
        };
        let one = |at: At<'a, Name>| {
            let name = self.reader.name(at, "the name of a tensor")?;
            let done = use_it(self, &name, self.reader.place(at));
            done.map_err(|f| f.error(self.reader.error(at, f.message())))
        };
        list.into_iter().map(one).collect()
    }

    fn tensor(&mut self, at: At<'a, Name>) -> Result<ValueRef> {
        let name = self.reader.name(at, "the name of a tensor")?;
        let found = self.names.find(&name);
        found.map_err(|f| f.error(self.reader.error(at, f.message())))
    }

    fn stream<T>(
        &self,
        at: Option<At<'a, Name>>,
        within: At<'a, T>,
        what: &str,
    ) -> Result<StreamRef> {
        let at = self.reader.need(at, within, "stream", what)?;
        self.streams.find(self.reader, at)
    }

    fn optional_stream(&self, at: Option<At<'a, Name>>) -> Result<Option<StreamRef>> {
        at.map(|at| self.streams.find(self.reader, at)).transpose()
    }

    fn truth(&self, at: Option<At<'a, True>>) -> Result<()> {
        match at {
            Some(at) if at.raw != "true" => Err(self.reader.error(at, "expected true")),
            _ => Ok(()),
        }
    }

    fn record(&mut self, at: At<'a, Name>) -> Result<EventRef> {
        let name = self.reader.name(at, "an event's name")?;
        if let Some(event) = self.events.get(&*name) {
            return Ok(*event);
        }
        let event = EventRef(self.event_names.len() as u32);
        self.event_names.push(name.to_string());
        self.events.insert(name.into_owned(), event);
        Ok(event)
    }

    fn recorded(&self, at: At<'a, Name>) -> Result<EventRef> {
        let name = self.reader.name(at, "an event's name")?;
        self.events.get(&*name).copied().ok_or_else(|| {
            let message = format!("no statement before this records the event '{name}'");
            let close = nearest(&name, self.events.keys().map(String::as_str));
            self.reader.error(at, message).meant(close)
        })
    }

    fn job(&self, at: At<'a, Name>) -> Result<JobRef> {
        let name = self.reader.name(at, "a job's name")?;
        let known = |jobs: &Jobs| jobs.by_name.get(&*name).copied();
        let Some(job) = self.jobs.and_then(known) else {
            let names = self.jobs.into_iter().flat_map(|jobs| jobs.by_name.keys());
            let close = nearest(&name, names.map(String::as_str));
            return Err(self.reader.error(at, format!("unknown job '{name}'")).meant(close));
        };
        match self.dead.get(&job) {
            Some((tensor, place)) => {
                let message = format!("the job '{name}' uses '{tensor}', released at {place}");
                Err(self.reader.error(at, message))
            }
            None => Ok(job),
        }
    }
}
