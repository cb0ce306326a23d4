//! The loops of elementwise kernels: operands are loaded in chunks, as one of the three types of
//! [`compute!`](super::element::compute); a function computes each chunk, and the result is stored.
//!
//! The loops are compiled once for each type and number of operands; each op adds only its chunk
//! function. In-place ops have the same kernels: a call without an output of its own writes to its
//! first input.

use anyhow::{Result, ensure};
use millstream_ops::args::Scalar;
use millstream_ops::promotion::common_dtype;
use millstream_types::{DType, Layout};

use super::copy::convert;
use super::element::{Element, cast, dispatch, from_scalar};
use super::memory::{Temporary, is_same, may_overlap};
use super::strided::{BLOCK, CHUNK, Loop};
use super::traversal::Order;
use crate::context::{KernelCtx, RawTensor};

/// An input of an op.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    Tensor(RawTensor<'a>),
    Number(Scalar),
}

/// The inputs and the output of an op.
pub(crate) struct Call<'a, const N: usize> {
    ctx: &'a KernelCtx<'a>,
    pub(crate) inputs: [Input<'a>; N],
    pub(crate) out: RawTensor<'a>,
}

/// The function of a chunk: computes the last buffer from the first elements of the others, as many
/// as the second argument states.
pub(crate) type Chunk<'a, T, const BUFFERS: usize> =
    &'a (dyn Fn(&mut [[T; CHUNK]; BUFFERS], usize) + Sync);

impl<'a, const N: usize> Call<'a, N> {
    /// Returns the operands of a call. An input is a number if `numbers` holds the name of a given
    /// argument for it, else a tensor.
    pub(crate) fn of(ctx: &'a KernelCtx<'a>, numbers: [&str; N]) -> Result<Call<'a, N>> {
        let mut inputs = [Input::Number(Scalar::Int(0)); N];
        let mut next = 0;
        for (input, name) in inputs.iter_mut().zip(numbers) {
            *input = match Scalar::of(ctx.attrs(), name)? {
                Some(number) => Input::Number(number),
                None => {
                    next += 1;
                    Input::Tensor(ctx.operand(next - 1)?)
                }
            };
        }
        let out = ctx.operand(if ctx.operands() > next { next } else { 0 })?;
        Ok(Call { ctx, inputs, out })
    }

    /// Returns the dtype that the inputs promote to.
    pub(crate) fn common(&self) -> DType {
        common_of(&self.inputs)
    }

    /// Returns the call with its numbers rounded to `dtype`, as tensors are.
    pub(crate) fn rounded(mut self, dtype: DType) -> Call<'a, N> {
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

    /// Computes the output in `T`, chunk by chunk. Inputs are converted to the dtype `common`
    /// first; beside floats, numbers keep their precision.
    pub(crate) fn run<T: Element, const BUFFERS: usize>(
        &self,
        common: DType,
        chunk: Chunk<'_, T, BUFFERS>,
    ) -> Result<()> {
        ensure!(BUFFERS == N + 1, "{N} inputs and {BUFFERS} buffers");
        let out = self.out;
        let overlaps =
            Layout::strided(out.shape, out.strides, 0).map_or(true, |l| l.may_overlap_itself());
        ensure!(!overlaps, "{out:?} names elements twice: schema and kernel disagree");
        // An input that overlaps the output is copied: inputs are read in full before the output is
        // written.
        let mut copies: [Option<Temporary>; N] = std::array::from_fn(|_| None);
        let mut numbers = [T::ZERO; N];
        let mut operands = [out; BUFFERS];
        let mut convert_first = [false; BUFFERS];
        for (k, copy) in copies.iter_mut().enumerate() {
            operands[k] = match self.inputs[k] {
                Input::Tensor(x) if is_same(&x, &out) || !may_overlap(&x, &out) => x,
                Input::Tensor(x) => {
                    let copy = copy.insert(Temporary::new(x.dtype, x.shape)?).tensor();
                    // SAFETY: an operand of the call, and memory that the copy owns.
                    unsafe { convert(self.ctx, x, copy) }?;
                    copy
                }
                Input::Number(v) => {
                    numbers[k] = from_scalar(v);
                    let data = (&raw mut numbers[k]).cast();
                    RawTensor { data, dtype: T::DTYPE, shape: &[], strides: &[] }
                }
            };
            let exact = matches!(self.inputs[k], Input::Number(_)) && common.is_float();
            convert_first[k] = !exact && operands[k].dtype != common && common != T::DTYPE;
        }
        // SAFETY: operands of the call, copies of them, or numbers that live as long as this loop.
        // The output does not overlap itself, and each other operand is the output itself or does
        // not overlap it.
        let all = unsafe { Loop::new(out.shape, operands, Order::Any) }?;
        let buffers = |_| [[T::ZERO; CHUNK]; BUFFERS];
        all.for_each(self.ctx, BLOCK, buffers, |buffers, rows| {
            for at in (0..rows[N].len()).step_by(CHUNK) {
                let count = CHUNK.min(rows[N].len() - at);
                for k in 0..N {
                    let buffer = &mut buffers[k][..count];
                    if convert_first[k] {
                        rows[k].load_via(common, at, buffer);
                    } else {
                        rows[k].load(at, buffer);
                    }
                }
                chunk(buffers, count);
                rows[N].store(at, &buffers[N][..count]);
            }
        });
        Ok(())
    }
}

/// Returns the dtype that these inputs promote to.
pub(crate) fn common_of(inputs: &[Input<'_>]) -> DType {
    let tensors = inputs.iter().filter_map(|i| match i {
        Input::Tensor(t) => Some((t.dtype, t.shape.len())),
        Input::Number(_) => None,
    });
    let numbers = inputs.iter().filter_map(|i| match i {
        Input::Tensor(_) => None,
        Input::Number(v) => Some(*v),
    });
    common_dtype(tensors, numbers)
}

/// Applies a function of one element to a chunk.
pub(crate) fn one<T: Copy>(
    f: impl Fn(T) -> T + Sync,
) -> impl Fn(&mut [[T; CHUNK]; 2], usize) + Sync {
    move |[x, out], count| {
        for (out, &x) in out[..count].iter_mut().zip(&x[..count]) {
            *out = f(x);
        }
    }
}

/// Applies a function of two elements to a chunk.
pub(crate) fn two<T: Copy>(
    f: impl Fn(T, T) -> T + Sync,
) -> impl Fn(&mut [[T; CHUNK]; 3], usize) + Sync {
    move |[x, y, out], count| {
        let inputs = x[..count].iter().zip(&y[..count]);
        for (out, (&x, &y)) in out[..count].iter_mut().zip(inputs) {
            *out = f(x, y);
        }
    }
}

/// Applies a function of three elements to a chunk.
pub(crate) fn three<T: Copy>(
    f: impl Fn(T, T, T) -> T + Sync,
) -> impl Fn(&mut [[T; CHUNK]; 4], usize) + Sync {
    move |[x, y, z, out], count| {
        let inputs = x[..count].iter().zip(&y[..count]).zip(&z[..count]);
        for (out, ((&x, &y), &z)) in out[..count].iter_mut().zip(inputs) {
            *out = f(x, y, z);
        }
    }
}
