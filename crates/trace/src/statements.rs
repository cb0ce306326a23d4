//! Reads statements in order and resolves every name.

use std::borrow::Cow;
use std::collections::HashMap;

use millstream_types::nearest::nearest;

use crate::attrs::attrs;
use crate::error::{Result, TraceError};
use crate::executables::Executables;
use crate::json::{Raw, Reader};
use crate::meshes::Meshes;
use crate::placement::placement;
use crate::program::{
    Action, Block, Call, EventRef, ExecutableRef, REDISTRIBUTE, Results, Statement, StreamRef,
    ValueRef,
};
use crate::raw_form::{
    BarrierForm, CriticalSectionForm, GlobalSyncForm, KINDS, OpForm, ReadForm, RecordForm,
    RedistributeForm, ReleaseForm, StatementForm, StreamWaitForm, SynchronizeForm, TouchForm,
    WaitForm,
};
use crate::schema_types::{Name, Names, True};
use crate::source::Span;
use crate::streams::StreamNames;
use crate::symbol_table::{NameError, SymbolTable};

/// The maximum depth of nested critical sections.
const MAX_DEPTH: usize = 8;

/// Reads one block: the program or an executable.
pub(crate) struct Statements<'r, 'a> {
    pub(crate) reader: &'r Reader<'a>,
    streams: &'r StreamNames,
    meshes: &'r Meshes,
    pub(crate) symbols: SymbolTable<'r>,
    /// The executables that statements may launch; `None` within an executable.
    pub(crate) executables: Option<&'r Executables>,
    /// The executables that can no longer run, with the released tensor that each is bound to.
    pub(crate) invalidated: HashMap<ExecutableRef, (String, Span)>,
    events: HashMap<String, EventRef>,
    event_names: Vec<String>,
    /// The scalars of the executable.
    scalars: Vec<String>,
}

type List<'a> = Raw<'a, Vec<StatementForm<'a>>>;

impl<'r, 'a> Statements<'r, 'a> {
    pub(crate) fn new(
        reader: &'r Reader<'a>,
        streams: &'r StreamNames,
        meshes: &'r Meshes,
        symbols: SymbolTable<'r>,
        executables: Option<&'r Executables>,
        scalars: Vec<String>,
    ) -> Statements<'r, 'a> {
        let (invalidated, events, event_names) = (HashMap::new(), HashMap::new(), Vec::new());
        Statements {
            reader,
            streams,
            meshes,
            symbols,
            executables,
            invalidated,
            events,
            event_names,
            scalars,
        }
    }

    pub(crate) fn into_symbols(self) -> SymbolTable<'r> {
        self.symbols
    }

    /// Reads the statements of the block.
    pub(crate) fn block(&mut self, raw: List<'a>) -> Result<Block> {
        let statements = self.list(raw, 0)?;
        Ok(Block { statements, events: std::mem::take(&mut self.event_names) })
    }

    fn list(&mut self, raw: List<'a>, depth: usize) -> Result<Vec<Statement>> {
        let list = self.reader.list(raw, "a program, a list of statements")?;
        let mut statements = Vec::with_capacity(list.len());
        for raw in list {
            let statement = self.statement(raw, depth);
            if statement.is_err() {
                self.define_results(raw);
            }
            statements.extend(self.reader.recover(statement)?);
        }
        Ok(statements)
    }

    /// Defines what a statement with a mistake would have defined, so that later statements are not
    /// refused for it.
    fn define_results(&mut self, raw: Raw<'a, StatementForm<'a>>) {
        let Ok(entries) = self.reader.entries(raw, "a statement") else { return };
        for (key, raw) in entries {
            match (&*key.name, raw.kind()) {
                ("out", "an object") => {
                    for (_, name) in self.reader.entries::<()>(raw, "names").unwrap_or_default() {
                        self.define_name(name.cast());
                    }
                }
                ("out", "a list") => {
                    for name in self.reader.list::<Name>(raw.cast(), "names").unwrap_or_default() {
                        self.define_name(name);
                    }
                }
                ("out", _) => self.define_name(raw.cast()),
                ("record", _) => drop(self.record(raw.cast())),
                _ => {}
            }
        }
    }

    fn define_name(&mut self, raw: Raw<'a, Name>) {
        if let Ok(name) = self.reader.name(raw, "the name of a tensor") {
            // The name may be defined already.
            let _ = self.symbols.define(&name, self.reader.span(raw));
        }
    }

    fn statement(&mut self, raw: Raw<'a, StatementForm<'a>>, depth: usize) -> Result<Statement> {
        let entries = self.reader.entries(raw, "a statement, which is an object")?;
        let kind = entries.iter().find_map(|(key, _)| KINDS.iter().find(|k| **k == key.name));
        let Some(&kind) = kind else {
            return Err(self.unknown_kind(raw, entries.into_iter().map(|(key, _)| key.name)));
        };
        let refused = match kind {
            _ if self.executables.is_some() => None,
            "launch" => Some("an executable cannot launch another one, or itself"),
            "read" | "synchronize" => Some("a launch makes no host wait"),
            _ => None,
        };
        if let Some(why) = refused {
            let message = format!("'{kind}' is not allowed in an executable");
            return Err(self.reader.error(raw, message).help(why));
        }
        let action = self.action(kind, raw, depth)?;
        Ok(Statement { span: self.reader.span(raw), action })
    }

    fn unknown_kind(
        &self,
        raw: Raw<'a, StatementForm<'a>>,
        fields: impl Iterator<Item = Cow<'a, str>>,
    ) -> TraceError {
        let known = format!("a statement has one of these fields: {}", KINDS.join(", "));
        let mut first = None;
        for field in fields {
            if field == "job" {
                let error = self.reader.error(raw, "jobs have become executables");
                return error.help("launch one with { \"launch\": NAME }");
            }
            if let Some(close) = nearest(&field, KINDS.iter().copied()) {
                let error = self.reader.error(raw, format!("unknown statement '{field}'"));
                return error.meant(Some(close));
            }
            first.get_or_insert(field);
        }
        match first {
            Some(field) => {
                self.reader.error(raw, format!("unknown statement '{field}'")).help(known)
            }
            None => self.reader.error(raw, "an empty statement").help(known),
        }
    }

    fn action(
        &mut self,
        kind: &str,
        raw: Raw<'a, StatementForm<'a>>,
        depth: usize,
    ) -> Result<Action> {
        let reader = self.reader;
        Ok(match kind {
            "op" => Action::Call(Box::new(self.call(raw.cast())?)),
            "redistribute" => Action::Call(Box::new(self.redistribute(raw.cast())?)),
            "release" => {
                let form = reader.object(raw.cast::<ReleaseForm<'a>>(), "a release")?;
                Action::Release(self.each(form.release, |s, name, span| {
                    let value = s.symbols.release(name, span)?;
                    if let Some(users) = s.executables.and_then(|all| all.users.get(&value)) {
                        for user in users {
                            s.invalidated.insert(*user, (name.to_owned(), span));
                        }
                    }
                    Ok(value)
                })?)
            }
            "record" => {
                let form = reader.object(raw.cast::<RecordForm<'a>>(), "a record")?;
                let event = self.record(form.record.unwrap_or(raw.cast()))?;
                Action::Record { event, stream: self.stream(form.stream, raw, "a record")? }
            }
            "wait" => {
                let form = reader.object(raw.cast::<WaitForm<'a>>(), "a wait")?;
                let event = self.recorded(form.wait.unwrap_or(raw.cast()))?;
                Action::Wait { event, stream: self.stream(form.stream, raw, "a wait")? }
            }
            "stream_wait" => {
                let form = reader.object(raw.cast::<StreamWaitForm<'a>>(), "a stream_wait")?;
                let raw = form.stream_wait.unwrap_or(raw.cast());
                let pair = reader.object(raw, "a stream_wait")?;
                let from = self.stream(pair.from, raw, "a stream_wait")?;
                Action::StreamWait { from, to: self.stream(pair.to, raw, "a stream_wait")? }
            }
            "read" => {
                let form = reader.object(raw.cast::<ReadForm<'a>>(), "a read")?;
                Action::Read(self.tensor(form.read.unwrap_or(raw.cast()))?)
            }
            "touch" => {
                let form = reader.object(raw.cast::<TouchForm<'a>>(), "a touch")?;
                let tensors = self.each(form.touch, |s, name, _| s.symbols.find(name))?;
                Action::Touch { tensors, stream: self.optional_stream(form.stream)? }
            }
            "barrier" => {
                let form = reader.object(raw.cast::<BarrierForm<'a>>(), "a barrier")?;
                self.expect_true(form.barrier)?;
                Action::Barrier
            }
            "global_sync" => {
                let form = reader.object(raw.cast::<GlobalSyncForm<'a>>(), "a global_sync")?;
                self.expect_true(form.global_sync)?;
                Action::GlobalSync
            }
            "synchronize" => {
                let form = reader.object(raw.cast::<SynchronizeForm<'a>>(), "a synchronize")?;
                Action::Synchronize(self.stream(form.synchronize, raw, "a synchronize")?)
            }
            "critical_section" => self.critical_section(raw.cast(), depth)?,
            _ => Action::Launch(Box::new(self.launch(raw.cast())?)),
        })
    }

    fn call(&mut self, raw: Raw<'a, OpForm<'a>>) -> Result<Call> {
        let reader = self.reader;
        let form = reader.object(raw, "an op call")?;
        let op_at = form.op.unwrap_or(raw.cast());
        let op = reader.name(op_at, "an op's name")?.into_owned();
        let inputs = self.each(form.input, |s, name, _| s.symbols.find(name))?;
        let results = match (form.out, form.into) {
            (Some(_), Some(both)) => {
                return Err(reader.error(both, "an op call has 'out' or 'into', not both"));
            }
            (out, None) => {
                Results::New(self.each(out, |s, name, span| s.symbols.define(name, span))?)
            }
            (None, into) => {
                let into = self.each(into, |s, name, _| s.symbols.find(name));
                let hint = "'into' names tensors that exist; 'out' names new ones";
                Results::Into(into.map_err(|e| if e.hint().is_none() { e.help(hint) } else { e })?)
            }
        };
        let scalars = self.executables.is_none().then_some(&self.scalars[..]);
        let attrs = attrs(reader, form.attrs, scalars)?;
        let stream = self.optional_stream(form.stream)?;
        let priority = form.priority.map(|raw| reader.number(raw, "a priority, a 32-bit integer"));
        let (op_span, priority) = (reader.span(op_at), priority.transpose()?.unwrap_or_default());
        let ranks = form.ranks.map(|raw| placement(reader, raw)).transpose()?;
        let held = self.meshes.held(reader, form.mesh, form.sbp)?;
        Ok(Call { op, op_span, inputs, results, attrs, stream, priority, ranks, held })
    }

    fn redistribute(&mut self, raw: Raw<'a, RedistributeForm<'a>>) -> Result<Call> {
        let reader = self.reader;
        let form = reader.object(raw, "a redistribute")?;
        let of = form.redistribute.unwrap_or(raw.cast());
        let inputs = vec![self.tensor(of)?];
        let out = reader.require(form.out, raw, "out", "a redistribute")?;
        let sbp = reader.require(form.sbp, raw, "sbp", "a redistribute")?;
        let held = self.meshes.held(reader, form.mesh, Some(sbp))?;
        let results = self.each(Some(out.cast()), |s, name, span| s.symbols.define(name, span))?;
        Ok(Call { held, ..Call::new(REDISTRIBUTE, reader.span(of), inputs, results) })
    }

    fn critical_section(
        &mut self,
        raw: Raw<'a, CriticalSectionForm<'a>>,
        depth: usize,
    ) -> Result<Action> {
        if depth == MAX_DEPTH {
            let message = format!("critical sections nest more than {MAX_DEPTH} deep");
            return Err(self.reader.error(raw, message));
        }
        let form = self.reader.object(raw, "a critical section")?;
        let body = self.reader.require(form.body, raw, "body", "a critical section")?;
        let tensors = self.each(form.critical_section, |s, name, span| s.symbols.hold(name, span));
        let tensors = self.reader.recover(tensors)?.unwrap_or_default();
        let body = self.list(body, depth + 1)?;
        for tensor in &tensors {
            self.symbols.end_hold(*tensor);
        }
        Ok(Action::CriticalSection { tensors, body })
    }

    /// Resolves each name of a list of tensors, or one name alone, with `resolve`.
    pub(crate) fn each(
        &mut self,
        raw: Option<Raw<'a, Names>>,
        mut resolve: impl FnMut(&mut Self, &str, Span) -> Result<ValueRef, NameError>,
    ) -> Result<Vec<ValueRef>> {
        let list = raw.map(|raw| self.reader.names(raw, "the name of a tensor or a list of them"));
        let one = |raw: Raw<'a, Name>| {
            let name = self.reader.name(raw, "the name of a tensor")?;
            let value = resolve(self, &name, self.reader.span(raw));
            value.map_err(|e| e.at(|message| self.reader.error(raw, message)))
        };
        list.transpose()?.unwrap_or_default().into_iter().map(one).collect()
    }

    pub(crate) fn tensor(&mut self, raw: Raw<'a, Name>) -> Result<ValueRef> {
        let name = self.reader.name(raw, "the name of a tensor")?;
        let found = self.symbols.find(&name);
        found.map_err(|e| e.at(|message| self.reader.error(raw, message)))
    }

    fn stream<T>(
        &self,
        raw: Option<Raw<'a, Name>>,
        within: Raw<'a, T>,
        what: &str,
    ) -> Result<StreamRef> {
        let raw = self.reader.require(raw, within, "stream", what)?;
        self.streams.find(self.reader, raw)
    }

    pub(crate) fn optional_stream(&self, raw: Option<Raw<'a, Name>>) -> Result<Option<StreamRef>> {
        raw.map(|raw| self.streams.find(self.reader, raw)).transpose()
    }

    fn expect_true(&self, raw: Option<Raw<'a, True>>) -> Result<()> {
        match raw {
            Some(raw) if raw.text != "true" => Err(self.reader.error(raw, "expected true")),
            _ => Ok(()),
        }
    }

    fn record(&mut self, raw: Raw<'a, Name>) -> Result<EventRef> {
        let name = self.reader.name(raw, "an event's name")?;
        if let Some(event) = self.events.get(&*name) {
            return Ok(*event);
        }
        let event = EventRef(self.event_names.len() as u32);
        self.event_names.push(name.to_string());
        self.events.insert(name.into_owned(), event);
        Ok(event)
    }

    fn recorded(&self, raw: Raw<'a, Name>) -> Result<EventRef> {
        let name = self.reader.name(raw, "an event's name")?;
        self.events.get(&*name).copied().ok_or_else(|| {
            let message = format!("no statement before this records the event '{name}'");
            let close = nearest(&name, self.events.keys().map(String::as_str));
            self.reader.error(raw, message).meant(close)
        })
    }
}
