//! The program's own names of the streams and tensors of a list.

use std::collections::{HashMap, HashSet};

use millstream_instructions::{Instruction, InstructionList};
use millstream_trace::{Action, Body, Program, Results, Statement, ValueRef};
use millstream_types::{Origin, StreamId, StreamKey, TensorId};

use crate::dry_run::{self, Subject};
use crate::lower::lower;
use crate::options::RunOptions;

/// The names that a program gives to streams and tensors of its list. Externals have theirs in the
/// list itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The named streams, in the order of the list.
    pub streams: Vec<(StreamId, String)>,
    /// The named tensors, in the order of the list.
    pub tensors: Vec<(TensorId, String)>,
    /// Those of the lists of the executables that the list launches.
    pub executables: Vec<Names>,
}

/// Returns the names that a native trace gives to what its list holds. A tensor is known by the
/// statement that makes it. The numbers of a recorded program are no names.
pub fn names(program: &Program, options: &RunOptions, list: &InstructionList) -> Names {
    let mut names = Names::default();
    if program.imported.is_some() {
        return names;
    }
    let executables = list.executables.iter().map(|list| self::names(program, options, list));
    names.executables = executables.collect();
    let streams = stream_names(program, options);
    for (k, decl) in list.streams.iter().enumerate() {
        if let Some((_, name)) = streams.iter().find(|(key, _)| *key == decl.key) {
            names.streams.push((StreamId(k as u16), (*name).to_owned()));
        }
    }
    let Body::Statements(block) = &program.body else { return names };
    let mut results: HashMap<u32, &[ValueRef]> = HashMap::new();
    let share_lines = !collect(&block.statements, &mut results);
    let mut made = made(list);
    let apart;
    if share_lines {
        // The same list, of a program whose statements have lines of their own.
        apart = one_a_line(program);
        let Some(known) = known_list(&apart, options) else { return names };
        let lines = self::made(&known);
        if lines.len() != made.len() {
            return names;
        }
        made.iter_mut().zip(&lines).for_each(|((_, line), (_, own))| *line = *own);
        let Body::Statements(block) = &apart.body else { return names };
        results.clear();
        collect(&block.statements, &mut results);
    }
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for (tensor, line) in made {
        let Some(values) = line.and_then(|line| results.get(&line)) else { continue };
        let count = counts.entry(line.unwrap_or_default()).or_default();
        if let Some(value) = values.get(*count) {
            names.tensors.push((tensor, program.values[value.index()].name.clone()));
        }
        *count += 1;
    }
    names
}

/// Returns the tensors that the statements of a list's program make, each with its line of the
/// trace. A composite op's statement makes others too, which it releases itself.
fn made(list: &InstructionList) -> Vec<(TensorId, Option<u32>)> {
    let line = |instruction: &Instruction| match &instruction.origin {
        Origin::Trace(_, line) => Some(*line),
        Origin::Unknown | Origin::Code(_) | Origin::Text(_) | Origin::Again(_) => None,
    };
    let within = list.instructions.iter().filter_map(|i| Some((i.body.ends()?, line(i)?)));
    let within: HashSet<(TensorId, u32)> = within.collect();
    let begun = list.instructions.iter().filter_map(|i| Some((i.body.begins()?.0, line(i))));
    begun
        .filter(|(tensor, line)| line.is_none_or(|line| !within.contains(&(*tensor, line))))
        .collect()
}

/// Returns the list of a program, if it is known without a run.
fn known_list(program: &Program, options: &RunOptions) -> Option<InstructionList> {
    let lowered = &lower(program, options).ok()?;
    dry_run::list(Subject { program, lowered, options }).ok()?
}

/// Returns a program whose statements have a line each.
fn one_a_line(program: &Program) -> Program {
    let mut apart = program.clone();
    if let Body::Statements(block) = &mut apart.body {
        let mut lines = 1..;
        Statement::each_mut(&mut block.statements, &mut |statement| {
            statement.span.line = lines.next().unwrap_or_default();
        });
    }
    apart
}

/// Returns the streams of a native trace that have names. A stream that an assignment knows by its
/// number alone has none.
pub(crate) fn stream_names<'p>(
    program: &'p Program,
    options: &RunOptions,
) -> Vec<(StreamKey, &'p str)> {
    if program.imported.is_some() {
        return Vec::new();
    }
    let keys = program.stream_keys(&options.device).unwrap_or_default();
    let all = keys.into_iter().zip(program.streams.iter().map(|stream| stream.name.as_str()));
    all.filter(|(key, name)| *name != format!("{} {}", key.ty, key.index)).collect()
}

/// Collects the results of the call of each line. Returns whether each statement has a line of its
/// own.
fn collect<'p>(statements: &'p [Statement], all: &mut HashMap<u32, &'p [ValueRef]>) -> bool {
    let mut is_apart = true;
    for statement in Statement::each(statements) {
        let own: &[ValueRef] = match &statement.action {
            Action::CriticalSection { .. } => continue,
            Action::Call(call) => match &call.results {
                Results::New(values) => values,
                Results::Into(_) => &[],
            },
            _ => &[],
        };
        is_apart &= all.insert(statement.span.line, own).is_none();
    }
    is_apart
}
