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
//! splits, and to the bit, unless the kernel blocks its sums by the shape of the call, as matrix
//! products, convolutions and attention do; reduced for partial ones, up to the rounding of sums.
//! Infinities of partial tensors may give NaN.
//!
//! Source of the vocabulary: J. Yuan et al., "OneFlow: Redesign the Distributed Deep Learning
//! Framework from Scratch", 2021, section 3; of the rules of matrix products: its table 1.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `local` | the arguments of the calls on the parts |
//! | `axes` | what rules are made of: dimensions of operands and results that are split together |
//! | all others | the rules of families of ops, each file with its table `RULES` |

mod attention;
mod axes;
mod convolution;
mod elementwise;
mod embedding;
mod index;
mod linalg;
mod lines;
mod local;
mod loss;
mod matmul;
mod norm;
mod random;
mod reduce;
mod segments;
mod views;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_types::{Attrs, DType, Dims, Reduction, Result, Sbp, TensorSpec};

use crate::def::Def;
use crate::schema::{CallSpec, OutputSpec, Signature};
use crate::{arith, compare, complex, fused, pointwise, special, ternary};

pub use local::{local_attrs, local_op};

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
    /// All have the same number of this many groups of channels.
    Groups(usize),
}

/// How the calls on the parts differ from the whole one.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Local {
    /// They have the arguments of the whole one.
    #[default]
    Same,
    /// Other arguments, the same for all parts: those of the whole call where they depend on
    /// lengths.
    Args(Attrs),
    /// Other arguments, of whose `groups` a part has the share that it has of this dimension of the
    /// first result.
    Groups(Attrs, usize),
    /// Another op with other arguments, the same for all parts.
    Op {
        /// The op.
        op: &'static str,
        /// Its arguments.
        attrs: Attrs,
    },
    /// This argument is the shape of the first result, and is that of its part. So is an argument
    /// `strides`: the parts are as dense as the result, in the same order of dimensions.
    Shape(&'static str),
    /// The argument `strides`, if given, is that of the first result, and is that of its part.
    Strides,
    /// The arguments `start`, `end` and `step` are whole numbers, of a part of the same steps.
    Range,
    /// This argument is the length of a dimension of the first result, and is that of its part.
    Length(&'static str, usize),
    /// They draw random numbers, and get the place of their part among the elements of the whole
    /// result.
    Drawn,
    /// Another op with other arguments, whose first result is divided by a number: the way to a
    /// mean over a split dimension, and to its gradient. Where several axes have it, the division
    /// is one.
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

impl<'a> Whole<'a> {
    /// Returns the specs of the operands.
    pub fn inputs(&self) -> &'a [TensorSpec] {
        self.call.inputs
    }

    /// Returns the arguments.
    pub(crate) fn attrs(&self) -> &'a Attrs {
        self.call.attrs
    }

    /// Returns the shape of an operand.
    pub(crate) fn shape(&self, operand: usize) -> &'a [usize] {
        self.call.inputs[operand].shape()
    }

    /// Returns the dtype and the shape of a result, whether it is new, a view, or an operand that
    /// is changed in place.
    pub(crate) fn result(&self, result: usize) -> Option<(DType, Dims)> {
        match self.signature.outputs.get(result)? {
            OutputSpec::Fresh(spec) | OutputSpec::Bounded(spec) => {
                Some((spec.dtype, spec.shape().into()))
            }
            OutputSpec::View { of, layout, dtype } => {
                Some((dtype.unwrap_or(self.inputs()[*of].dtype), layout.shape().into()))
            }
            OutputSpec::Same(of) => {
                let spec = &self.inputs()[*of];
                Some((spec.dtype, spec.shape().into()))
            }
        }
    }

    /// Returns the shape of the first result; that of a number if there is none.
    pub(crate) fn result_shape(&self) -> Dims {
        self.result(0).map(|(_, shape)| shape).unwrap_or_default()
    }
}

/// Returns ways of a call along one axis of a mesh, in the order of preference among equally cheap
/// ones. Those that [`is_correct`] refuses are dropped: rules need not look at dtypes.
type Rule = fn(Whole<'_>) -> Result<Vec<Way>>;

/// Names of ops and their rules.
type Rules = &'static [(&'static str, Rule)];

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
    (complex::PARTS, elementwise::elementwise),
    (fused::OPS, elementwise::elementwise),
];

/// The tables of single ops, which precede those of families.
const SINGLE: &[Rules] = &[
    attention::RULES,
    convolution::RULES,
    elementwise::RULES,
    embedding::RULES,
    index::RULES,
    linalg::RULES,
    lines::RULES,
    loss::RULES,
    matmul::RULES,
    norm::RULES,
    random::RULES,
    reduce::RULES,
    segments::RULES,
    views::RULES,
];

/// Returns the ways of a call of a standard op along one axis of a mesh. It is empty for an op
/// without a rule.
pub(crate) fn ways(op: &str, whole: Whole<'_>) -> Vec<Way> {
    static RULES: LazyLock<FxHashMap<&'static str, Rule>> = LazyLock::new(|| {
        let of_table =
            |&(table, rule): &(&'static [Def], Rule)| table.iter().map(move |def| (def.name, rule));
        let single = SINGLE.iter().copied().flatten().copied();
        TABLES.iter().flat_map(of_table).chain(single).collect()
    });
    let bounded = |output: &OutputSpec| matches!(output, OutputSpec::Bounded(_));
    let Some(rule) = RULES.get(op) else { return Vec::new() };
    if whole.signature.outputs.iter().any(bounded) {
        return Vec::new();
    }
    // The call's signature was inferred, so its arguments are valid.
    let found = rule(whole).unwrap_or_default();
    let mut ways: Vec<Way> = Vec::with_capacity(found.len());
    for way in found {
        if is_correct(&whole, &way) && !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways
}

/// Returns whether all tensors of a way have what it splits, the dtypes of partial ones have the
/// reduction and keep it, and operands that are changed in place keep their sharding.
fn is_correct(whole: &Whole<'_>, way: &Way) -> bool {
    let outputs = &whole.signature.outputs;
    if way.operands.len() != whole.inputs().len() || way.results.len() != outputs.len() {
        return false;
    }
    let results: SmallVec<[(DType, Dims); 2]> =
        (0..outputs.len()).filter_map(|k| whole.result(k)).collect();
    let operands = way.operands.iter().zip(whole.inputs().iter().map(|x| (x.dtype, x.shape())));
    let made = way.results.iter().zip(results.iter().map(|(dtype, shape)| (*dtype, &shape[..])));
    let fits = |(sbp, (dtype, shape)): (&Sbp, (DType, &[usize]))| match *sbp {
        Sbp::Split(dim) => dim < shape.len(),
        Sbp::Broadcast => true,
        Sbp::Partial(reduction) => reduces(reduction, dtype),
    };
    let in_place = outputs.iter().zip(&way.results).all(|(output, result)| match output {
        OutputSpec::Same(of) => way.operands[*of] == *result,
        _ => true,
    });
    let kept = operands.clone().all(|(sbp, (from, _))| match *sbp {
        Sbp::Partial(reduction) => made.clone().all(|(sbp, (to, _))| {
            !matches!(sbp, Sbp::Partial(_)) || keeps_reduction(reduction, from, to)
        }),
        _ => true,
    });
    let divides = way.operands.iter().chain(&way.results).any(|sbp| *sbp != Sbp::Broadcast);
    divides && in_place && kept && operands.chain(made).all(fits)
}

/// Returns whether elements of a dtype can be parts of a reduction.
fn reduces(reduction: Reduction, dtype: DType) -> bool {
    match reduction {
        Reduction::Sum => dtype != DType::Bool && !dtype.is_wide_unsigned(),
        Reduction::Max | Reduction::Min => !dtype.is_complex() && !dtype.is_wide_unsigned(),
    }
}

/// Returns whether converting the parts of a reduction and then reducing them gives the converted
/// reduction: integers wrap, so a wider one is another sum; another float of the size or a narrower
/// one rounds parts that may be greater than their sum.
fn keeps_reduction(reduction: Reduction, from: DType, to: DType) -> bool {
    let (own, made) = (from.part(), to.part());
    match reduction {
        Reduction::Sum if from.is_inexact() => {
            to.is_inexact() && (own == made || made.size() > own.size())
        }
        Reduction::Sum => from.is_int() && to.is_int() && to.size() <= from.size(),
        Reduction::Max | Reduction::Min => from == to || (from.is_float() && to.is_float()),
    }
}
