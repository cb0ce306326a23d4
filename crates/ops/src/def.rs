//! An op as a row of a table: how the standard ops are written down.

use millstream_types::{Error, Result};

use crate::schema::{ArgDoc, CallSpec, Op, Signature};

/// An op whose parts are all known when it is compiled.
pub(crate) struct Def {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) inputs: &'static [ArgDoc],
    pub(crate) attrs: &'static [ArgDoc],
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
        (self.rule)(call)
    }
}

/// The documentation of one tensor or argument.
pub(crate) const fn arg(name: &'static str, doc: &'static str) -> ArgDoc {
    ArgDoc { name, doc }
}

/// The error of an op that refuses a call.
pub(crate) fn refused(op: &str, message: impl Into<String>) -> Error {
    Error::Op { op: op.to_owned(), message: message.into() }
}
