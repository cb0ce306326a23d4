//! Assignments: files that say which op of a program goes to which stream.
//!
//! ```json
//! { "streams": { "side": { "index": 3 } },
//!   "assign": [ { "op": "matmul", "stream": 1 }, { "at": [12, 30], "stream": "side" } ] }
//! ```
//!
//! A rule holds for the calls of an op, or of several; for those at a line of a native trace or at
//! a node of a recorded one, or from one to another; or for those to which both apply. The stream
//! is a compute stream, by its index, or a stream that the program or the assignment declares. Of
//! several rules that hold for a call, the last one counts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use millstream_types::nearest::nearest;
use millstream_types::{StreamMode, StreamType};
use serde_json::Value;

use crate::error::{Result, Site, TraceError};
use crate::field::{Expected, Field};
use crate::json::{At, Raw, Reader};
use crate::load::LoadOptions;
use crate::program::{Action, Body, Program, Statement, Stream, StreamRef};
use crate::raw_form::{StreamForm, forms};
use crate::read::read_text;
use crate::schema_types::{Map, Names};
use crate::source::Source;
use crate::streams::streams;

forms! {
    /// An assignment of calls to streams.
    AssignmentForm "Assignment" "an assignment" {
        /// A comment on the assignment.
        note: Option<At<'a, Cow<'a, str>>>,
        /// Streams that the program does not declare, by name.
        streams: Option<Raw<'a, Map<StreamForm<'a>>>>,
        /// The rules, of which the last one counts that holds for a call.
        assign: Raw<'a, Vec<RuleForm<'a>>>,
    }
    /// A rule: which calls go to which stream.
    RuleForm "Rule" "a rule" {
        /// The names of ops.
        op: Option<Raw<'a, Names>>,
        /// A line or node, or the first and the last one.
        at: Option<At<'a, Place>>,
        /// The stream.
        stream: At<'a, Target>,
        /// A comment on the rule.
        note: Option<At<'a, Cow<'a, str>>>,
    }
}

/// The most compute streams, as of the option `--compute-streams`. A larger index is a mistake.
const MAX_COMPUTE: u32 = 1024;

/// The stream of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The compute stream of this index.
    Compute(u32),
    /// The stream of this name.
    Named(String),
}

/// A rule: which calls go to which stream.
#[derive(Clone, Debug)]
pub struct Rule {
    ops: Option<Vec<String>>,
    at: Option<(u32, u32)>,
    target: Target,
    /// Where the rule stands, and where its stream is named.
    site: Site,
    target_site: Site,
}

impl Rule {
    /// Returns whether the rule holds for a call of an op at a line or node.
    pub fn holds(&self, op: &str, place: u32) -> bool {
        self.ops.as_ref().is_none_or(|ops| ops.iter().any(|own| own == op))
            && self.at.is_none_or(|(from, to)| (from..=to).contains(&place))
    }

    /// Returns the stream.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Returns an error at the rule.
    pub fn error(&self, message: impl Into<String>) -> TraceError {
        self.site.error(message)
    }
}

/// An assignment.
#[derive(Clone, Debug)]
pub struct Assignment {
    file: String,
    streams: Vec<Stream>,
    rules: Vec<Rule>,
}

impl Assignment {
    /// Reads an assignment, without a program that it is for.
    ///
    /// # Errors
    /// The file cannot be read, or is no assignment.
    pub fn read(path: &Path, options: &LoadOptions) -> Result<Assignment> {
        let source = Arc::new(read_text(path, options.max_bytes)?);
        let reader = &Reader::new(&source, options.max_items);
        reader.finish(parse(reader).map(|(streams, rules, _)| Assignment {
            file: path.display().to_string(),
            streams,
            rules,
        }))
    }

    /// Reads a move of the command line: all calls at a place (`213=3`, `12..30=side`) or of an op
    /// (`matmul=1`) go to a compute stream by its index, or to a named one.
    ///
    /// # Errors
    /// The text is none, or the index is too large.
    pub fn of_move(text: &str) -> Result<Assignment> {
        let source = Arc::new(Source::new("--move".to_owned(), text.to_owned()));
        let site = |range: Range<usize>| Site { source: source.clone(), span: source.span(range) };
        let whole = site(0..text.len());
        let wrong = || {
            let message = "expected a node, a line or an op, and its stream, as in 213=3";
            whole.error(format!("{message}, got '{text}'"))
        };
        let (place, stream) = text.split_once('=').ok_or_else(wrong)?;
        let (from, to) = place.split_once("..").unwrap_or((place, place));
        let numbers = from.trim().parse().ok().zip(to.trim().parse().ok());
        let (op, stream) = (place.trim(), stream.trim());
        if op.is_empty()
            || stream.is_empty()
            || numbers.is_some_and(|(from, to): (u32, u32)| from > to)
        {
            return Err(wrong());
        }
        let target = match stream.parse::<u64>() {
            Err(_) => Target::Named(stream.to_owned()),
            Ok(index) => match u32::try_from(index).ok().filter(|index| *index < MAX_COMPUTE) {
                Some(index) => Target::Compute(index),
                None => return Err(whole.error(too_large(index))),
            },
        };
        let ops = if numbers.is_some() { None } else { Some(vec![op.to_owned()]) };
        let (at, target_site) = (numbers, site(place.len() + 1..text.len()));
        let rule = Rule { ops, at, target, site: whole.clone(), target_site };
        Ok(Assignment { file: format!("--move {text}"), streams: Vec::new(), rules: vec![rule] })
    }

    /// Returns this assignment with the rules of another one, which count before its own.
    pub fn then(mut self, other: Assignment) -> Assignment {
        self.file = format!("{} and {}", self.file, other.file);
        self.streams.extend(other.streams);
        self.rules.extend(other.rules);
        self
    }

    /// Returns the file's path.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the streams that the assignment declares.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns the rules, of which the last one counts that holds for a call.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// Writes an assignment: its declared streams as text, and the place, the op and the stream of each
/// rule. A rule without an op holds for all calls at its place.
pub fn to_text(
    declared: impl IntoIterator<Item = String>,
    rules: impl IntoIterator<Item = (u32, Option<String>, Value)>,
) -> String {
    let declared: Vec<String> = declared.into_iter().collect();
    let streams = match declared.is_empty() {
        true => String::new(),
        false => format!("  \"streams\": {{\n    {}\n  }},\n", declared.join(",\n    ")),
    };
    let rule = |(place, op, stream): (u32, Option<String>, Value)| {
        let op = op.map_or_else(String::new, |op| format!("\"op\": {}, ", Value::from(op)));
        format!("    {{ \"at\": {place}, {op}\"stream\": {stream} }}")
    };
    let rules: Vec<String> = rules.into_iter().map(rule).collect();
    format!("{{\n{streams}  \"assign\": [\n{}\n  ]\n}}\n", rules.join(",\n"))
}

/// Gives the calls of a program the streams of an assignment.
///
/// # Errors
/// The file cannot be read, or is no assignment; a stream is unknown; a rule holds for no call.
pub fn assign(program: &mut Program, path: &Path, options: &LoadOptions) -> Result<()> {
    let source = Arc::new(read_text(path, options.max_bytes)?);
    let reader = &Reader::new(&source, options.max_items);
    reader.finish(apply(reader, program))
}

/// Reads the declared streams and the rules, with the place of an error that concerns all of them.
fn parse(reader: &Reader<'_>) -> Result<(Vec<Stream>, Vec<Rule>, Site)> {
    let raw = reader.root()?;
    let form: AssignmentForm<'_> = reader.read(raw)?;
    let (declared, _) = streams(reader, form.streams)?;
    let mut read = Vec::new();
    for raw in reader.list(form.assign, "rules, a list of objects")? {
        let read_rule = rule(reader, raw);
        read.extend(reader.recover(read_rule)?);
    }
    Ok((declared, read, reader.site(raw.text)))
}

/// A rule with the stream of the program that its calls go to.
struct Resolved {
    rule: Rule,
    stream: StreamRef,
    /// Whether it holds for any call.
    is_used: bool,
}

fn apply(reader: &Reader<'_>, program: &mut Program) -> Result<()> {
    let (declared, rules, site) = parse(reader)?;
    let mut all: HashMap<String, StreamRef> =
        program.streams.iter().map(|s| s.name.clone()).zip((0..).map(StreamRef)).collect();
    for stream in declared {
        if all.contains_key(&stream.name) {
            let message = format!("the program has a stream '{}' already", stream.name);
            return Err(stream.site.error(message));
        }
        all.insert(stream.name.clone(), StreamRef(program.streams.len() as u32));
        program.streams.push(stream);
    }
    let mut resolved = Vec::new();
    for rule in rules {
        let stream = match &rule.target {
            Target::Compute(index) => Ok(compute(program, *index, rule.target_site.clone())),
            Target::Named(name) => all.get(name).copied().ok_or_else(|| {
                let known = all.keys().map(String::as_str);
                let error = rule.target_site.error(format!("unknown stream '{name}'"));
                error.meant(nearest(name, known))
            }),
        };
        let stream = reader.recover(stream)?;
        resolved.extend(stream.map(|stream| Resolved { rule, stream, is_used: false }));
    }
    let Body::Statements(main) = &mut program.body else {
        let message = "a list of instructions has its streams in it; edit the list";
        return Err(site.error(message));
    };
    let executables = program.executables.iter_mut().map(|executable| &mut executable.block);
    for block in std::iter::once(main).chain(executables) {
        Statement::each_mut(&mut block.statements, &mut |statement| {
            let Action::Call(call) = &mut statement.action else { return };
            let line = statement.span.line;
            for one in resolved.iter_mut().filter(|one| one.rule.holds(&call.op, line)) {
                call.stream = Some(one.stream);
                one.is_used = true;
            }
        });
    }
    for resolved in resolved.iter().filter(|resolved| !resolved.is_used) {
        let message = format!("the rule holds for no call of {}", program.source.name());
        reader.recover::<()>(Err(resolved.rule.error(message)))?;
    }
    Ok(())
}

fn rule<'a>(reader: &Reader<'a>, raw: Raw<'a, RuleForm<'a>>) -> Result<Rule> {
    let RuleForm { op, at, stream, .. } = reader.read(raw)?;
    if op.is_none() && at.is_none() {
        let error = reader.error(raw.text, "the rule names neither an op nor a place");
        return Err(error.help("give it 'op', 'at', or both"));
    }
    let names = |op: Raw<'a, Names>| {
        let list = reader.names(op, "the name of an op or a list of them")?.into_iter();
        list.map(|op| Ok(reader.name(op, "an op")?.into_owned())).collect()
    };
    let (site, target_site) = (reader.site(raw.text), reader.site(stream.text));
    let (ops, at) = (op.map(names).transpose()?, at.map(|place| (place.0, place.1)));
    Ok(Rule { ops, at, target: stream.take(), site, target_site })
}

/// A line or node, or the first and the last one.
pub(crate) struct Place(u32, u32);

impl<'a> Field<'a> for Place {
    type Schema = Vec<u32>;
    const WHAT: &'static str = "a line or node, or a list of the first and the last";

    fn read(reader: &Reader<'a>, raw: Raw<'a, Self>, what: Expected<'_>) -> Result<Self> {
        if raw.kind() == "a number" {
            let place = reader.number(raw.cast(), what)?;
            return Ok(Place(place, place));
        }
        match reader.number::<(u32, u32)>(raw.cast(), what)? {
            (from, to) if from <= to => Ok(Place(from, to)),
            _ => Err(reader.error(raw.text, "the first place is behind the last")),
        }
    }
}

impl<'a> Field<'a> for Target {
    type Schema = String;
    const WHAT: &'static str = "the index of a compute stream, or a name";

    fn read(reader: &Reader<'a>, raw: Raw<'a, Self>, what: Expected<'_>) -> Result<Self> {
        if raw.kind() == "a string" {
            return Ok(Target::Named(reader.name(raw, "the name of a stream")?.into_owned()));
        }
        match reader.number::<u32>(raw.cast(), what)? {
            index if index < MAX_COMPUTE => Ok(Target::Compute(index)),
            index => Err(reader.error(raw.text, too_large(index.into()))),
        }
    }
}

fn too_large(index: u64) -> String {
    format!("a compute stream has an index below {MAX_COMPUTE}, and this is {index}")
}

/// Returns the compute stream of this index on the run's device.
fn compute(program: &mut Program, index: u32, site: Site) -> StreamRef {
    let is_it = |stream: &Stream| {
        (&stream.device, stream.ty, stream.index) == (&None, StreamType::COMPUTE, Some(index))
    };
    let found = program.streams.iter().position(is_it);
    let at = found.unwrap_or_else(|| {
        let (name, ty) = (format!("compute {index}"), StreamType::COMPUTE);
        let (index, mode) = (Some(index), StreamMode::InOrder);
        program.streams.push(Stream { name, device: None, ty, index, mode, site });
        program.streams.len() - 1
    });
    StreamRef(at as u32)
}
