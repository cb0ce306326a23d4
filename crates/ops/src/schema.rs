//! Schemas: the [`Op`] trait, the calls it is asked about, and the signatures it returns.

use smallvec::SmallVec;

use millstream_types::{Access, Attrs, Error, Layout, Result, TensorSpec};

use crate::args::{ABSENT, input_positions};

/// A call, as far as a schema depends on it.
#[derive(Clone, Copy, Debug)]
pub struct CallSpec<'a> {
    /// The input tensors, in order.
    pub inputs: &'a [TensorSpec],
    /// The arguments.
    pub attrs: &'a Attrs,
}

/// One result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputSpec {
    /// A new tensor. The kernel writes every element.
    Fresh(TensorSpec),
    /// A view of an input's storage, made without a kernel.
    View {
        /// The position of the input.
        of: usize,
        /// The layout of the view in that input's storage.
        layout: Layout,
    },
    /// The input at this position, changed in place.
    Same(usize),
    /// A new tensor whose first dimension is at most that of this bound and known only after the
    /// kernel has run. The kernel writes the existing rows to a tensor of the bound's shape, and
    /// their number to the `i64` tensor without dimensions that follows it.
    Bounded(TensorSpec),
}

/// The accesses, results and workspace of a call: all that scheduling depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The access of each input. Fresh outputs are always written.
    pub accesses: SmallVec<[Access; 4]>,
    /// The results, in order.
    pub outputs: SmallVec<[OutputSpec; 2]>,
    /// The bytes of scratch memory of the kernel.
    pub workspace: usize,
}

impl Signature {
    /// Returns the signature of a call that reads all its inputs and returns one new tensor.
    pub fn reads(inputs: usize, output: TensorSpec) -> Signature {
        Signature {
            accesses: SmallVec::from_elem(Access::Read, inputs),
            outputs: SmallVec::from_iter([OutputSpec::Fresh(output)]),
            workspace: 0,
        }
    }

    /// Returns the signature of a call that returns one view of its only input.
    pub fn view(layout: Layout) -> Signature {
        Signature {
            accesses: SmallVec::from_iter([Access::Read]),
            outputs: SmallVec::from_iter([OutputSpec::View { of: 0, layout }]),
            workspace: 0,
        }
    }

    /// Returns whether the call needs no kernel: every result is a view, and nothing is written.
    pub fn is_view(&self) -> bool {
        !self.outputs.is_empty()
            && self.outputs.iter().all(|o| matches!(o, OutputSpec::View { .. }))
            && self.accesses.iter().all(|a| !a.writes())
    }
}

/// The documentation of one tensor or argument of an op.
#[derive(Clone, Copy, Debug)]
pub struct ArgDoc {
    /// The name.
    pub name: &'static str,
    /// The shape, unit and default.
    pub doc: &'static str,
}

/// An op: its name, its documentation and its rules.
pub trait Op: Send + Sync {
    /// Returns the name of the op.
    fn name(&self) -> &str;

    /// Returns one sentence on the result.
    fn summary(&self) -> &str;

    /// Returns the tensors, in order.
    fn inputs(&self) -> &[ArgDoc];

    /// Returns the named arguments.
    fn attrs(&self) -> &[ArgDoc] {
        &[]
    }

    /// Returns the signature of a call.
    ///
    /// [`Op::check`] has checked the number of tensors and the names of arguments before.
    ///
    /// # Errors
    /// Fails if dtypes, shapes or arguments do not match; the error states what was expected.
    fn signature(&self, call: CallSpec<'_>) -> Result<Signature>;

    /// Returns whether the op takes this number of tensors; by default, as many as [`Op::inputs`]
    /// lists.
    fn takes(&self, inputs: usize) -> bool {
        inputs == self.inputs().len()
    }

    /// Returns, for an op with optional tensors, the number of required ones. A call may then have
    /// the argument [`ABSENT`].
    fn optional(&self) -> Option<usize> {
        None
    }

    /// Checks the number of tensors and the names of arguments, then calls [`Op::signature`].
    ///
    /// # Errors
    /// Fails as [`Op::signature`] does, with the name of the op added; also on a wrong number of
    /// tensors and on an unknown argument.
    fn check(&self, call: CallSpec<'_>) -> Result<Signature> {
        if !self.takes(call.inputs.len()) {
            let names: Vec<&str> = self.inputs().iter().map(|a| a.name).collect();
            let message = format!(
                "expected {} operand(s) ({}), got {}",
                names.len(),
                names.join(", "),
                call.inputs.len()
            );
            return Err(Error::Op { op: self.name().to_owned(), message });
        }
        let mut known: Vec<&str> = self.attrs().iter().map(|a| a.name).collect();
        let named = |e: Error| match e {
            Error::Op { .. } => e,
            Error::Invalid { what: "argument", message } => {
                Error::Op { op: self.name().to_owned(), message }
            }
            other => Error::Op { op: self.name().to_owned(), message: other.to_string() },
        };
        if let Some(least) = self.optional() {
            known.push(ABSENT);
            let positions = input_positions(call.attrs, self.inputs().len(), call.inputs.len());
            let positions = positions.map_err(named)?;
            if let Some(missing) = positions[..least].iter().position(Option::is_none) {
                let message =
                    format!("{}: missing; this tensor is required", self.inputs()[missing].name);
                return Err(Error::Op { op: self.name().to_owned(), message });
            }
        }
        call.attrs.only(&known).map_err(named)?;
        self.signature(call).map_err(named)
    }
}
