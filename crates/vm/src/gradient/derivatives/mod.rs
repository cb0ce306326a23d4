//! The table of derivatives: for each op what is kept for its gradient, and the formulas, which are
//! calls of ops.
//!
//! A formula gives the gradient of one input. It may have the shape and dtype that broadcasting and
//! promotion gave it: [`Derivative::for_input`] reduces it to the input's. An op without a rule has
//! no derivative; one whose results are not floats needs none. An op in place has the rule of the
//! op that makes a new tensor.
//!
//! Sources: `derivatives.yaml` and `FunctionsManual.cpp` of PyTorch for what happens at ties, zeros
//! and other points without a derivative.

mod arith;
pub(super) mod complex;
mod conv;
mod fft;
mod grid;
mod higher;
mod index;
mod linalg;
mod loss;
mod matmul;
mod pointwise;
mod reduce;
mod special;
mod views;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::OnceLock;

use millstream_types::{AttrValue, Attrs, DType, Error, Result, TensorSpec};

use crate::handle::Tensor;
use crate::tensor::{Number, Operand};

use super::node::Node;
use super::notes::Notes;

/// A tensor that a formula needs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Save {
    /// The input at this position of the op's list.
    Input(usize),
    /// The result at this position.
    Output(usize),
}

/// A formula of one input's gradient.
pub(super) type Formula = fn(&Derivative<'_>) -> Result<Tensor>;

/// How the gradients of an op's inputs are computed.
pub(super) enum Formulas {
    /// For each input a formula; none if the result does not depend on the input smoothly.
    Each(&'static [Option<Formula>]),
    /// The same formula for any number of inputs, which gets the input's position.
    Every(fn(&Derivative<'_>, usize) -> Result<Tensor>),
    /// One formula for all inputs.
    Joint(fn(&Derivative<'_>) -> Result<Vec<Option<Tensor>>>),
}

/// A row of the table.
pub(super) struct Rule {
    pub(super) op: &'static str,
    /// What is kept, each with the inputs whose gradients need it.
    pub(super) saves: &'static [(Save, &'static [usize])],
    pub(super) formulas: Formulas,
}

const I0: Save = Save::Input(0);
const I1: Save = Save::Input(1);
const I2: Save = Save::Input(2);
const O0: Save = Save::Output(0);
const O1: Save = Save::Output(1);
const O2: Save = Save::Output(2);

/// Returns a rule with a formula for each input.
const fn each(
    op: &'static str,
    saves: &'static [(Save, &'static [usize])],
    formulas: &'static [Option<Formula>],
) -> Rule {
    Rule { op, saves, formulas: Formulas::Each(formulas) }
}

/// Returns a rule of one input.
const fn one(
    op: &'static str,
    saves: &'static [(Save, &'static [usize])],
    formula: &'static [Option<Formula>; 1],
) -> Rule {
    each(op, saves, formula)
}

/// Returns a rule with one formula for all inputs.
const fn joint(
    op: &'static str,
    saves: &'static [(Save, &'static [usize])],
    formula: fn(&Derivative<'_>) -> Result<Vec<Option<Tensor>>>,
) -> Rule {
    Rule { op, saves, formulas: Formulas::Joint(formula) }
}

/// Returns the rule of an op.
pub(super) fn rule(op: &str) -> Option<&'static Rule> {
    static TABLE: OnceLock<HashMap<&str, &Rule>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let families: [&'static [Rule]; 14] = [
            arith::RULES,
            complex::RULES,
            conv::RULES,
            grid::RULES,
            higher::RULES,
            index::RULES,
            linalg::RULES,
            loss::RULES,
            matmul::RULES,
            pointwise::RULES,
            reduce::RULES,
            special::RULES,
            fft::RULES,
            views::RULES,
        ];
        families.into_iter().flatten().map(|rule| (rule.op, rule)).collect()
    });
    table.get(op).copied()
}

/// What a formula can use: the gradients of the results, what was kept, specs and arguments.
pub(super) struct Derivative<'a> {
    pub(super) node: &'a Node,
    pub(super) notes: &'a RefCell<Notes>,
    pub(super) gradients: &'a [Option<Tensor>],
    /// A tensor beside which new ones are made.
    pub(super) beside: &'a Tensor,
}

impl Derivative<'_> {
    /// Returns the gradient of the first result.
    fn g(&self) -> Result<Tensor> {
        self.gradient(0)
    }

    /// Returns the gradient of a result, zeros if there is none.
    fn gradient(&self, output: usize) -> Result<Tensor> {
        match self.gradients.get(output).and_then(Option::as_ref) {
            Some(gradient) => Ok(gradient.clone()),
            None => {
                let spec = self.output_spec(output)?;
                Tensor::zeros(spec.shape(), spec.dtype, self.beside)
            }
        }
    }

    /// Returns whether an input needs its gradient.
    fn needs(&self, input: usize) -> bool {
        self.node.inputs.get(input).is_some_and(Option::is_some)
    }

    /// Returns whether the formula's calls are noted, to be differentiated again: then it makes no
    /// call that has no derivative, where another would do.
    fn is_noted(&self) -> bool {
        !crate::gradient::tape::is_paused()
    }

    fn missing(&self, what: &str, at: usize) -> Error {
        let message = format!("the rule of {} does not keep {what} {at}", self.node.op);
        Error::Internal { message }
    }

    /// Returns an input that the rule keeps.
    fn input(&self, at: usize) -> Result<Tensor> {
        match self.node.kept_inputs.get(at) {
            Some(Some(kept)) => self.notes.borrow().kept(kept, self.node),
            _ => Err(self.missing("input", at)),
        }
    }

    /// Returns an input that the rule keeps, if it was given.
    fn optional(&self, at: usize) -> Result<Option<Tensor>> {
        match self.is_given(at) {
            true => self.input(at).map(Some),
            false => Ok(None),
        }
    }

    /// Returns a result that the rule keeps.
    fn output(&self, at: usize) -> Result<Tensor> {
        match self.node.kept_outputs.get(at) {
            Some(Some(kept)) => self.notes.borrow().kept(kept, self.node),
            _ => Err(self.missing("output", at)),
        }
    }

    /// Returns whether the call was given this input.
    fn is_given(&self, at: usize) -> bool {
        self.node.input_specs.get(at).is_some_and(Option::is_some)
    }

    fn spec(&self, at: usize) -> Result<&TensorSpec> {
        let spec = self.node.input_specs.get(at).and_then(Option::as_ref);
        spec.ok_or_else(|| self.missing("the spec of input", at))
    }

    fn output_spec(&self, at: usize) -> Result<&TensorSpec> {
        let spec = self.node.output_specs.get(at);
        spec.ok_or_else(|| self.missing("the spec of output", at))
    }

    /// Returns the shape of an input.
    fn shape(&self, at: usize) -> Result<&[usize]> {
        Ok(self.spec(at)?.shape())
    }

    fn attrs(&self) -> &Attrs {
        &self.node.attrs
    }

    /// Returns a number that the call was given, or the default.
    fn number(&self, name: &str, default: f64) -> Result<f64> {
        match self.attrs().get(name) {
            Some(AttrValue::Bool(v)) => Ok(f64::from(u8::from(*v))),
            _ => Ok(self.attrs().float(name)?.unwrap_or(default)),
        }
    }

    /// Returns an operand: the kept input, or the number in its place.
    fn with_operand<T>(
        &self,
        at: usize,
        name: &str,
        then: impl FnOnce(Operand<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.is_given(at) {
            let tensor = self.input(at)?;
            return then(Operand::Tensor(&tensor));
        }
        match self.attrs().get(name) {
            Some(_) => then(Operand::Number(Number::of(self.attrs(), name)?)),
            None => Err(self.missing("operand", at)),
        }
    }

    /// Returns a dimension argument from the front.
    fn dim(&self, name: &str, default: i64, rank: usize) -> Result<i64> {
        let dim = self.attrs().int(name)?.unwrap_or(default);
        Ok(millstream_ops::args::dimension(dim, rank)? as i64)
    }

    /// Makes a call with some of the arguments of the noted one.
    fn call(&self, op: &str, inputs: &[&Tensor], attrs: &[&'static str]) -> Result<Vec<Tensor>> {
        let mut given = Attrs::new();
        for name in attrs {
            if let Some(value) = self.attrs().get(name) {
                given.set(*name, value.clone());
            }
        }
        crate::tensor::call_op(op, inputs, given)
    }

    /// Makes a call as [`Derivative::call`] does, and returns the first result.
    fn call_one(&self, op: &str, inputs: &[&Tensor], attrs: &[&'static str]) -> Result<Tensor> {
        first(op, self.call(op, inputs, attrs)?)
    }

    /// Refuses the gradient of an operand for which PyTorch has none, either.
    fn refuse(&self, operand: &str) -> Result<Tensor> {
        let op = &self.node.op;
        let message =
            format!("{op} has no derivative for {operand}; use `detach` there, or other ops");
        Err(Error::Invalid { what: "gradient", message })
    }

    /// Returns zeros of an input's shape and dtype.
    fn zeros(&self, at: usize) -> Result<Tensor> {
        let spec = self.spec(at)?;
        Tensor::zeros(spec.shape(), spec.dtype, self.beside)
    }

    /// Reduces a gradient to the shape and dtype of an input: what was broadcast is summed.
    pub(super) fn for_input(&self, at: usize, gradient: Tensor) -> Result<Tensor> {
        let spec = self.spec(at)?;
        reduced_to(gradient, spec.shape(), spec.dtype)
    }
}

/// Returns the complex conjugate; a real tensor is its own.
pub(super) fn conj(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { x.conj_physical() } else { Ok(x.clone()) }
}

/// Returns the adjoint of matrices.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    conj(&x.transpose(-1, -2)?)
}

fn first(op: &str, mut results: Vec<Tensor>) -> Result<Tensor> {
    if results.is_empty() {
        return Err(Error::Internal { message: format!("{op} has no result") });
    }
    Ok(results.swap_remove(0))
}

/// Sums a gradient over the dimensions that broadcasting added or repeated, and converts it.
fn reduced_to(mut gradient: Tensor, shape: &[usize], dtype: DType) -> Result<Tensor> {
    if gradient.shape() != shape {
        let added = gradient.rank().saturating_sub(shape.len());
        if added > 0 {
            gradient = gradient.sum(0..added)?;
        }
        let repeated = gradient.shape().iter().zip(shape).enumerate();
        let dims: Vec<usize> =
            repeated.filter(|(_, (got, own))| **own == 1 && got != own).map(|(k, _)| k).collect();
        if !dims.is_empty() {
            let keep = crate::tensor::options::Sum::default().keepdim(true);
            gradient = gradient.sum_with(dims, keep)?;
        }
    }
    match gradient.dtype() == dtype {
        true => Ok(gradient),
        false => gradient.cast(dtype),
    }
}
