//! Formulas: the calls of composites, gradients and boxing, which an [`Emitter`] makes.
//!
//! A refused call is kept, and no call follows it. So a formula needs no `?`: only lengths and
//! the end of an expansion can fail.

mod emitter;
mod expr;

use std::cell::RefCell;

use smallvec::SmallVec;

use millstream_types::{AttrValue, Attrs, DType, Error, Result, TensorSpec};

use crate::args::dimension;

pub use emitter::{Emitter, Symbol};
pub(crate) use expr::{Expr, Second, in_floats};

type Inputs = SmallVec<[Symbol; 4]>;

/// What formulas need of an expansion, for emitters of any lifetime.
trait Expansion {
    fn look(&self, tensor: Symbol, at: &mut dyn FnMut(&TensorSpec)) -> Result<()>;

    /// Makes calls; none after a refusal.
    fn make(&self, calls: &mut dyn FnMut(&mut dyn Emitter) -> Result<()>);
}

/// An emitter, or why it makes no more calls.
pub(crate) struct Kept<'e>(RefCell<Result<&'e mut dyn Emitter>>);

impl<'e> Kept<'e> {
    pub(crate) fn new(emitter: &'e mut dyn Emitter) -> Kept<'e> {
        Kept(RefCell::new(Ok(emitter)))
    }

    pub(crate) fn calls(&self) -> Calls<'_> {
        Calls(self)
    }

    /// Returns the results of an expansion.
    ///
    /// # Errors
    /// The first refusal, or that of the expansion.
    pub(crate) fn end<T>(self, made: Result<T>) -> Result<T> {
        self.0.into_inner()?;
        made
    }
}

impl Expansion for Kept<'_> {
    fn look(&self, tensor: Symbol, at: &mut dyn FnMut(&TensorSpec)) -> Result<()> {
        match &*self.0.borrow() {
            Ok(emitter) => at(emitter.spec(tensor)),
            Err(error) => return Err(error.clone()),
        }
        Ok(())
    }

    fn make(&self, calls: &mut dyn FnMut(&mut dyn Emitter) -> Result<()>) {
        let mut kept = self.0.borrow_mut();
        if let Ok(emitter) = &mut *kept
            && let Err(error) = calls(&mut **emitter)
        {
            *kept = Err(error);
        }
    }
}

/// Makes the calls of one expansion.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a>(&'a dyn Expansion);

/// Returns the argument `dim`.
pub(crate) fn along(dim: i64) -> Attrs {
    Attrs::new().with("dim", dim)
}

/// Returns some of these arguments, for a call that takes them, too.
pub(crate) fn passed(attrs: &Attrs, names: &[&'static str]) -> Attrs {
    let mut passed = Attrs::new();
    for &name in names {
        if let Some(value) = attrs.get(name) {
            passed.set(name, value.clone());
        }
    }
    passed
}

/// Returns lengths as an argument.
pub(crate) fn ints(lengths: &[usize]) -> Vec<i64> {
    lengths.iter().map(|&length| length as i64).collect()
}

/// Returns the dimension that a number which may be negative stands for.
pub(crate) fn positive(dim: i64, rank: usize) -> Result<i64> {
    dimension(dim, rank).map(|dim| dim as i64)
}

/// Returns the dtype that 16-bit floats are computed in: f32, as in PyTorch's kernels.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

impl<'a> Calls<'a> {
    pub(crate) fn of(self, symbol: Symbol) -> Expr<'a> {
        Expr { calls: self, symbol }
    }

    /// Returns the result of a call; after a refusal, a tensor without meaning.
    fn made(self, mut call: impl FnMut(&mut dyn Emitter) -> Result<Symbol>) -> Expr<'a> {
        let mut made = Symbol(usize::MAX);
        self.0.make(&mut |emitter| {
            made = call(emitter)?;
            Ok(())
        });
        self.of(made)
    }

    /// Keeps a refusal, after which no call is made.
    pub(crate) fn refuse(self, error: Error) -> Expr<'a> {
        self.made(|_| Err(error.clone()))
    }

    /// Calls an op. Returns no result after a refusal.
    pub(crate) fn call(self, op: &str, inputs: &[Expr<'a>], attrs: Attrs) -> Vec<Expr<'a>> {
        let inputs: Inputs = inputs.iter().map(|x| x.symbol).collect();
        let (mut attrs, mut made) = (Some(attrs), Vec::new());
        self.0.make(&mut |emitter| {
            made = emitter.call(op, &inputs, attrs.take().unwrap_or_default())?;
            Ok(())
        });
        made.into_iter().map(|symbol| self.of(symbol)).collect()
    }

    /// Calls an op and returns its first result.
    pub(crate) fn one(self, op: &str, inputs: &[Expr<'a>], attrs: Attrs) -> Expr<'a> {
        let inputs: Inputs = inputs.iter().map(|x| x.symbol).collect();
        let mut attrs = Some(attrs);
        self.made(|emitter| emitter.one(op, &inputs, attrs.take().unwrap_or_default()))
    }

    /// Calls an op with as many results as the array has.
    pub(crate) fn several<const N: usize>(
        self,
        op: &str,
        inputs: &[Expr<'a>],
        attrs: Attrs,
    ) -> [Expr<'a>; N] {
        self.call(op, inputs, attrs).try_into().unwrap_or_else(|_| {
            [self.refuse(wrong(format!("'{op}' does not return {N} tensors"))); N]
        })
    }

    /// Concatenates tensors; one stays as it is.
    pub(crate) fn cat(self, each: &[Expr<'a>], dim: i64) -> Expr<'a> {
        match each {
            &[one] => one,
            _ => self.one("cat", each, along(dim)),
        }
    }

    /// Returns a new tensor of one value.
    pub(crate) fn full(
        self,
        shape: Vec<i64>,
        value: impl Into<AttrValue>,
        dtype: DType,
    ) -> Expr<'a> {
        let attrs = Attrs::new().with("shape", shape).with("value", value);
        self.one("full", &[], attrs.with("dtype", dtype))
    }

    /// Returns the whole numbers from 0 to an end.
    pub(crate) fn range(self, end: i64, dtype: DType) -> Expr<'a> {
        self.one("arange", &[], Attrs::new().with("end", end).with("dtype", dtype))
    }

    /// Returns a tensor of positions.
    pub(crate) fn positions(self, of: impl Iterator<Item = i64>) -> Expr<'a> {
        let all: Vec<f64> = of.map(|at| at as f64).collect();
        self.constant(&all, DType::I64)
    }

    /// Returns a tensor without dimensions.
    pub(crate) fn number(self, number: f64, dtype: DType) -> Expr<'a> {
        self.made(|emitter| emitter.number(number, dtype))
    }

    /// Returns a tensor of these numbers.
    pub(crate) fn constant(self, numbers: &[f64], dtype: DType) -> Expr<'a> {
        self.made(|emitter| emitter.list(numbers, dtype))
    }
}

/// Returns the error of an expansion that refuses an operand or an argument.
pub(crate) fn wrong(message: impl Into<String>) -> Error {
    Error::Invalid { what: "argument", message: message.into() }
}
