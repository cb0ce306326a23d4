//! Elementwise calls, bound: the function of an element, and the conversions of its inputs.
//!
//! Each op has one function from a call's dtypes, numbers and arguments to a [`Bound`]. Kernels
//! run it at each call, or once for a prepared kernel; `fused` runs it for each step of a program.
//! In-place ops have the same functions: a call without an output of its own writes to its first
//! input.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::Scalar;
use millstream_ops::promotion::common_dtype;
use millstream_types::{Attrs, DType};

use super::element::{Element, cast, dispatch, from_scalar};
use super::function::{Function, MAX_INPUTS};
use super::unsigned::{scalar_for, zero_extended};
use crate::context::RawTensor;

/// A function that binds the calls of an op.
pub(crate) type Bind = fn(&CallArgs<'_>) -> Result<Bound>;

/// An elementwise op: its name, and the function that binds its calls.
pub(crate) type ElementwiseOp = (&'static str, Bind);

/// The operands and arguments of a call. Binding reads no element, and no address.
#[derive(Clone, Copy)]
pub(crate) struct CallArgs<'a> {
    pub(crate) operands: &'a [RawTensor<'a>],
    pub(crate) attrs: &'a Attrs,
}

/// An input of an op.
#[derive(Clone, Copy)]
pub(crate) enum Input<T> {
    Tensor(T),
    Number(Scalar),
}

/// A tensor as far as type promotion depends on it.
pub(crate) trait Promoted {
    /// Returns the dtype and the number of dimensions.
    fn dtype_and_rank(&self) -> (DType, usize);
}

impl Promoted for RawTensor<'_> {
    fn dtype_and_rank(&self) -> (DType, usize) {
        (self.dtype, self.shape.len())
    }
}

impl Promoted for (DType, usize) {
    fn dtype_and_rank(&self) -> (DType, usize) {
        *self
    }
}

/// The types of the inputs and of the output of an op.
pub(crate) struct Call<const N: usize> {
    pub(crate) inputs: [Input<(DType, usize)>; N],
    pub(crate) out: DType,
}

/// An input of a bound call.
#[derive(Clone, Copy)]
pub(crate) enum BoundInput {
    /// The next tensor of the call. Its elements may be converted to another dtype first.
    Tensor { via: Option<DType> },
    /// A number, as a word of the type of computations.
    Number(u64),
}

/// An elementwise call without memory: its function, and how its inputs are read.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) function: Function,
    pub(crate) inputs: [BoundInput; MAX_INPUTS],
    /// The dtype that the inputs are converted to first.
    pub(crate) common: DType,
    /// Whether a zero in the second input fails the call.
    pub(crate) divides: bool,
}

impl<const N: usize> Call<N> {
    /// Returns the operands of a call. An input is a number if `numbers` holds the name of a given
    /// argument for it, else a tensor.
    pub(crate) fn of(args: &CallArgs<'_>, numbers: [&str; N]) -> Result<Call<N>> {
        let mut inputs = [Input::Number(Scalar::Int(0)); N];
        let mut next = 0;
        for (input, name) in inputs.iter_mut().zip(numbers) {
            let number = if name.is_empty() { None } else { Scalar::of(args.attrs, name)? };
            *input = match number {
                Some(number) => Input::Number(number),
                None => {
                    next += 1;
                    Input::Tensor(args.operand(next - 1)?.dtype_and_rank())
                }
            };
        }
        let out = args.operand(if args.operands.len() > next { next } else { 0 })?.dtype;
        Ok(Call { inputs, out })
    }

    /// Returns the dtype that the inputs promote to.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn common(&self) -> Result<DType> {
        common_of(&self.inputs)
    }

    /// Returns the call with its numbers rounded to `dtype`, as tensors are.
    pub(crate) fn rounded(mut self, dtype: DType) -> Call<N> {
        for input in &mut self.inputs {
            if let Input::Number(v) = input {
                dispatch!(dtype, D => {
                    if dtype.is_float() {
                        *v = Scalar::Float(cast(from_scalar::<D>(*v)));
                    }
                });
            }
        }
        self
    }

    /// Binds the call to a function. Inputs are converted to the dtype `common` first; beside
    /// floats, numbers keep their precision.
    pub(crate) fn bind(&self, common: DType, function: Function) -> Result<Bound> {
        let computed = function.computed();
        ensure!(function.inputs() == N, "{N} inputs: expected {}", function.inputs());
        let mut inputs = [BoundInput::Number(0); MAX_INPUTS];
        for (bound, input) in inputs.iter_mut().zip(&self.inputs) {
            *bound = match *input {
                Input::Tensor((dtype, _)) => {
                    let converts = dtype != common && common != computed;
                    BoundInput::Tensor { via: converts.then_some(common) }
                }
                Input::Number(v)
                    if common.is_float() || common.is_complex() || common == computed =>
                {
                    BoundInput::Number(word(v, computed, computed))
                }
                Input::Number(v) => BoundInput::Number(word(v, computed, common)),
            };
        }
        Ok(Bound { function, inputs, common, divides: false })
    }

    /// As [`Call::bind`], for a division: dividing an integer by zero is an error.
    pub(crate) fn bind_division(&self, common: DType, function: Function) -> Result<Bound> {
        Ok(Bound { divides: !common.is_float(), ..self.bind(common, function)? })
    }
}

impl<'a> CallArgs<'a> {
    fn operand(&self, index: usize) -> Result<&'a RawTensor<'a>> {
        let operand = self.operands.get(index);
        operand.with_context(|| format!("operand {index}: missing: schema and kernel disagree"))
    }
}

/// Returns a number as a word of the type `computed`, converted to the dtype `via` in between.
fn word(v: Scalar, computed: DType, via: DType) -> u64 {
    super::element::computed!(computed, T => {
        if via.is_wide_unsigned() {
            let bits = from_scalar::<i64>(scalar_for(v, via));
            return T::from_u64(zero_extended(bits, via)).to_word();
        }
        let v = from_scalar::<T>(v);
        dispatch!(via, V => cast::<V, T>(cast::<T, V>(v))).to_word()
    })
}

/// Returns the dtype that these inputs promote to.
///
/// # Errors
/// There is none.
pub(crate) fn common_of<T: Promoted>(inputs: &[Input<T>]) -> Result<DType> {
    let tensors = inputs.iter().filter_map(|i| match i {
        Input::Tensor(t) => Some(t.dtype_and_rank()),
        Input::Number(_) => None,
    });
    let numbers = inputs.iter().filter_map(|i| match i {
        Input::Tensor(_) => None,
        Input::Number(v) => Some(*v),
    });
    Ok(common_dtype(tensors, numbers)?)
}
