//! The part of one rank: its statements, tensors and outputs, with values renumbered.

use std::sync::Arc;

use millstream_types::{StreamMode, StreamType};

use crate::error::Site;
use crate::program::{
    Action, Block, Body, Call, Program, Results, Statement, Stream, StreamRef, ValueRef,
};

/// What the walk keeps of a program for one rank.
#[derive(Default)]
pub(super) struct Part {
    pub(super) statements: Vec<Statement>,
    /// Whether the rank sends or receives copies, on a stream after those of the program.
    pub(super) transfers: bool,
    /// For each output, in order, whether the rank reads it.
    pub(super) outputs: Vec<bool>,
}

/// Makes the program of one rank.
pub(super) fn part(mut program: Program, rank: u32, part: Part) -> Program {
    let held: Vec<bool> = program
        .tensors
        .iter()
        .map(|t| t.ranks.as_ref().is_none_or(|on| on.ranks.contains(&rank)))
        .collect();
    // The first values are the tensors of the file: those of other ranks come after all others.
    let is_first = |k: &usize| held.get(*k).copied().unwrap_or(false);
    let (first, rest): (Vec<usize>, Vec<usize>) = (0..program.values.len()).partition(is_first);
    let order: Vec<usize> = first.into_iter().chain(rest).collect();
    let mut numbers = vec![ValueRef(0); order.len()];
    for (number, of) in (0..).map(ValueRef).zip(&order) {
        numbers[*of] = number;
    }
    let number = |value: &mut ValueRef| *value = numbers[value.index()];
    program.values = order.iter().map(|of| program.values[*of].clone()).collect();
    let mut of_tensor = held.iter();
    program.tensors.retain(|_| of_tensor.next().copied().unwrap_or(false));
    program.is_divided = true;
    program.tensors.iter_mut().for_each(|tensor| tensor.ranks = None);
    let mut of_output = part.outputs.iter();
    program.outputs.retain(|_| of_output.next().copied().unwrap_or(false));
    program.outputs.iter_mut().filter_map(|output| output.value.as_mut()).for_each(number);
    let mut statements = part.statements;
    statements.iter_mut().for_each(|statement| renumber(&mut statement.action, number));
    if part.transfers {
        let is_free = |name: &String| program.streams.iter().all(|stream| stream.name != *name);
        let mut names =
            std::iter::successors(Some("transfers".to_owned()), |name| Some(format!("{name}_")));
        let name = names.find(is_free).unwrap_or_default();
        program.streams.push(Stream {
            name,
            device: None,
            ty: StreamType::CCL,
            index: None,
            mode: StreamMode::InOrder,
            site: Site { source: Arc::clone(&program.source), span: program.source.span(0..0) },
        });
    }
    if let Body::Statements(Block { statements: all, .. }) = &mut program.body {
        *all = statements;
    }
    program
}

/// Returns the stream of the copies.
pub(super) fn transfers(program: &Program) -> StreamRef {
    StreamRef(program.streams.len() as u32)
}

fn renumber(action: &mut Action, number: impl Fn(&mut ValueRef)) {
    match action {
        Action::Call(call) => {
            let Call { inputs, results: Results::New(list) | Results::Into(list), .. } =
                &mut **call;
            inputs.iter_mut().chain(list).for_each(number);
        }
        Action::Release(values) | Action::Touch { tensors: values, .. } => {
            values.iter_mut().for_each(number);
        }
        Action::Read(value) => number(value),
        // The walk refuses sections and launches.
        Action::CriticalSection { .. } | Action::Launch(_) => {}
        Action::Record { .. }
        | Action::Wait { .. }
        | Action::StreamWait { .. }
        | Action::Barrier
        | Action::GlobalSync
        | Action::Synchronize(_) => {}
    }
}
