//! The program's own names of the streams and tensors of a list.

use std::collections::HashMap;

use millstream_instructions::{Body as Instruction, InstructionList};
use millstream_trace::{Action, Body, Program, Results, Statement, ValueRef};
use millstream_types::{Origin, StreamId, StreamKey, TensorId};

use crate::options::RunOptions;

/// The names that a program gives to streams and tensors of its list. Externals have theirs in the
/// list itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The named streams, in the order of the list.
    pub streams: Vec<(StreamId, String)>,
    /// The named tensors, in the order of the list.
    pub tensors: Vec<(TensorId, String)>,
}

/// Returns the names that a native trace gives to what its list holds. A tensor is known by the
/// line of the statement that makes it, so statements that share a line name nothing. The numbers
/// of a recorded program are no names.
pub fn names(program: &Program, options: &RunOptions, list: &InstructionList) -> Names {
    let mut names = Names::default();
    if program.imported.is_some() {
        return names;
    }
    let streams = stream_names(program, options);
    for (k, decl) in list.streams.iter().enumerate() {
        if let Some((_, name)) = streams.iter().find(|(key, _)| *key == decl.key) {
            names.streams.push((StreamId(k as u16), (*name).to_owned()));
        }
    }
    let Body::Statements(block) = &program.body else { return names };
    let mut by_line: HashMap<u32, Option<&[ValueRef]>> = HashMap::new();
    results(&block.statements, &mut by_line);
    let mut made: HashMap<u32, usize> = HashMap::new();
    for instruction in &list.instructions {
        let (Instruction::AllocateTensor { tensor, .. } | Instruction::ViewTensor { tensor, .. }) =
            &instruction.body
        else {
            continue;
        };
        let Origin::Trace(_, line) = &instruction.origin else { continue };
        let Some(Some(values)) = by_line.get(line) else { continue };
        let count = made.entry(*line).or_default();
        if let Some(value) = values.get(*count) {
            names.tensors.push((*tensor, program.values[value.index()].name.clone()));
        }
        *count += 1;
    }
    names
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

/// Collects the results of the calls of each line; none for a line with several statements.
fn results<'p>(statements: &'p [Statement], all: &mut HashMap<u32, Option<&'p [ValueRef]>>) {
    for statement in statements {
        let own = match &statement.action {
            Action::Call(call) => match &call.results {
                Results::New(values) => Some(values.as_slice()),
                Results::Into(_) => None,
            },
            Action::CriticalSection { body, .. } => {
                results(body, all);
                continue;
            }
            Action::Release(_)
            | Action::Record { .. }
            | Action::Wait { .. }
            | Action::StreamWait { .. }
            | Action::Read(_)
            | Action::Touch { .. }
            | Action::Barrier
            | Action::GlobalSync
            | Action::Synchronize(_)
            | Action::Launch(_) => None,
        };
        all.entry(statement.span.line).and_modify(|known| *known = None).or_insert(own);
    }
}
