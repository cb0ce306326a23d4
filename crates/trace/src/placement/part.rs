//! The part of one rank: its statements, tensors and outputs, with values renumbered.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use millstream_types::{Reduction, Sbp, Sharding, StreamMode, StreamType, TensorSpec};

use crate::data::{self, Data};
use crate::error::Site;
use crate::number::Number;
use crate::program::{
    Block, Body, Executable, Output, Program, Statement, Stream, StreamRef, Tensor, ValueRef,
};

/// What the walk keeps of a program for one rank.
#[derive(Default)]
pub(super) struct Part {
    pub(super) statements: Vec<Statement>,
    /// Those of each executable.
    pub(super) executables: Vec<Vec<Statement>>,
    /// Whether the rank sends or receives copies, on a stream after those of the program.
    pub(super) transfers: bool,
    /// For each output, in order, the value that the rank reads, if it reads one.
    pub(super) outputs: Vec<Option<ValueRef>>,
    /// The part of each tensor of a mesh, by the tensor's number; `None` outside of the mesh.
    pub(super) declared: BTreeMap<usize, Option<Declared>>,
}

/// The part of a rank of a tensor that a mesh holds.
pub(super) struct Declared {
    pub(super) spec: TensorSpec,
    ranges: Vec<Range<usize>>,
    /// Whether it has no part in a sum but zeros.
    is_zero: bool,
}

impl Declared {
    /// Returns the part of a rank; `None` outside of the mesh.
    ///
    /// # Errors
    /// The tensor cannot be held so.
    pub(super) fn of(
        spec: &TensorSpec,
        sharding: &Sharding,
        rank: u32,
    ) -> millstream_types::Result<Option<Declared>> {
        let Some(at) = sharding.mesh().coordinates(rank) else { return Ok(None) };
        let of_sum = |(sbp, at): (&Sbp, &usize)| sbp.reduction() == Some(Reduction::Sum) && *at > 0;
        let is_zero = sharding.sbp().iter().zip(&at).any(of_sum);
        let ranges = sharding.part(spec.shape(), &at).into_vec();
        Ok(Some(Declared { spec: sharding.local_spec(spec, &at)?, ranges, is_zero }))
    }

    /// Replaces a tensor of the file by this part of it.
    fn replace(self, tensor: &mut Tensor) {
        let zero = match tensor.spec.dtype.is_inexact() {
            true => Number::Float(-0.0),
            false => Number::Int(0),
        };
        let part = |whole: Data| {
            let (spec, ranges) = (tensor.spec.clone(), self.ranges);
            Data::Part(Arc::new(data::Part { whole, spec, ranges }))
        };
        let data = std::mem::replace(&mut tensor.data, Data::Fill(zero));
        if !self.is_zero {
            let is_any_part = matches!(data, Data::Fill(_));
            let is_whole = self.spec.shape() == tensor.spec.shape();
            tensor.data = if is_any_part || is_whole { data } else { part(data) };
        }
        tensor.storage_bytes = self.spec.span_bytes();
        tensor.spec = self.spec;
    }
}

/// Makes the program of one rank.
pub(super) fn part(mut program: Program, rank: u32, mut part: Part) -> Program {
    let held: Vec<bool> = program
        .tensors
        .iter()
        .enumerate()
        .map(|(k, t)| match part.declared.get(&k) {
            Some(declared) => declared.is_some(),
            None => t.ranks.as_ref().is_none_or(|on| on.ranks.contains(&rank)),
        })
        .collect();
    let mut wholes = Vec::new();
    for (k, declared) in std::mem::take(&mut part.declared) {
        wholes.push((ValueRef(k as u32), program.tensors[k].clone()));
        if let Some(declared) = declared {
            declared.replace(&mut program.tensors[k]);
        }
    }
    // The first values are the tensors of the file: those of other ranks come after all others.
    let is_first = |k: &usize| held.get(*k).copied().unwrap_or(false);
    let (first, rest): (Vec<usize>, Vec<usize>) = (0..program.values.len()).partition(is_first);
    let order: Vec<usize> = first.into_iter().chain(rest).collect();
    let mut numbers = vec![ValueRef(0); order.len()];
    for (number, of) in (0..).map(ValueRef).zip(&order) {
        numbers[*of] = number;
    }
    let mut number = |value: &mut ValueRef| *value = numbers[value.index()];
    program.values = order.iter().map(|of| program.values[*of].clone()).collect();
    let mut of_tensor = held.iter();
    program.tensors.retain(|_| of_tensor.next().copied().unwrap_or(false));
    wholes.iter_mut().for_each(|(value, _)| number(value));
    program.wholes = Some(wholes);
    for tensor in &mut program.tensors {
        (tensor.ranks, tensor.held) = (None, None);
    }
    let outputs = std::mem::take(&mut program.outputs).into_iter().zip(&part.outputs);
    let read =
        outputs.filter_map(|(output, value)| Some(Output { value: Some((*value)?), ..output }));
    program.outputs = read.collect();
    program.outputs.iter_mut().filter_map(|output| output.value.as_mut()).for_each(&mut number);
    let mut statements = part.statements;
    statements.iter_mut().for_each(|statement| statement.action.values_mut(&mut number));
    for (executable, statements) in program.executables.iter_mut().zip(part.executables) {
        executable.block.statements = statements;
        let Executable { inputs, block, results, bound, .. } = executable;
        inputs.iter_mut().for_each(|input| number(&mut input.value));
        results.iter_mut().for_each(|result| number(&mut result.value));
        bound.iter_mut().for_each(&mut number);
        block.statements.iter_mut().for_each(|statement| statement.action.values_mut(&mut number));
    }
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
