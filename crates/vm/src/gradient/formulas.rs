//! Runs the formulas of the table of derivatives: their calls are ordinary ones.

use std::cell::RefCell;

use smallvec::SmallVec;

use millstream_ops::derivative::{Differentiated, Rule};
use millstream_ops::formula::{Emitter, Symbol};
use millstream_types::{Attrs, DType, Result, TensorSpec};

use crate::handle::Tensor;
use crate::handle::machine::Inputs;
use crate::tensor;

use super::node::{Kept, Node};
use super::notes::Notes;
use super::tape;

/// The tensors of formulas, by the numbers of their symbols.
struct Calls<'a> {
    tensors: SmallVec<[Tensor; 8]>,
    /// A tensor beside which new ones are made.
    beside: &'a Tensor,
}

impl Calls<'_> {
    fn given(&self, inputs: &[Symbol]) -> Inputs<'_> {
        inputs.iter().map(|x| &self.tensors[x.0]).collect()
    }

    fn add(&mut self, tensor: Tensor) -> Symbol {
        self.tensors.push(tensor);
        Symbol(self.tensors.len() - 1)
    }
}

impl Emitter for Calls<'_> {
    fn spec(&self, tensor: Symbol) -> &TensorSpec {
        self.tensors[tensor.0].spec()
    }

    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>> {
        if inputs.is_empty() {
            return self.one(op, inputs, attrs).map(|x| vec![x]);
        }
        let made = tensor::call_op(op, &self.given(inputs), attrs)?;
        Ok(made.into_iter().map(|tensor| self.add(tensor)).collect())
    }

    fn one(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Symbol> {
        let made = match inputs.is_empty() {
            true => tensor::create(op, attrs, &self.beside)?,
            false => tensor::call_one(op, &self.given(inputs), attrs)?,
        };
        Ok(self.add(made))
    }

    fn list(&mut self, numbers: &[f64], dtype: DType) -> Result<Symbol> {
        if dtype != DType::I64 {
            return self.list_by_calls(numbers, dtype);
        }
        let whole: Vec<i64> = numbers.iter().map(|&v| v as i64).collect();
        let list = Tensor::from_slice(&whole, whole.len(), self.beside)?;
        Ok(self.add(list))
    }
}

/// Returns the gradients of a call's inputs, by its rule, from those of its results.
///
/// # Errors
/// As [`Rule::gradients`]; a kept tensor has been changed since.
pub(super) fn gradients(
    rule: &Rule,
    node: &Node,
    notes: &RefCell<Notes>,
    gradients: &[Option<Tensor>],
    beside: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let mut calls = Calls { tensors: SmallVec::new(), beside };
    let mut kept = |of: &[Option<Kept>]| -> SmallVec<[Option<Result<Symbol>>; 3]> {
        let tensor = |kept: &Kept| notes.borrow().kept(kept, node);
        of.iter().map(|kept| Some(tensor(kept.as_ref()?).map(|x| calls.add(x)))).collect()
    };
    let (inputs, outputs) = (kept(&node.kept_inputs), kept(&node.kept_outputs));
    let gradients = gradients.iter().map(|g| g.clone().map(|g| calls.add(g)));
    let gradients: SmallVec<[Option<Symbol>; 2]> = gradients.collect();
    let needed: SmallVec<[bool; 8]> = node.inputs.iter().map(Option::is_some).collect();
    let call = Differentiated {
        attrs: &node.attrs,
        input_specs: &node.input_specs,
        output_specs: &node.output_specs,
        needed: &needed,
        inputs: &inputs,
        outputs: &outputs,
        gradients: &gradients,
        is_noted: !tape::is_paused(),
    };
    let made = rule.gradients(&mut calls, &call)?;
    Ok(made.into_iter().map(|x| x.map(|x| calls.tensors[x.0].clone())).collect())
}
