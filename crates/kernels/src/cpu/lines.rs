//! Lines along one dimension of a tensor, for ops that need a whole line at once.

use anyhow::{Result, ensure};
use millstream_types::Dims;

use super::element::Element;
use super::indexed::in_ranges;
use super::strided::Sequence;
use crate::context::{KernelCtx, RawTensor};

/// The lines of a shape along one dimension: `outer` times `inner` of them, each of `length`
/// elements with a stride of `inner`.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    outer: usize,
    length: usize,
    inner: usize,
}

/// Returns the lengths or strides of a tensor with dimension `dim` moved to the end: the elements
/// of a line are then consecutive. A tensor without dimensions is one line of one element.
pub(crate) fn with_last(of: &[usize], dim: usize) -> Dims {
    let others = of.iter().enumerate().filter(|(k, _)| *k != dim).map(|(_, &v)| v);
    others.chain([of.get(dim).copied().unwrap_or(1)]).collect()
}

/// The number of adjacent lines that are loaded together.
const LINES_AT_ONCE: usize = 64;

impl Lines {
    /// Returns the lines of `shape` along dimension `dim`. A shape without dimensions is one line
    /// of one element.
    pub(crate) fn new(shape: &[usize], dim: usize) -> Lines {
        let product = |part: &[usize]| part.iter().product();
        let rest = shape.get(dim + 1..).unwrap_or_default();
        Lines {
            outer: product(shape.get(..dim).unwrap_or_default()),
            length: shape.get(dim).copied().unwrap_or(1),
            inner: product(rest),
        }
    }

    /// Calls `f` with each line of all `inputs` and with the line of `out` that it computes.
    ///
    /// # Safety
    /// All are operands of the call, of the shape of these lines; `out` does not overlap itself or
    /// any input.
    ///
    /// # Errors
    /// Fails if the numbers of elements differ.
    pub(crate) unsafe fn map<T: Element, const N: usize>(
        self,
        ctx: &KernelCtx<'_>,
        inputs: [RawTensor<'_>; N],
        out: RawTensor<'_>,
        f: impl Fn([&[T]; N], &mut [T]) + Sync + Send,
    ) -> Result<()> {
        let Lines { outer, length, inner } = self;
        let count = out.numel();
        let agree = inputs.iter().all(|i| i.numel() == count) && outer * length * inner == count;
        ensure!(agree, "{inputs:?} to {out:?}: schema and kernel disagree");
        if count == 0 {
            return Ok(());
        }
        // SAFETY: guaranteed by the caller; every line is stored by one thread.
        let (from, to) = unsafe { (inputs.map(|i| Sequence::new(i)), Sequence::new(out)) };
        if inner == 1 {
            in_ranges(ctx, outer, length, |range| {
                let mut buffers: [Vec<T>; N] = std::array::from_fn(|_| Vec::new());
                let mut result = Vec::new();
                for line in range {
                    let mut buffers = buffers.iter_mut();
                    let lines = from.each_ref().map(|from| match buffers.next() {
                        // SAFETY: nothing writes the inputs: the output does not overlap them.
                        Some(buffer) => unsafe { from.elements(line * length, length, buffer) },
                        None => &[],
                    });
                    // SAFETY: every line of the output has one task.
                    unsafe {
                        to.compute(line * length, length, &mut result, |out| f(lines, out));
                    }
                }
            });
            return Ok(());
        }
        let at_a_time = LINES_AT_ONCE.min(inner);
        let across = inner.div_ceil(at_a_time);
        in_ranges(ctx, outer * across, at_a_time * length, |groups| {
            let mut lines: [Vec<T>; N] = std::array::from_fn(|_| vec![T::ZERO; at_a_time * length]);
            let mut results = vec![T::ZERO; at_a_time * length];
            let mut row = [T::ZERO; LINES_AT_ONCE];
            for group in groups {
                let first = group / across * length * inner + group % across * at_a_time;
                let width = at_a_time.min(inner - group % across * at_a_time);
                for (from, lines) in from.iter().zip(&mut lines) {
                    for k in 0..length {
                        from.load(first + k * inner, &mut row[..width]);
                        for (line, &v) in lines.chunks_mut(length).zip(&row[..width]) {
                            line[k] = v;
                        }
                    }
                }
                for (line, result) in results.chunks_mut(length).take(width).enumerate() {
                    f(lines.each_ref().map(|l| &l[line * length..(line + 1) * length]), result);
                }
                for k in 0..length {
                    for (v, line) in row.iter_mut().zip(results.chunks(length)) {
                        *v = line[k];
                    }
                    to.store(first + k * inner, &row[..width]);
                }
            }
        });
        Ok(())
    }
}
