//! A call whose gradients are computed, as formulas see it.

use std::ops::Deref;

use millstream_types::{AttrValue, Attrs, Error, Result, TensorSpec};

use crate::args::{ABSENT, dimension};
use crate::formula::{Calls, Expr, Second, Symbol, ints, passed};

/// A call whose gradients are computed.
pub struct Differentiated<'a> {
    /// The arguments.
    pub attrs: &'a Attrs,
    /// The specs of the inputs, in the order that the op lists them; none for absent ones.
    pub input_specs: &'a [Option<TensorSpec>],
    /// The specs of the results.
    pub output_specs: &'a [TensorSpec],
    /// Whether an input needs its gradient.
    pub needed: &'a [bool],
    /// The inputs that were kept, and why one cannot be used any more.
    pub inputs: &'a [Option<Result<Symbol>>],
    /// The results that were kept.
    pub outputs: &'a [Option<Result<Symbol>>],
    /// The gradients of the results.
    pub gradients: &'a [Option<Symbol>],
    /// Whether the formula's calls are noted, to be differentiated again: then it makes no call
    /// that has no derivative, where another would do.
    pub is_noted: bool,
}

/// A call as a formula sees it: the gradients of its results, kept tensors, specs and arguments.
#[derive(Clone, Copy)]
pub(super) struct Derivative<'a> {
    pub(super) calls: Calls<'a>,
    pub(super) op: &'static str,
    pub(super) call: &'a Differentiated<'a>,
    /// The gradients of the results; of a function of complex numbers, their conjugates.
    pub(super) gradients: &'a [Option<Symbol>],
}

impl<'a> Deref for Derivative<'a> {
    type Target = Differentiated<'a>;

    fn deref(&self) -> &Differentiated<'a> {
        self.call
    }
}

impl<'a> Derivative<'a> {
    /// Returns the gradient of the first result.
    pub(super) fn g(self) -> Expr<'a> {
        self.gradient(0)
    }

    /// Returns the gradient of a result, zeros if there is none.
    pub(super) fn gradient(self, output: usize) -> Expr<'a> {
        self.optional_gradient(output).unwrap_or_else(|| match self.output_spec(output) {
            Ok(spec) => self.calls.full(ints(spec.shape()), 0i64, spec.dtype),
            Err(error) => self.calls.refuse(error),
        })
    }

    /// Returns the gradient of a result, if there is one.
    pub(super) fn optional_gradient(self, output: usize) -> Option<Expr<'a>> {
        self.gradients.get(output).copied().flatten().map(|gradient| self.calls.of(gradient))
    }

    /// Returns whether an input needs its gradient.
    pub(super) fn needs(self, input: usize) -> bool {
        self.needed.get(input).copied().unwrap_or(false)
    }

    pub(super) fn missing(self, what: &str, at: usize) -> Error {
        Error::Internal { message: format!("the rule of {} does not keep {what} {at}", self.op) }
    }

    pub(super) fn kept(self, of: &[Option<Result<Symbol>>], what: &str, at: usize) -> Expr<'a> {
        match of.get(at) {
            Some(Some(Ok(kept))) => self.calls.of(*kept),
            Some(Some(Err(error))) => self.calls.refuse(error.clone()),
            _ => self.calls.refuse(self.missing(what, at)),
        }
    }

    /// Returns an input that the rule keeps.
    pub(super) fn input(self, at: usize) -> Expr<'a> {
        self.kept(self.inputs, "input", at)
    }

    /// Returns an input that the rule keeps, if it was given.
    pub(super) fn optional(self, at: usize) -> Option<Expr<'a>> {
        self.is_given(at).then(|| self.input(at))
    }

    /// Returns a result that the rule keeps.
    pub(super) fn output(self, at: usize) -> Expr<'a> {
        self.kept(self.outputs, "output", at)
    }

    /// Returns whether the call was given this input.
    pub(super) fn is_given(self, at: usize) -> bool {
        self.input_specs.get(at).is_some_and(Option::is_some)
    }

    pub(super) fn spec(self, at: usize) -> Result<&'a TensorSpec> {
        let spec = self.call.input_specs.get(at).and_then(Option::as_ref);
        spec.ok_or_else(|| self.missing("the spec of input", at))
    }

    pub(super) fn output_spec(self, at: usize) -> Result<&'a TensorSpec> {
        let spec = self.call.output_specs.get(at);
        spec.ok_or_else(|| self.missing("the spec of output", at))
    }

    /// Returns the lengths of an input.
    pub(super) fn shape(self, at: usize) -> Result<Vec<i64>> {
        Ok(ints(self.spec(at)?.shape()))
    }

    /// Returns a number that the call was given, or the default.
    pub(super) fn number(self, name: &str, default: f64) -> Result<f64> {
        match self.attrs.get(name) {
            Some(AttrValue::Bool(v)) => Ok(f64::from(u8::from(*v))),
            _ => Ok(self.attrs.float(name)?.unwrap_or(default)),
        }
    }

    /// Returns a whole number that the call was given, or the default.
    pub(super) fn int(self, name: &str, default: i64) -> Result<i64> {
        Ok(self.attrs.int(name)?.unwrap_or(default))
    }

    /// Returns a list that the call was given; an empty one if it was not.
    pub(super) fn ints(self, name: &str) -> Result<Vec<i64>> {
        Ok(self.attrs.ints(name)?.unwrap_or_default())
    }

    /// Returns a flag that the call was given, or the default.
    pub(super) fn flag(self, name: &str, default: bool) -> Result<bool> {
        Ok(self.attrs.bool(name)?.unwrap_or(default))
    }

    /// Returns an operand: the kept input, or the number in its place.
    pub(super) fn operand(self, at: usize, name: &str) -> Second<'a> {
        match self.attrs.get(name) {
            Some(number) if !self.is_given(at) => Second::Number(number.clone()),
            _ => Second::Tensor(self.input(at)),
        }
    }

    /// Returns a dimension argument from the front.
    pub(super) fn dim(self, name: &str, default: i64, rank: usize) -> Result<i64> {
        Ok(dimension(self.int(name, default)?, rank)? as i64)
    }

    /// Returns some of the arguments of the call, for a call that takes them, too.
    pub(super) fn passed(self, names: &[&'static str]) -> Attrs {
        passed(self.attrs, names)
    }

    /// Makes a call with some of the arguments of the noted one, and returns the first result.
    pub(super) fn one(self, op: &str, inputs: &[Expr<'a>], names: &[&'static str]) -> Expr<'a> {
        self.calls.one(op, inputs, self.passed(names))
    }

    /// Returns the inputs of a call whose last ones may be absent, and its arguments, which list
    /// the absent ones.
    pub(super) fn absent<const N: usize>(
        self,
        mut inputs: Vec<Expr<'a>>,
        optional: [Option<Expr<'a>>; N],
        mut attrs: Attrs,
    ) -> (Vec<Expr<'a>>, Attrs) {
        let absent = optional.iter().enumerate().filter(|(_, x)| x.is_none());
        let absent: Vec<i64> = absent.map(|(k, _)| (inputs.len() + k) as i64).collect();
        if !absent.is_empty() {
            attrs.set(ABSENT, absent);
        }
        inputs.extend(optional.into_iter().flatten());
        (inputs, attrs)
    }

    /// Refuses the gradient of an operand for which PyTorch has none, either.
    pub(super) fn refuse(self, operand: &str) -> Result<Expr<'a>> {
        let op = self.op;
        let message =
            format!("{op} has no derivative for {operand}; use `detach` there, or other ops");
        Err(Error::Invalid { what: "gradient", message })
    }

    /// Returns zeros of an input's shape and dtype.
    pub(super) fn zeros(self, at: usize) -> Result<Expr<'a>> {
        let spec = self.spec(at)?;
        Ok(self.calls.full(ints(spec.shape()), 0i64, spec.dtype))
    }

    /// Reduces a gradient to the shape and dtype of an input: sums over broadcast dimensions.
    pub(super) fn for_input(self, at: usize, mut gradient: Expr<'a>) -> Result<Expr<'a>> {
        let own = self.spec(at)?;
        if !gradient.of_spec(|spec| spec.shape() == own.shape())? {
            let added = gradient.rank()?.saturating_sub(own.shape().len());
            if added > 0 {
                gradient = gradient.sum(&(0..added as i64).collect::<Vec<_>>(), false);
            }
            let got = gradient.shape()?;
            let repeated = got.iter().zip(own.shape()).enumerate();
            let repeated = repeated.filter(|(_, (got, own))| **own == 1 && **got != 1);
            let dims: Vec<i64> = repeated.map(|(k, _)| k as i64).collect();
            if !dims.is_empty() {
                gradient = gradient.sum(&dims, true);
            }
        }
        Ok(gradient.cast(own.dtype))
    }
}
