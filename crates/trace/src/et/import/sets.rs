//! Calls over lists of tensors: where a node is the same calls for each set of tensors, they become
//! one call of `multi_tensor`. What is tracked of elements was tracked for the calls one by one.

use std::collections::HashSet;

use millstream_ops::formula::Symbol;
use millstream_ops::fused::{MAX_INPUTS, MAX_STEPS, PROGRAM, Program, Step, Value};
use millstream_ops::multi_tensor::{COLUMNS, MULTI_TENSOR, SETS, Sets};
use millstream_types::Attrs;

use super::{Import, Val};
use crate::program::{Action, Call, Results, Statement, ValueRef};

/// The calls of a set as a program.
struct Form {
    steps: Vec<Step>,
    /// The tensors that the program reads, and those that it makes.
    inputs: Vec<ValueRef>,
    made: Vec<ValueRef>,
}

impl Form {
    /// Returns the form of a set's calls; none if they are no program.
    fn of(statements: &[Statement]) -> Option<Form> {
        let mut form = Form { steps: Vec::new(), inputs: Vec::new(), made: Vec::new() };
        // The step that makes each tensor.
        let mut makers: Vec<usize> = Vec::new();
        for statement in statements {
            let Action::Call(call) = &statement.action else { return None };
            let mut operands = Vec::new();
            for input in &call.inputs {
                operands.push(match form.made.iter().position(|made| made == input) {
                    Some(at) => Value::Step(makers[at]),
                    None => Value::Input(form.input(*input)?),
                });
            }
            let step = Step { op: call.op.clone(), operands, attrs: call.attrs.clone() };
            match &call.results {
                Results::New(results) if results.is_empty() && step.is_in_place() => {}
                Results::New(results) if results.len() == 1 && !step.is_in_place() => {
                    makers.push(form.steps.len());
                    form.made.push(results[0]);
                }
                _ => return None,
            }
            form.steps.push(step);
        }
        (form.steps.len() <= MAX_STEPS).then_some(form)
    }

    fn input(&mut self, value: ValueRef) -> Option<usize> {
        let known = self.inputs.iter().position(|input| *input == value);
        if known.is_none() {
            self.inputs.push(value);
        }
        let number = known.unwrap_or(self.inputs.len() - 1);
        (number < MAX_INPUTS).then_some(number)
    }
}

impl Import<'_> {
    /// Returns the number of statements so far.
    pub(crate) fn position(&self) -> usize {
        self.statements.len()
    }

    /// Merges the statements since a position, which are those of the sets that end at `ends`, into
    /// one, if they are the same calls on different tensors.
    pub(crate) fn merge_sets(&mut self, from: usize, ends: &[usize]) {
        let Some((call, dropped)) = self.merged(from, ends) else { return };
        let statement = Statement { span: self.span, action: Action::Call(Box::new(call)) };
        self.statements.splice(from.., [statement]);
        for tensor in &mut self.tensors {
            tensor.last_use = tensor.last_use.map(|last| last.min(from));
        }
        for storage in &mut self.storages {
            storage.last_write = storage.last_write.min(from);
        }
        dropped.iter().for_each(|value| self.tensors[value.index()].last_use = None);
    }

    /// Returns the one call, and the tensors that nothing makes any more.
    fn merged(&self, from: usize, ends: &[usize]) -> Option<(Call, Vec<ValueRef>)> {
        let statements = &self.statements;
        if ends.len() < 2 || ends.last() != Some(&statements.len()) {
            return None;
        }
        let mut forms = Vec::new();
        let mut at = from;
        for &end in ends {
            forms.push(Form::of(&statements[at..end])?);
            at = end;
        }
        let first = &forms[0];
        let alike =
            |form: &Form| form.steps == first.steps && form.inputs.len() == first.inputs.len();
        if first.steps.is_empty() || !forms.iter().all(alike) {
            return None;
        }
        // The inputs of the sets come before those that all share.
        let changed = |k: usize| first.steps.iter().any(|s| s.target() == Some(Value::Input(k)));
        let is_shared =
            |k: usize| !changed(k) && forms.iter().all(|form| form.inputs[k] == first.inputs[k]);
        let (mut order, shared): (Vec<usize>, Vec<usize>) =
            (0..first.inputs.len()).partition(|k| !is_shared(*k));
        let columns = order.len();
        order.extend(&shared);
        let renumbered = |value: &Value| match *value {
            Value::Input(k) => order.iter().position(|at| *at == k).map(Value::Input),
            step => Some(step),
        };
        let step = |step: &Step| {
            let operands = step.operands.iter().map(renumbered).collect::<Option<Vec<_>>>()?;
            Some(Step { operands, ..step.clone() })
        };
        let program = Program::new(first.steps.iter().map(step).collect::<Option<Vec<_>>>()?);
        let program = program.ok()?;
        let own = forms.iter().flat_map(|form| order[..columns].iter().map(|&k| form.inputs[k]));
        let inputs: Vec<ValueRef> = own.chain(shared.iter().map(|&k| first.inputs[k])).collect();
        let attrs = Attrs::new()
            .with(PROGRAM, program.to_string().as_str())
            .with(COLUMNS, columns as i64)
            .with(SETS, forms.len() as i64);
        let vals: Vec<Val> = inputs.iter().map(|value| Symbol(value.index())).collect();
        self.infer(MULTI_TENSOR, &vals, &attrs).ok()?;
        let sets = Sets::of(&attrs, inputs.len()).ok()?;
        if !self.are_apart(&sets, &vals) {
            return None;
        }
        let is_new = program.makes_result();
        let results = forms.iter().filter_map(|form| form.made.last().copied().filter(|_| is_new));
        let results: Vec<ValueRef> = results.collect();
        let made = forms.iter().flat_map(|form| &form.made).copied();
        let dropped = made.filter(|value| !results.contains(value)).collect();
        let call = Call { attrs, ..Call::new(MULTI_TENSOR, self.span, inputs, results) };
        Some((call, dropped))
    }

    /// Returns whether the tensors that a call changes have storages of their own.
    fn are_apart(&self, sets: &Sets, vals: &[Val]) -> bool {
        let columns = sets.program.written();
        let places =
            (0..sets.count).flat_map(|set| columns.iter().map(move |&k| sets.operand(set, k)));
        let changed: HashSet<usize> = places.collect();
        let storages: Vec<_> = vals.iter().map(|val| self.tensors[val.0].storage).collect();
        let mut of_changed = HashSet::new();
        changed.iter().all(|&k| of_changed.insert(storages[k]))
            && (0..vals.len()).all(|k| changed.contains(&k) || !of_changed.contains(&storages[k]))
    }
}
