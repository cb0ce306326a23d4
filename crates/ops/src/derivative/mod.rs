//! The table of derivatives: for each op what is kept for its gradient, and the formulas, which are
//! calls of ops.
//!
//! A formula gives the gradient of one input. It may have the shape and dtype that broadcasting and
//! promotion gave it: [`Rule::gradients`] reduces it to the input's. An op without a rule has no
//! derivative; one whose results are not floats needs none. An op in place has the rule of the op
//! that makes a new tensor. A composite has none: its calls have theirs.
//!
//! Sources: `derivatives.yaml` and `FunctionsManual.cpp` of PyTorch for what happens at ties, zeros
//! and other points without a derivative.

mod arith;
mod complex;
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

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::OnceLock;

use millstream_types::{AttrValue, Attrs, Error, Result, TensorSpec};

use crate::args::{ABSENT, dimension};
use crate::formula::{Calls, Emitter, Expr, Kept, Second, Symbol, ints, passed};

/// A tensor that a formula needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    /// The input at this position of the op's list.
    Input(usize),
    /// The result at this position.
    Output(usize),
}

/// A formula of one input's gradient.
type Formula = for<'a> fn(Derivative<'a>) -> Result<Expr<'a>>;

/// What is kept for the gradients of an op.
enum Saves {
    /// The same for the gradient of each input.
    All(&'static [Save]),
    /// Each with the inputs whose gradients need it.
    By(&'static [(Save, &'static [usize])]),
}

/// How the gradients of an op's inputs are computed.
enum Formulas {
    /// One for the first input, the only one that the result depends on smoothly.
    One(Formula),
    /// For each input a formula; none if the result does not depend on the input smoothly.
    Each(&'static [Option<Formula>]),
    /// The same formula for any number of inputs, which gets the input's position.
    Every(for<'a> fn(Derivative<'a>, usize) -> Result<Expr<'a>>),
    /// One formula for all inputs.
    Joint(Joint),
}

type Joint = for<'a> fn(Derivative<'a>) -> Result<Vec<Option<Expr<'a>>>>;

/// What a rule says of complex numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// Nothing.
    Real,
    /// It holds for them as it is written.
    Complex,
    /// It is that of a complex function, given conjugates.
    Holomorphic,
}

/// A row of the table.
pub struct Rule {
    op: &'static str,
    saves: Saves,
    formulas: Formulas,
    numbers: Numbers,
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
    Rule { op, saves: Saves::By(saves), formulas: Formulas::Each(formulas), numbers: Numbers::Real }
}

/// Returns a rule with one formula for any input.
const fn every(
    op: &'static str,
    saves: &'static [Save],
    formula: for<'a> fn(Derivative<'a>, usize) -> Result<Expr<'a>>,
) -> Rule {
    let formulas = Formulas::Every(formula);
    Rule { op, saves: Saves::All(saves), formulas, numbers: Numbers::Real }
}

/// Returns a rule of one input.
const fn one(op: &'static str, saves: &'static [Save], formula: Formula) -> Rule {
    let formulas = Formulas::One(formula);
    Rule { op, saves: Saves::All(saves), formulas, numbers: Numbers::Real }
}

/// Returns a rule with one formula for all inputs.
const fn joint(op: &'static str, saves: &'static [Save], formula: Joint) -> Rule {
    let formulas = Formulas::Joint(formula);
    Rule { op, saves: Saves::All(saves), formulas, numbers: Numbers::Real }
}

/// As [`joint`], where not every gradient needs all that is kept.
const fn joint_by(
    op: &'static str,
    saves: &'static [(Save, &'static [usize])],
    formula: Joint,
) -> Rule {
    Rule { op, saves: Saves::By(saves), formulas: Formulas::Joint(formula), numbers: Numbers::Real }
}

/// Returns the rule of an op.
///
/// ```
/// use millstream_ops::derivative::{Save, rule};
///
/// // The gradient of x in x * y needs y.
/// let kept: Vec<Save> = rule("mul").unwrap().kept(|input| input == 0).collect();
/// assert_eq!(kept, [Save::Input(1)]);
/// ```
pub fn rule(op: &str) -> Option<&'static Rule> {
    static TABLE: OnceLock<HashMap<&str, &Rule>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let families: &[&'static [Rule]] = &[
            arith::RULES,
            complex::RULES,
            conv::RULES,
            fft::RULES,
            grid::RULES,
            higher::RULES,
            index::RULES,
            linalg::RULES,
            loss::RULES,
            matmul::RULES,
            pointwise::RULES,
            reduce::RULES,
            special::RULES,
            views::RULES,
        ];
        families.iter().copied().flatten().map(|rule| (rule.op, rule)).collect()
    });
    table.get(op).copied()
}

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

impl Rule {
    /// Returns this rule, which holds for complex numbers as it is.
    const fn complex(self) -> Rule {
        Rule { numbers: Numbers::Complex, ..self }
    }

    /// Returns this rule, which is that of a complex function.
    const fn holomorphic(self) -> Rule {
        Rule { numbers: Numbers::Holomorphic, ..self }
    }

    /// Returns whether the rule holds for complex numbers.
    pub fn takes_complex(&self) -> bool {
        self.numbers != Numbers::Real
    }

    /// Returns what is kept for the gradients of some inputs, at least one.
    pub fn kept(&self, needs: impl Fn(usize) -> bool) -> impl Iterator<Item = Save> {
        let (all, by) = match self.saves {
            Saves::All(all) => (all, [].as_slice()),
            Saves::By(by) => ([].as_slice(), by),
        };
        let by = by.iter().filter(move |(_, inputs)| inputs.iter().any(|&input| needs(input)));
        all.iter().copied().chain(by.map(|(save, _)| *save))
    }

    /// Makes the calls that compute the gradients of a call's inputs: those that are needed and
    /// that the results depend on smoothly.
    ///
    /// # Errors
    /// The op has no derivative for these arguments, or a call is refused.
    pub fn gradients(
        &self,
        emitter: &mut dyn Emitter,
        call: &Differentiated<'_>,
    ) -> Result<Vec<Option<Symbol>>> {
        let kept = Kept::new(emitter);
        let calls = kept.calls();
        let mut specs = call.input_specs.iter().flatten().chain(call.output_specs);
        let is_conjugate =
            self.numbers == Numbers::Holomorphic && specs.any(|x| x.dtype.is_complex());
        let conjugate = |x: Expr<'_>| if is_conjugate { x.conj().symbol } else { x.symbol };
        let gradients = call.gradients.iter().map(|g| g.map(|g| conjugate(calls.of(g))));
        let gradients: Vec<Option<Symbol>> = gradients.collect();
        let d = Derivative { calls, op: self.op, call, gradients: &gradients };
        let made =
            self.computed(d, |k, x| d.for_input(k, calls.of(conjugate(x))).map(|x| Some(x.symbol)));
        kept.end(made)
    }

    /// Makes the calls of the formulas, each followed by those that `finish` a gradient.
    fn computed<'a>(
        &self,
        d: Derivative<'a>,
        finish: impl Fn(usize, Expr<'a>) -> Result<Option<Symbol>>,
    ) -> Result<Vec<Option<Symbol>>> {
        let each = (0..d.needed.len()).map(|k| (k, d.needs(k)));
        match &self.formulas {
            Formulas::One(formula) => each
                .map(|(k, needed)| if needed && k == 0 { finish(k, formula(d)?) } else { Ok(None) })
                .collect(),
            Formulas::Each(formulas) => each
                .map(|(k, needed)| match formulas.get(k) {
                    Some(Some(formula)) if needed => finish(k, formula(d)?),
                    _ => Ok(None),
                })
                .collect(),
            Formulas::Every(formula) => each
                .map(|(k, needed)| if needed { finish(k, formula(d, k)?) } else { Ok(None) })
                .collect(),
            Formulas::Joint(formula) => {
                let made = formula(d)?;
                each.map(|(k, needed)| match made.get(k) {
                    Some(Some(gradient)) if needed => finish(k, *gradient),
                    _ => Ok(None),
                })
                .collect()
            }
        }
    }
}

/// What a formula can use: the gradients of the results, what was kept, specs and arguments.
#[derive(Clone, Copy)]
struct Derivative<'a> {
    calls: Calls<'a>,
    op: &'static str,
    call: &'a Differentiated<'a>,
    /// The gradients of the results; of a function of complex numbers, their conjugates.
    gradients: &'a [Option<Symbol>],
}

impl<'a> Deref for Derivative<'a> {
    type Target = Differentiated<'a>;

    fn deref(&self) -> &Differentiated<'a> {
        self.call
    }
}

impl<'a> Derivative<'a> {
    /// Returns the gradient of the first result.
    fn g(self) -> Expr<'a> {
        self.gradient(0)
    }

    /// Returns the gradient of a result, zeros if there is none.
    fn gradient(self, output: usize) -> Expr<'a> {
        self.optional_gradient(output).unwrap_or_else(|| match self.output_spec(output) {
            Ok(spec) => self.calls.full(ints(spec.shape()), 0i64, spec.dtype),
            Err(error) => self.calls.refuse(error),
        })
    }

    /// Returns the gradient of a result, if there is one.
    fn optional_gradient(self, output: usize) -> Option<Expr<'a>> {
        self.gradients.get(output).copied().flatten().map(|gradient| self.calls.of(gradient))
    }

    /// Returns whether an input needs its gradient.
    fn needs(self, input: usize) -> bool {
        self.needed.get(input).copied().unwrap_or(false)
    }

    fn missing(self, what: &str, at: usize) -> Error {
        Error::Internal { message: format!("the rule of {} does not keep {what} {at}", self.op) }
    }

    fn kept(self, of: &[Option<Result<Symbol>>], what: &str, at: usize) -> Expr<'a> {
        match of.get(at) {
            Some(Some(Ok(kept))) => self.calls.of(*kept),
            Some(Some(Err(error))) => self.calls.refuse(error.clone()),
            _ => self.calls.refuse(self.missing(what, at)),
        }
    }

    /// Returns an input that the rule keeps.
    fn input(self, at: usize) -> Expr<'a> {
        self.kept(self.inputs, "input", at)
    }

    /// Returns an input that the rule keeps, if it was given.
    fn optional(self, at: usize) -> Option<Expr<'a>> {
        self.is_given(at).then(|| self.input(at))
    }

    /// Returns a result that the rule keeps.
    fn output(self, at: usize) -> Expr<'a> {
        self.kept(self.outputs, "output", at)
    }

    /// Returns whether the call was given this input.
    fn is_given(self, at: usize) -> bool {
        self.input_specs.get(at).is_some_and(Option::is_some)
    }

    fn spec(self, at: usize) -> Result<&'a TensorSpec> {
        let spec = self.call.input_specs.get(at).and_then(Option::as_ref);
        spec.ok_or_else(|| self.missing("the spec of input", at))
    }

    fn output_spec(self, at: usize) -> Result<&'a TensorSpec> {
        let spec = self.call.output_specs.get(at);
        spec.ok_or_else(|| self.missing("the spec of output", at))
    }

    /// Returns the lengths of an input.
    fn shape(self, at: usize) -> Result<Vec<i64>> {
        Ok(ints(self.spec(at)?.shape()))
    }

    /// Returns a number that the call was given, or the default.
    fn number(self, name: &str, default: f64) -> Result<f64> {
        match self.attrs.get(name) {
            Some(AttrValue::Bool(v)) => Ok(f64::from(u8::from(*v))),
            _ => Ok(self.attrs.float(name)?.unwrap_or(default)),
        }
    }

    /// Returns a whole number that the call was given, or the default.
    fn int(self, name: &str, default: i64) -> Result<i64> {
        Ok(self.attrs.int(name)?.unwrap_or(default))
    }

    /// Returns a list that the call was given; an empty one if it was not.
    fn ints(self, name: &str) -> Result<Vec<i64>> {
        Ok(self.attrs.ints(name)?.unwrap_or_default())
    }

    /// Returns a flag that the call was given, or the default.
    fn flag(self, name: &str, default: bool) -> Result<bool> {
        Ok(self.attrs.bool(name)?.unwrap_or(default))
    }

    /// Returns an operand: the kept input, or the number in its place.
    fn operand(self, at: usize, name: &str) -> Second<'a> {
        match self.attrs.get(name) {
            Some(number) if !self.is_given(at) => Second::Number(number.clone()),
            _ => Second::Tensor(self.input(at)),
        }
    }

    /// Returns a dimension argument from the front.
    fn dim(self, name: &str, default: i64, rank: usize) -> Result<i64> {
        Ok(dimension(self.int(name, default)?, rank)? as i64)
    }

    /// Returns some of the arguments of the call, for a call that takes them, too.
    fn passed(self, names: &[&'static str]) -> Attrs {
        passed(self.attrs, names)
    }

    /// Makes a call with some of the arguments of the noted one, and returns the first result.
    fn one(self, op: &str, inputs: &[Expr<'a>], names: &[&'static str]) -> Expr<'a> {
        self.calls.one(op, inputs, self.passed(names))
    }

    /// Returns the inputs of a call whose last ones may be absent, and its arguments, which list
    /// the absent ones.
    fn absent<const N: usize>(
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
    fn refuse(self, operand: &str) -> Result<Expr<'a>> {
        let op = self.op;
        let message =
            format!("{op} has no derivative for {operand}; use `detach` there, or other ops");
        Err(Error::Invalid { what: "gradient", message })
    }

    /// Returns zeros of an input's shape and dtype.
    fn zeros(self, at: usize) -> Result<Expr<'a>> {
        let spec = self.spec(at)?;
        Ok(self.calls.full(ints(spec.shape()), 0i64, spec.dtype))
    }

    /// Reduces a gradient to the shape and dtype of an input: what was broadcast is summed.
    fn for_input(self, at: usize, mut gradient: Expr<'a>) -> Result<Expr<'a>> {
        let own = self.spec(at)?;
        if gradient.spec()?.shape() != own.shape() {
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
