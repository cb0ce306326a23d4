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
/// defined so. Complex operands are refused without [`complex`](Def::complex), and those of u16,
/// u32 and u64 without [`unsigned`](Def::unsigned).
///
/// ```
/// use millstream_ops::{ArgDoc, Def, Op, Signature};
///
/// const DOUBLE: Def =
///     Def::new("demo::double", "x + x", &[ArgDoc::new("x", "any shape")], &[], |call| {
///         Ok(Signature::reads(1, call.inputs[0].clone()))
///     });
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
    /// Whether it is defined for complex numbers.
    pub(crate) is_complex: bool,
    /// Whether it is defined for u16, u32 and u64.
    pub(crate) is_unsigned: bool,
}

impl Def {
    /// Returns the definition of an op: its name, one sentence on the result, its tensors, its
    /// arguments, and the rule of its signature.
    pub const fn new(
        name: &'static str,
        summary: &'static str,
        inputs: &'static [ArgDoc],
        attrs: &'static [ArgDoc],
        rule: fn(CallSpec<'_>) -> Result<Signature>,
    ) -> Def {
        let (arity, is_complex, is_unsigned) = (Arity::Listed, false, false);
        Def { name, summary, inputs, attrs, arity, rule, is_complex, is_unsigned }
    }

    /// Returns this op with optional tensors from a position on.
    #[must_use]
    pub const fn optional(self, from: usize) -> Def {
        Def { arity: Arity::Optional(from), ..self }
    }

    /// Returns this op with this number of tensors or more.
    #[must_use]
    pub const fn many(self, least: usize) -> Def {
        Def { arity: Arity::Many(least), ..self }
    }

    /// Returns this op, defined for complex numbers.
    #[must_use]
    pub const fn complex(self) -> Def {
        Def { is_complex: true, ..self }
    }

    /// Returns this op, defined for u16, u32 and u64.
    #[must_use]
    pub const fn unsigned(self) -> Def {
        Def { is_unsigned: true, ..self }
    }
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
        complex::check_operands(self, call)?;
        unsigned::check_operands(self, call)?;
        let signature = (self.rule)(call)?;
        complex::check_results(self, &signature)?;
        unsigned::check_results(self, &signature)?;
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
