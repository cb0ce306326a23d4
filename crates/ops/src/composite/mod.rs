//! Composite ops: each stands for a short sequence of calls of other ops.
//!
//! # Contract
//! An expansion is a pure function from the specs of its operands and its arguments to calls. It
//! has no kernel, no device and no machine: an [`Emitter`] makes the calls. A machine emits them as
//! calls of the program, the importer of PyTorch's traces appends them as statements, and
//! [`Composite::signature`](Op::signature) infers them. So captures, gradients and the verifier see
//! ordinary calls, and a composite needs no derivative of its own.
//!
//! # Map
//! One file for each family holds its table `OPS`; `calls` has what the expansions share.

mod arith;
mod attention;
mod calls;
mod compare;
mod conv;
mod counting;
mod create;
mod distance;
mod embedding;
pub(crate) mod formula;
mod grid;
mod index;
mod infer;
mod linalg;
mod linear;
mod loss;
mod norm;
mod optimizer;
mod pointwise;
mod pooling;
mod rearrange;
mod recurrent;
mod reduce;
mod softmax;
mod sort;

use std::fmt;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{AttrValue, Attrs, DType, Error, Result, TensorSpec};

use crate::args::input_positions;
use crate::def::Arity;
use crate::loss::LossReduction;
use crate::schema::{ArgDoc, CallSpec, Op, Signature};

use formula::{Args, Expr, Kept};

pub(crate) use calls::{Calls, ints};

/// Defines the table of a family.
macro_rules! table {
    ($($op:expr;)*) => {
        pub(crate) const OPS: &[Composite] = &[$($op),*];
    };
}
use table;

/// A tensor of an expansion, by the number that its [`Emitter`] gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol(pub usize);

/// Makes the calls of an expansion.
pub trait Emitter {
    /// Returns the dtype, shape and layout of a tensor.
    fn spec(&self, tensor: Symbol) -> &TensorSpec;

    /// Calls an op and returns its results. The op may be a composite itself.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the call cannot be made.
    fn call(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Vec<Symbol>>;

    /// Returns a tensor without dimensions of this number, rounded to the dtype.
    ///
    /// # Errors
    /// There is no memory for it.
    fn number(&mut self, number: f64, dtype: DType) -> Result<Symbol> {
        let attrs = Attrs::new().with("shape", Vec::<i64>::new()).with("value", number);
        Ok(self.call("full", &[], attrs.with("dtype", dtype))?[0])
    }

    /// Returns a list of these numbers, rounded to the dtype.
    ///
    /// # Errors
    /// There is no memory for it.
    fn list(&mut self, numbers: &[f64], dtype: DType) -> Result<Symbol> {
        self.list_by_calls(numbers, dtype)
    }

    /// Makes a list by calls, one for each run of equal numbers, where no memory can be written
    /// yet.
    ///
    /// # Errors
    /// As [`Emitter::call`].
    fn list_by_calls(&mut self, numbers: &[f64], dtype: DType) -> Result<Symbol> {
        let mut parts = Vec::new();
        for run in numbers.chunk_by(|a, b| a.to_bits() == b.to_bits()) {
            let attrs = Attrs::new().with("shape", vec![run.len() as i64]).with("value", run[0]);
            parts.extend(self.call("full", &[], attrs.with("dtype", dtype))?);
        }
        match parts[..] {
            [whole] => Ok(whole),
            [] => {
                let attrs = Attrs::new().with("shape", vec![0]).with("value", 0.0);
                Ok(self.call("full", &[], attrs.with("dtype", dtype))?[0])
            }
            _ => Ok(self.call("cat", &parts, Attrs::new().with("dim", 0))?[0]),
        }
    }
}

/// The definition of a composite op as a constant.
#[derive(Clone, Copy)]
pub struct Composite {
    /// The name.
    pub name: &'static str,
    /// One sentence on the result.
    pub summary: &'static str,
    /// The tensors, in order.
    pub inputs: &'static [ArgDoc],
    /// The named arguments.
    pub attrs: &'static [ArgDoc],
    /// The number of tensors.
    pub arity: Arity,
    /// The number of results.
    pub results: usize,
    /// Makes the calls.
    rule: Rule,
}

/// The tables of composites, with the titles of their families.
const FAMILIES: &[(&str, &[&[Composite]])] = &[
    ("Creation", &[create::OPS]),
    ("Arithmetic", &[arith::OPS]),
    ("Pointwise functions", &[pointwise::OPS]),
    ("Comparison and logic", &[compare::OPS]),
    ("Reductions", &[reduce::OPS, distance::OPS]),
    ("Matrix products", &[linear::OPS]),
    ("Linear algebra", &[linalg::OPS]),
    ("Convolution and pooling", &[conv::OPS, pooling::OPS]),
    ("Normalisation", &[norm::OPS]),
    ("Softmax and losses", &[softmax::OPS, loss::OPS]),
    ("Embedding and attention", &[embedding::OPS, attention::OPS, recurrent::OPS]),
    ("Optimizers", &[optimizer::OPS]),
    ("Indexing and selection", &[index::OPS]),
    ("Sorting", &[sort::OPS]),
    ("Counting and searching", &[counting::OPS]),
    ("Grids, segments, alignments", &[grid::OPS, grid::PADDING, grid::UPSAMPLING]),
    ("Flips, rolls, triangles, padding", &[rearrange::OPS]),
];

/// Returns the titles and composites of all families.
pub fn families() -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static Composite>)>
{
    FAMILIES.iter().map(|&(title, tables)| (title, tables.iter().copied().flatten()))
}

/// Returns the composite op of this name, if there is one.
pub fn find(name: &str) -> Option<&'static Composite> {
    static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Composite>> =
        LazyLock::new(|| families().flat_map(|(_, ops)| ops).map(|op| (op.name, op)).collect());
    BY_NAME.get(name).copied()
}

impl Composite {
    /// Returns this op with optional tensors behind so many required ones.
    const fn optional_from(self, least: usize) -> Composite {
        Composite { arity: Arity::Optional(least), ..self }
    }

    /// Returns this op with a list of tensors, its last one listed, behind so many others.
    const fn of_list(self, behind: usize) -> Composite {
        Composite { arity: Arity::Many(behind), ..self }
    }

    /// Makes the calls of the op on these operands and returns its results.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or a call fails. The error names this op, and the
    /// op of the call.
    pub fn expand(
        &self,
        emitter: &mut dyn Emitter,
        inputs: &[Symbol],
        attrs: &Attrs,
    ) -> Result<Vec<Symbol>> {
        self.check_arguments(inputs.len(), attrs)?;
        let positions = match self.optional() {
            Some(_) => input_positions(attrs, self.inputs.len(), inputs.len())?,
            None => (0..inputs.len()).map(Some).collect(),
        };
        let given = Given { op: self, positions, inputs, attrs };
        let made = match self.rule {
            Rule::One(rule) => rule(&mut Calls { emitter }, &given).map(|made| vec![made]),
            Rule::Several(rule) => rule(&mut Calls { emitter }, &given),
            Rule::Formula(rule) => {
                let kept = Kept::new(emitter);
                let made = rule(Args { calls: kept.calls(), given: &given });
                let made = made.map(|x| vec![x.symbol]);
                kept.end(made)
            }
            Rule::Formulas(rule) => {
                let kept = Kept::new(emitter);
                let made = rule(Args { calls: kept.calls(), given: &given });
                let made = made.map(|all| all.into_iter().map(|x| x.symbol).collect());
                kept.end(made)
            }
        };
        made.map_err(|e| self.named(e))
    }

    /// Adds the name of the op to an error of an expansion. Failures of the machine stay as they
    /// are.
    fn named(&self, error: Error) -> Error {
        let message = match error.without_place() {
            Error::Op { op, message } => format!("its call of '{op}': {message}"),
            Error::Invalid { what: "argument", message } => message.clone(),
            Error::Invalid { .. } | Error::Unknown { .. } => error.without_place().to_string(),
            _ => return error,
        };
        Error::Op { op: self.name.to_owned(), message }
    }
}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Composite").field(&self.name).finish()
    }
}

impl Op for Composite {
    fn name(&self) -> &str {
        self.name
    }

    fn summary(&self) -> &str {
        self.summary
    }

    fn inputs(&self) -> &[ArgDoc] {
        self.inputs
    }

    fn attrs(&self) -> &[ArgDoc] {
        self.attrs
    }

    fn signature(&self, call: CallSpec<'_>) -> Result<Signature> {
        infer::signature(self, call)
    }

    fn takes(&self, inputs: usize) -> bool {
        self.arity.takes(inputs, self.inputs.len())
    }

    fn optional(&self) -> Option<usize> {
        self.arity.optional()
    }
}

/// The function of a composite that makes its calls.
#[derive(Clone, Copy)]
enum Rule {
    One(fn(&mut Calls<'_>, &Given<'_>) -> Result<Symbol>),
    Several(fn(&mut Calls<'_>, &Given<'_>) -> Result<Vec<Symbol>>),
    Formula(for<'a> fn(Args<'a>) -> Result<Expr<'a>>),
    Formulas(for<'a> fn(Args<'a>) -> Result<Vec<Expr<'a>>>),
}

/// Returns the definition of a composite with the tensors listed and one result.
pub(crate) const fn formula(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [ArgDoc],
    attrs: &'static [ArgDoc],
    rule: for<'a> fn(Args<'a>) -> Result<Expr<'a>>,
) -> Composite {
    let (arity, rule) = (Arity::Listed, Rule::Formula(rule));
    Composite { name, summary, inputs, attrs, arity, results: 1, rule }
}

/// Returns the definition of a composite with the tensors listed and several results.
pub(crate) const fn formulas(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [ArgDoc],
    attrs: &'static [ArgDoc],
    results: usize,
    rule: for<'a> fn(Args<'a>) -> Result<Vec<Expr<'a>>>,
) -> Composite {
    let (arity, rule) = (Arity::Listed, Rule::Formulas(rule));
    Composite { name, summary, inputs, attrs, arity, results, rule }
}

/// Returns the definition of a composite with the tensors listed and one result.
pub(crate) const fn op(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [ArgDoc],
    attrs: &'static [ArgDoc],
    rule: fn(&mut Calls<'_>, &Given<'_>) -> Result<Symbol>,
) -> Composite {
    let (arity, rule) = (Arity::Listed, Rule::One(rule));
    Composite { name, summary, inputs, attrs, arity, results: 1, rule }
}

/// Returns the definition of a composite with the tensors listed and several results.
pub(crate) const fn several(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [ArgDoc],
    attrs: &'static [ArgDoc],
    results: usize,
    rule: fn(&mut Calls<'_>, &Given<'_>) -> Result<Vec<Symbol>>,
) -> Composite {
    let (arity, rule) = (Arity::Listed, Rule::Several(rule));
    Composite { name, summary, inputs, attrs, arity, results, rule }
}

/// The operands and arguments of a composite, by the names of its schema.
pub(crate) struct Given<'a> {
    op: &'a Composite,
    positions: SmallVec<[Option<usize>; 8]>,
    inputs: &'a [Symbol],
    attrs: &'a Attrs,
}

/// Returns the error of an expansion that refuses an operand or an argument.
pub(crate) fn wrong(message: impl Into<String>) -> Error {
    Error::Invalid { what: "argument", message: message.into() }
}

impl Given<'_> {
    /// Returns the tensor of this name; `None` if it is absent.
    pub(crate) fn optional(&self, name: &str) -> Option<Symbol> {
        let listed = self.op.inputs.iter().position(|input| input.name == name)?;
        self.inputs.get((*self.positions.get(listed)?)?).copied()
    }

    /// Returns the tensor of this name.
    pub(crate) fn tensor(&self, name: &str) -> Result<Symbol> {
        self.optional(name).ok_or_else(|| wrong(format!("{name}: expected a tensor")))
    }

    /// Returns all tensors.
    pub(crate) fn tensors(&self) -> &[Symbol] {
        self.inputs
    }

    /// Returns the whole number of this name.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>> {
        self.attrs.int(name)
    }

    /// Returns the list of whole numbers of this name.
    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        self.attrs.ints(name)
    }

    /// Returns the list of numbers of this name.
    pub(crate) fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>> {
        match self.attrs.get(name) {
            Some(AttrValue::Floats(list)) => Ok(Some(list.clone())),
            _ => Ok(self.ints(name)?.map(|list| list.into_iter().map(|v| v as f64).collect())),
        }
    }

    /// Returns the number of this name.
    pub(crate) fn number(&self, name: &str, default: f64) -> Result<f64> {
        match self.attrs.get(name) {
            Some(AttrValue::Bool(v)) => Ok(f64::from(u8::from(*v))),
            _ => Ok(self.attrs.float(name)?.unwrap_or(default)),
        }
    }

    /// Returns the argument of this name; an error if it is absent.
    pub(crate) fn value(&self, name: &str) -> Result<AttrValue> {
        let value = self.attrs.get(name).cloned();
        value.ok_or_else(|| wrong(format!("{name}: missing; this argument is required")))
    }

    /// Returns whether the argument of this name is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.attrs.get(name).is_some()
    }

    /// Returns the argument of this name, if it is given.
    pub(crate) fn attr(&self, name: &str) -> Option<&AttrValue> {
        self.attrs.get(name)
    }

    /// Returns how the op reduces losses.
    pub(crate) fn reduction(&self) -> Result<LossReduction> {
        LossReduction::of(self.attrs)
    }

    /// Returns the flag of this name.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.attrs.bool(name)?.unwrap_or(default))
    }

    /// Returns the dtype of this name.
    pub(crate) fn dtype(&self, name: &str) -> Result<Option<DType>> {
        self.attrs.dtype(name)
    }

    /// Returns the text of this name.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        match self.attrs.get(name) {
            Some(AttrValue::Str(text)) => Ok(text),
            _ => Err(wrong(format!("{name}: expected a text"))),
        }
    }

    /// Returns these arguments, as far as they are given, for a call that takes them, too.
    pub(crate) fn passed(&self, names: &[&'static str]) -> Attrs {
        formula::passed(self.attrs, names)
    }
}
