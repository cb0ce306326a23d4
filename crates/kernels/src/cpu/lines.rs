//! Tensors taken as lines along one dimension, for ops that need a whole line at once.

use anyhow::{Result, ensure};

use super::element::Element;
use super::strided::{BLOCK, Sequence};
use crate::context::{KernelCtx, RawTensor};

/// The lines of a shape along one dimension: `outer` times `inner` of them, each of `length`
/// elements that are `inner` apart.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    outer: usize,
    length: usize,
    inner: usize,
}

/// Lines that lie side by side and are loaded together.
const ABREAST: usize = 64;

impl Lines {
    /// The lines of `shape` along dimension `dim`; a shape of no dimensions is one line of one.
    pub(crate) fn new(shape: &[usize], dim: usize) -> Lines {
        let product = |part: &[usize]| part.iter().product();
        let rest = shape.get(dim + 1..).unwrap_or_default();
        Lines {
            outer: product(shape.get(..dim).unwrap_or_default()),
            length: shape.get(dim).copied().unwrap_or(1),
            inner: product(rest),
        }
    }

    /// Loads each line of all `inputs`, calls `f` with the lines, and stores what it has left in
    /// the first of them to `out`.
    ///
    /// # Safety
    /// All are operands of the call, of one shape, which these lines are of; `out` names no element
    /// twice and overlaps no input.
    ///
    /// # Errors
    /// Numbers of elements that differ.
    pub(crate) unsafe fn map<T: Element, const N: usize>(
        self,
        ctx: &KernelCtx<'_>,
        inputs: [RawTensor<'_>; N],
        out: RawTensor<'_>,
        f: impl Fn([&mut [T]; N]) + Sync + Send,
    ) -> Result<()> {
        let Lines { outer, length, inner } = self;
        let count = out.numel();
        let agree = inputs.iter().all(|i| i.numel() == count) && outer * length * inner == count;
        ensure!(agree, "{inputs:?} to {out:?}: schema and kernel disagree");
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise; every line is stored by one thread.
        let (from, to) = unsafe { (inputs.map(|i| Sequence::new(i)), Sequence::new(out)) };
        let abreast = ABREAST.min(inner);
        let across = inner.div_ceil(abreast);
        let groups = outer * across;
        let at_once = (BLOCK / (abreast * length)).max(1);
        ctx.for_each(groups.div_ceil(at_once), |task| {
            let mut lines: [Vec<T>; N] = std::array::from_fn(|_| vec![T::ZERO; abreast * length]);
            let mut row = [T::ZERO; ABREAST];
            for group in task * at_once..groups.min((task + 1) * at_once) {
                let first = group / across * length * inner + group % across * abreast;
                let width = abreast.min(inner - group % across * abreast);
                for (from, lines) in from.iter().zip(&mut lines) {
                    if inner == 1 {
                        from.load(first, lines);
                        continue;
                    }
                    for k in 0..length {
                        from.load(first + k * inner, &mut row[..width]);
                        for (line, &v) in lines.chunks_mut(length).zip(&row[..width]) {
                            line[k] = v;
                        }
                    }
                }
                for line in 0..width {
                    let range = line * length..(line + 1) * length;
                    f(lines.each_mut().map(|l| &mut l[range.clone()]));
                }
                if inner == 1 {
                    to.store(first, &lines[0]);
                    continue;
                }
                for k in 0..length {
                    for (v, line) in row.iter_mut().zip(lines[0].chunks(length)) {
                        *v = line[k];
                    }
                    to.store(first + k * inner, &row[..width]);
                }
            }
        });
        Ok(())
    }
}
