//! The calls that expansions make, in short forms.

use millstream_types::{AttrValue, Attrs, DType, Result, TensorSpec};

use crate::args::dimension;
use crate::promotion::{common_dtype, floating};

use super::{Emitter, Symbol, wrong};

/// Makes the calls of one expansion.
pub(crate) struct Calls<'a> {
    pub(crate) emitter: &'a mut dyn Emitter,
}

/// Returns lengths as an argument.
pub(crate) fn ints(lengths: &[usize]) -> Vec<i64> {
    lengths.iter().map(|&length| length as i64).collect()
}

/// Returns the argument `dim`.
pub(crate) fn along(dim: i64) -> Attrs {
    Attrs::new().with("dim", dim)
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

impl Calls<'_> {
    /// Returns the dtype, shape and layout of a tensor.
    pub(crate) fn spec(&self, x: Symbol) -> &TensorSpec {
        self.emitter.spec(x)
    }

    /// Returns the dtype of a tensor.
    pub(crate) fn dtype(&self, x: Symbol) -> DType {
        self.spec(x).dtype
    }

    /// Returns the number of dimensions of a tensor.
    pub(crate) fn rank(&self, x: Symbol) -> usize {
        self.spec(x).shape().len()
    }

    /// Returns the lengths of a tensor.
    pub(crate) fn shape(&self, x: Symbol) -> Vec<i64> {
        ints(self.spec(x).shape())
    }

    /// Calls an op.
    pub(crate) fn call(
        &mut self,
        op: &str,
        inputs: &[Symbol],
        attrs: Attrs,
    ) -> Result<Vec<Symbol>> {
        self.emitter.call(op, inputs, attrs)
    }

    /// Calls an op and returns its first result.
    pub(crate) fn one(&mut self, op: &str, inputs: &[Symbol], attrs: Attrs) -> Result<Symbol> {
        let made = self.call(op, inputs, attrs)?;
        made.first().copied().ok_or_else(|| wrong(format!("'{op}' returns no tensor")))
    }

    /// Calls an op with as many results as the array has.
    pub(crate) fn several<const N: usize>(
        &mut self,
        op: &str,
        inputs: &[Symbol],
        attrs: Attrs,
    ) -> Result<[Symbol; N]> {
        let made = self.call(op, inputs, attrs)?;
        made.try_into().map_err(|_| wrong(format!("'{op}' does not return {N} tensors")))
    }

    /// Calls an op without arguments.
    pub(crate) fn apply(&mut self, op: &str, inputs: &[Symbol]) -> Result<Symbol> {
        self.one(op, inputs, Attrs::new())
    }

    /// Calls an op whose second operand is a number.
    pub(crate) fn by(
        &mut self,
        op: &str,
        x: Symbol,
        number: impl Into<AttrValue>,
    ) -> Result<Symbol> {
        self.one(op, &[x], Attrs::new().with("other", number))
    }

    /// Replaces the elements where a mask is true.
    pub(crate) fn filled(
        &mut self,
        x: Symbol,
        mask: Symbol,
        value: impl Into<AttrValue>,
    ) -> Result<Symbol> {
        self.one("masked_fill", &[x, mask], Attrs::new().with("value", value))
    }

    /// Returns a tensor with the elements that a dropout of this probability kept, scaled.
    pub(crate) fn undropped(&mut self, x: Symbol, mask: Symbol, p: f64) -> Result<Symbol> {
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        self.one("native_dropout_backward", &[x, mask], Attrs::new().with("scale", scale))
    }

    /// Returns the tensor in another dtype, or as it is if it has this one.
    pub(crate) fn cast(&mut self, x: Symbol, dtype: DType) -> Result<Symbol> {
        match self.dtype(x) == dtype {
            true => Ok(x),
            false => self.one("cast", &[x], Attrs::new().with("dtype", dtype)),
        }
    }

    /// Returns a tensor's elements in row-major order in another shape.
    pub(crate) fn reshape(&mut self, x: Symbol, shape: &[i64]) -> Result<Symbol> {
        self.one("reshape", &[x], Attrs::new().with("shape", shape.to_vec()))
    }

    /// Returns a tensor with a new dimension of length 1.
    pub(crate) fn unsqueeze(&mut self, x: Symbol, at: i64) -> Result<Symbol> {
        self.one("unsqueeze", &[x], along(at))
    }

    /// Returns a view with two dimensions exchanged.
    pub(crate) fn transpose(&mut self, x: Symbol, dim0: i64, dim1: i64) -> Result<Symbol> {
        self.one("transpose", &[x], Attrs::new().with("dim0", dim0).with("dim1", dim1))
    }

    /// Returns a view of a range along a dimension.
    pub(crate) fn narrow(&mut self, x: Symbol, at: i64, start: i64, length: i64) -> Result<Symbol> {
        self.one("narrow", &[x], along(at).with("start", start).with("length", length))
    }

    /// Returns a row-major copy.
    pub(crate) fn contiguous(&mut self, x: Symbol) -> Result<Symbol> {
        self.one("clone", &[x], Attrs::new().with("memory_format", "contiguous"))
    }

    /// Returns a row-major copy of a view, in another shape.
    pub(crate) fn copied(&mut self, x: Symbol, shape: &[i64]) -> Result<Symbol> {
        let copy = self.contiguous(x)?;
        self.one("view", &[copy], Attrs::new().with("size", shape.to_vec()))
    }

    /// Returns a new tensor of one value.
    pub(crate) fn full(
        &mut self,
        shape: Vec<i64>,
        value: impl Into<AttrValue>,
        dtype: DType,
    ) -> Result<Symbol> {
        let attrs = Attrs::new().with("shape", shape).with("value", value);
        self.one("full", &[], attrs.with("dtype", dtype))
    }

    /// Returns the whole numbers from 0 to an end.
    pub(crate) fn range(&mut self, end: i64, dtype: DType) -> Result<Symbol> {
        self.one("arange", &[], Attrs::new().with("end", end).with("dtype", dtype))
    }

    /// Returns a tensor of positions.
    pub(crate) fn positions(&mut self, of: impl Iterator<Item = i64>) -> Result<Symbol> {
        let all: Vec<f64> = of.map(|at| at as f64).collect();
        self.constant(&all, DType::I64)
    }

    /// Returns a tensor without dimensions.
    pub(crate) fn number(&mut self, number: f64, dtype: DType) -> Result<Symbol> {
        self.emitter.number(number, dtype)
    }

    /// Returns a tensor of these numbers.
    pub(crate) fn constant(&mut self, numbers: &[f64], dtype: DType) -> Result<Symbol> {
        self.emitter.list(numbers, dtype)
    }

    /// Computes a function of operands in their common float type, 16-bit floats in f32.
    pub(crate) fn in_floats(
        &mut self,
        operands: &[Symbol],
        f: impl FnOnce(&mut Self, &[Symbol]) -> Result<Symbol>,
    ) -> Result<Symbol> {
        let each = operands.iter().map(|&x| (self.dtype(x), self.rank(x)));
        let dtype = floating(common_dtype(each.collect::<Vec<_>>(), None)?);
        let mut converted = Vec::new();
        for &x in operands {
            converted.push(self.cast(x, wide(dtype))?);
        }
        let made = f(self, &converted)?;
        self.cast(made, dtype)
    }

    /// Returns views of the real and the imaginary parts.
    pub(crate) fn parts(&mut self, x: Symbol) -> Result<[Symbol; 2]> {
        let both = self.apply("view_as_real", &[x])?;
        let mut part = |index: i64| self.one("select", &[both], along(-1).with("index", index));
        Ok([part(0)?, part(1)?])
    }
}
