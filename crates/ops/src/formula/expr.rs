//! A tensor of a formula, with operators, and a method for each op that several formulas call.

use std::ops::{Add, Div, Mul, Neg, Sub};

use smallvec::SmallVec;

use millstream_types::{AttrValue, Attrs, DType, Result, TensorSpec};

use crate::promotion::{common_dtype, floating};

use super::{Calls, Symbol, along, ints, wide, wrong};

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
    /// Reads the dtype, shape and layout.
    ///
    /// # Errors
    /// A call was refused.
    pub(crate) fn of_spec<T>(self, read: impl Fn(&TensorSpec) -> T) -> Result<T> {
        let mut found = None;
        self.calls.0.look(self.symbol, &mut |spec| found = Some(read(spec)))?;
        found.ok_or_else(|| wrong("a tensor without a spec"))
    }

    /// Returns the dtype, shape and layout.
    ///
    /// # Errors
    /// A call was refused.
    pub(crate) fn spec(self) -> Result<TensorSpec> {
        self.of_spec(TensorSpec::clone)
    }

    /// Returns the dtype; f32 after a refusal.
    pub(crate) fn dtype(self) -> DType {
        self.of_spec(|spec| spec.dtype).unwrap_or(DType::F32)
    }

    /// Returns the number of dimensions.
    pub(crate) fn rank(self) -> Result<usize> {
        self.of_spec(|spec| spec.shape().len())
    }

    /// Returns the lengths.
    pub(crate) fn shape(self) -> Result<Vec<i64>> {
        self.of_spec(|spec| ints(spec.shape()))
    }

    /// Returns the number of elements.
    pub(crate) fn numel(self) -> Result<usize> {
        self.of_spec(TensorSpec::numel)
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
        let inputs: SmallVec<[Expr<'a>; 4]> = [self].into_iter().chain(others).collect();
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
        match self.of_spec(|spec| spec.layout.is_contiguous()) {
            Ok(false) => self.op("copy", Attrs::new()),
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
