//! Reads statements in order and resolves every name.

use std::collections::HashMap;

use millstream_types::nearest::nearest;

use crate::attrs::attrs;
use crate::error::{Result, TraceError};
use crate::executables::Executables;
use crate::json::{At, Raw, Reader};
use crate::meshes::Meshes;
use crate::program::{
    Action, Block, Call, EventRef, ExecutableRef, REDISTRIBUTE, Results, Statement, StreamRef,
    ValueRef,
};
use crate::raw_form::{FromToForm, KINDS, OpForm, RedistributeForm, StatementForm};
use crate::schema_types::{Name, Names};
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
        let Ok(entries) = self.reader.entries(raw.cast(), "a statement") else { return };
        for (key, raw) in entries {
            let names = match (key.name(), raw.kind()) {
                ("out", "an object") => {
                    let named = self.reader.entries(raw, "names").unwrap_or_default();
                    named.into_iter().map(|(_, name)| name.cast()).collect()
                }
                ("out", _) => self.reader.names(raw.cast(), "names").unwrap_or_default(),
                ("record", _) => {
                    // The name may be none.
                    let _ = self.record(raw.cast());
                    continue;
                }
                _ => continue,
            };
            for raw in names {
                if let Ok(name) = self.reader.name(raw, "the name of a tensor") {
                    // The name may be defined already.
                    let _ = self.symbols.define(&name, self.reader.span(raw.text));
                }
            }
        }
    }

    fn statement(&mut self, raw: Raw<'a, StatementForm<'a>>, depth: usize) -> Result<Statement> {
        let fields = self.reader.fields(raw, "a statement, which is an object")?;
        let keys = fields.entries.iter().map(|(key, _)| key.name());
        let kind = keys.clone().find(|key| KINDS.contains(key)).unwrap_or_default();
        let refused = match kind {
            _ if self.executables.is_some() => None,
            "launch" => Some("an executable cannot launch another one, or itself"),
            "read" | "synchronize" => Some("a launch makes no host wait"),
            _ => None,
        };
        if let Some(why) = refused {
            let message = format!("'{kind}' is not allowed in an executable");
            return Err(self.reader.error(raw.text, message).help(why));
        }
        let Some(form) = StatementForm::of(kind, &fields)? else {
            return Err(self.unknown_kind(raw.text, keys));
        };
        let action = self.action(form, raw.text, depth)?;
        Ok(Statement { span: self.reader.span(raw.text), action })
    }

    fn unknown_kind<'f>(&self, text: &str, fields: impl Iterator<Item = &'f str>) -> TraceError {
        let known = format!("a statement has one of these fields: {}", KINDS.join(", "));
        let mut first = None;
        for field in fields {
            if field == "job" {
                let error = self.reader.error(text, "jobs have become executables");
                return error.help("launch one with { \"launch\": NAME }");
            }
            if let Some(close) = nearest(field, KINDS.iter().copied()) {
                let error = self.reader.error(text, format!("unknown statement '{field}'"));
                return error.meant(Some(close));
            }
            first.get_or_insert(field);
        }
        match first {
            Some(field) => {
                self.reader.error(text, format!("unknown statement '{field}'")).help(known)
            }
            None => self.reader.error(text, "an empty statement").help(known),
        }
    }

    /// Resolves the names of a statement, which stands at `text`.
    fn action(&mut self, form: StatementForm<'a>, text: &str, depth: usize) -> Result<Action> {
        Ok(match form {
            StatementForm::OpForm(form) => Action::Call(Box::new(self.call(form)?)),
            StatementForm::RedistributeForm(form) => {
                Action::Call(Box::new(self.redistribute(form)?))
            }
            StatementForm::ReleaseForm(form) => {
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
            StatementForm::RecordForm(form) => {
                let event = self.record(form.record)?;
                Action::Record { event, stream: self.stream(form.stream)? }
            }
            StatementForm::WaitForm(form) => {
                let event = self.recorded(form.wait)?;
                Action::Wait { event, stream: self.stream(form.stream)? }
            }
            StatementForm::StreamWaitForm(form) => {
                let FromToForm { from, to } = form.stream_wait.take();
                Action::StreamWait { from: self.stream(from)?, to: self.stream(to)? }
            }
            StatementForm::ReadForm(form) => Action::Read(self.tensor(form.read)?),
            StatementForm::TouchForm(form) => {
                let tensors = self.each(form.touch, |s, name, _| s.symbols.find(name))?;
                Action::Touch { tensors, stream: self.optional_stream(form.stream)? }
            }
            StatementForm::BarrierForm(_) => Action::Barrier,
            StatementForm::GlobalSyncForm(_) => Action::GlobalSync,
            StatementForm::SynchronizeForm(form) => {
                Action::Synchronize(self.stream(form.synchronize)?)
            }
            StatementForm::CriticalSectionForm(_) if depth == MAX_DEPTH => {
                let message = format!("critical sections nest more than {MAX_DEPTH} deep");
                return Err(self.reader.error(text, message));
            }
            StatementForm::CriticalSectionForm(form) => {
                let tensors =
                    self.each(form.critical_section, |s, name, span| s.symbols.hold(name, span));
                let tensors = self.reader.recover(tensors)?.unwrap_or_default();
                let body = self.list(form.body, depth + 1)?;
                for tensor in &tensors {
                    self.symbols.end_hold(*tensor);
                }
                Action::CriticalSection { tensors, body }
            }
            StatementForm::LaunchForm(form) => Action::Launch(Box::new(self.launch(text, form)?)),
        })
    }

    fn call(&mut self, form: OpForm<'a>) -> Result<Call> {
        let reader = self.reader;
        let op = reader.name(form.op, "an op's name")?.into_owned();
        let inputs = self.optional(form.input, |s, name, _| s.symbols.find(name))?;
        let results = match (form.out, form.into) {
            (Some(_), Some(both)) => {
                let message = "an op call has 'out' or 'into', not both";
                return Err(reader.error(both.text, message));
            }
            (None, Some(into)) => {
                let into = self.each(into, |s, name, _| s.symbols.find(name));
                let hint = "'into' names tensors that exist; 'out' names new ones";
                Results::Into(into.map_err(|e| if e.hint().is_none() { e.help(hint) } else { e })?)
            }
            (out, None) => {
                Results::New(self.optional(out, |s, name, span| s.symbols.define(name, span))?)
            }
        };
        let scalars = self.executables.is_none().then_some(&self.scalars[..]);
        let attrs = attrs(reader, form.attrs, scalars)?;
        let stream = self.optional_stream(form.stream)?;
        let (op_span, priority) = (reader.span(form.op.text), form.priority.map_or(0, At::take));
        let ranks = form.ranks.map(At::take);
        let held = self.meshes.held(reader, form.mesh, form.sbp)?;
        Ok(Call { op, op_span, inputs, results, attrs, stream, priority, ranks, held })
    }

    fn redistribute(&mut self, form: RedistributeForm<'a>) -> Result<Call> {
        let inputs = vec![self.tensor(form.redistribute)?];
        let held = self.meshes.held(self.reader, form.mesh, Some(form.sbp))?;
        let results = self.each(form.out.cast(), |s, name, span| s.symbols.define(name, span))?;
        let span = self.reader.span(form.redistribute.text);
        Ok(Call { held, ..Call::new(REDISTRIBUTE, span, inputs, results) })
    }

    /// Resolves each name of a list of tensors, or one name alone, with `resolve`.
    pub(crate) fn each(
        &mut self,
        raw: Raw<'a, Names>,
        mut resolve: impl FnMut(&mut Self, &str, Span) -> Result<ValueRef, NameError>,
    ) -> Result<Vec<ValueRef>> {
        let list = self.reader.names(raw, "the name of a tensor or a list of them")?;
        let one = |raw: Raw<'a, Name>| {
            let name = self.reader.name(raw, "the name of a tensor")?;
            let value = resolve(self, &name, self.reader.span(raw.text));
            value.map_err(|e| e.at(|message| self.reader.error(raw.text, message)))
        };
        list.into_iter().map(one).collect()
    }

    /// Resolves the names of a list that may be absent.
    pub(crate) fn optional(
        &mut self,
        raw: Option<Raw<'a, Names>>,
        resolve: impl FnMut(&mut Self, &str, Span) -> Result<ValueRef, NameError>,
    ) -> Result<Vec<ValueRef>> {
        raw.map_or(Ok(Vec::new()), |raw| self.each(raw, resolve))
    }

    pub(crate) fn tensor(&mut self, raw: Raw<'a, Name>) -> Result<ValueRef> {
        let name = self.reader.name(raw, "the name of a tensor")?;
        let found = self.symbols.find(&name);
        found.map_err(|e| e.at(|message| self.reader.error(raw.text, message)))
    }

    fn stream(&self, raw: Raw<'a, Name>) -> Result<StreamRef> {
        self.streams.find(self.reader, raw)
    }

    pub(crate) fn optional_stream(&self, raw: Option<Raw<'a, Name>>) -> Result<Option<StreamRef>> {
        raw.map(|raw| self.stream(raw)).transpose()
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
            self.reader.error(raw.text, message).meant(close)
        })
    }
}
