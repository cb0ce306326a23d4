//! Formulas: tensors of an expansion, with operators, and a method for each op that several
//! expansions call.
//!
//! A refused call is kept, and no call follows it. So a formula needs no `?`: only what depends on
//! lengths can fail, and what the expansion returns.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use millstream_types::{AttrValue, Attrs, DType, Error, Result, TensorSpec};

use crate::args::dimension;
use crate::promotion::{common_dtype, floating};

use super::{Emitter, Symbol, wrong};

/// What formulas need of an expansion, for emitters of any lifetime.
trait Expansion {
    fn spec(&self, tensor: Symbol) -> Result<TensorSpec>;

    /// Makes calls. Returns nothing after a refusal.
    fn make(&self, calls: &mut dyn FnMut(&mut dyn Emitter) -> Result<Vec<Symbol>>) -> Vec<Symbol>;

    fn refuse(&self, error: Error);
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
    fn spec(&self, tensor: Symbol) -> Result<TensorSpec> {
        match &*self.0.borrow() {
            Ok(emitter) => Ok(emitter.spec(tensor).clone()),
            Err(error) => Err(error.clone()),
        }
    }

    fn make(&self, calls: &mut dyn FnMut(&mut dyn Emitter) -> Result<Vec<Symbol>>) -> Vec<Symbol> {
        let made = match &mut *self.0.borrow_mut() {
            Ok(emitter) => calls(&mut **emitter),
            Err(_) => return Vec::new(),
        };
        made.unwrap_or_else(|error| {
            self.refuse(error);
            Vec::new()
        })
    }

    fn refuse(&self, error: Error) {
        let mut kept = self.0.borrow_mut();
        if kept.is_ok() {
            *kept = Err(error);
        }
    }
}

/// Makes the calls of one expansion.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a>(&'a dyn Expansion);

/// A tensor of an expansion; after a refusal, one without meaning.
#[derive(Clone, Copy)]
pub(crate) struct Expr<'a> {
    pub(crate) calls: Calls<'a>,
    pub(crate) symbol: Symbol,
}

/// The second operand of an op: a tensor, or a number in its place.
pub(crate) enum Second<'a> {
    Tensor(Expr<'a>),
    Number(AttrValue),
}

impl<'a> From<Expr<'a>> for Second<'a> {
    fn from(x: Expr<'a>) -> Second<'a> {
        Second::Tensor(x)
    }
}

impl From<f64> for Second<'_> {
    fn from(number: f64) -> Self {
        Second::Number(number.into())
    }
}

impl From<i64> for Second<'_> {
    fn from(number: i64) -> Self {
        Second::Number(number.into())
    }
}

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

/// Computes a function of operands in their common float type, 16-bit floats in f32.
pub(crate) fn in_floats<'a, const N: usize>(
    operands: [Expr<'a>; N],
    f: impl FnOnce([Expr<'a>; N]) -> Expr<'a>,
) -> Result<Expr<'a>> {
    let mut each = Vec::new();
    for x in operands {
        each.push((x.dtype(), x.rank()?));
    }
    let dtype = floating(common_dtype(each, None)?);
    Ok(f(operands.map(|x| x.cast(wide(dtype)))).cast(dtype))
}

impl<'a> Calls<'a> {
    pub(crate) fn of(self, symbol: Symbol) -> Expr<'a> {
        Expr { calls: self, symbol }
    }

    /// Returns the only symbol of calls.
    fn first(self, made: Vec<Symbol>) -> Expr<'a> {
        self.of(made.first().copied().unwrap_or(Symbol(usize::MAX)))
    }

    /// Keeps a refusal, after which no call is made.
    pub(crate) fn refuse(self, error: Error) -> Expr<'a> {
        self.0.refuse(error);
        self.first(Vec::new())
    }

    /// Calls an op. Returns no result after a refusal.
    pub(crate) fn call(self, op: &str, inputs: &[Expr<'a>], attrs: Attrs) -> Vec<Expr<'a>> {
        let inputs: Vec<Symbol> = inputs.iter().map(|x| x.symbol).collect();
        let mut attrs = Some(attrs);
        let mut call =
            |emitter: &mut dyn Emitter| emitter.call(op, &inputs, attrs.take().unwrap_or_default());
        self.0.make(&mut call).into_iter().map(|symbol| self.of(symbol)).collect()
    }

    /// Calls an op and returns its first result.
    pub(crate) fn one(self, op: &str, inputs: &[Expr<'a>], attrs: Attrs) -> Expr<'a> {
        let made = self.call(op, inputs, attrs).first().copied();
        made.unwrap_or_else(|| self.refuse(wrong(format!("'{op}' returns no tensor"))))
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
        self.first(self.0.make(&mut |emitter| Ok(vec![emitter.number(number, dtype)?])))
    }

    /// Returns a tensor of these numbers.
    pub(crate) fn constant(self, numbers: &[f64], dtype: DType) -> Expr<'a> {
        self.first(self.0.make(&mut |emitter| Ok(vec![emitter.list(numbers, dtype)?])))
    }
}

/// Defines methods that call the op of their name: with the tensor alone; with a second operand;
/// and of one dimension, with the tensors that follow.
macro_rules! methods {
    ($($one:ident)*; $($two:ident)*; $($dim:ident($($other:ident),*))*) => {
        impl<'a> Expr<'a> {
            $(pub(crate) fn $one(self) -> Expr<'a> {
                self.op(stringify!($one), Attrs::new())
            })*
            $(pub(crate) fn $two(self, other: impl Into<Second<'a>>) -> Expr<'a> {
                self.with(stringify!($two), other, Attrs::new())
            })*
            $(pub(crate) fn $dim(self, dim: i64, $($other: Expr<'a>),*) -> Expr<'a> {
                self.calls.one(stringify!($dim), &[self, $($other),*], along(dim))
            })*
        }
    };
}

methods! {
    abs any cos exp exp2 i0 isinf isnan log log1p logical_not mean reciprocal round rsqrt sigmoid
    sign signbit sin sqrt t tanh;
    eq ge gt le logical_and logical_or lt matmul maximum minimum ne pow sigmoid_backward
    tanh_backward copy_ mul_ sub_;
    cumprod() cumsum() gather(index) index_select(index) scatter(index, from)
    scatter_add(index, from) squeeze() unsqueeze() index_add_(index, from)
}

impl<'a> Expr<'a> {
    /// Returns the dtype, shape and layout.
    ///
    /// # Errors
    /// A call was refused.
    pub(crate) fn spec(self) -> Result<TensorSpec> {
        self.calls.0.spec(self.symbol)
    }

    /// Returns the dtype; f32 after a refusal.
    pub(crate) fn dtype(self) -> DType {
        self.spec().map_or(DType::F32, |spec| spec.dtype)
    }

    /// Returns the number of dimensions.
    pub(crate) fn rank(self) -> Result<usize> {
        Ok(self.spec()?.shape().len())
    }

    /// Returns the lengths.
    pub(crate) fn shape(self) -> Result<Vec<i64>> {
        Ok(ints(self.spec()?.shape()))
    }

    /// Returns the number of elements.
    pub(crate) fn numel(self) -> Result<usize> {
        Ok(self.spec()?.numel())
    }

    /// Calls an op of this tensor alone.
    pub(crate) fn op(self, op: &str, attrs: Attrs) -> Expr<'a> {
        self.calls.one(op, &[self], attrs)
    }

    /// Calls an op of this tensor and a second operand.
    pub(crate) fn with(self, op: &str, other: impl Into<Second<'a>>, attrs: Attrs) -> Expr<'a> {
        match other.into() {
            Second::Tensor(y) => self.calls.one(op, &[self, y], attrs),
            Second::Number(number) => {
                let name = if op == "pow" { "exponent" } else { "other" };
                self.op(op, attrs.with(name, number))
            }
        }
    }

    /// Calls an op without arguments of this tensor and others.
    pub(crate) fn apply<const N: usize>(self, op: &str, others: [Expr<'a>; N]) -> Expr<'a> {
        let inputs: Vec<Expr<'a>> = [self].into_iter().chain(others).collect();
        self.calls.one(op, &inputs, Attrs::new())
    }

    /// Returns x where this mask is true, else y.
    pub(crate) fn choose(self, x: impl Into<Second<'a>>, y: impl Into<Second<'a>>) -> Expr<'a> {
        let (mut inputs, mut attrs) = (vec![self], Attrs::new());
        for (name, operand) in [("self", x.into()), ("other", y.into())] {
            match operand {
                Second::Tensor(x) => inputs.push(x),
                Second::Number(number) => attrs.set(name, number),
            }
        }
        self.calls.one("where", &inputs, attrs)
    }

    /// Replaces the elements where a mask is true.
    pub(crate) fn filled(self, mask: Expr<'a>, value: impl Into<AttrValue>) -> Expr<'a> {
        self.calls.one("masked_fill", &[self, mask], Attrs::new().with("value", value))
    }

    /// Returns the elements that are greater than a number, and the number for the others.
    pub(crate) fn clamp_min(self, min: impl Into<AttrValue>) -> Expr<'a> {
        self.op("clamp_min", Attrs::new().with("min", min))
    }

    /// Returns the sums along dimensions, which stay with length 1 if `keepdim`.
    pub(crate) fn sum(self, dims: &[i64], keepdim: bool) -> Expr<'a> {
        let attrs = Attrs::new().with("dim", dims.to_vec());
        self.op("sum", if keepdim { attrs.with("keepdim", true) } else { attrs })
    }

    /// Returns the means along dimensions, which stay with length 1.
    pub(crate) fn means(self, dims: &[i64]) -> Expr<'a> {
        self.op("mean", Attrs::new().with("dim", dims.to_vec()).with("keepdim", true))
    }

    /// Returns the elements in reverse order along dimensions.
    pub(crate) fn flip(self, dims: &[i64]) -> Expr<'a> {
        self.op("flip", Attrs::new().with("dims", dims.to_vec()))
    }

    /// Returns a tensor with the elements that a dropout of this probability kept, scaled.
    pub(crate) fn undropped(self, mask: Expr<'a>, p: f64) -> Expr<'a> {
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        let attrs = Attrs::new().with("scale", scale);
        self.calls.one("native_dropout_backward", &[self, mask], attrs)
    }

    /// Returns the tensor in another dtype, or as it is if it has this one.
    pub(crate) fn cast(self, dtype: DType) -> Expr<'a> {
        match self.dtype() == dtype {
            true => self,
            false => self.op("cast", Attrs::new().with("dtype", dtype)),
        }
    }

    /// Returns the elements in row-major order in another shape.
    pub(crate) fn reshape(self, shape: &[i64]) -> Expr<'a> {
        self.op("reshape", Attrs::new().with("shape", shape.to_vec()))
    }

    /// Returns a view with two dimensions exchanged.
    pub(crate) fn transpose(self, dim0: i64, dim1: i64) -> Expr<'a> {
        self.op("transpose", Attrs::new().with("dim0", dim0).with("dim1", dim1))
    }

    /// Returns a view of a range along a dimension.
    pub(crate) fn narrow(self, dim: i64, start: i64, length: i64) -> Expr<'a> {
        self.op("narrow", along(dim).with("start", start).with("length", length))
    }

    /// Returns a view of one index of a dimension.
    pub(crate) fn select(self, dim: i64, index: i64) -> Expr<'a> {
        self.op("select", along(dim).with("index", index))
    }

    /// Returns a row-major copy.
    pub(crate) fn contiguous(self) -> Expr<'a> {
        self.op("clone", Attrs::new().with("memory_format", "contiguous"))
    }

    /// Returns the tensor if its elements lie in row-major order without gaps, else such a copy.
    pub(crate) fn dense(self) -> Expr<'a> {
        match self.spec() {
            Ok(spec) if !spec.layout.is_contiguous() => self.op("copy", Attrs::new()),
            _ => self,
        }
    }

    /// Returns a row-major copy of a view, in another shape.
    pub(crate) fn copied(self, shape: &[i64]) -> Expr<'a> {
        self.contiguous().op("view", Attrs::new().with("size", shape.to_vec()))
    }

    /// Returns the adjoint of matrices.
    pub(crate) fn adjoint(self) -> Expr<'a> {
        self.transpose(-1, -2).conj()
    }

    /// Returns a view with its dimensions in another order.
    pub(crate) fn permute(self, dims: Vec<i64>) -> Expr<'a> {
        self.op("permute", Attrs::new().with("dims", dims))
    }

    /// Returns the tensor with zeros around it: pairs of numbers, from the last dimension.
    pub(crate) fn padded(self, pad: Vec<i64>) -> Expr<'a> {
        self.op("constant_pad_nd", Attrs::new().with("pad", pad))
    }

    /// Returns the lower triangles of matrices.
    pub(crate) fn tril(self, diagonal: i64) -> Expr<'a> {
        self.op("tril", Attrs::new().with("diagonal", diagonal))
    }

    /// Returns the upper triangles of matrices.
    pub(crate) fn triu(self, diagonal: i64) -> Expr<'a> {
        self.op("triu", Attrs::new().with("diagonal", diagonal))
    }

    /// Returns a tensor of this one's shape and dtype of one value.
    pub(crate) fn full_like(self, value: impl Into<AttrValue>) -> Result<Expr<'a>> {
        Ok(self.calls.full(self.shape()?, value, self.dtype()))
    }

    /// Returns the complex conjugate; a real tensor is its own.
    pub(crate) fn conj(self) -> Expr<'a> {
        if self.dtype().is_complex() { self.op("conj_physical", Attrs::new()) } else { self }
    }

    /// Returns views of the real and the imaginary parts.
    pub(crate) fn parts(self) -> [Expr<'a>; 2] {
        let both = self.op("view_as_real", Attrs::new());
        [both.select(-1, 0), both.select(-1, 1)]
    }

    /// Returns a view in a shape that this one broadcasts to.
    pub(crate) fn expand(self, size: &[i64]) -> Expr<'a> {
        self.op("expand", Attrs::new().with("size", size.to_vec()))
    }
}

impl<'a> Neg for Expr<'a> {
    type Output = Expr<'a>;

    fn neg(self) -> Expr<'a> {
        self.op("neg", Attrs::new())
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident)*) => {
        $(impl<'a, R: Into<Second<'a>>> $operator<R> for Expr<'a> {
            type Output = Expr<'a>;

            fn $method(self, other: R) -> Expr<'a> {
                self.with(stringify!($method), other, Attrs::new())
            }
        })*
    };
}

operators!(Add add Sub sub Mul mul Div div);
