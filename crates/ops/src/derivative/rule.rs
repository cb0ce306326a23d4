//! The rows of the table: the tensors kept, and the formulas.

use smallvec::SmallVec;

use millstream_types::Result;

use super::call::{Derivative, Differentiated};
use crate::formula::{Emitter, Expr, Kept, Symbol};

/// A tensor that a formula needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    /// The input at this position of the op's list.
    Input(usize),
    /// The result at this position.
    Output(usize),
}

/// The computed gradients of a call's inputs; none for the others.
pub type Gradients = SmallVec<[Option<Symbol>; 4]>;

/// A formula of one input's gradient.
pub(super) type Formula = for<'a> fn(Derivative<'a>) -> Result<Expr<'a>>;

/// The tensors kept for the gradients of an op.
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

/// Whether a rule holds for complex numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// It does not.
    Real,
    /// It holds for them as it is written.
    Complex,
    /// It is that of a complex function, given conjugates.
    Holomorphic,
}

/// A row of the table.
pub struct Rule {
    pub(super) op: &'static str,
    saves: Saves,
    formulas: Formulas,
    numbers: Numbers,
    /// The results depend smoothly on no input from this one on.
    smooth: usize,
}

pub(super) const I0: Save = Save::Input(0);
pub(super) const I1: Save = Save::Input(1);
pub(super) const I2: Save = Save::Input(2);
pub(super) const O0: Save = Save::Output(0);
pub(super) const O1: Save = Save::Output(1);
pub(super) const O2: Save = Save::Output(2);

/// Returns a rule with a formula for each input.
pub(super) const fn each(
    op: &'static str,
    saves: &'static [(Save, &'static [usize])],
    formulas: &'static [Option<Formula>],
) -> Rule {
    rule(op, Saves::By(saves), Formulas::Each(formulas))
}

/// Returns a rule with one formula for any input.
pub(super) const fn every(
    op: &'static str,
    saves: &'static [Save],
    formula: for<'a> fn(Derivative<'a>, usize) -> Result<Expr<'a>>,
) -> Rule {
    rule(op, Saves::All(saves), Formulas::Every(formula))
}

/// Returns a rule of one input.
pub(super) const fn one(op: &'static str, saves: &'static [Save], formula: Formula) -> Rule {
    rule(op, Saves::All(saves), Formulas::One(formula))
}

/// Returns a rule with one formula for all inputs.
pub(super) const fn joint(op: &'static str, saves: &'static [Save], formula: Joint) -> Rule {
    rule(op, Saves::All(saves), Formulas::Joint(formula))
}

/// As [`joint`], where not every gradient needs all that is kept.
pub(super) const fn joint_by(
    op: &'static str,
    saves: &'static [(Save, &'static [usize])],
    formula: Joint,
) -> Rule {
    rule(op, Saves::By(saves), Formulas::Joint(formula))
}

const fn rule(op: &'static str, saves: Saves, formulas: Formulas) -> Rule {
    Rule { op, saves, formulas, numbers: Numbers::Real, smooth: usize::MAX }
}

impl Rule {
    /// Returns this rule, which holds for complex numbers as it is.
    pub(super) const fn complex(self) -> Rule {
        Rule { numbers: Numbers::Complex, ..self }
    }

    /// Returns this rule, which is that of a complex function.
    pub(super) const fn holomorphic(self) -> Rule {
        Rule { numbers: Numbers::Holomorphic, ..self }
    }

    /// Returns this rule of one formula, whose results depend smoothly on the first inputs alone.
    pub(super) const fn of_first(self, smooth: usize) -> Rule {
        Rule { smooth, ..self }
    }

    /// Returns whether the rule holds for complex numbers.
    pub fn takes_complex(&self) -> bool {
        self.numbers != Numbers::Real
    }

    /// Returns the tensors to keep for the gradients of some inputs, at least one.
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
    ) -> Result<Gradients> {
        let kept = Kept::new(emitter);
        let calls = kept.calls();
        let mut specs = call.input_specs.iter().flatten().chain(call.output_specs);
        let is_conjugate =
            self.numbers == Numbers::Holomorphic && specs.any(|x| x.dtype.is_complex());
        let conjugate = |x: Expr<'_>| if is_conjugate { x.conj().symbol } else { x.symbol };
        let conjugated: Option<Vec<Option<Symbol>>> = is_conjugate
            .then(|| call.gradients.iter().map(|g| g.map(|g| conjugate(calls.of(g)))).collect());
        let gradients = conjugated.as_deref().unwrap_or(call.gradients);
        let d = Derivative { calls, op: self.op, call, gradients };
        let made =
            self.computed(d, |k, x| d.for_input(k, calls.of(conjugate(x))).map(|x| Some(x.symbol)));
        kept.end(made)
    }

    /// Makes the calls of the formulas, each followed by those that `finish` a gradient.
    fn computed<'a>(
        &self,
        d: Derivative<'a>,
        finish: impl Fn(usize, Expr<'a>) -> Result<Option<Symbol>>,
    ) -> Result<Gradients> {
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
                let is_any = each.clone().any(|(k, needed)| needed && k < self.smooth);
                let made = if is_any { formula(d)? } else { Vec::new() };
                each.map(|(k, needed)| match made.get(k) {
                    Some(Some(gradient)) if needed => finish(k, *gradient),
                    _ => Ok(None),
                })
                .collect()
            }
        }
    }
}
