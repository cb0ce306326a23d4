//! Schemas: the [`Op`] trait, the calls it is asked about, and the signatures it returns.

use smallvec::SmallVec;

use millstream_types::{
    Access, AttrValue, Attrs, DType, Error, Layout, Result, ScalarValue, TensorSpec, catch_panic,
};

use crate::args::{ABSENT, input_positions};
use crate::patchable::stand_in;
use crate::sharding::{Way, Whole};

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
        /// The dtype of the view, if it is not that of the input.
        dtype: Option<DType>,
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
            outputs: SmallVec::from_iter([OutputSpec::View { of: 0, layout, dtype: None }]),
            workspace: 0,
        }
    }

    /// Returns the signature of a call that returns one view of its only input, as elements of
    /// another dtype.
    pub fn view_of(layout: Layout, dtype: DType) -> Signature {
        Signature {
            accesses: SmallVec::from_iter([Access::Read]),
            outputs: SmallVec::from_iter([OutputSpec::View { of: 0, layout, dtype: Some(dtype) }]),
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

/// The type of a tensor or argument of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// A whole number.
    Int,
    /// A floating-point number.
    Float,
    /// A number of any kind, or a boolean.
    Number,
    /// A boolean.
    Flag,
    /// A text.
    Text,
    /// A list of whole numbers; one number counts as a list of one.
    Ints,
    /// A list of numbers.
    Floats,
    /// A dtype.
    DType,
}

/// Whether a call must give an argument, and what holds if it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The call must give it.
    Required,
    /// The call may leave it out; the documentation says what that means.
    Optional,
    /// The call may leave it out, which means this value. The value of a number, a boolean or a
    /// text is written as in Rust; anything else is a description.
    Default(&'static str),
    /// A number in place of the tensor of this name: a call gives one of both.
    InsteadOf(&'static str),
    /// Accepted for recorded programs: it has no effect, or only one allowed value.
    Ignored,
}

/// The documentation of one tensor or argument of an op.
#[derive(Clone, Copy, Debug)]
pub struct ArgDoc {
    /// The name.
    pub name: &'static str,
    /// The shape and unit.
    pub doc: &'static str,
    /// The type.
    pub kind: Kind,
    /// Whether a call must give it. [`Op::optional`] says which tensors may be left out.
    pub presence: Presence,
    /// Whether each launch of a list may give it: the schema depends on its kind alone, but for
    /// numbers that the dtype cannot hold.
    pub is_patchable: bool,
}

impl ArgDoc {
    /// Returns the documentation of a tensor. The other methods make an argument of it, as in
    /// `ArgDoc::new("dim", "the dimension").int().or("0")`.
    pub const fn new(name: &'static str, doc: &'static str) -> ArgDoc {
        let (kind, presence) = (Kind::Tensor, Presence::Required);
        ArgDoc { name, doc, kind, presence, is_patchable: false }
    }

    const fn of(self, kind: Kind) -> ArgDoc {
        ArgDoc { kind, ..self }
    }

    const fn given(self, presence: Presence) -> ArgDoc {
        ArgDoc { presence, ..self }
    }

    /// Returns this argument as a whole number.
    #[must_use]
    pub const fn int(self) -> ArgDoc {
        self.of(Kind::Int)
    }

    /// Returns this argument as a floating-point number.
    #[must_use]
    pub const fn float(self) -> ArgDoc {
        self.of(Kind::Float)
    }

    /// Returns this argument as a number of any kind.
    #[must_use]
    pub const fn number(self) -> ArgDoc {
        self.of(Kind::Number)
    }

    /// Returns this argument as a boolean.
    #[must_use]
    pub const fn flag(self) -> ArgDoc {
        self.of(Kind::Flag)
    }

    /// Returns this argument as a text.
    #[must_use]
    pub const fn text(self) -> ArgDoc {
        self.of(Kind::Text)
    }

    /// Returns this argument as a list of whole numbers.
    #[must_use]
    pub const fn ints(self) -> ArgDoc {
        self.of(Kind::Ints)
    }

    /// Returns this argument as a list of numbers.
    #[must_use]
    pub const fn floats(self) -> ArgDoc {
        self.of(Kind::Floats)
    }

    /// Returns this argument as a dtype.
    #[must_use]
    pub const fn dtype(self) -> ArgDoc {
        self.of(Kind::DType)
    }

    /// Returns this argument with a default: a value as in Rust, or a description.
    #[must_use]
    pub const fn or(self, default: &'static str) -> ArgDoc {
        self.given(Presence::Default(default))
    }

    /// Returns this argument as one that a call may leave out.
    #[must_use]
    pub const fn optional(self) -> ArgDoc {
        self.given(Presence::Optional)
    }

    /// Returns this argument as a number in place of the tensor called `tensor`.
    #[must_use]
    pub const fn instead_of(self, tensor: &'static str) -> ArgDoc {
        self.given(Presence::InsteadOf(tensor))
    }

    /// Returns this argument as one that each launch of a list may give.
    #[must_use]
    pub const fn patchable(self) -> ArgDoc {
        ArgDoc { is_patchable: true, ..self }
    }

    /// Returns this argument as one without effect.
    #[must_use]
    pub const fn ignored(self) -> ArgDoc {
        self.given(Presence::Ignored)
    }

    /// Returns the documentation with the default.
    pub fn full_doc(&self) -> String {
        match self.presence {
            Presence::Default(default) => format!("{}; default {default}", self.doc),
            _ => self.doc.to_owned(),
        }
    }

    /// Returns the value of the default; none if there is none, or only a description.
    pub fn default_value(&self) -> Option<AttrValue> {
        let Presence::Default(text) = self.presence else { return None };
        let int = || text.parse().ok().map(AttrValue::Int);
        match self.kind {
            Kind::Int => int(),
            Kind::Float => text.parse().ok().map(AttrValue::Float),
            Kind::Number => int().or_else(|| text.parse().ok().map(AttrValue::Float)),
            Kind::Flag => text.parse().ok().map(AttrValue::Bool),
            Kind::Text => {
                let inner = text.strip_prefix('"')?.strip_suffix('"')?;
                Some(AttrValue::Str(inner.to_owned()))
            }
            Kind::Ints => text.parse().ok().map(|v| AttrValue::Ints(vec![v])),
            Kind::Tensor | Kind::DType | Kind::Floats => None,
        }
    }

    /// Returns whether the argument is of the kind of a number that each launch gives.
    pub const fn takes_scalar(&self, value: ScalarValue) -> bool {
        match value {
            ScalarValue::Int(_) => matches!(self.kind, Kind::Int),
            ScalarValue::Float(_) => matches!(self.kind, Kind::Float | Kind::Number),
        }
    }

    /// Returns whether a value is of the argument's type.
    pub fn admits(&self, value: &AttrValue) -> bool {
        match value {
            AttrValue::Int(_) => {
                matches!(self.kind, Kind::Int | Kind::Float | Kind::Number | Kind::Ints)
            }
            AttrValue::Float(_) => matches!(self.kind, Kind::Float | Kind::Number),
            AttrValue::Bool(_) => matches!(self.kind, Kind::Flag | Kind::Number),
            AttrValue::Str(_) => self.kind == Kind::Text,
            AttrValue::Ints(_) => matches!(self.kind, Kind::Ints | Kind::Floats),
            AttrValue::Floats(_) => self.kind == Kind::Floats,
            AttrValue::DType(_) => self.kind == Kind::DType,
            AttrValue::Scalar(_) => false,
        }
    }
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

    /// Returns the ways to divide a call among the ranks along one axis of a mesh, in the order of
    /// preference among equally cheap ones. Besides them, all operands and results may be whole.
    fn sharding(&self, _: Whole<'_>) -> Vec<Way> {
        Vec::new()
    }

    /// Returns whether the one new result of a call may have the memory of an operand of the same
    /// dtype, shape and strides: each element is a function of the operands' elements at its place,
    /// and kernels read those before they write it.
    fn overwrites(&self) -> bool {
        false
    }

    /// Checks the number of tensors and the names of arguments, then calls [`Op::signature`]. A
    /// number stands for each argument that launches of the list give.
    ///
    /// # Errors
    /// Fails as [`Op::signature`] does, with the name of the op added; also as
    /// [`Op::check_arguments`] does, if launches give an argument that is not patchable, and if the
    /// schema panics.
    fn check(&self, call: CallSpec<'_>) -> Result<Signature> {
        let checked = catch_panic(|| {
            self.check_arguments(call.inputs.len(), call.attrs)?;
            match stand_in(self.attrs(), call.attrs)? {
                Some(stand_in) => self.signature(CallSpec { attrs: &stand_in, ..call }),
                None => self.signature(call),
            }
        });
        checked.map_err(|e| of_op(self.name(), e))
    }

    /// Checks the number of tensors and the names of arguments.
    ///
    /// # Errors
    /// Fails on a wrong number of tensors and on an unknown argument.
    fn check_arguments(&self, inputs: usize, attrs: &Attrs) -> Result<()> {
        if !self.takes(inputs) {
            let names: Vec<&str> = self.inputs().iter().map(|a| a.name).collect();
            let message = format!(
                "expected {} operand(s) ({}), got {inputs}",
                names.len(),
                names.join(", "),
            );
            return Err(Error::Op { op: self.name().to_owned(), message });
        }
        let mut known: Vec<&str> = self.attrs().iter().map(|a| a.name).collect();
        let named = |e: Error| of_op(self.name(), e);
        if let Some(least) = self.optional() {
            known.push(ABSENT);
            let positions = input_positions(attrs, self.inputs().len(), inputs);
            let positions = positions.map_err(named)?;
            if let Some(missing) = positions[..least].iter().position(Option::is_none) {
                let message =
                    format!("{}: missing; this tensor is required", self.inputs()[missing].name);
                return Err(Error::Op { op: self.name().to_owned(), message });
            }
        }
        attrs.only(&known).map_err(named)
    }
}

/// Adds the name of an op to its error.
fn of_op(op: &str, error: Error) -> Error {
    let message = match error {
        Error::Op { .. } => return error,
        Error::Invalid { what: "argument", message } => message,
        other => other.to_string(),
    };
    Error::Op { op: op.to_owned(), message }
}
