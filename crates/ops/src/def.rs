//! The definition of an op as a constant.

use millstream_types::{Error, Result};

use crate::schema::{ArgDoc, CallSpec, Op, Signature};
use crate::sharding::{self, Way, Whole};
use crate::{complex, fused, unsigned};

/// The number of tensors that an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// As many as listed.
    Listed,
    /// As many as listed; those from this position on may be absent. The argument `absent` lists
    /// the absent ones; absent ones at the end need not be listed.
    Optional(usize),
    /// This number or more; the last one listed stands for all that follow.
    Many(usize),
}

impl Arity {
    /// Returns whether an op of so many listed tensors takes this number of them.
    pub(crate) fn takes(self, inputs: usize, listed: usize) -> bool {
        match self {
            Arity::Listed => inputs == listed,
            Arity::Optional(least) => (least..=listed).contains(&inputs),
            Arity::Many(least) => inputs >= least,
        }
    }

    /// Returns the number of required tensors of an op with optional ones.
    pub(crate) fn optional(self) -> Option<usize> {
        match self {
            Arity::Optional(least) => Some(least),
            Arity::Listed | Arity::Many(_) => None,
        }
    }
}

/// The definition of an op as a constant: the shortest way to write an [`Op`]. All standard ops are
/// defined so. Complex operands are refused, and those of u16, u32 and u64.
///
/// ```
/// use millstream_ops::{ArgDoc, Arity, Def, Op, Signature};
///
/// const DOUBLE: Def = Def {
///     name: "demo::double",
///     summary: "x + x",
///     inputs: &[ArgDoc::new("x", "any shape")],
///     attrs: &[],
///     arity: Arity::Listed,
///     rule: |call| Ok(Signature::reads(1, call.inputs[0].clone())),
/// };
/// assert_eq!(DOUBLE.inputs().len(), 1);
/// ```
#[derive(Clone, Copy)]
pub struct Def {
    /// The name, with a namespace for ops other than the standard ones.
    pub name: &'static str,
    /// One sentence on the result.
    pub summary: &'static str,
    /// The tensors, in order.
    pub inputs: &'static [ArgDoc],
    /// The named arguments.
    pub attrs: &'static [ArgDoc],
    /// The number of tensors.
    pub arity: Arity,
    /// Returns the signature of a call, or why it is refused: [`Op::signature`].
    pub rule: fn(CallSpec<'_>) -> Result<Signature>,
}

impl Op for Def {
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
        complex::check_operands(self.name, call)?;
        unsigned::check_operands(self.name, call)?;
        let signature = (self.rule)(call)?;
        complex::check_results(self.name, &signature)?;
        unsigned::check_results(self.name, &signature)?;
        Ok(signature)
    }

    fn sharding(&self, whole: Whole<'_>) -> Vec<Way> {
        sharding::ways(self.name, whole)
    }

    fn overwrites(&self) -> bool {
        fused::is_elementwise(self.name)
    }

    fn takes(&self, inputs: usize) -> bool {
        self.arity.takes(inputs, self.inputs.len())
    }

    fn optional(&self) -> Option<usize> {
        self.arity.optional()
    }
}

/// Returns the documentation of one tensor or argument.
pub(crate) const fn arg(name: &'static str, doc: &'static str) -> ArgDoc {
    ArgDoc::new(name, doc)
}

/// Returns the error of an op that refuses a call.
pub(crate) fn refused(op: &str, message: impl Into<String>) -> Error {
    Error::Op { op: op.to_owned(), message: message.into() }
}
