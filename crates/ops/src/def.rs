//! The table row that defines a standard op.

use millstream_types::{Error, Result};

use crate::complex;
use crate::schema::{ArgDoc, CallSpec, Op, Signature};

/// The number of tensors that an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arity {
    /// As many as listed.
    Listed,
    /// As many as listed; those from this position on may be absent. The argument `absent` lists
    /// the absent ones ([`crate::args::input_positions`] reads it); absent ones at the end need not
    /// be listed.
    Optional(usize),
    /// This number or more; the last one listed stands for all that follow.
    Many(usize),
}

/// The definition of an op as a constant.
#[derive(Clone, Copy)]
pub(crate) struct Def {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) inputs: &'static [ArgDoc],
    pub(crate) attrs: &'static [ArgDoc],
    pub(crate) arity: Arity,
    pub(crate) rule: fn(CallSpec<'_>) -> Result<Signature>,
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
        let signature = (self.rule)(call)?;
        complex::check_results(self.name, &signature)?;
        Ok(signature)
    }

    fn takes(&self, inputs: usize) -> bool {
        match self.arity {
            Arity::Listed => inputs == self.inputs.len(),
            Arity::Optional(least) => (least..=self.inputs.len()).contains(&inputs),
            Arity::Many(least) => inputs >= least,
        }
    }

    fn optional(&self) -> Option<usize> {
        match self.arity {
            Arity::Optional(least) => Some(least),
            Arity::Listed | Arity::Many(_) => None,
        }
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
