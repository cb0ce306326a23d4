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
//! One file for each family holds its table `OPS`; what they are written in is
//! [`formula`](crate::formula).

mod args;
mod arith;
mod attention;
mod compare;
mod conv;
mod counting;
mod create;
mod distance;
mod embedding;
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

use millstream_types::{Attrs, Error, Result};

use crate::args::input_positions;
use crate::def::Arity;
use crate::formula::{Emitter, Expr, Kept, Symbol};
use crate::schema::{ArgDoc, CallSpec, Op, Signature};

use args::Args;

/// Defines the table of a family.
macro_rules! table {
    ($($op:expr;)*) => {
        pub(crate) const OPS: &[Composite] = &[$($op),*];
    };
}
use table;

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
        let positions: SmallVec<[Option<usize>; 8]> = match self.optional() {
            Some(_) => input_positions(attrs, self.inputs.len(), inputs.len())?,
            None => (0..inputs.len()).map(Some).collect(),
        };
        let kept = Kept::new(emitter);
        let args = Args { calls: kept.calls(), op: self, positions: &positions, inputs, attrs };
        let made = match self.rule {
            Rule::One(rule) => rule(args).map(|x| vec![x.symbol]),
            Rule::Several(rule) => rule(args).map(|all| all.iter().map(|x| x.symbol).collect()),
        };
        let made = kept.end(made);
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
    One(for<'a> fn(Args<'a>) -> Result<Expr<'a>>),
    Several(for<'a> fn(Args<'a>) -> Result<Vec<Expr<'a>>>),
}

/// Returns the definition of a composite with the tensors listed and one result.
const fn op(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [ArgDoc],
    attrs: &'static [ArgDoc],
    rule: for<'a> fn(Args<'a>) -> Result<Expr<'a>>,
) -> Composite {
    let (arity, rule) = (Arity::Listed, Rule::One(rule));
    Composite { name, summary, inputs, attrs, arity, results: 1, rule }
}

/// Returns the definition of a composite with the tensors listed and several results.
const fn several(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [ArgDoc],
    attrs: &'static [ArgDoc],
    results: usize,
    rule: for<'a> fn(Args<'a>) -> Result<Vec<Expr<'a>>>,
) -> Composite {
    let (arity, rule) = (Arity::Listed, Rule::Several(rule));
    Composite { name, summary, inputs, attrs, arity, results, rule }
}
