//! What an op says about a call of it.

use smallvec::SmallVec;

use millstream_types::{Access, Attrs, Error, Layout, Result, TensorSpec};

use crate::args::{ABSENT, present};

/// One call, as far as a schema sees it.
#[derive(Clone, Copy, Debug)]
pub struct CallSpec<'a> {
    /// The tensors given, in order.
    pub inputs: &'a [TensorSpec],
    /// The arguments given.
    pub attrs: &'a Attrs,
}

/// One result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputSpec {
    /// A new tensor, every element of which the kernel writes.
    Fresh(TensorSpec),
    /// A view of an input's storage; it costs no kernel.
    View {
        /// Which input.
        of: usize,
        /// How the view lies in that input's storage.
        layout: Layout,
    },
    /// The input of this number, changed in place.
    Same(usize),
    /// A new tensor whose first dimension is known only once the kernel has run, and is at most
    /// that of the bound. The kernel writes the rows that exist to a tensor of the bound's shape,
    /// and their number to an `i64` tensor of no dimensions that follows it.
    Bounded(TensorSpec),
}

/// All that scheduling needs to know about one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// How each input is used. Fresh outputs are always written.
    pub accesses: SmallVec<[Access; 4]>,
    /// The results, in order.
    pub outputs: SmallVec<[OutputSpec; 2]>,
    /// Bytes of scratch memory that the kernel wants.
    pub workspace: usize,
}

impl Signature {
    /// A call that reads all its inputs and gives one new tensor.
    pub fn reads(inputs: usize, output: TensorSpec) -> Signature {
        Signature {
            accesses: SmallVec::from_elem(Access::Read, inputs),
            outputs: SmallVec::from_iter([OutputSpec::Fresh(output)]),
            workspace: 0,
        }
    }

    /// A call that gives one view of its only input.
    pub fn view(layout: Layout) -> Signature {
        Signature {
            accesses: SmallVec::from_iter([Access::Read]),
            outputs: SmallVec::from_iter([OutputSpec::View { of: 0, layout }]),
            workspace: 0,
        }
    }

    /// Whether nothing has to run: every result is a view, and nothing is written.
    pub fn is_view(&self) -> bool {
        !self.outputs.is_empty()
            && self.outputs.iter().all(|o| matches!(o, OutputSpec::View { .. }))
            && self.accesses.iter().all(|a| !a.writes())
    }
}

/// One argument of an op, for its documentation.
#[derive(Clone, Copy, Debug)]
pub struct ArgDoc {
    /// Its name.
    pub name: &'static str,
    /// What it is: shape, unit, default.
    pub doc: &'static str,
}

/// An op: its name, its documentation and its rules.
pub trait Op: Send + Sync {
    /// The name it is called by.
    fn name(&self) -> &str;

    /// What it computes, in one sentence.
    fn summary(&self) -> &str;

    /// Its tensors, in order.
    fn inputs(&self) -> &[ArgDoc];

    /// Its named arguments.
    fn attrs(&self) -> &[ArgDoc] {
        &[]
    }

    /// What a call of it gives and touches.
    ///
    /// Arity and names of arguments have been checked against [`Op::inputs`] and [`Op::attrs`]
    /// before.
    ///
    /// # Errors
    /// Dtypes, shapes or arguments that do not fit, with what was expected.
    fn signature(&self, call: CallSpec<'_>) -> Result<Signature>;

    /// Whether it takes this many tensors; as many as [`Op::inputs`] lists, unless overridden.
    fn takes(&self, inputs: usize) -> bool {
        inputs == self.inputs().len()
    }

    /// For an op of which some tensors may be left out: how many always have to be there. A call
    /// then may have the argument [`ABSENT`].
    fn optional(&self) -> Option<usize> {
        None
    }

    /// Checks the number of tensors and the names of arguments, then asks [`Op::signature`].
    ///
    /// # Errors
    /// As [`Op::signature`], with the op's name; a wrong number of tensors; an unknown argument.
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
            other => Error::Op { op: self.name().to_owned(), message: other.to_string() },
        };
        if let Some(least) = self.optional() {
            known.push(ABSENT);
            let places = present(call.attrs, self.inputs().len(), call.inputs.len());
            let places = places.map_err(named)?;
            if let Some(missing) = places[..least].iter().position(Option::is_none) {
                let message = format!("{}: expected, and not given", self.inputs()[missing].name);
                return Err(Error::Op { op: self.name().to_owned(), message });
            }
        }
        call.attrs.only(&known).map_err(named)?;
        self.signature(call).map_err(named)
    }
}
