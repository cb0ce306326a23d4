//! Finishes the program: copies outputs that are overwritten later, releases tensors after their
//! last use, and renumbers all tensors.

use std::collections::HashMap;

use millstream_ops::formula::Symbol;
use millstream_types::TensorSpec;

use super::{Finished, Import, Lowered, Val};
use crate::error::Site;
use crate::et::report::Imported;
use crate::program::{Action, Call, Output, Statement, ValueRef};

impl Import<'_> {
    /// Copies outputs that are overwritten later, releases tensors after their last use, and
    /// renumbers tensors so that those that exist before the program come first.
    pub(crate) fn finish(mut self) -> Lowered<(Finished, Imported)> {
        let mut kept: Vec<(usize, Val, Val)> = Vec::new();
        for k in 0..self.bound.len() {
            let (val, after) = (self.bound[k].val, self.bound[k].after);
            if self.storage(val).last_write >= after && after < self.statements.len() {
                let spec = self.tensors[val.0].spec.clone();
                let spec = TensorSpec::contiguous(spec.dtype, spec.shape())?;
                let name = format!("{} as it was", self.tensors[val.0].name);
                let copy = self.define_storage(name, spec, None);
                self.bound[k].val = copy;
                kept.push((after, val, copy));
            }
        }
        let initial_of: HashMap<Val, usize> =
            self.initial.iter().enumerate().map(|(k, i)| (i.val, k)).collect();
        let mut order: Vec<Option<u32>> = vec![None; self.tensors.len()];
        let mut next = self.initial.len() as u32;
        for (k, number) in order.iter_mut().enumerate() {
            *number = Some(match initial_of.get(&Symbol(k)) {
                Some(&initial) => initial as u32,
                None => {
                    next += 1;
                    next - 1
                }
            });
        }
        let number = |val: Val| ValueRef(order[val.0].unwrap_or(u32::MAX));

        // The tensors to release after each statement.
        let outputs: Vec<Val> = self.bound.iter().map(|b| b.val).collect();
        let mut releases: HashMap<usize, Vec<ValueRef>> = HashMap::new();
        let made: HashMap<usize, usize> = defining_statements(&self.statements);
        for (k, tensor) in self.tensors.iter().enumerate() {
            let val = Symbol(k);
            let keeps = initial_of.get(&val).is_some_and(|&i| !self.initial[i].constant);
            if keeps || outputs.contains(&val) {
                continue;
            }
            let copied = kept.iter().filter(|(_, of, _)| *of == val).map(|(after, ..)| *after);
            let last = tensor.last_use.into_iter().chain(made.get(&k).copied());
            if let Some(last) = last.chain(copied).max() {
                releases.entry(last).or_default().push(number(val));
            }
        }
        let mut copies: HashMap<usize, Vec<(Val, Val)>> = HashMap::new();
        for (after, of, copy) in kept {
            copies.entry(after).or_default().push((of, copy));
        }

        let mut statements = Vec::new();
        let count = self.statements.len();
        let source: Vec<Option<Statement>> =
            std::mem::take(&mut self.statements).into_iter().map(Some).chain([None]).collect();
        for (index, statement) in source.into_iter().enumerate() {
            for (of, copy) in copies.remove(&index).unwrap_or_default() {
                let span = self.tensors[of.0].span;
                let call = Call::new("copy", span, vec![number(of)], vec![number(copy)]);
                statements.push(Statement { span, action: Action::Call(Box::new(call)) });
            }
            let Some(mut statement) = statement else { continue };
            statement.action.values_mut(&mut |v| *v = number(Symbol(v.index())));
            let span = statement.span;
            statements.push(statement);
            if let Some(released) = releases.remove(&index).filter(|_| index < count) {
                statements.push(Statement { span, action: Action::Release(released) });
            }
        }

        let mut values: Vec<Option<crate::program::Value>> = vec![None; self.tensors.len()];
        for (k, tensor) in self.tensors.iter().enumerate() {
            values[number(Symbol(k)).index()] = Some(crate::program::Value {
                name: tensor.name.clone(),
                span: tensor.span,
                recorded: tensor.recorded.then(|| tensor.spec.clone()),
            });
        }
        let tensors = self.initial.iter().map(|initial| {
            let tensor = &self.tensors[initial.val.0];
            crate::program::Tensor {
                name: tensor.name.clone(),
                spec: tensor.spec.clone(),
                storage_bytes: self.storages[tensor.storage.0].bytes,
                device: None,
                data: initial.data.clone(),
                ranks: None,
                held: None,
                site: Site { source: self.source.clone(), span: tensor.span },
            }
        });
        // With skipped nodes or substituted numbers, the results differ from the recorded ones.
        let comparable = !self.options.structural
            || (self.report.skipped.is_empty() && self.report.missing_scalars == 0);
        let comparable = comparable && self.report.random_inputs == 0;
        let finished = Finished {
            tensors: tensors.collect(),
            values: values.into_iter().flatten().collect(),
            statements,
            outputs: self
                .bound
                .into_iter()
                .map(|b| Output {
                    value: Some(number(b.val)),
                    expected: b.output.expected.filter(|_| comparable),
                    probe: b.output.probe.filter(|_| comparable),
                    ..b.output
                })
                .collect(),
        };
        Ok((finished, self.report))
    }
}

/// Returns the statement that defines each tensor.
fn defining_statements(statements: &[Statement]) -> HashMap<usize, usize> {
    let mut made = HashMap::new();
    for (index, statement) in statements.iter().enumerate() {
        let Action::Call(call) = &statement.action else { continue };
        for result in call.results.new_values() {
            made.entry(result.index()).or_insert(index);
        }
    }
    made
}
