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

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use millstream_types::nearest::nearest;
use millstream_types::{StreamMode, StreamType};
use serde::Deserialize;

use crate::error::{Result, Site};
use crate::json::{Raw, Reader};
use crate::load::LoadOptions;
use crate::program::{Action, Body, Program, Statement, Stream, StreamRef};
use crate::raw_form::StreamForm;
use crate::read::read_text;
use crate::schema_types::{Map, Names};
use crate::streams::streams;

/// The raw form of an assignment.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AssignmentForm<'a> {
    #[serde(borrow)]
    note: Option<Raw<'a, String>>,
    #[serde(borrow)]
    streams: Option<Raw<'a, Map<StreamForm<'a>>>>,
    #[serde(borrow)]
    assign: Option<Raw<'a, Vec<RuleForm<'a>>>>,
}

/// The raw form of a rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleForm<'a> {
    #[serde(borrow)]
    op: Option<Raw<'a, Names>>,
    #[serde(borrow)]
    at: Option<Raw<'a, Vec<u32>>>,
    #[serde(borrow)]
    stream: Option<Raw<'a, String>>,
    #[serde(borrow)]
    note: Option<Raw<'a, String>>,
}

/// A rule with its stream.
struct Rule {
    ops: Option<Vec<String>>,
    at: Option<(u32, u32)>,
    stream: StreamRef,
    /// Whether it holds for any call.
    is_used: bool,
}

impl Rule {
    fn holds(&self, op: &str, place: u32) -> bool {
        self.ops.as_ref().is_none_or(|ops| ops.iter().any(|own| own == op))
            && self.at.is_none_or(|(from, to)| (from..=to).contains(&place))
    }
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

fn apply(reader: &Reader<'_>, program: &mut Program) -> Result<()> {
    let raw = reader.root::<AssignmentForm<'_>>()?;
    let form = reader.object(raw, "an assignment")?;
    reader.check_note(form.note)?;
    let mut all: HashMap<String, StreamRef> =
        program.streams.iter().map(|s| s.name.clone()).zip((0..).map(StreamRef)).collect();
    let (declared, _) = streams(reader, form.streams)?;
    for stream in declared {
        if all.contains_key(&stream.name) {
            let message = format!("the program has a stream '{}' already", stream.name);
            return Err(stream.site.error(message));
        }
        all.insert(stream.name.clone(), StreamRef(program.streams.len() as u32));
        program.streams.push(stream);
    }
    let rules = reader.require(form.assign, raw, "assign", "an assignment")?;
    let mut read = Vec::new();
    for raw in reader.list(rules, "rules, a list of objects")? {
        let read_rule = rule(reader, raw, program, &mut all);
        read.extend(reader.recover(read_rule)?.map(|rule| (raw, rule)));
    }
    let rules = &mut read;
    match &mut program.body {
        Body::Statements(block) => statements(&mut block.statements, rules),
        Body::Instructions(_) => {
            let message = "a list of instructions has its streams in it; edit the list";
            return Err(reader.error(raw, message));
        }
    }
    for executable in &mut program.executables {
        statements(&mut executable.block.statements, rules);
    }
    for (raw, _) in read.iter().filter(|(_, rule)| !rule.is_used) {
        reader.recover::<()>(Err(reader.error(*raw, "the rule holds for no call")))?;
    }
    Ok(())
}

fn rule<'a>(
    reader: &Reader<'a>,
    raw: Raw<'a, RuleForm<'a>>,
    program: &mut Program,
    all: &mut HashMap<String, StreamRef>,
) -> Result<Rule> {
    let form = reader.object(raw, "a rule")?;
    reader.check_note(form.note)?;
    let ops = match form.op {
        None => None,
        Some(op) if op.kind() == "a string" => Some(vec![reader.name(op, "an op")?.into_owned()]),
        Some(op) => {
            let list = reader.list::<String>(op.cast(), "the name of an op or a list of them")?;
            let names = list.into_iter().map(|op| Ok(reader.name(op, "an op")?.into_owned()));
            Some(names.collect::<Result<_>>()?)
        }
    };
    const PLACE: &str = "a line or node, or a list of the first and the last";
    let at = match form.at {
        None => None,
        Some(at) if at.kind() == "a number" => {
            let place: u32 = reader.number(at.cast::<u32>(), PLACE)?;
            Some((place, place))
        }
        Some(at) => match reader.number::<(u32, u32)>(at.cast(), PLACE)? {
            (from, to) if from <= to => Some((from, to)),
            _ => return Err(reader.error(at, "the first place is behind the last")),
        },
    };
    if ops.is_none() && at.is_none() {
        let error = reader.error(raw, "the rule names neither an op nor a place");
        return Err(error.help("give it 'op', 'at', or both"));
    }
    let wanted = reader.require(form.stream, raw, "stream", "a rule")?;
    let stream = match wanted.kind() {
        "a string" => {
            let name = reader.name(wanted, "the name of a stream")?;
            let known = all.keys().map(String::as_str);
            let unknown = || reader.error(wanted, format!("unknown stream '{name}'"));
            *all.get(&*name).ok_or_else(|| unknown().meant(nearest(&name, known)))?
        }
        _ => {
            let wanted = wanted.cast::<u32>();
            let index = reader.number(wanted, "the index of a compute stream, or a name")?;
            let site = Site { source: reader.source.clone(), span: reader.span(wanted) };
            compute(program, index, site)
        }
    };
    Ok(Rule { ops, at, stream, is_used: false })
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

fn statements(list: &mut [Statement], rules: &mut [(Raw<'_, RuleForm<'_>>, Rule)]) {
    for statement in list {
        match &mut statement.action {
            Action::Call(call) => {
                let line = statement.span.line;
                for (_, rule) in rules.iter_mut().filter(|(_, rule)| rule.holds(&call.op, line)) {
                    call.stream = Some(rule.stream);
                    rule.is_used = true;
                }
            }
            Action::CriticalSection { body, .. } => statements(body, rules),
            Action::Release(_)
            | Action::Record { .. }
            | Action::Wait { .. }
            | Action::StreamWait { .. }
            | Action::Read(_)
            | Action::Touch { .. }
            | Action::Barrier
            | Action::GlobalSync
            | Action::Synchronize(_)
            | Action::Launch(_) => {}
        }
    }
}
