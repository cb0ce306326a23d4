//! How calls on global tensors divide among the ranks of a mesh.
//!
//! # Contract
//! A rule is a pure function of a call's specs, which are those of the whole tensors, and its
//! arguments. It lists the ways to divide the call along *one* axis of a mesh; each axis takes a
//! way of its own, since the ways of a call do not depend on one another. Every rank then makes the
//! call on its parts. That all operands and results are whole ([`Sbp::Broadcast`]) is a way of
//! every op and is not listed. A call without a rule is made so, and counted.
//!
//! A way is correct if the results' parts are those of the results of the whole call: equal for
//! splits, and to the bit; reduced for partial ones, up to the rounding of sums.
//!
//! Source of the vocabulary: J. Yuan et al., "OneFlow: Redesign the Distributed Deep Learning
//! Framework from Scratch", 2021, section 3; of the rules of matrix products: its table 1.
//!
//! # Map
//! One file for each group of families holds its table `RULES`.

mod elementwise;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{Attrs, Dims, Sbp, TensorSpec};

use crate::def::Def;
use crate::schema::{CallSpec, OutputSpec, Signature};
use crate::{arith, compare, pointwise, special, ternary};

/// A way to divide a call along one axis of a mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// How the ranks hold each operand, in order.
    pub operands: SmallVec<[Sbp; 4]>,
    /// How the ranks hold each result, in order.
    pub results: SmallVec<[Sbp; 2]>,
    /// What the parts of the split dimensions must be.
    pub parts: Parts,
    /// How the calls on the parts differ from the whole one.
    pub local: Local,
}

impl Way {
    /// Returns a way with parts of any length, whose calls have the arguments of the whole one.
    pub(crate) fn new(
        operands: impl IntoIterator<Item = Sbp>,
        results: impl IntoIterator<Item = Sbp>,
    ) -> Way {
        let (parts, local) = (Parts::Any, Local::Same);
        Way {
            operands: operands.into_iter().collect(),
            results: results.into_iter().collect(),
            parts,
            local,
        }
    }
}

/// What the parts of the split dimensions of a call must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// Any, also empty ones.
    #[default]
    Any,
    /// None is empty.
    NotEmpty,
    /// All of one length.
    Equal,
}

/// How the calls on the parts differ from the whole one.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Local {
    /// They have the arguments of the whole one.
    #[default]
    Same,
    /// This argument is the shape of the result, and is that of its part.
    Shape(&'static str),
    /// They draw random numbers, and get the place of their part among the elements of the whole
    /// result.
    Drawn,
    /// Another op with other arguments, whose partial sums are divided by a number: the way to a
    /// mean over a split dimension.
    MeanOf {
        /// The op that sums.
        op: &'static str,
        /// Its arguments.
        attrs: Attrs,
        /// The number of elements that are summed.
        count: Divisor,
    },
    /// The operand at this position holds row numbers of a table that is split by rows: others'
    /// rows count as zeros.
    Rows {
        /// The position of the row numbers.
        indices: usize,
        /// The position of the table.
        table: usize,
    },
}

/// The number that partial sums are divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divisor {
    /// This number.
    Count(f64),
    /// The sum of the result at this position, over all ranks.
    Result(usize),
}

/// A call whose ways are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// The call on the whole tensors.
    pub call: CallSpec<'a>,
    /// Its signature.
    pub signature: &'a Signature,
}

impl Whole<'_> {
    /// Returns the specs of the operands.
    pub fn inputs(&self) -> &[TensorSpec] {
        self.call.inputs
    }
}

/// Returns the ways of a call along one axis of a mesh, in the order of preference among equally
/// cheap ones.
type Rule = fn(Whole<'_>) -> Vec<Way>;

/// Tables of ops, and the rule of all of a table.
const TABLES: &[(&[Def], Rule)] = &[
    (arith::OPS, elementwise::elementwise),
    (arith::IN_PLACE, elementwise::elementwise),
    (arith::EXTREMES, elementwise::elementwise),
    (arith::NUMBERS, elementwise::elementwise),
    (pointwise::OPS, elementwise::elementwise),
    (pointwise::IN_PLACE, elementwise::elementwise),
    (pointwise::NEW, elementwise::elementwise),
    (pointwise::BY_LAST, elementwise::elementwise),
    (special::OPS, elementwise::elementwise),
    (special::PARTS, elementwise::elementwise),
    (compare::OPS, elementwise::elementwise),
    (compare::LOGIC, elementwise::elementwise),
    (compare::LOGIC_IN_PLACE, elementwise::elementwise),
    (ternary::OPS, elementwise::elementwise),
    (ternary::CHOICES, elementwise::elementwise),
    (ternary::IN_PLACE, elementwise::elementwise),
];

/// The rules of single ops, which precede those of tables.
const SINGLE: &[(&str, Rule)] = &[("add", elementwise::sum), ("mul", elementwise::product)];

/// Returns the ways of a call of a standard op along one axis of a mesh. It is empty for an op
/// without a rule.
pub(crate) fn ways(op: &str, whole: Whole<'_>) -> Vec<Way> {
    static RULES: LazyLock<FxHashMap<&'static str, Rule>> = LazyLock::new(|| {
        let of_table =
            |&(table, rule): &(&'static [Def], Rule)| table.iter().map(move |def| (def.name, rule));
        TABLES.iter().flat_map(of_table).chain(SINGLE.iter().copied()).collect()
    });
    RULES.get(op).map(|rule| rule(whole)).unwrap_or_default()
}

/// Returns the shape of a result, whether it is new or an operand that is changed in place.
fn result_shape(whole: &Whole<'_>, result: usize) -> Option<Dims> {
    match whole.signature.outputs.get(result)? {
        OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => Some(spec.shape().into()),
        OutputSpec::View { layout, .. } => Some(layout.shape().into()),
        OutputSpec::Same(of) => Some(whole.inputs()[*of].shape().into()),
    }
}
